/*
 * Truncation (a follower whose leader says so) and raising the log start (DeleteRecords).
 *
 * Truncating is rare and done in place: it waits until the writer has nothing of this log any more, and
 * reads headers to find the cut.  What the log knew about producers beyond the cut is rebuilt from the last
 * snapshot before it: a batch that is gone must not be "a duplicate" when it comes again (hazards A6).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/compaction.h"
#include "brokerd/storage/file_io.h"
#include "brokerd/storage/index.h"
#include "brokerd/storage/janitor.h"
#include "brokerd/storage/load.h"
#include "brokerd/storage/manager.h"
#include "brokerd/storage/producer_snapshot.h"
#include "brokerd/storage/read.h"
#include "brokerd/storage/retention.h"
#include "brokerd/storage/retire.h"
#include "brokerd/storage/roll.h"
#include "brokerd/storage/scan.h"
#include "brokerd/storage/schedule.h"
#include "brokerd/storage/tail_ring.h"
#include "brokerd/storage/txn_index.h"
#include "wire/batch.h"
#include "wire/errors.h"

/* Until the writer and the round know nothing of the log.  Other logs' completions are taken meanwhile. */
static void
drain(Log *log)
{
	LogManager *m = log->m;

	if (log->ops == 0)
		/* A sync may still run: a barrier waits for it. */
		writer_push(m, writer_op(m, OP_CLOSE, log, NULL));
	while (log->ops > 0)
		dispatch_wait(m);
}

/* Producers as of `end`, from the newest snapshot at or below it and the batches behind that. */
static bool
rebuild_producers(Log *log, int64_t end, Err *err)
{
	int64_t from = log->start_offset, now = clock_wall_ms();
	ProducerState *state = NULL;

	producer_state_free(log->producers);
	log->producers = NULL;
	for (int i = log->nsegments - 1; i >= 0 && state == NULL; i--)
	{
		char path[STORAGE_PATH_MAX];
		size_t len;
		void *data;

		if (log->segments[i]->base_offset > end ||
			segment_path(log->segments[i], ".snapshot", path, sizeof(path)) < 0)
			continue;
		state = producer_state_new();
		data = file_read(path, (size_t) 1 << 30, &len);
		if (data != NULL && producer_snapshot_decode(state, data, len, now))
			from = log->segments[i]->base_offset;
		else
		{
			producer_state_free(state);
			state = NULL;
		}
		free(data);
	}
	log->producers = state != NULL ? state : producer_state_new();
	for (int i = 0; i < log->nsegments; i++)
	{
		LogSegment *s = log->segments[i];
		BatchScan sc;
		ScanResult r;
		int fd;

		if (s->end_offset <= from || s->written_size == 0)
			continue;
		if ((fd = segment_fd(s, false, NULL)) < 0)
			return err_set(err, KERR_KAFKA_STORAGE_ERROR, errno, "%s: a segment cannot be opened: %s",
						   log->name, strerror(errno));
		scan_init(&sc, fd, 0, s->written_size, SCAN_HEADERS);
		while ((r = scan_next(&sc)) == SCAN_BATCH)
			if (batch_has_producer(sc.batch) && batch_base_offset(sc.batch) >= from &&
				(!batch_is_control(sc.batch) || scan_body(&sc)))
				log_note_recovered_batch(log, s, sc.batch, now);
		scan_free(&sc);
		if (r != SCAN_END)
			return err_set(err, KERR_KAFKA_STORAGE_ERROR, errno, "%s: a segment cannot be read", log->name);
	}
	return true;
}

/* The file ends at `pos`; index files are cut with it, and what was counted starts over. */
static bool
cut_segment(LogSegment *s, int32_t pos, int64_t end, Err *err)
{
	Log *log = s->log;
	int fd = segment_fd(s, true, NULL);
	BatchScan sc;

	log->touched = true;
	if (fd < 0 || ftruncate(fd, pos) != 0)
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, errno, "%s cannot be truncated: %s", log->name,
					   strerror(errno));
	s->content = segment_content(s->m);
	log->size -= s->size - pos;
	s->size = s->written_size = pos;
	if (s->warm_from > pos)
		s->warm_from = pos;
	s->end_offset = s->written_end = end;
	if (s->flushed_end > end)
		s->flushed_end = end;
	s->sealed = s->index_synced = false;
	segment_set_unsynced(s, s->written_end > s->flushed_end);
	while (s->naborted > 0 && s->aborted[s->naborted - 1].last_offset >= end)
		s->naborted--;
	s->aborted_queued = 0;
	/* The indexes are built again from the batches that stay: a cut is rare, and nothing of them can be wrong. */
	index_free_tail(s);
	s->index_entries = s->time_entries = 0;
	s->max_timestamp = s->max_timestamp_offset = s->first_timestamp = -1;
	s->last_time = (TimeEntry){-1, s->base_offset};
	s->bytes_since_index = 0;
	scan_init(&sc, fd, 0, pos, SCAN_HEADERS);
	while (scan_next(&sc) == SCAN_BATCH)
	{
		if (sc.pos == 0)
			s->first_timestamp = batch_max_timestamp(sc.batch);
		index_note_batch(s, log->config.index_interval_bytes, (int32_t) sc.pos, (int32_t) sc.size,
						 batch_last_offset(sc.batch), batch_time(sc.batch));
	}
	scan_free(&sc);
	writer_push(s->m, index_make_op(s, true));
	if (s->naborted == 0)
		txn_index_reset(s);
	txn_index_push(s);
	return true;
}

