/*
 * read_cache.h: what recent reads have found out about segment files, so that a read which goes on where another
 * one ended needs neither an index file nor a reader thread.  Loop only; bounded, and shared by all logs.
 *
 *     cursors   (content, offset) -> position in the file      where reads began and ended
 *     pieces    (content, first entry) -> entries              of index files, as a reader brought them
 *
 * `content` names what a segment's file holds and will go on holding (LogSegment.content): nothing is ever
 * appended within it, and what cuts the file gives it another name.  So what is here never becomes wrong, and
 * nobody has to take it out: entries of segments that are gone are not asked for any more and are replaced.
 */
#ifndef BROKERD_STORAGE_READ_CACHE_H
#define BROKERD_STORAGE_READ_CACHE_H

#include "brokerd/storage/index.h"

#define READ_CACHE_PIECES 64
#define READ_CACHE_SETS   512 /* of READ_CACHE_WAYS cursors */
#define READ_CACHE_WAYS   4

typedef struct ReadCursor
{
	uint64_t content; /* 0: free */
	int64_t offset;
	int32_t pos;
	bool followed; /* a read has gone on from here: others that have not come first */
} ReadCursor;

typedef struct CachedPiece
{
	uint64_t content;
	uint64_t used; /* the clock at its last use */
	IndexPiece piece;
} CachedPiece;

typedef struct ReadCache
{
	ReadCursor *cursors; /* NULL until something is read */
	unsigned next_victim;
	CachedPiece *pieces[READ_CACHE_PIECES];
	int npieces;
	uint64_t clock;
} ReadCache;

void read_cache_free(ReadCache *c);
/* The first batch whose last offset is at or beyond `offset` begins at `pos`. */
void read_cache_note(ReadCache *c, uint64_t content, int64_t offset, int32_t pos);
/* That position; -1: not known. */
int32_t read_cache_find(ReadCache *c, uint64_t content, int64_t offset);
void read_cache_add_piece(ReadCache *c, uint64_t content, const IndexPiece *piece);
/* A piece that knows the last entry within `bound` (index_piece_knows); NULL. */
const IndexPiece *read_cache_piece(ReadCache *c, uint64_t content, const IndexBound *bound,
								   int32_t file_entries);

#endif
