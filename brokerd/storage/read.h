/*
 * read.h: finding and bringing the bytes of a fetch.
 *
 *     the tail ring knows begin and end, bytes written by us a moment ago     answered on the loop
 *     another read ended here (read_cache.h), all is in the page cache        answered on the loop: read_warm.c
 *     anything else                                                           a reader thread: read.c
 *         index, then headers, give begin and end
 *         all pages in the page cache (preadv2 RWF_NOWAIT)  -> slice of the file, for sendfile
 *         otherwise                                         -> read into a buffer; the pages are dropped again
 */
#ifndef BROKERD_STORAGE_READ_H
#define BROKERD_STORAGE_READ_H

#include "brokerd/storage/index.h"
#include "brokerd/storage/manager.h"
#include "brokerd/storage/scan.h"

/* A segment as a helper thread sees it: what was written when the job was made. */
typedef struct SegmentView
{
	LogSegment *segment; /* held by the job */
	IndexView index;     /* its memory stays for the next segment_view_init() */
	int32_t size;
} SegmentView;

void segment_view_init(SegmentView *v, LogSegment *s, bool with_times); /* loop; takes a reference */
void segment_view_done(SegmentView *v);                                 /* loop */

/* What is known of a segment's batches before any is looked at.  Positions are boundaries of batches. */
typedef struct SliceBounds
{
	int32_t from; /* at or before the first batch that is wanted; -1 not known */
	int32_t skip; /* of a batch that the slice may have; 0 not known */
	bool exact;   /* `from` is the first batch that is wanted */
} SliceBounds;

/* Where a read begins and ends in a segment. */
typedef struct SlicePlan
{
	int error;  /* errno; 0 */
	bool found; /* false: all batches of the segment are before the offset */
	int32_t pos;
	int32_t len;
	int64_t first_offset;
	int64_t next_offset;
} SlicePlan;

/* By headers, beginning at `b->from`, with a scan that has been prepared by scan_init.  Any thread. */
void slice_plan(BatchScan *sc, const LogRead *r, const SliceBounds *b, SlicePlan *plan);
/* What the entries that a slice from `pos` may have are bounded by. */
IndexBound slice_bound(const LogRead *r, int32_t pos);

/* Any thread: a byte of each 128 KiB is looked for; the kernel reads ahead in larger pieces than that. */
bool read_is_cached(int fd, int64_t pos, int32_t len);

/* Loop.  True: answered in `slice`.  False: a reader thread has to look; what is known is in `b`. */
bool read_warm(LogSegment *s, const LogRead *r, LogSlice *slice, SliceBounds *b);

void cold_read_next(LogManager *m); /* loop: buffers were given back */
/* Loop, at the end: those that wait for a buffer never get one. */
void cold_read_drop_waiting(LogManager *m);
void cold_read_free(LogManager *m); /* jobs that are kept to be used again */

#endif
