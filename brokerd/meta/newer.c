#include "brokerd/meta/newer.h"

enum
{
	HEARTBEATS = 4 /* that have to pass without it */
};

void
newer_heard(NewerPostgres *n, int64_t incarnation, int64_t age_ms, int64_t timeout_ms, int64_t now_ms)
{
	bool is_forgotten = n->incarnation < 0 || now_ms - n->last_ms > timeout_ms;

	if (incarnation < 0 || age_ms < 0 || age_ms > timeout_ms ||
		(incarnation < n->incarnation && !is_forgotten))
		return;
	if (incarnation != n->incarnation || is_forgotten)
		n->since_ms = now_ms;
	n->incarnation = incarnation;
	n->last_ms = now_ms;
}

bool
newer_exists(const NewerPostgres *n, int64_t incarnation, int64_t timeout_ms, int64_t now_ms)
{
	return n->incarnation > incarnation && now_ms - n->last_ms <= timeout_ms;
}

bool
newer_is_elsewhere(const NewerPostgres *n, int64_t incarnation, int64_t interval_ms, int64_t timeout_ms,
				   int64_t now_ms)
{
	return newer_exists(n, incarnation, timeout_ms, now_ms) &&
		   now_ms - n->since_ms >= HEARTBEATS * interval_ms;
}
