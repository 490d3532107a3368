#include "brokerd/cluster/partition.h"

#include <stdlib.h>
#include <utlist.h>

#include "brokerd/base/logging.h"
#include "brokerd/cluster/fetcher.h"
#include "brokerd/cluster/high_watermark.h"
#include "brokerd/cluster/internal.h"
#include "brokerd/cluster/leadership.h"
#include "wire/errors.h"

/* ---- waiting ---- */

static void
take_off(PartitionWaiter *w)
{
	DL_DELETE(w->partition->waiters[w->kind], w);
	w->partition = NULL;
}

bool
partition_wait(Partition *p, PartitionWaiter *w, WaitFor kind, int64_t offset)
{
	if (kind == WAIT_SYNCED && log_synced_end(p->log) >= offset)
		return false;
	if (kind == WAIT_COMMITTED && p->high_watermark >= offset)
		return false;
	w->partition = p;
	w->kind = kind;
	w->offset = offset;
	DL_APPEND(p->waiters[kind], w);
	return true;
}

void
partition_unwait(PartitionWaiter *w)
{
	if (w->partition != NULL)
		take_off(w);
}

/* Offsets are waited for in the order of the appends, so those that are reached stand in front. */
static void
wake_reached(Partition *p, WaitFor kind, int64_t reached)
{
	while (p->waiters[kind] != NULL && p->waiters[kind]->offset <= reached)
	{
		PartitionWaiter *w = p->waiters[kind];

		take_off(w);
		w->wake(w, KERR_NONE);
	}
}

void
partition_wake_fetches(Partition *p)
{
	PartitionWaiter *w, *next;

	DL_FOREACH_SAFE (p->waiters[WAIT_MORE], w, next)
		w->wake(w, KERR_NONE);
}

/* Nothing that is waited for can come any more: say so to those who wait for an append. */
void
partition_fail_waiters(Partition *p, int16_t error)
{
	for (WaitFor kind = WAIT_SYNCED; kind <= WAIT_COMMITTED; kind++)
		while (p->waiters[kind] != NULL)
		{
			PartitionWaiter *w = p->waiters[kind];

			take_off(w);
			w->wake(w, error);
		}
	partition_wake_fetches(p);
}

/* ---- the high watermark ---- */

void
partition_mark_dirty(PartitionTable *t, Partition *p)
{
	if (p->report_dirty)
		return;
	p->report_dirty = true;
	p->next_dirty = NULL;
	if (t->dirty_tail != NULL)
		t->dirty_tail->next_dirty = p;
	else
		t->dirty_head = p;
	t->dirty_tail = p;
}

Partition *
partitions_pop_dirty(PartitionTable *t)
{
	Partition *p = t->dirty_head;

	if (p == NULL)
		return NULL;
	t->dirty_head = p->next_dirty;
	if (t->dirty_head == NULL)
		t->dirty_tail = NULL;
	p->report_dirty = false;
	return p;
}

void
partitions_report_again(PartitionTable *t, Partition *p)
{
	partition_mark_dirty(t, p);
}

/* When nobody has set min.insync.replicas it goes by the partition's replicas. */
static int
partition_min_isr(const Partition *p)
{
	return p->topic->min_isr >= 0 ? p->topic->min_isr : p->default_min_isr;
}

/*
 * What is committed in our epoch must be known to be of it when PostgreSQL has lost our election (hazards A1).  The
 * records themselves say so, but for those of older epochs; of one replica there is no other log to compare with.
 */
static bool
epoch_is_kept(Partition *p, int64_t high_watermark)
{
	if (p->n_replicas == 1 || log_epoch_is_kept(p->log, p->leader_epoch, high_watermark))
		return true;
	log_keep_epoch(p->log, p->leader_epoch);
	return false;
}

void
partition_advance(PartitionTable *t, Partition *p)
{
	int64_t synced;

	if (p->log == NULL)
		return;
	synced = log_synced_end(p->log);
	if (p->leading)
	{
		HwReplica followers[META_MAX_LIST];
		HwInput in = {
			.current = p->high_watermark,
			.leader_synced_end = synced,
			.isr_size = p->isr_size,
			.min_isr = partition_min_isr(p),
			.n_assigned = p->n_replicas,
			.followers = followers,
			.n_followers = leadership_ends(p->lead, followers),
		};
		int64_t hw = hw_next(&in);

		if (hw != p->high_watermark && epoch_is_kept(p, hw))
		{
			p->high_watermark = hw;
			log_set_high_watermark(p->log, hw);
		}
	}
	if (p->follow != NULL)
		fetcher_log_changed(p);
	partition_mark_dirty(t, p);
	wake_reached(p, WAIT_SYNCED, synced);
	wake_reached(p, WAIT_COMMITTED, p->high_watermark);
	partition_wake_fetches(p);
}

