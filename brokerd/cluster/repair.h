/*
 * repair.h: logs that cannot be used any more are set aside and fetched again from their leader (hazards A9), and a
 * disk that hangs gives up its leaderships (A26).  What may be given up says repair_rule.h.  Loop thread only.
 *
 *     log fails ─▶ not followed any more ─▶ resign_partitions_1 ─▶ "is out", in a new leader epoch
 *                                                                      │ the image comes to that epoch
 *                      followed from the leader's start ◀─ new log ◀─ set aside: TOPIC-PARTITION.UUID-corrupt
 *
 * The new leader epoch is what makes it safe: the leader forgets what it had heard of this follower, and an addition
 * to the ISR that is under way compares with the old one.  So a broken log is not followed from the moment it
 * breaks until it is replaced.
 */
#ifndef BROKERD_CLUSTER_REPAIR_H
#define BROKERD_CLUSTER_REPAIR_H

#include <stdbool.h>

struct Replication;
typedef struct Repair Repair;

Repair *repair_new(struct Replication *r);
void repair_free(Repair *repair); /* a reply that is out is ignored */

/* Look at all logs and do what is due.  Called every second or so; again is cheap. */
void repair_check(Repair *repair);
/* A log broke: look soon. */
void repair_log_broke(Repair *repair);
/* A sync has not returned for 10 s (LogManagerOptions.on_stuck), or the disk is well again. */
void repair_disk_stuck(Repair *repair, bool stuck);

#endif
