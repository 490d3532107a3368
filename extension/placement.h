/*
 * placement.h: which brokers hold the replicas of new partitions.  A pure function over arrays.
 *
 * Aims, in this order: no broker twice in a partition; no rack twice while another rack is left; leaders
 * (first replicas) even over brokers; followers even, and the followers of one leader spread, so that its
 * load goes to many when it dies.
 */
#ifndef EXTENSION_PLACEMENT_H
#define EXTENSION_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct PlacementBroker
{
	int32_t id;
	int32_t rack; /* small number; brokers of one rack have the same; without a rack each its own */
} PlacementBroker;

/*
 * Places `partitions` partitions of `factor` replicas: out[p * factor + r].  `start` is where the last
 * placement ended, so that topics of one partition spread too.  `brokers` is reordered (racks taken in
 * turn).  false: fewer brokers than replicas.
 */
bool placement_spread(PlacementBroker *brokers, int n, int32_t partitions, int32_t factor, uint32_t start,
					  int32_t *out) __attribute__((warn_unused_result));

#endif
