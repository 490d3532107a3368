/* What comes back from the helper threads, on the loop: offsets move, failures are taken in, buffers go back. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/compaction.h"
#include "brokerd/storage/index.h"
#include "brokerd/storage/janitor.h"
#include "brokerd/storage/manager.h"
#include "brokerd/storage/retire.h"
#include "brokerd/storage/roll.h"
#include "brokerd/storage/schedule.h"
#include "brokerd/storage/txn_index.h"

int
log_manager_fd(const LogManager *m)
{
	return m->completions.fd;
}

static void
free_undos(LogManager *m, WriteOp *op)
{
	while (op->undo != NULL)
	{
		ProducerUndo *u = op->undo;

		op->undo = u->next;
		u->next = m->free_undos;
		m->free_undos = u;
	}
}

/* A full disk heals; everything else is final, as nobody knows what of the file is good (hazards A9). */
static void
take_failure(Log *log, const WriteOp *op)
{
	bool full = op->error == ENOSPC || op->error == EDQUOT;

	log_rollback(log);
	if (full)
		log_set_error(log, LOG_STATE_NO_SPACE,
					  "the disk is full: the partition takes no records until there is space");
	else
		log_set_error(
			log, LOG_STATE_FAILED,
			"a write failed (%s): the log is offline until it is fetched again or the broker restarts",
			strerror(op->error));
	log_note_unsynced(log, 0);
}

static void
note_written(Log *log, WriteOp *op)
{
	LogSegment *s = op->segment;

	s->written_end = op->end_offset;
	s->written_size = op->pos + op->len;
	log->written_end = op->end_offset;
	segment_set_unsynced(s, s->written_end > s->flushed_end);
	if (!op->sync && log_is_relaxed(log) && !log->m->closing)
	{
		log->unflushed_messages += op->records;
		if (log->unflushed_messages >= log->config.flush_messages)
			log_flush(log);
		else if (log->flush_due_ms == INT64_MAX && log->config.flush_ms != INT64_MAX)
		{
			log->flush_due_ms = clock_wall_ms() + log->config.flush_ms;
			schedule_update(log);
		}
	}
	log_advance_synced(log);
	/* Its sync came first. */
	if (log->in_unsynced && log->synced_end >= log->appended_end)
		log_note_unsynced(log, 0);
	log_changed(log);
}

static void
unlink_inflight(Log *log, WriteOp *op)
{
	if (op->log_prev != NULL)
		op->log_prev->log_next = op->log_next;
	else if (log->inflight_first == op)
		log->inflight_first = op->log_next;
	if (op->log_next != NULL)
		op->log_next->log_prev = op->log_prev;
	else if (log->inflight_last == op)
		log->inflight_last = op->log_prev;
}

static void
dispatch_write(Log *log, WriteOp *op)
{
	if (log->deleted || log->state == LOG_STATE_FAILED)
		unlink_inflight(log, op);
	else if (op->error == 0)
	{
		unlink_inflight(log, op);
		note_written(log, op);
	}
	else if (log->state == LOG_STATE_OK)
		take_failure(log, op);
	free_undos(log->m, op);
	if (op->release != NULL)
		op->release(op->owner);
}

static void
dispatch_index(Log *log, WriteOp *op)
{
	LogSegment *s = op->segment;

	s->index_pending = false;
	if (log->deleted || s->retired)
		return;
	if (op->error == 0)
	{
		index_written(s, op);
		if (op->final && s->sealed)
			janitor_segment_sealed(s, op);
	}
	else if (log->state == LOG_STATE_OK)
		take_failure(log, op);
}

static void
dispatch_txn_index(Log *log, WriteOp *op)
{
	if (op->error == 0 || log->deleted)
		return;
	op->segment->aborted_queued = 0; /* written again, all of it, once the log is well */
	if (log->state == LOG_STATE_OK)
		take_failure(log, op);
}

void
dispatch_op(LogManager *m, WriteOp *op)
{
	Log *log = op->log;

	switch (op->kind)
	{
		case OP_WRITE:
			dispatch_write(log, op);
			break;
		case OP_INDEX:
			dispatch_index(log, op);
			break;
		case OP_TXN_INDEX:
			dispatch_txn_index(log, op);
			break;
		case OP_FLUSH:
		case OP_CLOSE:
			break;
		case OP_RETIRE:
			if (log->deleted)
			{
				segment_set_unsynced(op->segment, false);
				segment_unref(op->segment); /* the folder goes as a whole */
			}
			else
				retire_done(op->segment);
			if (op->owner != NULL)
			{
				segment_note_fd(op->owner);
				segment_unref(op->owner);
			}
			break;
	}
	if (op->segment != NULL)
	{
		segment_note_fd(op->segment);
		segment_unref(op->segment);
	}
	free(op->payload);
	free(op->snapshot);
	op->next = m->free_ops;
	m->free_ops = op;
	log->ops--;
	retire_log_if_done(log);
}

