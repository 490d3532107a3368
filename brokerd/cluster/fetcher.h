/*
 * fetcher.h: this broker as a follower.  Each partition that it follows is a Follow; those of one leader share
 * two connections (lanes): one for partitions in the ISR, one for those that catch up, so that a long
 * transfer never stands in front of what producers wait for.  Loop thread only.
 */
#ifndef BROKERD_CLUSTER_FETCHER_H
#define BROKERD_CLUSTER_FETCHER_H

#include "brokerd/cluster/partition.h"

struct Replication;
typedef struct Fetcher Fetcher;

Fetcher *fetcher_new(struct Replication *r);
void fetcher_free(Fetcher *f); /* nothing is followed any more */

/* Follow p->leader in p->leader_epoch.  Again is fine: what did not change goes on. */
void fetcher_follow(Fetcher *f, Partition *p, bool in_isr);
void fetcher_unfollow(Partition *p);
/* Does this follower answer consumers (follower_read.h)? */
int16_t fetcher_check_reader(const Partition *p);
/* And one that reads from `offset` on? */
int16_t fetcher_check_offset(const Partition *p, int64_t offset);
/* A consumer reads here: for a while the leader is asked to tell each high watermark when it moves. */
void fetcher_note_reader(Partition *p);
/* The log's ends moved, or it failed or healed. */
void fetcher_log_changed(Partition *p);
/* Addresses may be others, or this broker has another epoch: connections that are wrong now are made anew. */
void fetcher_reconnect(Fetcher *f, bool all);

#endif
