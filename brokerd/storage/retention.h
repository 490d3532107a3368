/*
 * retention.h: which segments are too old or too many, and log_manager_tick.  Loop thread.
 */
#ifndef BROKERD_STORAGE_RETENTION_H
#define BROKERD_STORAGE_RETENTION_H

#include "brokerd/storage/internal.h"

/* Pure: how many of the oldest segments have to go at `now_ms`; may be all of them, the active one too. */
typedef struct RetentionVerdict
{
	int expired; /* segments that go */
	const char *reason;
} RetentionVerdict;
RetentionVerdict retention_check(const Log *log, int64_t now_ms);
int64_t retention_due_ms(const Log *log); /* when the oldest one expires by age; INT64_MAX never */

/* Drop whole segments that end at or below the log start offset. */
void retention_drop_below_start(Log *log);
/* Raise the log start offset in memory and all that goes with it. */
void retention_set_start(Log *log, int64_t offset);

#endif
