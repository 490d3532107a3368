/*
 * Many runs of a small world: clients that join, sync, commit, leave, crash and come back, static ones and such
 * that change their subscription; a database that takes its time, loses answers, is away and is fenced by an
 * administrator; coordinators that lose the group and load it again.  After every event the group is looked
 * through; when the trouble ends everybody must be in one stable generation.
 *
 *     GROUP_SEED=n  one run        GROUP_RUNS=n  so many
 */
#include <stdlib.h>

#include "brokerd/group/internal.h"
#include "regress/unit/tap.h"

#define CLIENTS  6
#define REQUESTS 200000
#define GID      WSTR_LIT("grp")

typedef enum Phase
{
	DOWN,
	WANT_JOIN,
	JOINING,
	WANT_SYNC,
	SYNCING,
	MEMBER
} Phase;

typedef struct Client
{
	Phase phase;
	const char *instance;
	char id[128];
	char metadata[16];
	int generation;
	bool leads;
	char members[32][128]; /* what the leader was told */
	int n_members;
	char assignment[160];
	int64_t next; /* when it acts */
	int request;  /* the one it waits for, 0: none */
} Client;

/* A row of the database, as strings. */
typedef struct Stored
{
	int generation;
	bool fenced;
	int n;
	char leader[128];
	char protocol[16];
	struct
	{
		char id[128];
		char instance[16];
		char assignment[160];
		char metadata[16];
	} m[32];
} Stored;

typedef struct World
{
	GroupSet *set;
	Client c[CLIENTS];
	int64_t now;
	uint64_t seed;
	int ids;
	int requests;
	uint8_t *answered; /* by request: 1 asked, 2 answered */
	Stored row;
	/* The save that is out. */
	Stored save;
	int save_expected;
	uint64_t save_serial;
	int64_t save_due;
	bool saving;
	bool away;
	bool ours;
	int64_t ready_at;
	int generation;   /* the highest told by this coordinator */
	char leader[128]; /* of it */
	bool calm;
	int faults;
	char why[256];
	int moves, fences, generations, successes;
} World;

static uint32_t
rnd(World *w, uint32_t n)
{
	w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t) (w->seed >> 33) % n;
}

__attribute__((format(printf, 2, 3))) static void
fault(World *w, const char *fmt, ...)
{
	__builtin_va_list ap;

	__builtin_va_start(ap, fmt);
	if (w->faults++ == 0)
		vsnprintf(w->why, sizeof(w->why), fmt, ap);
	__builtin_va_end(ap);
}

static void
set_str(char *out, size_t size, WStr s)
{
	snprintf(out, size, "%.*s", s.len < 0 ? 0 : s.len, s.s);
}

/* ---- the group, looked through ---- */

