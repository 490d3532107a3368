/*
 * Appending: checks, offsets, and all that the loop keeps about a batch, before its bytes are handed to the
 * writer.  Everything noted here can be taken back (rollback.c) until the bytes are in the file.
 */
#include <stdlib.h>
#include <string.h>

#include "brokerd/base/clock.h"
#include "brokerd/storage/index.h"
#include "brokerd/storage/manager.h"
#include "brokerd/storage/roll.h"
#include "brokerd/storage/schedule.h"
#include "brokerd/storage/tail_ring.h"
#include "brokerd/storage/txn_index.h"
#include "brokerd/storage/validate.h"
#include "wire/errors.h"
#include "wire/record.h"

static int16_t
fail(LogAppend *a, int16_t error, const char *message)
{
	a->message = message;
	return error;
}

/* A client said LogAppendTime on a topic of CreateTime: the times are its own, so the bit goes. */
static void
clear_append_time(uint8_t *b)
{
	put_be16(b + 21, (uint16_t) (batch_attributes(b) & ~BATCH_LOG_APPEND_TIME));
	batch_set_crc(b);
}

static ProducerUndo *
undo_alloc(LogManager *m)
{
	ProducerUndo *u = m->free_undos;

	if (u == NULL)
		return malloc(sizeof(*u));
	m->free_undos = u->next;
	return u;
}

static void
describe(const uint8_t *b, ProducerOrigin origin, int64_t now, ProducerAppend *p)
{
	TxnMarker marker;

	*p = (ProducerAppend){.origin = origin,
						  .producer_id = batch_producer_id(b),
						  .epoch = batch_producer_epoch(b),
						  .base_sequence = batch_base_sequence(b),
						  .delta = batch_last_offset_delta(b),
						  .base_offset = batch_base_offset(b),
						  .timestamp = batch_max_timestamp(b),
						  .now_ms = now,
						  .transactional = batch_is_transactional(b)};
	if (batch_is_control(b) && batch_read_marker(b, &marker))
	{
		p->marker = true;
		p->commit = marker.commit;
		p->coordinator_epoch = marker.coordinator_epoch;
		p->timestamp = marker.timestamp;
	}
}

static void
add_aborted(LogSegment *s, const AbortedTxn *a)
{
	if (s->naborted == s->aborted_cap)
	{
		s->aborted_cap = s->aborted_cap ? s->aborted_cap * 2 : 4;
		s->aborted = realloc(s->aborted, sizeof(*s->aborted) * (size_t) s->aborted_cap);
	}
	s->aborted[s->naborted++] = *a;
}

/* The batch is that of a producer: remember it, and how to forget it. */
static void
note_producer(Log *log, LogSegment *s, WriteOp *op, const ProducerAppend *p)
{
	ProducerUndo *u;
	AbortedTxn aborted;

	if (log->producers == NULL)
		log->producers = producer_state_new();
	u = undo_alloc(log->m);
	if (producer_state_apply(log->producers, p, u, &aborted))
		add_aborted(s, &aborted);
	u->next = op->undo;
	op->undo = u;
	log->snapshot_dirty = true;
	if (log->producers_due_ms == INT64_MAX)
	{
		log->producers_due_ms = p->now_ms + log->m->opt.producer_expiration_ms;
		schedule_update(log);
	}
}

/* What one batch changes: index, tail, epochs.  Its header is final. */
static void
note_batch(Log *log, LogSegment *s, const uint8_t *b)
{
	int32_t size = (int32_t) batch_size(b);
	int64_t last = batch_last_offset(b);

	index_note_batch(s, log->config.index_interval_bytes, s->size, size, last, batch_time(b));
	tail_ring_push(&log->ring, batch_base_offset(b), batch_last_offset_delta(b), s->size);
	if (s->size == 0)
		s->first_timestamp = batch_max_timestamp(b);
	s->size += size;
	s->end_offset = last + 1;
	log->size += size;
	log->appended_end = last + 1;
	if (epoch_cache_assign(&log->epochs, batch_leader_epoch(b), batch_base_offset(b)))
		log_epochs_changed(log);
}

