/*
 * test_protocol_model.c: the replication protocol under thousands of random interleavings of crashes, lost disks,
 * late and lost messages, late metadata, fenced and stale leaders (model.h has the world and what must hold in it).
 *
 * A schedule is a list of steps, made from its seed; it runs again in the same way anywhere.  One that fails is
 * made smaller, and its trace printed.  That the model can fail is shown by breaking one rule at a time.
 *
 *     MODEL_SCHEDULES=1000000 build/unit/cluster/test_protocol_model     more of them
 *     MODEL_SEED=4711 build/unit/cluster/test_protocol_model             the trace of one
 */
#include <stdlib.h>

#include "regress/unit/cluster/model_broker.h"
#include "regress/unit/tap.h"

#include "extension/election.c" /* pure, and in no library of brokerd's */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SCHEDULES 5000
#else
#define SCHEDULES 50000
#endif

enum
{
	STEPS_MAX = 320,
	HEAL_ROUNDS = 80,
	CATCH_WITHIN = 100000 /* schedules in which a broken rule has to show */
};

typedef enum StepKind
{
	PRODUCE,
	SYNC,
	ASK,
	DELIVER,
	LOSE,
	CONSIDER,
	BREAK_SESSION,
	LEARN,
	CRASH,
	START,
	REGISTER,
	HEARTBEAT,
	SUPERSEDE,
	FENCE,
	STOP,
	PREFER,
	CLAIM,
	GO_BACK,
	WAIT,
	STEP_KINDS
} StepKind;

/* How often, and whether a schedule may do without it. */
static const struct
{
	int weight;
	bool optional;
} step_kinds[STEP_KINDS] = {
	[PRODUCE] = {8, false},  [SYNC] = {12, false},    [ASK] = {16, false},         [DELIVER] = {34, false},
	[LOSE] = {2, true},      [CONSIDER] = {4, false}, [BREAK_SESSION] = {2, true}, [LEARN] = {10, false},
	[CRASH] = {2, true},     [START] = {5, false},    [REGISTER] = {6, false},     [HEARTBEAT] = {4, false},
	[SUPERSEDE] = {1, true}, [FENCE] = {2, true},     [STOP] = {1, true},          [PREFER] = {1, true},
	[CLAIM] = {4, false},    [GO_BACK] = {1, true},   [WAIT] = {3, true},
};

typedef struct Step
{
	uint8_t kind, who;
	uint16_t arg;
} Step;

typedef struct Schedule
{
	int brokers, min_isr;
	bool goes_back; /* PostgreSQL may */
	bool heals;     /* at the end all is well, and has to come together */
	int n;
	Step steps[STEPS_MAX];
} Schedule;

/* ---- random numbers that are the same everywhere (splitmix64) ---- */

static uint64_t
next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static int
below(uint64_t *state, int n)
{
	return (int) (next(state) % (uint64_t) n);
}

/* Each schedule has its own mix: some kinds not at all, some three times as often. */
static void
make_schedule(uint64_t seed, Schedule *s)
{
	uint64_t state = seed * 2654435761u + 1;
	int weights[STEP_KINDS], total = 0;

	s->brokers = below(&state, 4) < 2 ? 3 : 2 + below(&state, 4);
	s->min_isr = 1 + below(&state, 2);
	s->heals = below(&state, 2) == 0;
	s->n = 60 + below(&state, STEPS_MAX - 60);
	for (int i = 0; i < STEP_KINDS; i++)
	{
		int mix = below(&state, 4);

		weights[i] = step_kinds[i].weight * (mix == 3 ? 3 : 1);
		if (mix == 0 && step_kinds[i].optional)
			weights[i] = 0;
		total += weights[i];
	}
	s->goes_back = weights[GO_BACK] > 0;
	for (int i = 0; i < s->n; i++)
	{
		int at = below(&state, total), kind = 0;

		while (at >= weights[kind])
			at -= weights[kind++];
		s->steps[i] =
			(Step){(uint8_t) kind, (uint8_t) below(&state, s->brokers), (uint16_t) (next(&state) & 0xffff)};
	}
}

/* ---- a world ---- */

