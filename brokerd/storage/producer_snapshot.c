#include "brokerd/storage/producer_snapshot.h"

#include <stdlib.h>

#include "wire/bytes.h"
#include "wire/crc32c.h"

#define HEADER   10
#define CRC_FROM 6
#define ENTRY    46

void *
producer_snapshot_encode(const ProducerState *s, size_t *len)
{
	int n = producer_state_count(s);
	uint8_t *data, *p;
	void *cursor = NULL;
	const ProducerEntry *e;

	*len = HEADER + (size_t) n * ENTRY;
	data = malloc(*len);
	put_be16(data, 1);
	put_be32(data + CRC_FROM, (uint32_t) n);
	p = data + HEADER;
	while ((e = producer_state_next(s, &cursor)) != NULL)
	{
		const ProducerBatch *b = e->nbatches > 0 ? &e->batches[e->nbatches - 1] : NULL;

		put_be64(p, (uint64_t) e->producer_id);
		put_be16(p + 8, (uint16_t) e->epoch);
		put_be32(p + 10, (uint32_t) (b == NULL ? -1 : b->last_sequence));
		put_be64(p + 14, (uint64_t) (b == NULL ? -1 : b->last_offset));
		put_be32(p + 22, (uint32_t) (b == NULL ? 0 : b->delta));
		put_be64(p + 26, (uint64_t) e->last_timestamp);
		put_be32(p + 34, (uint32_t) e->coordinator_epoch);
		put_be64(p + 38, (uint64_t) e->txn_start);
		p += ENTRY;
	}
	put_be32(data + 2, crc32c(0, data + CRC_FROM, *len - CRC_FROM));
	return data;
}

bool
producer_snapshot_decode(ProducerState *s, const void *data, size_t len, int64_t now)
{
	const uint8_t *p = data;
	int32_t n;

	if (len < HEADER || get_be16(p) != 1 || get_be32(p + 2) != crc32c(0, p + CRC_FROM, len - CRC_FROM))
		return false;
	n = (int32_t) get_be32(p + CRC_FROM);
	if (n < 0 || (size_t) n * ENTRY != len - HEADER)
		return false;
	p += HEADER;
	for (int32_t i = 0; i < n; i++, p += ENTRY)
	{
		ProducerEntry e = {.producer_id = (int64_t) get_be64(p),
						   .epoch = (int16_t) get_be16(p + 8),
						   .coordinator_epoch = (int32_t) get_be32(p + 34),
						   .last_timestamp = (int64_t) get_be64(p + 26),
						   .last_seen_ms = now,
						   .txn_start = (int64_t) get_be64(p + 38)};
		int64_t last_offset = (int64_t) get_be64(p + 14);

		if (last_offset >= 0)
			e.batches[e.nbatches++] = (ProducerBatch){.last_sequence = (int32_t) get_be32(p + 10),
													  .delta = (int32_t) get_be32(p + 22),
													  .last_offset = last_offset,
													  .timestamp = e.last_timestamp};
		producer_state_load(s, &e);
	}
	return true;
}
