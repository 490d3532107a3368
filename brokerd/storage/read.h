/*
 * read.h: finding and bringing the bytes of a fetch.
 *
 *     the tail ring knows begin and end, bytes written by us a moment ago     answered on the loop
 *     anything else                                                           a reader thread:
 *         index, then headers, give begin and end
 *         all pages in the page cache (preadv2 RWF_NOWAIT)  -> slice of the file, for sendfile
 *         otherwise                                         -> read into a buffer; the pages are dropped again
 */
#ifndef BROKERD_STORAGE_READ_H
#define BROKERD_STORAGE_READ_H

#include "brokerd/storage/index.h"
#include "brokerd/storage/manager.h"

/* A segment as a helper thread sees it: what was written when the job was made. */
typedef struct SegmentView
{
	LogSegment *segment; /* held by the job */
	IndexView index;
	int32_t size;
	int64_t end_offset;
} SegmentView;

void segment_view_init(SegmentView *v, LogSegment *s); /* loop; takes a reference */
void segment_view_done(SegmentView *v);                /* loop */

/* Where a read begins and ends in a segment.  Helper thread. */
typedef struct SlicePlan
{
	int error;  /* errno; 0 */
	bool found; /* false: all batches of the segment are before the offset */
	int32_t pos;
	int32_t len;
	int64_t first_offset;
	int64_t next_offset;
} SlicePlan;
void cold_read_next(LogManager *m); /* loop: buffers were given back */
/* Loop, at the end: those that wait for a buffer never get one. */
void cold_read_drop_waiting(LogManager *m);
void slice_plan(SegmentView *v, int fd, const LogRead *r, SlicePlan *plan);

#endif
