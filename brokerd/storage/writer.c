/*
 * The writer thread.  It takes all that is queued at once, puts each log's ops together (so that batches of
 * one log become one pwritev even when they come interleaved with others), and hands dirty files to a sync
 * round when none is running: what arrives while a round runs shares the next one (group commit).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/file_io.h"
#include "brokerd/storage/manager.h"

#define WRITE_IOV       64
#define PUSH_OUT_BYTES  (8 * 1024 * 1024)
#define PUSH_OUT_BEHIND (128 * 1024 * 1024)

WriteOp *
writer_op(LogManager *m, OpKind kind, Log *log, LogSegment *segment)
{
	WriteOp *op = m->free_ops;

	if (op != NULL)
	{
		m->free_ops = op->next;
		memset(op, 0, sizeof(*op));
	}
	else
		op = calloc(1, sizeof(*op));
	op->kind = kind;
	op->log = log;
	op->segment = segment;
	if (segment != NULL)
		segment_ref(segment);
	log->ops++;
	return op;
}

void
writer_push(LogManager *m, WriteOp *op)
{
	Writer *w = &m->writer;

	op->next = NULL;
	op->log->touched = true;
	pthread_mutex_lock(&w->mutex);
	if (w->last != NULL)
		w->last->next = op;
	else
		w->first = op;
	w->last = op;
	writer_wake_and_unlock(w);
}

void
writer_wake_and_unlock(Writer *w)
{
	bool wake = w->waiting;

	w->waiting = false;
	pthread_mutex_unlock(&w->mutex);
	if (wake)
		sem_post(&w->wake);
}

/* With the mutex, which is free meanwhile. */
static void
sleep_until_woken(Writer *w)
{
	w->waiting = true;
	pthread_mutex_unlock(&w->mutex);
	while (sem_wait(&w->wake) != 0)
		; /* EINTR */
	pthread_mutex_lock(&w->mutex);
}

void
writer_post_held(LogManager *m)
{
	Writer *w = &m->writer;

	if (w->held != NULL)
		completions_post_ops(&m->completions, w->held, w->held_last);
	w->held = w->held_last = NULL;
}

void
writer_resume(Log *log)
{
	Writer *w = &log->m->writer;

	/* Nothing of the log is queued, so the flag is only read after this mutex is taken again. */
	pthread_mutex_lock(&w->mutex);
	log->writer.failed = false;
	pthread_mutex_unlock(&w->mutex);
}

/* The round must be over before a file in it is renamed or forgotten. */
static void
wait_for_round(LogManager *m)
{
	Writer *w = &m->writer;

	pthread_mutex_lock(&w->mutex);
	while (w->round_left > 0)
		sleep_until_woken(w);
	pthread_mutex_unlock(&w->mutex);
}

/* ---- writes ---- */

/* A write that stopped half way: nothing of it may stay, as the next append goes to the same place. */
static void
cut_back(LogSegment *s, int fd, int32_t pos)
{
	char path[STORAGE_PATH_MAX];

	if (fd < 0 || ftruncate(fd, pos) == 0)
		return;
	segment_path(s, ".log", path, sizeof(path));
	log_msg(LOG_ERROR, "storage", "%s cannot be cut back to %d bytes: %s", path, pos, strerror(errno));
}

static int
write_all(int fd, struct iovec *iov, int n, int64_t pos)
{
	while (n > 0)
	{
		ssize_t done = pwritev(fd, iov, n, pos);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done == 0 ? EIO : errno;
		pos += done;
		while (n > 0 && (size_t) done >= iov->iov_len)
		{
			done -= (ssize_t) iov->iov_len;
			iov++;
			n--;
		}
		if (n > 0)
		{
			iov->iov_base = (char *) iov->iov_base + done;
			iov->iov_len -= (size_t) done;
		}
	}
	return 0;
}

/*
 * With flush.messages the kernel is asked to start early, or it stalls everybody at dirty_ratio; but behind the end, so
 * that a burst does not wait for the disk.
 */
static void
push_out(LogSegment *s, int fd, int32_t end)
{
	if (s->sync.pending < PUSH_OUT_BEHIND + PUSH_OUT_BYTES)
		return;
	sync_file_range(fd, end - s->sync.pending, s->sync.pending - PUSH_OUT_BEHIND, SYNC_FILE_RANGE_WRITE);
	s->sync.pending = PUSH_OUT_BEHIND;
}

