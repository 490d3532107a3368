/* Compression: there and back in all sizes, framings of other clients, limits, and input cut or flipped. */
#include "regress/unit/tap.h"
#include "wire/bytes.h"
#include "wire/compress.h"

#include <snappy-c.h>
#include <stdlib.h>
#include <zstd.h>

static void
fill(uint8_t *p, size_t n)
{
	uint32_t x = 1;

	for (size_t i = 0; i < n; i++)
	{
		x = x * 1103515245u + 12345u;
		p[i] = (uint8_t) ("abcdefgh"[x >> 29]);
	}
}

static void
test_round_trip(int codec, const uint8_t *data)
{
	static const size_t sizes[] = {0, 1, 100, 32768, 32769, 65536, 300000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		size_t n = sizes[i];
		WireWriter packed, plain;

		wire_writer_init(&packed);
		wire_writer_init(&plain);
		ok(compress_pack(codec, -1, data, n, &packed) == COMPRESS_OK &&
			   compress_unpack(codec, packed.buf, packed.len, n, &plain) == COMPRESS_OK && plain.len == n &&
			   (n == 0 || memcmp(plain.buf, data, n) == 0),
		   "%s: %zu bytes there and back, with a limit of just that", compress_name(codec), n);
		if (n > 0)
		{
			wire_writer_reset(&plain);
			is_int(compress_unpack(codec, packed.buf, packed.len, n - 1, &plain), COMPRESS_TOO_LARGE,
				   "%s: %zu bytes are too many for one less", compress_name(codec), n);
			ok(plain.len <= n - 1, "%s: and no more than that were made", compress_name(codec));
		}
		wire_writer_free(&packed);
		wire_writer_free(&plain);
	}
}

/* Zeros that are small only while they are packed. */
static void
test_bomb(int codec)
{
	size_t n = (size_t) 64 << 20;
	uint8_t *zeros = calloc(1, n);
	WireWriter packed, plain;

	wire_writer_init(&packed);
	wire_writer_init(&plain);
	ok(zeros != NULL && compress_pack(codec, -1, zeros, n, &packed) == COMPRESS_OK,
	   "%s: 64 MiB of zeros in %zu bytes", compress_name(codec), packed.len);
	is_int(compress_unpack(codec, packed.buf, packed.len, 1 << 20, &plain), COMPRESS_TOO_LARGE,
		   "%s: refused at 1 MiB", compress_name(codec));
	ok(plain.cap <= 4 << 20, "%s: with %zu bytes of memory", compress_name(codec), plain.cap);
	free(zeros);
	wire_writer_free(&packed);
	wire_writer_free(&plain);
}

/* Cut short: always noticed.  A byte changed: an error or other bytes, but nothing outside of the buffers. */
static void
test_broken(int codec, const uint8_t *data)
{
	WireWriter packed, plain;
	int accepted = 0;

	wire_writer_init(&packed);
	wire_writer_init(&plain);
	ok(compress_pack(codec, -1, data, 3000, &packed) == COMPRESS_OK, "%s: packed", compress_name(codec));
	for (size_t len = 0; len < packed.len; len += 1 + packed.len / 200)
	{
		uint8_t *copy = malloc(len + 1);

		if (copy == NULL)
			return;
		memcpy(copy + 1, packed.buf, len);
		wire_writer_reset(&plain);
		if (compress_unpack(codec, copy + 1, len, 1 << 20, &plain) == COMPRESS_OK && plain.len != 0)
			accepted++;
		free(copy);
	}
	is_int(accepted, 0, "%s: no cut input passes", compress_name(codec));
	for (size_t at = 0; at < packed.len; at++)
	{
		packed.buf[at] ^= 0x55;
		wire_writer_reset(&plain);
		if (compress_unpack(codec, packed.buf, packed.len, 1 << 20, &plain) == COMPRESS_OK)
			accepted++;
		packed.buf[at] ^= 0x55;
	}
	ok(accepted < (int) packed.len, "%s: changed bytes are survived", compress_name(codec));
	wire_writer_free(&packed);
	wire_writer_free(&plain);
}

