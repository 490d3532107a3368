#include "brokerd/storage/compact_rule.h"

#include <stddef.h>

static int64_t
after(int64_t t, int64_t ms)
{
	return ms > INT64_MAX - t - 1 ? INT64_MAX : t + ms + 1;
}

static void
look_at(CompactVerdict *v, int64_t ms)
{
	if (ms < v->look_ms)
		v->look_ms = ms;
}

/* How many segments may be compacted, and what keeps the next one from it. */
static void
find_cleanable(const CompactQuestion *q, CompactVerdict *v)
{
	for (v->n = 0; v->n < q->n - 1; v->n++)
	{
		const CompactSegment *s = &q->segments[v->n];

		if (!s->ready)
			return; /* whoever gets it ready says so */
		if (s->end_offset > q->stable_end)
		{
			v->waits_for_high = true;
			return;
		}
		if (s->end_offset > q->cleaned_end && q->min_lag_ms > 0 && q->now_ms - s->time_ms < q->min_lag_ms)
		{
			look_at(v, after(s->time_ms, q->min_lag_ms) - 1);
			return;
		}
	}
}

typedef struct Dirt
{
	int64_t clean_bytes;
	int64_t dirty_bytes;
	int64_t oldest_ms; /* first batch of the oldest dirty segment; INT64_MAX none has a time */
} Dirt;

static Dirt
measure(const CompactQuestion *q, int n)
{
	Dirt d = {.oldest_ms = INT64_MAX};

	for (int i = 0; i < n; i++)
	{
		const CompactSegment *s = &q->segments[i];

		if (s->end_offset <= q->cleaned_end)
		{
			d.clean_bytes += s->size;
			continue;
		}
		d.dirty_bytes += s->size;
		if (s->size > 0 && s->first_timestamp >= 0 && s->first_timestamp < d.oldest_ms)
			d.oldest_ms = s->first_timestamp;
	}
	return d;
}

static const char *
reason_to_run(const CompactQuestion *q, const CompactVerdict *v, const Dirt *d)
{
	if (v->n == 0)
		return NULL;
	if (d->dirty_bytes > 0 &&
		(double) d->dirty_bytes / (double) (d->clean_bytes + d->dirty_bytes) > q->min_dirty_ratio)
		return "min.cleanable.dirty.ratio";
	if (d->dirty_bytes > 0 && d->oldest_ms != INT64_MAX && after(d->oldest_ms, q->max_lag_ms) <= q->now_ms)
		return "max.compaction.lag.ms";
	if (d->clean_bytes > 0 && q->tombstones_go_ms <= q->now_ms)
		return "delete.retention.ms";
	return NULL;
}

CompactVerdict
compact_rule(const CompactQuestion *q)
{
	CompactVerdict v = {.look_ms = INT64_MAX};
	Dirt d;

	find_cleanable(q, &v);
	d = measure(q, v.n);
	v.dirty_from = v.dirty_end = q->cleaned_end;
	if (v.n > 0)
	{
		if (v.dirty_from < q->segments[0].base_offset)
			v.dirty_from = q->segments[0].base_offset;
		v.dirty_end = q->segments[v.n - 1].end_offset;
		if (v.dirty_end < v.dirty_from)
			v.dirty_end = v.dirty_from;
	}
	v.reason = reason_to_run(q, &v, &d);
	v.run = v.reason != NULL;
	if (v.run)
		return v;
	if (d.dirty_bytes > 0 && d.oldest_ms != INT64_MAX)
		look_at(&v, after(d.oldest_ms, q->max_lag_ms));
	if (d.clean_bytes > 0)
		look_at(&v, q->tombstones_go_ms);
	return v;
}

int
compact_group(const CompactSegment *segments, int first, int n, int64_t max_bytes, int64_t max_index_bytes)
{
	int64_t bytes = segments[first].size, index_bytes = segments[first].index_bytes;
	int i = first + 1;

	for (; i < n; i++)
	{
		bytes += segments[i].size;
		index_bytes += segments[i].index_bytes;
		if (bytes > max_bytes || index_bytes > max_index_bytes ||
			segments[i].end_offset - 1 - segments[first].base_offset > INT32_MAX)
			break;
	}
	return i - first;
}
