/*
 * truncation.h: where a follower cuts its log when the leader says that they diverge.  Pure.
 *
 * The leader names the largest epoch that both can have, and where that epoch ends in its log.
 *
 *     leader     epoch 3: 0..40     epoch 5: 40..            follower asks with (last epoch 4, end 60)
 *     follower   epoch 3: 0..50     epoch 4: 50..60          leader: diverging (3, 40)     cut at 40
 *
 *     leader     epoch 2: 0..20     epoch 6: 20..            follower asks with (last epoch 4, end 60)
 *     follower   epoch 1: 0..30     epoch 4: 30..60          leader: diverging (2, 20)     it has no epoch 2:
 *                                                            what it has below epoch 2 ends at 30; cut at 30,
 *                                                            and the next fetch brings it nearer
 */
#ifndef BROKERD_CLUSTER_TRUNCATION_H
#define BROKERD_CLUSTER_TRUNCATION_H

#include <stdint.h>

typedef struct TruncationInput
{
	int32_t leader_epoch; /* the diverging epoch, and its end in the leader's log */
	int64_t leader_end;
	int32_t own_epoch; /* the largest epoch <= leader_epoch in this log, and its end; -1 none */
	int64_t own_end;
	int64_t log_end; /* of this log */
} TruncationInput;

/* The new log end, never beyond the present one. */
int64_t truncation_point(const TruncationInput *in);

#endif
