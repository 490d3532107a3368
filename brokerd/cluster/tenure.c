#include "brokerd/cluster/tenure.h"

bool
tenure_is_sure(const TenureInput *in)
{
	int64_t half = in->session_timeout_ms / 2;
	bool peer_has_postgres = in->peer_heartbeat_ms >= 0 && in->now_ms - in->peer_heartbeat_ms <= half;

	/* A heartbeat that was sent after the pause: nothing was taken from this broker up to then. */
	if (in->paused_ms >= 0 && in->heartbeat_ms < in->paused_ms)
		/* Who has PostgreSQL says so within that time; if nobody does, it is away for all. */
		return !peer_has_postgres && in->now_ms - in->paused_ms > in->session_timeout_ms;
	return in->now_ms - in->heartbeat_ms <= half || !peer_has_postgres;
}
