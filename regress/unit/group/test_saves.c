/*
 * What is saved, before which answers, and what a new coordinator makes of it: one save of a group at a time,
 * loading, fencing by an administrator, losing a slot.
 */
#include "regress/unit/group/sim.h"

static void
saved_before_answered(void)
{
	Sim s;

	sim_init(&s);
	sim_join(&s, .request = 1);
	sim_join(&s, .request = 2);
	sim_wait(&s, 0);
	sim_sync(&s, .request = 3, .member = "m1", .generation = 1, .assign = "m1=a1,m2=a2,m9=gone");
	(void) sim_trace(&s);
	sim_sync(&s, .request = 4, .member = "m2", .generation = 1);
	is_str(sim_trace(&s), "", "no SyncGroup is answered before the generation is saved");
	is_int(sim_beat(&s, "m1", NULL, 1), 0, "heartbeats are");
	sim_saved(&s, GROUP_SAVE_OK, 0);
	is_str(sim_trace(&s), "[Stable] S3:0:a1 S4:0:a2", "then all are; who is not there gets nothing");
	sim_saved(&s, GROUP_SAVE_OK, 0);
	is_str(sim_trace(&s), "", "an outcome that comes twice does nothing");

	/* A rebalance while it is out. */
	sim_join(&s, .request = 5, .member = "m1");
	sim_join(&s, .request = 6, .member = "m2");
	sim_sync(&s, .request = 7, .member = "m1", .generation = 2, .assign = "m1=b1");
	(void) sim_trace(&s);
	sim_join(&s, .request = 8);
	is_str(sim_trace(&s), "S7:27: [PreparingRebalance]", "a join while the save is out starts a rebalance");
	sim_saved(&s, GROUP_SAVE_OK, 0);
	is_str(sim_trace(&s), "", "the save of the generation that is over answers nobody");
	sim_join(&s, .request = 9, .member = "m1");
	sim_join(&s, .request = 10, .member = "m2");
	(void) sim_trace(&s);
	sim_sync(&s, .request = 11, .member = "m1", .generation = 3, .assign = "m1=c1");
	is_str(sim_trace(&s), "save:g3<2:m1=c1,m2=,m5=", "the next one follows on what SQL has");
	sim_free(&s);

	/* The next generation is ready before the save of the one before is back. */
	sim_init(&s);
	sim_join(&s, .request = 1);
	sim_wait(&s, 0);
	sim_sync(&s, .request = 2, .member = "m1", .generation = 1, .assign = "m1=a");
	sim_join(&s, .request = 3, .member = "m1", .protocols = "range=x");
	sim_sync(&s, .request = 4, .member = "m1", .generation = 2, .assign = "m1=b");
	is_str(sim_trace(&s),
		   "[PreparingRebalance] [CompletingRebalance] J1:0:g1:range:m1:m1[m1] save:g1<0:m1=a S2:27: "
		   "[PreparingRebalance] [CompletingRebalance] J3:0:g2:range:m1:m1[m1]",
		   "one save of a group at a time");
	sim_saved(&s, GROUP_SAVE_OK, 0);
	is_str(sim_trace(&s), "save:g2<1:m1=b", "then the next");
	sim_saved(&s, GROUP_SAVE_OK, 0);
	is_str(sim_trace(&s), "[Stable] S4:0:b", "and its answer");
	sim_free(&s);

	/* Left, joined again and left while the first save is out. */
	sim_init(&s);
	s.auto_save = true;
	sim_stable(&s, 1);
	s.auto_save = false;
	sim_leave(&s, 5, "m1", NULL);
	sim_join(&s, .request = 6);
	sim_wait(&s, 0);
	sim_leave(&s, 7, "m2", NULL);
	(void) sim_trace(&s);
	sim_saved(&s, GROUP_SAVE_OK, 0);
	is_str(sim_trace(&s), "L5:0 save:g4<2:", "the first LeaveGroup is answered by the first save");
	sim_saved(&s, GROUP_SAVE_OK, 0);
	is_str(sim_trace(&s), "L7:0", "the second by the second");
	sim_free(&s);

	/* A commit is fenced with what SQL will have when it gets there. */
	sim_init(&s);
	{
		int32_t saved = -7;

		sim_join(&s, .request = 1);
		sim_wait(&s, 0);
		sim_sync(&s, .request = 2, .member = "m1", .generation = 1, .assign = "m1=a");
		sim_join(&s, .request = 3);
		is_int(sim_commit(&s, "m1", 1, 8, &saved), 0, "in PreparingRebalance members commit");
		is_int(saved, 1, "the save that is out lands first");
		sim_saved(&s, GROUP_SAVE_OK, 0);
		is_int(sim_commit(&s, "m1", 1, 8, &saved), 0, "and after it landed");
		is_int(saved, 1, "it is what SQL has");
	}
	sim_free(&s);
}

