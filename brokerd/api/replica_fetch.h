/*
 * replica_fetch.h: Fetch as a follower sends it (KIP-227 sessions, KIP-903 replica state).
 *
 * A follower's session is its connection.  It shows once who it is (cluster/peer_token.h), and names a partition
 * when it is new to the session or when what it got of it is synced; then the partition's progress counts, and the
 * partition is *due*.  It is due again when its log or its high watermark moves.  Only what is due is looked
 * at, however many partitions the session has; records that were sent are not sent again before the
 * follower names the partition again.
 *
 *     named ──▶ due ──▶ looked at ──▶ records, an error, a divergence ──▶ answered, quiet until named
 *                ▲         └────▶ nothing yet, or only the high watermark ──▶ quiet until something moves ─┐
 *                └──────────────────────────────────────────────────────────────────────────────────────┘
 *
 * A second request of the session ends the wait of the first.  A high watermark alone is no answer: it goes with the
 * next one.  It is where the follower has said which one it knows (read_high_watermark), because consumers read there
 * (KIP-392): else they would see a record as late as the next one comes, and to tell it always would be an answer more
 * for each record.
 */
#ifndef BROKERD_API_REPLICA_FETCH_H
#define BROKERD_API_REPLICA_FETCH_H

#include "brokerd/api/api.h"

/* The request says that a replica sends it; who it is, is checked here. */
void replica_fetch_handle(ApiCall *call);
/* NetOptions.on_close. */
void replica_fetch_conn_closed(Broker *broker, Conn *conn);
/* At the end of a loop turn: answer those for which something came. */
void replica_fetch_run_woken(Broker *broker);
void replica_fetch_answer_parked(Broker *broker);

#endif
