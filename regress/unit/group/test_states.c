/*
 * The table of the state machine: every state × every event, with the answers, the saves and the state that
 * come of it.  m1 is the leader, m2 follows; generation 1 unless the state says otherwise.
 */
#include "regress/unit/group/sim.h"

typedef enum Setup
{
	NONE,       /* no such group */
	EMPTY,      /* generation 2, its two members left */
	INITIAL,    /* PreparingRebalance for the first time: m1 is parked (request 1) */
	PREPARING,  /* PreparingRebalance after Stable: m1 has rejoined (request 201), m2 has not */
	COMPLETING, /* CompletingRebalance, generation 1: nobody has synced */
	SAVING,     /* the leader's assignment is being saved: m1 and m2 are parked (requests 101, 102) */
	STABLE,
	SETUPS
} Setup;

static const char *const setup_names[] = {"none",       "empty",  "initial", "preparing",
										  "completing", "saving", "stable"};

static void
set_up(Sim *s, Setup setup)
{
	sim_init(s);
	switch (setup)
	{
		case NONE:
			break;
		case EMPTY:
			s->auto_save = true;
			sim_stable(s, 2);
			sim_leave(s, 301, "m1", NULL);
			sim_leave(s, 302, "m2", NULL);
			s->auto_save = false;
			break;
		case INITIAL:
			s->config.initial_rebalance_delay_ms = 3000;
			group_set_config(s->set, &s->config);
			sim_join(s, .request = 1);
			break;
		case PREPARING:
			sim_stable(s, 2);
			sim_join(s, .request = 201, .member = "m1");
			break;
		case COMPLETING:
		case SAVING:
			sim_join(s, .request = 1);
			sim_join(s, .request = 2);
			sim_wait(s, 0);
			if (setup == COMPLETING)
				break;
			sim_sync(s, .request = 102, .member = "m2", .generation = 1);
			sim_sync(s, .request = 101, .member = "m1", .generation = 1, .assign = "m1=a1,m2=a2");
			break;
		case STABLE:
		default:
			sim_stable(s, 2);
			break;
	}
	s->ids = 8; /* the next member is m9 */
	(void) sim_trace(s);
}

typedef struct Case
{
	const char *event;
	void (*run)(Sim *s);
	/* By setup: what the trace says, then the state; NULL: not looked at. */
	const char *want[SETUPS];
} Case;

static void
join_v3(Sim *s)
{
	sim_join(s, .request = 9);
}

static void
join_v5(Sim *s)
{
	sim_join(s, .request = 9, .version = 5);
}

static void
join_static(Sim *s)
{
	sim_join(s, .request = 9, .version = 5, .instance = "i");
}

static void
join_unknown(Sim *s)
{
	sim_join(s, .request = 9, .member = "m77");
}

static void
join_other_protocol(Sim *s)
{
	sim_join(s, .request = 9, .protocols = "sticky");
}

static void
join_other_type(Sim *s)
{
	sim_join(s, .request = 9, .type = "connect");
}

static void
join_no_protocol(Sim *s)
{
	sim_join(s, .request = 9, .protocols = "");
}

static void
join_leader(Sim *s)
{
	sim_join(s, .request = 9, .member = "m1");
}

static void
join_follower(Sim *s)
{
	sim_join(s, .request = 9, .member = "m2");
}

static void
join_follower_changed(Sim *s)
{
	sim_join(s, .request = 9, .member = "m2", .protocols = "range=new");
}

static void
sync_leader(Sim *s)
{
	sim_sync(s, .request = 9, .member = "m1", .generation = 1, .assign = "m1=b1,m2=b2");
}

static void
sync_follower(Sim *s)
{
	sim_sync(s, .request = 9, .member = "m2", .generation = 1);
}

static void
sync_wrong_generation(Sim *s)
{
	sim_sync(s, .request = 9, .member = "m1", .generation = 7);
}

static void
sync_unknown(Sim *s)
{
	sim_sync(s, .request = 9, .member = "m77", .generation = 1);
}

static void
sync_wrong_protocol(Sim *s)
{
	sim_sync(s, .request = 9, .member = "m1", .generation = 1, .type = "consumer", .protocol = "sticky");
}

static void
beat_leader(Sim *s)
{
	sim_add(s, "H%d", sim_beat(s, "m1", NULL, 1));
}

static void
beat_wrong_generation(Sim *s)
{
	sim_add(s, "H%d", sim_beat(s, "m1", NULL, 9));
}

static void
beat_unknown(Sim *s)
{
	sim_add(s, "H%d", sim_beat(s, "m77", NULL, 1));
}

