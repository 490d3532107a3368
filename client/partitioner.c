#include "client/partitioner.h"

#include <string.h>
#include <zlib.h>

#define MURMUR_SEED 0x9747b28cU /* Kafka's */
#define MURMUR_M    0x5bd1e995U

static uint32_t
murmur2(const uint8_t *p, size_t len)
{
	uint32_t h = MURMUR_SEED ^ (uint32_t) len;

	for (; len >= 4; p += 4, len -= 4)
	{
		uint32_t k = (uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24;

		k *= MURMUR_M;
		k ^= k >> 24;
		h = h * MURMUR_M ^ k * MURMUR_M;
	}
	for (size_t i = len; i > 0; i--)
		h ^= (uint32_t) p[i - 1] << (8 * (i - 1));
	if (len > 0)
		h *= MURMUR_M;
	h ^= h >> 13;
	h *= MURMUR_M;
	return h ^ h >> 15;
}

int32_t
partition_murmur2(const void *key, size_t len, int32_t n)
{
	return (int32_t) ((murmur2(key, len) & INT32_MAX) % (uint32_t) n);
}

int32_t
partition_crc32(const void *key, size_t len, int32_t n)
{
	return (int32_t) ((uint32_t) crc32(0, key, (uInt) len) % (uint32_t) n);
}
