/*
 * producer.h: the producer's insides, shared by producer.c (the calls of pgbroker.h), producer_batch.c (messages into
 * batches) and producer_send.c (batches to brokers and back).
 *
 *     pgb_produce -> ToPart.batches  in order; the last one may still be open
 *     in flight:  a prefix of them, at most MOST_IN_FLIGHT; sent since the first of them: no more than that
 *     finished -> producer.done      until the reports are given
 *
 * Until metadata say how many partitions a topic has its messages are in batches of ToTopic.waiting, one for each
 * partition that was asked for.  Then they are moved to where they belong.
 *
 * Order and exactly-once.  A batch gets its sequence when it is first sent and keeps it over retries.  After a
 * failure the partition sends nothing (`hold`) until everything in flight has come back, then all again in order; the
 * broker knows the last five batches and answers a known one with its offset.  A former leader may leave one without an
 * answer while its successor has it and takes what follows: no more of that is sent than the successor remembers.
 *
 * OUT_OF_ORDER_SEQUENCE_NUMBER for the first batch of a partition proves that this batch is not in the log (one before
 * it failed for good, or the broker lost state): the partition goes on in a new epoch from sequence 0.  Until a batch
 * of an epoch is acknowledged there is one in flight only: a broker that knows nothing of the producer takes any
 * sequence for the first, even when it just refused the one before (it is not quite the leader yet).
 */
#ifndef CLIENT_PRODUCER_H
#define CLIENT_PRODUCER_H

#include "client/client.h"
#include "wire/record.h"

#define MOST_IN_FLIGHT 5  /* what brokers remember of a producer in a partition */
#define RECORD_MORE    64 /* of a record besides its bytes, at most; a header adds HEADER_MORE */
#define HEADER_MORE    20

typedef struct ToPart ToPart;
typedef struct ToTopic ToTopic;

typedef struct Batch
{
	Ask ask; /* has a call while it is in flight; index of waiting ones: what was asked for, may be PGB_ANY_PARTITION */
	struct Batch *prev, *next;
	ToPart *part;
	WireWriter out;
	BatchBuilder bb;
	uint32_t number; /* of those of the partition that have a sequence */
	int32_t n;
	int32_t moved; /* the first so many went to other batches */
	size_t bytes;  /* of buffer.memory */
	int64_t created, deadline;
	bool full, ended;
	void **opaques; /* n of them, when reports are wanted */
	int64_t offset; /* of the first, once done; -1 = unknown */
	pgb_error err;  /* once done; code 0 = delivered */
} Batch;

struct ToPart
{
	ToPart *prev, *next; /* in producer.active, with batches only */
	ToTopic *topic;
	int32_t index;
	bool hold;
	bool new_epoch; /* once nothing is in flight */
	bool known;     /* the broker has a batch of this epoch */
	int n_in_flight;
	Batch *batches;
	Retry retry;
	int32_t next_sequence;
	uint32_t next_number;
	int16_t epoch;
	Node *to; /* scratch of one turn: where its next batch could go now */
};

struct ToTopic
{
	Topic meta;
	ToPart **parts;
	int32_t n;
	uint32_t next; /* round-robin */
	int32_t sticky;
	ToPart waiting;
};

/* A message in the words of the wire. */
typedef struct Message
{
	int64_t timestamp;
	WBytes key, value;
	RecordHeader *headers;
	int32_t n_headers;
	void *opaque;
	size_t size;      /* at most, in a batch */
	int64_t deadline; /* 0: delivery.timeout.ms from now */
} Message;

struct pgb_producer
{
	Client c;
	ToTopic *recent; /* of the last message */
	ToPart *active;  /* turns around, so that none starves */
	Batch *done;
	Batch *spare; /* with their memory */
	int n_spare;
	int64_t pending;
	size_t bytes;
	size_t since_run;
	int64_t producer_id;
	Retry id;
	bool flushing, closing;
};

/* producer.c */
int producer_reports(pgb_producer *p);
void producer_finish(pgb_producer *p, Batch *b, int64_t offset, const pgb_error *err);

/* producer_batch.c */
ToTopic *producer_topic(pgb_producer *p, const char *name); /* NULL: no memory */

/* Into a batch of the partition that it is for.  1: one is full now. */
int producer_put(pgb_producer *p, ToTopic *t, int32_t partition, const Message *m, pgb_error *err);
void producer_place(pgb_producer *p, ToTopic *t); /* what waited for metadata */
bool producer_split(pgb_producer *p,
					Batch *b); /* false: it cannot be; else `b` is gone, new sequences are needed */
void producer_free_batch(pgb_producer *p, Batch *b);

/* producer_send.c */
void producer_step(void *handle);

#endif
