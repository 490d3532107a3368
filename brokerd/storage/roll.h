/*
 * roll.h: when a segment is full, and what happens when the next one begins.  Loop thread.
 */
#ifndef BROKERD_STORAGE_ROLL_H
#define BROKERD_STORAGE_ROLL_H

#include "brokerd/storage/internal.h"

/* Pure: does a batch of `size` bytes that ends at `last_offset` have to go to a new segment? */
bool roll_is_due(const Log *log, const LogSegment *s, int32_t size, int64_t max_timestamp,
				 int64_t last_offset, int64_t now_ms);
/* The segment that takes the batch, rolled when it must be. */
LogSegment *roll_for_append(Log *log, int32_t size, int64_t max_timestamp, int64_t base_offset,
							int64_t last_offset, int64_t now_ms);
/* Begin a new segment at `base_offset` >= appended end. */
LogSegment *roll_segment(Log *log, int64_t base_offset);

/* Take back what has not reached the file: the log ends at written_end again.  `failed`: the completed ops
 * of the log that failed, newest last, are undone too (they are still in the in-flight list). */
void log_rollback(Log *log);

#endif