static void
world_reset(World *w, const Schedule *s, const Rules *rules, FILE *trace)
{
	for (int id = 0; id < BROKERS_MAX; id++)
		epoch_cache_free(&w->brokers[id].disk.epochs);
	memset(w, 0, sizeof(*w));
	w->rules = *rules;
	w->trace = trace;
	w->goes_back = s->goes_back;
	w->n = s->brokers;
	w->min_isr = hw_effective_min_isr(s->min_isr, s->brokers);
	w->pg.row = (Row){.incarnation = 1,
					  .leader = 0,
					  .leader_epoch = 1,
					  .settled_epoch = 1,
					  .partition_epoch = 1,
					  .isr = ONE(w->n) - 1};
	w->pg.incarnation = w->incarnations = w->pg.identity = w->identity = 1;
	w->epochs_given = 1;
	for (int id = 0; id < w->n; id++)
	{
		Broker *b = &w->brokers[id];

		b->disk.directory = ++w->directories;
		b->disk.broker_epoch = b->disk.begun = -1;
		start(w, id);
		w->pg.brokers[id] = (PgBroker){.epoch = ++w->epoch_clock,
									   .process = b->process,
									   .directory = b->disk.directory,
									   .disk_epoch = w->epoch_clock};
		b->broker_epoch = b->disk.broker_epoch = w->epoch_clock;
		b->connected = true;
		b->incarnation = b->claimed = 1;
	}
	for (int id = 0; id < w->n; id++)
	{
		w->brokers[id].image = pg_read(w);
		apply_row(w, id, &w->pg.row);
	}
}

static void
produce(World *w, int id, bool acks_all)
{
	Broker *b = &w->brokers[id];

	if (!b->up || !b->leading || b->disk.end == LOG_MAX || (acks_all && b->isr_size < w->min_isr))
		return;
	for (int i = 0; i < w->n; i++)
		if (b->lead.followers[i].synced_end >= b->disk.end)
			b->lead.followers[i].caught_up = w->now;
	b->waits[b->disk.end] = acks_all;
	log_add(&b->disk, (Entry){b->leader_epoch, ++w->values});
	say(w, "broker %d appends record %d at %d, acks=%s", id, w->values, b->disk.end - 1,
		acks_all ? "all" : "1");
}

static void
sync_log(World *w, int id, int arg)
{
	Broker *b = &w->brokers[id];
	Disk *d = &b->disk;

	if (!b->up)
		return;
	if (arg % 3 == 0)
		d->high_watermark = b->high_watermark < d->synced ? b->high_watermark : d->synced;
	d->synced += arg % 4 == 1 ? (d->end - d->synced + 1) / 2 : d->end - d->synced;
	advance(w, id);
}

static void
deliver(World *w, Message *slot)
{
	Message m = *slot;
	const Broker *to = &w->brokers[m.to];

	slot->kind = NO_MESSAGE;
	if (m.kind == ALTER)
	{
		/* PostgreSQL does it whether or not anybody still waits for the answer. */
		Message *out;
		bool landed, understood = pg_alter_isr(w, &m, &landed);

		out = m.to_process == to->process ? post(w, ALTER_REPLY, m.from, m.from) : NULL;
		if (out == NULL)
			return;
		out->id = m.id;
		out->leader_epoch = m.leader_epoch;
		out->partition_epoch = m.partition_epoch;
		out->landed = landed;
		out->row = w->pg.row;
		if (!understood)
			out->row.partition_epoch = -1;
		return;
	}
	if (!to->up || to->process != m.to_process)
		return;
	if (m.kind == FETCH)
		take_fetch(w, &m);
	else if (m.kind == ANSWER)
		take_answer(w, &m);
	else if (m.kind == ALTER_REPLY)
		take_reply(w, &m);
	else
		take_image(w, &m);
}

/* The nth of those that are under way; NULL: none. */
static Message *
message(World *w, int nth)
{
	int count = 0;

	for (int i = 0; i < MESSAGES_MAX; i++)
		count += w->messages[i].kind != NO_MESSAGE;
	if (count == 0)
		return NULL;
	nth %= count;
	for (int i = 0; i < MESSAGES_MAX; i++)
		if (w->messages[i].kind != NO_MESSAGE && nth-- == 0)
			return &w->messages[i];
	return NULL;
}

static void
learn(World *w, int id)
{
	Message *m;

	if (!w->brokers[id].up || w->brokers[id].broker_epoch < 0 || !w->brokers[id].connected)
		return;
	m = post(w, METADATA, id, id);
	if (m != NULL)
		m->image = pg_read(w);
}

