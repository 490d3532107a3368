/*
 * fetch_lane.h: one connection to a leader, and the fetch session on it.
 *
 * A session names only what changed: a partition is listed when it is new here, or when what it got is synced and
 * it wants more (its fetch offset is the synced end); the leader sends what listed partitions want when there is
 * something.  A request may wait at the leader; when something is to be listed meanwhile, a second one goes
 * out and the leader answers the first at once.
 *
 *     listed, waits at the leader ──▶ data came ──▶ appended ──▶ synced ──▶ changed ──▶ listed
 *                                  └─▶ an error ──▶ not before a while ─────▶ changed ──┘
 */
#ifndef BROKERD_CLUSTER_FETCH_LANE_H
#define BROKERD_CLUSTER_FETCH_LANE_H

#include <ev.h>

#include "brokerd/cluster/fetcher.h"
#include "brokerd/cluster/replication.h"
#include "brokerd/net/client.h"
#include "wire/codec.h"
#include "wire/messages.h"

typedef struct FetchLane FetchLane;

typedef struct Follow
{
	Partition *partition;
	FetchLane *lane;
	int32_t leader_epoch;  /* that it asks with */
	bool listed;           /* the session has it */
	int32_t listed_in;     /* the request that listed it last */
	bool changed;          /* on lane->changed: to be listed */
	int64_t awaiting;      /* synced end before which it is not listed; -1 none */
	int64_t not_before_ms; /* after an error; boot clock, 0 none */
	int failures;          /* in a row */
	bool caught_up;        /* to the leader's high watermark, as of its last answer: never throttled */
	bool agreed;           /* the leader answered in this leader epoch, and nothing was cut since */
	int64_t leader_high_watermark;
	int64_t read_ms;            /* a consumer's last fetch here; boot clock, -1 none */
	bool read_told;             /* the session knows that consumers read here */
	struct Follow *prev, *next; /* lane->follows */
	struct Follow *changed_prev, *changed_next;
} Follow;

/* A partition that the session still has and the lane does not. */
typedef struct Forgotten
{
	WUuid topic_id;
	int32_t partition;
} Forgotten;

struct FetchLane
{
	Replication *r;
	FetchLane *next;
	int32_t leader;
	bool in_isr; /* of partitions in the ISR; else of those that catch up */
	NetClient *client;
	int64_t leader_broker_epoch; /* of the process that it is connected to */
	int32_t session_id;
	int32_t session_epoch;
	int32_t correlation_id; /* of the next request */
	int in_flight;
	int64_t heard_ms; /* the leader's last answer; boot clock */
	int awaiting;     /* follows whose data is not synced yet */
	Follow *follows, *changed;
	Forgotten *forgotten;
	int n_forgotten, cap_forgotten;
	ev_timer wake; /* connect again, list what had an error, go on though a sync is slow */
	ev_timer timeout;
	int backoff_ms;
	bool taking; /* an answer, which the arena holds */
	bool told;   /* that the leader cannot be reached */
	WireWriter writer;
	Arena arena;
};

FetchLane *fetch_lane_new(Replication *r, int32_t leader, bool in_isr);
void fetch_lane_free(FetchLane *lane);

void fetch_lane_add(FetchLane *lane, Follow *follow);
void fetch_lane_remove(Follow *follow);
/* It is to be listed (again). */
void fetch_lane_list(Follow *follow);
/* What it appended is synced, or will not be. */
void fetch_lane_synced(Follow *follow);
/* Send what there is to send, if it is time. */
void fetch_lane_kick(FetchLane *lane);
void fetch_lane_disconnect(FetchLane *lane, const char *why);
/* Not before a while, longer with every failure in a row. */
void fetch_lane_delay(Follow *follow);

/* fetch_answer.c: what the leader says of one partition. */
void fetch_lane_take(FetchLane *lane, const WUuid *topic_id, const FetchResponseResponsesPartitions *part,
					 int32_t correlation_id, Frame *frame);

#endif
