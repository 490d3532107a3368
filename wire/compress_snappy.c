/*
 * compress_snappy.c: snappy in the framing of snappy-java, which is what Kafka's clients mean by "snappy":
 *
 *     82 'S' 'N' 'A' 'P' 'P' 'Y' 00 | int32 version | int32 compatible version | { int32 length | block } ...
 *
 * Some clients (older sarama, kafka-python without framing) write one raw block instead.
 */
#include "wire/compress_internal.h"

#include <snappy-c.h>
#include <string.h>

#include "wire/bytes.h"

#define HEADER_SIZE 16
#define BLOCK_SIZE  ((size_t) 32 * 1024) /* uncompressed; what snappy-java's stream does by default */

static const uint8_t magic[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};

static CompressResult
read_block(const uint8_t *in, size_t len, size_t limit, WireWriter *out)
{
	size_t size;
	uint8_t *p;

	if (snappy_uncompressed_length((const char *) in, len, &size) != SNAPPY_OK)
		return COMPRESS_CORRUPT;
	if (size > limit)
		return COMPRESS_TOO_LARGE;
	/* A promised size that the input cannot reach (64 bytes are made of 3 at best) is a lie. */
	if (size / 32 > len)
		return COMPRESS_CORRUPT;
	p = wire_put_room(out, size);
	if (p == NULL)
		return COMPRESS_NO_MEMORY;
	if (snappy_uncompress((const char *) in, len, (char *) p, &size) != SNAPPY_OK)
		return COMPRESS_CORRUPT;
	return COMPRESS_OK;
}

CompressResult
snappy_read(const uint8_t *in, size_t len, size_t limit, WireWriter *out)
{
	const uint8_t *end = in + len;
	size_t from = out->len;

	if (len < sizeof(magic) || memcmp(in, magic, sizeof(magic)) != 0)
		return read_block(in, len, limit, out);
	if (len < HEADER_SIZE)
		return COMPRESS_CORRUPT;
	in += HEADER_SIZE;
	while (in < end)
	{
		CompressResult r;
		size_t size;

		if (end - in < 4)
			return COMPRESS_CORRUPT;
		size = get_be32(in);
		in += 4;
		if (size > (size_t) (end - in))
			return COMPRESS_CORRUPT;
		r = read_block(in, size, limit - (out->len - from), out);
		if (r != COMPRESS_OK)
			return r;
		in += size;
	}
	return COMPRESS_OK;
}

CompressResult
snappy_write(int level, const uint8_t *in, size_t len, WireWriter *out)
{
	uint8_t header[HEADER_SIZE];

	(void) level;
	memcpy(header, magic, sizeof(magic));
	put_be32(header + 8, 1);
	put_be32(header + 12, 1);
	wire_put_bytes(out, header, sizeof(header));
	while (len > 0)
	{
		size_t n = len < BLOCK_SIZE ? len : BLOCK_SIZE;
		size_t bound = snappy_max_compressed_length(n), size = bound;
		uint8_t *p = wire_put_room(out, bound + 4);

		if (p == NULL || snappy_compress((const char *) in, n, (char *) p + 4, &size) != SNAPPY_OK)
			return COMPRESS_NO_MEMORY;
		put_be32(p, (uint32_t) size);
		out->len -= bound - size;
		in += n;
		len -= n;
	}
	return out->failed ? COMPRESS_NO_MEMORY : COMPRESS_OK;
}
