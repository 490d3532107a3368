/* The heap of deadlines and the table of ids, against the plainest thing that does the same. */
#include <stdlib.h>

#include "brokerd/group/deadline_heap.h"
#include "brokerd/group/id_table.h"
#include "regress/unit/tap.h"

#define N 500

static uint32_t seed = 12345;

static uint32_t
rnd(uint32_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

/* Every deadline fires once, when it is due and never before; cleared ones never. */
static void
against_model(void)
{
	DeadlineHeap heap = {0};
	static Deadline d[N];
	static int64_t want[N];
	int64_t now = 0;
	int early = 0, late = 0, wrong = 0, fired = 0;

	for (int i = 0; i < N; i++)
	{
		deadline_init(&d[i], (int16_t) i);
		want[i] = DEADLINE_NONE;
	}
	for (int step = 0; step < 200000; step++)
	{
		int i = (int) rnd(N);
		Deadline *due;

		switch (rnd(4))
		{
			case 0:
			case 1:
				want[i] = now + 1 + rnd(1000);
				deadline_set(&heap, &d[i], want[i]);
				break;
			case 2:
				if (rnd(4) == 0)
				{
					want[i] = DEADLINE_NONE;
					deadline_clear(&heap, &d[i]);
				}
				break;
			default:
				now += rnd(3);
				while ((due = deadline_heap_pop(&heap, now)) != NULL)
				{
					early += want[due->kind] > now;
					wrong += deadline_is_set(due);
					want[due->kind] = DEADLINE_NONE;
					fired++;
				}
				for (int k = 0; k < N; k++)
				{
					late += want[k] <= now;
					wrong += want[k] < deadline_heap_next(&heap);
				}
		}
	}
	ok(fired > 1000, "deadlines fired: %d", fired);
	is_int(early, 0, "none early");
	is_int(late, 0, "none late");
	is_int(wrong, 0, "the next one is never later than it is");
	deadline_heap_free(&heap);
}

/* Heartbeats move a deadline later: the heap is not touched. */
static void
moving_later_is_cheap(void)
{
	DeadlineHeap heap = {0};
	static Deadline d[N];

	for (int i = 0; i < N; i++)
	{
		deadline_init(&d[i], 0);
		deadline_set(&heap, &d[i], 1000 + i);
	}
	for (int i = 0; i < N; i++)
		deadline_set(&heap, &d[i], 5000);
	is_int(deadline_heap_next(&heap), 1000, "moved later: the heap does not know yet");
	ok(deadline_heap_pop(&heap, 4999) == NULL, "nothing is due before the time it was moved to");
	is_int(deadline_heap_next(&heap), 5000, "and then the heap knows");
	deadline_set(&heap, &d[7], 100);
	ok(deadline_heap_pop(&heap, 100) == &d[7], "moved earlier: at once");
	for (int i = 0; i < N; i++)
		deadline_clear(&heap, &d[i]);
	is_int(heap.n, 0, "cleared");
	deadline_heap_free(&heap);
}

typedef struct Item
{
	IdNode node;
	int key;
	bool in;
} Item;

static Item *
find(IdTable *t, int key, uint32_t hash)
{
	for (IdNode *n = id_table_first(t, hash); n != NULL; n = id_table_next(n))
	{
		Item *item = (Item *) (void *) n;

		if (item->key == key)
			return item;
	}
	return NULL;
}

static void
table(void)
{
	IdTable t = {0};
	static Item items[N];
	int wrong = 0;

	ok(id_table_first(&t, 7) == NULL, "an empty table finds nothing");
	for (int step = 0; step < 50000; step++)
	{
		int i = (int) rnd(N);
		uint32_t hash = (uint32_t) (i / 3) * 64; /* three keys a hash, and few buckets */

		if (items[i].in)
			id_table_remove(&t, &items[i].node);
		else
			id_table_add(&t, &items[i].node, hash);
		items[i].in = !items[i].in;
		items[i].key = i;
		for (int k = 0; k < 5; k++)
		{
			int look = (int) rnd(N);

			wrong += (find(&t, look, (uint32_t) (look / 3) * 64) != NULL) != items[look].in;
		}
	}
	is_int(wrong, 0, "a table finds what is in it");
	id_table_free(&t);
}

int
main(void)
{
	against_model();
	moving_later_is_cheap();
	table();
	return tap_done();
}
