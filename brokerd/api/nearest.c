#include "brokerd/api/nearest.h"

#include "brokerd/api/common.h"
#include "brokerd/base/clock.h"
#include "brokerd/cluster/leadership.h"

enum
{
	/* A member that joins hears of it from PostgreSQL as we do, but maybe later: sent there at once, a consumer
	 * would be sent back, and librdkafka then waits before it tries again. */
	SETTLED_MS = 1000
};

static bool
is_in(const char *rack, WStr wanted)
{
	return rack != NULL && wstr_eq(wstr(rack), wanted);
}

static bool
is_better(const NearReplica *a, const NearReplica *b)
{
	if (a->end != b->end)
		return a->end > b->end;
	return a->caught_up_ms != b->caught_up_ms ? a->caught_up_ms > b->caught_up_ms : a->id > b->id;
}

int32_t
nearest_choose(WStr rack, const char *leader_rack, int64_t offset, const NearReplica *replicas, int n)
{
	const NearReplica *best = NULL;

	if (rack.len <= 0 || is_in(leader_rack, rack))
		return -1;
	for (int i = 0; i < n; i++)
	{
		const NearReplica *r = &replicas[i];

		if (is_in(r->rack, rack) && r->in_sync && r->reachable && r->log_start <= offset &&
			offset <= r->end && (best == NULL || is_better(r, best)))
			best = r;
	}
	return best != NULL ? best->id : -1;
}

static const char *
rack_of(const Broker *broker, int32_t id)
{
	const MetaBroker *b = meta_image_broker(meta_image(broker->meta), id);

	return b != NULL ? b->rack : NULL;
}

int32_t
nearest_replica(const ApiCall *call, const Partition *p, WStr rack, int64_t offset)
{
	const Broker *broker = call->broker;
	NearReplica replicas[META_MAX_LIST];
	int64_t settled;
	int n = 0;

	if (broker->config->replica_selector_class == NULL || rack.len <= 0 || p->lead == NULL)
		return -1;
	settled = clock_boot_ms() - SETTLED_MS;
	for (int32_t i = 0; i < p->lead->n; i++)
	{
		const Follower *f = &p->lead->followers[i];

		replicas[n++] = (NearReplica){.id = f->id,
									  .rack = rack_of(broker, f->id),
									  .in_sync = f->in_isr && !f->removing && f->joined_ms <= settled,
									  .reachable = common_endpoint(call, f->id) != NULL,
									  .log_start = f->log_start,
									  .end = f->synced_end,
									  .caught_up_ms = f->caught_up_ms};
	}
	return nearest_choose(rack, rack_of(broker, broker->config->node_id), offset, replicas, n);
}
