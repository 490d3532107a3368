/*
 * compact_rule.h: whether a log is to be compacted, and how far.  Pure.
 *
 *     log start                cleaned end            first uncleanable offset
 *         |  clean: a record a key  |        dirty            |  active segment, above the high watermark,
 *         |                         |                         |  open transactions, younger than the lag
 *
 * Uncleanable begins at the first segment of which one of the latter is true; whole segments only.
 */
#ifndef BROKERD_STORAGE_COMPACT_RULE_H
#define BROKERD_STORAGE_COMPACT_RULE_H

#include <stdbool.h>
#include <stdint.h>

/* A segment, oldest first; the last of them is the active one. */
typedef struct CompactSegment
{
	int64_t base_offset;
	int64_t end_offset;
	int64_t size;
	int64_t first_timestamp; /* of the first batch; < 0 none */
	int64_t time_ms;         /* of the youngest record, or of the file when no record has one */
	int64_t index_bytes;     /* the larger of the two indexes */
	bool ready;              /* sealed, and all of it on disk */
} CompactSegment;

typedef struct CompactQuestion
{
	const CompactSegment *segments;
	int n;
	int64_t cleaned_end;
	int64_t stable_end;       /* least of high watermark and first open transaction */
	double min_dirty_ratio;   /* min.cleanable.dirty.ratio */
	int64_t min_lag_ms;       /* min.compaction.lag.ms */
	int64_t max_lag_ms;       /* max.compaction.lag.ms */
	int64_t tombstones_go_ms; /* when the first tombstones of the clean part may go; INT64_MAX never */
	int64_t now_ms;
} CompactQuestion;

typedef struct CompactVerdict
{
	bool run;
	int n;              /* segments [0, n) are compacted */
	int64_t dirty_from; /* offsets [dirty_from, dirty_end) have not been looked at */
	int64_t dirty_end;
	const char *reason;
	int64_t look_ms;     /* !run: by the clock it may be time then; INT64_MAX never */
	bool waits_for_high; /* !run: it may be time as soon as the stable end moves */
} CompactVerdict;

CompactVerdict compact_rule(const CompactQuestion *q);

/* Neighbours that become one segment: how many from segments[first] on, at most to `n`. */
int compact_group(const CompactSegment *segments, int first, int n, int64_t max_bytes,
				  int64_t max_index_bytes);

#endif
