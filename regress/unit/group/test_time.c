/* Timers, with a clock that the test moves: the initial delay, sessions, the join phase, the sync phase. */
#include "regress/unit/group/sim.h"

static void
delayed(Sim *s, int delay)
{
	sim_init(s);
	s->config.initial_rebalance_delay_ms = delay;
	group_set_config(s->set, &s->config);
}

static void
initial_delay(void)
{
	Sim s;

	delayed(&s, 3000);
	sim_join(&s, .request = 1);
	sim_wait(&s, 2999);
	is_str(sim_trace(&s), "[PreparingRebalance]",
		   "the first rebalance waits for group.initial.rebalance.delay.ms");
	sim_wait(&s, 1);
	is_str(sim_trace(&s), "[CompletingRebalance] J1:0:g1:range:m1:m1[m1]", "and ends with it");
	sim_free(&s);

	delayed(&s, 3000);
	sim_join(&s, .request = 1);
	sim_wait(&s, 2000);
	sim_join(&s, .request = 2);
	sim_wait(&s, 3999);
	is_str(sim_trace(&s), "[PreparingRebalance]",
		   "another join extends it by one delay, from the end of the first");
	sim_wait(&s, 1);
	is_str(sim_trace(&s), "[CompletingRebalance] J1:0:g1:range:m1:m1[m1,m2] J2:0:g1:range:m1:m2[]",
		   "then both go");
	sim_free(&s);

	delayed(&s, 3000);
	sim_join(&s, .request = 1, .rebalance = 10000);
	for (int i = 2; i <= 30; i++)
	{
		sim_wait(&s, 500);
		if (s.answers[1] > 0)
			break;
		sim_join(&s, .request = i, .rebalance = 10000);
	}
	is_int(s.now - 1000000, 10000, "joins extend it up to the rebalance timeout, no longer");
	sim_free(&s);

	delayed(&s, 3000);
	sim_join(&s, .request = 1, .rebalance = 1000);
	sim_join(&s, .request = 2, .rebalance = 1000);
	sim_wait(&s, 3000);
	is_int(s.answers[1], 1, "a rebalance timeout below the delay leaves one delay");
	sim_free(&s);

	delayed(&s, 0);
	sim_join(&s, .request = 1);
	is_int(group_next_deadline(s.set), s.now, "without a delay it is over at once");
	sim_free(&s);

	delayed(&s, 3000);
	sim_join(&s, .request = 1);
	sim_leave(&s, 2, "m1", NULL);
	(void) sim_trace(&s);
	sim_wait(&s, 3000);
	is_str(sim_trace(&s), "[Empty] save:g1<0:", "all left during the delay: an empty generation");
	sim_free(&s);
}

static void
sessions(void)
{
	Sim s;

	sim_init(&s);
	s.auto_save = true;
	sim_stable(&s, 2);
	for (int i = 0; i < 20; i++)
	{
		sim_wait(&s, 9999);
		if (sim_beat(&s, "m1", NULL, 1) != 0 || sim_beat(&s, "m2", NULL, 1) != 0)
			break;
	}
	is_str(sim_trace(&s), "", "heartbeats keep members for ever");
	sim_wait(&s, 9999);
	is_int(sim_beat(&s, "m1", NULL, 1), 0, "m1 is heard of a millisecond before its end");
	sim_wait(&s, 1);
	is_str(sim_trace(&s), "[PreparingRebalance]", "m2 is not: the group rebalances");
	is_int(sim_beat(&s, "m1", NULL, 1), KERR_REBALANCE_IN_PROGRESS, "m1 is told so");
	is_int(sim_beat(&s, "m2", NULL, 1), KERR_UNKNOWN_MEMBER_ID, "m2 is unknown");
	s.with_history = true;
	sim_join(&s, .request = 3, .member = "m1");
	is_str(sim_trace(&s), "[CompletingRebalance] J3:0:g2:range:m1:m1[m1]", "m1 goes on alone");
	sim_sync(&s, .request = 4, .member = "m1", .generation = 2, .assign = "m1=b");
	is_str(sim_trace(&s),
		   "save:g2<1:m1=b hist:member left: session timed out after 10 s:2>1:0ms [Stable] S4:0:b",
		   "the history says why");
	sim_free(&s);

	/* Commits are a sign of life, of members only. */
	sim_init(&s);
	s.auto_save = true;
	sim_stable(&s, 1);
	sim_wait(&s, 9000);
	is_int(sim_commit(&s, "m1", 1, 8, NULL), 0, "a commit");
	sim_wait(&s, 9999);
	is_int(sim_state(&s), GROUP_STABLE, "keeps a session alive");
	sim_wait(&s, 1);
	is_int(sim_state(&s), GROUP_EMPTY, "for one session timeout");
	sim_free(&s);

	/* Different timeouts in one group. */
	sim_init(&s);
	s.auto_save = true;
	sim_join(&s, .request = 1, .session = 30000);
	sim_join(&s, .request = 2, .session = 6000);
	sim_wait(&s, 0);
	sim_sync(&s, .request = 3, .member = "m1", .generation = 1, .assign = "m1=a,m2=b");
	sim_sync(&s, .request = 4, .member = "m2", .generation = 1);
	(void) sim_trace(&s);
	sim_wait(&s, 5999);
	is_str(sim_trace(&s), "", "each member has its own timeout");
	sim_wait(&s, 1);
	is_str(sim_trace(&s), "[PreparingRebalance]", "the shorter one ends first");
	sim_free(&s);
}

