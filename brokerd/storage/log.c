/* A Log's state as the layers above see it, and the small helpers that everybody here uses. */
#include "brokerd/storage/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/compaction.h"
#include "brokerd/storage/manager.h"
#include "brokerd/storage/schedule.h"
#include "wire/errors.h"

void
log_config_default(LogConfig *c)
{
	*c = (LogConfig){.segment_bytes = 1073741824,
					 .segment_ms = 604800000,
					 .segment_jitter_ms = 0,
					 .segment_index_bytes = 10485760,
					 .index_interval_bytes = 4096,
					 .retention_ms = 604800000,
					 .retention_bytes = -1,
					 .cleanup_delete = true,
					 .cleanup_compact = false,
					 .min_dirty_ratio = 0.5,
					 .min_compaction_lag_ms = 0,
					 .max_compaction_lag_ms = INT64_MAX,
					 .delete_retention_ms = 86400000,
					 .max_message_bytes = 1048588,
					 .flush_messages = INT64_MAX,
					 .flush_ms = INT64_MAX,
					 .file_delete_delay_ms = 60000,
					 .log_append_time = false,
					 .timestamp_before_max_ms = INT64_MAX,
					 .timestamp_after_max_ms = 3600000};
}

bool
log_parse_name(const char *name, char *topic, size_t cap, int32_t *partition)
{
	const char *dash = strrchr(name, '-');
	char *end;
	long p;

	if (dash == NULL || dash == name || dash[1] < '0' || dash[1] > '9' || (size_t) (dash - name) >= cap)
		return false;
	errno = 0;
	p = strtol(dash + 1, &end, 10);
	if (*end != '\0' || errno != 0 || p > INT32_MAX || (dash[1] == '0' && dash[2] != '\0'))
		return false;
	memcpy(topic, name, (size_t) (dash - name));
	topic[dash - name] = '\0';
	*partition = (int32_t) p;
	return true;
}

Log *
log_new(LogManager *m, const char *name)
{
	Log *log = calloc(1, sizeof(*log));
	char topic[LOG_DIR_NAME_MAX + 1];

	if (!log_parse_name(name, topic, sizeof(topic), &log->partition))
	{
		free(log);
		return NULL;
	}
	log->m = m;
	log->name = strdup(name);
	log->topic = strdup(topic);
	log_config_default(&log->config);
	log->last_append_ms = log->stop_snapshot = -1;
	log->begun_epoch = log->begun_asked_epoch = -1;
	log->flush_due_ms = log->producers_due_ms = INT64_MAX;
	log->due_index = -1;
	log->followed = true;
	log->retention_from_ms = clock_wall_ms() + log->m->opt.retention_interval_ms;
	log->due_ms = INT64_MAX;
	return log;
}

void
log_free(Log *log)
{
	for (int i = 0; i < log->nsegments; i++)
	{
		LogSegment *s = log->segments[i];

		segment_set_unsynced(s, false);
		s->log = NULL;
		segment_unref(s);
	}
	schedule_remove(log);
	compaction_free(log);
	free(log->segments);
	free(log->ring.e);
	epoch_cache_free(&log->epochs);
	producer_state_free(log->producers);
	free(log->name);
	free(log->topic);
	free(log->error);
	free(log);
}

void
log_changed(Log *log)
{
	LogManager *m = log->m;

	if (log->in_changed || log->deleted)
		return;
	log->in_changed = true;
	log->changed_next = NULL;
	if (m->changed_last != NULL)
		m->changed_last->changed_next = log;
	else
		m->changed = log;
	m->changed_last = log;
}

void
log_set_error(Log *log, LogState state, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (log->state == LOG_STATE_NO_SPACE)
		log->m->nfull--;
	if (state == LOG_STATE_NO_SPACE)
		log->m->nfull++;
	log->state = state;
	free(log->error);
	log->error = strdup(text);
	log_msg(LOG_ERROR, "storage", "%s: %s", log->name, text);
	log_changed(log);
}

LogSegment *
log_active(const Log *log)
{
	return log->nsegments == 0 ? NULL : log->segments[log->nsegments - 1];
}

