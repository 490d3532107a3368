/*
 * leadership.h: what a leader knows of its followers: how far each has synced, who is in the ISR, and the one
 * change of the ISR that is under way.  Loop thread only.
 *
 * A follower's fetch offset is its synced end: it asks for more only when what it has is on its disk.  The high
 * watermark counts the maximal ISR (high_watermark.h): a member that is being added counts already, one that is
 * being removed still.
 *
 *     nothing ──▶ queued ──▶ in flight ──▶ nothing                  the reply says what the row is now
 *                                 └──────▶ unsettled ──▶ nothing     no reply: only a higher partition epoch, or
 *                                                                    a compare-and-set of our own that lands
 *                                                                    (hazards A2); until then both sides count
 */
#ifndef BROKERD_CLUSTER_LEADERSHIP_H
#define BROKERD_CLUSTER_LEADERSHIP_H

#include "brokerd/cluster/high_watermark.h"
#include "brokerd/cluster/partition.h"

typedef struct Follower
{
	int32_t id;
	bool in_isr;                           /* as PostgreSQL confirmed it last */
	bool adding, removing;                 /* by the change that is under way or unsettled */
	int64_t broker_epoch;                  /* of its last fetch; -1: none in this leadership */
	int64_t synced_end;                    /* -1: not heard of in this leadership */
	int64_t log_start;                     /* as its last fetch that named the partition said */
	int64_t joined_ms;                     /* the ISR; boot clock, 0: it was in when the leadership began */
	int64_t caught_up_ms;                  /* boot clock */
	int64_t last_fetch_ms, last_fetch_end; /* the leader's end at the fetch before */
} Follower;

typedef struct Leadership
{
	Partition *partition;
	PartitionTable *table;
	/* the change of the ISR (isr_changes.c) */
	bool queued, in_flight, unsettled;
	int32_t sent_epoch;             /* the partition epoch that it compares with; -1: nothing is out */
	int64_t retry_ms;               /* not before; boot clock */
	struct Leadership *prev, *next; /* of those that are queued */
	int32_t n;
	Follower followers[];
} Leadership;

/* Begin or go on with what the image says; followers that stay keep what is known of them. */
void leadership_apply(Leadership **lead_slot, Partition *p, const MetaPartition *meta, PartitionTable *t);
void leadership_free(Leadership *lead); /* NULL is fine */

/* The replica `id` as the leader knows it; NULL: it is none, or `lead` is NULL. */
Follower *leadership_find(Leadership *lead, int32_t id);

/* PostgreSQL says whether it is a member.  Who joins has replica.lag.time.max.ms from now on. */
void follower_set_in_isr(Follower *f, bool in_isr);

/* For hw_next(): fills `out` (room for META_MAX_LIST), returns how many; 0 for NULL. */
int leadership_ends(const Leadership *lead, HwReplica *out);
/* Not in the ISR nor on its way there, without all that is committed: its copying may be
 * throttled.  NULL is fine. */
bool leadership_lags(Leadership *lead, int32_t replica);
/* A follower at the end was caught up until now, when the end moves on.  NULL is fine. */
void leadership_before_append(Leadership *lead);

/*
 * A fetch of a replica arrived that asks for `offset` and whose log, which begins at `log_start`, does not diverge.
 * KERR_NONE, or NOT_LEADER_OR_FOLLOWER when it is no replica, or the fetch is from a process that has been replaced.
 */
int16_t partition_follower_fetched(PartitionTable *t, Partition *p, int32_t replica, int64_t broker_epoch,
								   int64_t log_start, int64_t offset);

/* Look at this partition's ISR; what has to change is queued (isr_changes.c). */
void leadership_consider(PartitionTable *t, Leadership *lead);

#endif
