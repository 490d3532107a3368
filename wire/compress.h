/*
 * compress.h: the four codecs of record batches, in the framings that Kafka's clients write.
 *
 *     gzip     a gzip member (several in a row are read as one)
 *     snappy   read: the block framing of snappy-java (16 bytes of header, then length and block) or one raw
 *              block; written: snappy-java's
 *     lz4      the LZ4 frame format; several frames in a row are read as one
 *     zstd     zstd frames, with or without the size inside
 *
 * Decompression appends to a writer and never makes more than `limit` bytes, whatever the input promises, so
 * a few KiB cannot fill the memory; what was appended before a failure stays in the writer and means
 * nothing.  No state is kept between calls, and any thread may call.
 */
#ifndef WIRE_COMPRESS_H
#define WIRE_COMPRESS_H

#include "wire/codec.h"

/* The low three bits of a batch's attributes. */
typedef enum CompressCodec
{
	COMPRESS_NONE = 0,
	COMPRESS_GZIP = 1,
	COMPRESS_SNAPPY = 2,
	COMPRESS_LZ4 = 3,
	COMPRESS_ZSTD = 4
} CompressCodec;

typedef enum CompressResult
{
	COMPRESS_OK,
	COMPRESS_UNKNOWN,   /* no such codec */
	COMPRESS_CORRUPT,   /* not what the codec writes, or cut off */
	COMPRESS_TOO_LARGE, /* it would become more than `limit` bytes */
	COMPRESS_NO_MEMORY
} CompressResult;

const char *compress_name(int codec); /* "none", "gzip", "snappy", "lz4", "zstd"; NULL for others */
int compress_by_name(const char *name, size_t len); /* -1: none of them */

CompressResult compress_unpack(int codec, const void *in, size_t len, size_t limit, WireWriter *out)
	__attribute__((warn_unused_result));

/* `level` < 0: the codec's own default; snappy has none. */
CompressResult compress_pack(int codec, int level, const void *in, size_t len, WireWriter *out)
	__attribute__((warn_unused_result));

#endif
