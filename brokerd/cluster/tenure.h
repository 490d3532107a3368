/*
 * tenure.h: may a leader acknowledge what only it has (acks=1, acks=0)?  Pure; hazards A11.
 *
 * With acks=all a leader that was replaced does no harm: who replaced it has all that it acknowledged, and
 * no longer fetches from it.  acks=1 is its word alone.  So after a pause of more than half a session timeout, or
 * when its heartbeats are that old while another broker has PostgreSQL, it may have been replaced: it takes
 * nothing on its own word until a heartbeat has come back.  When nobody has PostgreSQL, nobody was elected.
 */
#ifndef BROKERD_CLUSTER_TENURE_H
#define BROKERD_CLUSTER_TENURE_H

#include <stdbool.h>
#include <stdint.h>

/* Boot clock, milliseconds. */
typedef struct TenureInput
{
	int64_t now_ms;
	int64_t session_timeout_ms;
	int64_t heartbeat_ms; /* when the last confirmed heartbeat was sent; -1 none */
	int64_t paused_ms;    /* when the loop went on after its last pause; -1 never */
	int64_t
		peer_heartbeat_ms; /* the newest heartbeat of another broker that this one has heard of; -1 none */
} TenureInput;

bool tenure_is_sure(const TenureInput *in);

#endif
