/*
 * model_pg.h: what PostgreSQL does with the partition's row.  Each function is one transaction under the cluster
 * row.  Unclean election is off, no broker is drained, the topic's flush settings are not relaxed.
 */
#ifndef REGRESS_UNIT_CLUSTER_MODEL_PG_H
#define REGRESS_UNIT_CLUSTER_MODEL_PG_H

#include "brokerd/cluster/high_watermark.h"
#include "extension/election.h"
#include "regress/unit/cluster/model.h"

typedef enum DecideMode
{
	DECIDE_GONE,
	DECIDE_RESTART,
	DECIDE_DISK,
	DECIDE_STOP,
	DECIDE_LEADERLESS
} DecideMode;

static void
commit(World *w)
{
	w->pg.version = ++w->versions;
}

static bool
is_settled(const World *w)
{
	return w->pg.row.incarnation == w->pg.incarnation;
}

/* A leader epoch is above all that were given in other incarnations. */
static void
next_leader_epoch(World *w)
{
	Row *q = &w->pg.row;

	q->leader_epoch = q->leader_epoch + 1 > w->pg.epoch_floor ? q->leader_epoch + 1 : w->pg.epoch_floor;
	if (is_settled(w))
		q->settled_epoch = q->leader_epoch;
	if (q->leader_epoch > w->epochs_given)
		w->epochs_given = q->leader_epoch;
}

static IdSet
ids_of(Set s, int n, int32_t out[BROKERS_MAX])
{
	int count = 0;

	for (int32_t id = 0; id < n; id++)
		if ((s & ONE(id)) != 0)
			out[count++] = id;
	return (IdSet){out, count};
}

static int
pick_leader(const World *w, Set isr, Set elr, int leader, Set live)
{
	int32_t a[BROKERS_MAX], b[BROKERS_MAX], c[BROKERS_MAX], d[BROKERS_MAX], picked;
	ElectionInput in = {.replicas = ids_of(ONE(w->n) - 1, w->n, a),
						.isr = ids_of(isr, w->n, b),
						.elr = ids_of(elr, w->n, c),
						.live = ids_of(live, w->n, d),
						.leader = leader};

	election_pick(&in, &picked);
	return picked;
}

static Set
brokers_that(const World *w, bool also_stopping)
{
	Set s = 0;

	for (int id = 0; id < w->n; id++)
		if (w->pg.brokers[id].epoch > 0 && !w->pg.brokers[id].fenced &&
			(also_stopping || !w->pg.brokers[id].stopping))
			s |= ONE(id);
	return s;
}

static bool
is_concerned(const Row *q, DecideMode mode, Set gone, Set able)
{
	bool leads = q->leader >= 0 && (gone & ONE(q->leader)) != 0;

	switch (mode)
	{
		case DECIDE_LEADERLESS:
			return q->leader < 0;
		case DECIDE_STOP:
			return (q->isr & gone) != 0 && (q->isr & able) != 0;
		case DECIDE_DISK:
			return ((q->isr | q->elr) & gone) != 0 || leads;
		default:
			return (q->isr & gone) != 0 || leads;
	}
}

static void
pg_decide(World *w, DecideMode mode, Set gone, const char *why)
{
	Row *q = &w->pg.row, old = *q;
	Set alive = brokers_that(w, true) & ~gone, able = brokers_that(w, false) & ~gone;
	Set elr = mode == DECIDE_DISK ? q->elr & ~gone : q->elr;
	Set rest = mode == DECIDE_LEADERLESS ? q->isr & able : q->isr & ~gone;
	int leader;

	if (!is_concerned(q, mode, gone, able))
		return;
	if (is_settled(w))
		leader = pick_leader(w, rest, elr, q->leader, able);
	else
		leader = q->leader >= 0 && (gone & ONE(q->leader)) != 0 && mode != DECIDE_STOP ? NOBODY : q->leader;
	if (mode == DECIDE_LEADERLESS && leader < 0)
		return;
	if (!is_settled(w))
		;
	else if (leader >= 0 && (rest & ONE(leader)) == 0)
		q->isr = ONE(leader);
	else if (leader >= 0 || (rest & alive) != 0 || mode == DECIDE_DISK)
		q->isr = rest;
	q->elr =
		set_size(q->isr) >= w->min_isr ? 0 : (elr | old.isr) & ~q->isr & ~(mode == DECIDE_DISK ? gone : 0);
	q->leader = leader;
	if (leader == old.leader && q->isr == old.isr && q->elr == old.elr)
		return;
	if (leader != old.leader)
		next_leader_epoch(w);
	/* Of a row that is not settled only the leader changes; reports are compared with what it was. */
	if (is_settled(w) || w->rules.unsettled_epoch_moves)
		q->partition_epoch++;
	commit(w);
	say(w, "PostgreSQL: %s: leader %d epoch %d @%d, ISR %x ELR %x", why, q->leader, q->leader_epoch,
		q->partition_epoch, q->isr, q->elr);
}

