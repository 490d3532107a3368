/*
 * meter.h: when a measurement begins and ends, and what it cost.
 *
 *     start of the program ── warm-up, not counted ──▶ begin ── counted ──▶ end
 *
 * One Meter a run.  The main thread calls meter_init, makes the clients and their threads, calls meter_start,
 * meter_open and meter_close.  The threads wait in meter_wait_start (a hundred busy ones would keep the main
 * thread from ever starting the last); then they may ask meter_in and meter_stopped, since the moments do not
 * change any more (an open end is INT64_MAX).  Times are CLOCK_MONOTONIC in nanoseconds.
 */
#ifndef BENCH_LOAD_METER_H
#define BENCH_LOAD_METER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define METER_WATCH_MAX 16

/* Not to be copied. */
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
	bool started; /* guarded by the lock */
	pthread_mutex_t lock;
	pthread_cond_t on_start;
} Meter;

int64_t clock_ns(void);

/* Sleep until then, or until a signal asks to stop. */
void clock_sleep_until(int64_t ns);

/*
 * `watch` is a list of process ids ("12,13"), or NULL; one that does not run ends the program.  Takes SIGINT and
 * SIGTERM, and asks the kernel to wake this program's threads when it is time and not 50 microseconds later.
 */
void meter_init(Meter *m, const char *watch);

/* Now: it begins in `warmup` seconds and ends `seconds` later; 0: no end. */
void meter_start(Meter *m, double warmup, double seconds);
void meter_wait_start(Meter *m);

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