/* A client that went away with its JoinGroup parked does not show; it must not hold a group for ever. */
static void
vanished(void)
{
	Sim s;

	sim_init(&s);
	s.auto_save = true;
	sim_stable(&s, 2);
	sim_join(&s, .request = 3); /* m3 asks and vanishes; m1 and m2 rejoin */
	sim_join(&s, .request = 4, .member = "m1");
	sim_join(&s, .request = 5, .member = "m2");
	(void) sim_trace(&s);
	sim_sync(&s, .request = 6, .member = "m1", .generation = 2, .assign = "m1=a,m2=b,m3=c");
	sim_sync(&s, .request = 7, .member = "m2", .generation = 2);
	(void) sim_trace(&s);
	for (int i = 0; i < 3; i++)
	{
		sim_wait(&s, 3000);
		sim_beat(&s, "m1", NULL, 2);
		sim_beat(&s, "m2", NULL, 2);
	}
	sim_wait(&s, 1001);
	is_str(sim_trace(&s), "[PreparingRebalance]",
		   "a member that never came back after its JoinGroup expires like any");
	sim_free(&s);

	/* It vanishes while others are slow to rejoin: the session does not end a parked JoinGroup ... */
	sim_init(&s);
	s.auto_save = true;
	sim_stable(&s, 2);
	sim_join(&s, .request = 3, .member = "m1");
	sim_wait(&s, 9000);
	sim_beat(&s, "m2", NULL, 1);
	sim_wait(&s, 9000);
	sim_beat(&s, "m2", NULL, 1);
	sim_wait(&s, 9000);
	sim_beat(&s, "m2", NULL, 1);
	is_str(sim_trace(&s), "[PreparingRebalance]", "a parked JoinGroup counts as a heartbeat");
	sim_wait(&s, 3000);
	is_str(sim_trace(&s), "[CompletingRebalance] J3:0:g2:range:m1:m1[m1]",
		   "the rebalance timeout drops who did not rejoin");
	sim_free(&s);

	/* ... but for a new member's, which ends after five minutes. */
	sim_init(&s);
	s.auto_save = true;
	sim_join(&s, .request = 1, .instance = "i", .version = 5, .rebalance = 900000);
	sim_wait(&s, 0);
	sim_sync(&s, .request = 2, .member = "m1", .instance = "i", .generation = 1, .assign = "m1=a");
	sim_join(&s, .request = 3, .rebalance = 900000);
	(void) sim_trace(&s);
	for (int i = 0; i < 60; i++)
	{
		sim_wait(&s, 5000);
		sim_beat(&s, "m1", "i", 1);
	}
	is_str(sim_trace(&s), "J3:25:", "a new member's parked JoinGroup ends after five minutes");
	sim_free(&s);
}

static void
sync_phase(void)
{
	Sim s;

	sim_init(&s);
	s.auto_save = true;
	sim_join(&s, .request = 1);
	sim_join(&s, .request = 2);
	sim_wait(&s, 0);
	sim_sync(&s, .request = 3, .member = "m2", .generation = 1);
	(void) sim_trace(&s);
	for (int i = 0; i < 5; i++)
	{
		sim_wait(&s, 5000);
		is_int(sim_beat(&s, "m1", NULL, 1), 0, "the leader sends heartbeats and no SyncGroup");
	}
	is_str(sim_trace(&s), "", "its followers wait");
	sim_wait(&s, 5000);
	is_str(sim_trace(&s), "S3:27: [PreparingRebalance]", "until the rebalance timeout puts it out");
	sim_join(&s, .request = 4, .member = "m2");
	is_str(sim_trace(&s), "[CompletingRebalance] J4:0:g2:range:m2:m2[m2]", "and another leads");
	sim_free(&s);

	/* A follower that never syncs: the group is Stable, and it is put out all the same. */
	sim_init(&s);
	s.auto_save = true;
	sim_join(&s, .request = 1);
	sim_join(&s, .request = 2);
	sim_wait(&s, 0);
	sim_sync(&s, .request = 3, .member = "m1", .generation = 1, .assign = "m1=a,m2=b");
	for (int i = 0; i < 5; i++)
	{
		sim_wait(&s, 5000);
		sim_beat(&s, "m1", NULL, 1);
		sim_beat(&s, "m2", NULL, 1);
	}
	is_int(sim_state(&s), GROUP_STABLE, "Stable with a member that has not synced");
	sim_wait(&s, 5000);
	is_int(sim_beat(&s, "m2", NULL, 1), KERR_UNKNOWN_MEMBER_ID, "which goes after the rebalance timeout");
	is_int(sim_state(&s), GROUP_PREPARING_REBALANCE, "and the others share what it had");
	sim_free(&s);
}

