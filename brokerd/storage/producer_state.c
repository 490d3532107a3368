#include "brokerd/storage/producer_state.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "wire/errors.h"

typedef struct ProducerNode
{
	ProducerEntry e; /* keyed by e.producer_id */
	UT_hash_handle hh;
} ProducerNode;

typedef struct EndedTxn
{
	int64_t first_offset;
	int64_t last_offset; /* of the marker */
} EndedTxn;

typedef struct OpenTxn
{
	int64_t first_offset;
	int64_t producer_id;
} OpenTxn;

/* Both lists are short (one entry a transaction in flight) and sorted by first offset. */
struct ProducerState
{
	ProducerNode *map;
	OpenTxn *open;
	int nopen;
	int open_cap;
	EndedTxn *ended;
	int nended;
	int ended_cap;
};

int32_t
producer_sequence_add(int32_t sequence, int32_t n)
{
	if (sequence > INT32_MAX - n)
		return n - (INT32_MAX - sequence) - 1;
	return sequence + n;
}

int32_t
producer_batch_first_sequence(const ProducerBatch *b)
{
	if (b->last_sequence < b->delta)
		return INT32_MAX - (b->delta - b->last_sequence) + 1;
	return b->last_sequence - b->delta;
}

static ProducerVerdict
verdict(int16_t error, const char *message)
{
	return (ProducerVerdict){.error = error, .message = message};
}

static const ProducerBatch *
find_duplicate(const ProducerEntry *e, const ProducerAppend *a)
{
	int32_t last = producer_sequence_add(a->base_sequence, a->delta);

	if (a->epoch != e->epoch)
		return NULL;
	for (int i = 0; i < e->nbatches; i++)
	{
		const ProducerBatch *b = &e->batches[i];

		if (b->last_sequence == last && producer_batch_first_sequence(b) == a->base_sequence)
			return b;
	}
	return NULL;
}

static ProducerVerdict
check_sequence(const ProducerEntry *e, const ProducerAppend *a)
{
	if (a->epoch != e->epoch)
	{
		/* An epoch known only from a marker or from nothing takes any start. */
		if (a->base_sequence != 0 && e->epoch != -1)
			return verdict(KERR_OUT_OF_ORDER_SEQUENCE_NUMBER, "a new producer epoch starts at sequence 0");
	}
	else
	{
		int32_t last = e->nbatches > 0 ? e->batches[e->nbatches - 1].last_sequence : -1;

		if (a->base_sequence != (last == INT32_MAX ? 0 : last + 1))
			return verdict(KERR_OUT_OF_ORDER_SEQUENCE_NUMBER, "the sequence does not follow the last one");
	}
	return verdict(KERR_NONE, NULL);
}

ProducerVerdict
producer_check(const ProducerEntry *e, const ProducerAppend *a)
{
	ProducerVerdict v = {0};

	if (a->origin == PRODUCER_REPLICATION)
		return v;
	if (a->origin == PRODUCER_CLIENT && e != NULL && (v.dup = find_duplicate(e, a)) != NULL)
		return v;
	if (a->transactional && !a->marker && (e == NULL || e->txn_start < 0) && !a->verified)
		return verdict(KERR_INVALID_TXN_STATE, "the transaction is not known to its coordinator");
	if (e == NULL)
		return v;
	if (a->epoch < e->epoch)
		return verdict(KERR_INVALID_PRODUCER_EPOCH, "a younger instance of this producer has taken over");
	if (a->marker)
		return a->coordinator_epoch < e->coordinator_epoch
				   ? verdict(KERR_TRANSACTION_COORDINATOR_FENCED, "a younger coordinator has written here")
				   : v;
	if (a->origin == PRODUCER_CLIENT)
		v = check_sequence(e, a);
	if (v.error == KERR_NONE && e->txn_start >= 0 && !a->transactional)
		return verdict(KERR_INVALID_TXN_STATE, "a transaction of this producer is open in the partition");
	return v;
}

ProducerState *
producer_state_new(void)
{
	return calloc(1, sizeof(ProducerState));
}

void
producer_state_clear(ProducerState *s)
{
	ProducerNode *n, *tmp;

	HASH_ITER (hh, s->map, n, tmp)
	{
		HASH_DEL(s->map, n);
		free(n);
	}
	s->nopen = s->nended = 0;
}

void
producer_state_free(ProducerState *s)
{
	if (s == NULL)
		return;
	producer_state_clear(s);
	free(s->open);
	free(s->ended);
	free(s);
}

