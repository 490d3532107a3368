/*
 * bytes.h: big-endian integers and varints at a pointer.
 *
 * The fixed-size ones do not check bounds: the caller has.  A varint is at most 5 bytes for 32 bits and 10
 * for 64, low 7 bits first; the high bit says that more follow.  The signed ones are zigzag (0, -1, 1, -2 …
 * are 0, 1, 2, 3 …), the form of record fields; the unsigned ones are those of flexible versions.
 */
#ifndef WIRE_BYTES_H
#define WIRE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t
get_be16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, 2);
	return __builtin_bswap16(v);
}

static inline uint32_t
get_be32(const uint8_t *p)
{
	uint32_t v;

	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): who reads four bytes has seen that they are there */
	memcpy(&v, p, 4);
	return __builtin_bswap32(v);
}

static inline uint64_t
get_be64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return __builtin_bswap64(v);
}

static inline void
put_be16(uint8_t *p, uint16_t v)
{
	v = __builtin_bswap16(v);
	memcpy(p, &v, 2);
}

static inline void
put_be32(uint8_t *p, uint32_t v)
{
	v = __builtin_bswap32(v);
	memcpy(p, &v, 4);
}

static inline void
put_be64(uint8_t *p, uint64_t v)
{
	v = __builtin_bswap64(v);
	memcpy(p, &v, 8);
}

/* Read an unsigned varint of up to `bits` (32 or 64) bits before `end`; the bytes used, 0 = malformed. */
static inline int
uvarint_get(const uint8_t *p, const uint8_t *end, int bits, uint64_t *out)
{
	uint64_t v = 0;
	int n = 0;

	/* Counted, not p + n < end: an empty range may be two null pointers. */
	for (int shift = 0; shift < bits && n < end - p; shift += 7)
	{
		uint8_t b = p[n++];

		/* The last byte may only carry the bits that are left. */
		if (shift + 7 > bits && (b >> (bits - shift)) != 0)
			return 0;
		v |= (uint64_t) (b & 0x7f) << shift;
		if ((b & 0x80) == 0)
		{
			*out = v;
			return n;
		}
	}
	return 0;
}

/* Write one; `p` has room for 10 bytes.  Returns the bytes used. */
static inline int
uvarint_put(uint8_t *p, uint64_t v)
{
	int n = 0;

	while (v >= 0x80)
	{
		p[n++] = (uint8_t) (v | 0x80);
		v >>= 7;
	}
	p[n++] = (uint8_t) v;
	return n;
}

static inline int
uvarint_size(uint64_t v)
{
	return (63 - __builtin_clzll(v | 1)) / 7 + 1;
}

static inline uint64_t
zigzag(int64_t v)
{
	return ((uint64_t) v << 1) ^ (uint64_t) (v >> 63);
}

static inline int64_t
unzigzag(uint64_t v)
{
	return (int64_t) (v >> 1) ^ -(int64_t) (v & 1);
}

#endif
