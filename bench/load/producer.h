/*
 * producer.h: producers under load, each an instance of librdkafka with a thread of its own.
 *
 *     producers_init(&ps, settings, stamped)     makes them
 *     producers_start(&ps, meter)                starts the threads; they wait for meter_start
 *     producers_join(&ps)                        when they sent all that the settings say and had their answers
 *
 * A rate is an open loop: message k of all is due k/rate after the start and belongs to producer k mod n.
 * What is sent late, since the producer's queue is full, counts from when it was due.  Without a rate each
 * sends as fast as its queue takes it, or with `outstanding` as soon as fewer than so many are unanswered.
 *
 * A stamped value starts with the time when it was due, ns in 8 bytes of this machine's order; see
 * stamp_of.
 */
#ifndef BENCH_LOAD_PRODUCER_H
#define BENCH_LOAD_PRODUCER_H

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "bench/load/hist.h"
#include "bench/load/load.h"
#include "bench/load/meter.h"
#include "bench/load/payload.h"

#define STAMP_SIZE 8

typedef struct Producer
{
	const Settings *settings;
	Meter *meter;
	const Payload *payload;
	rd_kafka_t *rk;
	rd_kafka_topic_t *rkt;
	rd_kafka_queue_t *queue;
	int index;
	bool stamped;
	_Atomic int64_t sent;
	_Atomic bool sending_done;
	int64_t answered;    /* delivered or failed */
	int64_t failed;      /* after the start, so warm-up counts here */
	int64_t unsent;      /* were due, and the queue did not take them */
	int64_t counted;     /* delivered within the measured time */
	int64_t delivered;   /* in all */
	int64_t last;        /* when the last of them was delivered */
	int64_t longest_gap; /* between two deliveries, within the measured time */
	rd_kafka_resp_err_t first_error;
	Hist latency;
	pthread_t thread;
} Producer;

typedef struct Producers
{
	Payload payload;
	Producer *list;
	int n;
	/* Sums, after the join. */
	int64_t counted, delivered, failed, unsent, last, longest_gap;
	rd_kafka_resp_err_t first_error;
	Hist latency;
} Producers;

void producers_init(Producers *ps, const Settings *s, bool stamped);
void producers_start(Producers *ps, Meter *meter);
void producers_join(Producers *ps);
void producers_free(Producers *ps);

static inline int64_t
stamp_of(const void *value)
{
	int64_t ns;

	memcpy(&ns, value, STAMP_SIZE);
	return ns;
}

#endif