static ProducerNode *
find_node(const ProducerState *s, int64_t producer_id)
{
	ProducerNode *n = NULL;

	HASH_FIND(hh, s->map, &producer_id, sizeof(producer_id), n);
	return n;
}

const ProducerEntry *
producer_state_find(const ProducerState *s, int64_t producer_id)
{
	ProducerNode *n = s == NULL ? NULL : find_node(s, producer_id);

	return n == NULL ? NULL : &n->e;
}

int
producer_state_count(const ProducerState *s)
{
	return s == NULL ? 0 : (int) HASH_COUNT(s->map);
}

const ProducerEntry *
producer_state_next(const ProducerState *s, void **cursor)
{
	ProducerNode *n;

	if (s == NULL)
		return NULL;
	n = *cursor == NULL ? s->map : (ProducerNode *) ((ProducerNode *) *cursor)->hh.next;
	*cursor = n;
	return n == NULL ? NULL : &n->e;
}

static ProducerNode *
get_node(ProducerState *s, int64_t producer_id)
{
	ProducerNode *n = find_node(s, producer_id);

	if (n == NULL)
	{
		n = calloc(1, sizeof(*n));
		n->e = (ProducerEntry){.producer_id = producer_id,
							   .epoch = -1,
							   .coordinator_epoch = -1,
							   .last_timestamp = -1,
							   .txn_start = -1};
		HASH_ADD(hh, s->map, e.producer_id, sizeof(n->e.producer_id), n);
	}
	return n;
}

static void
open_insert(ProducerState *s, int64_t first_offset, int64_t producer_id)
{
	int i = s->nopen;

	if (s->nopen == s->open_cap)
	{
		s->open_cap = s->open_cap ? s->open_cap * 2 : 4;
		s->open = realloc(s->open, sizeof(*s->open) * (size_t) s->open_cap);
	}
	for (; i > 0 && s->open[i - 1].first_offset > first_offset; i--)
		s->open[i] = s->open[i - 1];
	s->open[i] = (OpenTxn){first_offset, producer_id};
	s->nopen++;
}

static void
open_remove(ProducerState *s, int64_t first_offset)
{
	int i = 0;

	while (i < s->nopen && s->open[i].first_offset != first_offset)
		i++;
	if (i == s->nopen)
		return;
	memmove(&s->open[i], &s->open[i + 1], sizeof(*s->open) * (size_t) (s->nopen - i - 1));
	s->nopen--;
}

static void
ended_insert(ProducerState *s, int64_t first_offset, int64_t last_offset)
{
	int i = s->nended;

	if (s->nended == s->ended_cap)
	{
		s->ended_cap = s->ended_cap ? s->ended_cap * 2 : 4;
		s->ended = realloc(s->ended, sizeof(*s->ended) * (size_t) s->ended_cap);
	}
	for (; i > 0 && s->ended[i - 1].first_offset > first_offset; i--)
		s->ended[i] = s->ended[i - 1];
	s->ended[i] = (EndedTxn){first_offset, last_offset};
	s->nended++;
}

static void
ended_remove(ProducerState *s, int64_t first_offset)
{
	int i = 0;

	while (i < s->nended && s->ended[i].first_offset != first_offset)
		i++;
	if (i == s->nended)
		return;
	memmove(&s->ended[i], &s->ended[i + 1], sizeof(*s->ended) * (size_t) (s->nended - i - 1));
	s->nended--;
}

static void
set_epoch(ProducerEntry *e, int16_t epoch)
{
	if (e->epoch != epoch)
	{
		e->epoch = epoch;
		e->nbatches = 0;
	}
}

static void
add_batch(ProducerEntry *e, const ProducerAppend *a)
{
	if (e->nbatches == PRODUCER_BATCHES)
	{
		memmove(&e->batches[0], &e->batches[1], sizeof(e->batches[0]) * (PRODUCER_BATCHES - 1));
		e->nbatches--;
	}
	e->batches[e->nbatches++] =
		(ProducerBatch){.last_sequence = producer_sequence_add(a->base_sequence, a->delta),
						.delta = a->delta,
						.last_offset = a->base_offset + a->delta,
						.timestamp = a->timestamp};
}

/* What readers of committed records may see once this transaction has ended. */
static int64_t
stable_after(const ProducerState *s, int64_t producer_id, int64_t marker_offset)
{
	for (int i = 0; i < s->nopen; i++)
		if (s->open[i].producer_id != producer_id)
			return s->open[i].first_offset;
	return marker_offset + 1;
}

