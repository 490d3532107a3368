#include "wire/crc32c.h"

#include "wire/crc32c_tables.h"

#include <string.h>

static uint32_t
step_byte(uint32_t c, uint8_t b)
{
	return (c >> 8) ^ crc32c_tables[0][(c ^ b) & 0xff];
}

uint32_t
crc32c_software(uint32_t crc, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint32_t c = ~crc;

	for (; len >= 8; p += 8, len -= 8)
	{
		uint32_t low =
			c ^ ((uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24);

		c = crc32c_tables[7][low & 0xff] ^ crc32c_tables[6][low >> 8 & 0xff] ^
			crc32c_tables[5][low >> 16 & 0xff] ^ crc32c_tables[4][low >> 24] ^ crc32c_tables[3][p[4]] ^
			crc32c_tables[2][p[5]] ^ crc32c_tables[1][p[6]] ^ crc32c_tables[0][p[7]];
	}
	for (; len > 0; p++, len--)
		c = step_byte(c, *p);
	return ~c;
}

#if defined(__x86_64__)

#include <immintrin.h>

/*
 * The crc32 instruction takes 3 cycles but one can start every cycle, so three blocks run side by side:
 *
 *     | block 0 | block 1 | block 2 |      crc = c0 moved over 2 blocks ^ c1 moved over 1 block ^ c2
 *
 * To move a CRC over n bytes is to multiply it by x^(8n) modulo the polynomial.  A carry-less product of two
 * reflected values comes out multiplied by x, and reducing it with the crc32 instruction multiplies by x^32;
 * the constants are therefore x^(8n-33).
 */
#define BLOCK_LONG     ((size_t) 2048)
#define BLOCK_SHORT    ((size_t) 128)
#define MOVE_1_LONG    0xa51b6135u /* n = 2048 */
#define MOVE_2_LONG    0x82f89c77u /* n = 4096 */
#define MOVE_1_SHORT   0x0d3b6092u /* n = 128 */
#define MOVE_2_SHORT   0xb9e02b86u /* n = 256 */
#define HARDWARE       __attribute__((target("sse4.2,pclmul")))
#define HARDWARE_CALLS HARDWARE __attribute__((always_inline)) static inline

HARDWARE_CALLS uint64_t
load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return v;
}

HARDWARE_CALLS uint64_t
move(uint64_t c, uint32_t constant)
{
	__m128i product =
		_mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t) c), _mm_cvtsi32_si128((int) constant), 0);

	return _mm_crc32_u64(0, (uint64_t) _mm_cvtsi128_si64(product));
}

HARDWARE_CALLS uint64_t
three_blocks(uint64_t c0, const uint8_t *p, size_t block, uint32_t move_1, uint32_t move_2)
{
	uint64_t c1 = 0, c2 = 0;

	for (size_t i = 0; i < block; i += 8)
	{
		c0 = _mm_crc32_u64(c0, load64(p + i));
		c1 = _mm_crc32_u64(c1, load64(p + block + i));
		c2 = _mm_crc32_u64(c2, load64(p + 2 * block + i));
	}
	return move(c0, move_2) ^ move(c1, move_1) ^ c2;
}

HARDWARE static uint32_t
crc32c_hardware(uint32_t crc, const uint8_t *p, size_t len)
{
	uint64_t c = (uint32_t) ~crc;

	for (; len >= 3 * BLOCK_LONG; p += 3 * BLOCK_LONG, len -= 3 * BLOCK_LONG)
		c = three_blocks(c, p, BLOCK_LONG, MOVE_1_LONG, MOVE_2_LONG);
	for (; len >= 3 * BLOCK_SHORT; p += 3 * BLOCK_SHORT, len -= 3 * BLOCK_SHORT)
		c = three_blocks(c, p, BLOCK_SHORT, MOVE_1_SHORT, MOVE_2_SHORT);
	for (; len >= 8; p += 8, len -= 8)
		c = _mm_crc32_u64(c, load64(p));
	for (; len > 0; p++, len--)
		c = _mm_crc32_u8((uint32_t) c, *p);
	return ~(uint32_t) c;
}

uint32_t
crc32c(uint32_t crc, const void *data, size_t len)
{
	if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"))
		return crc32c_hardware(crc, data, len);
	return crc32c_software(crc, data, len);
}

#else

uint32_t
crc32c(uint32_t crc, const void *data, size_t len)
{
	return crc32c_software(crc, data, len);
}

#endif