/* Writes a run of ops that are adjacent in one file.  Returns the first op behind the run. */
static WriteOp *
write_run(LogManager *m, WriteOp *first)
{
	struct iovec iov[WRITE_IOV];
	LogSegment *s = first->segment;
	WriteOp *op = first, *last = first, *end;
	bool created = false, sync = false;
	int n = 0, fd, error = 0;
	int32_t next_pos = first->pos;

	while (op != NULL && op->kind == OP_WRITE && op->segment == s && op->pos == next_pos && n < WRITE_IOV)
	{
		iov[n++] = (struct iovec){(void *) (uintptr_t) op->buf, (size_t) op->len};
		next_pos += op->len;
		sync |= op->sync;
		last = op;
		op = op->batch_next;
	}
	end = op;
	fd = segment_fd(s, true, &created);
	if (created)
		s->sync.new_file = true;
	error = fd < 0 ? errno : write_all(fd, iov, n, first->pos);
	if (error != 0)
	{
		cut_back(s, fd, first->pos);
		first->log->writer.failed = true;
		for (op = first; op != end; op = op->batch_next)
			op->error = op == first ? error : ECANCELED;
		return end;
	}
	s->sync.end = last->end_offset;
	s->sync.pending += next_pos - first->pos;
	if (sync)
		syncer_mark_dirty(m, s);
	else
		push_out(s, fd, next_pos);
	return end;
}

/* ---- the other ops ---- */

static int
write_index_file(int dir_fd, const LogSegment *s, const char *suffix, const void *data, size_t len,
				 int64_t pos, bool final)
{
	char name[64];
	int fd, error = 0;

	segment_file_name(s, suffix, name, sizeof(name));
	if ((fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0644)) < 0)
		return errno;
	if (len > 0 && !file_pwrite_all(fd, data, len, pos))
		error = errno;
	/* What lies behind is from before a truncation or a crash; mostly there is nothing, and then ext4 is spared
	 * a transaction for each of thousands of files. */
	if (error == 0 && final && lseek(fd, 0, SEEK_END) > pos + (int64_t) len &&
		ftruncate(fd, pos + (int64_t) len) != 0)
		error = errno;
	close(fd);
	return error;
}

static int
run_index(WriteOp *op)
{
	size_t entries = (size_t) op->nentries * 8;
	int error, dir_fd = log_open_dir(op->log);

	if (dir_fd < 0)
		return errno;
	error = write_index_file(dir_fd, op->segment, ".index", op->payload, entries, (int64_t) op->at_entry * 8,
							 op->final);
	if (error == 0)
		error = write_index_file(dir_fd, op->segment, ".timeindex", (char *) op->payload + entries,
								 (size_t) op->ntimes * 12, (int64_t) op->at_time * 12, op->final);
	close(dir_fd);
	return error;
}

static int
run_txn_index(WriteOp *op)
{
	int error, dir_fd = log_open_dir(op->log);

	if (dir_fd < 0)
		return errno;
	error = write_index_file(dir_fd, op->segment, ".txnindex", op->payload, (size_t) op->len, op->pos, true);
	close(dir_fd);
	return error;
}

static void
forget_dirty(LogManager *m, const Log *log, const LogSegment *segment)
{
	Writer *w = &m->writer;
	LogSegment **p = &w->dirty, *kept = NULL;

	while (*p != NULL)
	{
		LogSegment *s = *p;

		if (s == segment || (segment == NULL && s->log == log))
		{
			*p = s->sync.next;
			s->sync.dirty = false;
			w->ndirty--;
		}
		else
		{
			kept = s;
			p = &s->sync.next;
		}
	}
	w->dirty_last = kept;
}

/* The file of a segment that is empty, durably. */
static int
make_file(LogSegment *s)
{
	char path[STORAGE_PATH_MAX];
	bool created = false;

	if (segment_fd(s, true, &created) < 0)
		return errno;
	if (!created)
		return 0;
	if (segment_path(s, ".log", path, sizeof(path)) < 0)
		return ENAMETOOLONG;
	return file_sync_path(path) && file_sync_parent(path) ? 0 : errno;
}

/* Kafka's way of saying that a file is on its way out; what a crash leaves is removed at the next start. */
static int
run_retire(WriteOp *op)
{
	char from[64], to[80];
	int error = 0, dir_fd;

	if (op->owner != NULL && !atomic_load(&op->log->dead) && (error = make_file(op->owner)) != 0)
		return error; /* the old file stays, and with it the log's place */
	if ((dir_fd = log_open_dir(op->log)) < 0)
		return errno;
	for (int i = 0; i < SEGMENT_FILES_AND_SNAPSHOT; i++)
	{
		segment_file_name(op->segment, segment_suffixes[i], from, sizeof(from));
		snprintf(to, sizeof(to), "%s.deleted", from);
		if (renameat(dir_fd, from, dir_fd, to) != 0 && errno != ENOENT)
			error = errno;
	}
	close(dir_fd);
	return error;
}

