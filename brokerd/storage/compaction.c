#include "brokerd/storage/compaction.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/checkpoint.h"
#include "brokerd/storage/compact_pass.h"
#include "brokerd/storage/compact_rule.h"
#include "brokerd/storage/index.h"
#include "brokerd/storage/manager.h"
#include "brokerd/storage/schedule.h"

/* ---- what a log waits for ---- */

static void
set_due(Log *log, int64_t due_ms)
{
	log->compaction->due_ms = due_ms;
	schedule_update(log);
}

int64_t
compaction_due_ms(const Log *log)
{
	return log->compaction == NULL ? INT64_MAX : log->compaction->due_ms;
}

void
compaction_wake(Log *log)
{
	if (log->compaction != NULL && log->compaction->job == NULL && !log->compaction->waiting &&
		!log->compaction->held && log->compaction->due_ms > 0)
		set_due(log, 0);
}

void
compaction_high_moved(Log *log)
{
	if (log->compaction != NULL && log->compaction->waits_for_high)
		compaction_wake(log);
}

bool
compaction_is_swapping(const Log *log)
{
	return log->compaction != NULL && log->compaction->swapping;
}

void
compaction_configure(Log *log)
{
	LogCompaction *c = log->compaction;

	if (log->config.cleanup_compact && c == NULL)
	{
		c = log->compaction = calloc(1, sizeof(*c));
		/* Tombstones of earlier processes go at some time before that. */
		c->tombstones_go_ms = log->config.delete_retention_ms > INT64_MAX - clock_wall_ms()
								  ? INT64_MAX
								  : clock_wall_ms() + log->config.delete_retention_ms;
		c->due_ms = 0;
	}
	else if (!log->config.cleanup_compact && c != NULL)
	{
		c->due_ms = INT64_MAX;
		if (c->job != NULL)
			compact_pass_cancel(c->job);
		else
			compaction_free(log);
	}
	else if (c != NULL)
		compaction_wake(log);
}

/* ---- the question ---- */

static bool
is_ready(const Log *log, int i)
{
	const LogSegment *s = log->segments[i];

	/* A log that is in order has flushed those before, too. */
	return s->sealed && s->index_synced && !s->unsynced && !s->retired && s->flushed_end >= s->written_end;
}

static int64_t
stable_end(const Log *log)
{
	int64_t open = producer_state_first_unstable(log->producers, log->high_watermark);

	return open < log->high_watermark ? open : log->high_watermark;
}

static int64_t
index_bytes(const LogSegment *s)
{
	int64_t entries = (int64_t) index_entry_count(s) * 8, times = (int64_t) index_time_count(s) * 12;

	return entries > times ? entries : times;
}

CompactSegment *
compaction_segments(const Log *log)
{
	CompactSegment *out = malloc(sizeof(*out) * (size_t) (log->nsegments + 1));

	for (int i = 0; out != NULL && i < log->nsegments; i++)
	{
		const LogSegment *s = log->segments[i];

		out[i] = (CompactSegment){.base_offset = s->base_offset,
								  .end_offset = s->end_offset,
								  .size = s->size,
								  .first_timestamp = s->first_timestamp,
								  .time_ms = s->max_timestamp >= 0 ? s->max_timestamp : s->created_ms,
								  .index_bytes = index_bytes(s),
								  .ready = is_ready(log, i)};
	}
	return out;
}

CompactVerdict
compaction_verdict(const Log *log, const CompactSegment *segments, int64_t now)
{
	const LogConfig *c = &log->config;
	CompactQuestion q = {.segments = segments,
						 .n = log->nsegments,
						 .cleaned_end = log->cleaned_end,
						 .stable_end = stable_end(log),
						 .min_dirty_ratio = c->min_dirty_ratio,
						 .min_lag_ms = c->min_compaction_lag_ms,
						 .max_lag_ms = c->max_compaction_lag_ms,
						 .tombstones_go_ms = log->compaction->tombstones_go_ms,
						 .now_ms = now};

	return compact_rule(&q);
}

/* Left as it is, until the segment is gone. */
static bool
has_damage(const Log *log)
{
	for (int i = 0; log->compaction->damaged != 0 && i < log->nsegments; i++)
		if (log->segments[i]->content == log->compaction->damaged)
			return true;
	return false;
}