static void
check_group(World *w)
{
	Group *g = group_find(w->set, GID);
	int awaiting = 0, pending_sync = 0, members = 0;
	bool leader_in = false;

	if (g == NULL)
		return;
	for (Member *m = g->members.first; m != NULL; m = m->next)
	{
		members++;
		awaiting += m->join_request != 0;
		pending_sync += m->pending_sync;
		leader_in |= g->leader == m;
		if (m->pending || member_find(g, m->id) != m)
			fault(w, "a member is not found by its id");
		if (m->instance_id.len >= 0 && member_find_instance(g, m->instance_id) != m)
			fault(w, "a member is not found by its instance id");
		/* Somebody must look after it: its session, a parked request, or the end of an outage. */
		if (!deadline_is_set(&m->session) && m->join_request == 0 && m->sync_request == 0 && !m->expiry_held)
			fault(w, "a member that would never expire in %s", group_state_name(g->state));
		if (m->expiry_held && !w->away)
			fault(w, "a session is held though PostgreSQL is there");
		if (m->sync_request != 0 && g->state != GROUP_COMPLETING_REBALANCE)
			fault(w, "SyncGroup parked in %s", group_state_name(g->state));
		if (m->join_request != 0 && g->state != GROUP_PREPARING_REBALANCE && m->replace_serial == 0)
			fault(w, "JoinGroup parked in %s", group_state_name(g->state));
		if (m->replace_serial != 0 && !g->save_out)
			fault(w, "a replacement waits for no save");
	}
	for (Member *m = g->pending.first; m != NULL; m = m->next)
	{
		if (!deadline_is_set(&m->session) && !m->expiry_held)
			fault(w, "a pending id that would never expire");
	}
	if (members != g->members.count || awaiting != g->awaiting_join || pending_sync != g->pending_sync)
		fault(w, "counts: %d/%d members, %d/%d awaiting, %d/%d to sync", members, g->members.count, awaiting,
			  g->awaiting_join, pending_sync, g->pending_sync);
	if ((g->leader != NULL) != (members > 0) || (members > 0 && !leader_in))
		fault(w, "no leader, or one that is no member");
	if (g->state == GROUP_EMPTY && members > 0)
		fault(w, "Empty with members");
	if (g->state == GROUP_PREPARING_REBALANCE && !deadline_is_set(&g->join_deadline))
		fault(w, "a join phase without an end");
	if (g->state == GROUP_COMPLETING_REBALANCE && g->pending_sync > 0 &&
		!deadline_is_set(&g->sync_deadline) && !g->sync_held)
		fault(w, "a sync phase without an end");
	if (g->state == GROUP_COMPLETING_REBALANCE && g->leader_synced && !g->save_out)
		fault(w, "an assignment that is not being saved");
	if (g->leave_waits != NULL && !g->save_out)
		fault(w, "LeaveGroup waits for no save");
}

/* ---- what comes out ---- */

static Client *
asker(World *w, uint64_t request)
{
	for (int i = 0; i < CLIENTS; i++)
	{
		if (w->c[i].request == (int) request)
			return &w->c[i];
	}
	return NULL;
}

static void
start_anew(World *w, Client *c, bool forget)
{
	c->phase = WANT_JOIN;
	c->request = 0;
	c->next = w->now + 20 + rnd(w, 200);
	if (forget)
		c->id[0] = '\0';
}

static void
on_join(World *w, Client *c, int16_t error, const GroupJoinAnswer *a, int delay)
{
	c->request = 0;
	if (error != KERR_NONE)
	{
		start_anew(w, c, error == KERR_UNKNOWN_MEMBER_ID || error == KERR_FENCED_INSTANCE_ID);
		if (error == KERR_MEMBER_ID_REQUIRED)
			set_str(c->id, sizeof(c->id), a->member_id);
		if (error == KERR_FENCED_INSTANCE_ID)
			c->phase = DOWN; /* as clients do; it is started again some time */
		c->next += delay;
		return;
	}
	set_str(c->id, sizeof(c->id), a->member_id);
	c->generation = a->generation;
	if (a->generation < w->generation)
		fault(w, "generation %d told after %d", a->generation, w->generation);
	if (a->member_count > 0)
	{
		char leader[128];

		set_str(leader, sizeof(leader), a->leader);
		if (strcmp(leader, c->id) != 0)
			fault(w, "members told to one that does not lead");
		if (a->generation == w->generation && strcmp(leader, w->leader) != 0 && c->instance == NULL)
			fault(w, "two leaders in generation %d", a->generation);
		snprintf(w->leader, sizeof(w->leader), "%s", leader);
	}
	if (a->generation > w->generation)
	{
		w->generation = a->generation;
		w->generations++;
		set_str(w->leader, sizeof(w->leader), a->leader);
	}
	c->leads = a->member_count > 0 && !a->skip_assignment;
	c->n_members = a->member_count < 32 ? a->member_count : 32;
	for (int i = 0; i < c->n_members; i++)
		set_str(c->members[i], sizeof(c->members[i]), a->members[i].member_id);
	c->phase = WANT_SYNC;
	c->next = w->now + rnd(w, 300);
}

