#include "brokerd/cluster/replication.h"

#include <stdlib.h>
#include <string.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/cluster/internal.h"
#include "brokerd/cluster/leadership.h"
#include "brokerd/cluster/tenure.h"

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
	repair_check(r->repair);
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
	r->last_turn_ms = clock_boot_ms();
	r->paused_ms = r->peer_heartbeat_ms = -1;
	throttle_init(&r->serving, opt->config->replication_quota_window_size_seconds * 1000LL,
				  opt->config->replication_quota_window_num);
	r->fetching = r->serving;
	r->fetcher = fetcher_new(r);
	r->isr_changes = isr_changes_new(opt->loop, opt->meta, opt->table);
	r->peers = peer_watch_new(r);
	r->duties = replica_duties_new(r);
	r->repair = repair_new(r);
	ev_timer_init(&r->lag_check, on_lag_check, every, every);
	r->lag_check.data = r;
	if (r->fetcher == NULL || r->isr_changes == NULL || r->peers == NULL || r->duties == NULL ||
		r->repair == NULL)
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
	replica_duties_free(r->duties);
	repair_free(r->repair);
	free(r->heard);
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

void
replication_configs_changed(Replication *r)
{
	const PartitionTable *t = r->opt.table;
	int64_t now = clock_boot_ms();

	throttle_set_rate(&r->serving,
					  broker_config_int(t->opt.configs, t->opt.image, "leader.replication.throttled.rate"),
					  now);
	throttle_set_rate(&r->fetching,
					  broker_config_int(t->opt.configs, t->opt.image, "follower.replication.throttled.rate"),
					  now);
}

void
replication_image_complete(Replication *r)
{
	repair_check(r->repair);
	replica_duties_check(r->duties);
}

void
replication_turn(Replication *r)
{
	int64_t now = clock_boot_ms();

	if (now - r->last_turn_ms > r->opt.config->broker_session_timeout_ms / 2)
	{
		log_msg(
			LOG_WARNING, "cluster",
			"this process stood still for %lld ms: acks=1 waits until PostgreSQL says that it still leads",
			(long long) (now - r->last_turn_ms));
		r->paused_ms = now;
	}
	r->last_turn_ms = now;
}

static PeerHeard *
find_heard(const Replication *r, int32_t broker)
{
	for (int i = 0; i < r->n_heard; i++)
		if (r->heard[i].broker == broker)
			return &r->heard[i];
	return NULL;
}

int32_t
replication_postgres_age_ms(const Replication *r)
{
	int64_t heard = meta_last_heartbeat_ms(r->opt.meta);
	int64_t age = heard < 0 ? INT32_MAX : clock_boot_ms() - heard;

	return age > INT32_MAX ? INT32_MAX : (int32_t) age;
}

void
replication_heard_peer(Replication *r, int32_t broker, int64_t broker_epoch, int32_t postgres_age_ms)
{
	int64_t now = clock_boot_ms();
	PeerHeard *heard = find_heard(r, broker);

	if (heard == NULL)
	{
		PeerHeard *grown = realloc(r->heard, sizeof(*grown) * (size_t) (r->n_heard + 1));

		if (grown == NULL)
			return;
		r->heard = grown;
		heard = &r->heard[r->n_heard++];
	}
	*heard = (PeerHeard){broker, broker_epoch, now};
	if (postgres_age_ms >= 0 && now - postgres_age_ms > r->peer_heartbeat_ms)
		r->peer_heartbeat_ms = now - postgres_age_ms;
}

int64_t
replication_last_fetch_ms(const Replication *r, int32_t broker, int64_t broker_epoch)
{
	const PeerHeard *heard = find_heard(r, broker);

	return heard != NULL && heard->broker_epoch == broker_epoch ? heard->ms : -1;
}

bool
replication_may_ack_alone(const Replication *r)
{
	TenureInput in = {.now_ms = clock_boot_ms(),
					  .session_timeout_ms = r->opt.config->broker_session_timeout_ms,
					  .heartbeat_ms = meta_last_heartbeat_ms(r->opt.meta),
					  .paused_ms = r->paused_ms,
					  .peer_heartbeat_ms = r->peer_heartbeat_ms};

	return tenure_is_sure(&in);
}

bool
replication_has_peers(const Replication *r)
{
	return peer_watch_has_any(r->peers);
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
