#include "brokerd/lifecycle.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "brokerd/api/admin.h"
#include "brokerd/api/broker.h"
#include "brokerd/api/fetch.h"
#include "brokerd/api/fetch_session.h"
#include "brokerd/api/groups.h"
#include "brokerd/api/operations.h"
#include "brokerd/api/replica_fetch.h"
#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/cluster/replication.h"
#include "brokerd/reporter.h"
#include "brokerd/version.h"

enum
{
	TICK_MS = 100,
	MAKE_LOGS_MS = 250, /* in a turn, when thousands come at once; everybody else waits meanwhile */
	TELL_MS = 100,      /* for clients to be told of the new leaders (KIP-951) before connections end */
	ANSWER_MS = 400     /* then, for what was accepted to be answered */
};

typedef struct Lifecycle
{
	Broker broker;
	BrokerConfig *config;
	Reporter *reporter;
	ev_io storage_io;
	ev_timer tick;
	ev_timer stop_check;
	ev_signal sigterm, sigint;
	ev_check turn_begin;
	ev_prepare turn_end;
	ev_idle more_logs;
	Watchdog *watchdog;
	int handover_tries;
	int64_t handover_again_ms; /* 0: a try is under way, or none is needed */
	bool handed_over;
	int64_t tell_until_ms;   /* 0: there is nobody to name */
	int64_t answer_until_ms; /* 0: requests are still taken */
	bool swept;              /* logs without a topic have been looked at */
	int exit_code;
} Lifecycle;

static void begin_stop(Lifecycle *life, int exit_code);

/* ---- storage ---- */

static void
on_log_change(void *ctx, Log *log)
{
	Lifecycle *life = ctx;

	if (life->broker.partitions != NULL)
		partitions_log_changed(life->broker.partitions, log);
	if (life->broker.replication != NULL && log_is_broken(log))
		repair_log_broke(life->broker.replication->repair);
}

static void
on_disk_stuck(void *ctx, bool stuck)
{
	Lifecycle *life = ctx;

	if (stuck)
		log_msg(LOG_ERROR, "storage",
				"a sync of %s has not returned for 10 s: look at the disk; writes wait for it",
				life->broker.log_dir);
	else
		log_msg(LOG_INFO, "storage", "%s syncs again", life->broker.log_dir);
	if (life->broker.replication != NULL)
		repair_disk_stuck(life->broker.replication->repair, stuck);
}

static void
on_storage_ready(struct ev_loop *loop, ev_io *io, int revents)
{
	(void) loop;
	(void) revents;
	log_manager_dispatch(((Lifecycle *) io->data)->broker.logs);
}

static void
on_tick(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void) loop;
	(void) revents;
	log_manager_tick(((Lifecycle *) timer->data)->broker.logs, clock_wall_ms());
}

/* Before anything that came in is looked at. */
static void
on_turn_begin(struct ev_loop *loop, ev_check *w, int revents)
{
	Lifecycle *life = w->data;

	(void) loop;
	(void) revents;
	replication_turn(life->broker.replication);
	if (replication_has_peers(life->broker.replication))
		watchdog_beat(life->watchdog);
	else
		watchdog_disarm(life->watchdog);
}

static void
on_more_logs(struct ev_loop *loop, ev_idle *w, int revents)
{
	(void) loop;
	(void) w;
	(void) revents;
}

/* Before the network sends what this turn answered: fetches that this turn woke. */
static void
on_turn_end(struct ev_loop *loop, ev_prepare *w, int revents)
{
	Lifecycle *life = w->data;

	(void) loop;
	(void) revents;
	fetch_run_woken(&life->broker);
	replica_fetch_run_woken(&life->broker);
	/* With an idle watcher active the loop does not wait. */
	if (partitions_make_logs(life->broker.partitions))
		ev_idle_start(life->broker.loop, &life->more_logs);
	else
		ev_idle_stop(life->broker.loop, &life->more_logs);
}

