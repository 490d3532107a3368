/*
 * follower_read.h: when a follower answers consumers itself (KIP-392).  Pure: no log, no socket, no clock.
 *
 * It does as long as it would be missed in the ISR: this process is in the cluster, the replica is in the ISR, the leader
 * has said something within replica.lag.time.max.ms, and has found in this leader epoch that the logs agree (before
 * that, what is here may be cut off).  Otherwise the consumer goes back to the leader, which both errors make it do.
 *
 *     log start       high watermark        end         the leader's high watermark
 *     |--- records ---|--- it waits here ---|           |
 *      OUT_OF_RANGE before                   NOT_AVAILABLE up to there, OUT_OF_RANGE behind
 *
 * Consumers take OFFSET_OUT_OF_RANGE from a follower as "ask the leader"; only the leader's own makes them reset.
 */
#ifndef BROKERD_CLUSTER_FOLLOWER_READ_H
#define BROKERD_CLUSTER_FOLLOWER_READ_H

#include <stdbool.h>
#include <stdint.h>

typedef struct FollowerReadInput
{
	bool registered; /* as this process, and not fenced */
	bool in_isr;
	bool agreed; /* the leader has answered in this leader epoch, and nothing is being cut since */
	int64_t now_ms;
	int64_t heard_ms; /* the leader's last answer, whatever it was about; same clock */
	int64_t lag_max_ms;
} FollowerReadInput;

/* KERR_NONE, NOT_LEADER_OR_FOLLOWER, or OFFSET_NOT_AVAILABLE when it is a matter of a moment. */
int16_t follower_may_serve(const FollowerReadInput *in);

typedef struct FollowerOffsets
{
	int64_t log_start;
	int64_t end;                   /* of the log here */
	int64_t leader_high_watermark; /* as the leader said last; may be beyond `end` */
} FollowerOffsets;

/* KERR_NONE: records from `offset` on are here, or to be waited for. */
int16_t follower_check_offset(const FollowerOffsets *at, int64_t offset);

#endif