static void
static_members_away(void)
{
	Sim s;

	sim_init(&s);
	s.auto_save = true;
	sim_join(&s, .request = 1, .instance = "i", .version = 5, .session = 100000, .rebalance = 5000);
	sim_join(&s, .request = 2, .session = 100000, .rebalance = 5000);
	sim_wait(&s, 0);
	sim_sync(&s, .request = 3, .member = "m1", .instance = "i", .generation = 1, .assign = "m1=a");
	sim_sync(&s, .request = 4, .member = "m2", .generation = 1);
	(void) sim_trace(&s);
	sim_leave(&s, 5, "m2", NULL);
	is_str(sim_trace(&s), "[PreparingRebalance] L5:0", "the dynamic member leaves; the static one is away");
	sim_wait(&s, 99999);
	is_str(sim_trace(&s), "", "nobody is there to lead: the join phase goes on");
	sim_wait(&s, 1);
	is_str(sim_trace(&s), "[Empty] save:g2<1:", "until its session ends");
	sim_free(&s);
}

/* Away: nobody expires, nothing starts; back: it does. */
static void
postgres_away(void)
{
	Sim s;

	sim_init(&s);
	s.auto_save = true;
	sim_stable(&s, 2);
	group_control_plane(s.set, s.now, false);
	sim_drain(&s);
	for (int i = 0; i < 60; i++)
	{
		sim_wait(&s, 1000);
		is_int(sim_beat(&s, "m1", NULL, 1), 0, "m1 consumes on (%d s)", i);
	}
	is_str(sim_trace(&s), "", "m2 is silent, and is held");
	group_control_plane(s.set, s.now, true);
	sim_drain(&s);
	sim_wait(&s, 9999);
	sim_beat(&s, "m1", NULL, 1);
	is_str(sim_trace(&s), "", "back: it has a whole session timeout to show itself");
	sim_wait(&s, 1);
	is_str(sim_trace(&s), "[PreparingRebalance]", "then it goes");
	sim_free(&s);

	sim_init(&s);
	s.auto_save = true;
	sim_stable(&s, 2);
	group_control_plane(s.set, s.now, false);
	sim_drain(&s);
	is_int(sim_leave(&s, 9, "m2", NULL), 0, "a member leaves while PostgreSQL is away");
	is_str(sim_trace(&s), "L9:0", "and is answered");
	is_int(sim_beat(&s, "m1", NULL, 1), 0, "the other is not stopped");
	sim_join(&s, .request = 10, .member = "m1");
	is_str(sim_trace(&s), "J10:14:m1:late", "the leader's JoinGroup is put off");
	group_control_plane(s.set, s.now, true);
	sim_drain(&s);
	is_str(sim_trace(&s), "[PreparingRebalance]", "back: what was put off begins");
	sim_join(&s, .request = 11, .member = "m1");
	s.with_history = true;
	sim_sync(&s, .request = 12, .member = "m1", .generation = 2, .assign = "m1=x");
	ok(strstr(sim_trace(&s), "hist:member left:2>1") != NULL, "with its reason");
	sim_free(&s);

	/* Both leave; the group is emptied when PostgreSQL is back. */
	sim_init(&s);
	sim_stable(&s, 1);
	group_control_plane(s.set, s.now, false);
	sim_drain(&s);
	sim_leave(&s, 9, "m1", NULL);
	(void) sim_trace(&s);
	group_control_plane(s.set, s.now, true);
	sim_drain(&s);
	is_str(sim_trace(&s),
		   "[PreparingRebalance] [Empty] save:g2<1:", "the last member left while it was away");
	sim_free(&s);

	/* A rebalance that runs when it goes away: SyncGroup waits, gets a retriable error, and is asked again. */
	sim_init(&s);
	sim_join(&s, .request = 1);
	sim_wait(&s, 0);
	group_control_plane(s.set, s.now, false);
	sim_drain(&s);
	sim_sync(&s, .request = 2, .member = "m1", .generation = 1, .assign = "m1=a");
	(void) sim_trace(&s);
	sim_wait(&s, 20000);
	is_str(sim_trace(&s), "S2:15:", "a SyncGroup parked for a save is answered before the client gives up");
	sim_join(&s, .request = 3, .member = "m1");
	sim_sync(&s, .request = 4, .member = "m1", .generation = 1, .assign = "m1=other");
	is_str(sim_trace(&s), "J3:0:g1:range:m1:m1[m1]", "it asks again and waits");
	group_control_plane(s.set, s.now, true);
	sim_drain(&s);
	sim_saved(&s, GROUP_SAVE_OK, 0);
	is_str(sim_trace(&s), "[Stable] S4:0:a", "and gets what was saved, not what it sent the second time");
	sim_free(&s);
}

int
main(void)
{
	initial_delay();
	sessions();
	vanished();
	sync_phase();
	static_members_away();
	postgres_away();
	return tap_done();
}
