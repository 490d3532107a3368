#include "brokerd/api/replica_fetch.h"

#include <utlist.h>

#include "brokerd/api/common.h"
#include "brokerd/api/fetch_op.h"
#include "brokerd/api/replica_session.h"
#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/cluster/leadership.h"
#include "brokerd/cluster/replication.h"

/* What one look at a due partition found. */
typedef struct ReplicaResult
{
	ReplicaKey key;
	int16_t error;
	Divergence divergence;
	int32_t leader, leader_epoch; /* a hint with an error; -1 none */
	int64_t high_watermark, log_start_offset;
	LogSlice slice;
	NetPiece piece;
} ReplicaResult;

typedef struct ReplicaFetch
{
	ApiCall *call;
	const FetchRequest *request;
	ReplicaSession *session; /* NULL: the connection is gone */
	int32_t epoch;           /* of the request in the session */
	ReplicaResult *results;
	int n, cap;
	int64_t bytes;
	bool urgent;  /* something that the follower has to know now */
	bool reading; /* a cold reader is at results[n - 1] */
	bool hurry;   /* the wait is over: answer as soon as the reader is back */
	bool parked;
	ev_timer timer;
	struct ReplicaFetch *prev, *next;       /* broker->replica_parked */
	struct ReplicaFetch *op_prev, *op_next; /* session->ops */
} ReplicaFetch;

static void look_on(ReplicaFetch *op);

/* ---- the answer ---- */

static void
fill_part(ReplicaResult *r, FetchResponseResponsesPartitions *out)
{
	out->partition_index = r->key.partition;
	out->error_code = r->error;
	out->high_watermark = r->high_watermark;
	out->log_start_offset = r->log_start_offset;
	out->n_aborted_transactions = -1;
	fetch_fill_records(&r->slice, &r->piece, &out->records);
	if (r->divergence.diverged)
	{
		out->diverging_epoch.epoch = r->divergence.epoch;
		out->diverging_epoch.end_offset = r->divergence.end;
	}
	if (r->leader >= 0)
	{
		out->current_leader.leader_id = r->leader;
		out->current_leader.leader_epoch = r->leader_epoch;
	}
}

static void
unpark(ReplicaFetch *op)
{
	if (!op->parked)
		return;
	op->parked = false;
	DL_DELETE(op->call->broker->replica_parked, op);
	ev_timer_stop(op->call->broker->loop, &op->timer);
}

static ReplicaResult *
add_result(ReplicaFetch *op, const ReplicaPart *part)
{
	ReplicaResult *r;

	if (op->n == op->cap)
	{
		int cap = op->cap > 0 ? op->cap * 2 : 8;
		ReplicaResult *grown = api_alloc(op->call, sizeof(*grown) * (size_t) cap);

		if (op->n > 0)
			memcpy(grown, op->results, sizeof(*grown) * (size_t) op->n);
		op->results = grown;
		op->cap = cap;
	}
	r = &op->results[op->n++];
	*r = (ReplicaResult){.key = part->key,
						 .leader = -1,
						 .leader_epoch = -1,
						 .high_watermark = -1,
						 .log_start_offset = -1,
						 .slice = {.fd = -1}};
	return r;
}

/* A newer request's answer tells them; what an older one says of a partition named since is not listened to. */
static void
add_high_watermarks(ReplicaFetch *op)
{
	ReplicaSession *s = op->session;

	while (s->parked == op && s->behind != NULL)
	{
		ReplicaPart *part = s->behind;
		const Partition *p = replica_part_partition(part);
		ReplicaResult *r;

		replica_part_behind(part, false);
		if (p == NULL || p->log == NULL)
			continue;
		r = add_result(op, part);
		r->high_watermark = part->told_high_watermark = partition_high_watermark(p);
		r->log_start_offset = part->told_log_start = log_start_offset(p->log);
	}
}

static void
leave_session(ReplicaFetch *op)
{
	DL_DELETE2(op->session->ops, op, op_prev, op_next);
	if (op->session->parked == op)
		op->session->parked = NULL;
	op->session = NULL;
}

