/*
 * repair_rule.h: may this broker give up the log of a partition that it cannot use any more?  Pure: no log, no
 * socket, no clock.
 *
 * Two steps, and both look at the metadata image:
 *
 *     resign     PostgreSQL is asked to let another lead, and to take this broker out of the ISR
 *     set aside  PostgreSQL said that nothing counts on this log any more, and the image has come to that: the
 *                log goes out of the way and the replica is fetched again from its leader
 *
 * The safety is in the second: a member of the ISR, or one that is eligible to lead (which there is only while
 * the ISR is below min.insync.replicas), must never come up with an empty log, or it is elected and what was
 * acknowledged is gone.  The last good copy is never among them.
 */
#ifndef BROKERD_CLUSTER_REPAIR_RULE_H
#define BROKERD_CLUSTER_REPAIR_RULE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct RepairInput
{
	bool is_broken; /* the log is in error, and does not heal by itself (log_is_broken) */
	bool is_stuck;  /* the disk hangs: leaderships are given up, no log is */
	bool is_replica;
	bool is_leading;
	bool is_leader_serving; /* another broker leads, and is there */
	bool in_isr;
	int n_replicas;
	int isr_size;
	int min_isr;           /* as it counts for so many replicas */
	int32_t leader_epoch;  /* of the image */
	int32_t out_epoch;     /* in which PostgreSQL said that nothing counts on this log; 0 never */
	int64_t since_last_ms; /* that a log of this partition was set aside; -1 never by this process */
	int set_aside;         /* how often, by this process */
} RepairInput;

bool repair_should_resign(const RepairInput *in);
bool repair_may_set_aside(const RepairInput *in);

/* A disk that breaks every log anew is not to be filled with what is set aside. */
#define REPAIR_PAUSE_FIRST_MS 60000
#define REPAIR_PAUSE_MOST_MS  3600000

#endif
