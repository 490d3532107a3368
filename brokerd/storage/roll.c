#include "brokerd/storage/roll.h"

#include <stdlib.h>

#include "brokerd/base/logging.h"
#include "brokerd/storage/index.h"
#include "brokerd/storage/manager.h"
#include "brokerd/storage/producer_snapshot.h"
#include "brokerd/storage/retire.h"
#include "brokerd/storage/schedule.h"
#include "brokerd/storage/tail_ring.h"

/* Every segment has its own share of the jitter, or all partitions of a topic roll in the same second. */
static int64_t
roll_after_ms(const Log *log, const LogSegment *s)
{
	uint64_t h = (uint64_t) s->base_offset * 0x9e3779b97f4a7c15u ^ (uint64_t) (uintptr_t) log;

	int64_t after = log->config.segment_ms;

	if (log->config.segment_jitter_ms > 0)
		after -= (int64_t) ((h >> 16) % (uint64_t) log->config.segment_jitter_ms);
	/* What has to be compacted by then must not be in the active segment. */
	if (log->config.cleanup_compact && log->config.max_compaction_lag_ms < after)
		after = log->config.max_compaction_lag_ms;
	return after;
}

static bool
time_is_up(const Log *log, const LogSegment *s, int64_t max_timestamp, int64_t now)
{
	int64_t waited = s->first_timestamp >= 0 && max_timestamp >= 0 ? max_timestamp - s->first_timestamp
																   : now - s->created_ms;

	return s->size > 0 && waited > roll_after_ms(log, s);
}

bool
roll_is_due(const Log *log, const LogSegment *s, int32_t size, int64_t max_timestamp, int64_t last_offset,
			int64_t now)
{
	if (last_offset - s->base_offset > INT32_MAX)
		return true;
	if (s->size == 0)
		return false; /* whatever the batch is, a new segment would not take it better */
	return s->size > log->config.segment_bytes - size || time_is_up(log, s, max_timestamp, now) ||
		   index_full(s, log->config.segment_index_bytes);
}

int64_t
roll_due_ms(const Log *log)
{
	const LogSegment *s = log_active(log);
	int64_t after;

	if (s == NULL || s->size == 0)
		return INT64_MAX;
	after = roll_after_ms(log, s);
	return after > INT64_MAX - s->created_ms - 1 ? INT64_MAX : s->created_ms + after + 1;
}

LogSegment *
roll_segment(Log *log, int64_t base_offset)
{
	LogManager *m = log->m;
	LogSegment *old = log_active(log), *s;
	WriteOp *op;

	old->sealed = true;
	op = index_make_op(old, true);
	/* Also when there are none: an unclean start then need not look for them before this offset. */
	op->snapshot = producer_snapshot_encode(log->producers, &op->snapshot_len);
	writer_push(m, op);
	if (log_is_relaxed(log))
		writer_push(m, writer_op(m, OP_FLUSH, log, old));
	s = segment_new(log, base_offset);
	segment_push(log, s);
	return s;
}

LogSegment *
roll_for_append(Log *log, int32_t size, int64_t max_timestamp, int64_t base_offset, int64_t last_offset,
				int64_t now)
{
	LogSegment *s = log_active(log);

	return roll_is_due(log, s, size, max_timestamp, last_offset, now) ? roll_segment(log, base_offset) : s;
}

/* ---- taking back ---- */

static void
undo_op(Log *log, WriteOp *op)
{
	LogSegment *s = op->segment;
	LogManager *m = log->m;

	while (op->undo != NULL)
	{
		ProducerUndo *u = op->undo;

		op->undo = u->next;
		producer_state_undo(log->producers, u);
		if (u->aborted && --s->naborted < s->aborted_queued)
			s->aborted_queued = s->naborted;
		u->next = m->free_undos;
		m->free_undos = u;
	}
	log->size -= op->len;
	s->size = op->pos;
	s->end_offset = op->prev_end_offset;
	s->bytes_since_index = op->prev_bytes_since_index;
	s->max_timestamp = op->prev_max_timestamp;
	s->max_timestamp_offset = op->prev_max_timestamp_offset;
	s->first_timestamp = op->prev_first_timestamp;
	s->last_time = op->prev_last_time;
	index_undo(s, op->prev_entries, op->prev_times);
}

void
log_rollback(Log *log)
{
	int64_t end = log->written_end;

	for (WriteOp *op = log->inflight_last; op != NULL; op = op->log_prev)
		undo_op(log, op);
	/* They complete later, as cancelled, and find nothing to undo. */
	while (log->inflight_first != NULL)
	{
		WriteOp *op = log->inflight_first;

		log->inflight_first = op->log_next;
		op->log_prev = op->log_next = NULL;
	}
	log->inflight_last = NULL;
	while (log->nsegments > 1 && log_active(log)->base_offset > end)
		retire_segment(log, log->nsegments - 1, "a write failed");
	/* Empty and exactly at the end: it goes on as the active one, unless its predecessor is not complete. */
	log_active(log)->sealed = false;
	if (log->sync_index >= log->nsegments)
		log->sync_index = log->nsegments - 1;
	log->appended_end = end;
	tail_ring_cut(&log->ring, end);
	/* An epoch that begins exactly here is that of the leader in office: it has not appended yet. */
	if (epoch_cache_truncate_end(&log->epochs, end + 1))
		log_epochs_changed(log);
	log_changed(log);
}
