#include "brokerd/cluster/isr_changes.h"

#include <ev.h>
#include <stdlib.h>
#include <utlist.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/cluster/internal.h"
#include "brokerd/cluster/replication.h"
#include "wire/errors.h"

enum
{
	BATCH_MAX = 2000, /* partitions a call */
	RETRY_MS = 500
};

/* What a call carries of one partition. */
typedef struct SentChange
{
	WUuid topic_id;
	int32_t partition;
	int32_t leader_epoch;
	int32_t partition_epoch;
} SentChange;

typedef struct SentBatch
{
	IsrChanges *changes;
	int n;
	SentChange sent[];
} SentBatch;

struct IsrChanges
{
	struct ev_loop *loop;
	Meta *meta;
	PartitionTable *table;
	Leadership *wanted;
	ev_timer soon;    /* what this turn of the loop wants goes in one call */
	SentBatch *batch; /* the call under way; NULL: none */
};

static void send_wanted(IsrChanges *c);

static void
on_soon(struct ev_loop *loop, ev_timer *w, int events)
{
	(void) loop;
	(void) events;
	send_wanted(w->data);
}

static void
send_after(IsrChanges *c, int ms)
{
	if (ev_is_active(&c->soon))
		return;
	ev_timer_set(&c->soon, ms / 1e3, 0.);
	ev_timer_start(c->loop, &c->soon);
}

IsrChanges *
isr_changes_new(struct ev_loop *loop, Meta *meta, PartitionTable *t)
{
	IsrChanges *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->loop = loop;
	c->meta = meta;
	c->table = t;
	ev_init(&c->soon, on_soon);
	c->soon.data = c;
	return c;
}

void
isr_changes_free(IsrChanges *c)
{
	if (c == NULL)
		return;
	ev_timer_stop(c->loop, &c->soon);
	if (c->batch != NULL)
		c->batch->changes = NULL; /* its reply frees it */
	free(c);
}

/* ---- what is wanted ---- */

void
isr_changes_want(IsrChanges *c, Leadership *lead)
{
	if (lead->queued || lead->in_flight)
		return;
	lead->queued = true;
	DL_APPEND(c->wanted, lead);
	send_after(c, lead->unsettled ? RETRY_MS : 0);
}

void
isr_changes_forget(Leadership *lead)
{
	if (lead->queued)
		DL_DELETE(lead->table->replication->isr_changes->wanted, lead);
	lead->queued = false;
}

static void
forget_wish(Leadership *lead)
{
	for (int32_t i = 0; i < lead->n; i++)
		lead->followers[i].adding = lead->followers[i].removing = false;
	lead->unsettled = false;
	lead->sent_epoch = -1;
}

void
isr_changes_heard(Leadership *lead, int32_t partition_epoch)
{
	if (lead->sent_epoch >= 0 && partition_epoch <= lead->sent_epoch)
		return;
	isr_changes_forget(lead);
	forget_wish(lead);
}

/* ---- sending ---- */

/* Of an unsettled change the ISR as it is confirmed: when that lands, the change before it cannot any more. */
static bool
is_in_next_isr(const Leadership *lead, const Follower *f)
{
	return lead->unsettled ? f->in_isr : (f->in_isr || f->adding) && !f->removing;
}

static void
fill_change(Leadership *lead, int32_t me, MetaIsrChange *change, int32_t *ids, int64_t *epochs)
{
	Partition *p = lead->partition;

	*change = (MetaIsrChange){.topic_id = p->topic->id,
							  .partition = p->index,
							  .leader_epoch = p->leader_epoch,
							  .partition_epoch = p->partition_epoch,
							  .isr = ids,
							  .epochs = epochs};
	ids[change->n_isr] = me;
	epochs[change->n_isr++] = -1;
	for (int32_t i = 0; i < lead->n; i++)
		if (is_in_next_isr(lead, &lead->followers[i]))
		{
			ids[change->n_isr] = lead->followers[i].id;
			epochs[change->n_isr++] = lead->followers[i].broker_epoch;
		}
}

static Leadership *
leadership_of(IsrChanges *c, const SentChange *sent)
{
	Partition *p = partitions_find_by_id(c->table, &sent->topic_id, sent->partition);

	return p != NULL && p->lead != NULL && p->leader_epoch == sent->leader_epoch ? p->lead : NULL;
}