static bool
apply_marker(ProducerState *s, ProducerEntry *e, const ProducerAppend *a, ProducerUndo *undo,
			 AbortedTxn *aborted)
{
	int64_t first = e->txn_start;

	set_epoch(e, a->epoch);
	e->coordinator_epoch = a->coordinator_epoch;
	e->txn_start = -1;
	if (first < 0)
		return false; /* no record of the transaction in this log: nothing becomes visible or hidden */
	undo->ended_txn = first;
	if (!a->commit)
		*aborted = (AbortedTxn){.producer_id = a->producer_id,
								.first_offset = first,
								.last_offset = a->base_offset,
								.last_stable_offset = stable_after(s, a->producer_id, a->base_offset)};
	undo->aborted = !a->commit;
	open_remove(s, first);
	ended_insert(s, first, a->base_offset);
	return !a->commit;
}

bool
producer_state_apply(ProducerState *s, const ProducerAppend *a, ProducerUndo *undo, AbortedTxn *aborted)
{
	ProducerNode *n = find_node(s, a->producer_id);
	ProducerEntry *e;
	bool is_abort = false;

	*undo = (ProducerUndo){.existed = n != NULL, .ended_txn = -1, .opened_txn = -1};
	n = get_node(s, a->producer_id);
	e = &n->e;
	undo->before = *e;
	if (a->marker)
		is_abort = apply_marker(s, e, a, undo, aborted);
	else
	{
		set_epoch(e, a->epoch);
		add_batch(e, a);
		if (a->transactional && e->txn_start < 0)
		{
			e->txn_start = a->base_offset;
			undo->opened_txn = a->base_offset;
			open_insert(s, a->base_offset, a->producer_id);
		}
	}
	e->last_timestamp = a->timestamp;
	e->last_seen_ms = a->now_ms;
	return is_abort;
}

void
producer_state_undo(ProducerState *s, const ProducerUndo *undo)
{
	int64_t producer_id = undo->before.producer_id;
	ProducerNode *n = find_node(s, producer_id);

	if (undo->opened_txn >= 0)
		open_remove(s, undo->opened_txn);
	if (undo->ended_txn >= 0)
	{
		ended_remove(s, undo->ended_txn);
		open_insert(s, undo->ended_txn, producer_id);
	}
	if (n == NULL)
		return;
	if (undo->existed)
		n->e = undo->before;
	else
	{
		HASH_DEL(s->map, n);
		free(n);
	}
}

void
producer_state_load(ProducerState *s, const ProducerEntry *e)
{
	ProducerNode *n = get_node(s, e->producer_id);

	if (n->e.txn_start >= 0)
		open_remove(s, n->e.txn_start);
	n->e = *e;
	if (e->txn_start >= 0)
		open_insert(s, e->txn_start, e->producer_id);
}

int64_t
producer_state_first_open(const ProducerState *s)
{
	return s != NULL && s->nopen > 0 ? s->open[0].first_offset : INT64_MAX;
}

int64_t
producer_state_first_unstable(const ProducerState *s, int64_t high_watermark)
{
	int64_t first = producer_state_first_open(s);

	for (int i = 0; s != NULL && i < s->nended; i++)
		if (s->ended[i].last_offset >= high_watermark && s->ended[i].first_offset < first)
			first = s->ended[i].first_offset;
	return first;
}

void
producer_state_forget_ended(ProducerState *s, int64_t high_watermark)
{
	int kept = 0;

	for (int i = 0; i < s->nended; i++)
		if (s->ended[i].last_offset >= high_watermark)
			s->ended[kept++] = s->ended[i];
	s->nended = kept;
}

int64_t
producer_state_expire(ProducerState *s, int64_t now_ms, int64_t expiration_ms)
{
	ProducerNode *n, *tmp;
	int64_t next = INT64_MAX;

	HASH_ITER (hh, s->map, n, tmp)
	{
		int64_t due =
			n->e.last_seen_ms > INT64_MAX - expiration_ms ? INT64_MAX : n->e.last_seen_ms + expiration_ms;

		if (due <= now_ms && n->e.txn_start < 0)
		{
			HASH_DEL(s->map, n);
			free(n);
		}
		else if (due < next)
			next = due < now_ms ? now_ms + expiration_ms : due;
	}
	return next;
}
