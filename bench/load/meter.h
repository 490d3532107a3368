/*
 * meter.h: when a measurement begins and ends, and what it cost.
 *
 *     start of the program ── warm-up, not counted ──▶ begin ── counted ──▶ end
 *
 * One Meter a run.  The main thread calls meter_init, makes the clients, calls meter_start, starts threads, and
 * calls meter_open and meter_close.  Any thread may ask meter_in and meter_stopped, since the two moments are
 * fixed by meter_start (an open end is INT64_MAX).  Times are CLOCK_MONOTONIC in nanoseconds.
 */
#ifndef BENCH_LOAD_METER_H
#define BENCH_LOAD_METER_H

#include <stdbool.h>
#include <stdint.h>

#define METER_WATCH_MAX 16

typedef struct Meter
{
	int64_t start, begin, end;
	int n_watched; /* processes whose CPU is counted, too: the brokers */
	int watched[METER_WATCH_MAX];
	double cpu_before, watched_before;
	double cpu, watched_cpu; /* seconds between open and close */
	int64_t rss_kb, watched_rss_kb;
	double seconds;
	bool opened, interrupted;
} Meter;

int64_t clock_ns(void);

/* Sleep until then, or until a signal asks to stop. */
void clock_sleep_until(int64_t ns);

/*
 * `watch` is a list of process ids ("12,13"), or NULL; one that does not run ends the program.  Takes SIGINT and
 * SIGTERM, and asks the kernel to wake this program's threads when it is time and not 50 microseconds later.
 */
void meter_init(Meter *m, const char *watch);

/* Now, so to say: it begins in `warmup` seconds and ends `seconds` later; 0: no end. */
void meter_start(Meter *m, double warmup, double seconds);

/* Waits for the beginning and notes the CPU seconds so far. */
void meter_open(Meter *m);

/* Waits for the end; or `at` (ns), when it is not 0, was the end. */
void meter_close(Meter *m, int64_t at);

/* A signal asked to stop. */
bool meter_stopped(void);

static inline bool
meter_in(const Meter *m, int64_t ns)
{
	return ns >= m->begin && ns < m->end;
}

#endif