static void
answer(ReplicaFetch *op)
{
	ApiCall *call = op->call;
	const ReplicaSession *session = op->session;
	FetchResponse response;
	FetchResponseResponses *topic = NULL;
	FetchResponseResponsesPartitions *outs;

	if (session == NULL)
		return; /* its connection is gone; on_follower_gone() ends it */
	add_high_watermarks(op);
	outs = API_NEW(call, FetchResponseResponsesPartitions, op->n);
	unpark(op);
	leave_session(op);
	call->op = NULL;
	call->cancelled = NULL;
	WIRE_INIT(FetchResponse, &response);
	response.session_id = session->id;
	response.peer.postgres_age_ms = replication_postgres_age_ms(call->broker->replication);
	response.peer.pg_incarnation = meta_pg_incarnation(call->broker->meta);
	response.responses = API_NEW(call, FetchResponseResponses, op->n);
	response.n_responses = 0;
	for (int i = 0; i < op->n; i++)
	{
		if (topic == NULL || !wuuid_eq(&topic->topic_id, &op->results[i].key.topic_id))
		{
			topic = &response.responses[response.n_responses++];
			topic->topic_id = op->results[i].key.topic_id;
			topic->partitions = &outs[i];
			topic->n_partitions = 0;
		}
		fill_part(&op->results[i], &outs[i]);
		topic->n_partitions++;
	}
	api_reply(call, &response);
}

static void
release_results(ReplicaFetch *op)
{
	for (int i = 0; i < op->n; i++)
		if (op->results[i].slice.segment != NULL || op->results[i].slice.data != NULL)
			log_slice_release(&op->results[i].slice);
	op->n = 0;
}

/* ---- looking ---- */

static void
take_read(ReplicaFetch *op, ReplicaResult *r, int16_t error, LogSlice *slice)
{
	ReplicaPart *part = op->session != NULL ? replica_session_find(op->session, &r->key) : NULL;
	const Partition *p = part != NULL ? replica_part_partition(part) : NULL;

	/* Also in sync, where it is not held up: the rate is for all that goes, as in Kafka. */
	if (p != NULL && p->throttled_as_leader)
		throttle_note(&op->call->broker->replication->serving, slice->len, clock_boot_ms());
	r->error = error;
	r->slice = *slice;
	op->bytes += slice->len;
	if (part != NULL && part->named_in <= op->epoch && (error != KERR_NONE || slice->len > 0))
		part->answered = true;
	op->urgent = op->urgent || error != KERR_NONE;
}

static void
on_cold_read(void *ctx, int16_t error, LogSlice *slice)
{
	ReplicaFetch *op = ctx;

	op->reading = false;
	take_read(op, &op->results[op->n - 1], error, slice);
	if (op->session == NULL)
	{
		release_results(op);
		api_no_reply(op->call);
		return;
	}
	if (op->hurry)
		answer(op);
	else
		look_on(op);
}

/* An answer of its own: the question was wrong, or the logs part. */
static bool
tell_trouble(ReplicaFetch *op, ReplicaPart *part, const Partition *p)
{
	int16_t error = part->error;
	ReplicaResult *r;

	if (error == KERR_NONE && !part->divergence.diverged)
		error = p == NULL ? KERR_UNKNOWN_TOPIC_ID : partition_check_leader(p, part->leader_epoch);
	if (error == KERR_NONE && !part->divergence.diverged)
		return false;
	r = add_result(op, part);
	r->error = error;
	if (error == KERR_NONE)
		r->divergence = part->divergence;
	if (p != NULL)
	{
		r->leader = error == KERR_NONE ? -1 : p->leader;
		r->leader_epoch = p->leader_epoch;
		if (p->log != NULL)
			r->log_start_offset = log_start_offset(p->log);
	}
	part->answered = true;
	part->told_high_watermark = part->told_log_start = -1;
	replica_part_behind(part, false);
	op->urgent = true;
	return true;
}

/*
 * How much a follower may get now; 0: nothing, it is held for a while (KIP-73).  Whom an acks=all waits for is never
 * held.
 */
static int64_t
allowance(ReplicaFetch *op, ReplicaPart *part, const Partition *p)
{
	Throttle *t = &op->call->broker->replication->serving;
	int64_t now = clock_boot_ms();
	int64_t bytes;

	if (!p->throttled_as_leader || !leadership_lags(p->lead, op->session->replica_id))
		return THROTTLE_NONE;
	bytes = throttle_allowance(t, now);
	if (bytes == 0)
		replica_part_hold(part, throttle_wait_ms(t, now));
	return bytes;
}

