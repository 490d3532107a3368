/*
 * replay_cluster.h: who leads the partitions of a topic, and questions with one answer.
 */
#ifndef BENCH_LOAD_REPLAY_CLUSTER_H
#define BENCH_LOAD_REPLAY_CLUSTER_H

#include <stdint.h>

#include "wire/codec.h"

#define HOST_MAX 256

typedef struct ClusterPartition
{
	char host[HOST_MAX]; /* of its leader */
	int port;
	int leader;  /* its node id */
	int64_t end; /* cluster_ends fills it in: the high watermark */
} ClusterPartition;

typedef struct Cluster
{
	ClusterPartition *partitions;
	int n;
} Cluster;

/* Ends the program when the topic is not there or a partition has no leader. */
void cluster_load(Cluster *c, const char *bootstrap, const char *topic);

/* Asks the leaders for the end of each partition. */
void cluster_ends(Cluster *c, const char *topic);
void cluster_free(Cluster *c);

/*
 * Send a request on a blocking socket and read its answer into `response`, a struct of the API; what it
 * points to lives in the arena and in `frame`, which the caller frees.  Ends the program on any trouble.
 */
void cluster_ask(int fd, int16_t key, int16_t version, const void *request, void *response, Arena *arena,
				 uint8_t **frame);

#endif
