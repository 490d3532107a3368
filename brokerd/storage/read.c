#include "brokerd/storage/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "brokerd/base/logging.h"
#include "brokerd/storage/file_io.h"
#include "brokerd/storage/retire.h"
#include "brokerd/storage/tail_ring.h"
#include "wire/errors.h"

#define HOT_BYTES      (8 * 1024 * 1024)
#define COLD_READ_MAX  (1024 * 1024)
#define COLD_TOTAL_MAX ((int64_t) 64 * 1024 * 1024)
#define FREE_READS_MAX 16 /* jobs that are kept for the next reads; a job is 20 KiB */

static const LogSlice EMPTY = {.fd = -1};

void
log_slice_release(LogSlice *slice)
{
	LogSegment *s = slice->segment;
	LogManager *m = s == NULL ? NULL : s->m;

	if (slice->data != NULL)
	{
		m->cold_bytes -= slice->len;
		free(slice->data);
	}
	if (s != NULL)
	{
		segment_unref(s);
		cold_read_next(m);
	}
	*slice = EMPTY;
}

/* ---- at the tail, on the loop ---- */

/* Is entry `i` of the ring a boundary within segment `s`: of a batch of it, or of its written end? */
static bool
boundary(const Log *log, const LogSegment *s, int i, int32_t *pos, int64_t *offset)
{
	const TailEntry *e;

	if (i < log->ring.count && (e = tail_ring_at(&log->ring, i))->base_offset < s->written_end)
	{
		*pos = e->pos;
		*offset = e->base_offset;
		return true;
	}
	*pos = s->written_size;
	*offset = s->written_end;
	return false;
}

static bool
read_tail(Log *log, const LogRead *r, LogSlice *slice)
{
	int first = tail_ring_find(&log->ring, r->offset), i, fd;
	const TailEntry *e;
	LogSegment *s;
	int32_t end_pos, pos;
	int64_t next, offset;

	if (first < 0)
		return false;
	e = tail_ring_at(&log->ring, first);
	/* In the gap behind that batch: the next one is wanted. */
	if (r->offset > e->base_offset + e->last_offset_delta)
	{
		if (++first == log->ring.count)
			return false;
		e = tail_ring_at(&log->ring, first);
	}
	s = log_segment_for(log, e->base_offset);
	/* Behind the last batch of a sealed segment, in a gap: the reader sees to it. */
	if (s == NULL || r->offset >= s->written_end || e->pos < s->warm_from ||
		e->pos < s->written_size - HOT_BYTES)
		return false;
	if ((fd = atomic_load(&s->fd)) < 0)
		return false;
	i = first + 1;
	boundary(log, s, i, &end_pos, &next);
	if (e->base_offset >= r->limit_offset || (end_pos - e->pos > r->max_bytes && !r->at_least_one))
		return true;
	while (next < r->limit_offset && next < s->written_end)
	{
		boundary(log, s, ++i, &pos, &offset);
		if (pos - e->pos > r->max_bytes)
			break;
		end_pos = pos;
		next = offset;
	}
	segment_ref(s);
	segment_touch(s);
	*slice = (LogSlice){.segment = s,
						.fd = fd,
						.pos = e->pos,
						.len = end_pos - e->pos,
						.first_offset = e->base_offset,
						.next_offset = next};
	return true;
}

/* ---- on a reader thread ---- */

typedef struct ReadJob
{
	Job job;
	struct ReadJob *next; /* of those that wait for a buffer, or of the free ones */
	Log *log;
	SegmentView view;
	uint64_t content; /* of the segment when the job was made */
	LogRead r;
	uint32_t truncations; /* of the log when the job was made */
	bool hot;             /* at the tail: the pages stay in the cache */
	LogReadDone done;
	void *ctx;
	SliceBounds bounds;
	/* result */
	SlicePlan plan;
	uint8_t *data;
	int fd;
	int64_t reserved;
	IndexPiece piece;
	uint8_t window[SCAN_HEADER_WINDOW];
} ReadJob;

static void
bring(ReadJob *j, int fd)
{
	SlicePlan *p = &j->plan;

	if (p->len == 0 || read_is_cached(fd, p->pos, p->len))
		return;
	j->data = malloc((size_t) p->len);
	if (j->data == NULL || file_pread_all(fd, j->data, (size_t) p->len, p->pos) != p->len)
		p->error = errno != 0 ? errno : EIO;
	/* A consumer that catches up must not push what others read now out of the cache. */
	else if (!j->hot)
		posix_fadvise(fd, p->pos, p->len, POSIX_FADV_DONTNEED);
}

/* What the loop does not know already comes out of the index. */
static void
find_bounds(ReadJob *j, const LogRead *r, SliceBounds *b)
{
	IndexBound bound;
	int32_t pos;

	if (b->from < 0)
	{
		bound = (IndexBound){INT32_MAX, r->offset + 1};
		pos = index_lookup(&j->view.index, &bound, &j->piece);
		b->from = pos < 0 ? 0 : pos;
	}
	if (b->skip < 0)
	{
		bound = slice_bound(r, b->from);
		pos = index_lookup(&j->view.index, &bound, &j->piece);
		b->skip = pos < 0 ? 0 : pos;
	}
}

