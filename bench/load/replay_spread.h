/*
 * replay_spread.h: which connection goes to which broker, for which partitions.
 *
 * Connections are dealt to the leaders in turn, and each leader's partitions to its connections in turn, so
 * that every partition has its connection and, with more connections than partitions, every connection a
 * partition:
 *
 *     leaders 1: p0 p2 p4   2: p1      3 connections      c0 -> 1: p0 p4     c1 -> 2: p1     c2 -> 1: p2
 *
 * With fewer connections than leaders, the partitions of some leaders have none.
 */
#ifndef BENCH_LOAD_REPLAY_SPREAD_H
#define BENCH_LOAD_REPLAY_SPREAD_H

#include <stdint.h>

#include "bench/load/replay_cluster.h"

typedef struct Share
{
	int32_t *partitions;
	int n;
} Share;

/* One share a connection; `only` >= 0 is the one partition that they all have. */
Share *spread(const Cluster *c, int connections, int64_t only);
void spread_free(Share *shares, int connections);

#endif