/* What a save carried, as rows that can be loaded. */
typedef struct Kept
{
	GroupRow row;
	GroupMemberRow members[8];
	GroupProtocol protocols[8][4];
	char text[4096];
	size_t used;
} Kept;

static WStr
keep(Kept *k, WStr s)
{
	WStr copy = {k->text + k->used, s.len};

	if (s.len < 0)
		return WSTR_NULL;
	if (s.len > 0)
		memcpy(k->text + k->used, s.s, (size_t) s.len);
	k->used += (size_t) s.len;
	return copy;
}

static WBytes
keep_bytes(Kept *k, WBytes b)
{
	WStr s = keep(k, (WStr){(const char *) b.p, b.len});

	return (WBytes){(const uint8_t *) s.s, s.len};
}

static void
keep_row(Kept *k, const GroupRow *row)
{
	memset(k, 0, sizeof(*k));
	k->row = *row;
	k->row.group_id = keep(k, row->group_id);
	k->row.protocol_type = keep(k, row->protocol_type);
	k->row.protocol_name = keep(k, row->protocol_name);
	k->row.leader = keep(k, row->leader);
	k->row.members = k->members;
	for (int i = 0; i < row->member_count; i++)
	{
		GroupMemberRow *m = &k->members[i];

		*m = row->members[i];
		m->member_id = keep(k, m->member_id);
		m->instance_id = keep(k, m->instance_id);
		m->client_id = keep(k, m->client_id);
		m->client_host = keep(k, m->client_host);
		m->assignment = keep_bytes(k, m->assignment);
		for (int p = 0; p < m->protocol_count; p++)
			k->protocols[i][p] =
				(GroupProtocol){keep(k, m->protocols[p].name), keep_bytes(k, m->protocols[p].metadata)};
		m->protocols = k->protocols[i];
	}
}

/* m1 (static) and m2 in generation 1, as SQL has it. */
static void
make_kept(Kept *k)
{
	Sim s;
	const GroupAction *a;
	GroupAssignment assignments[2] = {{sim_id("i:m1", NULL), {(const uint8_t *) "a1", 2}},
									  {sim_id("m2", NULL), {(const uint8_t *) "a2", 2}}};
	GroupSync in = {3, WSTR_LIT(G), sim_id("i:m1", NULL), WSTR_LIT("i"), 1, WSTR_NULL, WSTR_NULL, assignments,
					2};

	sim_init(&s);
	sim_join(&s, .request = 1, .version = 5, .instance = "i", .protocols = "range=s1,sticky");
	sim_join(&s, .request = 2, .protocols = "range=s2");
	sim_wait(&s, 0);
	group_sync(s.set, s.now, &in);
	while ((a = group_next_action(s.set)) != NULL)
	{
		if (a->kind == GROUP_SAVE)
			keep_row(k, &a->u.save.row);
	}
	sim_free(&s);
}

