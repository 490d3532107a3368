#include "brokerd/cluster/leadership.h"

#include <stdlib.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/cluster/internal.h"
#include "brokerd/cluster/isr.h"
#include "brokerd/cluster/isr_changes.h"
#include "brokerd/cluster/replication.h"
#include "wire/errors.h"

Follower *
leadership_find(Leadership *lead, int32_t id)
{
	for (int32_t i = 0; lead != NULL && i < lead->n; i++)
		if (lead->followers[i].id == id)
			return &lead->followers[i];
	return NULL;
}

void
leadership_free(Leadership *lead)
{
	if (lead == NULL)
		return;
	isr_changes_forget(lead);
	free(lead);
}

/* The same replicas as before? */
static bool
same_followers(const Leadership *lead, const MetaPartition *meta, int32_t me)
{
	const int32_t *ids = meta_partition_replicas(meta);
	int32_t n = 0;

	if (lead == NULL)
		return false;
	for (int i = 0; i < meta->n_replicas; i++)
	{
		if (ids[i] == me)
			continue;
		if (n == lead->n || lead->followers[n].id != ids[i])
			return false;
		n++;
	}
	return n == lead->n;
}

static Leadership *
begin(Partition *p, const MetaPartition *meta, PartitionTable *t, Leadership *old)
{
	const int32_t *ids = meta_partition_replicas(meta);
	Leadership *lead = calloc(1, sizeof(*lead) + sizeof(Follower) * meta->n_replicas);

	if (lead == NULL)
	{
		log_msg(LOG_ERROR, "cluster", "out of memory for the followers of %s-%d", p->topic->name, p->index);
		return NULL;
	}
	lead->partition = p;
	lead->table = t;
	lead->sent_epoch = -1;
	for (int i = 0; i < meta->n_replicas; i++)
	{
		Follower *known = leadership_find(old, ids[i]);

		if (ids[i] == t->opt.node_id)
			continue;
		lead->followers[lead->n++] = known != NULL ? *known
												   : (Follower){.id = ids[i],
																.broker_epoch = -1,
																.synced_end = -1,
																.caught_up_ms = clock_boot_ms(),
																.last_fetch_ms = -1,
																.last_fetch_end = -1};
	}
	return lead;
}

void
follower_set_in_isr(Follower *f, bool in_isr)
{
	if (in_isr && !f->in_isr)
		f->caught_up_ms = f->joined_ms = clock_boot_ms();
	f->in_isr = in_isr;
}

void
leadership_apply(Leadership **lead_slot, Partition *p, const MetaPartition *meta, PartitionTable *t)
{
	Leadership *lead = *lead_slot;
	bool begins = lead == NULL;

	if (!same_followers(lead, meta, t->opt.node_id))
	{
		*lead_slot = begin(p, meta, t, lead);
		leadership_free(lead);
		lead = *lead_slot;
		if (lead == NULL)
			return;
	}
	isr_changes_heard(lead, meta->partition_epoch);
	for (int32_t i = 0; i < lead->n; i++)
	{
		follower_set_in_isr(&lead->followers[i], meta_partition_in_isr(meta, lead->followers[i].id));
		if (begins)
			lead->followers[i].joined_ms = 0;
	}
	leadership_consider(t, lead);
}

int
leadership_ends(const Leadership *lead, HwReplica *out)
{
	if (lead == NULL)
		return 0;
	for (int32_t i = 0; i < lead->n; i++)
	{
		const Follower *f = &lead->followers[i];

		out[i] = (HwReplica){.counts = f->in_isr || f->adding, .synced_end = f->synced_end};
	}
	return lead->n;
}

bool
leadership_lags(Leadership *lead, int32_t replica)
{
	const Follower *f = leadership_find(lead, replica);

	return f != NULL && !f->in_isr && !f->adding && f->synced_end < lead->partition->high_watermark;
}

void
leadership_before_append(Leadership *lead)
{
	int64_t end;

	if (lead == NULL)
		return;
	end = log_appended_end(lead->partition->log);
	for (int32_t i = 0; i < lead->n; i++)
		if (lead->followers[i].synced_end >= end)
			lead->followers[i].caught_up_ms = clock_boot_ms();
}

/* Kafka's rule: at the end now, or beyond what was the end at the fetch before, so also behind a moving end. */
static void
note_fetch(Follower *f, int64_t offset, int64_t leader_end)
{
	int64_t now = clock_boot_ms();

	if (offset >= leader_end)
		f->caught_up_ms = now;
	else if (f->last_fetch_ms >= 0 && offset >= f->last_fetch_end && f->last_fetch_ms > f->caught_up_ms)
		f->caught_up_ms = f->last_fetch_ms;
	f->last_fetch_ms = now;
	f->last_fetch_end = leader_end;
	f->synced_end = offset;
}

int16_t
partition_follower_fetched(PartitionTable *t, Partition *p, int32_t replica, int64_t broker_epoch,
						   int64_t log_start, int64_t offset)
{
	Follower *f = leadership_find(p->lead, replica);

	if (f == NULL || broker_epoch < f->broker_epoch)
		return KERR_NOT_LEADER_OR_FOLLOWER;
	if (broker_epoch > f->broker_epoch)
	{
		/* Another process: what the one before had fetched says nothing of this one's disk (hazards A3). */
		f->broker_epoch = broker_epoch;
		f->last_fetch_ms = f->last_fetch_end = -1;
	}
	f->log_start = log_start;
	note_fetch(f, offset, log_appended_end(p->log));
	partition_advance(t, p);
	if (p->lead != NULL)
		leadership_consider(t, p->lead);
	return KERR_NONE;
}

/* ---- the ISR ---- */

static bool
is_live(const PartitionTable *t, const Follower *f)
{
	const MetaBroker *b = meta_image_broker(t->opt.image, f->id);

	return b != NULL && meta_broker_is_serving(b) && b->epoch == f->broker_epoch;
}

void
leadership_consider(PartitionTable *t, Leadership *lead)
{
	Partition *p = lead->partition;
	bool changes = false;
	IsrInput in;

	if (!p->leading || lead->queued || lead->in_flight || lead->unsettled || p->log == NULL ||
		t->replication == NULL || clock_boot_ms() < lead->retry_ms)
		return;
	in = (IsrInput){.high_watermark = p->high_watermark,
					.epoch_start = p->epoch_start,
					.leader_end = log_appended_end(p->log),
					.now_ms = clock_boot_ms(),
					.lag_max_ms = t->replication->opt.config->replica_lag_time_max_ms};
	for (int32_t i = 0; i < lead->n; i++)
	{
		Follower *f = &lead->followers[i];
		IsrFollower as = {.in_isr = f->in_isr,
						  .is_live = is_live(t, f),
						  .synced_end = f->synced_end,
						  /* Of any partition: one to which nothing is written is not named again. */
						  .fetched_ms = replication_last_fetch_ms(t->replication, f->id, f->broker_epoch),
						  .caught_up_ms = f->caught_up_ms};
		bool belongs = isr_belongs(&in, &as);

		f->adding = belongs && !f->in_isr;
		f->removing = !belongs && f->in_isr;
		changes = changes || belongs != f->in_isr;
	}
	if (changes)
		isr_changes_want(t->replication->isr_changes, lead);
}