/* Nobody gets an assignment that the database does not have. */
static void
on_sync(World *w, Client *c, int16_t error, const GroupSyncAnswer *a)
{
	bool found = false;

	c->request = 0;
	if (error != KERR_NONE)
	{
		start_anew(w, c, error == KERR_UNKNOWN_MEMBER_ID || error == KERR_FENCED_INSTANCE_ID);
		if (error == KERR_FENCED_INSTANCE_ID)
			c->phase = DOWN;
		return;
	}
	snprintf(c->assignment, sizeof(c->assignment), "%.*s", a->assignment.len, (const char *) a->assignment.p);
	for (int i = 0; i < w->row.n; i++)
		found |= strcmp(w->row.m[i].id, c->id) == 0 && strcmp(w->row.m[i].assignment, c->assignment) == 0;
	/* An administrator may have gone past it; then the next commit or save finds out. */
	if (!found ||
		(w->row.generation != c->generation && !(w->row.fenced && w->row.generation > c->generation)))
		fault(w, "generation %d, \"%s\" told; stored is %d", c->generation, c->assignment, w->row.generation);
	w->successes++;
	c->phase = MEMBER;
	c->next = w->now + 500 + rnd(w, 2500);
}

static void
on_save(World *w, const GroupSave *s)
{
	if (w->saving)
		fault(w, "two saves out");
	w->saving = true;
	w->save_serial = s->serial;
	w->save_expected = s->expected_generation;
	w->save_due = w->now + (w->calm ? 5 : rnd(w, 10) == 0 ? 30000 : rnd(w, 300));
	w->save.generation = s->row.generation;
	w->save.fenced = false;
	w->save.n = s->row.member_count;
	set_str(w->save.leader, sizeof(w->save.leader), s->row.leader);
	set_str(w->save.protocol, sizeof(w->save.protocol), s->row.protocol_name);
	for (int i = 0; i < s->row.member_count; i++)
	{
		const GroupMemberRow *m = &s->row.members[i];

		set_str(w->save.m[i].id, sizeof(w->save.m[i].id), m->member_id);
		set_str(w->save.m[i].instance, sizeof(w->save.m[i].instance), m->instance_id);
		snprintf(w->save.m[i].assignment, sizeof(w->save.m[i].assignment), "%.*s", m->assignment.len,
				 (const char *) m->assignment.p);
		snprintf(w->save.m[i].metadata, sizeof(w->save.m[i].metadata), "%.*s", m->protocols[0].metadata.len,
				 (const char *) m->protocols[0].metadata.p);
	}
}

static void
drain(World *w)
{
	const GroupAction *a;

	check_group(w);
	while ((a = group_next_action(w->set)) != NULL)
	{
		Client *c;

		if (a->kind == GROUP_SAVE)
			on_save(w, &a->u.save);
		if (a->kind >= GROUP_SAVE)
			continue;
		if (a->request == 0 || a->request >= REQUESTS || w->answered[a->request] != 1)
		{
			fault(w, "request %d answered twice, or never asked", (int) a->request);
			continue;
		}
		w->answered[a->request] = 2;
		c = asker(w, a->request);
		if (c == NULL)
			continue;
		if (a->kind == GROUP_ANSWER_JOIN)
			on_join(w, c, a->error, &a->u.join, a->delay_ms);
		else if (a->kind == GROUP_ANSWER_SYNC)
			on_sync(w, c, a->error, &a->u.sync);
	}
}

/* ---- what clients do ---- */

static int
ask(World *w, Client *c)
{
	int n = ++w->requests;

	w->answered[n] = 1;
	if (c != NULL)
		c->request = n;
	return n;
}

