/*
 * replay.h: what the parts of `replay` share.
 *
 * The whole program is one thread.  Each mode prints one JSON object and returns the exit code.
 */
#ifndef BENCH_LOAD_REPLAY_H
#define BENCH_LOAD_REPLAY_H

#include <stdint.h>

#include "bench/load/hist.h"
#include "bench/load/meter.h"
#include "bench/load/options.h"
#include "bench/load/result.h"

typedef struct Settings
{
	const char *bootstrap, *topic, *file, *acks, *compression, *payload, *watch;
	int64_t connections, window, records, size, count, times, max_bytes, max_wait, copy, partition;
	double seconds, warmup, rate, megabytes;
} Settings;

typedef struct Replay
{
	Settings settings;
	const Usage *usage;
	const Mode *mode;
} Replay;

int replay_make_batches(const Replay *replay);
int replay_produce(const Replay *replay);
int replay_drain(const Replay *replay);
int replay_idle(const Replay *replay);

void replay_begin_result(Result *r, const Replay *replay);

#endif
