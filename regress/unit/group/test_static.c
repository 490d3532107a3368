/*
 * Static members (KIP-345, KIP-814): who comes with an instance id, and what becomes of the one before; and
 * protocols: votes, changes of metadata, members that have nothing in common.
 */
#include "regress/unit/group/sim.h"

/* m1 (static "i", leader) and m2 (dynamic), Stable in generation 1. */
static void
pair(Sim *s)
{
	sim_init(s);
	sim_join(s, .request = 1, .instance = "i", .version = 5, .protocols = "range,sticky");
	sim_join(s, .request = 2, .protocols = "range,sticky");
	sim_wait(s, 0);
	s->auto_save = true;
	sim_sync(s, .request = 3, .member = "m2", .generation = 1);
	sim_sync(s, .request = 4, .member = "m1", .instance = "i", .generation = 1, .assign = "i:m1=a1,m2=a2");
	s->auto_save = false;
	s->ids = 8;
	(void) sim_trace(s);
}

static void
replaced_when_stable(void)
{
	Sim s;

	pair(&s);
	sim_join(&s, .request = 9, .instance = "i", .version = 9, .protocols = "range,sticky");
	is_str(sim_trace(&s), "save:g1<1:m9=a1,m2=a2", "the new id is saved before it is told");
	sim_saved(&s, GROUP_SAVE_OK, 0);
	is_str(sim_trace(&s), "J9:0:g1:range:m9:m9[m9,m2]skip", "v9: the leader leads on and assigns nothing");
	is_int(sim_beat(&s, "m1", "i", 1), KERR_FENCED_INSTANCE_ID, "the old process is fenced");
	is_int(sim_beat(&s, "m1", NULL, 1), KERR_UNKNOWN_MEMBER_ID, "also without its instance id");
	is_int(sim_beat(&s, "m9", "i", 1), 0, "the new one is not");
	is_int(sim_beat(&s, "m2", NULL, 1), 0, "nobody rebalances");
	sim_sync(&s, .request = 10, .member = "m9", .instance = "i", .generation = 1);
	is_str(sim_trace(&s), "S10:0:a1", "it has the assignment of the old one");
	sim_sync(&s, .request = 11, .member = "m1", .instance = "i", .generation = 1);
	is_str(sim_trace(&s), "S11:82:", "whose SyncGroup is refused");
	sim_join(&s, .request = 12, .member = "m1", .instance = "i", .version = 9, .protocols = "range,sticky");
	is_str(sim_trace(&s), "J12:82:m1", "and whose JoinGroup is");
	is_int(sim_leave(&s, 13, "m1", "i"), KERR_FENCED_INSTANCE_ID, "and whose LeaveGroup is");
	sim_free(&s);

	pair(&s);
	sim_join(&s, .request = 9, .instance = "i", .version = 8, .protocols = "range,sticky");
	sim_saved(&s, GROUP_SAVE_OK, 0);
	ok(strstr(sim_trace(&s), "J9:0:g1:range:m1:m9[]") != NULL, "below v9 it is told that the old id leads");
	sim_free(&s);

	/* Replaced again before the first was saved. */
	pair(&s);
	sim_join(&s, .request = 9, .instance = "i", .version = 9, .protocols = "range,sticky");
	sim_join(&s, .request = 10, .instance = "i", .version = 9, .protocols = "range,sticky");
	is_str(sim_trace(&s), "save:g1<1:m9=a1,m2=a2 J9:82:m9", "replaced twice: the first is fenced at once");
	sim_saved(&s, GROUP_SAVE_OK, 0);
	is_str(sim_trace(&s), "save:g1<1:m10=a1,m2=a2", "the second waits for its own save");
	sim_saved(&s, GROUP_SAVE_OK, 0);
	is_str(sim_trace(&s), "J10:0:g1:range:m10:m10[m10,m2]skip", "and is answered by it");
	sim_free(&s);

	/* A rebalance begins while the save is out: the parked JoinGroup counts for it. */
	pair(&s);
	sim_join(&s, .request = 9, .instance = "i", .version = 9, .protocols = "range,sticky");
	sim_leave(&s, 10, "m2", NULL);
	is_str(sim_trace(&s),
		   "save:g1<1:m9=a1,m2=a2 [PreparingRebalance] [CompletingRebalance] J9:0:g2:range:m9:m9[m9] L10:0",
		   "a rebalance takes the parked JoinGroup along");
	sim_saved(&s, GROUP_SAVE_OK, 0);
	is_str(sim_trace(&s), "", "the save that comes back answers nobody twice");
	sim_free(&s);

	pair(&s);
	sim_join(&s, .request = 9, .instance = "i", .version = 9, .protocols = "range,sticky");
	(void) sim_trace(&s);
	sim_wait(&s, 8000);
	sim_beat(&s, "m2", NULL, 1);
	sim_wait(&s, 8000);
	sim_beat(&s, "m2", NULL, 1);
	sim_wait(&s, 4000);
	is_str(sim_trace(&s), "J9:15:", "a save that does not come back: a retriable error");
	sim_free(&s);
}

