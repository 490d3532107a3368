/*
 * isr.h: who belongs in the in-sync replicas.  Pure: no log, no socket, no clock.
 *
 * A follower joins once it has everything that was committed, and everything from before this leader's epoch
 * (or an acknowledged record of the epoch before could be missing on it), and fetches: below min.insync.replicas
 * the high watermark stands still where a follower that hangs does, and it would join as often as it leaves.  It
 * leaves when it has not been at the leader's end for replica.lag.time.max.ms; standing at the end of a log
 * that nobody writes to is being there.
 *
 *     leader   |-------- committed --------|---- appended ----|
 *                           epoch start ^  HW                 end
 *     joins    |---------------------------->
 *     stays    at `end` within the last replica.lag.time.max.ms
 */
#ifndef BROKERD_CLUSTER_ISR_H
#define BROKERD_CLUSTER_ISR_H

#include <stdbool.h>
#include <stdint.h>

typedef struct IsrInput
{
	int64_t high_watermark;
	int64_t epoch_start; /* of the leader's epoch */
	int64_t leader_end;  /* appended */
	int64_t now_ms;
	int64_t lag_max_ms; /* replica.lag.time.max.ms */
} IsrInput;

typedef struct IsrFollower
{
	bool in_isr;
	bool is_live;         /* registered, not fenced, in the broker epoch of its last fetch */
	int64_t synced_end;   /* -1: not heard of in this leader epoch */
	int64_t fetched_ms;   /* its last fetch; -1: none */
	int64_t caught_up_ms; /* when it was last at the leader's end, or joined, or the leadership began */
} IsrFollower;

/* Whether it belongs in the ISR now. */
bool isr_belongs(const IsrInput *in, const IsrFollower *f);

#endif
