#include "brokerd/cluster/replication.h"

#include <stdlib.h>
#include <string.h>

#include "brokerd/cluster/leadership.h"

enum
{
	LAG_CHECK_MS = 1000 /* at most; at most half of replica.lag.time.max.ms, too */
};

/* Followers that say nothing do not come by themselves. */
static void
on_lag_check(struct ev_loop *loop, ev_timer *w, int events)
{
	Replication *r = w->data;

	(void) loop;
	(void) events;
	for (PartitionTopic *topic = partitions_next(r->opt.table, NULL); topic != NULL;
		 topic = partitions_next(r->opt.table, topic))
		for (int32_t i = 0; i < topic->n_partitions; i++)
			if (topic->partitions[i]->lead != NULL)
				leadership_consider(r->opt.table, topic->partitions[i]->lead);
}

Replication *
replication_new(const ReplicationOptions *opt)
{
	Replication *r = calloc(1, sizeof(*r));
	int64_t half = opt->config->replica_lag_time_max_ms / 2;
	double every = (double) (half < LAG_CHECK_MS ? half : LAG_CHECK_MS) / 1e3;

	if (r == NULL)
		return NULL;
	r->opt = *opt;
	r->broker_epoch = -1;
	r->fetcher = fetcher_new(r);
	r->isr_changes = isr_changes_new(opt->loop, opt->meta, opt->table);
	r->peers = peer_watch_new(r);
	ev_timer_init(&r->lag_check, on_lag_check, every, every);
	r->lag_check.data = r;
	if (r->fetcher == NULL || r->isr_changes == NULL || r->peers == NULL)
	{
		replication_free(r);
		return NULL;
	}
	ev_timer_start(opt->loop, &r->lag_check);
	partitions_set_replication(opt->table, r);
	return r;
}

void
replication_free(Replication *r)
{
	if (r == NULL)
		return;
	partitions_set_replication(r->opt.table, NULL);
	ev_timer_stop(r->opt.loop, &r->lag_check);
	fetcher_free(r->fetcher);
	isr_changes_free(r->isr_changes);
	peer_watch_free(r->peers);
	free(r);
}

void
replication_registered(Replication *r, int64_t broker_epoch, const uint8_t *secret, size_t len)
{
	bool same = r->broker_epoch == broker_epoch;

	r->broker_epoch = broker_epoch;
	r->secret.len = len < PEER_SECRET_MAX ? len : PEER_SECRET_MAX;
	memcpy(r->secret.bytes, secret, r->secret.len);
	fetcher_reconnect(r->fetcher, !same);
}

void
replication_brokers_changed(Replication *r)
{
	peer_watch_update(r->peers);
	fetcher_reconnect(r->fetcher, false);
}

bool
replication_is_gone(const Replication *r, int32_t broker)
{
	return peer_watch_is_gone(r->peers, broker);
}

const MetaEndpoint *
replication_endpoint(const Replication *r, int32_t broker)
{
	const MetaBroker *b = meta_image_broker(meta_image(r->opt.meta), broker);
	const BrokerConfig *config = r->opt.config;
	const char *name = config->inter_broker_listener_name;
	const MetaEndpoint *end;

	if (b == NULL || b->n_endpoints == 0)
		return NULL;
	if (name == NULL || *name == '\0')
		name = config->n_bound > 0 ? config->bound[0].name : "";
	end = meta_broker_endpoint(b, name);
	return end != NULL ? end : &b->endpoints[0];
}