/* Its old process never synced, so the sync phase puts it out while the new one waits for its save. */
static void
put_out_while_replaced(void)
{
	Sim s;

	sim_init(&s);
	sim_join(&s, .request = 1);
	sim_join(&s, .request = 2, .instance = "i", .version = 5);
	sim_wait(&s, 0);
	s.auto_save = true;
	sim_sync(&s, .request = 3, .member = "m1", .generation = 1, .assign = "m1=a");
	s.auto_save = false;
	for (int i = 0; i < 5; i++)
	{
		sim_wait(&s, 5000);
		sim_beat(&s, "m1", NULL, 1);
		sim_beat(&s, "m2", "i", 1);
	}
	(void) sim_trace(&s);
	sim_join(&s, .request = 9, .instance = "i", .version = 5);
	sim_wait(&s, 5000);
	is_str(sim_trace(&s), "save:g1<1:m1=a,m3= J9:25: [PreparingRebalance]",
		   "a parked JoinGroup of a member that is put out");
	sim_free(&s);
}

static void
replaced_in_other_states(void)
{
	Sim s;

	/* Another protocol is chosen without the old one's vote. */
	pair(&s);
	sim_join(&s, .request = 9, .instance = "i", .version = 9, .protocols = "sticky");
	is_str(sim_trace(&s), "[PreparingRebalance]", "a replacement that changes the protocol rebalances");
	sim_join(&s, .request = 10, .member = "m2", .protocols = "range,sticky");
	is_str(sim_trace(&s), "[CompletingRebalance] J9:0:g2:sticky:m9:m9[m9,m2] J10:0:g2:sticky:m9:m2[]",
		   "to what both have");
	sim_free(&s);

	/* While the leader assigns. */
	sim_init(&s);
	sim_join(&s, .request = 1, .instance = "i", .version = 5);
	sim_join(&s, .request = 2);
	sim_wait(&s, 0);
	sim_sync(&s, .request = 3, .member = "m1", .instance = "i", .generation = 1, .assign = "i:m1=a");
	s.ids = 8;
	(void) sim_trace(&s);
	sim_join(&s, .request = 9, .instance = "i", .version = 9);
	is_str(sim_trace(&s), "S3:82: [PreparingRebalance]",
		   "in CompletingRebalance: fenced, and all join again");
	sim_free(&s);

	/* While both wait for others. */
	pair(&s);
	sim_join(&s, .request = 7, .member = "m1", .instance = "i", .protocols = "range,sticky");
	sim_join(&s, .request = 9, .instance = "i", .version = 9, .protocols = "range,sticky");
	is_str(sim_trace(&s), "[PreparingRebalance] J7:82:m1", "in PreparingRebalance: the parked one is fenced");
	sim_join(&s, .request = 10, .member = "m2", .protocols = "range,sticky");
	is_str(sim_trace(&s), "[CompletingRebalance] J9:0:g2:range:m10:m10[m10,m2] J10:0:g2:range:m10:m2[]",
		   "and the new one is in the generation");
	sim_free(&s);
}

