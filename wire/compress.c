/*
 * compress.c: which codec, by a table; gzip and zstd.  Snappy and LZ4 have their framing in files of their own.
 */
#include "wire/compress.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "wire/compress_internal.h"

bool
output_next(WireWriter *out, size_t from, size_t limit, size_t want, uint8_t **p, size_t *room,
			CompressResult *why)
{
	size_t made = out->len - from;

	*why = made >= limit ? COMPRESS_TOO_LARGE : COMPRESS_NO_MEMORY;
	if (made >= limit)
		return false;
	*room = want < limit - made ? want : limit - made;
	*p = wire_put_room(out, *room);
	return *p != NULL;
}

/* ---- gzip ---- */

static CompressResult
gzip_inflate(z_stream *z, size_t limit, WireWriter *out)
{
	size_t from = out->len;

	for (;;)
	{
		CompressResult why;
		uint8_t *p;
		size_t room;
		int rc;

		/* At the limit one more byte decides between done and too much. */
		uint8_t over;
		bool at_limit = out->len - from >= limit;

		if (at_limit)
		{
			p = &over;
			room = 1;
		}
		else if (!output_next(out, from, limit, OUTPUT_STEP, &p, &room, &why))
			return why;
		z->next_out = p;
		z->avail_out = (uInt) room;
		rc = inflate(z, Z_NO_FLUSH);
		if (at_limit && z->avail_out == 0)
			return COMPRESS_TOO_LARGE;
		if (!at_limit)
			out->len -= z->avail_out;
		if (rc == Z_STREAM_END && z->avail_in > 0)
		{
			if (inflateReset(z) != Z_OK)
				return COMPRESS_CORRUPT;
		}
		else if (rc == Z_STREAM_END)
			return COMPRESS_OK;
		else if (rc == Z_MEM_ERROR)
			return COMPRESS_NO_MEMORY;
		else if (rc != Z_OK || (z->avail_in == 0 && z->avail_out > 0))
			return COMPRESS_CORRUPT;
	}
}

static CompressResult
gzip_read(const uint8_t *in, size_t len, size_t limit, WireWriter *out)
{
	z_stream z = {0};
	CompressResult r;

	if (len > UINT32_MAX)
		return COMPRESS_TOO_LARGE;
	if (inflateInit2(&z, 15 + 16) != Z_OK)
		return COMPRESS_NO_MEMORY;
	z.next_in = (Bytef *) (uintptr_t) in;
	z.avail_in = (uInt) len;
	r = gzip_inflate(&z, limit, out);
	(void) inflateEnd(&z);
	return r;
}

static CompressResult
gzip_write(int level, const uint8_t *in, size_t len, WireWriter *out)
{
	z_stream z = {0};
	uint8_t *p;
	size_t bound;
	int rc;

	if (len > UINT32_MAX)
		return COMPRESS_TOO_LARGE;
	if (deflateInit2(&z, level < 0 ? Z_DEFAULT_COMPRESSION : level, Z_DEFLATED, 15 + 16, 8,
					 Z_DEFAULT_STRATEGY) != Z_OK)
		return COMPRESS_NO_MEMORY;
	bound = deflateBound(&z, len);
	p = wire_put_room(out, bound);
	if (p == NULL)
	{
		(void) deflateEnd(&z);
		return COMPRESS_NO_MEMORY;
	}
	z.next_in = (Bytef *) (uintptr_t) in;
	z.avail_in = (uInt) len;
	z.next_out = p;
	z.avail_out = (uInt) bound;
	rc = deflate(&z, Z_FINISH);
	out->len -= z.avail_out;
	(void) deflateEnd(&z);
	return rc == Z_STREAM_END ? COMPRESS_OK : COMPRESS_NO_MEMORY;
}

/* ---- zstd ---- */

