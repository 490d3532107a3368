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
#include "brokerd/cluster/repair.h"
#include "brokerd/cluster/replica_duties.h"
#include "brokerd/cluster/throttle.h"
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
	ReplicaDuties *duties;
	Repair *repair;
	ev_timer lag_check;
	Throttle serving,
		fetching; /* throttled replicas: what this broker gives as leader, and takes as follower */
	/* for tenure.h; boot clock */
	int64_t last_turn_ms, paused_ms, peer_heartbeat_ms;
	struct PeerHeard *heard; /* by broker */
	int n_heard;
} Replication;

/* The last fetch of another broker, whatever it asked for. */
typedef struct PeerHeard
{
	int32_t broker;
	int64_t broker_epoch;
	int64_t ms; /* boot clock */
} PeerHeard;

/* Hangs itself into the partition table.  NULL: out of memory. */
Replication *replication_new(const ReplicationOptions *opt);
void replication_free(Replication *r); /* NULL is fine */

/* This process has its epoch, and the secret that the brokers of the cluster share. */
void replication_registered(Replication *r, int64_t broker_epoch, const uint8_t *secret, size_t len);
/* Brokers came, went, moved, or are other processes. */
void replication_brokers_changed(Replication *r);

/* Dynamic configs of the cluster or of this broker are other ones. */
void replication_configs_changed(Replication *r);

/* The image is complete. */
void replication_image_complete(Replication *r);

/* At the top of each turn of the loop, before anything that came in is looked at. */
void replication_turn(Replication *r);
/* How old the last confirmed heartbeat is, as peers are told it (ms). */
int32_t replication_postgres_age_ms(const Replication *r);
/* A follower's fetch came, and says how old its last confirmed heartbeat is (ms; -1 not known). */
void replication_heard_peer(Replication *r, int32_t broker, int64_t broker_epoch, int32_t postgres_age_ms);
/* When the process with that epoch fetched last, from any partition; -1 never. */
int64_t replication_last_fetch_ms(const Replication *r, int32_t broker, int64_t broker_epoch);
/* May a leader acknowledge on its word alone (tenure.h)? */
bool replication_may_ack_alone(const Replication *r);

bool replication_has_peers(const Replication *r); /* other brokers are serving */
/* Nobody listens any more where it did, whatever PostgreSQL says so far. */
bool replication_is_gone(const Replication *r, int32_t broker);
/* Where brokers reach `broker`: its listener that has the name of this broker's first one, else its first.  NULL: none. */
const MetaEndpoint *replication_endpoint(const Replication *r, int32_t broker);

#endif
