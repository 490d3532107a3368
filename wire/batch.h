/*
 * batch.h: record batches of magic 2, the only kind that is served, where they lie in a buffer.
 *
 *      0  int64  base offset          of the first record; the others count from it
 *      8  int32  length               of what follows this field
 *     12  int32  leader epoch         of the partition when it was appended
 *     16  int8   magic                2
 *     17  uint32 CRC-32C              of everything from byte 21 to the end
 *     21  int16  attributes           bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control
 *     23  int32  last offset delta    last offset = base offset + this
 *     27  int64  base timestamp       milliseconds
 *     35  int64  max timestamp
 *     43  int64  producer id          -1 = not idempotent
 *     51  int16  producer epoch
 *     53  int32  base sequence        of the first record; wraps from INT32_MAX to 0
 *     57  int32  record count
 *     61  records, compressed as a whole or not at all
 *
 * A batch is a pointer to its first byte.  The getters and setters want at least 61 bytes there: batch_check
 * looks first.  Base offset and leader epoch lie outside of the CRC, so stamping them is free; the other
 * setters recompute it.  Nothing here keeps state; any thread may call these on its own batch.
 */
#ifndef WIRE_BATCH_H
#define WIRE_BATCH_H

#include "wire/bytes.h"
#include "wire/types.h"

#define BATCH_HEADER_SIZE 61
#define BATCH_FRAME_SIZE  12 /* base offset and length: what comes before the counted bytes */
#define BATCH_CRC_FROM    21

#define BATCH_CODEC_MASK      0x07
#define BATCH_LOG_APPEND_TIME 0x08
#define BATCH_TRANSACTIONAL   0x10
#define BATCH_CONTROL         0x20
#define BATCH_DELETE_HORIZON  0x40 /* base timestamp is when tombstones go (KIP-534) */

#define BATCH_NO_PRODUCER_ID ((int64_t) -1)
#define BATCH_NO_EPOCH       ((int16_t) -1)
#define BATCH_NO_SEQUENCE    ((int32_t) -1)

static inline int64_t
batch_base_offset(const uint8_t *b)
{
	return (int64_t) get_be64(b);
}

/* All bytes of the batch; computed from a field that may be anything before batch_check. */
static inline int64_t
batch_size(const uint8_t *b)
{
	return (int64_t) (int32_t) get_be32(b + 8) + BATCH_FRAME_SIZE;
}

static inline int32_t
batch_leader_epoch(const uint8_t *b)
{
	return (int32_t) get_be32(b + 12);
}

static inline int8_t
batch_magic(const uint8_t *b)
{
	return (int8_t) b[16];
}

static inline uint32_t
batch_crc(const uint8_t *b)
{
	return get_be32(b + 17);
}

static inline int16_t
batch_attributes(const uint8_t *b)
{
	return (int16_t) get_be16(b + 21);
}

static inline int32_t
batch_last_offset_delta(const uint8_t *b)
{
	return (int32_t) get_be32(b + 23);
}

static inline int64_t
batch_base_timestamp(const uint8_t *b)
{
	return (int64_t) get_be64(b + 27);
}

static inline int64_t
batch_max_timestamp(const uint8_t *b)
{
	return (int64_t) get_be64(b + 35);
}

static inline int64_t
batch_producer_id(const uint8_t *b)
{
	return (int64_t) get_be64(b + 43);
}

static inline int16_t
batch_producer_epoch(const uint8_t *b)
{
	return (int16_t) get_be16(b + 51);
}

static inline int32_t
batch_base_sequence(const uint8_t *b)
{
	return (int32_t) get_be32(b + 53);
}

static inline int32_t
batch_count(const uint8_t *b)
{
	return (int32_t) get_be32(b + 57);
}

/* Offsets of batches that nobody has checked yet may be anything: they wrap, as everywhere. */
static inline int64_t
batch_last_offset(const uint8_t *b)
{
	return (int64_t) ((uint64_t) batch_base_offset(b) + (uint64_t) batch_last_offset_delta(b));
}

static inline int64_t
batch_next_offset(const uint8_t *b)
{
	return (int64_t) ((uint64_t) batch_last_offset(b) + 1);
}

/* Sequences wrap: 2147483646 and three records end at 0. */
static inline int32_t
batch_add_sequence(int32_t sequence, int32_t n)
{
	return (int32_t) (((int64_t) sequence + n) & INT32_MAX);
}

static inline int32_t
batch_last_sequence(const uint8_t *b)
{
	return batch_base_sequence(b) == BATCH_NO_SEQUENCE
			   ? BATCH_NO_SEQUENCE
			   : batch_add_sequence(batch_base_sequence(b), batch_last_offset_delta(b));
}

static inline int
batch_codec(const uint8_t *b)
{
	return batch_attributes(b) & BATCH_CODEC_MASK;
}

static inline bool
batch_is_transactional(const uint8_t *b)
{
	return (batch_attributes(b) & BATCH_TRANSACTIONAL) != 0;
}

static inline bool
batch_is_control(const uint8_t *b)
{
	return (batch_attributes(b) & BATCH_CONTROL) != 0;
}

static inline bool
batch_has_producer(const uint8_t *b)
{
	return batch_producer_id(b) > BATCH_NO_PRODUCER_ID;
}

static inline void
batch_set_base_offset(uint8_t *b, int64_t offset)
{
	put_be64(b, (uint64_t) offset);
}

static inline void
batch_set_leader_epoch(uint8_t *b, int32_t epoch)
{
	put_be32(b + 12, (uint32_t) epoch);
}

/* What is wrong with a batch, in the order in which it is looked at. */
typedef enum BatchCheck
{
	BATCH_OK,
	BATCH_TRUNCATED, /* the buffer ends before the batch does */
	BATCH_BAD_MAGIC, /* not 2: an old message set, or no batch at all */
	BATCH_BAD_SIZE,  /* a length that no batch has */
	BATCH_BAD_COUNT, /* record count and last offset delta contradict each other */
	BATCH_BAD_CRC
} BatchCheck;

const char *batch_check_text(BatchCheck c); /* "the checksum does not match", for logs */

/*
 * Is a whole batch at `b`, of which `len` bytes are there?  The shape without the checksum: size, magic,
 * counts not negative, no more records than bytes.  Compaction leaves batches with fewer records than
 * offsets, or none; `as_produced` asks in addition for count = last offset delta + 1 > 0.
 */
BatchCheck batch_check(const uint8_t *b, size_t len, bool as_produced);
bool batch_crc_matches(const uint8_t *b);
void batch_set_crc(uint8_t *b);

/* LogAppendTime: sets the bit and the max timestamp, then the CRC. */
void batch_set_append_time(uint8_t *b, int64_t timestamp_ms);
/* The producer's part of the header, then the CRC. */
void batch_set_producer(uint8_t *b, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence);

#endif