static void
leaving(void)
{
	Sim s;
	GroupLeaver leavers[4] = {{WSTR_LIT(""), WSTR_LIT("i"), WSTR_NULL, 0},
							  {WSTR_LIT(""), WSTR_LIT("nobody"), WSTR_NULL, 0},
							  {sim_id("m77", NULL), WSTR_NULL, WSTR_NULL, 0},
							  {sim_id("m2", NULL), WSTR_NULL, WSTR_LIT("bye"), 0}};

	pair(&s);
	s.with_history = true;
	group_leave(s.set, s.now, 9, WSTR_LIT(G), leavers, 4);
	sim_drain(&s);
	is_int(leavers[0].error, 0, "by instance id");
	is_int(leavers[1].error, KERR_UNKNOWN_MEMBER_ID, "an instance id that is nobody's");
	is_int(leavers[2].error, KERR_UNKNOWN_MEMBER_ID, "a member that is not there");
	is_int(leavers[3].error, 0, "a dynamic member");
	is_str(sim_trace(&s), "[PreparingRebalance] [Empty] save:g2<1: hist:member left:2>0:0ms",
		   "both have left: the answer waits until that is saved");
	sim_saved(&s, GROUP_SAVE_OK, 0);
	is_str(sim_trace(&s), "L9:0", "then it comes");
	sim_free(&s);

	pair(&s);
	is_int(group_kick(s.set, s.now, WSTR_LIT(G), WSTR_NULL, WSTR_LIT("i"), WSTR_LIT("host is gone")), 0,
		   "an administrator removes a static member by its instance id");
	sim_drain(&s);
	sim_join(&s, .request = 9, .member = "m2", .protocols = "range,sticky");
	s.with_history = true;
	sim_sync(&s, .request = 10, .member = "m2", .generation = 2, .assign = "m2=all");
	ok(strstr(sim_trace(&s), "hist:by an administrator: member removed: host is gone:2>1") != NULL,
	   "the history has the reason given");
	sim_free(&s);
}

static void
protocols(void)
{
	Sim s;

	sim_init(&s);
	sim_join(&s, .request = 1, .protocols = "range,sticky,rr");
	sim_join(&s, .request = 2, .protocols = "sticky,rr");
	sim_join(&s, .request = 3, .protocols = "rr,sticky");
	sim_wait(&s, 0);
	ok(strstr(sim_trace(&s), ":sticky:m1:") != NULL, "the one that most name first, of those that all have");
	sim_free(&s);

	sim_init(&s);
	sim_join(&s, .request = 1, .protocols = "range=x,range=y");
	sim_join(&s, .request = 2, .protocols = "range");
	sim_wait(&s, 0);
	ok(strstr(sim_trace(&s), ":range:m1:") != NULL, "a name given twice counts once");
	sim_free(&s);

	/* A cooperative consumer rejoins to give partitions up: the same generation step, twice. */
	sim_init(&s);
	s.auto_save = true;
	s.with_history = true;
	sim_join(&s, .request = 1, .protocols = "coop=owns0-1");
	sim_wait(&s, 0);
	sim_sync(&s, .request = 2, .member = "m1", .generation = 1, .assign = "m1=0-1");
	sim_join(&s, .request = 3, .protocols = "coop=");
	sim_join(&s, .request = 4, .member = "m1", .protocols = "coop=owns0-1");
	(void) sim_trace(&s);
	sim_sync(&s, .request = 5, .member = "m1", .generation = 2, .assign = "m1=0,m2=");
	sim_sync(&s, .request = 6, .member = "m2", .generation = 2);
	is_str(sim_trace(&s), "save:g2<1:m1=0,m2= hist:member joined:1>2:0ms [Stable] S5:0:0 S6:0:",
		   "first m1 is told to give 1 up");
	is_int(sim_commit(&s, "m1", 2, 8, NULL), 0, "it commits what it gives up");
	sim_join(&s, .request = 7, .member = "m1", .protocols = "coop=owns0");
	is_int(sim_commit(&s, "m2", 2, 8, NULL), 0, "the others go on meanwhile");
	is_int(sim_beat(&s, "m2", NULL, 2), KERR_REBALANCE_IN_PROGRESS, "and are called");
	sim_join(&s, .request = 8, .member = "m2", .protocols = "coop=");
	(void) sim_trace(&s);
	sim_sync(&s, .request = 9, .member = "m2", .generation = 3);
	sim_sync(&s, .request = 10, .member = "m1", .generation = 3, .assign = "m1=0,m2=1");
	is_str(sim_trace(&s), "save:g3<2:m1=0,m2=1 hist:metadata changed:2>2:0ms [Stable] S10:0:0 S9:0:1",
		   "then m2 gets it");
	sim_free(&s);

	/* A change of one member's metadata rebalances; none does not. */
	sim_init(&s);
	sim_stable(&s, 2);
	sim_join(&s, .request = 3, .member = "m2");
	is_str(sim_trace(&s), "J3:0:g1:range:m1:m2[]", "a follower that rejoins with the same is answered");
	sim_join(&s, .request = 4, .member = "m2", .protocols = "range=other");
	is_str(sim_trace(&s), "[PreparingRebalance]", "with another subscription all join again");
	sim_free(&s);

	/* The last member with a protocol leaves: another can be chosen. */
	sim_init(&s);
	sim_join(&s, .request = 1, .protocols = "range,sticky");
	sim_join(&s, .request = 2, .protocols = "range");
	sim_leave(&s, 3, "m2", NULL);
	sim_join(&s, .request = 4, .protocols = "sticky");
	sim_wait(&s, 0);
	ok(strstr(sim_trace(&s), ":sticky:") != NULL,
	   "a protocol that only a gone member lacked is possible again");
	sim_free(&s);
}

