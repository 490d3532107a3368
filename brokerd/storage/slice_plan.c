/* Begin and end of a slice, from the index and a few headers. */
#include <errno.h>

#include "brokerd/storage/read.h"
#include "brokerd/storage/scan.h"
#include "wire/batch.h"

void
segment_view_init(SegmentView *v, LogSegment *s)
{
	segment_ref(s);
	*v = (SegmentView){.segment = s, .size = s->written_size, .end_offset = s->written_end};
	index_view_init(&v->index, s);
}

void
segment_view_done(SegmentView *v)
{
	index_view_free(&v->index);
	segment_note_fd(v->segment);
	segment_unref(v->segment);
}

/* The first batch whose last offset is at or beyond `offset`, from an index entry on. */
static bool
find_first(const SegmentView *v, int fd, int64_t offset, SlicePlan *plan)
{
	int32_t from = index_floor(&v->index, offset);
	BatchScan sc;
	ScanResult r;

	scan_init(&sc, fd, from < 0 ? 0 : from, v->size, SCAN_HEADERS);
	while ((r = scan_next(&sc)) == SCAN_BATCH && batch_last_offset(sc.batch) < offset)
		;
	if (r == SCAN_BATCH)
	{
		plan->found = true;
		plan->pos = (int32_t) sc.pos;
		plan->len = (int32_t) sc.size;
		plan->first_offset = batch_base_offset(sc.batch);
		plan->next_offset = batch_next_offset(sc.batch);
	}
	else if (r != SCAN_END)
		plan->error = errno != 0 ? errno : EIO;
	scan_free(&sc);
	return plan->found;
}

/* Extend the slice by whole batches that begin below the limit, up to `max_end` bytes. */
static void
find_end(const SegmentView *v, int fd, const LogRead *r, int64_t max_end, SlicePlan *plan)
{
	int64_t from = plan->pos + plan->len;
	int32_t skip;
	BatchScan sc;

	if (from >= max_end || plan->next_offset >= r->limit_offset)
		return;
	/* Index entries are batch boundaries: go to the last one before either bound. */
	skip = index_floor_position(&v->index, max_end > INT32_MAX ? INT32_MAX : (int32_t) max_end);
	if (r->limit_offset < v->end_offset)
	{
		int32_t at_limit = index_floor(&v->index, r->limit_offset - 1);

		if (at_limit < skip)
			skip = at_limit;
	}
	if (skip > from)
		from = skip;
	scan_init(&sc, fd, from, v->size, SCAN_HEADERS);
	while (scan_next(&sc) == SCAN_BATCH)
	{
		/* The batch before this one ends where it begins. */
		if (sc.pos > plan->pos + plan->len)
		{
			plan->len = (int32_t) (sc.pos - plan->pos);
			plan->next_offset = batch_base_offset(sc.batch);
		}
		if (batch_base_offset(sc.batch) >= r->limit_offset || sc.next > max_end)
			break;
		plan->len = (int32_t) (sc.next - plan->pos);
		plan->next_offset = batch_next_offset(sc.batch);
	}
	scan_free(&sc);
}

void
slice_plan(SegmentView *v, int fd, const LogRead *r, SlicePlan *plan)
{
	*plan = (SlicePlan){0};
	if (!find_first(v, fd, r->offset, plan))
		return;
	if (plan->first_offset >= r->limit_offset || (plan->len > r->max_bytes && !r->at_least_one))
	{
		plan->len = 0;
		plan->next_offset = plan->first_offset;
		return;
	}
	find_end(v, fd, r, (int64_t) plan->pos + r->max_bytes, plan);
}
