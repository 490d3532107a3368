/*
 * high_watermark.h: what the high watermark becomes.  Pure: no log, no socket, no clock.
 *
 * The high watermark (HW) is the first offset that is not known to be on every replica that can be elected
 * without loss.  Only *synced* ends count (hazards A9f).  It counts the maximal ISR: members of the
 * ISR that PostgreSQL last confirmed, plus any whose removal has not landed or whose addition is under way
 * (hazards A2), and it stands still while the confirmed ISR is below min.insync.replicas (hazards A13).
 */
#ifndef BROKERD_CLUSTER_HIGH_WATERMARK_H
#define BROKERD_CLUSTER_HIGH_WATERMARK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct HwReplica
{
	bool counts;        /* member of the maximal ISR */
	int64_t synced_end; /* -1: not heard of in this leader epoch */
} HwReplica;

typedef struct HwInput
{
	int64_t current;
	int64_t leader_synced_end;
	int isr_size;               /* confirmed, the leader included */
	int min_isr;                /* min.insync.replicas */
	int n_assigned;             /* replicas of the partition, the leader included */
	const HwReplica *followers; /* without the leader */
	int n_followers;
} HwInput;

/* min.insync.replicas cannot ask for more replicas than a partition has (Kafka: effectiveMinIsr). */
int hw_effective_min_isr(int min_isr, int n_assigned);
/* Never below in->current. */
int64_t hw_next(const HwInput *in);

#endif
