/*
 * producer_state.h: what a log knows of its producers (idempotence and transactions; Kafka: producer state
 * manager).  It owns its entries; loop thread only (recovery builds one before the loop sees the log).
 *
 * The state is that of the *appended* end.  Each change gives back an undo record, which the append keeps
 * until its bytes are in the file; a write that fails takes the changes back, newest first, so that the
 * batch that was lost is not "a duplicate" when the client sends it again (hazards A6).
 *
 * Sequences are int32 and wrap from INT32_MAX to 0.  The last five batches of a producer are kept.
 */
#ifndef BROKERD_STORAGE_PRODUCER_STATE_H
#define BROKERD_STORAGE_PRODUCER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#define PRODUCER_BATCHES 5

typedef struct ProducerBatch
{
	int32_t last_sequence;
	int32_t delta; /* last sequence - first sequence = last offset - first offset */
	int64_t last_offset;
	int64_t timestamp;
} ProducerBatch;

typedef struct ProducerEntry
{
	int64_t producer_id;
	int16_t epoch;
	int16_t nbatches; /* batches[0] is the oldest */
	int32_t coordinator_epoch;
	int64_t last_timestamp; /* of the records: what Kafka writes into the snapshot */
	int64_t last_seen_ms;   /* the broker's clock: expiry goes by it, as a client may send timestamp -1 */
	int64_t txn_start;      /* -1: none open */
	ProducerBatch batches[PRODUCER_BATCHES];
} ProducerEntry;

typedef enum ProducerOrigin
{
	PRODUCER_CLIENT,      /* everything is checked */
	PRODUCER_COORDINATOR, /* a marker written by this broker: epochs are checked */
	PRODUCER_REPLICATION  /* the leader has checked; recovery too */
} ProducerOrigin;

/* One batch with a producer id, as far as the state needs it. */
typedef struct ProducerAppend
{
	ProducerOrigin origin;
	int64_t producer_id;
	int16_t epoch;
	int32_t base_sequence;
	int32_t delta; /* last offset delta of the batch */
	int64_t base_offset;
	int64_t timestamp; /* max timestamp of the batch */
	int64_t now_ms;
	bool transactional;
	bool verified; /* the transaction's coordinator knows of it (KIP-890) */
	bool marker;   /* a control batch with an end-of-transaction marker */
	bool commit;
	int32_t coordinator_epoch;
} ProducerAppend;

typedef struct ProducerVerdict
{
	int16_t error;            /* a Kafka code, 0 = append it */
	const ProducerBatch *dup; /* with error 0: it is already there */
	const char *message;
} ProducerVerdict;

/* Pure: what to do with a batch, given what is known of its producer (NULL: nothing). */
ProducerVerdict producer_check(const ProducerEntry *entry, const ProducerAppend *a);

typedef struct AbortedTxn
{
	int64_t producer_id;
	int64_t first_offset;
	int64_t last_offset;
	int64_t last_stable_offset;
} AbortedTxn;

typedef struct ProducerState ProducerState;

typedef struct ProducerUndo
{
	struct ProducerUndo *next; /* the older change */
	bool existed;
	int64_t ended_txn;  /* first offset of the transaction that the marker ended, -1 none */
	int64_t opened_txn; /* first offset of the transaction that the batch opened, -1 none */
	bool aborted;       /* an entry of the transaction index went with it */
	ProducerEntry before;
} ProducerUndo;

ProducerState *producer_state_new(void);
void producer_state_free(ProducerState *s);
void producer_state_clear(ProducerState *s);

const ProducerEntry *producer_state_find(const ProducerState *s, int64_t producer_id);
int producer_state_count(const ProducerState *s);
/* Entries in no order: `*cursor` starts NULL. */
const ProducerEntry *producer_state_next(const ProducerState *s, void **cursor);

/*
 * Apply a batch that is being appended.  When it is the abort marker of a transaction with records in this
 * log, `*aborted` is filled and true is returned: the caller adds it to the transaction index.
 */
bool producer_state_apply(ProducerState *s, const ProducerAppend *a, ProducerUndo *undo, AbortedTxn *aborted);
void producer_state_undo(ProducerState *s, const ProducerUndo *undo);
/* From a snapshot or manifest. */
void producer_state_load(ProducerState *s, const ProducerEntry *e);

/* First offset that is not stable: of an open transaction, or of an ended one whose marker is at or beyond
 * the high watermark; INT64_MAX when there is none. */
int64_t producer_state_first_unstable(const ProducerState *s, int64_t high_watermark);
/* First offset of the oldest open transaction; INT64_MAX when there is none. */
int64_t producer_state_first_open(const ProducerState *s);
/* Ended transactions below the high watermark are stable for good. */
void producer_state_forget_ended(ProducerState *s, int64_t high_watermark);

/* Drops producers not seen for `expiration_ms` with no transaction open; returns when the next is due
 * (INT64_MAX: no producer is left). */
int64_t producer_state_expire(ProducerState *s, int64_t now_ms, int64_t expiration_ms);

/* Kafka's sequence arithmetic. */
int32_t producer_sequence_add(int32_t sequence, int32_t n);
int32_t producer_batch_first_sequence(const ProducerBatch *b);

#endif
