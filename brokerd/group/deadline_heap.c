#include "brokerd/group/deadline_heap.h"

#include <stdlib.h>

#include "brokerd/group/internal.h"

void
deadline_init(Deadline *d, int16_t kind)
{
	*d = (Deadline){.due = DEADLINE_NONE, .key = DEADLINE_NONE, .pos = -1, .kind = kind};
}

static void
put(DeadlineHeap *heap, int32_t pos, Deadline *d)
{
	heap->v[pos] = d;
	d->pos = pos;
}

static void
sift_up(DeadlineHeap *heap, int32_t pos, Deadline *d)
{
	while (pos > 0 && heap->v[(pos - 1) / 2]->key > d->key)
	{
		put(heap, pos, heap->v[(pos - 1) / 2]);
		pos = (pos - 1) / 2;
	}
	put(heap, pos, d);
}

static void
sift_down(DeadlineHeap *heap, int32_t pos, Deadline *d)
{
	for (;;)
	{
		int32_t child = 2 * pos + 1;

		if (child >= heap->n)
			break;
		if (child + 1 < heap->n && heap->v[child + 1]->key < heap->v[child]->key)
			child++;
		if (heap->v[child]->key >= d->key)
			break;
		put(heap, pos, heap->v[child]);
		pos = child;
	}
	put(heap, pos, d);
}

static void
take_out(DeadlineHeap *heap, Deadline *d)
{
	int32_t pos = d->pos;
	Deadline *last = heap->v[--heap->n];

	d->pos = -1;
	if (last == d)
		return;
	if (pos > 0 && heap->v[(pos - 1) / 2]->key > last->key)
		sift_up(heap, pos, last);
	else
		sift_down(heap, pos, last);
}

void
deadline_set(DeadlineHeap *heap, Deadline *d, int64_t due)
{
	d->due = due;
	if (d->pos >= 0 && due >= d->key)
		return;
	d->key = due;
	if (d->pos < 0)
	{
		if (heap->n == heap->cap)
		{
			heap->cap = heap->cap == 0 ? 64 : heap->cap * 2;
			heap->v = group_realloc(heap->v, (size_t) heap->cap * sizeof(*heap->v));
		}
		d->pos = heap->n++;
	}
	sift_up(heap, d->pos, d);
}

void
deadline_clear(DeadlineHeap *heap, Deadline *d)
{
	d->due = DEADLINE_NONE;
	if (d->pos >= 0)
		take_out(heap, d);
}

int64_t
deadline_heap_next(const DeadlineHeap *heap)
{
	return heap->n == 0 ? DEADLINE_NONE : heap->v[0]->key;
}

Deadline *
deadline_heap_pop(DeadlineHeap *heap, int64_t now)
{
	while (heap->n > 0 && heap->v[0]->key <= now)
	{
		Deadline *d = heap->v[0];

		if (d->due <= now)
		{
			deadline_clear(heap, d);
			return d;
		}
		/* It was moved later since it was put here. */
		d->key = d->due;
		sift_down(heap, 0, d);
	}
	return NULL;
}

void
deadline_heap_free(DeadlineHeap *heap)
{
	free(heap->v);
	*heap = (DeadlineHeap){0};
}
