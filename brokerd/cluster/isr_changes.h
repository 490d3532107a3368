/*
 * isr_changes.h: carries changes of ISRs to PostgreSQL: many partitions a call, one change in flight a
 * partition, each a compare-and-set on the partition epoch that brings every member's broker epoch.
 *
 * A change whose outcome is not known stays counted on both sides (maximal ISR) until it is settled: by a
 * higher partition epoch, or by a compare-and-set of our own that lands, after which the old one cannot
 * (hazards A2).  Reading an unchanged row settles nothing.  Loop thread only.
 */
#ifndef BROKERD_CLUSTER_ISR_CHANGES_H
#define BROKERD_CLUSTER_ISR_CHANGES_H

#include "brokerd/cluster/leadership.h"
#include "brokerd/meta/meta.h"

struct ev_loop;

typedef struct IsrChanges IsrChanges;

IsrChanges *isr_changes_new(struct ev_loop *loop, Meta *meta, PartitionTable *t);
/* Replies that are still out are ignored. */
void isr_changes_free(IsrChanges *c);

/* Some follower has `adding` or `removing` set. */
void isr_changes_want(IsrChanges *c, Leadership *lead);
/* The leadership ends. */
void isr_changes_forget(Leadership *lead);
/* The row has this partition epoch: what compares with an older one has landed, or cannot any more. */
void isr_changes_heard(Leadership *lead, int32_t partition_epoch);

#endif