static void
plan(ReadJob *j, int fd, const LogRead *r, SliceBounds b)
{
	BatchScan sc;

	find_bounds(j, r, &b);
	scan_init(&sc, fd, b.exact && b.skip > b.from ? b.skip : b.from, j->view.size, SCAN_HEADERS);
	scan_lend(&sc, j->window, false);
	slice_plan(&sc, r, &b, &j->plan);
	scan_free(&sc);
}

static void
read_run(Job *job)
{
	ReadJob *j = (ReadJob *) job;
	int fd;

	errno = 0;
	fd = j->fd = segment_fd(j->view.segment, false, NULL);
	if (fd < 0)
	{
		j->plan = (SlicePlan){.error = errno};
		return;
	}
	plan(j, fd, &j->r, j->bounds);
	/* What has to be read from the disk is read in small pieces; its end is a batch boundary as well. */
	if (j->plan.error == 0 && j->plan.len > COLD_READ_MAX && j->r.max_bytes > COLD_READ_MAX &&
		!read_is_cached(fd, j->plan.pos, j->plan.len))
	{
		LogRead smaller = j->r;

		smaller.max_bytes = COLD_READ_MAX;
		plan(j, fd, &smaller, (SliceBounds){.from = j->plan.pos, .skip = -1, .exact = true});
	}
	if (j->plan.error == 0)
		bring(j, fd);
}

static void
finish(ReadJob *j, int16_t error, LogSlice *slice)
{
	LogManager *m = j->log->m;

	if (m->closing)
		log_slice_release(slice);
	else
		j->done(j->ctx, error, slice);
}

static ReadJob *
take_job(LogManager *m)
{
	ReadJob *j = m->free_reads;

	if (j == NULL)
		return calloc(1, sizeof(*j));
	m->free_reads = j->next;
	m->nfree_reads--;
	return j;
}

/* The buffers of the view stay with it. */
static void
give_back(LogManager *m, ReadJob *j)
{
	if (m->nfree_reads == FREE_READS_MAX)
	{
		index_view_free(&j->view.index);
		free(j);
		return;
	}
	j->next = m->free_reads;
	m->free_reads = j;
	m->nfree_reads++;
}

void
cold_read_free(LogManager *m)
{
	while (m->free_reads != NULL)
	{
		ReadJob *j = m->free_reads;

		m->free_reads = j->next;
		index_view_free(&j->view.index);
		free(j);
	}
}

static ReadJob *
make_job(Log *log, LogSegment *s, const LogRead *r, const SliceBounds *b, LogReadDone done, void *ctx)
{
	ReadJob *j = take_job(log->m);

	j->log = log;
	j->content = s->content;
	j->r = *r;
	j->bounds = *b;
	j->done = done;
	j->ctx = ctx;
	j->truncations = log->truncations;
	j->hot = s == log_active(log) && s->written_end - r->offset < 1024;
	j->plan = (SlicePlan){0};
	j->data = NULL;
	j->piece.n = 0;
	segment_view_init(&j->view, s, false);
	log->jobs++;
	return j;
}

static void read_done(Job *job);

static void
start_job(LogManager *m, ReadJob *j)
{
	j->job.run = read_run;
	j->job.done = read_done;
	j->reserved = j->r.max_bytes < COLD_READ_MAX ? j->r.max_bytes : COLD_READ_MAX;
	m->cold_bytes += j->reserved;
	work_queue_push(&m->readers, &j->job);
}

/* Buffers are bounded in all; who comes later waits until slices are given back. */
static void
submit(LogManager *m, ReadJob *j)
{
	if (m->cold_bytes < COLD_TOTAL_MAX && m->cold_waiting == NULL)
	{
		start_job(m, j);
		return;
	}
	j->next = NULL;
	if (m->cold_waiting_last != NULL)
		m->cold_waiting_last->next = j;
	else
		m->cold_waiting = j;
	m->cold_waiting_last = j;
}

void
cold_read_next(LogManager *m)
{
	while (m->cold_waiting != NULL && m->cold_bytes < COLD_TOTAL_MAX)
	{
		ReadJob *j = m->cold_waiting;

		m->cold_waiting = j->next;
		if (m->cold_waiting == NULL)
			m->cold_waiting_last = NULL;
		start_job(m, j);
	}
}

void
cold_read_drop_waiting(LogManager *m)
{
	while (m->cold_waiting != NULL)
	{
		ReadJob *j = m->cold_waiting;

		m->cold_waiting = j->next;
		j->log->jobs--;
		segment_view_done(&j->view);
		give_back(m, j);
	}
	m->cold_waiting_last = NULL;
}

static LogSegment *
next_segment(const Log *log, const LogSegment *s)
{
	for (int i = log->nsegments - 2; i >= 0; i--)
		if (log->segments[i]->base_offset <= s->base_offset)
			return log->segments[i + 1];
	return log->nsegments > 0 ? log->segments[0] : NULL;
}

