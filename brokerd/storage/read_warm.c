/*
 * Reads that go on where another one ended, of what is in the page cache: answered on the loop, by one or two reads
 * of headers that do not wait.  Whatever is missing (a boundary, an index entry, a page) is a reader thread's.
 */
#include "brokerd/storage/file_io.h"
#include "brokerd/storage/read.h"
#include "wire/batch.h"

#define PROBE_STEP (128 * 1024)

bool
read_is_cached(int fd, int64_t pos, int32_t len)
{
	char c;

	for (int64_t at = pos; at < pos + len; at += PROBE_STEP)
		if (file_pread_cached(fd, &c, 1, at) != 1)
			return false;
	return true;
}

/* The last batch within the bound; -1: the index has to be read. */
static int32_t
known_floor(LogSegment *s, const IndexBound *bound)
{
	int32_t pos = s->tail == NULL ? -1 : index_tail_floor(s->tail->entries, index_tail_written(s), bound);
	const IndexPiece *piece;

	if (pos >= 0)
		return pos;
	if (s->index_entries == 0)
		return 0;
	piece = read_cache_piece(&s->m->read_cache, s->content, bound, s->index_entries);
	if (piece == NULL)
		return -1;
	pos = index_piece_floor(piece, bound);
	return pos < 0 ? 0 : pos;
}

/* Where the slice may go on without a look at what lies between.  False: not known. */
static bool
find_skip(LogSegment *s, const LogRead *r, SliceBounds *b)
{
	IndexBound bound = slice_bound(r, b->from);

	/* One window of headers has it all. */
	b->skip = r->max_bytes <= SCAN_HEADER_WINDOW - BATCH_HEADER_SIZE ? 0 : known_floor(s, &bound);
	return b->skip >= 0;
}

/* So many bytes at most, but for a single batch that is larger; at least one. */
static int32_t
most(const LogSegment *s, const LogRead *r, int32_t pos)
{
	int32_t left = s->written_size - pos;

	return r->max_bytes < 1 ? 1 : left < r->max_bytes ? left : r->max_bytes;
}

/* All that is left of the segment. */
static bool
takes_all(const LogSegment *s, const LogRead *r, int32_t pos)
{
	return s->written_size - pos <= r->max_bytes && s->written_end <= r->limit_offset;
}

static bool
plan_warm(LogSegment *s, int fd, const LogRead *r, const SliceBounds *b, SlicePlan *plan)
{
	uint8_t window[SCAN_HEADER_WINDOW];
	BatchScan sc;

	if (takes_all(s, r, b->from))
	{
		*plan = (SlicePlan){.found = true,
							.pos = b->from,
							.len = s->written_size - b->from,
							.first_offset = r->offset,
							.next_offset = s->written_end};
		return true;
	}
	scan_init(&sc, fd, b->exact && b->skip > b->from ? b->skip : b->from, s->written_size, SCAN_HEADERS);
	scan_lend(&sc, window, true);
	slice_plan(&sc, r, b, plan);
	scan_free(&sc);
	return plan->error == 0 && plan->found;
}

bool
read_warm(LogSegment *s, const LogRead *r, LogSlice *slice, SliceBounds *b)
{
	ReadCache *c = &s->m->read_cache;
	int fd = atomic_load(&s->fd);
	SlicePlan plan;
	int32_t probed;

	*b = (SliceBounds){.from = -1, .skip = -1};
	if (r->offset >= s->written_end)
		return false;
	b->from = r->offset <= s->base_offset ? 0 : read_cache_find(c, s->content, r->offset);
	b->exact = b->from >= 0;
	if (!b->exact || b->from >= s->written_size || fd < 0 || !find_skip(s, r, b))
		return false;
	/* All of it before any header: the kernel must not begin to read ahead from the end of the slice. */
	probed = most(s, r, b->from);
	if (!read_is_cached(fd, b->from, probed) || !plan_warm(s, fd, r, b, &plan) ||
		(plan.len > probed && !read_is_cached(fd, plan.pos, plan.len)))
		return false;
	if (plan.len == 0)
		return true;
	read_cache_note(c, s->content, plan.next_offset, plan.pos + plan.len);
	segment_ref(s);
	segment_touch(s);
	*slice = (LogSlice){.segment = s,
						.fd = fd,
						.pos = plan.pos,
						.len = plan.len,
						.first_offset = plan.first_offset,
						.next_offset = plan.next_offset};
	return true;
}
