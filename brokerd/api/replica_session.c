#include "brokerd/api/replica_session.h"

#include <stdlib.h>
#include <sys/random.h>
#include <utlist.h>

#include "brokerd/cluster/leadership.h"
#include "brokerd/cluster/throttle.h"

/* ---- due, quiet or held ---- */

static void
unhold(ReplicaPart *part)
{
	if (!part->held)
		return;
	part->held = false;
	DL_DELETE2(part->session->held, part, held_prev, held_next);
}

void
replica_part_due(ReplicaPart *part)
{
	ReplicaSession *s = part->session;

	unhold(part);
	if (!part->due)
	{
		part->due = true;
		DL_APPEND2(s->due, part, due_prev, due_next);
	}
	if (s->parked != NULL && !s->woken)
	{
		s->woken = true;
		s->woken_next = s->broker->replica_woken;
		s->broker->replica_woken = s;
	}
}

void
replica_part_quiet(ReplicaPart *part)
{
	if (!part->due)
		return;
	part->due = false;
	DL_DELETE2(part->session->due, part, due_prev, due_next);
}

static void
on_release(struct ev_loop *loop, ev_timer *timer, int revents)
{
	ReplicaSession *s = timer->data;

	(void) loop;
	(void) revents;
	while (s->held != NULL)
		replica_part_due(s->held);
}

void
replica_part_hold(ReplicaPart *part, int64_t ms)
{
	ReplicaSession *s = part->session;

	replica_part_quiet(part);
	if (!part->held)
	{
		part->held = true;
		DL_APPEND2(s->held, part, held_prev, held_next);
	}
	if (ev_is_active(&s->release))
		return;
	ev_timer_set(&s->release, (double) (ms > THROTTLE_HOLD_MAX_MS ? THROTTLE_HOLD_MAX_MS : ms) / 1e3, 0.);
	ev_timer_start(s->broker->loop, &s->release);
}

void
replica_part_behind(ReplicaPart *part, bool behind)
{
	if (part->behind == behind)
		return;
	part->behind = behind;
	if (behind)
		DL_APPEND2(part->session->behind, part, behind_prev, behind_next);
	else
		DL_DELETE2(part->session->behind, part, behind_prev, behind_next);
}

static void
on_moved(PartitionWaiter *w, int16_t error)
{
	(void) error; /* the next look finds it */
	replica_part_due(w->owner);
}

/* ---- parts ---- */

Partition *
replica_part_partition(const ReplicaPart *part)
{
	return partitions_find_by_id(part->session->broker->partitions, &part->key.topic_id, part->key.partition);
}

ReplicaPart *
replica_session_find(ReplicaSession *s, const ReplicaKey *key)
{
	ReplicaPart *part;

	HASH_FIND(hh, s->parts, key, sizeof(*key), part);
	return part;
}

static void
drop_part(ReplicaPart *part)
{
	partition_unwait(&part->waiter);
	replica_part_quiet(part);
	unhold(part);
	replica_part_behind(part, false);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it is in the table */
	HASH_DEL(part->session->parts, part);
	free(part);
}

void
replica_session_forget(ReplicaSession *s, const WUuid *topic_id, int32_t partition)
{
	ReplicaKey key = {*topic_id, partition};
	ReplicaPart *part = replica_session_find(s, &key);

	if (part != NULL)
		drop_part(part);
}

/* What is wrong with the question itself, or where the logs part; else the follower has all below its offset. */
static int16_t
note_progress(ReplicaPart *part, const FetchRequestTopicsPartitions *want)
{
	ReplicaSession *s = part->session;
	Partition *p = replica_part_partition(part);
	int16_t error;

	if (p == NULL)
		return KERR_UNKNOWN_TOPIC_ID;
	if (part->waiter.partition == NULL)
	{
		part->waiter.wake = on_moved;
		part->waiter.owner = part;
		partition_wait(p, &part->waiter, WAIT_MORE, 0);
	}
	error = partition_check_leader(p, want->current_leader_epoch);
	if (error == KERR_NONE)
		error = partition_divergence(p, want->last_fetched_epoch, want->fetch_offset, &part->divergence);
	if (error != KERR_NONE || part->divergence.diverged)
		return error;
	if (want->fetch_offset > log_appended_end(p->log))
	{
		/* More than there is here, in epochs that nobody knows: cut to what there is. */
		part->divergence = (Divergence){true, log_latest_epoch(p->log), log_appended_end(p->log)};
		return KERR_NONE;
	}
	if (want->fetch_offset < log_start_offset(p->log))
		return KERR_OFFSET_OUT_OF_RANGE;
	return partition_follower_fetched(s->broker->partitions, p, s->replica_id, s->replica_epoch,
									  want->log_start_offset, want->fetch_offset);
}

void
replica_session_put(ReplicaSession *s, const WUuid *topic_id, const FetchRequestTopicsPartitions *want)
{
	ReplicaKey key = {*topic_id, want->partition};
	ReplicaPart *part = replica_session_find(s, &key);

	if (part == NULL)
	{
		part = calloc(1, sizeof(*part));
		if (part == NULL)
			return; /* the follower's fetch of it waits for ever; its lag shows */
		part->key = key;
		part->session = s;
		part->told_high_watermark = part->told_log_start = -1;
		HASH_ADD(hh, s->parts, key, sizeof(key), part);
	}
	part->fetch_offset = want->fetch_offset;
	part->max_bytes = want->partition_max_bytes;
	part->leader_epoch = want->current_leader_epoch;
	part->named_in = s->epoch;
	part->answered = false;
	part->divergence.diverged = false;
	/* A high watermark comes behind the look at where the logs part, not with an answer before it. */
	replica_part_behind(part, false);
	part->read_there = want->read_high_watermark >= 0;
	part->told_high_watermark = want->read_high_watermark;
	part->told_log_start = -1;
	part->error = note_progress(part, want);
	replica_part_due(part);
}

/* ---- sessions ---- */

ReplicaSession *
replica_session_new(Broker *broker, int32_t replica_id, int64_t replica_epoch)
{
	ReplicaSession *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->broker = broker;
	s->replica_id = replica_id;
	s->replica_epoch = replica_epoch;
	ev_init(&s->release, on_release);
	s->release.data = s;
	if (getrandom(&s->id, sizeof(s->id), 0) != (ssize_t) sizeof(s->id))
		s->id = replica_id;
	s->id = (s->id & INT32_MAX) | 1;
	return s;
}

void
replica_session_reset(ReplicaSession *s)
{
	ReplicaPart *part, *next;

	HASH_ITER (hh, s->parts, part, next)
		drop_part(part);
}

void
replica_session_free(ReplicaSession *s)
{
	ReplicaSession **link = &s->broker->replica_woken;

	replica_session_reset(s);
	ev_timer_stop(s->broker->loop, &s->release);
	while (s->woken && *link != s)
		link = &(*link)->woken_next;
	if (s->woken)
		*link = s->woken_next;
	free(s);
}