static void
do_join(World *w, Client *c)
{
	GroupProtocol protocol = {WSTR_LIT("range"),
							  {(const uint8_t *) c->metadata, (int32_t) strlen(c->metadata)}};
	GroupJoin in = {
		.version = (int16_t) (3 + rnd(w, 7)),
		.group_id = GID,
		.member_id = wstr(c->id),
		.instance_id = wstr(c->instance),
		.client_id = WSTR_LIT("c"),
		.client_host = WSTR_LIT("/h"),
		.protocol_type = WSTR_LIT("consumer"),
		.reason = WSTR_NULL,
		.session_timeout_ms = 6000,
		.rebalance_timeout_ms = 10000,
		.protocols = &protocol,
		.protocol_count = 1,
	};
	int id = ++w->ids;

	in.fresh_id.b[14] = (uint8_t) (id >> 8);
	in.fresh_id.b[15] = (uint8_t) id;
	in.fresh_id.b[13] = (uint8_t) (id >> 16);
	c->phase = JOINING;
	in.request = (uint64_t) ask(w, c);
	group_join(w->set, w->now, &in);
	drain(w);
}

static void
do_sync(World *w, Client *c)
{
	GroupAssignment assignments[32];
	char text[32][160];
	GroupSync in = {
		.group_id = GID,
		.member_id = wstr(c->id),
		.instance_id = wstr(c->instance),
		.generation = c->generation,
		.protocol_type = WSTR_NULL,
		.protocol_name = WSTR_NULL,
		.assignments = assignments,
	};

	for (int i = 0; c->leads && i < c->n_members; i++)
	{
		snprintf(text[i], sizeof(text[i]), "%d-%.100s-%d", c->generation, c->members[i], (int) rnd(w, 1000));
		assignments[in.assignment_count++] =
			(GroupAssignment){wstr(c->members[i]), {(const uint8_t *) text[i], (int32_t) strlen(text[i])}};
	}
	c->phase = SYNCING;
	in.request = (uint64_t) ask(w, c);
	group_sync(w->set, w->now, &in);
	drain(w);
}

static void
do_heartbeat(World *w, Client *c)
{
	int16_t error = group_heartbeat(w->set, w->now, GID, wstr(c->id), wstr(c->instance), c->generation);
	GroupCommit commit = {8, false, GID, wstr(c->id), wstr(c->instance), c->generation};
	int32_t saved;

	check_group(w);
	c->next = w->now + 500 + rnd(w, 2500);
	if (error == KERR_NOT_COORDINATOR || error == KERR_COORDINATOR_LOAD_IN_PROGRESS)
		return; /* again, at whoever it is then */
	if (error == KERR_NONE && group_check_commit(w->set, w->now, &commit, &saved) != KERR_NONE &&
		group_find(w->set, GID)->state == GROUP_STABLE)
		fault(w, "a member of a stable group cannot commit");
	if (error == KERR_FENCED_INSTANCE_ID)
		c->phase = DOWN;
	else if (error != KERR_NONE)
		start_anew(w, c, error == KERR_UNKNOWN_MEMBER_ID);
}

static void
do_leave(World *w, Client *c)
{
	GroupLeaver leaver = {wstr(c->id), wstr(c->instance), WSTR_NULL, 0};

	c->request = 0;
	group_leave(w->set, w->now, (uint64_t) ask(w, NULL), GID, &leaver, 1);
	drain(w);
	c->id[0] = '\0';
	c->phase = DOWN;
	c->next = w->now + rnd(w, 20000);
}

static void
act(World *w, Client *c)
{
	if (w->now < c->next)
		return;
	switch (c->phase)
	{
		case DOWN:
			if (w->calm || rnd(w, 100) == 0)
				start_anew(w, c, true);
			break;
		case WANT_JOIN:
			do_join(w, c);
			break;
		case WANT_SYNC:
			do_sync(w, c);
			break;
		case MEMBER:
			if (!w->calm && rnd(w, 60) == 0)
			{
				snprintf(c->metadata, sizeof(c->metadata), "s%d", (int) rnd(w, 3));
				c->phase = WANT_JOIN;
			}
			else if (!w->calm && rnd(w, 60) == 0)
				do_leave(w, c);
			else
				do_heartbeat(w, c);
			break;
		default:
			break; /* waits */
	}
}