static void
step_network(World *w, Step s)
{
	Message *m = message(w, s.arg);

	if (m == NULL)
		return;
	if (s.kind == DELIVER)
		deliver(w, m);
	else
		m->kind = NO_MESSAGE;
}

static void
go_back(World *w, int lost)
{
	if (w->before[lost].version == 0)
		return;
	pg_go_back(w, lost);
	for (int id = 0; id < w->n; id++)
	{
		w->brokers[id].connected = false;
		lose_reply(w, id);
	}
}

static void
step_pg(World *w, Step s, int id)
{
	Broker *b = &w->brokers[id];
	/* Decisions come from registered brokers, so the first registration has noticed that PostgreSQL is another. */
	bool is_known = w->pg.identity == w->identity;

	switch (s.kind)
	{
		case REGISTER:
			register_broker(w, id, s.arg % 8 == 0);
			break;
		case HEARTBEAT:
			heartbeat(w, id, false);
			break;
		case SUPERSEDE:
			heartbeat(w, id, true);
			break;
		case FENCE:
			if (is_known)
				pg_fence(w, ONE(id) | (s.arg % 4 == 0 ? ONE(s.arg / 4 % w->n) : 0));
			break;
		case CLAIM:
			claim(w, id);
			break;
		case GO_BACK:
			go_back(w, s.arg % COMMITS_KEPT);
			break;
		case STOP:
			if (!is_known || !b->up || b->stopping || !pg_check_broker(w, id, b->broker_epoch))
				break;
			b->stopping = true;
			pg_stop(w, id);
			break;
		default:
			if (is_known)
				pg_prefer(w, id);
	}
}

/*
 * A PostgreSQL that goes backwards and a lost disk are two faults: what was acknowledged survives both when more than
 * one replica had to have it, and one disk is lost.
 */
static bool
may_lose_disk(World *w, int luck)
{
	if (luck <= 6 || (w->goes_back && (w->min_isr < 2 || w->disks_lost > 0)))
		return false;
	w->disks_lost++;
	return true;
}

/* Has the step something to do there? */
static bool
is_use(const World *w, StepKind kind, int id)
{
	const Broker *b = &w->brokers[id];

	switch (kind)
	{
		case PRODUCE:
		case CONSIDER:
			return b->up && b->leading;
		case SYNC:
			return b->up && b->disk.synced < b->disk.end;
		case ASK:
			return b->up && !b->leading && b->leader >= 0 && b->asked == 0;
		case BREAK_SESSION:
			return b->up && b->lead.in_flight;
		case START:
			return !b->up;
		case REGISTER:
			return b->up && (b->broker_epoch < 0 || !b->connected);
		case CLAIM:
			return b->up && b->broker_epoch >= 0 && b->claimed != b->incarnation;
		default:
			return true;
	}
}

static void
step(World *w, Step s)
{
	int id = s.who % w->n, luck = s.arg % 10;
	Pg before = w->pg;

	for (int i = 0; i < w->n && !is_use(w, s.kind, id); i++)
		id = (id + 1) % w->n;

	w->now++;
	switch (s.kind)
	{
		case PRODUCE:
			produce(w, id, s.arg % 4 != 0);
			break;
		case SYNC:
			sync_log(w, id, s.arg);
			break;
		case ASK:
			ask(w, id, 1 + s.arg % 4);
			break;
		case DELIVER:
		case LOSE:
			step_network(w, s);
			break;
		case CONSIDER:
			if (w->brokers[id].up)
				consider(w, id);
			break;
		case BREAK_SESSION:
			if (w->brokers[id].up)
				lose_reply(w, id);
			break;
		case LEARN:
			learn(w, id);
			break;
		case CRASH:
			crash(w, id, s.arg / 10, may_lose_disk(w, luck) ? luck - 6 : 0);
			break;
		case START:
			start(w, id);
			break;
		case WAIT:
			w->now += s.arg % LAG_MAX_STEPS;
			break;
		default:
			step_pg(w, s, id);
	}
	/* A standby may have no more than this. */
	if (w->pg.version != before.version && s.kind != GO_BACK)
	{
		memmove(&w->before[1], &w->before[0], sizeof(before) * (COMMITS_KEPT - 1));
		w->before[0] = before;
	}
	check_world(w);
}

/* ---- all is well again ---- */