static void
test_raw_snappy(const uint8_t *data)
{
	char block[40000];
	size_t size = sizeof(block);
	WireWriter plain;

	wire_writer_init(&plain);
	ok(snappy_compress((const char *) data, 20000, block, &size) == SNAPPY_OK, "one raw snappy block");
	ok(compress_unpack(COMPRESS_SNAPPY, block, size, 20000, &plain) == COMPRESS_OK && plain.len == 20000 &&
		   memcmp(plain.buf, data, 20000) == 0,
	   "a raw block is read, too");

	/* ff ff ff ff 0f: a block that promises 4 GiB. */
	wire_writer_reset(&plain);
	is_int(compress_unpack(COMPRESS_SNAPPY, "\xff\xff\xff\xff\x0f\x00", 6, SIZE_MAX, &plain),
		   COMPRESS_CORRUPT, "a promise that so few bytes cannot keep takes no memory");
	is_int((int64_t) plain.cap < 100000, 1, "indeed none");
	wire_writer_free(&plain);
}

/* Several frames in a row, as a client that flushes its stream writes. */
static void
test_concatenated(int codec, const uint8_t *data)
{
	WireWriter packed, plain;

	wire_writer_init(&packed);
	wire_writer_init(&plain);
	ok(compress_pack(codec, -1, data, 1000, &packed) == COMPRESS_OK &&
		   compress_pack(codec, -1, data + 1000, 500, &packed) == COMPRESS_OK &&
		   compress_unpack(codec, packed.buf, packed.len, 1500, &plain) == COMPRESS_OK && plain.len == 1500 &&
		   memcmp(plain.buf, data, 1500) == 0,
	   "%s: two frames in a row are one payload", compress_name(codec));
	wire_writer_free(&packed);
	wire_writer_free(&plain);
}

static void
test_zstd_without_size(const uint8_t *data)
{
	ZSTD_CStream *z = ZSTD_createCStream();
	uint8_t buf[20000];
	ZSTD_inBuffer src = {data, 10000, 0};
	ZSTD_outBuffer dst = {buf, sizeof(buf), 0};
	WireWriter plain;

	wire_writer_init(&plain);
	ok(z != NULL && !ZSTD_isError(ZSTD_initCStream(z, 3)) &&
		   !ZSTD_isError(ZSTD_compressStream(z, &dst, &src)) && ZSTD_endStream(z, &dst) == 0,
	   "a zstd stream");
	ok(compress_unpack(COMPRESS_ZSTD, buf, dst.pos, 10000, &plain) == COMPRESS_OK && plain.len == 10000 &&
		   memcmp(plain.buf, data, 10000) == 0,
	   "a frame that does not say its size is read");
	(void) ZSTD_freeCStream(z);
	wire_writer_free(&plain);
}

/* What a producer with compression.zstd.level=22 sends: a stream with a window of 128 MiB. */
static void
test_zstd_wide_window(const uint8_t *data)
{
	ZSTD_CCtx *z = ZSTD_createCCtx();
	uint8_t buf[20000];
	ZSTD_inBuffer src = {data, 10000, 0};
	ZSTD_outBuffer dst = {buf, sizeof(buf), 0};
	WireWriter plain;

	wire_writer_init(&plain);
	ok(z != NULL && !ZSTD_isError(ZSTD_CCtx_setParameter(z, ZSTD_c_windowLog, 27)) &&
		   !ZSTD_isError(ZSTD_compressStream2(z, &dst, &src, ZSTD_e_flush)) &&
		   ZSTD_compressStream2(z, &dst, &src, ZSTD_e_end) == 0,
	   "a zstd stream with a window of 128 MiB");
	ok(compress_unpack(COMPRESS_ZSTD, buf, dst.pos, 10000, &plain) == COMPRESS_OK && plain.len == 10000,
	   "is read");
	(void) ZSTD_freeCCtx(z);
	wire_writer_free(&plain);
}

int
main(void)
{
	uint8_t *data = malloc(300000);

	if (data == NULL)
		return 1;
	fill(data, 300000);
	for (int codec = COMPRESS_NONE; codec <= COMPRESS_ZSTD; codec++)
		test_round_trip(codec, data);
	for (int codec = COMPRESS_GZIP; codec <= COMPRESS_ZSTD; codec++)
	{
		test_bomb(codec);
		test_broken(codec, data);
	}
	test_concatenated(COMPRESS_GZIP, data);
	test_concatenated(COMPRESS_LZ4, data);
	test_concatenated(COMPRESS_ZSTD, data);
	test_raw_snappy(data);
	test_zstd_without_size(data);
	test_zstd_wide_window(data);
	{
		WireWriter w;

		wire_writer_init(&w);
		is_int(compress_unpack(5, data, 10, 100, &w), COMPRESS_UNKNOWN, "codec 5 is none");
		is_int(compress_by_name("lz4", 3), COMPRESS_LZ4, "a codec by its name");
		is_int(compress_by_name("uncompressed", 12), -1, "a name that is none");
		wire_writer_free(&w);
	}
	free(data);
	return tap_done();
}