/* ---- what else happens ---- */

static void
finish_save(World *w)
{
	GroupSaveResult result = GROUP_SAVE_OK;

	if (!w->saving || w->now < w->save_due || w->away)
		return;
	/* The answer is lost: it is written, and will be again. */
	if (!w->calm && rnd(w, 10) == 0 && w->row.generation == w->save_expected)
	{
		w->row = w->save;
		w->save_due = w->now + 500;
		return;
	}
	w->saving = false;
	if (w->row.generation != w->save_expected && (w->row.fenced || w->row.generation != w->save.generation))
		result = GROUP_SAVE_MOVED;
	else
		w->row = w->save;
	group_saved(w->set, w->now, GID, w->save_serial, result, w->row.generation);
	drain(w);
}

static void
lose(World *w)
{
	group_slot_lost(w->set, group_slot(GID));
	drain(w);
	w->saving = false;
	w->ours = false;
	w->generation = 0;
	w->moves++;
	w->ready_at = w->now + rnd(w, 3000);
}

static void
load(World *w)
{
	GroupMemberRow members[32];
	GroupProtocol protocols[32];
	GroupRow row = {.group_id = GID,
					.generation = w->row.generation,
					.fenced = w->row.fenced,
					.protocol_type = WSTR_LIT("consumer"),
					.protocol_name = wstr(w->row.protocol),
					.leader = wstr(w->row.leader),
					.members = members,
					.member_count = w->row.n};

	for (int i = 0; i < w->row.n; i++)
	{
		protocols[i] =
			(GroupProtocol){WSTR_LIT("range"),
							{(const uint8_t *) w->row.m[i].metadata, (int32_t) strlen(w->row.m[i].metadata)}};
		members[i] = (GroupMemberRow){
			.member_id = wstr(w->row.m[i].id),
			.instance_id = w->row.m[i].instance[0] == '\0' ? WSTR_NULL : wstr(w->row.m[i].instance),
			.client_id = WSTR_LIT("c"),
			.client_host = WSTR_LIT("/h"),
			.session_timeout_ms = 6000,
			.rebalance_timeout_ms = 10000,
			.protocols = &protocols[i],
			.protocol_count = 1,
			.assignment = {(const uint8_t *) w->row.m[i].assignment,
						   (int32_t) strlen(w->row.m[i].assignment)},
		};
	}
	group_slot_loading(w->set, group_slot(GID));
	drain(w);
	if (w->row.generation > 0 && !group_load(w->set, w->now, &row))
		fault(w, "what was stored cannot be loaded");
	group_slot_ready(w->set, w->now, group_slot(GID));
	drain(w);
	w->ours = true;
}

static void
trouble(World *w)
{
	switch (rnd(w, 400))
	{
		case 0:
			w->away = !w->away;
			group_control_plane(w->set, w->now, !w->away);
			drain(w);
			break;
		case 1:
			if (w->ours && rnd(w, 2) == 0)
				lose(w);
			break;
		case 2:
			if (w->away || w->row.generation == 0 || rnd(w, 2) == 0)
				break;
			w->row.generation++;
			w->row.fenced = true;
			w->fences++;
			if (rnd(w, 2) == 0) /* otherwise the next save finds out */
			{
				group_fence(w->set, w->now, GID, w->row.generation, WSTR_LIT("test"));
				drain(w);
			}
			break;
		case 3:
		case 4:
		{
			/* A client dies where it stands: what it asked is answered to nobody. */
			Client *c = &w->c[rnd(w, CLIENTS)];

			c->phase = DOWN;
			c->request = 0;
			c->next = w->now + rnd(w, 20000);
			break;
		}
		case 5:
		{
			Client *c = &w->c[rnd(w, CLIENTS)];

			if (c->phase == MEMBER)
			{
				(void) group_kick(w->set, w->now, GID, wstr(c->id), WSTR_NULL, WSTR_LIT("test"));
				drain(w);
			}
			break;
		}
		default:
			break;
	}
}