LogSegment *
log_segment_for(const Log *log, int64_t offset)
{
	int lo = 0, hi = log->nsegments;

	while (lo < hi)
	{
		int mid = (lo + hi) / 2;

		if (log->segments[mid]->base_offset <= offset)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo == 0 ? NULL : log->segments[lo - 1];
}

bool
log_is_relaxed(const Log *log)
{
	return log->config.flush_messages != INT64_MAX || log->config.flush_ms != INT64_MAX;
}

int
log_path(const Log *log, const char *file, char *out, size_t cap)
{
	int n = file == NULL ? snprintf(out, cap, "%s/%s", log->m->dir, log->name)
						 : snprintf(out, cap, "%s/%s/%s", log->m->dir, log->name, file);

	if (n < 0 || (size_t) n >= cap)
	{
		errno = ENAMETOOLONG;
		return -1;
	}
	return n;
}

void
log_set_followed(Log *log, bool followed)
{
	log->followed = followed;
}

static void
unsynced_remove(Log *log)
{
	LogManager *m = log->m;

	if (!log->in_unsynced)
		return;
	if (log->unsynced_prev != NULL)
		log->unsynced_prev->unsynced_next = log->unsynced_next;
	else
		m->unsynced = log->unsynced_next;
	if (log->unsynced_next != NULL)
		log->unsynced_next->unsynced_prev = log->unsynced_prev;
	else
		m->unsynced_last = log->unsynced_prev;
	log->in_unsynced = false;
}

/* The list of logs with bytes that wait for the disk is in order of the oldest of those bytes. */
void
log_note_unsynced(Log *log, int64_t since_us)
{
	LogManager *m = log->m;

	unsynced_remove(log);
	if (log->deleted || log->state != LOG_STATE_OK || log->synced_end >= log->appended_end)
		return;
	log->unsynced_since_us = since_us;
	log->in_unsynced = true;
	log->unsynced_next = NULL;
	log->unsynced_prev = m->unsynced_last;
	if (m->unsynced_last != NULL)
		m->unsynced_last->unsynced_next = log;
	else
		m->unsynced = log;
	m->unsynced_last = log;
}

/* flushed_end is where the first segment that is not wholly on disk has got to. */
void
log_advance_synced(Log *log)
{
	int64_t end = log->flushed_end;

	while (log->sync_index < log->nsegments)
	{
		LogSegment *s = log->segments[log->sync_index];
		int64_t flushed = s->flushed_end < s->written_end ? s->flushed_end : s->written_end;

		if (flushed > end)
			end = flushed;
		if (!s->sealed || flushed < s->end_offset)
			break;
		log->sync_index++;
		compaction_wake(log);
	}
	log->flushed_end = end;
	if (log_is_relaxed(log))
		end = log->written_end;
	if (end > log->synced_end)
	{
		log->synced_end = end;
		log_changed(log);
	}
}

/* Below this everything is on disk, indexes of sealed segments included: an unclean start scans from here. */
int64_t
log_recovery_point(const Log *log)
{
	int64_t point = log->flushed_end;

	for (int i = log->nsegments - 2; i >= 0 && !log->segments[i]->index_synced; i--)
		if (log->segments[i]->base_offset < point)
			point = log->segments[i]->base_offset;
	return point;
}

/* ---- what the layers above ask ---- */

void
log_set_user(Log *log, void *user)
{
	log->user = user;
}

void *
log_user(const Log *log)
{
	return log->user;
}

const char *
log_topic(const Log *log)
{
	return log->topic;
}

int32_t
log_partition(const Log *log)
{
	return log->partition;
}

WUuid
log_topic_id(const Log *log)
{
	return log->topic_id;
}

const char *
log_error(const Log *log)
{
	return log->error;
}

bool
log_is_broken(const Log *log)
{
	return log->state == LOG_STATE_FAILED || log->state == LOG_STATE_OFFLINE;
}

bool
log_is_open(const Log *log)
{
	return log->state != LOG_STATE_OFFLINE;
}

int64_t
log_start_offset(const Log *log)
{
	return log->start_offset;
}

int64_t
log_appended_end(const Log *log)
{
	return log->appended_end;
}

int64_t
log_written_end(const Log *log)
{
	return log->written_end;
}

int64_t
log_synced_end(const Log *log)
{
	return log->synced_end;
}

int64_t
log_high_watermark(const Log *log)
{
	return log->high_watermark;
}

void
log_set_high_watermark(Log *log, int64_t hw)
{
	if (hw > log->appended_end)
		hw = log->appended_end;
	if (hw < log->start_offset)
		hw = log->start_offset;
	if (hw == log->high_watermark)
		return;
	log->high_watermark = hw;
	log->m->checkpoint_dirty = true;
	if (log->producers != NULL)
		producer_state_forget_ended(log->producers, hw);
	/* Retention waits for the high watermark. */
	if (log->nsegments > 1)
	{
		schedule_update(log);
		compaction_high_moved(log);
	}
}

int64_t
log_last_stable_offset(const Log *log)
{
	int64_t first = log->producers == NULL
						? INT64_MAX
						: producer_state_first_unstable(log->producers, log->high_watermark);

	if (first < log->start_offset)
		first = log->start_offset;
	return first < log->high_watermark ? first : log->high_watermark;
}

int64_t
log_size_bytes(const Log *log)
{
	return log->size;
}

int64_t
log_last_append_ms(const Log *log)
{
	return log->last_append_ms;
}

void
log_set_config(Log *log, const LogConfig *config)
{
	bool was_relaxed = log_is_relaxed(log);

	log->config = *config;
	if (was_relaxed != log_is_relaxed(log))
		log_flush(log);
	log_advance_synced(log);
	compaction_configure(log);
	schedule_update(log);
}

/* ---- epochs ---- */

bool
log_begin_epoch(Log *log, int32_t leader_epoch, Err *err)
{
	if (log->state != LOG_STATE_OK && log->state != LOG_STATE_NO_SPACE)
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, 0, "%s is offline: %s", log->name, log->error);
	if (leader_epoch < epoch_cache_latest(&log->epochs))
		return err_set(err, KERR_FENCED_LEADER_EPOCH, 0, "%s knows leader epoch %d, which is younger than %d",
					   log->name, epoch_cache_latest(&log->epochs), leader_epoch);
	if (epoch_cache_assign(&log->epochs, leader_epoch, log->appended_end))
		log_epochs_changed(log);
	return true;
}

