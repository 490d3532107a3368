#include "brokerd/storage/retention.h"

#include <inttypes.h>
#include <stdio.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/compaction.h"
#include "brokerd/storage/janitor.h"
#include "brokerd/storage/manager.h"
#include "brokerd/storage/retire.h"
#include "brokerd/storage/roll.h"
#include "brokerd/storage/schedule.h"
#include "wire/errors.h"

#define RETRY_MS 1000

/* Records may carry no time: then it is that of the segment's file. */
static int64_t
segment_time(const LogSegment *s)
{
	return s->max_timestamp >= 0 ? s->max_timestamp : s->created_ms;
}

static bool
is_expired(const Log *log, const LogSegment *s, int64_t now)
{
	return log->config.retention_ms >= 0 && now - segment_time(s) > log->config.retention_ms;
}

RetentionVerdict
retention_check(const Log *log, int64_t now)
{
	RetentionVerdict v = {0};
	int64_t size = log->size;

	for (int i = 0; i < log->nsegments; i++)
	{
		const LogSegment *s = log->segments[i];

		/* What consumers cannot have seen yet stays, whatever its age. */
		if (s->end_offset > log->high_watermark || (s->size == 0 && i == log->nsegments - 1))
			break;
		if (s->end_offset <= log->start_offset && i < log->nsegments - 1)
			v.reason = "it is below the log start offset";
		else if (log->config.cleanup_delete && is_expired(log, s, now))
			v.reason = "retention.ms";
		else if (log->config.cleanup_delete && log->config.retention_bytes >= 0 && i < log->nsegments - 1 &&
				 size - s->size >= log->config.retention_bytes)
			v.reason = "retention.bytes";
		else
			break;
		size -= s->size;
		v.expired++;
	}
	return v;
}

static bool
is_below_start(const Log *log)
{
	return log->nsegments > 1 && log->segments[0]->end_offset <= log->start_offset;
}

/* By age or size, whenever that is looked at; INT64_MAX: never. */
static int64_t
expiry_ms(const Log *log, const LogSegment *s)
{
	int64_t t;

	if (log->nsegments > 1 && log->config.cleanup_delete && log->config.retention_bytes >= 0 &&
		log->size - s->size >= log->config.retention_bytes)
		return 0;
	if (!log->config.cleanup_delete || log->config.retention_ms < 0)
		return INT64_MAX;
	t = segment_time(s);
	return log->config.retention_ms > INT64_MAX - t - 1 ? INT64_MAX : t + log->config.retention_ms + 1;
}

int64_t
retention_due_ms(const Log *log)
{
	const LogSegment *s = log->nsegments == 0 ? NULL : log->segments[0];
	int64_t due;

	if (s == NULL || s->size == 0)
		return INT64_MAX;
	if (is_below_start(log))
		return 0;
	due = expiry_ms(log, s);
	return due < log->retention_from_ms ? log->retention_from_ms : due;
}

void
retention_set_start(Log *log, int64_t offset)
{
	if (offset <= log->start_offset)
		return;
	log->start_offset = offset;
	if (log->wanted_start < offset)
		log->wanted_start = offset;
	if (epoch_cache_truncate_start(&log->epochs, offset))
		log_epochs_changed(log);
	if (log->high_watermark < offset)
		log->high_watermark = offset;
	log->m->checkpoint_dirty = true;
	log_changed(log);
}

static void
drop(Log *log, int n, const char *reason)
{
	int64_t start;

	/* All of it is too old: what comes next goes to a new segment. */
	if (n == log->nsegments)
		roll_segment(log, log->appended_end);
	start = log->segments[n]->base_offset;
	while (n-- > 0)
		retire_segment(log, 0, reason);
	retention_set_start(log, start);
}

static void
run_retention(Log *log, int64_t now)
{
	RetentionVerdict v;

	/* What is not due by its time may be due by another: a clock that was set back must not stop it. */
	if (!is_below_start(log) && now < log->retention_from_ms &&
		log->retention_from_ms - now <= log->m->opt.retention_interval_ms)
		return;
	log->retention_from_ms = now + log->m->opt.retention_interval_ms;
	v = retention_check(log, now);
	/* A segment with writes under way waits for them, and one that is being replaced for its successor. */
	if (v.expired > 0 && log->inflight_first == NULL && log->written_end == log->appended_end &&
		!compaction_is_swapping(log))
		drop(log, v.expired, v.reason);
}

void
retention_drop_below_start(Log *log)
{
	schedule_at(log, 0);
}

static void
run_due(Log *log, int64_t now)
{
	LogManager *m = log->m;

	if (log->state != LOG_STATE_OK)
		return;
	if (log->flush_due_ms <= now)
		log_flush(log);
	if (roll_due_ms(log) <= now && log->inflight_first == NULL)
		roll_segment(log, log->appended_end);
	run_retention(log, now);
	if (compaction_due_ms(log) <= now)
		compaction_look(log, now);
	if (log->producers_due_ms <= now)
		log->producers_due_ms = producer_state_expire(log->producers, now, m->opt.producer_expiration_ms);
	schedule_update(log);
	/* Something is due that cannot be done yet (the high watermark is behind, writes are under way). */
	if (log->due_index >= 0 && log->due_ms <= now)
	{
		schedule_remove(log);
		schedule_at(log, now + RETRY_MS);
	}
}

static void
watch_syncs(LogManager *m)
{
	int64_t us = syncer_oldest_us(m, clock_boot_us());

	if (us > STUCK_SYNC_US && !m->stuck)
	{
		m->stuck = true;
		log_msg(LOG_ERROR, "storage", "a sync of %s has been running for %" PRId64 " s", m->dir,
				us / 1000000);
		if (m->opt.on_stuck != NULL)
			m->opt.on_stuck(m->opt.ctx, true);
	}
	else if (m->stuck && us < STUCK_SYNC_US)
	{
		m->stuck = false;
		log_msg(LOG_INFO, "storage", "syncs of %s go on", m->dir);
		if (m->opt.on_stuck != NULL)
			m->opt.on_stuck(m->opt.ctx, false);
	}
}

void
log_manager_tick(LogManager *m, int64_t wall_ms)
{
	Log *log;

	m->wall_ms = wall_ms;
	while ((log = schedule_due(m, wall_ms)) != NULL)
		run_due(log, wall_ms);
	watch_syncs(m);
	janitor_tick(m, wall_ms);
	log_changed_flush(m);
}