static LogManager *
open_logs(Lifecycle *life, Err *err)
{
	LogManagerOptions opt = {
		.dir = life->config->log_dir_path,
		.node_id = life->config->node_id,
		.sync_workers = life->config->pg_broker_sync_workers,
		.reader_threads = life->config->pg_broker_reader_threads,
		.recovery_threads = life->config->num_recovery_threads_per_data_dir,
		.checkpoint_interval_ms = life->config->log_flush_offset_checkpoint_interval_ms,
		.retention_interval_ms = life->config->log_retention_check_interval_ms,
		.producer_expiration_ms = life->config->producer_id_expiration_ms,
		.delete_delay_ms = life->config->log_segment_delete_delay_ms,
		.on_change = on_log_change,
		.on_stuck = on_disk_stuck,
		.ctx = life,
	};

	return log_manager_open(&opt, err);
}

/* ---- what PostgreSQL tells ---- */

static bool
on_registered(void *ctx, const MetaRegistration *reg)
{
	Lifecycle *life = ctx;
	Err err;

	if (!log_manager_bind(life->broker.logs, reg->cluster_id, reg->broker_epoch, &err))
	{
		log_msg(LOG_FATAL, "storage", "%s", err.text);
		begin_stop(life, 1);
		return false;
	}
	log_msg(LOG_INFO, "meta", "registered in cluster %s as broker %d, epoch %lld%s", reg->cluster_id,
			life->config->node_id, (long long) reg->broker_epoch, reg->same_epoch ? " (kept)" : "");
	replication_registered(life->broker.replication, reg->broker_epoch, reg->secret, reg->secret_len);
	/* Under another epoch PostgreSQL has another leader epoch for all that was led, and the image brings it; until then
	 * nothing is led by what the image still says (hazards A2). */
	if (life->broker.serving && reg->same_epoch)
		partitions_apply_all(life->broker.partitions);
	groups_registered(life->broker.groups);
	return true;
}

static void
on_fenced(void *ctx)
{
	Lifecycle *life = ctx;

	log_msg(LOG_WARNING, "meta",
			"this broker's epoch is gone: it leads nothing until it is registered again");
	partitions_resign(life->broker.partitions);
	groups_fenced(life->broker.groups);
}

static void
on_incarnation(void *ctx)
{
	replica_duties_remember(((Lifecycle *) ctx)->broker.replication->duties);
}

/* Logs whose topic was deleted while this broker was away go; those that PostgreSQL never heard of are kept. */
static void
sweep_logs(Broker *broker)
{
	MetaImage *image = meta_image(broker->meta);
	int strays = 0;
	Log *log = log_manager_next(broker->logs, NULL);

	while (log != NULL)
	{
		Log *next = log_manager_next(broker->logs, log);
		WUuid id = log_topic_id(log);

		if (log_user(log) == NULL && meta_image_is_deleted(image, &id))
		{
			log_manager_delete(broker->logs, log);
			meta_logs_deleted(broker->meta, &id, 1, NULL, NULL);
		}
		else if (log_user(log) == NULL)
		{
			log_msg(LOG_WARNING, "storage",
					"%s-%d is stray: PostgreSQL has no replica of it here; it is kept", log_topic(log),
					log_partition(log));
			strays++;
		}
		log = next;
	}
	if (strays > 0)
		log_msg(LOG_WARNING, "storage", "%d stray logs in %s are kept and not served", strays,
				broker->log_dir);
}

static void
begin_serving(Lifecycle *life)
{
	Broker *broker = &life->broker;

	broker->serving = true;
	net_server_start(broker->net);
	for (int i = 0; i < life->config->n_bound; i++)
		log_msg(LOG_INFO, "net", "listener %s on %s:%d; clients are told %s:%d", life->config->bound[i].name,
				life->config->bound[i].host[0] != '\0' ? life->config->bound[i].host : "*",
				life->config->bound[i].port, life->config->advertised[i].host,
				life->config->advertised[i].port);
	log_msg(LOG_INFO, "main", "broker %d serves %d topics, leads %d partitions", life->config->node_id,
			partitions_topic_count(broker->partitions), partitions_leading(broker->partitions));
}

