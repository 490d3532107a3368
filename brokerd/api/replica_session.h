/*
 * replica_session.h: what a follower's connection fetches; see replica_fetch.h.  Loop thread only.
 */
#ifndef BROKERD_API_REPLICA_SESSION_H
#define BROKERD_API_REPLICA_SESSION_H

#include <uthash.h>

#include "brokerd/api/api.h"

typedef struct ReplicaSession ReplicaSession;

typedef struct ReplicaKey
{
	WUuid topic_id;
	int32_t partition;
} ReplicaKey;

/* One partition of a session. */
typedef struct ReplicaPart
{
	ReplicaKey key;
	ReplicaSession *session;
	PartitionWaiter waiter;
	bool due;
	struct ReplicaPart *due_prev, *due_next;
	/* as the follower named it last */
	int64_t fetch_offset;
	int32_t max_bytes;
	int32_t leader_epoch;
	int16_t error; /* found when it was named; told once */
	Divergence divergence;
	int32_t named_in; /* the session's request that named it last */
	bool answered;    /* records or an error went out: quiet until it is named again */
	bool behind;      /* on session->behind */
	struct ReplicaPart *behind_prev, *behind_next;
	bool held; /* on session->held */
	struct ReplicaPart *held_prev, *held_next;
	int64_t told_high_watermark, told_log_start; /* -1: nothing yet */
	bool read_there; /* consumers read it at the follower: a high watermark alone is an answer */
	UT_hash_handle hh;
} ReplicaPart;

struct ReplicaSession
{
	Broker *broker;
	int32_t replica_id;
	int64_t replica_epoch;
	int32_t id;
	int32_t epoch; /* of the next request */
	ReplicaPart *parts;
	ReplicaPart *due;
	ReplicaPart *behind; /* the follower does not know their high watermark */
	ReplicaPart *held;   /* throttled: due when `release` comes */
	ev_timer release;
	struct ReplicaFetch *ops;    /* under way */
	struct ReplicaFetch *parked; /* the newest of them; NULL: none */
	bool woken;                  /* on broker->replica_woken */
	ReplicaSession *woken_next;
};

/* NULL: out of memory. */
ReplicaSession *replica_session_new(Broker *broker, int32_t replica_id, int64_t replica_epoch);
void replica_session_free(ReplicaSession *s);
/* Forget all partitions: a full request begins anew. */
void replica_session_reset(ReplicaSession *s);

/* Named in a request: its progress counts, and it is due. */
void replica_session_put(ReplicaSession *s, const WUuid *topic_id, const FetchRequestTopicsPartitions *want);
void replica_session_forget(ReplicaSession *s, const WUuid *topic_id, int32_t partition);
ReplicaPart *replica_session_find(ReplicaSession *s, const ReplicaKey *key);
/* Its partition, or NULL when there is none by now. */
Partition *replica_part_partition(const ReplicaPart *part);

void replica_part_due(ReplicaPart *part);
void replica_part_quiet(ReplicaPart *part);
/* It is throttled: due after a while, or when it moves. */
void replica_part_hold(ReplicaPart *part, int64_t ms);
/* Its high watermark or log start is to be told with the next answer, or was told. */
void replica_part_behind(ReplicaPart *part, bool behind);

#endif