static CompressResult
zstd_stream(ZSTD_DStream *z, const uint8_t *in, size_t len, size_t limit, WireWriter *out)
{
	ZSTD_inBuffer src = {in, len, 0};
	size_t from = out->len;
	size_t rc = 1;

	while (src.pos < src.size || rc != 0)
	{
		uint8_t over;
		bool at_limit = out->len - from >= limit;
		ZSTD_outBuffer dst = {&over, 1, 0};
		size_t taken = src.pos;
		CompressResult why;
		uint8_t *p;

		if (!at_limit)
		{
			if (!output_next(out, from, limit, OUTPUT_STEP, &p, &dst.size, &why))
				return why;
			dst.dst = p;
		}
		rc = ZSTD_decompressStream(z, &dst, &src);
		if (at_limit && dst.pos > 0)
			return COMPRESS_TOO_LARGE;
		if (!at_limit)
			out->len -= dst.size - dst.pos;
		if (ZSTD_isError(rc))
			return COMPRESS_CORRUPT;
		/* Nothing went in and nothing came out: the last frame is cut off. */
		if (rc != 0 && src.pos == taken && dst.pos == 0)
			return COMPRESS_CORRUPT;
	}
	return COMPRESS_OK;
}

static CompressResult
zstd_read(const uint8_t *in, size_t len, size_t limit, WireWriter *out)
{
	ZSTD_DStream *z = ZSTD_createDStream();
	CompressResult r;

	if (z == NULL)
		return COMPRESS_NO_MEMORY;
	/*
	 * The sender names a window of up to 128 MiB (level 22), which is zstd's own limit.  It is address space:
	 * only what is decompressed, so at most `limit`, becomes memory.
	 */
	r = zstd_stream(z, in, len, limit, out);
	(void) ZSTD_freeDStream(z);
	return r;
}

static CompressResult
zstd_write(int level, const uint8_t *in, size_t len, WireWriter *out)
{
	size_t bound = ZSTD_compressBound(len);
	uint8_t *p = wire_put_room(out, bound);
	size_t n;

	if (p == NULL)
		return COMPRESS_NO_MEMORY;
	n = ZSTD_compress(p, bound, in, len, level < 0 ? ZSTD_CLEVEL_DEFAULT : level);
	out->len -= ZSTD_isError(n) ? bound : bound - n;
	return ZSTD_isError(n) ? COMPRESS_NO_MEMORY : COMPRESS_OK;
}

/* ---- none ---- */

static CompressResult
none_read(const uint8_t *in, size_t len, size_t limit, WireWriter *out)
{
	if (len > limit)
		return COMPRESS_TOO_LARGE;
	wire_put_bytes(out, in, len);
	return out->failed ? COMPRESS_NO_MEMORY : COMPRESS_OK;
}

static CompressResult
none_write(int level, const uint8_t *in, size_t len, WireWriter *out)
{
	(void) level;
	return none_read(in, len, SIZE_MAX, out);
}

typedef struct Codec
{
	const char *name;
	CompressResult (*read)(const uint8_t *in, size_t len, size_t limit, WireWriter *out);
	CompressResult (*write)(int level, const uint8_t *in, size_t len, WireWriter *out);
} Codec;

static const Codec codecs[] = {
	[COMPRESS_NONE] = {"none", none_read, none_write},
	[COMPRESS_GZIP] = {"gzip", gzip_read, gzip_write},
	[COMPRESS_SNAPPY] = {"snappy", snappy_read, snappy_write},
	[COMPRESS_LZ4] = {"lz4", lz4_read, lz4_write},
	[COMPRESS_ZSTD] = {"zstd", zstd_read, zstd_write},
};

#define N_CODECS ((int) (sizeof(codecs) / sizeof(codecs[0])))

const char *
compress_name(int codec)
{
	return codec >= 0 && codec < N_CODECS ? codecs[codec].name : NULL;
}

int
compress_by_name(const char *name, size_t len)
{
	for (int i = 0; i < N_CODECS; i++)
		if (strlen(codecs[i].name) == len && memcmp(codecs[i].name, name, len) == 0)
			return i;
	return -1;
}

CompressResult
compress_unpack(int codec, const void *in, size_t len, size_t limit, WireWriter *out)
{
	if (codec < 0 || codec >= N_CODECS)
		return COMPRESS_UNKNOWN;
	return codecs[codec].read(in, len, limit, out);
}

CompressResult
compress_pack(int codec, int level, const void *in, size_t len, WireWriter *out)
{
	if (codec < 0 || codec >= N_CODECS)
		return COMPRESS_UNKNOWN;
	return codecs[codec].write(level, in, len, out);
}