static void
loaded(void)
{
	Sim s;
	Kept k;
	int32_t slot = group_slot(WSTR_LIT(G));

	make_kept(&k);
	sim_init(&s);
	group_slot_loading(s.set, slot);
	is_int(sim_beat(&s, "i:m1", "i", 1), KERR_COORDINATOR_LOAD_IN_PROGRESS,
		   "while a slot is loaded clients wait");
	sim_join(&s, .request = 1);
	is_str(sim_trace(&s), "J1:14:", "joiners too");
	ok(group_load(s.set, s.now, &k.row), "what was saved is loaded");
	ok(!group_load(s.set, s.now, &k.row), "once");
	s.now += 60000; /* loading takes a minute */
	group_slot_ready(s.set, s.now, slot);
	sim_drain(&s);
	sim_wait(&s, 9999);
	is_str(sim_trace(&s), "", "everybody has a whole session timeout from when they could be heard");
	is_int(sim_beat(&s, "i:m1", "i", 1), 0, "members go on in the same generation");
	is_int(sim_beat(&s, "m2", NULL, 1), 0, "all of them");
	is_int(sim_commit(&s, "m2", 1, 8, NULL), 0, "and commit");
	sim_sync(&s, .request = 2, .member = "m2", .generation = 1);
	is_str(sim_trace(&s), "S2:0:a2", "and get the same assignment");
	sim_join(&s, .request = 3, .member = "m2", .protocols = "range=s2");
	is_str(sim_trace(&s), "J3:0:g1:range:m1:m2[]", "a follower that joins again changes nothing");
	sim_join(&s, .request = 4, .instance = "i", .version = 9, .protocols = "range=s1,sticky");
	is_str(sim_trace(&s), "save:g1<1:m3=a1,m2=a2", "a static member comes back under its instance id");
	sim_saved(&s, GROUP_SAVE_OK, 0);
	(void) sim_trace(&s);
	sim_wait(&s, 10000);
	is_str(sim_trace(&s), "[PreparingRebalance] [Empty] save:g2<1:", "who does not come expires");
	sim_free(&s);

	sim_init(&s);
	s.config.max_size = 1;
	group_set_config(s.set, &s.config);
	group_slot_loading(s.set, slot);
	group_load(s.set, s.now, &k.row);
	group_slot_ready(s.set, s.now, slot);
	sim_drain(&s);
	is_str(sim_trace(&s), "[PreparingRebalance]", "a loaded group above group.max.size rebalances");
	sim_free(&s);

	/* Rows that cannot be. */
	sim_init(&s);
	group_slot_loading(s.set, slot);
	{
		GroupRow bad = k.row;
		GroupMemberRow twice[2] = {k.members[1], k.members[1]};

		bad.leader = WSTR_LIT("nobody");
		ok(!group_load(s.set, s.now, &bad), "a leader that is no member");
		bad = k.row;
		bad.protocol_name = WSTR_LIT("sticky");
		ok(!group_load(s.set, s.now, &bad), "a protocol that a member has not");
		bad = k.row;
		bad.generation = -3;
		ok(!group_load(s.set, s.now, &bad), "a negative generation");
		bad = k.row;
		bad.members = twice;
		bad.leader = twice[0].member_id;
		ok(!group_load(s.set, s.now, &bad), "a member twice");
		bad = k.row;
		bad.protocol_type = WSTR_NULL;
		ok(!group_load(s.set, s.now, &bad), "members without a protocol type");
		bad = (GroupRow){.group_id = WSTR_LIT(G), .protocol_type = WSTR_NULL, .protocol_name = WSTR_NULL};
		ok(group_load(s.set, s.now, &bad), "a simple group is one");
	}
	group_slot_ready(s.set, s.now, slot);
	sim_drain(&s);
	is_int(sim_state(&s), GROUP_EMPTY, "and Empty");
	sim_free(&s);
}