bool
log_epoch_is_kept(const Log *log, int32_t leader_epoch, int64_t offset)
{
	const EpochCache *c = &log->epochs;

	return (c->n > 0 && c->e[c->n - 1].epoch == leader_epoch &&
			log->synced_end > c->e[c->n - 1].start_offset) ||
		   (log->begun_epoch == leader_epoch && log->begun_end >= offset);
}

void
log_keep_epoch(Log *log, int32_t leader_epoch)
{
	Err err;

	/* A log that cannot take the epoch takes no record in it either, and that is reported. */
	if (log_begin_epoch(log, leader_epoch, &err))
		begun_epochs_add(log, leader_epoch, log->synced_end);
}

int32_t
log_latest_epoch(const Log *log)
{
	return epoch_cache_latest(&log->epochs);
}

int32_t
log_epoch_at(const Log *log, int64_t offset)
{
	return epoch_cache_at(&log->epochs, offset);
}

void
log_epoch_end(const Log *log, int32_t epoch, int32_t *found_epoch, int64_t *end_offset)
{
	epoch_cache_end(&log->epochs, epoch, log->appended_end, found_epoch, end_offset);
}

/* ---- producers ---- */

int
log_producers(const Log *log, LogProducer *out, int max)
{
	void *cursor = NULL;
	const ProducerEntry *e;
	int n = 0;

	while ((e = producer_state_next(log->producers, &cursor)) != NULL)
	{
		if (n < max)
			out[n] = (LogProducer){.producer_id = e->producer_id,
								   .producer_epoch = e->epoch,
								   .last_sequence =
									   e->nbatches > 0 ? e->batches[e->nbatches - 1].last_sequence : -1,
								   .last_timestamp_ms = e->last_timestamp,
								   .coordinator_epoch = e->coordinator_epoch,
								   .txn_start_offset = e->txn_start};
		n++;
	}
	return n;
}

/* Each list is in order of the markers; what is asked for is in order of the first records. */
static void
insert_aborted(LogAbortedTxn *out, int n, const AbortedTxn *a)
{
	int i = n;

	for (; i > 0 && out[i - 1].first_offset > a->first_offset; i--)
		out[i] = out[i - 1];
	out[i] = (LogAbortedTxn){a->producer_id, a->first_offset};
}

int
log_aborted_txns(Log *log, int64_t from, int64_t to, LogAbortedTxn *out, int max)
{
	int n = 0;

	for (int i = 0; i < log->nsegments; i++)
	{
		const LogSegment *s = log->segments[i];

		for (int j = 0; s->end_offset > from && j < s->naborted; j++)
		{
			const AbortedTxn *a = &s->aborted[j];

			if (a->last_offset < from || a->first_offset >= to)
				continue;
			if (n < max)
				insert_aborted(out, n, a);
			n++;
		}
	}
	return n;
}
