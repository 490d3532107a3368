/*
 * fuzz_batch.c: record batches one after another, as a client or a file gives them: checked, decompressed
 * (at most 1 MiB), every record and header walked, as a transaction marker, too.
 */
#include "wire/crc32c.h"
#include "wire/record.h"

#include <stdlib.h>

#define LIMIT ((size_t) 1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static volatile uint32_t sink;

/* Look at every byte that a slice covers. */
static void
touch(const void *p, int32_t len)
{
	if (len > 0)
		sink ^= crc32c(0, p, (size_t) len);
}

static void
walk(const uint8_t *batch)
{
	WireWriter scratch;
	RecordIter it;
	Record rec;

	wire_writer_init(&scratch);
	if (batch_records(batch, LIMIT, &scratch, &it) == COMPRESS_OK)
	{
		if (scratch.len > LIMIT)
			abort();
		while (record_next(&it, &rec))
		{
			const uint8_t *at = rec.headers;
			RecordHeader h;
			int32_t n = 0;

			touch(rec.key.p, rec.key.len);
			touch(rec.value.p, rec.value.len);
			for (; record_header_next(&rec, &at, &h); n++)
			{
				touch(h.key.s, h.key.len);
				touch(h.value.p, h.value.len);
			}
			if (n != rec.n_headers)
				abort();
		}
	}
	wire_writer_free(&scratch);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	TxnMarker marker;

	while (batch_check(data, len, false) == BATCH_OK)
	{
		size_t size = (size_t) batch_size(data);

		sink ^= (uint32_t) batch_crc_matches(data);
		sink ^= (uint32_t) batch_next_offset(data) ^ (uint32_t) batch_last_sequence(data);
		sink ^= (uint32_t) batch_read_marker(data, &marker);
		walk(data);
		data += size;
		len -= size;
	}
	return 0;
}
