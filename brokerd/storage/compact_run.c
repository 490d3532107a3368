#include "brokerd/storage/compact_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "brokerd/storage/compact_swap.h"
#include "brokerd/storage/file_io.h"
#include "brokerd/storage/index.h"
#include "brokerd/storage/scan.h"
#include "brokerd/storage/txn_index.h"
#include "wire/batch.h"

#define WRITE_BYTES ((size_t) 1024 * 1024)

/* <linux/ioprio.h> is not everywhere. */
#define IO_CLASS_SHIFT       13
#define IO_CLASS_BEST_EFFORT 2
#define IO_CLASS_IDLE        3
#define IO_WHO_PROCESS       1

void
compact_hurry(bool hurry)
{
	int priority = hurry ? IO_CLASS_BEST_EFFORT << IO_CLASS_SHIFT | 4 : IO_CLASS_IDLE << IO_CLASS_SHIFT;

	/* Of the calling thread.  Where the system refuses, it compacts at the usual priority. */
	(void) syscall(SYS_ioprio_set, IO_WHO_PROCESS, 0, priority);
}

void
compact_fail(CompactJob *j, int error)
{
	j->result = COMPACT_FAILED;
	j->error = error != 0 ? error : EIO;
}

static void
damaged(CompactJob *j, int at, int64_t pos, const char *why)
{
	j->result = COMPACT_DAMAGED;
	j->at = at;
	snprintf(j->why, sizeof(j->why), "%020" PRId64 ".log at byte %" PRId64 ": %s",
			 j->sources[at].segment->base_offset, pos, why);
}

/* ---- walking the sources ---- */

/* False: the step is over. */
typedef bool (*BatchFn)(CompactJob *j, void *ctx, const BatchScan *sc, int at);

static bool
scan_failed(CompactJob *j, const BatchScan *sc, int at, ScanResult r)
{
	if (r == SCAN_ERROR)
		compact_fail(j, errno);
	else
		damaged(j, at, sc->pos, sc->why);
	return false;
}

/*
 * A descriptor of its own, closed after each walk: a log may have more segments than a process may open files.  ENOENT:
 * the segment was retired, or the log is gone.
 */
static int
open_source(const CompactJob *j, int at)
{
	const LogSegment *s = j->sources[at].segment;
	LogManager *m = j->log->m;
	char path[STORAGE_PATH_MAX];
	int fd = -1, error = ENOENT;

	pthread_rwlock_rdlock(&m->path_lock);
	if (!atomic_load(&j->log->dead))
	{
		if (segment_path(s, ".log", path, sizeof(path)) >= 0)
			fd = open(path, O_RDONLY | O_CLOEXEC);
		error = errno;
	}
	pthread_rwlock_unlock(&m->path_lock);
	errno = error;
	return fd;
}

static void
source_failed(CompactJob *j)
{
	compact_fail(j, errno == ENOENT ? ECANCELED : errno);
}

/* Every batch of a source, whole and checked. */
static bool
walk(CompactJob *j, int at, BatchFn fn, void *ctx)
{
	const CompactSource *src = &j->sources[at];
	int64_t next = src->segment->base_offset;
	int fd = open_source(j, at);
	bool ok = true;
	BatchScan sc;
	ScanResult r;

	if (fd < 0)
	{
		source_failed(j);
		return false;
	}
	scan_init(&sc, fd, 0, src->size, SCAN_WHOLE);
	while (ok && (r = scan_next(&sc)) != SCAN_END)
	{
		if (compact_cancelled(j))
		{
			compact_fail(j, ECANCELED);
			ok = false;
		}
		else if (r != SCAN_BATCH)
			ok = scan_failed(j, &sc, at, r);
		else if (batch_base_offset(sc.batch) < next || batch_next_offset(sc.batch) > src->end_offset)
		{
			damaged(j, at, sc.pos, "its offsets do not follow those before");
			ok = false;
		}
		else
		{
			next = batch_next_offset(sc.batch);
			ok = fn(j, ctx, &sc, at);
		}
	}
	scan_free(&sc);
	close(fd);
	return ok;
}

/* ---- the map ---- */

