/*
 * producer_snapshot.h: Kafka's OFFSET.snapshot files, format version 1.
 *
 *     int16 version = 1, uint32 CRC-32C of all that follows, int32 count, then for each producer: int64 id,
 *     int16 epoch, int32 last sequence, int64 last offset, int32 offset delta, int64 timestamp, int32
 *     coordinator epoch, int64 first offset of the open transaction or -1
 *
 * The file holds a producer's last batch only; the others come back when the log behind it is read.
 */
#ifndef BROKERD_STORAGE_PRODUCER_SNAPSHOT_H
#define BROKERD_STORAGE_PRODUCER_SNAPSHOT_H

#include <stddef.h>

#include "brokerd/storage/producer_state.h"

void *producer_snapshot_encode(const ProducerState *s, size_t *len); /* malloc'ed; NULL state is empty */
/* False: damaged, or of a version that is not known here; the state is then unchanged. */
bool producer_snapshot_decode(ProducerState *s, const void *data, size_t len, int64_t now_ms);

#endif