static WriteOp *
begin_op(Log *log, LogSegment *s, const uint8_t *buf, int64_t base_offset)
{
	WriteOp *op = writer_op(log->m, OP_WRITE, log, s);

	op->buf = buf;
	op->pos = s->size;
	op->base_offset = base_offset;
	op->sync = !log_is_relaxed(log);
	op->followed = log->followed;
	op->prev_end_offset = s->end_offset;
	op->prev_bytes_since_index = s->bytes_since_index;
	op->prev_max_timestamp = s->max_timestamp;
	op->prev_max_timestamp_offset = s->max_timestamp_offset;
	op->prev_first_timestamp = s->first_timestamp;
	op->prev_last_time = s->last_time;
	op->prev_entries = index_entry_count(s);
	op->prev_times = index_time_count(s);
	return op;
}

static void
push_op(Log *log, WriteOp *op, int32_t len)
{
	LogManager *m = log->m;
	WriteOp *index;

	op->len = len;
	op->end_offset = log->appended_end;
	op->records = (int32_t) (op->end_offset - op->base_offset);
	op->start_us = clock_boot_us();
	op->log_prev = log->inflight_last;
	if (log->inflight_last != NULL)
		log->inflight_last->log_next = op;
	else
		log->inflight_first = op;
	log->inflight_last = op;
	if (!log->in_unsynced && op->sync)
		log_note_unsynced(log, op->start_us);
	writer_push(m, op);
	if ((index = index_make_op(op->segment, false)) != NULL)
		writer_push(m, index);
}

static int16_t
check_state(const Log *log, LogAppend *a)
{
	a->log_append_time_ms = -1;
	a->log_start_offset = log->start_offset;
	a->duplicate = false;
	a->message = NULL;
	if (log->state != LOG_STATE_OK || log->nsegments == 0 || log->m->closing)
		return fail(a, KERR_KAFKA_STORAGE_ERROR, "the log of the partition is offline or its disk is full");
	return KERR_NONE;
}

static int16_t
check_producer(Log *log, LogAppend *a, ProducerAppend *p)
{
	ProducerVerdict v;

	p->verified = a->transaction_verified;
	v = producer_check(producer_state_find(log->producers, p->producer_id), p);
	if (v.error != KERR_NONE)
		return fail(a, v.error, v.message);
	if (v.dup == NULL)
		return KERR_NONE;
	a->duplicate = true;
	a->base_offset = v.dup->last_offset - v.dup->delta;
	a->end_offset = v.dup->last_offset + 1;
	if (log->config.log_append_time)
		a->log_append_time_ms = v.dup->timestamp;
	return KERR_NONE;
}

int16_t
log_append_as_leader(Log *log, LogAppend *a)
{
	uint8_t *b = a->records;
	int64_t now = clock_wall_ms();
	int16_t error = check_state(log, a);
	ProducerAppend p;
	LogSegment *s;
	WriteOp *op;

	if (error == KERR_NONE)
		error = validate_frame(b, a->len, &log->config, !a->marker, &a->message);
	if (error == KERR_NONE && !a->marker)
		error = validate_client_batch(b, &log->config, now, a);
	if (error == KERR_NONE && a->marker && !batch_is_control(b))
		error = fail(a, KERR_INVALID_RECORD, "not a transaction marker");
	if (error == KERR_NONE && a->len > log->config.segment_bytes)
		error = fail(a, KERR_RECORD_LIST_TOO_LARGE, "the batch is larger than segment.bytes");
	if (error != KERR_NONE)
		return error;
	describe(b, a->marker ? PRODUCER_COORDINATOR : PRODUCER_CLIENT, now, &p);
	p.base_offset = log->appended_end;
	if (batch_has_producer(b))
	{
		error = check_producer(log, a, &p);
		if (error != KERR_NONE || a->duplicate)
		{
			/* Not appended, so the buffer is not needed; of a duplicate the caller has no more use for it. */
			if (a->duplicate && a->release != NULL)
				a->release(a->owner);
			return error;
		}
	}

	batch_set_base_offset(b, log->appended_end);
	batch_set_leader_epoch(b, a->leader_epoch);
	if (log->config.log_append_time)
	{
		batch_set_append_time(b, now);
		a->log_append_time_ms = p.timestamp = now;
	}
	else if (batch_attributes(b) & BATCH_LOG_APPEND_TIME)
		clear_append_time(b);
	s = roll_for_append(log, a->len, p.timestamp, log->appended_end, log->appended_end + p.delta, now);
	op = begin_op(log, s, b, log->appended_end);
	op->release = a->release;
	op->owner = a->owner;
	a->base_offset = log->appended_end;
	if (batch_has_producer(b))
		note_producer(log, s, op, &p);
	note_batch(log, s, b);
	a->end_offset = log->appended_end;
	log->last_append_ms = now;
	push_op(log, op, a->len);
	txn_index_push(s);
	schedule_after_append(log, s, now);
	return KERR_NONE;
}

