#include "brokerd/cluster/fetch_lane.h"

#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/cluster/internal.h"
#include "wire/errors.h"

enum
{
	FETCH_KEY = 1,
	FETCH_VERSION = 17,
	IN_FLIGHT_MAX = 2,
	SLOW_SYNC_MS = 10, /* then others are asked for without waiting for it */
	BACKOFF_FIRST_MS = 20,
	FRAME_SLACK = 1 << 20,
	HOLD_MIN_MS = 20,   /* of what is throttled */
	READ_FOR_MS = 10000 /* behind a consumer's fetch: it is likely to come again */
};

static void on_open(void *ctx);
static void on_frame(void *ctx, Frame *frame);
static void on_end(void *ctx, NetEnd end, const char *why);
static void on_wake(struct ev_loop *loop, ev_timer *w, int events);
static void on_timeout(struct ev_loop *loop, ev_timer *w, int events);
static void kick(FetchLane *lane, bool waited);

FetchLane *
fetch_lane_new(Replication *r, int32_t leader, bool in_isr)
{
	FetchLane *lane = calloc(1, sizeof(*lane));

	if (lane == NULL)
	{
		log_msg(LOG_ERROR, "cluster", "out of memory for a connection to broker %d", leader);
		return NULL;
	}
	lane->r = r;
	lane->leader = leader;
	lane->in_isr = in_isr;
	ev_init(&lane->wake, on_wake);
	ev_init(&lane->timeout, on_timeout);
	lane->wake.data = lane->timeout.data = lane;
	wire_writer_init(&lane->writer);
	arena_init(&lane->arena, 4096);
	return lane;
}

void
fetch_lane_free(FetchLane *lane)
{
	net_client_close(lane->client);
	ev_timer_stop(lane->r->opt.loop, &lane->wake);
	ev_timer_stop(lane->r->opt.loop, &lane->timeout);
	wire_writer_free(&lane->writer);
	arena_free(&lane->arena);
	free(lane->forgotten);
	free(lane);
}

/* ---- who is fetched ---- */

void
fetch_lane_list(Follow *follow)
{
	if (follow->changed)
		return;
	follow->changed = true;
	DL_APPEND2(follow->lane->changed, follow, changed_prev, changed_next);
}

static void
unlist(Follow *follow)
{
	if (!follow->changed)
		return;
	follow->changed = false;
	DL_DELETE2(follow->lane->changed, follow, changed_prev, changed_next);
}

void
fetch_lane_add(FetchLane *lane, Follow *follow)
{
	follow->lane = lane;
	follow->listed = false;
	/* A connection that is still to be made has its time. */
	if (lane->client == NULL)
		lane->heard_ms = clock_boot_ms();
	DL_APPEND(lane->follows, follow);
	if (follow->awaiting >= 0)
		lane->awaiting++;
}

static void
forget(FetchLane *lane, const Partition *p)
{
	if (lane->n_forgotten == lane->cap_forgotten)
	{
		int cap = lane->cap_forgotten > 0 ? lane->cap_forgotten * 2 : 16;
		Forgotten *grown = realloc(lane->forgotten, sizeof(*grown) * (size_t) cap);

		if (grown == NULL)
			return; /* what comes of it is ignored */
		lane->forgotten = grown;
		lane->cap_forgotten = cap;
	}
	lane->forgotten[lane->n_forgotten++] = (Forgotten){p->topic->id, p->index};
}

void
fetch_lane_remove(Follow *follow)
{
	FetchLane *lane = follow->lane;

	unlist(follow);
	DL_DELETE(lane->follows, follow);
	if (follow->listed)
		forget(lane, follow->partition);
	if (follow->awaiting >= 0)
		lane->awaiting--;
	follow->lane = NULL;
}

void
fetch_lane_synced(Follow *follow)
{
	follow->awaiting = -1;
	follow->lane->awaiting--;
	fetch_lane_list(follow);
	fetch_lane_kick(follow->lane);
}

void
fetch_lane_delay(Follow *follow)
{
	int most = follow->lane->r->opt.config->replica_fetch_backoff_ms;
	int ms = BACKOFF_FIRST_MS << (follow->failures < 10 ? follow->failures : 10);

	follow->failures++;
	follow->not_before_ms = clock_boot_ms() + (ms < most ? ms : most);
	fetch_lane_list(follow);
}

/* ---- connecting ---- */

static void
wake_in(FetchLane *lane, int64_t ms)
{
	ev_timer_stop(lane->r->opt.loop, &lane->wake);
	ev_timer_set(&lane->wake, ms > 0 ? (double) ms / 1e3 : 0., 0.);
	ev_timer_start(lane->r->opt.loop, &lane->wake);
}

