/*
 * peer_watch.h: is the process of another broker there?  A connection to each, on which nothing is said but one
 * question at its start: it ends the moment the process does, and when nobody listens there any more, PostgreSQL
 * may take the broker for dead at once instead of after the session timeout (hazards A15).  A hung process or
 * a cut network does not show here; those are found by the heartbeats.  Loop thread only.
 */
#ifndef BROKERD_CLUSTER_PEER_WATCH_H
#define BROKERD_CLUSTER_PEER_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct Replication;
typedef struct PeerWatch PeerWatch;

PeerWatch *peer_watch_new(struct Replication *r);
void peer_watch_free(PeerWatch *w);
/* Brokers came, went or moved. */
void peer_watch_update(PeerWatch *w);
bool peer_watch_has_any(const PeerWatch *w);
/* Nobody listens there, or it has not answered since a moment ago, when we heard of it or its connection ended. */
bool peer_watch_is_gone(const PeerWatch *w, int32_t broker);

#endif