static void
run_op(LogManager *m, WriteOp *op)
{
	Log *log = op->log;

	switch (op->kind)
	{
		case OP_WRITE:
			break;
		case OP_INDEX:
			op->error = log->writer.failed ? ECANCELED : run_index(op);
			break;
		case OP_TXN_INDEX:
			op->error = log->writer.failed ? ECANCELED : run_txn_index(op);
			break;
		case OP_FLUSH:
			if (!atomic_load(&log->dead))
				syncer_mark_dirty(m, op->segment);
			break;
		case OP_RETIRE:
			wait_for_round(m);
			forget_dirty(m, log, op->segment);
			op->error = run_retire(op);
			break;
		case OP_CLOSE:
			wait_for_round(m);
			forget_dirty(m, log, NULL);
			break;
	}
}

/* Nobody wants to know that they are written before they are synced: a wake-up of the loop for both is enough. */
static bool
can_be_held(const WriteOp *op)
{
	while (op != NULL && op->kind == OP_WRITE && op->sync && !op->followed && op->error == 0)
		op = op->batch_next;
	return op == NULL;
}

static void
run_log(LogManager *m, Log *log, bool may_hold)
{
	WriteOp *op = log->writer.first, *first = op, *last = log->writer.last;

	log->writer.first = log->writer.last = NULL;
	while (op != NULL)
	{
		if (op->kind != OP_WRITE)
		{
			run_op(m, op);
			op = op->batch_next;
		}
		else if (log->writer.failed || atomic_load(&log->dead))
		{
			op->error = ECANCELED;
			op = op->batch_next;
		}
		else
			op = write_run(m, op);
	}
	for (op = first; op != NULL; op = op->batch_next)
		op->next = op->batch_next;
	if (may_hold && can_be_held(first))
	{
		m->writer.held = first;
		m->writer.held_last = last;
	}
	else
		completions_post_ops(&m->completions, first, last);
}

static void
run_turn(LogManager *m, WriteOp *ops)
{
	Log *touched = NULL, **tail = &touched, *only;

	directory_mark_unclean(m);
	while (ops != NULL)
	{
		WriteOp *op = ops;
		Log *log = op->log;

		ops = op->next;
		op->batch_next = NULL;
		if (log->writer.first == NULL)
		{
			log->writer.first = op;
			log->writer.next_touched = NULL;
			*tail = log;
			tail = &log->writer.next_touched;
		}
		else
			log->writer.last->batch_next = op;
		log->writer.last = op;
	}
	only = touched != NULL && touched->writer.next_touched == NULL ? touched : NULL;
	while (touched != NULL)
	{
		Log *log = touched;

		/* Once its ops are posted the loop may free the log: the link is read before. */
		touched = log->writer.next_touched;
		run_log(m, log, log == only);
	}
}

static void *
writer_main(void *arg)
{
	LogManager *m = arg;
	Writer *w = &m->writer;

	pthread_mutex_lock(&w->mutex);
	for (;;)
	{
		WriteOp *ops;

		while (w->first == NULL && (w->ndirty == 0 || w->round_left > 0) &&
			   !(w->stopping && w->round_left == 0))
			sleep_until_woken(w);
		ops = w->first;
		if (ops == NULL && w->ndirty == 0)
			break; /* stopping, all written and synced */
		w->first = w->last = NULL;
		pthread_mutex_unlock(&w->mutex);
		if (ops != NULL)
			run_turn(m, ops);
		pthread_mutex_lock(&w->mutex);
		if (w->round_left == 0 && w->ndirty > 0)
		{
			bool idle = w->first == NULL;

			pthread_mutex_unlock(&w->mutex);
			syncer_start_round(m, idle);
			pthread_mutex_lock(&w->mutex);
		}
		else if (w->held != NULL)
		{
			pthread_mutex_unlock(&w->mutex);
			writer_post_held(m);
			pthread_mutex_lock(&w->mutex);
		}
	}
	pthread_mutex_unlock(&w->mutex);
	return NULL;
}

bool
writer_start(LogManager *m)
{
	Writer *w = &m->writer;

	pthread_mutex_init(&w->mutex, NULL);
	sem_init(&w->wake, 0, 0);
	w->running = storage_thread_start(&w->thread, "log-writer", writer_main, m);
	return w->running;
}

void
writer_stop(LogManager *m)
{
	Writer *w = &m->writer;

	if (!w->running)
		return;
	pthread_mutex_lock(&w->mutex);
	w->stopping = true;
	writer_wake_and_unlock(w);
	pthread_join(w->thread, NULL);
	w->running = false;
	pthread_mutex_destroy(&w->mutex);
	sem_destroy(&w->wake);
}