static void
dispatch_segment(LogManager *m, LogSegment *s)
{
	Log *log = s->log;
	int64_t end;
	int error;

	completions_segment(&m->completions, s, &end, &error);
	/* After a failed sync nothing that a later one says is believed. */
	if (log == NULL || log->deleted || s->retired || log->state == LOG_STATE_FAILED)
		return;
	if (error != 0)
	{
		/* The log ends where the disk is known to have it. */
		log->written_end = log->flushed_end > log->synced_end ? log->flushed_end : log->synced_end;
		log_set_error(
			log, LOG_STATE_FAILED,
			"a sync failed (%s): the log is offline until it is fetched again or the broker restarts",
			strerror(error));
		log->appended_end = log->written_end;
		log_note_unsynced(log, 0);
		return;
	}
	if (end > s->flushed_end)
		s->flushed_end = end;
	segment_set_unsynced(s, s->written_end > s->flushed_end);
	log_advance_synced(log);
	log_note_unsynced(log, clock_boot_us());
	m->checkpoint_dirty = true;
}

void
log_changed_flush(LogManager *m)
{
	while (m->changed != NULL)
	{
		Log *log = m->changed;

		m->changed = log->changed_next;
		if (m->changed == NULL)
			m->changed_last = NULL;
		log->in_changed = false;
		if (!log->deleted && m->opt.on_change != NULL && !m->closing)
			m->opt.on_change(m->opt.ctx, log);
		else
			retire_log_if_done(log);
	}
}

/* on_change waits for the caller's turn. */
bool
dispatch_take(LogManager *m)
{
	Completed c;
	bool any = completions_take(&m->completions, &c);

	if (any)
	{
		/* Syncs before ops: an op that lets a segment go may be in the same batch as its last sync. */
		while (c.segments != NULL)
		{
			LogSegment *s = c.segments;

			c.segments = s->done_next;
			dispatch_segment(m, s);
		}
		while (c.ops != NULL)
		{
			WriteOp *op = c.ops;

			c.ops = op->next;
			dispatch_op(m, op);
		}
		while (c.jobs != NULL)
		{
			Job *job = c.jobs;

			c.jobs = job->next;
			job->done(job);
		}
	}
	return any;
}

void
dispatch_wait(LogManager *m)
{
	struct pollfd pfd = {.fd = m->completions.fd, .events = POLLIN};

	poll(&pfd, 1, 1000);
	dispatch_take(m);
}

void
log_manager_dispatch(LogManager *m)
{
	dispatch_take(m);
	log_changed_flush(m);
}

/* No entry is left: an empty file says so. */
void
txn_index_reset(LogSegment *s)
{
	WriteOp *op = writer_op(s->m, OP_TXN_INDEX, s->log, s);

	op->payload = malloc(1);
	s->aborted_queued = 0;
	writer_push(s->m, op);
}

void
txn_index_push(LogSegment *s)
{
	int n = s->naborted - s->aborted_queued;
	WriteOp *op;

	if (n <= 0)
		return;
	op = writer_op(s->m, OP_TXN_INDEX, s->log, s);
	op->pos = s->aborted_queued * TXN_INDEX_ENTRY;
	op->len = n * TXN_INDEX_ENTRY;
	op->payload = txn_index_encode(&s->aborted[s->aborted_queued], n);
	s->aborted_queued = s->naborted;
	writer_push(s->m, op);
}

void
log_flush(Log *log)
{
	LogManager *m = log->m;

	log->unflushed_messages = 0;
	log->flush_due_ms = INT64_MAX;
	for (int i = log->sync_index; i < log->nsegments; i++)
		if (log->segments[i]->end_offset > log->segments[i]->flushed_end || log->segments[i]->unsynced)
			writer_push(m, writer_op(m, OP_FLUSH, log, log->segments[i]));
}

void
log_resume(Log *log)
{
	writer_resume(log);
	free(log->error);
	log->error = NULL;
	log->state = LOG_STATE_OK;
	log->m->nfull--;
	/* What the index files did not get while the disk was full. */
	for (int i = 0; i < log->nsegments; i++)
	{
		LogSegment *s = log->segments[i];

		if (s->sealed && !s->index_synced && !s->index_pending)
			writer_push(log->m, index_make_op(s, true));
		txn_index_push(s);
	}
	compaction_wake(log);
	log_msg(LOG_INFO, "storage", "%s takes records again", log->name);
	log_changed(log);
}
