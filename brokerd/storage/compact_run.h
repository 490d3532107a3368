/*
 * compact_run.h: the steps of a pass that run on the compaction thread.  A step touches only what the job carries and
 * the files of its segments; between steps the job is the loop's (compaction.c).
 */
#ifndef BROKERD_STORAGE_COMPACT_RUN_H
#define BROKERD_STORAGE_COMPACT_RUN_H

#include "brokerd/storage/compact_batch.h"
#include "brokerd/storage/compact_rule.h"
#include "brokerd/storage/manager.h"

/* A segment as it was when the pass began; held by the job. */
typedef struct CompactSource
{
	LogSegment *segment;
	uint64_t content;
	int64_t end_offset;
	int32_t size;
	uint64_t moved; /* under this name the old files wait for their deletion */
} CompactSource;

typedef enum CompactResult
{
	COMPACT_DONE,
	COMPACT_UNCHANGED, /* write: the segment stays as it is */
	COMPACT_FAILED,    /* errno in `error`; nothing has happened to the log */
	COMPACT_DAMAGED,   /* a batch of sources[at] cannot be read: `why` */
	COMPACT_HALF_DONE  /* swap: files are between two names, and only a start can end it */
} CompactResult;

typedef struct CompactJob
{
	Job job;
	Log *log;
	_Atomic bool cancel;
	/* set by the loop */
	CompactSource *sources;
	CompactSegment *segments; /* the same, for the rule */
	int nsources;
	uint32_t truncations; /* of the log when the pass began */
	int first, n;         /* the group at work: sources[first, first + n) */
	int64_t dirty_from;
	int64_t dirty_end;
	const char *reason;
	int32_t index_interval;
	int64_t segment_bytes;
	int64_t index_bytes;
	size_t map_bytes;
	int64_t *last_offsets; /* of each producer's last batch, sorted */
	int nlast;
	AbortedTxn *aborted; /* of the group */
	int naborted;
	int64_t started_us;
	int64_t old_bytes, new_bytes; /* of the groups that were swapped */
	/* the pass */
	CompactFilter filter;
	int32_t newest_epoch; /* of the batches that were filtered so far */
	/* of a step */
	CompactResult result;
	int error;
	int at;
	char why[160];
	LogSegment *made; /* write: what the new files hold; the loop takes it */
} CompactJob;

void compact_run_map(Job *job);
void compact_run_write(Job *job);
void compact_run_swap(Job *job); /* compact_swap.c */
void compact_run_drop(Job *job); /* the files of a write are not wanted any more */

/* The step's end in one line. */
void compact_fail(CompactJob *j, int error);

/* The disk serves the compaction thread last; not while it renames, as somebody may wait for that. */
void compact_hurry(bool hurry);

/* The loop takes no pass of this log any more, or the process ends. */
static inline bool
compact_cancelled(const CompactJob *j)
{
	return atomic_load_explicit(&j->cancel, memory_order_relaxed);
}

#endif