/* Where the batches below `offset` end in a segment: position and their end offset. */
static bool
find_cut(LogSegment *s, int64_t offset, int32_t *pos, int64_t *end, Err *err)
{
	IndexView v = {0};
	SlicePlan plan;
	LogRead r = {.offset = offset, .limit_offset = INT64_MAX, .max_bytes = 0, .at_least_one = true};
	SliceBounds b = {0};
	BatchScan sc;
	int fd = segment_fd(s, true, NULL);

	if (fd < 0)
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, errno, "%s: a segment cannot be opened: %s",
					   s->log->name, strerror(errno));
	index_view_init(&v, s, false);
	b.from = index_floor(&v, offset);
	index_view_free(&v);
	scan_init(&sc, fd, b.from < 0 ? 0 : b.from, s->written_size, SCAN_HEADERS);
	slice_plan(&sc, &r, &b, &plan);
	scan_free(&sc);
	if (plan.error != 0)
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, plan.error, "%s: a segment cannot be read: %s",
					   s->log->name, strerror(plan.error));
	*pos = plan.found ? plan.pos : s->written_size;
	/* A batch is kept whole or not at all. */
	*end = plan.found && plan.first_offset < offset ? plan.first_offset : offset;
	if (!plan.found && *end > s->written_end)
		*end = s->written_end;
	return true;
}

static void
set_end(Log *log, int64_t end)
{
	log->truncations++;
	log->appended_end = log->written_end = end;
	if (log->synced_end > end)
		log->synced_end = end;
	if (log->flushed_end > end)
		log->flushed_end = end;
	if (log->sync_index >= log->nsegments)
		log->sync_index = log->nsegments - 1;
	tail_ring_cut(&log->ring, end);
	if (epoch_cache_truncate_end(&log->epochs, end))
		log_epochs_changed(log);
	if (log->high_watermark > end)
	{
		log_msg(LOG_WARNING, "storage", "%s is truncated to %" PRId64 ", below its high watermark %" PRId64,
				log->name, end, log->high_watermark);
		log->high_watermark = end;
	}
	log->snapshot_dirty = true;
	log->m->checkpoint_dirty = true;
	schedule_update(log);
	log_changed(log);
}

static bool
truncate_to(Log *log, int64_t offset, Err *err)
{
	LogSegment *s;
	int32_t pos = 0;
	int64_t end = 0;
	bool had_producers = log->producers != NULL && producer_state_count(log->producers) > 0;

	if (log->state != LOG_STATE_OK)
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, 0, "%s is offline: %s", log->name, log->error);
	if (offset >= log->appended_end)
	{
		/* An epoch that was begun here and got no record is none that the leader knows. */
		if (epoch_cache_truncate_end(&log->epochs, log->appended_end))
			log_epochs_changed(log);
		return true;
	}
	if (offset < log->start_offset)
		offset = log->start_offset;
	drain(log);
	if (log->state != LOG_STATE_OK)
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, 0, "%s is offline: %s", log->name, log->error);
	directory_mark_unclean(log->m);
	compaction_forget_from(log, offset);
	while (log->nsegments > 1 && log_active(log)->base_offset >= offset)
		retire_segment(log, log->nsegments - 1, "the log is truncated");
	s = log_active(log);
	if (!find_cut(s, offset, &pos, &end, err) || !cut_segment(s, pos, end, err))
		return false;
	set_end(log, end);
	return !had_producers || rebuild_producers(log, end, err);
}

bool
log_truncate(Log *log, int64_t offset, Err *err)
{
	bool ok;

	/* Nothing is cut: what is being compacted goes on. */
	if (offset >= log->appended_end)
		return truncate_to(log, offset, err);
	compaction_hold(log);
	ok = truncate_to(log, offset, err);
	compaction_release(log);
	return ok;
}

static bool
start_anew(Log *log, int64_t start_offset, Err *err)
{
	if (log->state != LOG_STATE_OK)
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, 0, "%s is offline: %s", log->name, log->error);
	drain(log);
	if (log->state != LOG_STATE_OK)
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, 0, "%s is offline: %s", log->name, log->error);
	directory_mark_unclean(log->m);
	compaction_forget_from(log, 0);
	while (log->nsegments > 0)
		retire_segment(log, log->nsegments - 1, "the log starts anew");
	/* The renames come before a new file of the same name. */
	drain(log);
	segment_push(log, segment_new(log, start_offset));
	log->sync_index = 0;
	log->high_watermark = log->synced_end = log->flushed_end = 0;
	tail_ring_clear(&log->ring);
	set_end(log, start_offset);
	log->synced_end = log->flushed_end = log->high_watermark = start_offset;
	log->start_offset = log->wanted_start = start_offset;
	epoch_cache_free(&log->epochs);
	log_epochs_changed(log);
	if (log->producers != NULL)
		producer_state_clear(log->producers);
	log->m->start_dirty = true;
	return true;
}

bool
log_truncate_fully(Log *log, int64_t start_offset, Err *err)
{
	bool ok;

	compaction_hold(log);
	ok = start_anew(log, start_offset, err);
	compaction_release(log);
	return ok;
}

int16_t
log_raise_start(Log *log, int64_t offset)
{
	if (log->state != LOG_STATE_OK && log->state != LOG_STATE_NO_SPACE)
		return KERR_KAFKA_STORAGE_ERROR;
	if (offset > log->high_watermark || offset < 0)
		return KERR_OFFSET_OUT_OF_RANGE;
	if (offset <= log->wanted_start)
		return KERR_NONE;
	log->wanted_start = offset;
	log->m->start_dirty = true;
	if (!log->m->checkpoint_running)
		janitor_checkpoint(log->m);
	return KERR_NONE;
}
