#include "brokerd/api/refused.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "wire/errors.h"

enum
{
	MOST = 10000 /* about 1 MB; of more producers in a second the oldest are forgotten */
};

typedef struct RefusedKey
{
	uint64_t topic;
	int64_t producer_id;
	int32_t partition;
	int32_t none; /* no hole in the key */
} RefusedKey;

struct RefusedBatch
{
	RefusedKey key;
	int16_t epoch, error;
	int32_t sequence;
	int64_t until_ms;
	UT_hash_handle hh;
};

/* FNV-1a: two topics that are taken for one cost a producer of both a retry. */
uint64_t
refused_topic(WStr name, const WUuid *id)
{
	const uint8_t *p = name.len > 0 ? (const uint8_t *) name.s : id->b;
	size_t len = name.len > 0 ? (size_t) name.len : sizeof(id->b);
	uint64_t h = 14695981039346656037U;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 1099511628211U;
	return h;
}

static bool
passes_by_itself(int16_t error)
{
	switch (error)
	{
		case KERR_NOT_LEADER_OR_FOLLOWER:
		case KERR_NOT_ENOUGH_REPLICAS:
		case KERR_UNKNOWN_TOPIC_OR_PARTITION:
		case KERR_UNKNOWN_TOPIC_ID:
		case KERR_KAFKA_STORAGE_ERROR:
			return true;
		default:
			return false;
	}
}

static void
drop(Refused *r, RefusedBatch *e)
{
	HASH_DEL(r->by_key, e);
	free(e);
}

/* The hash begins with the oldest. */
static void
forget_old(Refused *r, int64_t now_ms)
{
	while (r->by_key != NULL && now_ms >= r->by_key->until_ms)
		drop(r, r->by_key);
}

static RefusedKey
key_of(const SentBatch *b)
{
	return (RefusedKey){.topic = b->topic, .producer_id = b->producer_id, .partition = b->partition};
}

int16_t
refused_behind(Refused *r, const SentBatch *b, int64_t now_ms)
{
	RefusedKey key = key_of(b);
	RefusedBatch *e;
	uint32_t ahead;

	if (b->producer_id < 0)
		return KERR_NONE;
	forget_old(r, now_ms);
	HASH_FIND(hh, r->by_key, &key, sizeof(key), e);
	if (e == NULL)
		return KERR_NONE;
	/* Sequences go round: behind INT32_MAX comes 0. */
	ahead = ((uint32_t) b->sequence - (uint32_t) e->sequence) & INT32_MAX;
	if (b->epoch == e->epoch && ahead > 0 && ahead <= INT32_MAX / 2)
		return e->error;
	/* It comes again, or begins a new epoch; an earlier one changes nothing. */
	if (b->epoch != e->epoch || ahead == 0)
		drop(r, e);
	return KERR_NONE;
}

void
refused_note(Refused *r, const SentBatch *b, int16_t error, int64_t now_ms)
{
	RefusedKey key = key_of(b);
	RefusedBatch *e;

	if (b->producer_id < 0 || !passes_by_itself(error))
		return;
	forget_old(r, now_ms);
	HASH_FIND(hh, r->by_key, &key, sizeof(key), e);
	/* The first of several is what has to come again. */
	if (e != NULL && e->epoch == b->epoch)
		return;
	if (e != NULL)
		drop(r, e);
	if (HASH_COUNT(r->by_key) >= MOST)
		drop(r, r->by_key);
	if ((e = malloc(sizeof(*e))) == NULL)
		return;
	*e = (RefusedBatch){.key = key,
						.epoch = b->epoch,
						.error = error,
						.sequence = b->sequence,
						.until_ms = now_ms + REFUSED_MS};
	HASH_ADD(hh, r->by_key, key, sizeof(e->key), e);
}

void
refused_free(Refused *r)
{
	while (r->by_key != NULL)
		drop(r, r->by_key);
}
