/* CRC-32C: known values, both forms alike at every length and alignment, and in pieces. */
#include "regress/unit/tap.h"
#include "wire/crc32c.h"

#include <stdlib.h>

#define N 20000

static void
fill(uint8_t *p, size_t n)
{
	uint32_t x = 12345;

	for (size_t i = 0; i < n; i++)
	{
		x = x * 1103515245u + 12345u;
		p[i] = (uint8_t) (x >> 16);
	}
}

static bool
forms_agree(const uint8_t *buf, size_t from, size_t to, size_t step)
{
	for (size_t len = from; len <= to; len += step)
		for (size_t at = 0; at < 9; at++)
			if (crc32c(7, buf + at, len) != crc32c_software(7, buf + at, len))
			{
				printf("# length %zu at %zu\n", len, at);
				return false;
			}
	return true;
}

int
main(void)
{
	static const uint8_t ones[32] = {[0 ... 31] = 0xff};
	static const uint8_t zeros[32];
	uint8_t *buf = malloc(N + 16);
	bool same = true;

	if (buf == NULL)
		return 1;
	fill(buf, N + 16);

	/* From RFC 3720, B.4. */
	is_int(crc32c(0, "123456789", 9), 0xe3069283u, "the check value");
	is_int(crc32c(0, zeros, 32), 0x8a9136aau, "32 zeros");
	is_int(crc32c(0, ones, 32), 0x62a8ab43u, "32 ones");
	is_int(crc32c_software(0, "123456789", 9), 0xe3069283u, "the check value in software");
	is_int(crc32c(0, buf, 0), 0, "nothing");

	/* 384 and 6144 bytes are where three streams start. */
	ok(forms_agree(buf, 0, 800, 1), "both forms agree up to 800 bytes");
	ok(forms_agree(buf, 6100, 6600, 1), "both forms agree around 6144 bytes");
	ok(forms_agree(buf, 800, N, 997), "both forms agree up to 20000 bytes");

	for (size_t cut = 0; cut <= N && same; cut += 333)
		same = crc32c(crc32c(0, buf, cut), buf + cut, N - cut) == crc32c(0, buf, N);
	ok(same, "a checksum in two pieces is that of the whole");
	free(buf);
	return tap_done();
}