static bool
add_to_map(CompactJob *j, void *ctx, const BatchScan *sc, int at)
{
	(void) ctx;
	if (batch_last_offset(sc->batch) < j->dirty_from)
		return true;
	switch (compact_batch_add(&j->filter, sc->batch))
	{
		case COMPACT_KEPT:
			j->filter.map_end = batch_next_offset(sc->batch);
			return true;
		case COMPACT_DROPPED:
			/* Full: the rest is for the next pass. */
			j->filter.map_end = batch_base_offset(sc->batch);
			return false;
		case COMPACT_BAD:
			damaged(j, at, sc->pos, "its records cannot be read");
			return false;
		default:
			compact_fail(j, ENOMEM);
			return false;
	}
}

void
compact_run_map(Job *job)
{
	CompactJob *j = (CompactJob *) job;

	compact_hurry(false);
	j->result = COMPACT_DONE;
	j->filter.map_end = j->dirty_from;
	if ((j->filter.map = compact_map_new(j->map_bytes)) == NULL)
	{
		compact_fail(j, ENOMEM);
		return;
	}
	for (int i = 0; i < j->nsources; i++)
	{
		if (j->sources[i].end_offset <= j->dirty_from)
			continue;
		if (!walk(j, i, add_to_map, NULL))
			return;
		/* Behind the last batch there may be nothing up to where the next segment begins. */
		j->filter.map_end = j->sources[i].end_offset;
	}
	/* Where everything was clean before there is nothing new to know. */
	if (j->filter.map_end < j->dirty_end)
		j->filter.map_end = j->dirty_end;
}

/* ---- writing a group ---- */

typedef struct Output
{
	int dir_fd;
	int fd; /* -1: nothing has changed so far */
	WireWriter buf;
	int64_t buf_pos; /* where the buffer goes */
	int last;        /* the source that has the group's last batch */
	int64_t kept;    /* records, and batches, for the check at the end */
	int64_t batches;
} Output;

static void
cleaned_name(const CompactJob *j, const char *suffix, char *out, size_t cap)
{
	snprintf(out, cap, "%020" PRId64 "%s" CLEANED_SUFFIX, j->sources[j->first].segment->base_offset, suffix);
}

static bool
flush(CompactJob *j, Output *o)
{
	if (o->buf.len > 0 && !file_pwrite_all(o->fd, o->buf.buf, o->buf.len, o->buf_pos))
	{
		compact_fail(j, errno);
		return false;
	}
	/* Piece by piece, or the sync at the end would be a long one, and those of others wait behind it. */
	sync_file_range(o->fd, o->buf_pos, (off_t) o->buf.len, SYNC_FILE_RANGE_WRITE);
	o->buf_pos += (int64_t) o->buf.len;
	wire_writer_reset(&o->buf);
	return true;
}

static bool
put(CompactJob *j, Output *o, const uint8_t *data, size_t len)
{
	wire_put_bytes(&o->buf, data, len);
	if (!o->buf.failed)
		return o->buf.len < WRITE_BYTES || flush(j, o);
	compact_fail(j, ENOMEM);
	return false;
}

/* A compaction makes space in the end; until then it takes what others may need now: a hundredth is left to them. */
static bool
has_space(const CompactJob *j, int dir_fd)
{
	struct statvfs fs;
	int64_t need = 0;

	for (int i = j->first; i < j->first + j->n; i++)
		need += j->sources[i].size;
	if (fstatvfs(dir_fd, &fs) != 0)
		return true;
	need += (int64_t) (fs.f_blocks / 100 * fs.f_frsize);
	return (int64_t) (fs.f_bavail * fs.f_frsize) > need;
}

static bool
copy_start(CompactJob *j, Output *o, int64_t len)
{
	int in = open_source(j, j->first);
	uint8_t *data = malloc(WRITE_BYTES);
	bool ok = in >= 0 && data != NULL;

	while (ok && o->buf_pos < len)
	{
		size_t n = len - o->buf_pos < (int64_t) WRITE_BYTES ? (size_t) (len - o->buf_pos) : WRITE_BYTES;

		errno = 0;
		ok = file_pread_all(in, data, n, o->buf_pos) == (ssize_t) n &&
			 file_pwrite_all(o->fd, data, n, o->buf_pos);
		o->buf_pos += (int64_t) n;
	}
	if (!ok)
		source_failed(j);
	if (in >= 0)
		close(in);
	free(data);
	return ok;
}