static void
step(World *w)
{
	w->now += 20;
	if (!w->calm)
		trouble(w);
	if (!w->ours && w->now >= w->ready_at && !w->away)
		load(w);
	finish_save(w);
	if (group_next_deadline(w->set) <= w->now)
	{
		group_on_time(w->set, w->now);
		drain(w);
	}
	for (int i = 0; i < CLIENTS; i++)
		act(w, &w->c[i]);
}

static void
check_end(World *w)
{
	Group *g = group_find(w->set, GID);

	if (g == NULL || g->state != GROUP_STABLE || g->members.count != CLIENTS)
	{
		fault(w, "at the end: %s with %d members", g == NULL ? "none" : group_state_name(g->state),
			  g == NULL ? 0 : g->members.count);
		return;
	}
	for (int i = 0; i < CLIENTS; i++)
	{
		if (w->c[i].phase != MEMBER || w->c[i].generation != g->generation || w->c[i].assignment[0] == '\0')
			fault(w, "at the end client %d is in phase %d, generation %d of %d", i, w->c[i].phase,
				  w->c[i].generation, g->generation);
	}
	if (w->row.generation != g->generation || w->row.n != CLIENTS)
		fault(w, "at the end generation %d is stored, %d is", w->row.generation, g->generation);
	lose(w);
	for (int i = 1; i <= w->requests; i++)
	{
		if (w->answered[i] != 2)
			fault(w, "request %d was never answered", i);
	}
}

static bool
run(uint64_t seed, World *sum)
{
	World *w = calloc(1, sizeof(*w));
	GroupConfig config;
	bool good;

	group_config_defaults(&config);
	config.initial_rebalance_delay_ms = 500;
	w->answered = calloc(REQUESTS, 1);
	w->seed = seed * 0x9e3779b97f4a7c15u + 1;
	w->set = group_set_new(&config);
	w->now = 1000;
	for (int i = 0; i < CLIENTS; i++)
	{
		static const char *const instances[] = {"one", "two"};

		w->c[i].instance = i < 2 ? instances[i] : NULL;
		snprintf(w->c[i].metadata, sizeof(w->c[i].metadata), "s");
		w->c[i].phase = WANT_JOIN;
	}
	for (int i = 0; i < 8000 && w->faults == 0; i++)
		step(w);
	w->calm = true;
	if (w->away)
	{
		w->away = false;
		group_control_plane(w->set, w->now, true);
		drain(w);
	}
	/* In the end a commit would have found out about a generation that nobody was told of. */
	if (w->row.fenced)
	{
		group_fence(w->set, w->now, GID, w->row.generation, WSTR_NULL);
		drain(w);
	}
	for (int i = 0; i < 6000 && w->faults == 0; i++)
		step(w);
	if (w->faults == 0)
		check_end(w);
	good = w->faults == 0;
	if (!good)
		printf("# seed %d: at %d ms: %s\n", (int) seed, (int) w->now, w->why);
	sum->moves += w->moves;
	sum->fences += w->fences;
	sum->generations += w->generations;
	sum->successes += w->successes;
	group_set_free(w->set);
	free(w->answered);
	free(w);
	return good;
}

int
main(void)
{
	const char *seed = getenv("GROUP_SEED");
	const char *runs = getenv("GROUP_RUNS");
	int n = runs == NULL ? 40 : atoi(runs);
	int bad = 0;
	static World sum;

	if (seed != NULL)
		return run((uint64_t) atoi(seed), &sum) ? 0 : 1;
	for (int i = 1; i <= n; i++)
		bad += !run((uint64_t) i, &sum);
	is_int(bad, 0, "%d worlds end in one stable generation", n);
	ok(sum.moves > n / 2 && sum.fences > n / 2 && sum.generations > 10 * n && sum.successes > 20 * n,
	   "they had %d moves of the coordinator, %d fences, %d generations, %d assignments", sum.moves,
	   sum.fences, sum.generations, sum.successes);
	return tap_done();
}
