/*
 * result.h: the one JSON object that a load tool prints.
 *
 *     Result r;
 *     result_begin(&r, mode);
 *     result_settings(&r, &usage, mode, &settings);
 *     result_real(&r, "seconds", m.seconds, 3);
 *     result_latency(&r, "latency_us", hist);
 *     result_end(&r);                      one line on standard output
 */
#ifndef BENCH_LOAD_RESULT_H
#define BENCH_LOAD_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/load/hist.h"
#include "bench/load/meter.h"
#include "bench/load/options.h"

typedef struct Result
{
	bool inner; /* something stands before, so a comma comes first */
} Result;

void result_begin(Result *r, const Mode *mode);
void result_settings(Result *r, const Usage *u, const Mode *mode, const void *settings);
void result_int(Result *r, const char *name, int64_t v);
void result_real(Result *r, const char *name, double v, int decimals);
void result_text(Result *r, const char *name, const char *text); /* NULL is null */

/* {"p50":…,"p90":…,"p99":…,"p999":…,"max":…,"mean":…,"count":…} in microseconds */
void result_latency(Result *r, const char *name, const Hist *h);

/* "seconds", "messages", "bytes" and their rates; MB are 10^6 bytes. */
void result_rates(Result *r, const Meter *m, int64_t messages, int64_t bytes);

/* "requests" and the rates of requests and of the records in them. */
void result_requests(Result *r, const Meter *m, int64_t requests, int64_t records);

/* "client_cpu_s", "client_rss_kb", what was watched, "interrupted". */
void result_costs(Result *r, const Meter *m);
void result_end(Result *r);

#endif