static void
on_image_changed(void *ctx, const MetaImage *image, const MetaImageChanges *changes)
{
	Lifecycle *life = ctx;
	Broker *broker = &life->broker;

	(void) image;
	for (int i = 0; i < changes->n_topics; i++)
	{
		const MetaTopicChange *change = &changes->topics[i];

		switch (change->kind)
		{
			case META_TOPIC_NEW:
			case META_TOPIC_CHANGED:
				partitions_apply_topic(broker->partitions, change->topic);
				break;
			case META_TOPIC_DELETED:
				partitions_delete_topic(broker->partitions, &change->topic->id);
				meta_logs_deleted(broker->meta, &change->topic->id, 1, NULL, NULL);
				break;
			case META_TOPIC_GONE:
				partitions_detach_topic(broker->partitions, &change->topic->id);
				break;
		}
	}
	if (changes->brokers_changed)
		replication_brokers_changed(broker->replication);
	if (changes->configs_changed)
	{
		partitions_apply_configs(broker->partitions);
		replication_configs_changed(broker->replication);
	}
	if (!changes->complete)
		return;
	replication_image_complete(broker->replication);
	if (!life->swept)
	{
		life->swept = true;
		sweep_logs(broker);
	}
	if (!broker->serving && !broker->stopping)
		begin_serving(life);
	admin_image_changed(broker);
	groups_image_changed(broker->groups);
}

static void
on_operations(void *ctx, const MetaOperation *operations, int n)
{
	Lifecycle *life = ctx;

	if (!life->broker.serving || life->broker.stopping)
		return;
	operations_take(&life->broker, operations, n);
	groups_asked(life->broker.groups);
}

static void
on_fatal(void *ctx, const char *sentence)
{
	log_msg(LOG_FATAL, "meta", "%s", sentence);
	begin_stop(ctx, 1);
}

static void
on_connection(void *ctx, bool connected)
{
	groups_connection(((Lifecycle *) ctx)->broker.groups, connected);
	if (connected)
		log_msg(LOG_INFO, "meta", "connected to PostgreSQL");
	else
		log_msg(LOG_WARNING, "meta", "PostgreSQL is away: produce and fetch go on, what needs it waits");
}

static Meta *
open_meta(Lifecycle *life, Err *err)
{
	BrokerConfig *config = life->config;
	char *endpoints = config_endpoints_json(config);
	char *static_json = config_static_json(config);
	MetaOptions opt = {
		.loop = life->broker.loop,
		.conninfo = config->pg_broker_postgres,
		.node_id = config->node_id,
		.rack = config->broker_rack,
		.endpoints_json = endpoints,
		.static_json = static_json,
		.version = BROKERD_VERSION,
		.directory_id = log_manager_directory_id(life->broker.logs),
		.disk_epoch = log_manager_broker_epoch(life->broker.logs),
		.cluster_id = log_manager_cluster_id(life->broker.logs),
		.heartbeat_interval_ms = config->broker_heartbeat_interval_ms,
		.session_timeout_ms = config->broker_session_timeout_ms,
		.call_timeout_ms = config->pg_broker_postgres_timeout_ms,
		.callbacks = {.on_registered = on_registered,
					  .on_fenced = on_fenced,
					  .on_incarnation = on_incarnation,
					  .on_image_changed = on_image_changed,
					  .on_operations = on_operations,
					  .on_fatal = on_fatal,
					  .on_connection = on_connection,
					  .ctx = life},
	};
	Meta *meta = meta_new(&opt, err);

	free(endpoints);
	free(static_json);
	return meta;
}

/* ---- the network ---- */

static void
on_conn_closed(void *ctx, Conn *conn)
{
	replica_fetch_conn_closed(ctx, conn);
}

static bool
open_listeners(Lifecycle *life, Err *err)
{
	BrokerConfig *config = life->config;
	NetOptions opt = {
		.loop = life->broker.loop,
		.max_frame = (size_t) config->socket_request_max_bytes,
		.max_queued =
			config->queued_max_request_bytes < 0 ? SIZE_MAX / 2 : (size_t) config->queued_max_request_bytes,
		.max_idle_ms = config->connections_max_idle_ms < 0 ? INT64_MAX / 2 : config->connections_max_idle_ms,
		.max_connections = config->max_connections,
		.max_per_ip = config->max_connections_per_ip,
		.backlog = config->socket_listen_backlog_size,
		.send_buffer = config->socket_send_buffer_bytes < 0 ? 0 : (size_t) config->socket_send_buffer_bytes,
		.receive_buffer =
			config->socket_receive_buffer_bytes < 0 ? 0 : (size_t) config->socket_receive_buffer_bytes,
		.on_request = api_request,
		.on_close = on_conn_closed,
		.ctx = &life->broker,
	};

	life->broker.net = net_server_new(&opt);
	if (life->broker.net == NULL)
		return err_set(err, 0, 0, "out of memory for the network");
	for (int i = 0; i < config->n_bound; i++)
	{
		ConfigListener *l = &config->bound[i];

		if (!net_server_listen(life->broker.net, l->host, l->port, l->name, &l->port, err))
			return false;
		if (config->advertised[i].port == 0)
			config->advertised[i].port = l->port;
	}
	return true;
}

