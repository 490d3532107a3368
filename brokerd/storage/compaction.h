/*
 * compaction.h: cleanup.policy=compact.  Of each key the newest record stays (Kafka: log cleaner).  Called on the loop.
 *
 * One log at a time, on a thread of its own that the disk serves last (idle I/O priority).  A pass:
 *
 *     map      the dirty segments are read: key -> newest offset (compact_map.h).  Full: it ends there for now
 *     write    neighbouring segments become one, without what has a newer record (compact_batch.h), in files
 *              BASE.log.cleaned, .index.cleaned ..., synced            \  again
 *     swap     the new files take the place of the old ones            /  for each group of neighbours
 *
 * Between two steps the loop looks whether the segments are still what they were: it alone decides about a log.  What
 * has changed meanwhile (truncated, deleted, retired) ends the pass, and nothing has happened.  While a swap is under
 * way nobody retires or cuts a segment of the log: retention waits, compaction_hold() waits for it.
 *
 * Readers keep the old segments until they let go.  Their files are called BASE.cN.log.deleted and so on from the
 * swap on (segment_path() knows), and are deleted later as those that retention retires.
 *
 * On disk, each step synced before the next begins; what a start does with what it finds is in compact_swap.h:
 *
 *     1 BASE.*.cleaned          written                          they go
 *     2 BASE.*.swap             renamed from .cleaned            from here on the swap is ended by the next start
 *     3 *.cN.*.deleted          the old ones, out of the way
 *     4 BASE.*                  renamed from .swap
 *
 * Every pass works from the log's first segment on, so that a tombstone goes only when nothing that it hides is left.
 */
#ifndef BROKERD_STORAGE_COMPACTION_H
#define BROKERD_STORAGE_COMPACTION_H

#include "brokerd/storage/internal.h"

/* What a log of a compacted topic has in memory for it. */
typedef struct LogCompaction
{
	struct CompactJob *job; /* the pass under way; NULL */
	bool swapping;          /* files are being renamed: hands off the segments */
	bool waiting;           /* in the queue */
	bool held;              /* the log is being cut: none begins */
	bool waits_for_high;    /* look when the high watermark moves */
	bool told;              /* a failure that lasts was logged */
	int64_t due_ms;         /* look by the clock then; INT64_MAX never */
	int64_t tombstones_go_ms;
	int64_t retry_ms; /* after the next failure twice that; 0 none so far */
	uint64_t damaged; /* content of the segment that cannot be compacted, 0 none */
	Log *next;
} LogCompaction;

void compaction_configure(Log *log); /* the policy may have changed */
int64_t compaction_due_ms(const Log *log);
void compaction_wake(Log *log); /* something that it waits for has happened: look soon */
void compaction_high_moved(Log *log);
void compaction_look(Log *log, int64_t now_ms);
/* Nobody may retire or cut segments now. */
bool compaction_is_swapping(const Log *log);
/* Gives up the pass under way and lets no other begin; waits until no file is being renamed.  on_change does not come
 * meanwhile. */
void compaction_hold(Log *log);
void compaction_release(Log *log);
/* The log is about to be cut to `offset`: what is recorded as cleaned beyond it is forgotten, on disk first. */
void compaction_forget_from(Log *log, int64_t offset);
void compaction_log_gone(Log *log);   /* deleted or set aside: out of the queue, its pass ends */
void compaction_free(Log *log);       /* with the log */
void compaction_close(LogManager *m); /* the pass under way ends as soon as it can */

#endif
