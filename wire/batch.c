#include "wire/batch.h"

#include "wire/crc32c.h"

const char *
batch_check_text(BatchCheck c)
{
	switch (c)
	{
		case BATCH_OK:
			return "the batch is well";
		case BATCH_TRUNCATED:
			return "the batch is cut off";
		case BATCH_BAD_MAGIC:
			return "the batch is not of magic 2";
		case BATCH_BAD_SIZE:
			return "the length of the batch is out of range";
		case BATCH_BAD_COUNT:
			return "the record count does not fit the offsets or the length of the batch";
		case BATCH_BAD_CRC:
			return "the checksum of the batch does not match";
	}
	return "unknown";
}

BatchCheck
batch_check(const uint8_t *b, size_t len, bool as_produced)
{
	int64_t size, payload;
	int32_t count, delta;

	/* Base offset, length, epoch and magic lie at the same place in every kind, so they can be told apart. */
	if (len < 17)
		return BATCH_TRUNCATED;
	size = batch_size(b);
	if (batch_magic(b) != 2)
		return BATCH_BAD_MAGIC;
	if (size < BATCH_HEADER_SIZE || size > INT32_MAX)
		return BATCH_BAD_SIZE;
	if ((uint64_t) size > len)
		return BATCH_TRUNCATED;
	count = batch_count(b);
	delta = batch_last_offset_delta(b);
	payload = size - BATCH_HEADER_SIZE;
	if (count < 0 || delta < 0 || (int64_t) count > (int64_t) delta + 1)
		return BATCH_BAD_COUNT;
	/* A record takes 7 bytes at least; compressed, no codec makes 2000 of 1. */
	if (batch_codec(b) == 0 && (int64_t) count * 7 > payload)
		return BATCH_BAD_COUNT;
	if (as_produced && (count == 0 || (int64_t) count != (int64_t) delta + 1))
		return BATCH_BAD_COUNT;
	return BATCH_OK;
}

static uint32_t
compute_crc(const uint8_t *b)
{
	return crc32c(0, b + BATCH_CRC_FROM, (size_t) batch_size(b) - BATCH_CRC_FROM);
}

bool
batch_crc_matches(const uint8_t *b)
{
	return compute_crc(b) == batch_crc(b);
}

void
batch_set_crc(uint8_t *b)
{
	put_be32(b + 17, compute_crc(b));
}

void
batch_set_append_time(uint8_t *b, int64_t timestamp_ms)
{
	put_be16(b + 21, (uint16_t) (batch_attributes(b) | BATCH_LOG_APPEND_TIME));
	put_be64(b + 35, (uint64_t) timestamp_ms);
	batch_set_crc(b);
}

void
batch_set_producer(uint8_t *b, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence)
{
	put_be64(b + 43, (uint64_t) producer_id);
	put_be16(b + 51, (uint16_t) producer_epoch);
	put_be32(b + 53, (uint32_t) base_sequence);
	batch_set_crc(b);
}
