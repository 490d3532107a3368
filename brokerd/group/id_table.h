/*
 * id_table.h: a chained hash table of nodes that are embedded in what they find.  It owns no node and compares
 * no key: a lookup walks the nodes of one hash, and the caller looks at what holds them.
 *
 *     for (n = id_table_first(&t, hash); n != NULL; n = id_table_next(n)) ...
 */
#ifndef BROKERD_GROUP_ID_TABLE_H
#define BROKERD_GROUP_ID_TABLE_H

#include <stdint.h>

typedef struct IdNode
{
	struct IdNode *next;
	uint32_t hash;
} IdNode;

typedef struct IdTable
{
	IdNode **buckets;
	uint32_t size; /* a power of two, or 0 */
	uint32_t count;
} IdTable;

void id_table_add(IdTable *t, IdNode *node, uint32_t hash);
void id_table_remove(IdTable *t, IdNode *node);
IdNode *id_table_first(const IdTable *t, uint32_t hash);
IdNode *id_table_next(const IdNode *node);
void id_table_free(IdTable *t);

#endif