/* ---- the end ---- */

static bool
has_successors(const Broker *broker)
{
	int n;
	MetaBroker *const *brokers = meta_image_brokers(meta_image(broker->meta), &n);

	for (int i = 0; i < n; i++)
		if (brokers[i]->id != broker->config->node_id && meta_broker_is_serving(brokers[i]))
			return true;
	return false;
}

static void
on_handed_over(void *ctx, const MetaResult *result)
{
	Lifecycle *life = ctx;
	const BrokerConfig *config = life->config;

	if (meta_result_status(result) != META_OK &&
		life->handover_tries <= config->controlled_shutdown_max_retries)
	{
		life->handover_again_ms = clock_boot_ms() + config->controlled_shutdown_retry_backoff_ms;
		return;
	}
	life->handed_over = true;
	if (has_successors(&life->broker))
		life->tell_until_ms = clock_boot_ms() + TELL_MS;
}

/* PostgreSQL moves the leaderships. */
static void
hand_over(Lifecycle *life)
{
	life->handover_again_ms = 0;
	life->handover_tries++;
	meta_stop_broker(life->broker.meta, clock_boot_ms() + life->config->controlled_shutdown_retry_backoff_ms,
					 on_handed_over, life);
}

static void
on_stop_check(struct ev_loop *loop, ev_timer *timer, int revents)
{
	Lifecycle *life = timer->data;
	int64_t now = clock_boot_ms();

	(void) revents;
	if (life->handover_again_ms > 0 && now >= life->handover_again_ms)
		hand_over(life);
	if (!life->handed_over || now < life->tell_until_ms)
		return;
	/* Leaderships have moved, or nobody answers: take no more, answer what is here. */
	if (life->answer_until_ms == 0)
		life->answer_until_ms = now + ANSWER_MS;
	net_server_quiesce(life->broker.net);
	groups_stop(life->broker.groups);
	fetch_answer_parked(&life->broker);
	replica_fetch_answer_parked(&life->broker);
	if (net_server_idle(life->broker.net) || now >= life->answer_until_ms)
		ev_break(loop, EVBREAK_ALL);
}

static void
begin_stop(Lifecycle *life, int exit_code)
{
	Broker *broker = &life->broker;

	if (exit_code != 0)
		life->exit_code = exit_code;
	if (broker->stopping)
		return;
	broker->stopping = true;
	life->handed_over =
		!life->config->controlled_shutdown_enable || exit_code != 0 || !meta_is_connected(broker->meta);
	if (!life->handed_over)
		hand_over(life);
	ev_timer_init(&life->stop_check, on_stop_check, 0., 0.005);
	life->stop_check.data = life;
	ev_timer_start(broker->loop, &life->stop_check);
}

static void
on_signal(struct ev_loop *loop, ev_signal *w, int revents)
{
	(void) loop;
	(void) revents;
	log_msg(LOG_INFO, "main", "stopping: signal %d", w->signum);
	begin_stop(w->data, 0);
}

/* Everything a broker opens: three descriptors a segment in use, one a connection. */
static void
raise_descriptor_limit(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < lim.rlim_max)
	{
		lim.rlim_cur = lim.rlim_max;
		setrlimit(RLIMIT_NOFILE, &lim);
	}
}