static void
fenced(void)
{
	Sim s;
	int32_t saved;

	/* The contract's example: members of 42 rejoin in 43. */
	sim_init(&s);
	s.auto_save = true;
	s.with_history = true;
	sim_stable(&s, 2);
	group_fence(s.set, s.now, WSTR_LIT(G), 2, WSTR_LIT("ticket 7"));
	sim_drain(&s);
	is_str(sim_trace(&s), "[PreparingRebalance]", "a fence rebalances");
	is_int(sim_commit(&s, "m1", 1, 8, NULL), KERR_ILLEGAL_GENERATION,
		   "no commit of the old generation is taken");
	is_int(sim_commit(&s, "m1", 2, 8, NULL), KERR_ILLEGAL_GENERATION, "nor one that guesses the new one");
	is_int(sim_beat(&s, "m2", NULL, 1), KERR_ILLEGAL_GENERATION,
		   "a heartbeat is told so too: REBALANCE_IN_PROGRESS would let it commit where it stands");
	sim_join(&s, .request = 3, .member = "m1");
	sim_join(&s, .request = 4, .member = "m2");
	is_str(sim_trace(&s), "[CompletingRebalance] J3:0:g2:range:m1:m1[m1,m2] J4:0:g2:range:m1:m2[]",
		   "they rejoin in the generation that SQL announced");
	sim_sync(&s, .request = 5, .member = "m1", .generation = 2, .assign = "m1=x");
	is_str(sim_trace(&s), "save:g2<2:m1=x,m2= hist:by an administrator: ticket 7:2>2:0ms [Stable] S5:0:x",
		   "and go on");
	sim_free(&s);

	/* A member that was about to rejoin does not know: it must not keep its positions. */
	sim_init(&s);
	s.auto_save = true;
	sim_stable(&s, 2);
	group_fence(s.set, s.now, WSTR_LIT(G), 2, WSTR_NULL);
	sim_drain(&s);
	sim_beat(&s, "m1", NULL, 1);
	(void) sim_trace(&s);
	sim_join(&s, .request = 3, .member = "m2");
	is_str(sim_trace(&s), "J3:25:m2", "who joins without having been told starts anew");
	sim_join(&s, .request = 4, .member = "m1");
	is_str(sim_trace(&s), "[CompletingRebalance] J4:0:g2:range:m1:m1[m1]", "who was told goes on");
	sim_free(&s);

	/* SQL was fenced behind the coordinator's back: its next save is refused. */
	sim_init(&s);
	sim_join(&s, .request = 1);
	sim_wait(&s, 0);
	sim_sync(&s, .request = 2, .member = "m1", .generation = 1, .assign = "m1=a");
	(void) sim_trace(&s);
	sim_saved(&s, GROUP_SAVE_MOVED, 1);
	is_str(sim_trace(&s), "S2:22: [PreparingRebalance]", "a save that SQL refuses for its generation");
	sim_join(&s, .request = 3, .member = "m1");
	sim_sync(&s, .request = 4, .member = "m1", .generation = 2, .assign = "m1=b");
	is_str(sim_trace(&s), "[CompletingRebalance] J3:0:g2:range:m1:m1[m1] save:g2<1:m1=b",
		   "a number that members know is not used again");
	sim_free(&s);

	/* An empty group only learns its generation; its own save follows. */
	sim_init(&s);
	sim_stable(&s, 1);
	sim_leave(&s, 3, "m1", NULL);
	(void) sim_trace(&s);
	sim_saved(&s, GROUP_SAVE_MOVED, 5);
	is_str(sim_trace(&s), "save:g5<5:", "the emptying is saved on top of it");
	sim_saved(&s, GROUP_SAVE_OK, 0);
	is_str(sim_trace(&s), "L3:0", "and answered");
	is_int(sim_commit(&s, "", -1, 8, &saved), 0, "a tool commits to the empty group");
	is_int(saved, 5, "in SQL's generation");
	sim_free(&s);
}