/* Half of it, and as much of the other half as the clock says, so that brokers do not come in step. */
static void
back_off(FetchLane *lane)
{
	int most = lane->r->opt.config->replica_fetch_backoff_ms;
	int ms = lane->backoff_ms;

	lane->backoff_ms = ms * 2 < most ? ms * 2 : most > BACKOFF_FIRST_MS ? most : BACKOFF_FIRST_MS;
	wake_in(lane, ms / 2 + (int) (clock_boot_us() % (ms / 2 + 1)));
}

void
fetch_lane_disconnect(FetchLane *lane, const char *why)
{
	if (lane->client == NULL)
		return;
	if (why != NULL && !lane->told)
	{
		log_msg(LOG_WARNING, "cluster", "replication from broker %d is interrupted: %s", lane->leader, why);
		lane->told = true;
	}
	net_client_close(lane->client);
	lane->client = NULL;
	lane->session_id = lane->session_epoch = 0;
	lane->in_flight = 0;
	lane->n_forgotten = 0;
	ev_timer_stop(lane->r->opt.loop, &lane->timeout);
	for (Follow *f = lane->follows; f != NULL; f = f->next)
		f->listed = false;
}

static void
connect_lane(FetchLane *lane)
{
	const MetaBroker *b = meta_image_broker(meta_image(lane->r->opt.meta), lane->leader);
	const MetaEndpoint *end = replication_endpoint(lane->r, lane->leader);
	NetClientOptions opt = {
		.loop = lane->r->opt.loop,
		.max_frame = (size_t) lane->r->opt.config->socket_request_max_bytes + FRAME_SLACK +
					 (size_t) lane->r->opt.config->replica_fetch_response_max_bytes,
		.on_open = on_open,
		.on_frame = on_frame,
		.on_end = on_end,
		.ctx = lane,
	};

	if (lane->backoff_ms == 0)
		lane->backoff_ms = BACKOFF_FIRST_MS;
	if (end == NULL || lane->r->broker_epoch < 0)
	{
		back_off(lane);
		return;
	}
	opt.host = end->host;
	opt.port = end->port;
	lane->leader_broker_epoch = b->epoch;
	lane->client = net_client_open(&opt);
	if (lane->client == NULL)
		back_off(lane);
}

static void
on_open(void *ctx)
{
	FetchLane *lane = ctx;

	for (Follow *f = lane->follows; f != NULL; f = f->next)
		if (f->awaiting < 0)
			fetch_lane_list(f);
	fetch_lane_kick(lane);
}

static void
on_end(void *ctx, NetEnd end, const char *why)
{
	FetchLane *lane = ctx;

	(void) end;
	fetch_lane_disconnect(lane, why);
	back_off(lane);
}

static void
on_timeout(struct ev_loop *loop, ev_timer *w, int events)
{
	FetchLane *lane = w->data;

	(void) loop;
	(void) events;
	fetch_lane_disconnect(lane, "it gave no answer within replica.socket.timeout.ms");
	back_off(lane);
}

static void
on_wake(struct ev_loop *loop, ev_timer *w, int events)
{
	FetchLane *lane = w->data;

	(void) loop;
	(void) events;
	kick(lane, true);
}

/* ---- throttled replicas (KIP-73) ---- */

/* What is in sync never is, so nobody's acks=all waits for it. */
static bool
is_throttled(const FetchLane *lane, const Follow *f)
{
	return f->partition->throttled_as_follower && !lane->in_isr && !f->caught_up;
}

static void
hold(const FetchLane *lane, Follow *f, int64_t now)
{
	int64_t ms = throttle_wait_ms(&lane->r->fetching, now);

	f->not_before_ms = now + (ms < HOLD_MIN_MS            ? HOLD_MIN_MS
							  : ms > THROTTLE_HOLD_MAX_MS ? THROTTLE_HOLD_MAX_MS
														  : ms);
}

/* Those for which nothing may come now are not due. */
static void
hold_throttled(FetchLane *lane)
{
	int64_t now = clock_boot_ms();

	if (lane->in_isr || throttle_allowance(&lane->r->fetching, now) > 0)
		return;
	for (Follow *f = lane->changed; f != NULL; f = f->changed_next)
		if (f->not_before_ms <= now && is_throttled(lane, f))
			hold(lane, f, now);
}

/* ---- asking ---- */