/*
 * Records are sent by what the follower may take; false: a cold reader brings them.  One batch at least, also where
 * less is left in the answer than it has: there may be no other answer in which the partition is looked at.
 */
static bool
read_part(ReplicaFetch *op, ReplicaPart *part, const Partition *p, int64_t may)
{
	int64_t left = op->request->max_bytes - op->bytes;
	LogRead read = {
		.offset = part->fetch_offset, .limit_offset = log_written_end(p->log), .at_least_one = true};
	ReplicaResult *r = add_result(op, part);
	LogSlice slice = {.fd = -1};
	int16_t error = KERR_NONE;

	left = left < may ? left : may;
	read.max_bytes = part->max_bytes < left ? part->max_bytes : (int32_t) left;
	r->high_watermark = part->told_high_watermark = partition_high_watermark(p);
	r->log_start_offset = part->told_log_start = log_start_offset(p->log);
	replica_part_behind(part, false);
	if (log_read(p->log, &read, &slice, &error, on_cold_read, op) == LOG_READ_PENDING)
	{
		op->reading = true;
		return false;
	}
	take_read(op, r, error, &slice);
	return true;
}

/* False: a cold reader is under way. */
static bool
look_at(ReplicaFetch *op, ReplicaPart *part)
{
	Partition *p = replica_part_partition(part);
	int64_t may = 0;
	bool records;

	replica_part_quiet(part);
	if (part->answered || tell_trouble(op, part, p))
		return true;
	records = part->fetch_offset < log_written_end(p->log);
	if (records && op->bytes > 0 && op->bytes >= op->request->max_bytes)
	{
		replica_part_due(part); /* the next answer begins with it */
		return true;
	}
	if (records)
		may = allowance(op, part, p);
	if (may > 0)
		return read_part(op, part, p, may);
	replica_part_behind(part, part->told_high_watermark != partition_high_watermark(p) ||
								  part->told_log_start != log_start_offset(p->log));
	op->urgent = op->urgent || (part->read_there && part->told_high_watermark < partition_high_watermark(p));
	return true;
}

static bool
is_full(const ReplicaFetch *op)
{
	return op->bytes >= op->request->max_bytes;
}

static void
on_wait_over(struct ev_loop *loop, ev_timer *timer, int revents)
{
	ReplicaFetch *op = timer->data;

	(void) loop;
	(void) revents;
	op->hurry = true;
	if (!op->reading)
		answer(op);
}

static void
park(ReplicaFetch *op)
{
	if (op->parked)
		return;
	op->parked = true;
	DL_APPEND(op->call->broker->replica_parked, op);
	ev_timer_init(&op->timer, on_wait_over, op->request->max_wait_ms / 1e3, 0.);
	op->timer.data = op;
	ev_timer_start(op->call->broker->loop, &op->timer);
}

/* Every partition that is due, once; those that a full answer leaves stay due. */
static void
look_on(ReplicaFetch *op)
{
	ReplicaSession *s = op->session;
	int n;
	ReplicaPart *part;

	DL_COUNT2(s->due, part, n, due_next);
	for (; n > 0 && s->due != NULL && !is_full(op); n--)
		if (!look_at(op, s->due))
			return;
	if (op->urgent || op->hurry || (op->bytes > 0 && op->bytes >= op->request->min_bytes) ||
		op->request->max_wait_ms <= 0)
		answer(op);
	else
		park(op);
}

/* ---- the question ---- */

static void
on_follower_gone(ApiCall *call)
{
	ReplicaFetch *op = call->op;

	unpark(op);
	if (op->session != NULL)
		leave_session(op);
	if (op->reading)
		return; /* the cold reader ends it */
	release_results(op);
	api_no_reply(call);
}

static void
refuse(ApiCall *call, int16_t error, const char *why)
{
	const FetchRequest *request = call->body;

	log_msg(LOG_WARNING, "api", "a fetch from %s as replica %d is refused: %s",
			call->req->conn != NULL ? conn_peer(call->req->conn) : "?", request->replica_state.replica_id,
			why);
	fetch_answer_error(call, error);
}

