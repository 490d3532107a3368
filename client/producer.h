/*
 * producer.h: the producer's insides, shared by producer.c (messages into batches, reports) and producer_send.c
 * (batches to brokers and back).
 *
 *     pgb_produce -> ToTopic.waiting     until metadata say how many partitions there are
 *                 -> ToPart.first..last  batches in order; the last one may still be open
 *     in flight:  a prefix of them, at most MOST_IN_FLIGHT
 *     finished -> producer.done          until the reports are given
 *
 * Order and exactly-once.  A batch gets its sequence when it is first sent and keeps it over retries.  After a
 * failure the partition sends nothing (`hold`) until everything in flight has come back, then all again in order; the
 * broker knows the last five batches and answers a known one with its offset.  OUT_OF_ORDER_SEQUENCE_NUMBER for the
 * first batch of a partition proves that this batch is not in the log (one before it failed for good, or the broker
 * lost state): the partition goes on in a new epoch from sequence 0.
 */
#ifndef CLIENT_PRODUCER_H
#define CLIENT_PRODUCER_H

#include "client/client.h"
#include "wire/record.h"

#define MOST_IN_FLIGHT 5 /* what brokers remember of a producer in a partition */
#define NO_SEQUENCE    BATCH_NO_SEQUENCE

typedef struct ToPart ToPart;
typedef struct ToTopic ToTopic;

typedef struct Batch
{
	struct Batch *next;
	ToPart *part;
	WireWriter out;
	BatchBuilder bb;
	int32_t n;
	size_t bytes; /* of buffer.memory */
	int64_t created, deadline;
	int attempts;
	bool full, ended, in_flight;
	int32_t sequence;
	int16_t epoch;
	void **opaques; /* n of them, when reports are wanted */
	int32_t cap_opaques;
	int64_t offset; /* of the first, once done; -1 = unknown */
	pgb_error err;  /* once done; code 0 = delivered */
} Batch;

struct ToPart
{
	ToTopic *topic;
	int32_t index;
	bool active; /* in producer.active */
	bool hold;
	bool new_epoch; /* once nothing is in flight */
	int n_in_flight;
	Batch *first, *last;
	int64_t retry_at;
	int32_t next_sequence;
	int16_t epoch;
	Node *to; /* scratch of one turn: where its next batch could go now */
};

/* A message whose topic is not known yet; what it points to follows in the same piece of memory. */
typedef struct Waiting
{
	struct Waiting *next;
	pgb_message m;
	int64_t deadline;
	size_t bytes;
	pgb_error err;
} Waiting;

struct ToTopic
{
	Topic *meta;
	ToPart **parts;
	int32_t n;
	uint32_t next; /* round-robin */
	int32_t sticky;
	Waiting *first, *last;
	ToTopic *next_topic;
};

struct pgb_producer
{
	Client c;
	ToTopic *topics;
	ToTopic *recent; /* of the last message */
	ToPart **active; /* with batches */
	int32_t n_active, cap_active;
	int32_t turn; /* where the next turn begins, so that none starves */
	Batch *done_first, *done_last;
	Waiting *lost_first, *lost_last; /* failed without a partition */
	Batch *spare;                    /* with their memory */
	int n_spare;
	int64_t pending, failed;
	size_t bytes;
	size_t since_run;
	int64_t producer_id;
	bool id_asked;
	int64_t id_at;
	int id_failures;
	bool flushing, closing;
};

/* producer.c */
void producer_route_waiting(pgb_producer *p);
int producer_reports(pgb_producer *p);
void producer_finish(pgb_producer *p, Batch *b, int64_t offset, const pgb_error *err);

/* producer_split.c: false when it cannot be split; else `b` is gone, and new sequences are needed */
bool producer_split(pgb_producer *p, Batch *b);

/* producer_send.c */
void producer_step(Client *c);

#endif
