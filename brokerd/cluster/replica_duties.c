#include "brokerd/cluster/replica_duties.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "brokerd/base/logging.h"
#include "brokerd/cluster/internal.h"
#include "brokerd/cluster/leadership.h"
#include "brokerd/cluster/replication.h"

enum
{
	CLAIMS_A_CALL = 2000
};

typedef struct MemoryKey
{
	WUuid topic_id;
	int32_t partition;
} MemoryKey;

/* What this process knew of a partition when PostgreSQL went backwards. */
typedef struct Memory
{
	MemoryKey key;
	int32_t leader, leader_epoch, partition_epoch;
	int n_isr;
	UT_hash_handle hh;
	int32_t isr[];
} Memory;

struct ReplicaDuties
{
	Memory *memories;
	Replication *r;
	int refs; /* this, and each call that is out */
	bool closed;
	int64_t claimed; /* the incarnation of PostgreSQL in which all claims were taken; -1 none */
	int claims_out;
	bool claim_failed;
	bool asked_dropped;    /* since the start */
	uint64_t dropped_seen; /* partitions that left this broker, when it was asked last */
	bool asking_dropped;
};

ReplicaDuties *
replica_duties_new(Replication *r)
{
	ReplicaDuties *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return NULL;
	d->r = r;
	d->refs = 1;
	d->claimed = -1;
	return d;
}

static void
unref(ReplicaDuties *d)
{
	if (--d->refs == 0)
		free(d);
}

/* ---- what is known ---- */

/* The ISR as this broker knows it: of what it leads its own, which may be ahead of the image. */
static int
known_isr(const ReplicaDuties *d, const Partition *p, const MetaPartition *meta, int32_t *out)
{
	int n = 0;

	if (p->leading && p->lead != NULL)
	{
		out[n++] = d->r->opt.config->node_id;
		for (int32_t i = 0; i < p->lead->n; i++)
			if (p->lead->followers[i].in_isr)
				out[n++] = p->lead->followers[i].id;
		return n;
	}
	for (; n < meta->n_isr; n++)
		out[n] = meta_partition_isr(meta)[n];
	return n;
}

static Memory *
find_memory(const ReplicaDuties *d, const WUuid *topic_id, int32_t partition)
{
	MemoryKey key = {*topic_id, partition};
	Memory *m;

	HASH_FIND(hh, d->memories, &key, sizeof(key), m);
	return m;
}

static void
forget_all(ReplicaDuties *d)
{
	Memory *m, *next;

	HASH_ITER (hh, d->memories, m, next)
	{
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it is in the table */
		HASH_DEL(d->memories, m);
		free(m);
	}
}

/*
 * PostgreSQL can go back again before a partition was settled: what is known by now may be from the row that
 * went back, and then the older memory knows more.  A settled row has a higher partition epoch than both.
 */
static void
remember(ReplicaDuties *d, const Partition *p, const MetaPartition *meta)
{
	Memory *old = find_memory(d, &p->topic->id, p->index), *m;
	int32_t isr[META_MAX_LIST + 1];
	int n = known_isr(d, p, meta, isr);

	if (old != NULL && old->partition_epoch >= p->partition_epoch)
		return;
	m = malloc(sizeof(*m) + sizeof(*isr) * (size_t) n);
	if (m == NULL)
		return; /* then it claims to know nothing, which is safe */
	memset(&m->key, 0, sizeof(m->key));
	m->key.topic_id = p->topic->id;
	m->key.partition = p->index;
	m->leader = p->leader;
	m->leader_epoch = p->leader_epoch;
	m->partition_epoch = p->partition_epoch;
	m->n_isr = n;
	memcpy(m->isr, isr, sizeof(*isr) * (size_t) n);
	if (old != NULL)
	{
		HASH_DEL(d->memories, old);
		free(old);
	}
	HASH_ADD(hh, d->memories, key, sizeof(m->key), m);
}

void
replica_duties_remember(ReplicaDuties *d)
{
	PartitionTable *t = d->r->opt.table;

	for (PartitionTopic *topic = partitions_next(t, NULL); topic != NULL; topic = partitions_next(t, topic))
	{
		const MetaTopic *meta = meta_image_topic_by_id(t->opt.image, &topic->id);

		for (int32_t i = 0; meta != NULL && i < topic->n_partitions && i < meta->n_partitions; i++)
			if (topic->partitions[i]->n_replicas > 1 && topic->partitions[i]->is_replica)
				remember(d, topic->partitions[i], &meta->partitions[i]);
	}
	d->claimed = -1;
}

/* ---- claims ---- */