static void
fill_partition(const FetchLane *lane, Follow *f, int32_t max_bytes, FetchRequestTopicsPartitions *out)
{
	const Partition *p = f->partition;

	out->partition = p->index;
	out->current_leader_epoch = f->leader_epoch;
	/* The leader takes it for what is synced here: after a write that failed more may be appended. */
	out->fetch_offset = log_synced_end(p->log);
	out->last_fetched_epoch = log_latest_epoch(p->log);
	out->log_start_offset = log_start_offset(p->log);
	out->partition_max_bytes = max_bytes;
	f->read_told = f->read_ms >= 0 && clock_boot_ms() - f->read_ms < READ_FOR_MS;
	/* Before the leader has answered, any answer is news: it says that the logs agree. */
	if (f->read_told)
		out->read_high_watermark = f->agreed ? p->high_watermark : 0;
	f->listed = true;
	f->listed_in = lane->correlation_id;
}

/* Those that are due; the others stay. */
static void
fill_topics(FetchLane *lane, FetchRequest *request)
{
	int64_t now = clock_boot_ms();
	int64_t allowance = throttle_allowance(&lane->r->fetching, now);
	FetchRequestTopicsPartitions *parts;
	FetchRequestTopics *topic = NULL;
	Follow *f, *next;
	int n = 0, count;

	DL_COUNT2(lane->changed, f, count, changed_next);
	parts = WIRE_NEW(FetchRequestTopicsPartitions, &lane->arena, count);
	request->topics = WIRE_NEW(FetchRequestTopics, &lane->arena, count);
	if (parts == NULL || request->topics == NULL)
		return;
	DL_FOREACH_SAFE2(lane->changed, f, next, changed_next)
	{
		int32_t max_bytes = lane->r->opt.config->replica_fetch_max_bytes;

		if (f->not_before_ms > now)
			continue;
		if (is_throttled(lane, f))
		{
			if (allowance == 0)
			{
				hold(lane, f, now);
				continue;
			}
			max_bytes = allowance < max_bytes ? (int32_t) allowance : max_bytes;
			allowance -= max_bytes;
		}
		unlist(f);
		if (topic == NULL || !wuuid_eq(&topic->topic_id, &f->partition->topic->id))
		{
			topic = &request->topics[request->n_topics++];
			topic->topic_id = f->partition->topic->id;
			topic->partitions = &parts[n];
		}
		fill_partition(lane, f, max_bytes, &parts[n++]);
		topic->n_partitions++;
	}
}

static void
fill_forgotten(FetchLane *lane, FetchRequest *request)
{
	if (lane->n_forgotten == 0)
		return;
	request->forgotten_topics_data =
		WIRE_NEW(FetchRequestForgottenTopicsData, &lane->arena, lane->n_forgotten);
	if (request->forgotten_topics_data == NULL)
		return;
	for (int i = 0; i < lane->n_forgotten; i++)
		request->forgotten_topics_data[i] =
			(FetchRequestForgottenTopicsData){.topic_id = lane->forgotten[i].topic_id,
											  .partitions = &lane->forgotten[i].partition,
											  .n_partitions = 1};
	request->n_forgotten_topics_data = lane->n_forgotten;
}

static void
fill_peer(const FetchLane *lane, FetchRequest *request, uint8_t token[PEER_TOKEN_SIZE])
{
	const Replication *r = lane->r;

	request->replica_state.replica_id = r->opt.config->node_id;
	request->replica_state.replica_epoch = r->broker_epoch;
	request->peer.postgres_age_ms = replication_postgres_age_ms(r);
	request->peer.pg_incarnation = meta_pg_incarnation(r->opt.meta);
	request->peer.token = WBYTES_NULL;
	if (lane->session_epoch == 0 &&
		peer_token_make(&r->secret, r->opt.config->node_id, r->broker_epoch, lane->leader, token))
		request->peer.token = (WBytes){token, PEER_TOKEN_SIZE};
}

static void
send_request(FetchLane *lane)
{
	const BrokerConfig *config = lane->r->opt.config;
	uint8_t token[PEER_TOKEN_SIZE];
	FetchRequest request;

	arena_reset(&lane->arena);
	WIRE_INIT(FetchRequest, &request);
	request.max_wait_ms = config->replica_fetch_wait_max_ms;
	request.min_bytes = config->replica_fetch_min_bytes;
	request.max_bytes = config->replica_fetch_response_max_bytes;
	request.session_id = lane->session_id;
	request.session_epoch = lane->session_epoch;
	request.rack_id = WSTR_LIT("");
	fill_peer(lane, &request, token);
	fill_topics(lane, &request);
	fill_forgotten(lane, &request);
	lane->n_forgotten = 0;
	wire_writer_reset(&lane->writer);
	wire_request_put(&lane->writer, wire_api(FETCH_KEY), FETCH_VERSION, lane->correlation_id++,
					 WSTR_LIT("pg_broker replica"), &request);
	if (lane->writer.failed || lane->arena.failed)
	{
		fetch_lane_disconnect(lane, "out of memory for a request");
		back_off(lane);
		return;
	}
	net_client_send(lane->client, lane->writer.buf, lane->writer.len);
	/* Until the first answer the session has no id, so nothing is sent behind it. */
	lane->session_epoch = lane->session_epoch == INT32_MAX ? 1 : lane->session_epoch + 1;
	lane->in_flight++;
	if (!ev_is_active(&lane->timeout))
	{
		ev_timer_set(&lane->timeout, config->replica_socket_timeout_ms / 1e3, 0.);
		ev_timer_start(lane->r->opt.loop, &lane->timeout);
	}
}