static void
leave_leader(Sim *s)
{
	int error = sim_leave(s, 9, "m1", NULL);

	sim_add(s, "error=%d", error);
}

static void
leave_follower(Sim *s)
{
	int error = sim_leave(s, 9, "m2", NULL);

	sim_add(s, "error=%d", error);
}

static void
leave_unknown(Sim *s)
{
	int error = sim_leave(s, 9, "m77", NULL);

	sim_add(s, "error=%d", error);
}

static void
commit_member(Sim *s)
{
	int32_t saved;
	int error = sim_commit(s, "m1", 1, 8, &saved);

	sim_add(s, "C%d:g%d", error, saved);
}

static void
commit_wrong_generation(Sim *s)
{
	sim_add(s, "C%d", sim_commit(s, "m1", 5, 8, NULL));
}

static void
commit_v9_wrong_generation(Sim *s)
{
	sim_add(s, "C%d", sim_commit(s, "m1", 5, 9, NULL));
}

static void
commit_unknown(Sim *s)
{
	sim_add(s, "C%d", sim_commit(s, "m77", 1, 8, NULL));
}

static void
commit_simple(Sim *s)
{
	int32_t saved;
	int error = sim_commit(s, "", -1, 8, &saved);

	sim_add(s, "C%d:g%d", error, saved);
}

static void
commit_transactional_simple(Sim *s)
{
	int32_t saved;
	GroupCommit in = {3, true, WSTR_LIT(G), WSTR_LIT(""), WSTR_NULL, -1};

	sim_add(s, "C%d", group_check_commit(s->set, s->now, &in, &saved));
}

static void
commit_transactional_member(Sim *s)
{
	int32_t saved;
	GroupCommit in = {3, true, WSTR_LIT(G), sim_id("m1", NULL), WSTR_NULL, 1};

	sim_add(s, "C%d", group_check_commit(s->set, s->now, &in, &saved));
}

static void
check_delete(Sim *s)
{
	sim_add(s, "D%d O%d", group_check_delete(s->set, WSTR_LIT(G)),
			group_check_offset_delete(s->set, WSTR_LIT(G)));
}

static void
deleted(Sim *s)
{
	group_deleted(s->set, s->now, WSTR_LIT(G));
	sim_drain(s);
}

static void
kick(Sim *s)
{
	int error = group_kick(s->set, s->now, WSTR_LIT(G), sim_id("m2", NULL), WSTR_NULL, WSTR_LIT("test"));

	sim_drain(s);
	sim_add(s, "error=%d", error);
}

static void
fence(Sim *s)
{
	group_fence(s->set, s->now, WSTR_LIT(G), 6, WSTR_LIT("reset"));
	sim_drain(s);
	sim_add(s, "H%d", sim_beat(s, "m1", NULL, 1));
}

/* Session timeout is 10 s; the rebalance timeout 30 s. */
static void
silence_11s(Sim *s)
{
	sim_wait(s, 11000);
}

static void
silence_31s(Sim *s)
{
	sim_wait(s, 31000);
}

static void
saved_ok(Sim *s)
{
	sim_saved(s, GROUP_SAVE_OK, 0);
}

static void
saved_refused(Sim *s)
{
	sim_saved(s, GROUP_SAVE_REFUSED, 0);
}

static void
saved_fenced(Sim *s)
{
	sim_saved(s, GROUP_SAVE_FENCED, 0);
}

static void
saved_moved(Sim *s)
{
	sim_saved(s, GROUP_SAVE_MOVED, 4);
}

static void
slot_lost(Sim *s)
{
	group_slot_lost(s->set, group_slot(WSTR_LIT(G)));
	sim_drain(s);
}

static void
away_join(Sim *s)
{
	group_control_plane(s->set, s->now, false);
	sim_drain(s);
	sim_join(s, .request = 9);
}

static void
away_silence(Sim *s)
{
	group_control_plane(s->set, s->now, false);
	sim_drain(s);
	sim_wait(s, 11000);
}

static const Case cases[] = {
#include "regress/unit/group/states.def"
};

int
main(void)
{
	bool print = getenv("PRINT_STATES") != NULL;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		for (int setup = 0; setup < SETUPS; setup++)
		{
			Sim *s = malloc(sizeof(*s));
			const char *want = cases[i].want[setup];

			set_up(s, (Setup) setup);
			cases[i].run(s);
			sim_add(s, "-> %s", group_state_name(sim_state(s)));
			if (print)
				printf("%s / %s: \"%s\"\n", cases[i].event, setup_names[setup], sim_trace(s));
			else
				is_str(sim_trace(s), want, "%s in %s", cases[i].event, setup_names[setup]);
			sim_free(s);
			free(s);
		}
	}
	return tap_done();
}
