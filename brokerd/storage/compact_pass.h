/*
 * compact_pass.h: one pass over a log, step by step: what the loop does between the steps of compact_run.h.
 */
#ifndef BROKERD_STORAGE_COMPACT_PASS_H
#define BROKERD_STORAGE_COMPACT_PASS_H

#include "brokerd/storage/compact_rule.h"
#include "brokerd/storage/compaction.h"

void compact_pass_start(Log *log, const CompactSegment *segments, const CompactVerdict *v, int64_t now_ms);
void compact_pass_cancel(struct CompactJob *j);

/* compaction.c */
CompactSegment *compaction_segments(const Log *log); /* malloc'ed */
CompactVerdict compaction_verdict(const Log *log, const CompactSegment *segments, int64_t now_ms);
void compaction_start_next(LogManager *m);

#endif