/* Something that is due, or that the session has and the lane has not.  When nothing is, the earliest is waited for. */
static bool
has_news(FetchLane *lane)
{
	int64_t now = clock_boot_ms(), earliest = INT64_MAX;

	if (lane->n_forgotten > 0)
		return true;
	for (const Follow *f = lane->changed; f != NULL; f = f->changed_next)
	{
		if (f->not_before_ms <= now)
			return true;
		earliest = f->not_before_ms < earliest ? f->not_before_ms : earliest;
	}
	if (earliest != INT64_MAX)
		wake_in(lane, earliest - now);
	return false;
}

/* `waited`: what is being synced has had its time. */
static void
kick(FetchLane *lane, bool waited)
{
	bool news;

	if (lane->taking)
		return; /* it is done behind the answer */
	if (lane->client == NULL)
	{
		if (lane->follows != NULL && !ev_is_active(&lane->wake))
			connect_lane(lane);
		return;
	}
	if (!net_client_is_open(lane->client) || lane->in_flight == IN_FLIGHT_MAX ||
		(lane->in_flight > 0 && lane->session_id == 0))
		return;
	hold_throttled(lane);
	news = has_news(lane);
	if (!news && (lane->in_flight > 0 || lane->session_id == 0))
		return;
	/* What came is being synced; asking a moment later asks for more of it, too. */
	if (!news && lane->awaiting > 0 && !waited)
	{
		if (!ev_is_active(&lane->wake))
			wake_in(lane, SLOW_SYNC_MS);
		return;
	}
	send_request(lane);
	if (lane->client != NULL)
		(void) has_news(lane); /* what was not due stays, and is waited for */
}

void
fetch_lane_kick(FetchLane *lane)
{
	kick(lane, false);
}

/* ---- the answer ---- */

static void
take_response(FetchLane *lane, const FetchResponse *response, int32_t correlation_id, Frame *frame)
{
	if (response->error_code != KERR_NONE)
	{
		char why[96];

		snprintf(why, sizeof(why), "its answer is error %d", response->error_code);
		fetch_lane_disconnect(lane, why);
		back_off(lane);
		return;
	}
	lane->backoff_ms = BACKOFF_FIRST_MS;
	lane->heard_ms = clock_boot_ms();
	lane->session_id = response->session_id;
	meta_heard_incarnation(lane->r->opt.meta, response->peer.pg_incarnation, response->peer.postgres_age_ms);
	for (int32_t i = 0; i < response->n_responses && lane->client != NULL; i++)
		for (int32_t j = 0; j < response->responses[i].n_partitions; j++)
			fetch_lane_take(lane, &response->responses[i].topic_id, &response->responses[i].partitions[j],
							correlation_id, frame);
}

static void
on_frame(void *ctx, Frame *frame)
{
	FetchLane *lane = ctx;
	int32_t correlation_id = lane->correlation_id - lane->in_flight;
	FetchResponse response;

	arena_reset(&lane->arena);
	ev_timer_stop(lane->r->opt.loop, &lane->timeout);
	if (wire_response_decode(frame->data, frame->len, wire_api(FETCH_KEY), FETCH_VERSION, correlation_id,
							 &lane->arena, &response) != NULL)
	{
		fetch_lane_disconnect(lane, "its answer is malformed");
		back_off(lane);
		frame_unref(frame);
		return;
	}
	lane->in_flight--;
	if (lane->told)
		log_msg(LOG_INFO, "cluster", "replication from broker %d goes on", lane->leader);
	lane->told = false;
	lane->taking = true;
	take_response(lane, &response, correlation_id, frame);
	lane->taking = false;
	frame_unref(frame);
	if (lane->in_flight > 0)
	{
		ev_timer_set(&lane->timeout, lane->r->opt.config->replica_socket_timeout_ms / 1e3, 0.);
		ev_timer_start(lane->r->opt.loop, &lane->timeout);
	}
	fetch_lane_kick(lane);
}
