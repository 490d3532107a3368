/*
 * index.h: the sparse indexes of a segment (Kafka's files, big-endian).
 *
 *     .index       int32 last offset of a batch - base offset, int32 position of that batch
 *     .timeindex   int64 greatest timestamp so far, int32 last offset of its batch - base offset
 *
 * One entry at most each index.interval.bytes.  The newest entries of the active segment are in memory
 * (IndexTail) and go to the files in groups; lookups in the files are preads, never a mapping, as a page
 * fault would stall the loop and an I/O error kill the process.
 */
#ifndef BROKERD_STORAGE_INDEX_H
#define BROKERD_STORAGE_INDEX_H

#include "brokerd/storage/internal.h"
#include "wire/batch.h"

/* ---- loop ---- */

/* The greatest time of the batch's records; -1 when compaction has left none. */
static inline int64_t
batch_time(const uint8_t *b)
{
	return batch_count(b) == 0 ? -1 : batch_max_timestamp(b);
}

/* A batch was appended to the segment at `pos`. */
void index_note_batch(LogSegment *s, int32_t interval_bytes, int32_t pos, int32_t size, int64_t last_offset,
					  int64_t max_timestamp);
bool index_full(const LogSegment *s, int32_t max_index_bytes);
/* Entries in file and memory together. */
int32_t index_entry_count(const LogSegment *s);
int32_t index_time_count(const LogSegment *s);
/* Forget what was added since the counts were these. */
void index_undo(LogSegment *s, int32_t entries, int32_t times);
/* Hand the older entries to the writer when there are many; all of them, and the last timestamp, when
 * `final` (NULL: nothing to do).  The entries stay until index_written(). */
WriteOp *index_make_op(LogSegment *s, bool final);
void index_written(LogSegment *s, const WriteOp *op);
/* The parts of it, for recovery, which writes the files itself. */
/* All that is in memory, ended by the greatest timestamp: entries, then times.  malloc'ed. */
void *index_encode_all(LogSegment *s, int *n, int *ntimes);
void index_advance(LogSegment *s, int32_t entries, int32_t times); /* this many are in the files now */
void index_free_tail(LogSegment *s);

/* ---- any thread: an index as it is in the files and, copied, in memory ---- */

typedef struct IndexView
{
	const LogSegment *segment;
	int32_t entries; /* in the file */
	int32_t times;
	IndexEntry *tail; /* owned, kept for the next index_view_init() */
	int ntail;
	int tail_cap;
	TimeEntry *time_tail;
	int ntime_tail;
	int time_tail_cap;
} IndexView;

/* Loop: copy what a helper needs.  `v` is all zero, or was used before. */
void index_view_init(IndexView *v, const LogSegment *s, bool with_times);
void index_view_free(IndexView *v);

/* Entries at or before a place in the file and in the log: each entry within a bound comes before all that are not. */
typedef struct IndexBound
{
	int64_t max_pos;      /* inclusive */
	int64_t limit_offset; /* exclusive */
} IndexBound;

/* Consecutive entries of an index file, as they are there. */
#define INDEX_PIECE_ENTRIES 1024
typedef struct IndexPiece
{
	int64_t base_offset; /* of the segment */
	int32_t first;       /* number of its first entry in the file */
	int32_t n;           /* 0: nothing */
	uint8_t raw[INDEX_PIECE_ENTRIES * 8];
} IndexPiece;

void index_piece_copy(IndexPiece *to, const IndexPiece *from);
/* Is the last entry of the file within the bound, of `file_entries`, in the piece for sure? */
bool index_piece_knows(const IndexPiece *p, const IndexBound *bound, int32_t file_entries);
/* The position of the last entry within the bound; -1 none of these. */
int32_t index_piece_floor(const IndexPiece *p, const IndexBound *bound);
int32_t index_tail_floor(const IndexEntry *tail, int n, const IndexBound *bound);
/* How many of the entries in memory are of batches that are in the file already. */
int index_tail_written(const LogSegment *s);

/*
 * The position of the last batch known within the bound: from the memory of the view, from `piece`, or from the file,
 * a part of which is then in `piece`.  0: nothing is known; -1: the file cannot be read.
 */
int32_t index_lookup(const IndexView *v, const IndexBound *bound, IndexPiece *piece);
/* The same by offset alone: a batch at or before the one with `offset`. */
int32_t index_floor(const IndexView *v, int64_t offset);
/* Last offset of a batch before which no record has a timestamp >= `timestamp`; base offset - 1: unknown. */
int64_t index_time_floor(const IndexView *v, int64_t timestamp);

#endif
