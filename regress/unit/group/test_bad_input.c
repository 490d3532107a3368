/* What clients may send that makes no sense: each gets Kafka's code, no group is stuck or made by it. */
#include "regress/unit/group/sim.h"

static int
groups(Sim *s)
{
	GroupCounts c;

	group_counts(s->set, &c);
	return c.groups;
}

static void
group_ids(void)
{
	Sim s;
	char *longest = malloc(65537);

	memset(longest, 'x', 65536);
	longest[65536] = '\0';
	sim_init(&s);
	sim_join(&s, .request = 1, .group = "");
	sim_join(&s, .request = 2, .group = longest);
	is_str(sim_trace(&s), "J1:24: J2:24:", "JoinGroup: empty and 64 KB long");
	sim_sync(&s, .request = 3, .group = "", .member = "m1", .generation = 1);
	sim_sync(&s, .request = 4, .group = longest, .member = "m1", .generation = 1);
	is_str(sim_trace(&s), "S3:24: S4:24:", "SyncGroup");
	is_int(group_heartbeat(s.set, 0, WSTR_LIT(""), WSTR_LIT("m"), WSTR_NULL, 1), KERR_INVALID_GROUP_ID,
		   "Heartbeat");
	is_int(group_heartbeat(s.set, 0, WSTR_NULL, WSTR_LIT("m"), WSTR_NULL, 1), KERR_INVALID_GROUP_ID, "null");
	is_int(group_slot_check(s.set, (WStr){"a\0b", 3}), KERR_INVALID_GROUP_ID, "a NUL, which SQL cannot keep");
	is_int(group_slot_check(s.set, (WStr){longest, 32767}), 0, "32,767 bytes are fine");
	is_int(group_slot_check(s.set, (WStr){longest, 32768}), KERR_INVALID_GROUP_ID, "one more is not");
	group_leave(s.set, 0, 5, WSTR_LIT(""), NULL, 0);
	sim_drain(&s);
	is_str(sim_trace(&s), "L5:24", "LeaveGroup");
	is_int(groups(&s), 0, "no group was made");
	sim_free(&s);
	free(longest);
}

static void
joins(void)
{
	Sim s;
	GroupProtocol many[300];
	char names[300][8];
	GroupJoin in = {4,
					3,
					WSTR_LIT(G),
					WSTR_LIT(""),
					WSTR_NULL,
					WSTR_LIT("c"),
					WSTR_LIT("h"),
					WSTR_LIT("consumer"),
					WSTR_NULL,
					10000,
					10000,
					many,
					300,
					{{0}}};

	sim_init(&s);
	sim_join(&s, .request = 1, .session = 5999);
	sim_join(&s, .request = 2, .session = 1800001);
	sim_join(&s, .request = 3, .session = -1);
	is_str(sim_trace(&s),
		   "J1:26: J2:26: J3:26:", "session timeouts outside of group.min/max.session.timeout.ms");
	for (int i = 0; i < 300; i++)
	{
		snprintf(names[i], sizeof(names[i]), "p%d", i);
		many[i] = (GroupProtocol){wstr(names[i]), WBYTES_NULL};
	}
	group_join(s.set, s.now, &in);
	sim_drain(&s);
	is_str(sim_trace(&s), "J4:23:", "more protocols than anybody has");
	many[0].name = (WStr){"a\0b", 3};
	in.protocol_count = 1;
	group_join(s.set, s.now, &in);
	sim_drain(&s);
	is_str(sim_trace(&s), "J4:23:", "a protocol's name with a NUL");
	sim_join(&s, .request = 5, .type = "");
	sim_join(&s, .request = 6, .protocols = "");
	is_str(sim_trace(&s), "J5:23: J6:23:", "no protocol type, no protocol");
	in.instance_id = (WStr){"a\0b", 3};
	many[0].name = WSTR_LIT("range");
	group_join(s.set, s.now, &in);
	sim_drain(&s);
	is_str(sim_trace(&s), "J4:42:", "an instance id with a NUL");
	is_int(groups(&s), 0, "no group was made");

	/* A negative or zero rebalance timeout: Kafka takes it as it is. */
	s.auto_save = true;
	sim_join(&s, .request = 7, .rebalance = -5);
	sim_wait(&s, 0);
	sim_sync(&s, .request = 8, .member = "m6", .generation = 1, .assign = "m6=a");
	ok(s.answers[7] == 1 && s.answers[8] == 1, "a rebalance timeout below zero");
	sim_wait(&s, 60000);
	is_int(sim_state(&s), GROUP_EMPTY, "and no group is stuck by it");
	sim_free(&s);

	sim_init(&s);
	sim_join(&s, .request = 1, .version = 5);
	sim_join(&s, .request = 2, .version = 5, .member = "i:m1", .instance = "i");
	is_str(sim_trace(&s), "J1:79:m1 J2:25:m1", "an id that was given to nobody");
	sim_join(&s, .request = 3, .version = 5, .member = "c:m1", .instance = "c");
	is_str(sim_trace(&s), "J3:-1:m1",
		   "an instance id with an id that was given without one: as Kafka has it");
	sim_free(&s);
}