static void
start_watchers(Lifecycle *life)
{
	Broker *broker = &life->broker;

	ev_io_init(&life->storage_io, on_storage_ready, log_manager_fd(broker->logs), EV_READ);
	life->storage_io.data = life;
	ev_io_start(broker->loop, &life->storage_io);
	ev_timer_init(&life->tick, on_tick, TICK_MS / 1000., TICK_MS / 1000.);
	life->tick.data = life;
	ev_timer_start(broker->loop, &life->tick);
	ev_check_init(&life->turn_begin, on_turn_begin);
	ev_set_priority(&life->turn_begin, EV_MAXPRI);
	life->turn_begin.data = life;
	ev_check_start(broker->loop, &life->turn_begin);
	ev_prepare_init(&life->turn_end, on_turn_end);
	ev_set_priority(&life->turn_end, EV_MAXPRI);
	life->turn_end.data = life;
	ev_idle_init(&life->more_logs, on_more_logs);
	ev_prepare_start(broker->loop, &life->turn_end);
	ev_signal_init(&life->sigterm, on_signal, SIGTERM);
	ev_signal_init(&life->sigint, on_signal, SIGINT);
	life->sigterm.data = life->sigint.data = life;
	ev_signal_start(broker->loop, &life->sigterm);
	ev_signal_start(broker->loop, &life->sigint);
}

static bool
start(Lifecycle *life, Err *err)
{
	Broker *broker = &life->broker;
	PartitionOptions part_opt;
	ReplicationOptions rep_opt;

	broker->log_dir = life->config->log_dir_path;
	broker->configs = topic_configs_new(life->config);
	broker->fetch_sessions = fetch_sessions_new(life->config->max_incremental_fetch_session_cache_slots);
	broker->logs = open_logs(life, err);
	if (broker->logs == NULL || !open_listeners(life, err))
		return false;
	broker->meta = open_meta(life, err);
	if (broker->meta == NULL)
		return false;
	part_opt = (PartitionOptions){.node_id = life->config->node_id,
								  .configs = broker->configs,
								  .image = meta_image(broker->meta),
								  .logs = broker->logs,
								  .make_logs_ms = MAKE_LOGS_MS};
	broker->partitions = partitions_new(&part_opt);
	rep_opt = (ReplicationOptions){
		.loop = broker->loop, .config = life->config, .table = broker->partitions, .meta = broker->meta};
	broker->replication = replication_new(&rep_opt);
	if (broker->replication == NULL)
		return err_set(err, 0, 0, "out of memory for replication");
	broker->groups = groups_new(broker);
	life->reporter = reporter_new(broker, life->config->pg_broker_report_interval_ms);
	start_watchers(life);
	return true;
}

/* The order matters: answers hold slices of segments, storage holds requests, calls hold both. */
static void
finish(Lifecycle *life)
{
	Broker *broker = &life->broker;

	if (broker->net != NULL)
		net_server_close_connections(broker->net);
	replication_free(broker->replication);
	broker->replication = NULL; /* a log may still break while the directory is closed */
	if (broker->meta != NULL)
		meta_free(broker->meta);
	/* What meta had under way came back to these. */
	reporter_free(life->reporter);
	operations_free(broker);
	groups_free(broker->groups);
	if (broker->logs != NULL)
		log_manager_close(broker->logs);
	if (broker->partitions != NULL)
		partitions_free(broker->partitions);
	fetch_sessions_free(broker->fetch_sessions);
	refused_free(&broker->refused);
	if (broker->net != NULL)
		net_server_free(broker->net);
	topic_configs_free(broker->configs);
}

int
lifecycle_run(BrokerConfig *config, Watchdog *watchdog)
{
	Lifecycle *life = calloc(1, sizeof(*life));
	Err err;
	int exit_code;

	if (life == NULL)
		return 1;
	raise_descriptor_limit();
	signal(SIGPIPE, SIG_IGN);
	life->config = config;
	life->watchdog = watchdog;
	life->broker.config = config;
	life->broker.loop = ev_default_loop(EVFLAG_AUTO);
	log_msg(LOG_INFO, "main", "brokerd %s, broker %d, data in %s", BROKERD_VERSION, config->node_id,
			config->log_dir_path);
	if (!start(life, &err))
	{
		log_msg(LOG_FATAL, "main", "%s", err.text);
		life->exit_code = 1;
	}
	else
		ev_run(life->broker.loop, 0);
	watchdog_disarm(life->watchdog); /* closing may take its time */
	finish(life);
	log_msg(LOG_INFO, "main", "stopped");
	exit_code = life->exit_code;
	free(life);
	return exit_code;
}
