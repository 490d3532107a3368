#include "brokerd/cluster/repair.h"

#include <ev.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/cluster/internal.h"
#include "brokerd/cluster/repair_rule.h"
#include "brokerd/cluster/replication.h"
#include "brokerd/meta/text.h"
#include "wire/errors.h"

enum
{
	BATCH_MAX = 2000, /* partitions a call */
	SOON_MS = 20,     /* what a disk breaks at once goes in one call */
	RETRY_FIRST_MS = 1000,
	RETRY_MOST_MS = 30000
};

/* What a call carries of one partition. */
typedef struct Asked
{
	WUuid topic_id;
	int32_t partition;
	bool broken; /* when it was asked; then it still is, and nothing was fetched since */
} Asked;

typedef struct AskedBatch
{
	Repair *repair; /* NULL: nobody wants the reply any more */
	int n;
	Asked asked[BATCH_MAX];
} AskedBatch;

struct Repair
{
	Replication *r;
	ev_timer soon;
	bool stuck;
	AskedBatch *batch; /* the call under way; NULL: none */
	int64_t retry_ms;  /* not before; boot clock */
	int refusals;      /* in a row */
};

static void
on_soon(struct ev_loop *loop, ev_timer *w, int events)
{
	(void) loop;
	(void) events;
	repair_check(w->data);
}

Repair *
repair_new(Replication *r)
{
	Repair *repair = calloc(1, sizeof(*repair));

	if (repair == NULL)
		return NULL;
	repair->r = r;
	ev_timer_init(&repair->soon, on_soon, SOON_MS / 1e3, 0.);
	repair->soon.data = repair;
	return repair;
}

void
repair_free(Repair *repair)
{
	if (repair == NULL)
		return;
	ev_timer_stop(repair->r->opt.loop, &repair->soon);
	if (repair->batch != NULL)
		repair->batch->repair = NULL; /* its reply frees it */
	free(repair);
}

static void
check_soon(Repair *repair)
{
	if (ev_is_active(&repair->soon))
		return;
	ev_timer_set(&repair->soon, SOON_MS / 1e3, 0.);
	ev_timer_start(repair->r->opt.loop, &repair->soon);
}

/* Others that were refused do not make it wait. */
void
repair_log_broke(Repair *repair)
{
	repair->retry_ms = 0;
	check_soon(repair);
}

void
repair_disk_stuck(Repair *repair, bool stuck)
{
	repair->stuck = stuck;
	repair->retry_ms = 0;
	repair->refusals = 0;
	if (stuck)
		check_soon(repair);
}

/* ---- what the rule looks at ---- */

/* False: the image does not know the partition, or is behind what this broker does. */
static bool
describe(const Repair *repair, const Partition *p, RepairInput *in)
{
	const PartitionTable *t = repair->r->opt.table;
	const MetaPartition *meta = partition_image(t, p);
	const MetaBroker *leader;

	if (meta == NULL || meta->partition_epoch < 0 || meta->leader_epoch != p->leader_epoch)
		return false;
	leader =
		p->leader >= 0 && p->leader != t->opt.node_id ? meta_image_broker(t->opt.image, p->leader) : NULL;
	*in = (RepairInput){.is_broken = log_is_broken(p->log),
						.is_stuck = repair->stuck,
						.is_replica = p->is_replica,
						.is_leading = p->leading,
						.is_leader_serving = leader != NULL && meta_broker_is_serving(leader),
						.in_isr = meta_partition_in_isr(meta, t->opt.node_id),
						.n_replicas = p->n_replicas,
						.isr_size = meta->n_isr,
						.min_isr = partition_effective_min_isr(p),
						.leader_epoch = p->leader_epoch,
						.out_epoch = p->out_epoch,
						.since_last_ms = p->set_aside > 0 ? clock_boot_ms() - p->set_aside_ms : -1,
						.set_aside = p->set_aside};
	return true;
}

/* ---- setting aside ---- */

static void
tell(const Repair *repair, const Partition *p, const char *path, const char *reason)
{
	MetaText more = {0};

	log_msg(LOG_WARNING, "cluster",
			"%s-%d: its log is set aside in %s, and fetched again from broker %d; what was wrong: %s",
			p->topic->name, p->index, path, p->leader, reason);
	meta_text_puts(&more, ",\"path\":");
	meta_text_json(&more, path, (int32_t) strlen(path));
	meta_text_puts(&more, ",\"reason\":");
	meta_text_json(&more, reason, (int32_t) strlen(reason));
	partition_event(repair->r->opt.meta, p, "log.quarantined", meta_text_cstr(&more));
	meta_text_free(&more);
}