static void
client_ids(void)
{
	Sim s;
	static char big[32768];
	GroupProtocol protocol = {WSTR_LIT("range"), WBYTES_NULL};
	GroupJoin in = {1,
					5,
					WSTR_LIT(G),
					WSTR_LIT(""),
					WSTR_NULL,
					{big, 32767},
					WSTR_LIT("h"),
					WSTR_LIT("consumer"),
					WSTR_NULL,
					10000,
					10000,
					&protocol,
					1,
					{{0}}};
	const GroupAction *a;

	sim_init(&s);
	for (int i = 0; i + 1 < 32767; i += 2)
		memcpy(big + i, "\xc3\xa4", 2);
	big[0] = '\0';
	big[1] = 'x';
	group_join(s.set, s.now, &in);
	a = group_next_action(s.set);
	is_int(a->u.join.member_id.len, 200 + 37, "of a client id of 32 KB the member id has 200 bytes");
	ok(memchr(a->u.join.member_id.s, 0, (size_t) a->u.join.member_id.len) == NULL, "and no NUL");
	sim_free(&s);

	sim_init(&s);
	in.client_id = WSTR_NULL;
	group_join(s.set, s.now, &in);
	a = group_next_action(s.set);
	is_int(a->u.join.member_id.len, 37, "no client id");
	sim_free(&s);
}

/* Two processes with one instance id: the later one wins, again and again, and nothing is stuck. */
static void
two_with_one_instance_id(void)
{
	Sim s;

	sim_init(&s);
	s.auto_save = true;
	for (int i = 1; i <= 20; i++)
	{
		sim_join(&s, .request = i, .version = 5, .instance = "i");
		sim_wait(&s, 100);
	}
	for (int i = 1; i < 20; i++)
	{
		if (s.answers[i] != 1)
			break;
	}
	sim_trace(&s);
	is_int(s.answers[19], 1, "each is answered once");
	sim_sync(&s, .request = 30, .member = "i:m20", .instance = "i", .generation = 1, .assign = "i:m20=a");
	is_str(sim_trace(&s), "S30:22:", "a generation that is over");
	sim_wait(&s, 60000);
	is_int(sim_state(&s), GROUP_EMPTY, "nothing is stuck");
	sim_free(&s);
}

static void
assignments(void)
{
	Sim s;

	sim_init(&s);
	sim_join(&s, .request = 1);
	sim_join(&s, .request = 2);
	sim_wait(&s, 0);
	sim_leave(&s, 3, "m2", NULL);
	sim_join(&s, .request = 4, .member = "m1");
	(void) sim_trace(&s);
	sim_sync(&s, .request = 5, .member = "m1", .generation = 1, .assign = "m1=a,m2=b");
	is_str(sim_trace(&s), "S5:22:", "an assignment of a generation that is over");
	sim_sync(&s, .request = 6, .member = "m1", .generation = 2, .assign = "m1=a,m1=b,m2=gone,nobody=c");
	is_str(sim_trace(&s), "save:g2<0:m1=b",
		   "for members that left or never were; one named twice: the last counts");
	sim_free(&s);

	/* A follower that sends assignments decides nothing. */
	sim_init(&s);
	sim_join(&s, .request = 1);
	sim_join(&s, .request = 2);
	sim_wait(&s, 0);
	(void) sim_trace(&s);
	sim_sync(&s, .request = 3, .member = "m2", .generation = 1, .assign = "m1=x,m2=everything");
	is_str(sim_trace(&s), "", "a follower's assignments are passed over");
	sim_sync(&s, .request = 4, .member = "m1", .generation = 1, .assign = "");
	is_str(sim_trace(&s), "save:g1<0:m1=,m2=", "a leader's empty ones are taken");
	sim_saved(&s, GROUP_SAVE_OK, 0);
	is_str(sim_trace(&s), "[Stable] S4:0: S3:0:", "zero bytes for everybody");
	sim_free(&s);

	/* The same request number parked twice by one member: both are answered. */
	sim_init(&s);
	sim_join(&s, .request = 1);
	sim_join(&s, .request = 2);
	sim_wait(&s, 0);
	sim_sync(&s, .request = 3, .member = "m2", .generation = 1);
	sim_sync(&s, .request = 4, .member = "m2", .generation = 1);
	sim_sync(&s, .request = 5, .member = "m2", .generation = 1);
	ok(s.answers[3] == 1 && s.answers[4] == 1 && s.answers[5] == 0,
	   "a SyncGroup that is sent again: the last waits");
	sim_free(&s);
}

static void
other_groups(void)
{
	Sim s;

	sim_init(&s);
	s.auto_save = true;
	sim_stable(&s, 2);
	sim_join(&s, .request = 3, .group = "another", .member = "m1");
	is_str(sim_trace(&s), "J3:25:m1", "a member of one group is nobody in another");
	sim_join(&s, .request = 4, .group = "another");
	sim_wait(&s, 0);
	sim_sync(&s, .request = 5, .group = "another", .member = "m1", .generation = 1, .assign = "m1=x,m2=y");
	sim_trace(&s);
	sim_sync(&s, .request = 6, .member = "m2", .generation = 1);
	is_str(sim_trace(&s), "S6:0:a2", "nothing of this group was touched");
	sim_free(&s);
}

int
main(void)
{
	group_ids();
	joins();
	client_ids();
	two_with_one_instance_id();
	assignments();
	other_groups();
	return tap_done();
}
