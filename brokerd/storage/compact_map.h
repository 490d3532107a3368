/*
 * compact_map.h: the newest offset of each key of a part of a log, in bounded memory.  Pure; one thread at a time.
 *
 * A key is kept as 128 bits of its SHA-256: two keys that meet there would cost a record, and nobody can find such
 * two, not even who may choose the keys.  24 bytes a slot, at most three quarters of the slots used; the table
 * begins small and doubles, up to what compact_map_new() allows.
 */
#ifndef BROKERD_STORAGE_COMPACT_MAP_H
#define BROKERD_STORAGE_COMPACT_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The newest 3,145,728 keys of a round. */
#define COMPACT_MAP_BYTES ((size_t) 96 * 1024 * 1024)

typedef struct CompactMap CompactMap;

typedef struct CompactKey
{
	uint64_t h[2];
} CompactKey;

CompactMap *compact_map_new(size_t max_bytes); /* 0: COMPACT_MAP_BYTES; NULL: no memory */
void compact_map_free(CompactMap *m);
/* Of a key of `len` >= 0 bytes.  False: the library has failed, and nothing may be decided. */
bool compact_map_hash(CompactMap *m, const void *key, int32_t len, CompactKey *out)
	__attribute__((warn_unused_result));
/*
 * Is there room for so many more keys?  False: it is full.  An empty map takes any number that memory allows, so that
 * a round that begins with a very large batch gets on.
 */
bool compact_map_reserve(CompactMap *m, int64_t keys) __attribute__((warn_unused_result));
/* With room reserved.  Of two offsets of a key the larger one stays. */
void compact_map_put(CompactMap *m, const CompactKey *key, int64_t offset);
int64_t compact_map_get(const CompactMap *m, const CompactKey *key); /* -1: not in it */
int64_t compact_map_count(const CompactMap *m);
size_t compact_map_bytes(const CompactMap *m);

#endif
