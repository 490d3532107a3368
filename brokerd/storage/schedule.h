/*
 * schedule.h: when a log next has something to do by the clock (roll, retention, compaction, flush.ms,
 * expiry of producers), as a heap, so that a tick costs nothing for 10,000 idle logs.  Loop thread.
 */
#ifndef BROKERD_STORAGE_SCHEDULE_H
#define BROKERD_STORAGE_SCHEDULE_H

#include "brokerd/storage/internal.h"

void schedule_update(Log *log);             /* what the log waits for has changed */
void schedule_at(Log *log, int64_t due_ms); /* no later than this */
void schedule_remove(Log *log);
int64_t roll_due_ms(const Log *log); /* roll.c: when the active segment is to be rolled */
void schedule_after_append(Log *log, const LogSegment *s, int64_t now_ms);
Log *schedule_due(LogManager *m, int64_t now_ms); /* taken out of the heap; NULL: nothing */

/* Pure: when the log's oldest segment may go or its active one has to be rolled; INT64_MAX: never. */
int64_t log_next_due(const Log *log);

#endif
