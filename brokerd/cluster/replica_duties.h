/*
 * replica_duties.h: what a broker tells PostgreSQL of its replicas besides ISRs.
 *
 * Claims: after PostgreSQL went backwards nothing is decided on a partition until each of its replicas has said
 * what it knows (hazards A1); so this broker says it once in every incarnation of PostgreSQL.
 *
 * Dropped replicas: a log of a topic that exists is deleted only when PostgreSQL says that this broker's replica
 * was taken from it by a decision, and the image agrees (hazards A7).  Loop thread only.
 */
#ifndef BROKERD_CLUSTER_REPLICA_DUTIES_H
#define BROKERD_CLUSTER_REPLICA_DUTIES_H

struct Replication;
typedef struct ReplicaDuties ReplicaDuties;

ReplicaDuties *replica_duties_new(struct Replication *r);
void replica_duties_free(ReplicaDuties *d); /* replies that are out are ignored */
/*
 * PostgreSQL went backwards, and its rows are about to be read: from here on this process claims what it knows now.
 * One that began later claims to know nothing but its logs.
 */
void replica_duties_remember(ReplicaDuties *d);
/* The image is complete: do what is due.  Again is cheap. */
void replica_duties_check(ReplicaDuties *d);

#endif