/* The partition goes on with an empty log, or without one until the image changes again. */
static void
set_aside(Repair *repair, Partition *p)
{
	PartitionTable *t = repair->r->opt.table;
	const MetaTopic *meta = meta_image_topic_by_id(t->opt.image, &p->topic->id);
	char path[PATH_MAX], reason[512];
	Err err;

	p->out_epoch = 0;
	p->set_aside++;
	p->set_aside_ms = clock_boot_ms();
	snprintf(reason, sizeof(reason), "%s", log_error(p->log));
	/* Who still waits for it hears of it while it is here. */
	partition_fail_waiters(p, KERR_KAFKA_STORAGE_ERROR);
	log_set_user(p->log, NULL);
	if (!log_manager_set_aside(t->opt.logs, p->log, path, sizeof(path), &err))
	{
		log_set_user(p->log, p);
		log_msg(LOG_ERROR, "cluster", "%s-%d stays offline: %s", p->topic->name, p->index, err.text);
		return;
	}
	p->log = NULL;
	p->high_watermark = 0;
	p->reported_failed = false;
	tell(repair, p, path, reason);
	partitions_apply_topic(t, meta);
}

/* ---- asking PostgreSQL ---- */

static void
wait_longer(Repair *repair)
{
	int64_t pause = (int64_t) RETRY_FIRST_MS << (repair->refusals < 5 ? repair->refusals : 5);

	repair->refusals++;
	repair->retry_ms = clock_boot_ms() + (pause < RETRY_MOST_MS ? pause : RETRY_MOST_MS);
}

static void
take_rows(Repair *repair, const AskedBatch *b, const MetaResult *r)
{
	int refused = 0;

	/* The rows are in the order of the topic ids, not of what was asked. */
	for (int row = 0; row < meta_result_rows(r); row++)
	{
		WUuid id = meta_result_uuid(r, row, 0);
		int32_t index = (int32_t) meta_result_int(r, row, 1);
		Partition *p = partitions_find_by_id(repair->r->opt.table, &id, index);

		if (!meta_result_bool(r, row, 2))
		{
			refused++;
			continue;
		}
		for (int i = 0; p != NULL && i < b->n; i++)
			if (b->asked[i].broken && b->asked[i].partition == index && wuuid_eq(&b->asked[i].topic_id, &id))
				p->out_epoch = (int32_t) meta_result_int(r, row, 4);
	}
	if (refused > 0)
		wait_longer(repair);
	else
		repair->refusals = 0;
}

static void
on_reply(void *ctx, const MetaResult *r)
{
	AskedBatch *b = ctx;
	Repair *repair = b->repair;

	if (repair != NULL)
	{
		repair->batch = NULL;
		if (meta_result_status(r) == META_OK)
			take_rows(repair, b, r);
		else
		{
			log_msg(LOG_WARNING, "cluster", "giving up %d partitions %s: %s", b->n,
					meta_result_status(r) == META_UNKNOWN ? "has an unknown outcome" : "was refused",
					meta_result_message(r));
			wait_longer(repair);
		}
		check_soon(repair);
	}
	free(b);
}

static void
send_batch(Repair *repair, AskedBatch *b)
{
	MetaResigned *partitions = calloc((size_t) b->n, sizeof(*partitions));
	bool broken = b->asked[0].broken;
	char why[80];

	if (partitions == NULL)
	{
		free(b);
		return;
	}
	for (int i = 0; i < b->n; i++)
		partitions[i] = (MetaResigned){b->asked[i].topic_id, b->asked[i].partition};
	if (broken)
		snprintf(why, sizeof(why), "its log on broker %d cannot be used", repair->r->opt.config->node_id);
	else
		snprintf(why, sizeof(why), "the disk of broker %d hangs", repair->r->opt.config->node_id);
	b->repair = repair;
	repair->batch = b;
	meta_resign_partitions(repair->r->opt.meta, partitions, b->n, why, 0, on_reply, b);
	free(partitions);
}

/* Those that are broken and those that hang go in calls of their own: each has its reason. */
static void
add(const Repair *repair, AskedBatch **b, const Partition *p)
{
	bool broken = log_is_broken(p->log);

	if (repair->batch != NULL || clock_boot_ms() < repair->retry_ms)
		return;
	if (*b == NULL)
		*b = calloc(1, sizeof(**b));
	if (*b == NULL || (*b)->n == BATCH_MAX || ((*b)->n > 0 && (*b)->asked[0].broken != broken))
		return;
	(*b)->asked[(*b)->n++] = (Asked){p->topic->id, p->index, broken};
}

void
repair_check(Repair *repair)
{
	AskedBatch *b = NULL;
	RepairInput in;

	for (PartitionTopic *topic = partitions_next(repair->r->opt.table, NULL); topic != NULL;
		 topic = partitions_next(repair->r->opt.table, topic))
		for (int32_t i = 0; i < topic->n_partitions; i++)
		{
			Partition *p = topic->partitions[i];

			if (p->log == NULL || (!repair->stuck && !log_is_broken(p->log)))
				continue;
			if (log_is_broken(p->log))
				fetcher_unfollow(p);
			if (!describe(repair, p, &in))
				continue;
			if (repair_may_set_aside(&in))
				set_aside(repair, p);
			else if (repair_should_resign(&in))
				add(repair, &b, p);
		}
	if (b != NULL)
		send_batch(repair, b);
}
