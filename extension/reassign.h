/*
 * reassign.h: where the replicas of existing partitions go, and when a move is done.  Pure functions over arrays.
 *
 * A partition that moves from {1,2,3} to {1,4,5} has, as in Kafka (KIP-455),
 *
 *     replicas {1,4,5,2,3}    adding {4,5}    removing {2,3}
 *
 * until the adding ones are in the ISR; then the removing ones go.
 */
#ifndef EXTENSION_REASSIGN_H
#define EXTENSION_REASSIGN_H

#include "election.h"
#include "min_isr.h"

/* A broker that may have replicas. */
typedef struct ReassignBroker
{
	int32_t id;
	int32_t rack;     /* as in placement.h */
	int64_t replicas; /* in: what it has outside of the plan; out: in all */
	bool closed;      /* keeps what it has and gets no more (it is dead) */
	int64_t leaders;  /* out: partitions of the plan of which it is the first replica */
} ReassignBroker;

typedef struct ReassignPartition
{
	IdSet current;   /* in order of preference */
	int32_t factor;  /* how many it shall have */
	int32_t *target; /* out: room for `factor` */
} ReassignPartition;

/*
 * Fills every target.  `brokers` is sorted by id.  Replicas on brokers that are not in `brokers` go, surplus ones go
 * from the end (one whose rack the partition has twice goes first), what is missing is added where the rack is new and
 * the load is least; a replacement takes the place of the replica that goes.  With `balance` more is moved: until no
 * rack is there twice while another is free, no broker has two replicas more than one that could take one of them, and
 * no broker is first twice more than another replica of the same partition.
 * false: fewer brokers than a factor asks for, or too few that are not closed.
 */
bool reassign_plan(ReassignBroker *brokers, int n, ReassignPartition *partitions, int n_partitions,
				   bool balance) __attribute__((warn_unused_result));

typedef struct ReassignState
{
	IdSet replicas; /* adding and removing ones are among them */
	IdSet adding;
	IdSet removing;
	IdSet isr;
	IdSet live;      /* brokers that may lead */
	int32_t min_isr; /* as it counts for the target */
} ReassignState;

/*
 * May the removing replicas go?  Only when every adding one is in sync, somebody of the rest can lead, and what was
 * acknowledged keeps as many copies as min.insync.replicas promises (or as many as the target has).
 */
bool reassign_done(const ReassignState *state);

#endif
