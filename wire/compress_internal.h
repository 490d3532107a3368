/*
 * compress_internal.h: between compress.c and the files of the single codecs.
 */
#ifndef WIRE_COMPRESS_INTERNAL_H
#define WIRE_COMPRESS_INTERNAL_H

#include "wire/compress.h"

#define OUTPUT_STEP ((size_t) 64 * 1024)

/*
 * Room for the next piece of output, at most `want` bytes and never beyond `limit` bytes counted from
 * out->len == `from`.  The caller gives back what it did not use by lowering out->len.
 */
bool output_next(WireWriter *out, size_t from, size_t limit, size_t want, uint8_t **p, size_t *room,
				 CompressResult *why);

CompressResult snappy_read(const uint8_t *in, size_t len, size_t limit, WireWriter *out);
CompressResult snappy_write(int level, const uint8_t *in, size_t len, WireWriter *out);
CompressResult lz4_read(const uint8_t *in, size_t len, size_t limit, WireWriter *out);
CompressResult lz4_write(int level, const uint8_t *in, size_t len, WireWriter *out);

#endif
