/*
 * replication.h: what a broker does with others: it follows the leaders of its replicas (fetcher.h), keeps the
 * ISR of what it leads (isr_changes.h), and watches whether their processes are there (peer_watch.h).
 * Loop thread only.
 *
 *     leader    Fetch with replica state (api/replica_fetch.c) ─▶ leadership.h ─▶ high watermark, ISR
 *     follower  fetcher.h ─▶ fetch_lane.h, two connections a leader ─▶ log_append_as_follower ─▶ synced ─▶ asks on
 */
#ifndef BROKERD_CLUSTER_REPLICATION_H
#define BROKERD_CLUSTER_REPLICATION_H

#include <ev.h>

#include "brokerd/base/config.h"
#include "brokerd/cluster/fetcher.h"
#include "brokerd/cluster/isr_changes.h"
#include "brokerd/cluster/peer_token.h"
#include "brokerd/cluster/peer_watch.h"
#include "brokerd/meta/meta.h"

typedef struct ReplicationOptions
{
	struct ev_loop *loop;
	const BrokerConfig *config;
	PartitionTable *table;
	Meta *meta;
} ReplicationOptions;

typedef struct Replication
{
	ReplicationOptions opt;
	PeerSecret secret;
	int64_t broker_epoch; /* -1: not registered yet */
	Fetcher *fetcher;
	IsrChanges *isr_changes;
	PeerWatch *peers;
	ev_timer lag_check;
} Replication;

/* Hangs itself into the partition table.  NULL: out of memory. */
Replication *replication_new(const ReplicationOptions *opt);
void replication_free(Replication *r); /* NULL is fine */

/* This process has its epoch, and the secret that the brokers of the cluster share. */
void replication_registered(Replication *r, int64_t broker_epoch, const uint8_t *secret, size_t len);
/* Brokers came, went, moved, or are other processes. */
void replication_brokers_changed(Replication *r);

/* Nobody listens any more where it did, whatever PostgreSQL says so far. */
bool replication_is_gone(const Replication *r, int32_t broker);
/* Where brokers reach `broker`: its listener that has the name of this broker's first one, else its first.  NULL: none. */
const MetaEndpoint *replication_endpoint(const Replication *r, int32_t broker);

#endif
