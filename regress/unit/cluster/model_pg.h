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
		if (w->pg[id].epoch > 0 && !w->pg[id].fenced && (also_stopping || !w->pg[id].stopping))
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
	Row *q = &w->row, old = *q;
	Set alive = brokers_that(w, true) & ~gone, able = brokers_that(w, false) & ~gone;
	Set elr = mode == DECIDE_DISK ? q->elr & ~gone : q->elr;
	Set rest = mode == DECIDE_LEADERLESS ? q->isr & able : q->isr & ~gone;
	int leader;

	if (!is_concerned(q, mode, gone, able))
		return;
	leader = pick_leader(w, rest, elr, q->leader, able);
	if (mode == DECIDE_LEADERLESS && leader < 0)
		return;
	if (leader >= 0 && (rest & ONE(leader)) == 0)
		q->isr = ONE(leader);
	else if (leader >= 0 || (rest & alive) != 0 || mode == DECIDE_DISK)
		q->isr = rest;
	q->elr =
		set_size(q->isr) >= w->min_isr ? 0 : (elr | old.isr) & ~q->isr & ~(mode == DECIDE_DISK ? gone : 0);
	q->leader = leader;
	if (leader == old.leader && q->isr == old.isr && q->elr == old.elr)
		return;
	if (leader != old.leader)
		q->leader_epoch++;
	q->partition_epoch++;
	w->version++;
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
		if (w->pg[id].fenced || w->pg[id].epoch == 0)
		{
			dead &= ~ONE(id);
			continue;
		}
		w->pg[id].fenced = true;
		w->pg[id].stopping = false;
		w->pg[id].epoch = ++w->epoch_clock;
	}
	if (dead == 0)
		return;
	w->version++;
	say(w, "PostgreSQL: brokers %x are dead", dead);
	pg_decide(w, DECIDE_GONE, dead, "dead");
}

/* register_broker_1(): the epoch. */
static int64_t
pg_register(World *w, int id)
{
	Broker *b = &w->brokers[id];
	PgBroker *o = &w->pg[id];
	bool known = o->epoch > 0;
	bool disk_ok = !known || (o->directory == b->disk.directory && b->disk.broker_epoch >= o->disk_epoch);

	if (known && o->process == b->process && !o->fenced)
		return o->epoch;
	w->version++;
	if (known && !w->rules.restart_keeps_epoch)
		pg_decide(w, disk_ok || w->rules.other_disk_keeps_place ? DECIDE_RESTART : DECIDE_DISK, ONE(id),
				  disk_ok ? "restarted" : "came with another disk");
	*o = (PgBroker){.epoch = ++w->epoch_clock,
					.process = b->process,
					.directory = b->disk.directory,
					.disk_epoch = b->disk.broker_epoch};
	say(w, "PostgreSQL: broker %d registers, epoch %" PRId64, id, o->epoch);
	pg_decide(w, DECIDE_LEADERLESS, 0, "somebody is back");
	return o->epoch;
}

static bool
pg_check_broker(const World *w, int id, int64_t epoch)
{
	return w->pg[id].epoch == epoch && !w->pg[id].fenced;
}

static void
pg_stop(World *w, int id)
{
	w->pg[id].stopping = true;
	w->version++;
	pg_decide(w, DECIDE_STOP, ONE(id), "shuts down");
}

/* A leader by hand: any other live member of the ISR. */
static void
pg_prefer(World *w, int id)
{
	if (w->row.leader < 0 || w->row.leader == id || (w->row.isr & brokers_that(w, false) & ONE(id)) == 0)
		return;
	w->row.leader = id;
	w->row.leader_epoch++;
	w->row.partition_epoch++;
	w->version++;
	say(w, "PostgreSQL: leader %d epoch %d @%d by hand", id, w->row.leader_epoch, w->row.partition_epoch);
}

static bool
members_are_well(const World *w, const Message *m)
{
	for (int id = 0; id < w->n; id++)
	{
		const PgBroker *k = &w->pg[id];

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
	Row *q = &w->row, old = *q;

	*landed = false;
	if (!pg_check_broker(w, m->from, m->broker_epoch))
		return false;
	if (q->leader != m->from || q->leader_epoch != m->leader_epoch ||
		q->partition_epoch != m->partition_epoch || (m->isr & ONE(m->from)) == 0 || !members_are_well(w, m))
		return true;
	q->isr = m->isr;
	q->elr = set_size(q->isr) >= w->min_isr ? 0 : (old.elr | old.isr) & ~q->isr;
	q->partition_epoch++;
	w->version++;
	*landed = true;
	say(w, "PostgreSQL: broker %d changes the ISR to %x @%d, ELR %x", m->from, q->isr, q->partition_epoch,
		q->elr);
	return true;
}

static Image
pg_read(const World *w)
{
	Image image = {.version = w->version, .row = w->row, .serving = brokers_that(w, true)};

	for (int id = 0; id < w->n; id++)
		image.epochs[id] = w->pg[id].epoch;
	return image;
}

#endif
