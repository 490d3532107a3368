/*
 * consumer.h: consumers under load, each an instance of librdkafka with a thread of its own.
 *
 *     consumers_init(&cs, settings, from_end, stamped)    makes them and finds where they start
 *     consumers_start(&cs, meter)                         starts the threads; they wait for meter_start
 *     consumers_join(&cs)                                 when they have what the settings ask for
 *
 * Each reads every partition of the topic, or with --group its share.  They end after --messages (of all in a
 * group, else of each), at the end of the measured time, or when neither is given at the end of every
 * partition.  Stamped: the values carry the time when they were due (producer.h), and what is measured is
 * the time until they were read here; such consumers read until consumers_finish.
 */
#ifndef BENCH_LOAD_CONSUMER_H
#define BENCH_LOAD_CONSUMER_H

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "bench/load/hist.h"
#include "bench/load/load.h"
#include "bench/load/meter.h"

struct Consumers;

typedef struct Consumer
{
	struct Consumers *all;
	rd_kafka_t *rk;
	rd_kafka_queue_t *queue;
	rd_kafka_topic_partition_list_t *positions; /* NULL in a group */
	int ends;                                   /* partitions whose end it has seen */
	_Atomic int64_t read;                       /* in all */
	int64_t counted, bytes;                     /* within the measured time */
	int64_t first, last;                        /* when the first and the last message came; 0 none */
	int64_t errors;
	rd_kafka_resp_err_t first_error;
	bool stalled;
	Hist latency;
	pthread_t thread;
} Consumer;

typedef struct Consumers
{
	const Settings *settings;
	Meter *meter;
	int32_t partitions;
	bool stamped, to_end;
	_Atomic bool finish;
	Consumer *list;
	int n;
	/* Sums, after the join. */
	int64_t read, counted, bytes, errors, first, last;
	bool stalled;
	rd_kafka_resp_err_t first_error;
	Hist latency;
} Consumers;

void consumers_init(Consumers *cs, const Settings *s, bool from_end, bool stamped);
void consumers_start(Consumers *cs, Meter *meter);
void consumers_join(Consumers *cs);
void consumers_free(Consumers *cs);

/* Of stamped ones: end when each has read `messages`, or after `seconds`. */
void consumers_finish(Consumers *cs, int64_t messages, double seconds);

#endif
