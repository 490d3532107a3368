/*
 * refused.h: what comes behind a batch that was refused for a moment is refused alike.
 *
 * An idempotent producer has several batches under way.  When the first finds a broker that is not the leader yet, or too
 * few replicas, and the next one comes a moment later, when that is over, it cannot be taken as if nothing was missing:
 *
 *     sequence 7   NOT_ENOUGH_REPLICAS
 *     sequence 8   OUT_OF_ORDER_SEQUENCE_NUMBER: librdkafka begins a new epoch for it, in all partitions, and writes what
 *                  it had no answer for a second time; or, of a producer that the log does not know yet, it is
 *                  written, and 7 can never be
 *
 * So 8 hears what 7 heard, until 7 is here again or a second is over: longer than any client waits before it sends
 * again.  Loop thread only; a zeroed Refused is an empty one.
 */
#ifndef BROKERD_API_REFUSED_H
#define BROKERD_API_REFUSED_H

#include <stdint.h>

#include "wire/types.h"

#define REFUSED_MS 1000

typedef struct RefusedBatch RefusedBatch;

typedef struct Refused
{
	RefusedBatch *by_key; /* NULL: none */
} Refused;

/* Which batch it is; `topic` is whatever the request says of it, name or id, as one number (refused_topic). */
typedef struct SentBatch
{
	uint64_t topic;
	int32_t partition;
	int64_t producer_id; /* below 0: of no idempotent producer, never refused here */
	int16_t epoch;
	int32_t sequence;
} SentBatch;

uint64_t refused_topic(WStr name, const WUuid *id);

/* KERR_NONE, or the error of the one before it. */
int16_t refused_behind(Refused *r, const SentBatch *b, int64_t now_ms);

/* The batch gets `error`.  Only of those that pass by themselves something is kept. */
void refused_note(Refused *r, const SentBatch *b, int16_t error, int64_t now_ms);
void refused_free(Refused *r);

#endif