static void
on_claimed(void *ctx, const MetaResult *r)
{
	ReplicaDuties *d = ctx;

	d->claims_out--;
	if (meta_result_status(r) != META_OK)
		d->claim_failed = true; /* said again with the next complete image */
	else if (!d->closed && meta_result_rows(r) == 1 && meta_result_int(r, 0, 0) > 0)
		log_msg(LOG_INFO, "cluster", "%lld partitions are settled after PostgreSQL went backwards",
				(long long) meta_result_int(r, 0, 0));
	if (d->claims_out == 0 && d->claim_failed)
		d->claimed = -1;
	unref(d);
}

static void
send_claims(ReplicaDuties *d, const MetaClaim *claims, int n)
{
	if (n == 0)
		return;
	d->refs++;
	d->claims_out++;
	meta_claim_partitions(d->r->opt.meta, claims, n, on_claimed, d);
}

static void
claim_all(ReplicaDuties *d)
{
	PartitionTable *t = d->r->opt.table;
	MetaClaim *claims = calloc(CLAIMS_A_CALL, sizeof(*claims));
	int n = 0;

	if (claims == NULL)
		d->claimed = -1;
	for (PartitionTopic *topic = partitions_next(t, NULL); claims != NULL && topic != NULL;
		 topic = partitions_next(t, topic))
	{
		for (int32_t i = 0; i < topic->n_partitions; i++)
		{
			const Partition *p = topic->partitions[i];
			const Memory *m = find_memory(d, &topic->id, i);

			if (!p->is_replica || p->n_replicas < 2 || p->log == NULL || !log_is_open(p->log))
				continue;
			claims[n] = (MetaClaim){.topic_id = topic->id,
									.partition = i,
									.leader = m != NULL ? m->leader : -1,
									.leader_epoch = m != NULL ? m->leader_epoch : -1,
									.partition_epoch = m != NULL ? m->partition_epoch : -1,
									.isr = m != NULL ? m->isr : NULL,
									.n_isr = m != NULL ? m->n_isr : 0,
									.last_epoch = log_latest_epoch(p->log),
									.log_end = log_synced_end(p->log)};
			if (++n == CLAIMS_A_CALL)
			{
				send_claims(d, claims, n);
				n = 0;
			}
		}
	}
	send_claims(d, claims, n);
	free(claims);
}

/* ---- dropped replicas ---- */

/* PostgreSQL says that it was taken, and the image shows the partition without this broker. */
static bool
may_drop(const ReplicaDuties *d, const WUuid *topic_id, int32_t partition, int32_t partition_epoch)
{
	const MetaTopic *topic = meta_image_topic_by_id(d->r->opt.table->opt.image, topic_id);
	const MetaPartition *meta = topic != NULL ? meta_topic_partition(topic, partition) : NULL;

	return meta != NULL && meta->partition_epoch >= partition_epoch &&
		   !meta_partition_has_replica(meta, d->r->opt.config->node_id);
}

static void
on_dropped(void *ctx, const MetaResult *r)
{
	ReplicaDuties *d = ctx;
	int n = meta_result_status(r) == META_OK ? meta_result_rows(r) : 0, done = 0;
	MetaReplica *replicas = n > 0 && !d->closed ? calloc((size_t) n, sizeof(*replicas)) : NULL;

	d->asking_dropped = false;
	if (meta_result_status(r) != META_OK)
		d->asked_dropped = false;
	for (int i = 0; i < n && replicas != NULL; i++)
	{
		WUuid id = meta_result_uuid(r, i, 0);
		int32_t partition = (int32_t) meta_result_int(r, i, 1);
		int32_t epoch = (int32_t) meta_result_int(r, i, 2);

		if (!may_drop(d, &id, partition, epoch))
			continue;
		partitions_drop_replica(d->r->opt.table, &id, partition);
		replicas[done++] = (MetaReplica){id, partition, epoch};
	}
	if (done > 0)
	{
		log_msg(LOG_INFO, "cluster", "the logs of %d replicas that moved elsewhere are deleted", done);
		meta_replicas_dropped(d->r->opt.meta, replicas, done);
	}
	free(replicas);
	unref(d);
}

void
replica_duties_check(ReplicaDuties *d)
{
	int64_t incarnation = meta_pg_incarnation(d->r->opt.meta);
	uint64_t left = d->r->opt.table->n_left;

	/* In its first incarnation nothing can have gone backwards. */
	if (incarnation > 1 && incarnation != d->claimed && d->claims_out == 0)
	{
		d->claimed = incarnation;
		d->claim_failed = false;
		claim_all(d);
	}
	if ((!d->asked_dropped || left != d->dropped_seen) && !d->asking_dropped)
	{
		d->asked_dropped = d->asking_dropped = true;
		d->dropped_seen = left;
		d->refs++;
		meta_dropped_replicas(d->r->opt.meta, on_dropped, d);
	}
}

void
replica_duties_free(ReplicaDuties *d)
{
	if (d == NULL)
		return;
	d->closed = true;
	forget_all(d);
	unref(d);
}