void
partitions_log_changed(PartitionTable *t, Log *log)
{
	Partition *p = log_user(log);
	const char *why = log_error(log);

	if (p == NULL)
		return;
	/* What it would ask for, it could not take; and see repair.h. */
	if (log_is_broken(log))
		fetcher_unfollow(p);
	if (why != NULL && !p->reported_failed)
	{
		log_msg(LOG_ERROR, "cluster", "%s-%d refuses writes: %s", p->topic->name, p->index, why);
		p->reported_failed = true;
	}
	else if (why == NULL && p->reported_failed)
	{
		log_msg(LOG_INFO, "cluster", "%s-%d takes writes again", p->topic->name, p->index);
		p->reported_failed = false;
	}
	partition_advance(t, p);
	/* What was reached before the failure is answered above; the rest cannot come. */
	if (why != NULL)
		partition_fail_waiters(p, KERR_KAFKA_STORAGE_ERROR);
}

int64_t
partition_high_watermark(const Partition *p)
{
	return p->high_watermark;
}

int64_t
partition_readable_end(const Partition *p)
{
	int64_t end = log_written_end(p->log);

	return p->high_watermark < end ? p->high_watermark : end;
}

int64_t
partition_last_stable_offset(const Partition *p)
{
	int64_t lso = log_last_stable_offset(p->log);

	return lso < p->high_watermark ? lso : p->high_watermark;
}

/* ---- as leader ---- */

int16_t
partition_check_leader(const Partition *p, int32_t current_leader_epoch)
{
	if (current_leader_epoch >= 0 && current_leader_epoch < p->leader_epoch)
		return KERR_FENCED_LEADER_EPOCH;
	if (current_leader_epoch >= 0 && current_leader_epoch > p->leader_epoch)
		return KERR_UNKNOWN_LEADER_EPOCH;
	if (!p->leading)
		return KERR_NOT_LEADER_OR_FOLLOWER;
	if (p->log_is_due)
		return KERR_NOT_LEADER_OR_FOLLOWER; /* it is a matter of milliseconds: clients look again */
	/* One that could not be opened has no offsets: answered as empty, it would send consumers to its start. */
	if (p->log == NULL || !log_is_open(p->log))
		return KERR_KAFKA_STORAGE_ERROR;
	return KERR_NONE;
}

int16_t
partition_check_reader(const Partition *p, int32_t current_leader_epoch, bool as_follower)
{
	int16_t error = partition_check_leader(p, current_leader_epoch);

	if (error != KERR_NOT_LEADER_OR_FOLLOWER || !as_follower || p->follow == NULL || p->log == NULL ||
		!log_is_open(p->log))
		return error;
	return fetcher_check_reader(p);
}

int
partition_effective_min_isr(const Partition *p)
{
	return hw_effective_min_isr(partition_min_isr(p), p->n_replicas);
}

bool
partition_enough_replicas(const Partition *p)
{
	return p->isr_size >= partition_effective_min_isr(p);
}

int16_t
partition_append(Partition *p, LogAppend *append)
{
	/* The epoch's start is recorded before its first record (hazards A12), and only then: a start with
	 * 10,000 partitions writes no 10,000 files. */
	if (log_latest_epoch(p->log) != p->leader_epoch)
	{
		Err err;

		if (!log_begin_epoch(p->log, p->leader_epoch, &err))
		{
			log_msg(LOG_ERROR, "cluster", "%s-%d: cannot record leader epoch %d: %s", p->topic->name,
					p->index, p->leader_epoch, err.text);
			return KERR_KAFKA_STORAGE_ERROR;
		}
	}
	append->leader_epoch = p->leader_epoch;
	leadership_before_append(p->lead);
	return log_append_as_leader(p->log, append);
}

/*
 * As if the current epoch stood in the log's epoch cache with the log end as its start, which is true
 * though it is written down only before its first record:
 *
 *     epochs of the log: 3 from 0, 5 from 40     current epoch 8, log end 70
 *     asked 8 -> (8, 70)   6 or 7 -> (5, 70)   5 -> (5, 70)   4 -> (3, 40)
 *
 *     no epoch yet, log end 0             current epoch 8
 *     asked 8 -> (8, 0)    6 -> (6, 0)
 */
void
partition_epoch_end(const Partition *p, int32_t epoch, int32_t *found, int64_t *end)
{
	int32_t latest = log_latest_epoch(p->log);

	if (epoch == p->leader_epoch || (epoch < p->leader_epoch && epoch > latest && epoch >= 0))
	{
		/* Older than all that is here, so all of it is behind the end: without an answer a longer log could
		 * never follow an empty one. */
		*found = epoch == p->leader_epoch || latest < 0 ? epoch : latest;
		*end = log_appended_end(p->log);
		return;
	}
	log_epoch_end(p->log, epoch, found, end);
}

int16_t
partition_divergence(const Partition *p, int32_t last_epoch, int64_t offset, Divergence *out)
{
	out->diverged = false;
	if (last_epoch < 0)
		return KERR_NONE;
	partition_epoch_end(p, last_epoch, &out->epoch, &out->end);
	if (out->epoch < 0 || out->end < 0)
		return KERR_OFFSET_OUT_OF_RANGE;
	out->diverged = out->epoch < last_epoch || out->end < offset;
	return KERR_NONE;
}
