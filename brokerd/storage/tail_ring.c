#include "brokerd/storage/tail_ring.h"

#include <stdlib.h>

static void
grow(TailRing *r)
{
	int cap = r->cap == 0 ? TAIL_RING_MIN : r->cap * 2;
	TailEntry *e = malloc(sizeof(*e) * (size_t) cap);

	for (int i = 0; i < r->count; i++)
		e[i] = *tail_ring_at(r, i);
	free(r->e);
	r->e = e;
	r->cap = cap;
	r->first = 0;
}

void
tail_ring_push(TailRing *r, int64_t base_offset, int32_t last_offset_delta, int32_t pos)
{
	if (r->count == r->cap && r->cap < TAIL_RING_MAX)
		grow(r);
	if (r->count == r->cap)
	{
		r->first = (r->first + 1) & (r->cap - 1);
		r->count--;
	}
	r->e[(r->first + r->count) & (r->cap - 1)] = (TailEntry){base_offset, pos, last_offset_delta};
	r->count++;
}

void
tail_ring_cut(TailRing *r, int64_t end_offset)
{
	while (r->count > 0 && tail_ring_at(r, r->count - 1)->base_offset >= end_offset)
		r->count--;
}

void
tail_ring_drop_below(TailRing *r, int64_t offset)
{
	while (r->count > 0 && tail_ring_at(r, 0)->base_offset < offset)
	{
		r->first = (r->first + 1) & (r->cap - 1);
		r->count--;
	}
}

void
tail_ring_clear(TailRing *r)
{
	r->count = 0;
}

int
tail_ring_find(const TailRing *r, int64_t offset)
{
	int lo = 0, hi = r->count;

	while (lo < hi)
	{
		int mid = (lo + hi) / 2;

		if (tail_ring_at(r, mid)->base_offset <= offset)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo - 1;
}