static void
slots(void)
{
	Sim s;

	sim_init(&s);
	sim_stable(&s, 1);
	sim_leave(&s, 3, "m1", NULL);
	sim_join(&s, .request = 4, .group = "other group");
	(void) sim_trace(&s);
	group_slot_lost(s.set, group_slot(WSTR_LIT(G)));
	sim_drain(&s);
	is_str(sim_trace(&s), "L3:16", "a slot is lost: whoever waits is sent away");
	sim_saved(&s, GROUP_SAVE_OK, 0);
	is_str(sim_trace(&s), "", "a save that comes back later finds nothing");
	is_int(sim_beat(&s, "m1", NULL, 1), KERR_NOT_COORDINATOR, "heartbeats are sent away");
	is_int(sim_commit(&s, "m1", 1, 8, NULL), KERR_NOT_COORDINATOR, "commits are");
	sim_sync(&s, .request = 5, .member = "m1", .generation = 1);
	sim_join(&s, .request = 6);
	is_str(sim_trace(&s), "S5:16: J6:16:", "and so on");
	sim_wait(&s, 0);
	ok(strstr(sim_trace(&s), "J4:0:") != NULL, "groups of other slots do not notice");
	sim_free(&s);

	/* A group of the same name that is made again does not take the old one's save for its own. */
	sim_init(&s);
	sim_join(&s, .request = 1);
	sim_wait(&s, 0);
	sim_sync(&s, .request = 2, .member = "m1", .generation = 1, .assign = "m1=a");
	{
		uint64_t serial = s.save_serial;

		group_slot_loading(s.set, group_slot(WSTR_LIT(G)));
		sim_drain(&s);
		group_slot_ready(s.set, s.now, group_slot(WSTR_LIT(G)));
		sim_drain(&s);
		sim_join(&s, .request = 3);
		sim_wait(&s, 0);
		sim_sync(&s, .request = 4, .member = "m2", .generation = 1, .assign = "m2=b");
		(void) sim_trace(&s);
		group_saved(s.set, s.now, WSTR_LIT(G), serial, GROUP_SAVE_OK, 0);
		sim_drain(&s);
		is_str(sim_trace(&s), "", "the outcome of a save from before the slot was lost and given again");
	}
	sim_free(&s);
}

static void
subscriptions(void)
{
	Sim s;
	static const uint8_t sub[] = {0, 1, 0, 0, 0, 2, 0, 1, 'a', 0, 1, 'b', 0xff, 0xff, 0xff, 0xff};
	GroupProtocol protocol = {WSTR_LIT("range"), {sub, sizeof(sub)}};
	GroupJoin in = {1,
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
					&protocol,
					1,
					{{0}}};

	sim_init(&s);
	s.auto_save = true;
	group_join(s.set, s.now, &in);
	sim_drain(&s);
	ok(group_subscribed(s.set, WSTR_LIT(G), WSTR_LIT("z")),
	   "before the first generation every topic counts as read");
	sim_wait(&s, 0);
	ok(group_subscribed(s.set, WSTR_LIT(G), WSTR_LIT("a")), "a topic that a member subscribes to");
	ok(group_subscribed(s.set, WSTR_LIT(G), WSTR_LIT("b")), "and another");
	ok(!group_subscribed(s.set, WSTR_LIT(G), WSTR_LIT("z")), "one that nobody does");
	is_int(group_check_offset_delete(s.set, WSTR_LIT(G)), 0, "a consumer group says what it reads");
	sim_free(&s);

	sim_init(&s);
	s.auto_save = true;
	sim_stable(&s, 1); /* its metadata is no subscription */
	ok(group_subscribed(s.set, WSTR_LIT(G), WSTR_LIT("z")), "what cannot be read protects every topic");
	sim_leave(&s, 3, "m1", NULL);
	ok(!group_subscribed(s.set, WSTR_LIT(G), WSTR_LIT("z")), "until the group is empty");
	sim_free(&s);

	sim_init(&s);
	s.auto_save = true;
	sim_join(&s, .request = 1, .type = "connect", .protocols = "default");
	sim_wait(&s, 0);
	is_int(group_check_offset_delete(s.set, WSTR_LIT(G)), KERR_NON_EMPTY_GROUP,
		   "a group of another kind does not");
	sim_free(&s);
}

int
main(void)
{
	saved_before_answered();
	loaded();
	fenced();
	slots();
	subscriptions();
	return tap_done();
}
