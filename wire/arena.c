#include "wire/arena.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_ALIGN     ((size_t) 16)
#define ARENA_BLOCK_MIN ((size_t) 1024)

struct ArenaBlock
{
	ArenaBlock *older;
	size_t size;
	size_t used;
	size_t pad; /* data starts at a multiple of 16 */
	uint8_t data[];
};

void
arena_init(Arena *a, size_t hint)
{
	memset(a, 0, sizeof(*a));
	a->next = hint < ARENA_BLOCK_MIN ? ARENA_BLOCK_MIN : hint;
}

static ArenaBlock *
add_block(Arena *a, size_t need)
{
	size_t size = a->block == NULL ? a->next : a->block->size * 2;
	ArenaBlock *b;

	if (size > ((size_t) 1 << 20))
		size = (size_t) 1 << 20;
	if (size < need)
		size = need;
	b = malloc(sizeof(*b) + size);
	if (b == NULL)
		return NULL;
	b->older = a->block;
	b->size = size;
	b->used = 0;
	a->block = b;
	return b;
}

void *
arena_alloc(Arena *a, size_t size)
{
	size_t room = (size + ARENA_ALIGN - 1) & ~(ARENA_ALIGN - 1);
	ArenaBlock *b = a->block;
	void *p;

	/* Zero bytes still get an address of their own: callers tell NULL from empty. */
	if (room == 0)
		room = ARENA_ALIGN;
	if (room < size || a->failed ||
		(a->limit != 0 && room > a->limit - (a->used < a->limit ? a->used : a->limit)))
	{
		a->failed = true;
		return NULL;
	}
	if (b == NULL || b->size - b->used < room)
	{
		b = add_block(a, room);
		if (b == NULL)
		{
			a->failed = true;
			return NULL;
		}
	}
	p = b->data + b->used;
	b->used += room;
	a->used += room;
	return memset(p, 0, room);
}

static void
free_blocks(ArenaBlock *b)
{
	while (b != NULL)
	{
		ArenaBlock *older = b->older;

		free(b);
		b = older;
	}
}

void
arena_reset(Arena *a)
{
	ArenaBlock *b = a->block;

	/* More than one block, or one made for a huge request: start over with a size that fits. */
	if (b != NULL && (b->older != NULL || b->size > ARENA_KEEP_MAX))
	{
		size_t total = a->used < ARENA_KEEP_MAX ? a->used : ARENA_KEEP_MAX;

		free_blocks(b);
		a->block = NULL;
		if (total > a->next)
			a->next = total;
	}
	else if (b != NULL)
		b->used = 0;
	a->used = 0;
	a->failed = false;
}

void
arena_free(Arena *a)
{
	free_blocks(a->block);
	a->block = NULL;
	a->used = 0;
	a->failed = false;
}

void *
arena_copy(Arena *a, const void *src, size_t size)
{
	void *p = arena_alloc(a, size);

	if (p != NULL && size > 0)
		memcpy(p, src, size);
	return p;
}

char *
arena_strndup(Arena *a, const char *s, size_t len)
{
	char *p = len == SIZE_MAX ? NULL : arena_alloc(a, len + 1);

	if (p != NULL && len > 0)
		memcpy(p, s, len);
	return p;
}
