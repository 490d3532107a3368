/* What groups cost: 10,000 in memory, heartbeats, a rebalance of 500 members; and protocols as SQL keeps them. */
#include <malloc.h>
#include <stdlib.h>
#include <time.h>

#include "brokerd/group/protocol_pack.h"
#include "regress/unit/group/sim.h"

#define GROUPS  10000
#define MEMBERS 5

static double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* of ours: the machine may be busy */
	return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static void
drain(GroupSet *set)
{
	const GroupAction *a;

	while ((a = group_next_action(set)) != NULL)
		;
}

/* 10,000 groups of five, each with an assignor's usual bytes. */
static void
memory(void)
{
	Sim s;
	static uint8_t metadata[120];
	GroupProtocol protocols[2] = {{WSTR_LIT("range"), {metadata, 120}},
								  {WSTR_LIT("cooperative-sticky"), {metadata, 120}}};
	size_t before = mallinfo2().uordblks;
	double took;
	GroupCounts counts;
	int wrong = 0;

	sim_init(&s);
	for (int g = 0; g < GROUPS; g++)
	{
		char name[64];
		GroupMemberRow members[MEMBERS];
		GroupRow row = {.protocol_type = WSTR_LIT("consumer"),
						.protocol_name = WSTR_LIT("range"),
						.generation = 7,
						.members = members,
						.member_count = MEMBERS};
		char ids[MEMBERS][64];

		snprintf(name, sizeof(name), "service-with-a-usual-name-%d", g);
		row.group_id = wstr(name);
		for (int m = 0; m < MEMBERS; m++)
		{
			snprintf(ids[m], sizeof(ids[m]), "consumer-1-00000000-0000-0000-0000-%012d", m);
			members[m] = (GroupMemberRow){.member_id = wstr(ids[m]),
										  .instance_id = WSTR_NULL,
										  .client_id = WSTR_LIT("consumer-1"),
										  .client_host = WSTR_LIT("/10.0.0.1"),
										  .session_timeout_ms = 45000,
										  .rebalance_timeout_ms = 300000,
										  .protocols = protocols,
										  .protocol_count = 2,
										  .assignment = {metadata, 100}};
		}
		row.leader = members[0].member_id;
		wrong += !group_load(s.set, s.now, &row);
	}
	is_int(wrong, 0, "%d groups of %d members are loaded", GROUPS, MEMBERS);
	group_counts(s.set, &counts);
	ok(mallinfo2().uordblks - before < (size_t) 100 << 20, "they take %d MiB (goal: below 100)",
	   (int) ((mallinfo2().uordblks - before) >> 20));

	took = seconds();
	for (int i = 0; i < 1000000; i++)
	{
		char name[64];
		char id[64];

		snprintf(name, sizeof(name), "service-with-a-usual-name-%d", i % GROUPS);
		snprintf(id, sizeof(id), "consumer-1-00000000-0000-0000-0000-%012d", i % MEMBERS);
		wrong += group_heartbeat(s.set, s.now + i / 1000, wstr(name), wstr(id), WSTR_NULL, 7) != KERR_NONE;
	}
	printf("# a heartbeat takes %d ns with the making of its ids\n", (int) ((seconds() - took) * 1000));
	is_int(wrong, 0, "a million heartbeats");
	ok(group_next_deadline(s.set) < s.now + 60000, "and their deadlines are known");
	sim_free(&s);
}

static void
rebalance_of_500(void)
{
	GroupConfig config;
	GroupSet *set;
	GroupProtocol protocol = {WSTR_LIT("range"), {(const uint8_t *) "subscription", 12}};
	GroupJoin in = {.version = 3,
					.group_id = WSTR_LIT(G),
					.member_id = WSTR_LIT(""),
					.instance_id = WSTR_NULL,
					.client_id = WSTR_LIT("c"),
					.client_host = WSTR_LIT("/h"),
					.protocol_type = WSTR_LIT("consumer"),
					.reason = WSTR_NULL,
					.session_timeout_ms = 10000,
					.rebalance_timeout_ms = 10000,
					.protocols = &protocol,
					.protocol_count = 1};
	double took = seconds();
	int answered = 0;
	const GroupAction *a;

	group_config_defaults(&config);
	config.initial_rebalance_delay_ms = 0;
	set = group_set_new(&config);
	group_slot_loading(set, group_slot(WSTR_LIT(G)));
	drain(set);
	group_slot_ready(set, 1, group_slot(WSTR_LIT(G)));
	drain(set);
	for (int i = 1; i <= 500; i++)
	{
		in.request = (uint64_t) i;
		in.fresh_id.b[15] = (uint8_t) i;
		in.fresh_id.b[14] = (uint8_t) (i >> 8);
		group_join(set, 1, &in);
		drain(set);
	}
	group_on_time(set, 1);
	while ((a = group_next_action(set)) != NULL)
		answered += a->kind == GROUP_ANSWER_JOIN && a->error == KERR_NONE;
	is_int(answered, 500, "500 members join");
	ok(seconds() - took < 0.5, "in %d ms of the coordinator's time", (int) ((seconds() - took) * 1000));
	group_set_free(set);
}

static void
packing(void)
{
	GroupProtocol in[2] = {{WSTR_LIT("range"), {(const uint8_t *) "\0\1", 2}}, {WSTR_LIT(""), WBYTES_NULL}};
	GroupProtocol out[2];
	uint8_t packed[64];
	size_t size = protocol_pack_size(in, 2);
	int wrong = 0;

	protocol_pack(in, 2, packed);
	is_int(size, 21, "two protocols");
	is_int(protocol_unpack((WBytes){packed, (int32_t) size}, out, 2), 2, "come back");
	ok(wstr_eq(out[0].name, in[0].name) && out[0].metadata.len == 2 &&
		   memcmp(out[0].metadata.p, "\0\1", 2) == 0 && out[1].name.len == 0 && out[1].metadata.len == 0,
	   "as they were");
	for (int32_t i = 0; i < (int32_t) size; i++)
		wrong += protocol_unpack((WBytes){packed, i}, out, 2) >= 0;
	is_int(wrong, 0, "no prefix does");
	is_int(protocol_unpack((WBytes){packed, (int32_t) size + 1}, out, 2), -1, "nor with a byte behind");
	is_int(protocol_unpack((WBytes){packed, (int32_t) size}, out, 1), -1, "nor more than there is room for");
}

int
main(void)
{
	memory();
	rebalance_of_500();
	packing();
	return tap_done();
}
