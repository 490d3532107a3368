/*
 * nearest.h: which replica a consumer reads from (replica.selector.class, KIP-392).  The choice is pure.
 *
 * The leader tells a consumer that names its rack of a replica in that rack, and the consumer asks there from then on
 * (for some minutes, then the leader again).  The leader itself comes first where it is in the rack.
 */
#ifndef BROKERD_API_NEAREST_H
#define BROKERD_API_NEAREST_H

#include "brokerd/api/api.h"

/* A follower as its leader sees it. */
typedef struct NearReplica
{
	int32_t id;
	const char *rack;     /* NULL: none */
	bool in_sync;         /* in the ISR, and not about to leave it */
	bool reachable;       /* alive, for this client too */
	int64_t log_start;    /* of its log */
	int64_t end;          /* of what it has synced; -1 not known */
	int64_t caught_up_ms; /* when it was last at the leader's end */
} NearReplica;

/* Of those in the rack that can go on at `offset` the most caught up one.  -1: the leader. */
int32_t nearest_choose(WStr rack, const char *leader_rack, int64_t offset, const NearReplica *replicas,
					   int n);

/* The same for a fetch that `call` brought to the leader of `p`.  -1: read here. */
int32_t nearest_replica(const ApiCall *call, const Partition *p, WStr rack, int64_t offset);

#endif
