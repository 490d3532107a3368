/*
 * compact_batch.h: what compaction leaves of one batch.  Pure.
 *
 *     offsets   10 11 12 13        base 10, last offset delta 3, 4 records
 *     keys       a  b  a  c
 *
 * with a newer `a` and a newer `b` behind it becomes
 *
 *     offsets            13        base 10, last offset delta 3, 1 record
 *     keys                c
 *
 * Base offset, last offset delta, leader epoch, producer and sequence stay, so offsets and sequences mean what they
 * meant; the codec stays; the max timestamp is that of the records that stay.  What loses nothing is kept byte for
 * byte.  Tombstones (null values) that become the newest of their key get a delete horizon in their batch (KIP-534):
 * attribute bit 6, and the time in the field of the base timestamp, from which the records' times then count.
 *
 * Never touched: control batches.  Records of transactional batches go when a newer record takes their place, but
 * take nobody's place themselves: whether they were committed is not known here.
 */
#ifndef BROKERD_STORAGE_COMPACT_BATCH_H
#define BROKERD_STORAGE_COMPACT_BATCH_H

#include "brokerd/storage/compact_map.h"
#include "wire/codec.h"

typedef enum CompactOutcome
{
	COMPACT_KEPT,    /* as it is */
	COMPACT_CHANGED, /* what is left of it is in `out` */
	COMPACT_DROPPED,
	COMPACT_BAD,      /* it cannot be read, or is not what it says */
	COMPACT_NO_MEMORY /* or no hash */
} CompactOutcome;

typedef struct CompactFilter
{
	CompactMap *map;
	int64_t map_end;             /* batches that begin here or beyond are kept: the map does not know them */
	int64_t now_ms;              /* of the whole pass */
	int64_t delete_retention_ms; /* delete.retention.ms */
	WireWriter scratch;          /* decompressed records; wire_writer_init() */
	WireWriter packed;
	bool *stays; /* of the batch's records, as the look at them before anything is written has found */
	int32_t stays_cap;
	/* counted up */
	int64_t records;
	int64_t kept;
	int64_t keyless;    /* dropped: nothing could ever take their place */
	int64_t horizon_ms; /* least of the tombstones that stay; INT64_MAX none */
} CompactFilter;

/* A batch that batch_check and its CRC found well goes into the map.  COMPACT_KEPT: it is; COMPACT_DROPPED: the map is
 * full, and nothing of it was added. */
CompactOutcome compact_batch_add(CompactFilter *f, const uint8_t *batch) __attribute__((warn_unused_result));
/* `keep_empty`: the batch stays, without records if need be.  `out` is appended to with COMPACT_CHANGED only. */
CompactOutcome compact_batch_filter(CompactFilter *f, const uint8_t *batch, bool keep_empty, WireWriter *out)
	__attribute__((warn_unused_result));

void compact_filter_init(CompactFilter *f);
void compact_filter_free(CompactFilter *f); /* not the map */

#endif
