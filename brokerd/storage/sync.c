/*
 * Sync rounds: making written bytes durable, many files at a time.
 *
 *     1 dirty file and nothing queued     the writer syncs it itself: no thread is woken for it; but a file with much
 *                                         to write takes long, and what comes meanwhile is to be written beside it
 *     up to SYNC_BY_FILE                  the workers, a file each
 *     more                                one syncfs: 200 dirty files take a fifth of the time
 *
 * A failed sync is reported and never tried again: the kernel may have marked the pages clean, and a second
 * call would succeed without the data being on disk (hazards A9).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/file_io.h"
#include "brokerd/storage/manager.h"

#define SYNC_BY_FILE     32
#define SYNC_ALONE_BYTES (256 * 1024)

void
syncer_mark_dirty(LogManager *m, LogSegment *s)
{
	Writer *w = &m->writer;

	if (s->sync.dirty)
		return;
	s->sync.dirty = true;
	s->sync.next = NULL;
	if (w->dirty_last != NULL)
		w->dirty_last->sync.next = s;
	else
		w->dirty = s;
	w->dirty_last = s;
	w->ndirty++;
}

/* A new file is there after a crash only once its folder is synced, and a new folder once its parent is. */
static int
sync_names(LogManager *m, LogSegment *s)
{
	bool new_dir = atomic_load(&s->log->new_dir);
	int error = 0, dir_fd;

	if (!s->sync.new_file && !new_dir)
		return 0;
	if ((dir_fd = log_open_dir(s->log)) < 0)
		return errno == ENOENT ? 0 : errno; /* deleted meanwhile */
	if (new_dir && !file_sync_if_there(dir_fd, "partition.metadata"))
		error = errno;
	if (error == 0 && fsync(dir_fd) != 0)
		error = errno;
	close(dir_fd);
	if (error == 0 && new_dir && fsync(m->dir_fd) != 0)
		error = errno;
	if (error == 0)
		atomic_store(&s->log->new_dir, false);
	return error;
}

static int
sync_file(LogManager *m, LogSegment *s)
{
	int fd;

	if (atomic_load(&s->log->dead))
		return 0;
	if ((fd = segment_fd(s, false, NULL)) < 0)
		return errno;
	atomic_fetch_add(&m->syncer.syncs, 1);
	if (fdatasync(fd) != 0)
		return errno;
	return sync_names(m, s);
}

/* A file of the round is done.  The last one lets the writer start the next round. */
static void
file_done(LogManager *m, LogSegment *s, int64_t end, int error, WriteOp *first, WriteOp *last)
{
	Writer *w = &m->writer;

	if (error == 0)
		s->sync.new_file = false;
	/* Posted before the round is over, and the segment is not touched after: a barrier op may let it go. */
	completions_post_segment(&m->completions, s, error == 0 ? end : 0, error, first, last);
	pthread_mutex_lock(&w->mutex);
	if (--w->round_left == 0)
		writer_wake_and_unlock(w);
	else
		pthread_mutex_unlock(&w->mutex);
}

static void
sync_whole(LogManager *m, LogSegment *files)
{
	int error;

	atomic_fetch_add(&m->syncer.syncs, 1);
	error = syncfs(m->dir_fd) == 0 ? 0 : errno;
	while (files != NULL)
	{
		LogSegment *s = files;

		files = s->sync.round_next;
		if (error == 0)
			atomic_store(&s->log->new_dir, false);
		file_done(m, s, s->sync.round_end, error, NULL, NULL);
	}
}

void
syncer_start_round(LogManager *m, bool queue_is_empty)
{
	Writer *w = &m->writer;
	Syncer *y = &m->syncer;
	LogSegment *files = w->dirty;
	int n = w->ndirty;
	int64_t bytes = 0;

	w->dirty = w->dirty_last = NULL;
	w->ndirty = 0;
	/* From here on a write marks the file dirty again, for the next round. */
	for (LogSegment *s = files; s != NULL; s = s->sync.next)
	{
		s->sync.dirty = false;
		bytes += s->sync.pending;
		s->sync.pending = 0;
		s->sync.round_end = s->sync.end;
		s->sync.round_next = s->sync.next;
	}
	pthread_mutex_lock(&w->mutex);
	w->round_left = n;
	pthread_mutex_unlock(&w->mutex);
	if (files != NULL && n == 1 && queue_is_empty && bytes <= SYNC_ALONE_BYTES)
	{
		int64_t end = files->sync.round_end;
		WriteOp *held = w->held, *held_last = w->held_last;
		int error;

		w->held = w->held_last = NULL;
		atomic_store(&y->started_us[SYNC_WORKERS_MAX], clock_boot_us());
		error = sync_file(m, files);
		atomic_store(&y->started_us[SYNC_WORKERS_MAX], 0);
		file_done(m, files, end, error, held, held_last);
		return;
	}
	writer_post_held(m);
	pthread_mutex_lock(&y->mutex);
	y->files = files;
	y->whole = n > SYNC_BY_FILE;
	if (n == 1 || y->whole)
		pthread_cond_signal(&y->wake);
	else
		pthread_cond_broadcast(&y->wake);
	pthread_mutex_unlock(&y->mutex);
}

static void *
worker_main(void *arg)
{
	LogManager *m = arg;
	Syncer *y = &m->syncer;
	int slot;

	pthread_mutex_lock(&y->mutex);
	slot = y->next_slot++;
	for (;;)
	{
		LogSegment *s;
		int64_t end;
		bool whole;

		while (y->files == NULL && !y->stopping)
			pthread_cond_wait(&y->wake, &y->mutex);
		if ((s = y->files) == NULL)
			break;
		whole = y->whole;
		y->files = whole ? NULL : s->sync.round_next;
		end = s->sync.round_end;
		pthread_mutex_unlock(&y->mutex);
		atomic_store(&y->started_us[slot], clock_boot_us());
		if (whole)
			sync_whole(m, s);
		else
		{
			int error = sync_file(m, s);

			file_done(m, s, end, error, NULL, NULL);
		}
		atomic_store(&y->started_us[slot], 0);
		pthread_mutex_lock(&y->mutex);
	}
	pthread_mutex_unlock(&y->mutex);
	return NULL;
}

int64_t
syncer_oldest_us(LogManager *m, int64_t now_us)
{
	int64_t oldest = now_us;

	for (int i = 0; i <= SYNC_WORKERS_MAX; i++)
	{
		int64_t t = atomic_load(&m->syncer.started_us[i]);

		if (t != 0 && t < oldest)
			oldest = t;
	}
	return now_us - oldest;
}

bool
syncer_start(LogManager *m)
{
	Syncer *y = &m->syncer;
	int n = m->opt.sync_workers;

	n = n < 1 ? 4 : n > SYNC_WORKERS_MAX ? SYNC_WORKERS_MAX : n;
	pthread_mutex_init(&y->mutex, NULL);
	pthread_cond_init(&y->wake, NULL);
	for (y->nthreads = 0; y->nthreads < n; y->nthreads++)
		if (!storage_thread_start(&y->threads[y->nthreads], "log-sync", worker_main, m))
			break;
	return y->nthreads > 0;
}

void
syncer_stop(LogManager *m)
{
	Syncer *y = &m->syncer;

	pthread_mutex_lock(&y->mutex);
	y->stopping = true;
	pthread_cond_broadcast(&y->wake);
	pthread_mutex_unlock(&y->mutex);
	for (int i = 0; i < y->nthreads; i++)
		pthread_join(y->threads[i], NULL);
	pthread_mutex_destroy(&y->mutex);
	pthread_cond_destroy(&y->wake);
}