static void
max_size(void)
{
	Sim s;

	sim_init(&s);
	s.config.max_size = 2;
	group_set_config(s.set, &s.config);
	s.auto_save = true;
	sim_stable(&s, 2);
	sim_join(&s, .request = 3);
	is_str(sim_trace(&s), "J3:81:", "group.max.size: a third member is refused");
	sim_join(&s, .request = 4, .version = 5);
	is_str(sim_trace(&s), "J4:81:", "before it gets an id");
	s.config.max_size = 1;
	group_set_config(s.set, &s.config);
	sim_join(&s, .request = 5, .member = "m1");
	sim_join(&s, .request = 6, .member = "m2");
	is_str(sim_trace(&s), "[PreparingRebalance] J6:81: [CompletingRebalance] J5:0:g2:range:m1:m1[m1]",
		   "a lower limit puts the last to rejoin out");
	sim_free(&s);

	/* Pending ids do not count, but hold a join phase until they come or expire. */
	sim_init(&s);
	s.auto_save = true;
	sim_stable(&s, 1);
	sim_join(&s, .request = 2, .version = 5);
	sim_join(&s, .request = 3, .member = "m1");
	is_str(sim_trace(&s), "J2:79:m2 [PreparingRebalance]", "an id that was given out is waited for");
	sim_wait(&s, 10000);
	is_str(sim_trace(&s), "[CompletingRebalance] J3:0:g2:range:m1:m1[m1]", "for a session timeout");
	sim_join(&s, .request = 4, .member = "m2", .version = 5);
	is_str(sim_trace(&s), "J4:25:m2", "then it is unknown");
	sim_free(&s);

	sim_init(&s);
	sim_join(&s, .request = 1, .version = 5);
	sim_join(&s, .request = 2, .member = "m1", .version = 5);
	sim_wait(&s, 0);
	is_str(sim_trace(&s), "J1:79:m1 [PreparingRebalance] [CompletingRebalance] J2:0:g1:range:m1:m1[m1]",
		   "an id is given, then used");
	sim_free(&s);

	sim_init(&s);
	sim_join(&s, .request = 1, .version = 5);
	is_int(sim_state(&s), GROUP_EMPTY, "a group with only an id given out is there");
	sim_wait(&s, 10000);
	is_int(sim_state(&s), GROUP_DEAD, "and leaves nothing behind");
	sim_free(&s);
}

int
main(void)
{
	replaced_when_stable();
	put_out_while_replaced();
	replaced_in_other_states();
	leaving();
	protocols();
	max_size();
	return tap_done();
}