/* fence_brokers() */
static void
pg_fence(World *w, Set dead)
{
	for (int id = 0; id < w->n; id++)
	{
		if ((dead & ONE(id)) == 0)
			continue;
		if (w->pg.brokers[id].fenced || w->pg.brokers[id].epoch == 0)
		{
			dead &= ~ONE(id);
			continue;
		}
		w->pg.brokers[id].fenced = true;
		w->pg.brokers[id].stopping = false;
		w->pg.brokers[id].epoch = ++w->epoch_clock;
	}
	if (dead == 0)
		return;
	commit(w);
	say(w, "PostgreSQL: brokers %x are dead", dead);
	pg_decide(w, DECIDE_GONE, dead, "dead");
}

/* ---- PostgreSQL goes backwards (hazards A1) ---- */

static void
begin_incarnation(World *w)
{
	commit(w);
	w->pg.incarnation = ++w->incarnations;
	w->pg.identity = w->identity;
	w->pg.epoch_floor = w->epochs_given + 1;
	say(w, "PostgreSQL: incarnation %" PRId64 ", leader epochs from %d", w->pg.incarnation,
		w->pg.epoch_floor);
}

/* A standby that has not the last `lost` commits is promoted: all sessions end, and what was under way with them. */
static void
pg_go_back(World *w, int lost)
{
	if (w->before[lost].version == 0)
		return;
	w->pg = w->before[lost];
	memset(w->before, 0, sizeof(w->before));
	w->identity++;
	for (int i = 0; i < MESSAGES_MAX; i++)
		if (w->messages[i].kind == ALTER || w->messages[i].kind == ALTER_REPLY ||
			w->messages[i].kind == METADATA)
			w->messages[i].kind = NO_MESSAGE;
	say(w, "PostgreSQL goes back: leader %d epoch %d @%d, ISR %x ELR %x", w->pg.row.leader,
		w->pg.row.leader_epoch, w->pg.row.partition_epoch, w->pg.row.isr, w->pg.row.elr);
}

/* Of `from`, the broker that lives and has the greatest (last epoch, log end). */
static int
longest_log(const World *w, Set from, Set live)
{
	int best = NOBODY;

	for (int id = 0; id < w->n; id++)
	{
		const Claim *c = &w->pg.claims[id];

		if ((from & live & ONE(id)) != 0 &&
			(best < 0 || c->last_epoch > w->pg.claims[best].last_epoch ||
			 (c->last_epoch == w->pg.claims[best].last_epoch && c->log_end > w->pg.claims[best].log_end)))
			best = id;
	}
	return best;
}

/* Those whose log is as that of `leader`: the same epoch at the same end is the same log. */
static Set
same_logs(const World *w, Set from, int leader)
{
	Set same = 0;

	for (int id = 0; id < w->n; id++)
		if ((from & ONE(id)) != 0 && w->pg.claims[id].last_epoch == w->pg.claims[leader].last_epoch &&
			w->pg.claims[id].log_end == w->pg.claims[leader].log_end)
			same |= ONE(id);
	return same;
}

