/*
 * deadline_heap.h: the deadlines of all groups of a broker in one binary heap.
 *
 * A Deadline is embedded in whatever waits (a member's session, a group's join phase).  Moving one *later*
 * costs a store and nothing else, since the heap may hold it under an older, earlier key and only corrects
 * that when the key comes up: a heartbeat, which moves a session's deadline later, is O(1).  Moving one
 * earlier, setting and clearing cost O(log n).
 *
 *     due   when it shall fire, DEADLINE_NONE = never      key   what the heap sorts by; key <= due
 *
 * Times are milliseconds of whatever clock the caller uses; nothing here reads a clock.
 */
#ifndef BROKERD_GROUP_DEADLINE_HEAP_H
#define BROKERD_GROUP_DEADLINE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define DEADLINE_NONE INT64_MAX

typedef struct Deadline
{
	int64_t due;
	int64_t key;
	int32_t pos;  /* in the heap, -1 = not there */
	int16_t kind; /* the owner's: which of its deadlines this is */
} Deadline;

typedef struct DeadlineHeap
{
	Deadline **v;
	int32_t n;
	int32_t cap;
} DeadlineHeap;

void deadline_init(Deadline *d, int16_t kind);
void deadline_set(DeadlineHeap *heap, Deadline *d, int64_t due);
void deadline_clear(DeadlineHeap *heap, Deadline *d);

static inline bool
deadline_is_set(const Deadline *d)
{
	return d->due != DEADLINE_NONE;
}

/* When to look next: never later than the earliest due, perhaps earlier; DEADLINE_NONE when nothing waits. */
int64_t deadline_heap_next(const DeadlineHeap *heap);

/* Take out one that is due at `now` (it is cleared), or NULL. */
Deadline *deadline_heap_pop(DeadlineHeap *heap, int64_t now);

void deadline_heap_free(DeadlineHeap *heap);

#endif
