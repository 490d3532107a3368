#include "brokerd/storage/read_cache.h"

#include <stdlib.h>

void
read_cache_free(ReadCache *c)
{
	free(c->cursors);
	for (int i = 0; i < c->npieces; i++)
		free(c->pieces[i]);
	*c = (ReadCache){0};
}

static ReadCursor *
set_of(ReadCache *c, uint64_t content, int64_t offset)
{
	uint64_t h = (content * 0x9e3779b97f4a7c15u ^ (uint64_t) offset) * 0xff51afd7ed558ccdu;

	return &c->cursors[(h >> 40) % READ_CACHE_SETS * READ_CACHE_WAYS];
}

static ReadCursor *
find(ReadCursor *set, uint64_t content, int64_t offset)
{
	for (int i = 0; i < READ_CACHE_WAYS; i++)
		if (set[i].content == content && set[i].offset == offset)
			return &set[i];
	return NULL;
}

/* The trail of a quick reader goes before the place where a slow one will go on. */
static ReadCursor *
victim(ReadCache *c, ReadCursor *set)
{
	unsigned first = c->next_victim++;

	for (int i = 0; i < READ_CACHE_WAYS; i++)
		if (set[i].content == 0)
			return &set[i];
	for (unsigned i = 0; i < READ_CACHE_WAYS; i++)
		if (set[(first + i) % READ_CACHE_WAYS].followed)
			return &set[(first + i) % READ_CACHE_WAYS];
	return &set[first % READ_CACHE_WAYS];
}

void
read_cache_note(ReadCache *c, uint64_t content, int64_t offset, int32_t pos)
{
	ReadCursor *set, *cursor;

	if (c->cursors == NULL &&
		(c->cursors = calloc((size_t) READ_CACHE_SETS * READ_CACHE_WAYS, sizeof(*c->cursors))) == NULL)
		return;
	set = set_of(c, content, offset);
	if ((cursor = find(set, content, offset)) == NULL)
		cursor = victim(c, set);
	*cursor = (ReadCursor){.content = content, .offset = offset, .pos = pos};
}

int32_t
read_cache_find(ReadCache *c, uint64_t content, int64_t offset)
{
	ReadCursor *cursor = c->cursors == NULL ? NULL : find(set_of(c, content, offset), content, offset);

	if (cursor == NULL)
		return -1;
	cursor->followed = true;
	return cursor->pos;
}

/* Of the same place, or the longest unused. */
static CachedPiece *
place_for(ReadCache *c, uint64_t content, const IndexPiece *piece)
{
	CachedPiece *oldest = NULL, *made;

	for (int i = 0; i < c->npieces; i++)
	{
		CachedPiece *p = c->pieces[i];

		if (p->content == content && p->piece.first == piece->first)
			return p;
		if (oldest == NULL || p->used < oldest->used)
			oldest = p;
	}
	if (c->npieces == READ_CACHE_PIECES || (made = malloc(sizeof(*made))) == NULL)
		return oldest;
	c->pieces[c->npieces++] = made;
	return made;
}

void
read_cache_add_piece(ReadCache *c, uint64_t content, const IndexPiece *piece)
{
	CachedPiece *p = place_for(c, content, piece);

	if (p == NULL)
		return;
	p->content = content;
	p->used = ++c->clock;
	index_piece_copy(&p->piece, piece);
}

const IndexPiece *
read_cache_piece(ReadCache *c, uint64_t content, const IndexBound *bound, int32_t file_entries)
{
	for (int i = 0; i < c->npieces; i++)
	{
		CachedPiece *p = c->pieces[i];

		if (p->content != content || !index_piece_knows(&p->piece, bound, file_entries))
			continue;
		p->used = ++c->clock;
		return &p->piece;
	}
	return NULL;
}