static bool
is_in(int32_t id, const int32_t *ids, int n)
{
	for (int i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

/* The row as it is now: topic_id, partition, landed, leader, leader_epoch, partition_epoch, isr. */
static void
take_row(IsrChanges *c, Leadership *lead, const SentChange *sent, const MetaResult *r, int row)
{
	Partition *p = lead->partition;
	bool landed = meta_result_bool(r, row, 2);
	int32_t epoch = (int32_t) meta_result_int(r, row, 5);
	int32_t ids[META_MAX_LIST];
	int n = meta_result_ints(r, row, 6, ids, META_MAX_LIST);

	if (!landed && epoch <= sent->partition_epoch)
	{
		/* Refused for what it asks: a member is fenced, or another process by now. */
		if (!lead->unsettled)
			forget_wish(lead);
		lead->retry_ms = clock_boot_ms() + RETRY_MS;
		return;
	}
	if (epoch < p->partition_epoch)
	{
		forget_wish(lead);
		return;
	}
	if (meta_result_int(r, row, 4) != p->leader_epoch)
	{
		/* Another leads, of an ISR that a change of ours may be part of: what it asked for counts until the
		 * image ends this leadership. */
		lead->retry_ms = clock_boot_ms() + RETRY_MS;
		meta_refresh(c->meta);
		return;
	}
	forget_wish(lead);
	p->partition_epoch = epoch;
	p->isr_size = (int16_t) n;
	for (int32_t i = 0; i < lead->n; i++)
		follower_set_in_isr(&lead->followers[i], is_in(lead->followers[i].id, ids, n));
}

static void
log_batch(const SentBatch *b, const MetaResult *r)
{
	int landed = 0, first = -1;

	for (int i = 0; i < b->n && i < meta_result_rows(r); i++)
		if (meta_result_bool(r, i, 2))
		{
			first = first < 0 ? i : first;
			landed++;
		}
	if (landed > 0)
	{
		const PartitionTopic *topic = partitions_topic_by_id(b->changes->table, &b->sent[first].topic_id);

		log_msg(LOG_INFO, "cluster", "the ISR of %d partitions changed, first %s-%d to %s", landed,
				topic != NULL ? topic->name : "?", b->sent[first].partition, meta_result_text(r, first, 6));
	}
	if (landed < b->n)
		log_msg(LOG_INFO, "cluster",
				"changes of the ISR of %d partitions were refused: they or a member changed", b->n - landed);
}

static void
on_reply(void *ctx, const MetaResult *r)
{
	SentBatch *b = ctx;
	IsrChanges *c = b->changes;
	MetaStatus status = meta_result_status(r);

	if (c == NULL)
	{
		free(b);
		return;
	}
	if (status == META_OK)
		log_batch(b, r);
	else
		log_msg(LOG_WARNING, "cluster", "changes of the ISR of %d partitions %s: %s", b->n,
				status == META_UNKNOWN ? "have an unknown outcome" : "were not made", meta_result_message(r));
	c->batch = NULL;
	for (int i = 0; i < b->n; i++)
	{
		Leadership *lead = leadership_of(c, &b->sent[i]);

		if (lead == NULL || !lead->in_flight)
			continue;
		lead->in_flight = false;
		if (status == META_OK && i < meta_result_rows(r))
			take_row(c, lead, &b->sent[i], r, i);
		else
		{
			lead->retry_ms = clock_boot_ms() + RETRY_MS;
			/* Heard of a higher epoch meanwhile: then it is settled whatever came of it. */
			if (status == META_UNKNOWN && lead->sent_epoch >= 0)
				lead->unsettled = true;
			else if (!lead->unsettled)
				forget_wish(lead);
		}
		partition_advance(c->table, lead->partition);
		if (lead->unsettled)
			isr_changes_want(c, lead);
		else
			leadership_consider(c->table, lead);
	}
	free(b);
	if (c->wanted != NULL)
		send_after(c, 0);
}

/* The first of those that wait, and the room that their members take. */
static int
count_batch(const IsrChanges *c, size_t *members)
{
	const Leadership *lead;
	int n = 0;

	*members = 0;
	for (lead = c->wanted; lead != NULL && n < BATCH_MAX; lead = lead->next, n++)
		*members += (size_t) lead->n + 1;
	return n;
}

static void
send_wanted(IsrChanges *c)
{
	size_t members, used = 0;
	int n = count_batch(c, &members);
	SentBatch *b;
	MetaIsrChange *changes;
	int32_t *ids;
	int64_t *epochs;

	if (c->batch != NULL || n == 0)
		return; /* the reply sends what waits */
	b = calloc(1, sizeof(*b) + sizeof(SentChange) * (size_t) n);
	changes = calloc((size_t) n, sizeof(*changes));
	ids = calloc(members, sizeof(*ids));
	epochs = calloc(members, sizeof(*epochs));
	if (b != NULL && changes != NULL && ids != NULL && epochs != NULL)
	{
		b->changes = c;
		for (; b->n < n; b->n++)
		{
			Leadership *lead = c->wanted;

			isr_changes_forget(lead);
			fill_change(lead, c->table->opt.node_id, &changes[b->n], ids + used, epochs + used);
			used += (size_t) changes[b->n].n_isr;
			b->sent[b->n] = (SentChange){changes[b->n].topic_id, changes[b->n].partition,
										 changes[b->n].leader_epoch, changes[b->n].partition_epoch};
			lead->in_flight = true;
			lead->sent_epoch = changes[b->n].partition_epoch;
		}
		c->batch = b;
		meta_alter_isr(c->meta, changes, n, 0, on_reply, b);
	}
	else
	{
		free(b);
		send_after(c, RETRY_MS);
	}
	free(changes);
	free(ids);
	free(epochs);
}
