/*
 * tail_ring.h: base offset and position of a log's newest batches, across segments, oldest first.  Grows
 * with use from 16 to 256 entries, so that 10,000 quiet logs cost nothing.
 */
#ifndef BROKERD_STORAGE_TAIL_RING_H
#define BROKERD_STORAGE_TAIL_RING_H

#include "brokerd/storage/internal.h"

void tail_ring_push(TailRing *r, int64_t base_offset, int32_t last_offset_delta, int32_t pos);
void tail_ring_cut(TailRing *r, int64_t end_offset);    /* forget batches at or beyond it */
void tail_ring_drop_below(TailRing *r, int64_t offset); /* forget batches that begin below it */
void tail_ring_clear(TailRing *r);

static inline const TailEntry *
tail_ring_at(const TailRing *r, int i)
{
	return &r->e[(r->first + i) & (r->cap - 1)];
}

/* The last entry whose base offset is <= `offset`; -1: older than all that is known. */
int tail_ring_find(const TailRing *r, int64_t offset);

#endif