/* ---- the queue ---- */

static void
queue_add(Log *log)
{
	LogManager *m = log->m;

	log->compaction->waiting = true;
	log->compaction->next = NULL;
	if (m->compact_last != NULL)
		m->compact_last->compaction->next = log;
	else
		m->compact_first = log;
	m->compact_last = log;
}

static void
queue_remove(Log *log)
{
	LogManager *m = log->m;
	Log *before = NULL;

	if (!log->compaction->waiting)
		return;
	for (Log *l = m->compact_first; l != log; l = l->compaction->next)
		before = l;
	if (before != NULL)
		before->compaction->next = log->compaction->next;
	else
		m->compact_first = log->compaction->next;
	if (m->compact_last == log)
		m->compact_last = before;
	log->compaction->waiting = false;
}

/* The one thread is free: the log that has waited longest is looked at again. */
void
compaction_start_next(LogManager *m)
{
	while (!m->compacting && !m->closing && m->compact_first != NULL)
	{
		Log *log = m->compact_first;

		queue_remove(log);
		compaction_look(log, clock_wall_ms());
	}
}

void
compaction_look(Log *log, int64_t now)
{
	LogCompaction *c = log->compaction;
	CompactSegment *segments;
	CompactVerdict v;

	if (c == NULL || c->job != NULL || c->waiting || c->held)
		return;
	c->due_ms = INT64_MAX;
	c->waits_for_high = false;
	if (log->state != LOG_STATE_OK || log->m->closing || !log->config.cleanup_compact || has_damage(log) ||
		(segments = compaction_segments(log)) == NULL)
		return;
	v = compaction_verdict(log, segments, now);
	c->waits_for_high = v.waits_for_high;
	if (!v.run)
		c->due_ms = v.look_ms;
	else if (log->m->compacting)
		queue_add(log);
	else
		compact_pass_start(log, segments, &v, now);
	free(segments);
	schedule_update(log);
}

/* ---- when others change the log ---- */

void
compaction_hold(Log *log)
{
	if (log->compaction == NULL)
		return;
	queue_remove(log);
	log->compaction->held = true;
	if (log->compaction->job != NULL)
		compact_pass_cancel(log->compaction->job);
	while (compaction_is_swapping(log))
		dispatch_wait(log->m);
}

void
compaction_release(Log *log)
{
	if (log->compaction == NULL)
		return;
	log->compaction->held = false;
	compaction_wake(log);
}

/*
 * Without the file everything counts as not cleaned, which is always right; said of records that come to these offsets
 * later, "cleaned" could let a tombstone go before what it hides.
 */
void
compaction_forget_from(Log *log, int64_t offset)
{
	LogManager *m = log->m;
	char path[STORAGE_PATH_MAX];

	if (log->cleaned_end <= offset)
		return;
	log->cleaned_end = offset;
	while (m->checkpoint_running)
		dispatch_wait(m);
	snprintf(path, sizeof(path), "%s/%s", m->dir, CLEANER_CHECKPOINT);
	if ((unlink(path) != 0 && errno != ENOENT) || fsync(m->dir_fd) != 0)
		log_msg(LOG_ERROR, "storage", "%s cannot be deleted: %s", path, strerror(errno));
	m->cleaned_dirty = m->checkpoint_dirty = true;
}

void
compaction_log_gone(Log *log)
{
	if (log->cleaned_end > 0)
		log->m->cleaned_dirty = log->m->start_dirty = true;
	if (log->compaction == NULL)
		return;
	queue_remove(log);
	if (log->compaction->job != NULL)
		compact_pass_cancel(log->compaction->job);
}

void
compaction_free(Log *log)
{
	if (log->compaction == NULL)
		return;
	queue_remove(log);
	free(log->compaction);
	log->compaction = NULL;
}

void
compaction_close(LogManager *m)
{
	Log *log, *tmp;

	HASH_ITER (hh, m->logs, log, tmp)
		if (log->compaction != NULL)
		{
			queue_remove(log);
			if (log->compaction->job != NULL)
				compact_pass_cancel(log->compaction->job);
		}
}