/* settle(): when all have reported the newest report wins. */
static void
pg_settle(World *w)
{
	Row *q = &w->pg.row;
	Set live = brokers_that(w, false), lost = 0;
	const Claim *newest = &w->pg.claims[0];
	int32_t top_epoch = -1, top_log = -1, epoch;
	bool is_newer, in_office;
	Set isr;
	int leader;

	for (int id = 0; id < w->n; id++)
	{
		const Claim *c = &w->pg.claims[id];

		if (c->incarnation != w->pg.incarnation)
			return;
		if (c->partition_epoch > newest->partition_epoch ||
			(c->partition_epoch == newest->partition_epoch && c->leader_epoch > newest->leader_epoch))
			newest = c;
		top_epoch = c->heard_epoch > top_epoch ? c->heard_epoch : top_epoch;
		top_log = c->last_epoch > top_log ? c->last_epoch : top_log;
		if (w->pg.brokers[id].disk_lost_in > q->incarnation && !w->rules.lost_disk_is_settled_in)
			lost |= ONE(id);
	}
	commit(w);
	is_newer = newest->partition_epoch > q->partition_epoch;
	leader = is_newer ? newest->leader : q->leader;
	epoch = is_newer                       ? newest->leader_epoch
			: w->rules.row_hides_newer_log ? q->leader_epoch
										   : q->settled_epoch;
	isr = (is_newer ? newest->isr : q->isr) & ~lost;
	in_office = leader >= 0 && (live & ONE(leader)) != 0 && w->pg.claims[leader].leader == leader &&
				w->pg.claims[leader].leader_epoch == epoch && top_log <= epoch &&
				(w->pg.claims[leader].broker_epoch == w->pg.brokers[leader].epoch ||
				 w->rules.dead_process_is_in_office);
	/* A log knows of a leader that nobody remembers. */
	if (top_log > epoch)
		isr = (ONE(w->n) - 1) & ~lost;
	q->elr = 0;
	if (in_office)
	{
		q->isr = isr;
		/* Who has heard of a higher one takes nothing lower. */
		if (q->leader_epoch > epoch || top_epoch > epoch)
			next_leader_epoch(w);
		else
			q->leader_epoch = epoch;
	}
	else
	{
		int longest = longest_log(w, isr, w->rules.only_live_logs_count ? live : isr);

		/* Who of them lives is elected next. */
		leader = NOBODY;
		q->isr = longest < 0 || w->rules.row_settles_in_order ? isr : same_logs(w, isr, longest);
		q->leader_epoch = top_epoch > q->leader_epoch ? top_epoch : q->leader_epoch;
		q->leader_epoch = top_log > q->leader_epoch ? top_log : q->leader_epoch;
		next_leader_epoch(w);
	}
	q->leader = leader;
	q->partition_epoch =
		(newest->partition_epoch > q->partition_epoch ? newest->partition_epoch : q->partition_epoch) + 1;
	q->incarnation = w->pg.incarnation;
	q->settled_epoch = q->leader_epoch;
	say(w, "PostgreSQL: settled: leader %d epoch %d @%d, ISR %x ELR %x", q->leader, q->leader_epoch,
		q->partition_epoch, q->isr, q->elr);
	pg_decide(w, DECIDE_LEADERLESS, 0, "settled");
}

/* claim_partitions_1() */
static void
pg_claim(World *w, int id, const Claim *claim)
{
	Claim *kept = &w->pg.claims[id];
	Claim was = *kept;

	if (is_settled(w))
		return;
	*kept = *claim;
	kept->incarnation = w->pg.incarnation;
	kept->broker_epoch = w->pg.brokers[id].epoch;
	/* What an earlier process of it knew may be the only word of it; but that one does not lead any more. */
	if (was.incarnation == kept->incarnation &&
		(was.partition_epoch > claim->partition_epoch ||
		 (was.partition_epoch == claim->partition_epoch && was.leader_epoch > claim->leader_epoch)))
	{
		was.last_epoch = claim->last_epoch;
		was.log_end = claim->log_end;
		was.heard_epoch = was.heard_epoch > claim->heard_epoch ? was.heard_epoch : claim->heard_epoch;
		*kept = was;
	}
	say(w, "broker %d claims leader %d epoch %d @%d, ISR %x, log (%d, %d)", id, claim->leader,
		claim->leader_epoch, claim->partition_epoch, claim->isr, claim->last_epoch, claim->log_end);
	pg_settle(w);
}

