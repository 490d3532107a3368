/*
 * arena.h: a bump allocator for what lives as long as one request.
 *
 *     arena_init(&a, 4096)     no memory yet; the first block will hold at least 4096 bytes
 *     p = arena_alloc(&a, n)   n zeroed bytes, aligned to 16
 *     arena_reset(&a)          everything is free again; the first block is kept
 *     arena_free(&a)           the memory goes back to malloc
 *
 * An arena belongs to one thread at a time.  It calls malloc only for a new block, so a connection whose
 * requests fit the first block allocates nothing once warm.  A reset that finds several blocks keeps none but
 * grows the next first block to their sum (up to ARENA_KEEP_MAX), so the size adapts to what is asked.
 *
 * `limit` (0 = none) bounds the bytes handed out since the last reset; a request beyond it, or one that
 * malloc refuses, returns NULL and sets `failed` until the next reset.
 */
#ifndef WIRE_ARENA_H
#define WIRE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_KEEP_MAX ((size_t) 256 * 1024)

typedef struct ArenaBlock ArenaBlock;

typedef struct Arena
{
	ArenaBlock *block; /* the newest; older ones hang from it */
	size_t next;       /* size of the next first block */
	size_t used;       /* bytes handed out since the reset */
	size_t limit;      /* 0 = no limit */
	bool failed;
} Arena;

void arena_init(Arena *a, size_t hint);
void *arena_alloc(Arena *a, size_t size) __attribute__((warn_unused_result));
void arena_reset(Arena *a);
void arena_free(Arena *a);

/* A copy in the arena: of bytes, and of a C string's bytes with a NUL behind them. */
void *arena_copy(Arena *a, const void *src, size_t size) __attribute__((warn_unused_result));
char *arena_strndup(Arena *a, const char *s, size_t len) __attribute__((warn_unused_result));

#endif
