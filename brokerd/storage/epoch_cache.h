/*
 * epoch_cache.h: which leader epoch began at which offset in a log (Kafka: leader epoch file cache).
 *
 *     epoch 3 @ 0, epoch 5 @ 100, epoch 9 @ 250      (log end 300)
 *
 * Offsets 0..99 are of epoch 3, 100..249 of 5, 250..299 of 9.  Epoch 4 is unknown: its end is where the next
 * known one begins, that is (3, 100).  Owns its array; no thread of its own.
 */
#ifndef BROKERD_STORAGE_EPOCH_CACHE_H
#define BROKERD_STORAGE_EPOCH_CACHE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct EpochEntry
{
	int32_t epoch;
	int64_t start_offset;
} EpochEntry;

typedef struct EpochCache
{
	EpochEntry *e; /* both columns rise */
	int n;
	int cap;
} EpochCache;

void epoch_cache_free(EpochCache *c);
/* Batches of `epoch` begin at `start`; what contradicts it is dropped.  False: nothing changed. */
bool epoch_cache_assign(EpochCache *c, int32_t epoch, int64_t start);
int32_t epoch_cache_latest(const EpochCache *c);             /* -1: none */
int32_t epoch_cache_at(const EpochCache *c, int64_t offset); /* -1: none */
/* The largest known epoch <= `epoch` and where it ends; -1/-1: unknown. */
void epoch_cache_end(const EpochCache *c, int32_t epoch, int64_t log_end, int32_t *found, int64_t *end);
/* The log now ends at `end`: epochs that began at or beyond it go.  False: nothing changed. */
bool epoch_cache_truncate_end(EpochCache *c, int64_t end);
/* The log now begins at `start`: the epoch that covers it begins there. */
bool epoch_cache_truncate_start(EpochCache *c, int64_t start);

#endif