/* ---- follower ---- */

static int16_t
check_follower(Log *log, LogAppend *a)
{
	int64_t expected = log->appended_end;
	int32_t pos = 0;

	if (a->len < BATCH_HEADER_SIZE)
		return fail(a, KERR_CORRUPT_MESSAGE, "no whole batch");
	while (pos < a->len)
	{
		const uint8_t *b = a->records + pos;

		if (batch_check(b, (size_t) (a->len - pos), false) != BATCH_OK || !batch_crc_matches(b))
			return fail(a, KERR_CORRUPT_MESSAGE, "a batch from the leader is damaged");
		if (batch_leader_epoch(b) > a->leader_epoch)
			return fail(a, KERR_CORRUPT_MESSAGE, "a batch from the leader has an epoch after the leader's");
		if (batch_base_offset(b) < expected)
			return fail(a, KERR_OFFSET_OUT_OF_RANGE,
						"a batch from the leader begins before the end of the log");
		if (batch_size(b) > INT32_MAX - 1)
			return fail(a, KERR_RECORD_LIST_TOO_LARGE, "the batch is larger than a segment can be");
		expected = batch_next_offset(b);
		pos += (int32_t) batch_size(b);
	}
	return KERR_NONE;
}

/*
 * Where the next segment begins, should the batch need one: where the last one ends, though the batch begins behind a
 * gap that the leader's compaction has left.  A start after a crash then sees that nothing is missing in between.
 */
static int64_t
next_base_offset(const Log *log, const uint8_t *b)
{
	return batch_last_offset(b) - log->appended_end <= INT32_MAX ? log->appended_end : batch_base_offset(b);
}

/* Batches go to the writer in runs: one op until a segment is full. */
int16_t
log_append_as_follower(Log *log, LogAppend *a)
{
	int64_t now = clock_wall_ms();
	int16_t error = check_state(log, a);
	int32_t pos = 0;

	if (error == KERR_NONE)
		error = check_follower(log, a);
	if (error != KERR_NONE)
		return error;
	a->base_offset = batch_base_offset(a->records);
	while (pos < a->len)
	{
		uint8_t *b = a->records + pos;
		int32_t start = pos;
		LogSegment *s = roll_for_append(log, (int32_t) batch_size(b), batch_max_timestamp(b),
										next_base_offset(log, b), batch_last_offset(b), now);
		WriteOp *op = begin_op(log, s, b, batch_base_offset(b));

		do
		{
			b = a->records + pos;
			if (batch_has_producer(b))
			{
				ProducerAppend p;

				describe(b, PRODUCER_REPLICATION, now, &p);
				note_producer(log, s, op, &p);
			}
			note_batch(log, s, b);
			pos += (int32_t) batch_size(b);
		} while (pos < a->len && !roll_is_due(log, s, (int32_t) batch_size(a->records + pos),
											  batch_max_timestamp(a->records + pos),
											  batch_last_offset(a->records + pos), now));
		if (pos == a->len)
		{
			op->release = a->release;
			op->owner = a->owner;
		}
		push_op(log, op, pos - start);
		txn_index_push(s);
		schedule_after_append(log, s, now);
	}
	a->end_offset = log->appended_end;
	log->last_append_ms = now;
	return KERR_NONE;
}