/* Is the log fit to be read, and the offset within it? */
static int16_t
check_read(const Log *log, int64_t offset)
{
	if (log->state == LOG_STATE_OFFLINE || log->nsegments == 0)
		return KERR_KAFKA_STORAGE_ERROR;
	if (offset < log->start_offset)
		return KERR_OFFSET_OUT_OF_RANGE;
	if (offset > log->written_end)
		return log->state == LOG_STATE_FAILED ? KERR_KAFKA_STORAGE_ERROR : KERR_OFFSET_OUT_OF_RANGE;
	return KERR_NONE;
}

/* Not there after all: the offset is in a gap before the next segment, or the log was truncated meanwhile. */
static LogSegment *
read_again_in(const ReadJob *j)
{
	const Log *log = j->log;
	LogSegment *next;

	if (j->truncations != log->truncations)
		return j->r.offset < log->written_end ? log_segment_for(log, j->r.offset) : NULL;
	if (j->plan.error != 0 || j->plan.found)
		return NULL;
	/* Compacted meanwhile: what follows it may be in the segment that has taken its place. */
	if (j->view.segment->retired)
		return log_segment_for(log, j->r.offset);
	next = next_segment(log, j->view.segment);
	return next != NULL && next != j->view.segment && next->written_end > j->r.offset ? next : NULL;
}

static int16_t
read_error(const ReadJob *j)
{
	const Log *log = j->log;

	if (log->deleted)
		return KERR_UNKNOWN_TOPIC_OR_PARTITION;
	if (log->truncations != j->truncations)
		return check_read(log, j->r.offset);
	/* Retention may have gone past it meanwhile. */
	if (j->r.offset < log->start_offset)
		return KERR_OFFSET_OUT_OF_RANGE;
	if (j->plan.error == 0)
		return KERR_NONE;
	log_msg(LOG_ERROR, "storage", "%s: offset %" PRId64 " cannot be read: %s", log->name, j->r.offset,
			strerror(j->plan.error));
	return KERR_KAFKA_STORAGE_ERROR;
}

/* The next read of this place, or of where it ends, is the loop's. */
static void
remember(const ReadJob *j)
{
	ReadCache *c = &j->log->m->read_cache;
	const SlicePlan *p = &j->plan;

	if (j->piece.n > 0)
		read_cache_add_piece(c, j->content, &j->piece);
	read_cache_note(c, j->content, p->first_offset, p->pos);
	read_cache_note(c, j->content, p->next_offset, p->pos + p->len);
}

static void
take_slice(ReadJob *j, LogSlice *slice)
{
	LogSegment *s = j->view.segment;

	if (!j->plan.found || j->plan.len == 0 || j->truncations != j->log->truncations)
		return;
	remember(j);
	segment_ref(s);
	*slice = (LogSlice){.segment = s,
						.fd = j->data != NULL ? -1 : j->fd,
						.pos = j->plan.pos,
						.len = j->plan.len,
						.data = j->data,
						.first_offset = j->plan.first_offset,
						.next_offset = j->plan.next_offset};
	if (j->data != NULL)
		s->m->cold_bytes += j->plan.len;
	j->data = NULL;
}

static void
read_done(Job *job)
{
	ReadJob *j = (ReadJob *) job;
	Log *log = j->log;
	LogManager *m = log->m;
	LogSlice slice = EMPTY;
	int16_t error = read_error(j);
	LogSegment *next = error == KERR_NONE ? read_again_in(j) : NULL;

	m->cold_bytes -= j->reserved;
	log->jobs--;
	if (next != NULL)
		submit(m, make_job(log, next, &j->r, &(SliceBounds){.from = -1, .skip = -1}, j->done, j->ctx));
	else
	{
		if (error == KERR_NONE)
			take_slice(j, &slice);
		finish(j, error, &slice);
	}
	segment_view_done(&j->view);
	free(j->data);
	give_back(m, j);
	retire_log_if_done(log);
	cold_read_next(m);
}

LogReadState
log_read(Log *log, const LogRead *r, LogSlice *slice, int16_t *error, LogReadDone done, void *ctx)
{
	LogRead want = *r;
	SliceBounds bounds;
	LogSegment *s;

	*slice = EMPTY;
	*error = check_read(log, r->offset);
	if (want.limit_offset > log->written_end)
		want.limit_offset = log->written_end;
	if (*error != KERR_NONE || want.offset >= want.limit_offset ||
		(want.max_bytes <= 0 && !want.at_least_one))
	{
		slice->first_offset = slice->next_offset = r->offset;
		return LOG_READ_DONE;
	}
	if (read_tail(log, &want, slice))
		return LOG_READ_DONE;
	s = log_segment_for(log, r->offset);
	if (s == NULL)
		s = log->segments[0];
	if (read_warm(s, &want, slice, &bounds))
		return LOG_READ_DONE;
	submit(log->m, make_job(log, s, &want, &bounds, done, ctx));
	return LOG_READ_PENDING;
}
