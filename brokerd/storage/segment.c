/*
 * Segments: references, file descriptors and names of files.
 *
 * A descriptor is opened by the thread that needs it first (compare-and-swap decides between two) and closed
 * by the loop only, when nobody holds the segment: beyond `max_open` the longest unused go.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/storage/deleter.h"
#include "brokerd/storage/index.h"
#include "brokerd/storage/manager.h"

uint64_t
segment_content(LogManager *m)
{
	return atomic_fetch_add(&m->contents, 1) + 1;
}

LogSegment *
segment_new(Log *log, int64_t base_offset)
{
	LogSegment *s = calloc(1, sizeof(*s));

	s->m = log->m;
	s->log = log;
	s->refs = 1;
	s->fd = -1;
	s->base_offset = s->end_offset = s->written_end = s->flushed_end = base_offset;
	s->max_timestamp = s->first_timestamp = -1;
	s->max_timestamp_offset = -1;
	s->last_time = (TimeEntry){-1, base_offset};
	s->created_ms = clock_wall_ms();
	s->content = segment_content(s->m);
	return s;
}

void
segment_push(Log *log, LogSegment *s)
{
	if (log->nsegments == log->segments_cap)
	{
		log->segments_cap = log->segments_cap ? log->segments_cap * 2 : 1;
		log->segments = realloc(log->segments, sizeof(*log->segments) * (size_t) log->segments_cap);
	}
	log->segments[log->nsegments++] = s;
}

void
segment_ref(LogSegment *s)
{
	s->refs++;
	if (s->in_lru)
		segment_touch(s);
}

static void
lru_remove(LogSegment *s)
{
	LogManager *m = s->m;

	if (!s->in_lru)
		return;
	if (s->lru_prev != NULL)
		s->lru_prev->lru_next = s->lru_next;
	else
		m->lru = s->lru_next;
	if (s->lru_next != NULL)
		s->lru_next->lru_prev = s->lru_prev;
	else
		m->lru_last = s->lru_prev;
	s->in_lru = false;
	s->lru_prev = s->lru_next = NULL;
	m->nopen--;
}

static void
close_fd(LogSegment *s)
{
	int fd = atomic_exchange(&s->fd, -1);

	lru_remove(s);
	if (fd >= 0)
		close(fd);
}

/* Closes the longest unused ones; those that are held stay in the list and are passed over. */
static void
close_oldest(LogManager *m)
{
	LogSegment *s = m->lru;

	for (int tries = 0; s != NULL && m->nopen > m->max_open && tries < 64; tries++)
	{
		LogSegment *next = s->lru_next;

		/* The one reference is the log's: of a segment without a log it is that of a slice. */
		if (s->refs == 1 && !s->retired && s->log != NULL && !s->log->deleted)
			close_fd(s);
		s = next;
	}
}

void
segment_note_fd(LogSegment *s)
{
	LogManager *m = s->m;

	if (atomic_load(&s->fd) < 0)
		return;
	if (s->in_lru)
	{
		if (m->lru_last == s)
			return;
		lru_remove(s);
	}
	s->in_lru = true;
	s->lru_prev = m->lru_last;
	if (m->lru_last != NULL)
		m->lru_last->lru_next = s;
	else
		m->lru = s;
	m->lru_last = s;
	m->nopen++;
	if (m->nopen > m->max_open)
		close_oldest(m);
}

void
segment_touch(LogSegment *s)
{
	segment_note_fd(s);
}

static void
segment_free(LogSegment *s)
{
	close_fd(s);
	if (s->delete_path != NULL)
		deleter_add_segment(s->m, s->delete_path, s->delete_due_ms);
	retired_dir_unref(s->m, s->retired_dir);
	index_free_tail(s);
	free(s->aborted);
	free(s->delete_path);
	free(s);
}

/* Before the loop knows it: no list and no deleter is told. */
void
segment_free_unused(LogSegment *s)
{
	int fd = atomic_exchange(&s->fd, -1);

	if (fd >= 0)
		close(fd);
	index_free_tail(s);
	free(s->aborted);
	free(s);
}

void
segment_unref(LogSegment *s)
{
	if (--s->refs == 0)
		segment_free(s);
	else if (s->refs == 1)
		segment_note_fd(s);
}

void
segment_set_unsynced(LogSegment *s, bool unsynced)
{
	if (s->unsynced == unsynced)
		return;
	s->unsynced = unsynced;
	if (unsynced)
		segment_ref(s);
	else
		segment_unref(s);
}

int
segment_path(const LogSegment *s, const char *suffix, char *out, size_t cap)
{
	uint64_t moved = atomic_load(&s->moved);
	int n = moved == 0 ? snprintf(out, cap, "%s/%s/%020" PRId64 "%s", s->m->dir, s->log->name, s->base_offset,
								  suffix)
					   : snprintf(out, cap, "%s/%s/%020" PRId64 ".c%" PRIu64 "%s.deleted", s->m->dir,
								  s->log->name, s->base_offset, moved, suffix);

	if (n < 0 || (size_t) n >= cap)
	{
		errno = ENAMETOOLONG;
		return -1;
	}
	return n;
}

int
segment_fd(LogSegment *s, bool create, bool *created)
{
	char path[STORAGE_PATH_MAX];
	int fd = atomic_load(&s->fd), expected = -1;

	if (fd >= 0)
		return fd;
	pthread_rwlock_rdlock(&s->m->path_lock);
	if (segment_path(s, ".log", path, sizeof(path)) < 0)
		fd = -1;
	else if (atomic_load(&s->log->dead))
	{
		fd = -1;
		errno = ENOENT;
	}
	else
	{
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT && create)
		{
			fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
			if (fd >= 0 && created != NULL)
				*created = true;
		}
	}
	pthread_rwlock_unlock(&s->m->path_lock);
	if (fd < 0)
		return -1;
	if (!atomic_compare_exchange_strong(&s->fd, &expected, fd))
	{
		close(fd);
		fd = expected;
	}
	return fd;
}

const char *const segment_suffixes[SEGMENT_FILES_AND_SNAPSHOT] = {".log", ".index", ".timeindex", ".txnindex",
																  ".snapshot"};

void
segment_file_name(const LogSegment *s, const char *suffix, char *out, size_t cap)
{
	snprintf(out, cap, "%020" PRId64 "%s", s->base_offset, suffix);
}

int
log_open_dir(Log *log)
{
	char path[STORAGE_PATH_MAX];
	int fd = -1, error = ENOENT;

	if (log_path(log, NULL, path, sizeof(path)) < 0)
		return -1;
	pthread_rwlock_rdlock(&log->m->path_lock);
	if (!atomic_load(&log->dead))
	{
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		error = errno;
	}
	pthread_rwlock_unlock(&log->m->path_lock);
	if (fd < 0)
		errno = error;
	return fd;
}
