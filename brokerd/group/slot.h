/*
 * slot.h: which slot a group id (or a transactional id) belongs to.  The broker that holds a slot
 * coordinates everything in it.
 *
 * The hash is FNV-1a, 32 bits, over the bytes of the id, modulo 256.  SQL computes the same
 * (broker_internal.slot_of), so neither side may change it alone:
 *
 *     h = 2166136261;  for each byte b: h = ((h XOR b) * 16777619) mod 2^32;  slot = h mod 256
 *
 *     slot("") = 197, slot("a") = 44, slot("billing") = 220
 */
#ifndef BROKERD_GROUP_SLOT_H
#define BROKERD_GROUP_SLOT_H

#include <stdint.h>

#include "wire/types.h"

#define GROUP_SLOTS 256

static inline uint32_t
group_hash(const void *p, int32_t len)
{
	const uint8_t *b = p;
	uint32_t h = 2166136261u;

	for (int32_t i = 0; i < len; i++)
		h = (h ^ b[i]) * 16777619u;
	return h;
}

static inline int32_t
group_slot(WStr id)
{
	return (int32_t) (group_hash(id.s, id.len) % GROUP_SLOTS);
}

#endif
