#include "brokerd/group/id_table.h"

#include <stdlib.h>

#include "brokerd/group/internal.h"

/* Two nodes a bucket on average, at most. */
static void
grow(IdTable *t)
{
	uint32_t size = t->size == 0 ? 16 : t->size * 2;
	IdNode **buckets = group_alloc(size * sizeof(*buckets));

	for (uint32_t i = 0; i < t->size; i++)
	{
		IdNode *next;

		for (IdNode *n = t->buckets[i]; n != NULL; n = next)
		{
			IdNode **slot = &buckets[n->hash & (size - 1)];

			next = n->next;
			n->next = *slot;
			*slot = n;
		}
	}
	free(t->buckets);
	t->buckets = buckets;
	t->size = size;
}

void
id_table_add(IdTable *t, IdNode *node, uint32_t hash)
{
	IdNode **slot;

	if (t->count >= t->size * 2)
		grow(t);
	slot = &t->buckets[hash & (t->size - 1)];
	node->hash = hash;
	node->next = *slot;
	*slot = node;
	t->count++;
}

void
id_table_remove(IdTable *t, IdNode *node)
{
	IdNode **p = &t->buckets[node->hash & (t->size - 1)];

	while (*p != node)
		p = &(*p)->next;
	*p = node->next;
	node->next = NULL;
	t->count--;
}

static IdNode *
skip_to(IdNode *n, uint32_t hash)
{
	while (n != NULL && n->hash != hash)
		n = n->next;
	return n;
}

IdNode *
id_table_first(const IdTable *t, uint32_t hash)
{
	return t->size == 0 ? NULL : skip_to(t->buckets[hash & (t->size - 1)], hash);
}

IdNode *
id_table_next(const IdNode *node)
{
	return skip_to(node->next, node->hash);
}

void
id_table_free(IdTable *t)
{
	free(t->buckets);
	*t = (IdTable){0};
}
