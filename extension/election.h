/*
 * election.h: who leads a partition.  Pure functions over arrays of broker ids; no PostgreSQL, no allocation.
 */
#ifndef EXTENSION_ELECTION_H
#define EXTENSION_ELECTION_H

#include <stdbool.h>
#include <stdint.h>

typedef struct IdSet
{
	const int32_t *ids;
	int n;
} IdSet;

typedef struct ElectionInput
{
	IdSet replicas; /* in assignment order: the first is the preferred leader */
	IdSet isr;
	IdSet elr;  /* eligible leader replicas (KIP-966): left the ISR below the minimum, have all committed */
	IdSet live; /* brokers that may lead: not fenced, not stopping */
	int32_t leader; /* who leads now, -1 nobody */
	bool unclean;   /* unclean.leader.election.enable */
} ElectionInput;

typedef enum ElectionKind
{
	ELECTION_KEPT,     /* the leader in office may go on */
	ELECTION_CLEAN,    /* a member of the ISR */
	ELECTION_ELIGIBLE, /* of the ELR: clean too */
	ELECTION_UNCLEAN,  /* acknowledged records may be lost */
	ELECTION_NONE      /* nobody: the partition is offline */
} ElectionKind;

/* Writes the leader, -1 for none. */
ElectionKind election_pick(const ElectionInput *in, int32_t *leader);

bool id_set_has(IdSet set, int32_t id);
/* set minus gone, order kept; `out` has room for set.n.  Returns how many. */
int id_set_without(IdSet set, IdSet gone, int32_t *out);

#endif
