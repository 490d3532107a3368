/* Begin and end of a slice, from a few headers. */
#include <errno.h>

#include "brokerd/storage/read.h"
#include "wire/batch.h"

void
segment_view_init(SegmentView *v, LogSegment *s, bool with_times)
{
	segment_ref(s);
	v->segment = s;
	v->size = s->written_size;
	index_view_init(&v->index, s, with_times);
}

void
segment_view_done(SegmentView *v)
{
	segment_note_fd(v->segment);
	segment_unref(v->segment);
	v->segment = NULL;
}

IndexBound
slice_bound(const LogRead *r, int32_t pos)
{
	return (IndexBound){(int64_t) pos + (r->max_bytes > 0 ? r->max_bytes : 0), r->limit_offset};
}

static void
fail(SlicePlan *plan)
{
	plan->error = errno != 0 ? errno : EIO;
}

/* The first batch whose last offset is at or beyond `offset`. */
static bool
find_first(BatchScan *sc, int64_t offset, SlicePlan *plan)
{
	ScanResult r;

	while ((r = scan_next(sc)) == SCAN_BATCH && batch_last_offset(sc->batch) < offset)
		;
	if (r == SCAN_BATCH)
	{
		plan->found = true;
		plan->pos = (int32_t) sc->pos;
		plan->len = (int32_t) sc->size;
		plan->first_offset = batch_base_offset(sc->batch);
		plan->next_offset = batch_next_offset(sc->batch);
	}
	else if (r != SCAN_END)
		fail(plan);
	return plan->found;
}

/* Extend the slice by whole batches that begin below the limit, up to `max_end` bytes.  What cannot be read ends it. */
static void
find_end(BatchScan *sc, int64_t limit_offset, int64_t max_end, SlicePlan *plan)
{
	while (scan_next(sc) == SCAN_BATCH)
	{
		/* The batch before this one ends where it begins. */
		if (sc->pos > plan->pos + plan->len)
		{
			plan->len = (int32_t) (sc->pos - plan->pos);
			plan->next_offset = batch_base_offset(sc->batch);
		}
		if (batch_base_offset(sc->batch) >= limit_offset || sc->next > max_end)
			return;
		plan->len = (int32_t) (sc->next - plan->pos);
		plan->next_offset = batch_next_offset(sc->batch);
	}
	if (plan->len == 0)
		fail(plan);
}

void
slice_plan(BatchScan *sc, const LogRead *r, const SliceBounds *b, SlicePlan *plan)
{
	int64_t max_end;

	*plan = (SlicePlan){0};
	if (b->exact && b->skip > b->from)
	{
		/* The batch at `skip` is no more than max_bytes away and below the limit: so is all before it. */
		plan->found = true;
		plan->pos = b->from;
		plan->first_offset = plan->next_offset = r->offset;
	}
	else if (!find_first(sc, r->offset, plan))
		return;
	else if (plan->first_offset >= r->limit_offset || (plan->len > r->max_bytes && !r->at_least_one))
	{
		plan->len = 0;
		plan->next_offset = plan->first_offset;
		return;
	}
	max_end = (int64_t) plan->pos + r->max_bytes;
	if (plan->pos + plan->len < max_end && plan->next_offset < r->limit_offset)
	{
		if (b->skip > plan->pos + plan->len)
			scan_skip(sc, b->skip);
		find_end(sc, r->limit_offset, max_end, plan);
	}
}
