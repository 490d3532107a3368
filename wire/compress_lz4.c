/*
 * compress_lz4.c: the LZ4 frame format.  Batches of magic 2 always have the standard header checksum (the
 * wrong one of very old clients belongs to magic 0 and 1), so liblz4 reads them as they are.
 */
#include "wire/compress_internal.h"

#include <lz4frame.h>

static CompressResult
read_frames(LZ4F_dctx *z, const uint8_t *in, size_t len, size_t limit, WireWriter *out)
{
	size_t from = out->len;
	size_t rc = 1;

	while (len > 0 || rc != 0)
	{
		uint8_t over, *p = &over;
		bool at_limit = out->len - from >= limit;
		size_t room = 1, made, taken = len;
		CompressResult why;

		if (!at_limit && !output_next(out, from, limit, OUTPUT_STEP, &p, &room, &why))
			return why;
		made = room;
		rc = LZ4F_decompress(z, p, &made, in, &taken, NULL);
		if (at_limit && made > 0 && !LZ4F_isError(rc))
			return COMPRESS_TOO_LARGE;
		if (!at_limit)
			out->len -= LZ4F_isError(rc) ? room : room - made;
		if (LZ4F_isError(rc) || (rc != 0 && taken == 0 && made == 0))
			return COMPRESS_CORRUPT;
		in += taken;
		len -= taken;
	}
	return COMPRESS_OK;
}

CompressResult
lz4_read(const uint8_t *in, size_t len, size_t limit, WireWriter *out)
{
	LZ4F_dctx *z;
	CompressResult r;

	if (LZ4F_isError(LZ4F_createDecompressionContext(&z, LZ4F_VERSION)))
		return COMPRESS_NO_MEMORY;
	r = read_frames(z, in, len, limit, out);
	(void) LZ4F_freeDecompressionContext(z);
	return r;
}

CompressResult
lz4_write(int level, const uint8_t *in, size_t len, WireWriter *out)
{
	/* Blocks of 64 KiB that stand alone: some clients read no others. */
	LZ4F_preferences_t prefs = {
		.frameInfo = {.blockSizeID = LZ4F_max64KB, .blockMode = LZ4F_blockIndependent},
		.compressionLevel = level < 0 ? 0 : level,
	};
	size_t bound = LZ4F_compressFrameBound(len, &prefs);
	uint8_t *p = wire_put_room(out, bound);
	size_t n;

	if (p == NULL)
		return COMPRESS_NO_MEMORY;
	n = LZ4F_compressFrame(p, bound, in, len, &prefs);
	out->len -= LZ4F_isError(n) ? bound : bound - n;
	return LZ4F_isError(n) ? COMPRESS_NO_MEMORY : COMPRESS_OK;
}