/* The first request of a connection shows the token; what follows on it is the same replica. */
static ReplicaSession *
authenticate(ApiCall *call)
{
	Broker *broker = call->broker;
	const FetchRequest *request = call->body;
	const FetchRequestReplicaState *from = &request->replica_state;
	ReplicaSession *s = conn_user(call->req->conn);
	const MetaBroker *b = meta_image_broker(meta_image(broker->meta), from->replica_id);

	if (b != NULL && from->replica_epoch < b->epoch)
	{
		refuse(call, KERR_STALE_BROKER_EPOCH, "another process has its id by now");
		return NULL;
	}
	if (s != NULL && s->replica_id == from->replica_id && s->replica_epoch == from->replica_epoch)
		return s;
	if (broker->replication == NULL || request->peer.token.len < 0 ||
		!peer_token_is_valid(&broker->replication->secret, from->replica_id, from->replica_epoch,
							 broker->config->node_id, request->peer.token.p,
							 (size_t) request->peer.token.len))
	{
		refuse(call, KERR_CLUSTER_AUTHORIZATION_FAILED, "it does not know the cluster's secret");
		return NULL;
	}
	if (s != NULL)
		replica_fetch_conn_closed(broker, call->req->conn);
	s = replica_session_new(broker, from->replica_id, from->replica_epoch);
	conn_set_user(call->req->conn, s);
	return s;
}

static void
take_request(ReplicaSession *s, const FetchRequest *request)
{
	for (int32_t i = 0; i < request->n_forgotten_topics_data; i++)
		for (int32_t j = 0; j < request->forgotten_topics_data[i].n_partitions; j++)
			replica_session_forget(s, &request->forgotten_topics_data[i].topic_id,
								   request->forgotten_topics_data[i].partitions[j]);
	for (int32_t i = 0; i < request->n_topics; i++)
		for (int32_t j = 0; j < request->topics[i].n_partitions; j++)
			replica_session_put(s, &request->topics[i].topic_id, &request->topics[i].partitions[j]);
}

void
replica_fetch_handle(ApiCall *call)
{
	FetchRequest *request = call->body;
	ReplicaSession *s;
	ReplicaFetch *op;

	if (call->req->conn == NULL)
	{
		api_no_reply(call);
		return;
	}
	s = authenticate(call);
	if (s == NULL)
		return;
	replication_heard_peer(call->broker->replication, s->replica_id, s->replica_epoch,
						   request->peer.postgres_age_ms);
	meta_heard_incarnation(call->broker->meta, request->peer.pg_incarnation, request->peer.postgres_age_ms);
	/* The one that waits gives way.  A cold read of it goes on, and is part of its answer. */
	if (s->parked != NULL)
	{
		ReplicaFetch *before = s->parked;

		before->hurry = true;
		s->parked = NULL;
		if (!before->reading)
			answer(before);
	}
	if (request->session_epoch > 0 && (request->session_id != s->id || request->session_epoch != s->epoch))
	{
		fetch_answer_error(call, request->session_id != s->id ? KERR_FETCH_SESSION_ID_NOT_FOUND
															  : KERR_INVALID_FETCH_SESSION_EPOCH);
		return;
	}
	if (request->session_epoch <= 0)
		replica_session_reset(s);
	s->epoch = request->session_epoch <= 0 ? 1 : s->epoch == INT32_MAX ? 1 : s->epoch + 1;
	op = api_alloc(call, sizeof(*op));
	op->call = call;
	op->request = request;
	op->session = s;
	op->epoch = s->epoch;
	op->hurry = request->session_epoch <= 0; /* the follower waits for the session's id */
	DL_APPEND2(s->ops, op, op_prev, op_next);
	s->parked = op;
	call->op = op;
	call->cancelled = on_follower_gone;
	take_request(s, request);
	look_on(op);
}

void
replica_fetch_conn_closed(Broker *broker, Conn *conn)
{
	ReplicaSession *s = conn_user(conn);

	(void) broker;
	if (s == NULL)
		return;
	conn_set_user(conn, NULL);
	while (s->ops != NULL)
		leave_session(s->ops);
	replica_session_free(s);
}

void
replica_fetch_run_woken(Broker *broker)
{
	ReplicaSession *s;

	while ((s = broker->replica_woken) != NULL)
	{
		broker->replica_woken = s->woken_next;
		s->woken = false;
		if (s->parked != NULL && !s->parked->reading)
			look_on(s->parked);
	}
}

void
replica_fetch_answer_parked(Broker *broker)
{
	while (broker->replica_parked != NULL)
		on_wait_over(broker->loop, &broker->replica_parked->timer, 0);
}