/* What stays of the one source up to the first change is copied as it is. */
static bool
begin(CompactJob *j, Output *o, int64_t unchanged)
{
	char name[64];

	if (!has_space(j, o->dir_fd))
	{
		compact_fail(j, ENOSPC);
		return false;
	}
	cleaned_name(j, ".log", name, sizeof(name));
	o->fd = openat(o->dir_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (o->fd >= 0)
		return unchanged == 0 || copy_start(j, o, unchanged);
	compact_fail(j, errno);
	return false;
}

/* Does the batch have to stay, without records if need be? */
static bool
is_kept(CompactJob *j, const Output *o, const BatchScan *sc, int at)
{
	const uint8_t *b = sc->batch;
	bool keep = false;

	/* Where the log ends, and where segments meet, is in its last batch. */
	if (at == o->last && sc->next == j->sources[at].size)
		keep = true;
	/* Where an epoch begins: a follower that is filled from here has to cut at the same offsets as we do. */
	if (batch_leader_epoch(b) > j->newest_epoch)
	{
		j->newest_epoch = batch_leader_epoch(b);
		keep = true;
	}
	/* Sequences go on from a producer's last batch. */
	if (!keep && batch_has_producer(b) && j->nlast > 0)
	{
		int lo = 0, hi = j->nlast;

		while (lo < hi)
		{
			int mid = (lo + hi) / 2;

			if (j->last_offsets[mid] < batch_last_offset(b))
				lo = mid + 1;
			else
				hi = mid;
		}
		keep = lo < j->nlast && j->last_offsets[lo] == batch_last_offset(b);
	}
	return keep;
}

static bool
note_made(CompactJob *j, Output *o, const uint8_t *b)
{
	LogSegment *s = j->made;
	int64_t size = batch_size(b);

	if (s->size > INT32_MAX - size)
	{
		compact_fail(j, EFBIG);
		return false;
	}
	index_note_batch(s, j->index_interval, s->size, (int32_t) size, batch_last_offset(b), batch_time(b));
	if (s->size == 0)
		s->first_timestamp = batch_max_timestamp(b);
	s->size += (int32_t) size;
	o->kept += batch_count(b);
	o->batches++;
	return true;
}

static bool
filter_batch(CompactJob *j, void *ctx, const BatchScan *sc, int at)
{
	Output *o = ctx;
	WireWriter changed;
	CompactOutcome what;
	bool ok = true;

	wire_writer_init(&changed);
	what = compact_batch_filter(&j->filter, sc->batch, is_kept(j, o, sc, at), &changed);
	if (what == COMPACT_BAD)
	{
		damaged(j, at, sc->pos, "its records cannot be read");
		ok = false;
	}
	else if (what == COMPACT_NO_MEMORY)
	{
		compact_fail(j, ENOMEM);
		ok = false;
	}
	else if (what != COMPACT_KEPT && o->fd < 0)
		ok = begin(j, o, sc->pos);
	if (ok && what != COMPACT_DROPPED)
	{
		const uint8_t *b = what == COMPACT_CHANGED ? changed.buf : sc->batch;

		ok = note_made(j, o, b) && (o->fd < 0 || put(j, o, b, (size_t) batch_size(b)));
	}
	wire_writer_free(&changed);
	return ok;
}

/* ---- what goes with the log file ---- */

static bool
write_file(const CompactJob *j, int dir_fd, const char *suffix, const void *data, size_t len)
{
	char name[64];
	int fd, error;
	bool ok;

	cleaned_name(j, suffix, name, sizeof(name));
	if ((fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) < 0)
		return false;
	ok = file_pwrite_all(fd, data, len, 0) && fsync(fd) == 0;
	error = errno;
	close(fd);
	errno = error;
	return ok;
}

static bool
write_indexes(CompactJob *j, int dir_fd)
{
	LogSegment *s = j->made;
	int n, ntimes;
	uint8_t *data = index_encode_all(s, &n, &ntimes);
	bool ok;

	ok = data != NULL && write_file(j, dir_fd, ".index", data, (size_t) n * 8) &&
		 write_file(j, dir_fd, ".timeindex", data + (size_t) n * 8, (size_t) ntimes * 12);
	free(data);
	index_advance(s, n, ntimes);
	index_free_tail(s);
	if (ok && j->naborted > 0)
	{
		data = txn_index_encode(j->aborted, j->naborted);
		ok = data != NULL && write_file(j, dir_fd, ".txnindex", data, (size_t) j->naborted * TXN_INDEX_ENTRY);
		free(data);
	}
	return ok;
}

/* As old as the youngest of those that it replaces: retention of records without times goes by that. */
static void
keep_age(const CompactJob *j, int fd)
{
	int old = open_source(j, j->first + j->n - 1);
	struct stat st;

	if (old >= 0 && fstat(old, &st) == 0)
		(void) futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim});
	if (old >= 0)
		close(old);
}