static bool
is_whole(const World *w)
{
	const Disk *first = &w->brokers[0].disk;

	if (w->pg.row.leader < 0 || w->pg.row.isr != ONE(w->n) - 1)
		return false;
	for (int id = 0; id < w->n; id++)
	{
		const Broker *b = &w->brokers[id];

		if (b->disk.end != first->end || b->high_watermark != first->end)
			return false;
	}
	return true;
}

static void
drain(World *w)
{
	/* Answers lead to more of them; a turn is enough. */
	for (int i = 0; i < 2 * MESSAGES_MAX; i++)
	{
		Message *m = message(w, 0);

		if (m == NULL)
			break;
		deliver(w, m);
		check_world(w);
	}
}

/* Nobody fails any more: unless nobody may lead without loss, all of them are soon in the ISR, and alike. */
static void
heal(World *w)
{
	for (int round = 0; round < HEAL_ROUNDS && !is_whole(w); round++)
	{
		for (int id = 0; id < w->n; id++)
		{
			w->now++;
			if (w->brokers[id].stopping)
				crash(w, id, 0, 0);
			start(w, id);
			heartbeat(w, id, false);
			register_broker(w, id, false);
			claim(w, id);
			learn(w, id);
			sync_log(w, id, 0);
			if (round % 8 == 7)
				lose_reply(w, id); /* what was lost has its deadline */
			ask(w, id, LOG_MAX);
			consider(w, id);
		}
		drain(w);
	}
	if (w->pg.row.leader >= 0 && !is_whole(w))
		violate(w, "all is well, and yet the ISR is %x, the logs end at %d, %d, ...", w->pg.row.isr,
				w->brokers[0].disk.end, w->brokers[1].disk.end);
	else if (w->pg.row.leader < 0 && (w->pg.row.isr | w->pg.row.elr) != 0)
		violate(w, "all is well, and yet nobody leads: ISR %x, ELR %x", w->pg.row.isr, w->pg.row.elr);
}

/* ---- running, and making smaller ---- */

/* Whether all held. */
static bool
run(World *w, const Schedule *s, const Rules *rules, FILE *trace)
{
	world_reset(w, s, rules, trace);
	for (int i = 0; i < s->n && w->violation[0] == '\0'; i++)
		step(w, s->steps[i]);
	if (s->heals && w->violation[0] == '\0')
		heal(w);
	return w->violation[0] == '\0';
}

/* Leaves out runs of steps, ever shorter ones, as long as it still fails. */
static void
make_smaller(World *w, Schedule *s, const Rules *rules)
{
	for (int len = s->n / 2; len > 0; len /= 2)
		for (int at = 0; at + len <= s->n;)
		{
			Schedule less = *s;

			memmove(&less.steps[at], &less.steps[at + len], sizeof(Step) * (size_t) (s->n - at - len));
			less.n -= len;
			if (run(w, &less, rules, NULL))
				at += len;
			else
				*s = less;
		}
}

static void
show_failure(World *w, uint64_t seed, Schedule *s, const Rules *rules)
{
	make_smaller(w, s, rules);
	printf("# seed %" PRIu64 ": %d brokers, min.insync.replicas %d; the smallest schedule that fails:\n",
		   seed, s->brokers, s->min_isr);
	run(w, s, rules, stdout);
}

