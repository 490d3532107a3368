#include "brokerd/cluster/fetcher.h"

#include <stdlib.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/cluster/fetch_lane.h"
#include "brokerd/cluster/follower_read.h"

struct Fetcher
{
	Replication *r;
	FetchLane *lanes;
};

Fetcher *
fetcher_new(Replication *r)
{
	Fetcher *f = calloc(1, sizeof(*f));

	if (f != NULL)
		f->r = r;
	return f;
}

void
fetcher_free(Fetcher *f)
{
	if (f == NULL)
		return;
	while (f->lanes != NULL)
	{
		FetchLane *lane = f->lanes;

		f->lanes = lane->next;
		fetch_lane_free(lane);
	}
	free(f);
}

/* Lanes stay once they are made: a broker that led once is likely to lead again. */
static FetchLane *
lane_to(Fetcher *f, int32_t leader, bool in_isr)
{
	FetchLane *lane = f->lanes;

	while (lane != NULL && (lane->leader != leader || lane->in_isr != in_isr))
		lane = lane->next;
	if (lane != NULL)
		return lane;
	lane = fetch_lane_new(f->r, leader, in_isr);
	if (lane == NULL)
		return NULL;
	lane->next = f->lanes;
	f->lanes = lane;
	return lane;
}

void
fetcher_follow(Fetcher *f, Partition *p, bool in_isr)
{
	Follow *follow = p->follow;

	if (follow != NULL && follow->lane->leader == p->leader && follow->lane->in_isr == in_isr &&
		follow->leader_epoch == p->leader_epoch)
		return;
	if (follow == NULL)
	{
		follow = calloc(1, sizeof(*follow));
		if (follow == NULL)
		{
			log_msg(LOG_ERROR, "cluster", "out of memory for following %s-%d", p->topic->name, p->index);
			return;
		}
		follow->partition = p;
		follow->awaiting = follow->read_ms = -1;
		p->follow = follow;
	}
	if (follow->lane == NULL || follow->lane->leader != p->leader || follow->lane->in_isr != in_isr)
	{
		FetchLane *lane = lane_to(f, p->leader, in_isr);

		if (follow->lane != NULL)
			fetch_lane_remove(follow);
		if (lane == NULL)
		{
			free(follow);
			p->follow = NULL;
			return;
		}
		fetch_lane_add(lane, follow);
	}
	if (follow->leader_epoch != p->leader_epoch)
		follow->agreed = false;
	follow->leader_epoch = p->leader_epoch;
	follow->not_before_ms = 0;
	follow->failures = 0;
	/* A leader until now may still have writes under way. */
	if (log_synced_end(p->log) < log_appended_end(p->log) && follow->awaiting < 0)
	{
		follow->awaiting = log_appended_end(p->log);
		follow->lane->awaiting++;
	}
	if (follow->awaiting < 0)
		fetch_lane_list(follow);
	fetch_lane_kick(follow->lane);
}

void
fetcher_unfollow(Partition *p)
{
	if (p->follow == NULL)
		return;
	fetch_lane_remove(p->follow);
	free(p->follow);
	p->follow = NULL;
}

int16_t
fetcher_check_reader(const Partition *p)
{
	const Follow *follow = p->follow;
	const Replication *r = follow->lane->r;
	const MetaBroker *me = meta_image_broker(meta_image(r->opt.meta), r->opt.config->node_id);
	FollowerReadInput in = {
		.registered = me != NULL && meta_broker_is_serving(me) && me->epoch == r->broker_epoch,
		.in_isr = follow->lane->in_isr,
		.agreed = follow->agreed,
		.now_ms = clock_boot_ms(),
		.heard_ms = follow->lane->heard_ms,
		.lag_max_ms = r->opt.config->replica_lag_time_max_ms,
	};

	return follower_may_serve(&in);
}

int16_t
fetcher_check_offset(const Partition *p, int64_t offset)
{
	FollowerOffsets at = {.log_start = log_start_offset(p->log),
						  .end = log_appended_end(p->log),
						  .leader_high_watermark = p->follow->leader_high_watermark};

	return follower_check_offset(&at, offset);
}

void
fetcher_note_reader(Partition *p)
{
	Follow *follow = p->follow;

	follow->read_ms = clock_boot_ms();
	if (follow->read_told || follow->awaiting >= 0)
		return; /* when what it got is synced, it says so with the next request */
	fetch_lane_list(follow);
	fetch_lane_kick(follow->lane);
}

void
fetcher_log_changed(Partition *p)
{
	Follow *follow = p->follow;

	if (follow->awaiting >= 0 && (log_synced_end(p->log) >= follow->awaiting ||
								  log_appended_end(p->log) < follow->awaiting || log_error(p->log) != NULL))
		fetch_lane_synced(follow);
}

void
fetcher_reconnect(Fetcher *f, bool all)
{
	for (FetchLane *lane = f->lanes; lane != NULL; lane = lane->next)
	{
		const MetaBroker *b = meta_image_broker(meta_image(f->r->opt.meta), lane->leader);

		if (all || b == NULL || b->epoch != lane->leader_broker_epoch)
			fetch_lane_disconnect(lane, NULL);
		fetch_lane_kick(lane);
	}
}
