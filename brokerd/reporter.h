/*
 * reporter.h: tells PostgreSQL what only a log knows (offsets, sizes), for the views: what changed since the last
 * report, at most once in pg_broker.report.interval.ms, and nothing when nothing changed.
 */
#ifndef BROKERD_REPORTER_H
#define BROKERD_REPORTER_H

#include "brokerd/api/broker.h"

typedef struct Reporter Reporter;

Reporter *reporter_new(Broker *broker, int64_t interval_ms);
void reporter_free(Reporter *r);

#endif