/* What was written is read once more before it may replace anything: every batch whole, offsets rising, all there. */
static bool
check_made(CompactJob *j, const Output *o)
{
	const LogSegment *s = j->made;
	int64_t next = s->base_offset, kept = 0, batches = 0;
	BatchScan sc;
	ScanResult r = SCAN_ERROR;
	bool ok = true;

	scan_init(&sc, o->fd, 0, s->size, SCAN_WHOLE);
	while (ok && (r = scan_next(&sc)) == SCAN_BATCH)
	{
		ok = batch_base_offset(sc.batch) >= next;
		next = batch_next_offset(sc.batch);
		kept += batch_count(sc.batch);
		batches++;
	}
	ok = ok && r == SCAN_END && kept == o->kept && batches == o->batches && next <= s->end_offset &&
		 lseek(o->fd, 0, SEEK_END) == s->size;
	scan_free(&sc);
	if (!ok)
		compact_fail(j, EIO);
	return ok;
}

static bool
complete(CompactJob *j, Output *o)
{
	if (!flush(j, o))
		return false;
	if (!check_made(j, o))
		return false;
	keep_age(j, o->fd);
	/* Their names too, or a crash might leave one of them under its next name without the others. */
	if (fsync(o->fd) == 0 && write_indexes(j, o->dir_fd) && fsync(o->dir_fd) == 0)
		return true;
	compact_fail(j, errno);
	return false;
}

static void
remove_cleaned(const CompactJob *j, int dir_fd)
{
	char name[64];

	for (int i = 0; i < SEGMENT_FILES; i++)
	{
		cleaned_name(j, segment_suffixes[i], name, sizeof(name));
		unlinkat(dir_fd, name, 0);
	}
}

static void
forget_made(CompactJob *j)
{
	if (j->made != NULL)
		segment_free_unused(j->made);
	j->made = NULL;
}

static bool
write_group(CompactJob *j, Output *o)
{
	for (int i = j->first; i < j->first + j->n; i++)
		if (j->sources[i].size > 0)
			o->last = i;
	/* Of several one is made in any case. */
	if (j->n > 1 && !begin(j, o, 0))
		return false;
	for (int i = j->first; i < j->first + j->n; i++)
		if (!walk(j, i, filter_batch, o))
			return false;
	if (o->fd < 0)
	{
		j->result = COMPACT_UNCHANGED;
		return true;
	}
	return complete(j, o);
}

void
compact_run_write(Job *job)
{
	CompactJob *j = (CompactJob *) job;
	Output o = {.fd = -1, .last = j->first};
	const CompactSource *last = &j->sources[j->first + j->n - 1];

	j->result = COMPACT_DONE;
	j->made = NULL;
	if ((o.dir_fd = log_open_dir(j->log)) < 0)
	{
		compact_fail(j, errno);
		return;
	}
	directory_mark_unclean(j->log->m);
	wire_writer_init(&o.buf);
	j->made = segment_new(j->log, j->sources[j->first].segment->base_offset);
	j->made->end_offset = last->end_offset;
	if (!write_group(j, &o) && o.fd >= 0)
		remove_cleaned(j, o.dir_fd);
	if (j->result != COMPACT_DONE)
		forget_made(j);
	if (o.fd >= 0)
		close(o.fd);
	close(o.dir_fd);
	wire_writer_free(&o.buf);
}

void
compact_run_drop(Job *job)
{
	CompactJob *j = (CompactJob *) job;
	int dir_fd = log_open_dir(j->log);

	forget_made(j);
	if (dir_fd < 0)
		return; /* deleted: the folder goes as a whole */
	remove_cleaned(j, dir_fd);
	close(dir_fd);
}