/* register_broker_1(): the epoch. */
static int64_t
pg_register(World *w, int id)
{
	Broker *b = &w->brokers[id];
	PgBroker *o = &w->pg.brokers[id];
	bool known = o->epoch > 0;
	int64_t lost_in;
	bool disk_ok = !known || (o->directory == b->disk.directory && b->disk.broker_epoch >= o->disk_epoch);

	if (w->pg.identity != w->identity)
		begin_incarnation(w);
	if (known && o->process == b->process && !o->fenced && b->disk.broker_epoch <= o->epoch)
		return o->epoch;
	commit(w);
	lost_in = disk_ok ? o->disk_lost_in : w->pg.incarnation;
	if (known && !w->rules.restart_keeps_epoch)
		pg_decide(w, disk_ok || w->rules.other_disk_keeps_place ? DECIDE_RESTART : DECIDE_DISK, ONE(id),
				  disk_ok ? "restarted" : "came with another disk");
	*o = (PgBroker){.epoch = ++w->epoch_clock,
					.process = b->process,
					.directory = b->disk.directory,
					.disk_epoch = b->disk.broker_epoch,
					.disk_lost_in = lost_in};
	say(w, "PostgreSQL: broker %d registers, epoch %" PRId64, id, o->epoch);
	pg_decide(w, DECIDE_LEADERLESS, 0, "somebody is back");
	return o->epoch;
}

static bool
pg_check_broker(const World *w, int id, int64_t epoch)
{
	return w->pg.brokers[id].epoch == epoch && !w->pg.brokers[id].fenced;
}

static void
pg_stop(World *w, int id)
{
	w->pg.brokers[id].stopping = true;
	commit(w);
	pg_decide(w, DECIDE_STOP, ONE(id), "shuts down");
}

/* A leader by hand: any other live member of the ISR. */
static void
pg_prefer(World *w, int id)
{
	if (!is_settled(w) || w->pg.row.leader < 0 || w->pg.row.leader == id ||
		(w->pg.row.isr & brokers_that(w, false) & ONE(id)) == 0)
		return;
	w->pg.row.leader = id;
	next_leader_epoch(w);
	w->pg.row.partition_epoch++;
	commit(w);
	say(w, "PostgreSQL: leader %d epoch %d @%d by hand", id, w->pg.row.leader_epoch,
		w->pg.row.partition_epoch);
}

static bool
members_are_well(const World *w, const Message *m)
{
	for (int id = 0; id < w->n; id++)
	{
		const PgBroker *k = &w->pg.brokers[id];

		if ((m->isr & ONE(id)) == 0)
			continue;
		if (k->epoch == 0 || k->fenced || (k->stopping && id != m->from))
			return false;
		if (m->epochs[id] != -1 && m->epochs[id] != k->epoch && !w->rules.member_epochs_unchecked)
			return false;
	}
	return true;
}

/* alter_isr_1(): false is an error, so nothing is known of the row. */
static bool
pg_alter_isr(World *w, const Message *m, bool *landed)
{
	Row *q = &w->pg.row, old = *q;

	*landed = false;
	if (!pg_check_broker(w, m->from, m->broker_epoch))
		return false;
	if (q->leader != m->from || q->leader_epoch != m->leader_epoch ||
		q->partition_epoch != m->partition_epoch || (m->isr & ONE(m->from)) == 0 || !members_are_well(w, m) ||
		(!is_settled(w) && !(q->isr == m->isr ? w->rules.row_that_went_back_settles
											  : (q->isr & ~m->isr) == 0 && w->rules.unsettled_row_grows)))
		return true;
	q->isr = m->isr;
	q->elr = set_size(q->isr) >= w->min_isr ? 0 : (old.elr | old.isr) & ~q->isr;
	q->partition_epoch++;
	commit(w);
	*landed = true;
	say(w, "PostgreSQL: broker %d changes the ISR to %x @%d, ELR %x", m->from, q->isr, q->partition_epoch,
		q->elr);
	return true;
}

static Image
pg_read(const World *w)
{
	Image image = {.version = w->pg.version,
				   .incarnation = w->pg.incarnation,
				   .row = w->pg.row,
				   .serving = brokers_that(w, true)};

	for (int id = 0; id < w->n; id++)
		image.epochs[id] = w->pg.brokers[id].epoch;
	return image;
}

#endif
