/*
 * load.h: what the parts of the load generator share: its settings, and one function a mode.
 *
 * Each mode prints one JSON object and returns the exit code.  Threads: the main thread makes every client
 * and measures; each producer and consumer has a thread of its own (two at a fixed rate), which touches its
 * own structure only until it is joined.
 */
#ifndef BENCH_LOAD_LOAD_H
#define BENCH_LOAD_LOAD_H

#include <stdint.h>

#include "bench/load/options.h"

typedef struct Settings
{
	const char *bootstrap, *topic, *acks, *compression, *payload, *from, *group, *watch;
	int64_t partitions, replication, producers, consumers, members, size, messages;
	int64_t batch_size, inflight, outstanding, idempotence;
	double linger, seconds, warmup, rate, drain;
	Pairs extra, topic_config;
} Settings;

typedef struct Load
{
	Settings settings;
	const Usage *usage;
	const Mode *mode;
} Load;

int load_produce(const Load *load);
int load_consume(const Load *load);
int load_end_to_end(const Load *load);
int load_commit(const Load *load);
int load_create_topic(const Load *load);
int load_delete_topic(const Load *load);

#endif