static uint64_t
number_from(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text != NULL && *text != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

static void
test_protocol(World *w)
{
	static const Rules sound;
	uint64_t n = number_from("MODEL_SCHEDULES", SCHEDULES), seed;
	int64_t acked = 0, epochs = 0;
	Schedule s;
	bool well = true;

	for (seed = 1; seed <= n && well; seed++)
	{
		make_schedule(seed, &s);
		well = run(w, &s, &sound, NULL);
		acked += w->acked;
		epochs += w->pg.row.leader_epoch;
	}
	if (!ok(well, "%" PRIu64 " schedules: what was acknowledged or shown stays", n))
		show_failure(w, seed - 1, &s, &sound);
	printf("# %" PRId64 " records acknowledged, %" PRId64 " leader epochs\n", acked, epochs);
	/* Else it shows nothing. */
	ok(!well || acked > (int64_t) n, "more than one record a schedule was acknowledged");
	ok(!well || epochs > (int64_t) n * 2, "more than two leaders a schedule");
}

static const struct
{
	const char *name;
	Rules rules;
	uint64_t near; /* the first seed that is tried: where it showed once */
} mutations[] = {
	{"the leader's unsynced end counts (A9f)", {.leader_counts_unsynced = true}, 1},
	{"a follower asks for more before it has synced (A9f)", {.follower_asks_unsynced = true}, 1},
	{"an ISR change of unknown outcome is taken for failed (A2)", {.unknown_is_failed = true}, 1},
	{"an unchanged row settles an ISR change (A2)", {.unchanged_row_settles = true}, 1},
	{"a member counts only when its addition has landed (A2)", {.adding_counts_when_landed = true}, 1},
	{"a member counts no more when its removal is sent (A2)", {.removing_counts_no_more = true}, 1},
	{"a replaced leader drops a change that may have landed (A2)", {.replaced_leader_forgets = true}, 6735},
	{"a broker that lost its epoch forgets what it sent (A2)", {.resigning_forgets_change = true}, 1588},
	{"metadata that is older is taken (A2)", {.older_metadata_is_taken = true}, 1},
	{"a follower joins by its old broker epoch (A3b)", {.member_epochs_unchecked = true}, 17973},
	{"a broker that comes with another disk stays in the ISR (A3)", {.other_disk_keeps_place = true}, 1},
	{"a restarted broker leads on in its epoch (A3a)", {.restart_keeps_epoch = true}, 1},
	{"the high watermark moves below min.insync.replicas (A13)", {.hw_moves_below_min_isr = true}, 1},
	{"nobody looks whether logs diverge (A12)", {.no_divergence_check = true}, 1},
	{"a diverged follower's progress counts (A12)", {.diverged_progress_counts = true}, 1},
	{"what is settled by the row is led by the first of the ISR (A1)", {.row_settles_in_order = true}, 1},
	{"a broker claims what it has read of a PostgreSQL that went backwards, where additions land (A1)",
	 {.claims_what_it_read = true, .unsettled_row_grows = true},
	 28319},
	{"a longer log is cut, as its broker is about to stop (A1)", {.only_live_logs_count = true}, 31090},
	{"a log of a leader that nobody remembers is not seen (A1)", {.row_hides_newer_log = true}, 29000},
	{"a row that went back settles an ISR change of before (A1, A2)",
	 {.row_that_went_back_settles = true},
	 218201},
	{"an addition to the ISR lands on an unsettled row (A1)", {.unsettled_row_grows = true}, 792501},
	{"the partition epoch of a row that is not settled moves (A1)", {.unsettled_epoch_moves = true}, 56458},
	{"another disk is settled into the ISR (A1)", {.lost_disk_is_settled_in = true}, 1},
	{"a process leads on in the epoch that an earlier one of its broker claimed (A1, A3a)",
	 {.dead_process_is_in_office = true},
	 3866245},
	{"the high watermark moves before a disk has the epoch (A1)",
	 {.hw_moves_before_epoch_is_kept = true},
	 480725},
	{"a leader with an empty log has no answer to a longer one", {.empty_log_is_silent = true}, 1},
	{"a follower joins before the epoch's start", {.joins_before_epoch_start = true}, 1},
};

static void
test_mutations(World *w)
{
	for (size_t i = 0; i < sizeof(mutations) / sizeof(mutations[0]); i++)
	{
		uint64_t first = mutations[i].near, seed = first;
		Schedule s;

		for (; seed < first + CATCH_WITHIN; seed++)
		{
			make_schedule(seed, &s);
			if (!run(w, &s, &mutations[i].rules, NULL))
				break;
		}
		ok(seed < first + CATCH_WITHIN, "caught: %s", mutations[i].name);
		if (seed < first + CATCH_WITHIN && getenv("MODEL_SHOW") != NULL)
			show_failure(w, seed, &s, &mutations[i].rules);
		else
			printf("#   by seed %" PRIu64 ": %s\n", seed, w->violation);
	}
}

int
main(void)
{
	uint64_t seed = number_from("MODEL_SEED", 0);
	World *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return 1;
	if (seed != 0)
	{
		static const Rules sound;
		Schedule s;

		make_schedule(seed, &s);
		ok(run(w, &s, &sound, stdout), "seed %" PRIu64, seed);
	}
	else
	{
		test_protocol(w);
		test_mutations(w);
	}
	for (int id = 0; id < BROKERS_MAX; id++)
		epoch_cache_free(&w->brokers[id].disk.epochs);
	free(w);
	return tap_done();
}
