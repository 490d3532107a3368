/*
 * Fetch (key 1), v4-17.
 *
 *     decode ─▶ session ─▶ look at each partition in turn ─▶ enough bytes, an error, or no time? ─▶ answer
 *                              ▲        │ not in the page cache         │ no
 *                              │        ▼                               ▼
 *                              │    a cold reader brings it          parked on its partitions
 *                              └──────── something moved, or max_wait_ms ended ─┘
 *
 * Records are slices of segment files, sent by sendfile; nothing here looks into them.
 * v5 log start offsets; v7 sessions (KIP-227); v9 leader epochs; v12 flexible, diverging epochs; v13 topic ids;
 * v11 a rack, and the replica to read from instead, followers answer consumers (KIP-392); v15 replica state; v16 leader
 * hints (KIP-951).
 */
#include "brokerd/api/fetch.h"

#include <utlist.h>

#include "brokerd/api/fetch_op.h"
#include "brokerd/api/handlers.h"
#include "brokerd/api/nearest.h"
#include "brokerd/api/replica_fetch.h"
#include "brokerd/base/clock.h"
#include "brokerd/cluster/fetcher.h"

static void look_on(FetchOp *op);

/* ---- one partition ---- */

static void
release_slices(FetchOp *op)
{
	for (int i = 0; i < op->n_parts; i++)
		if (op->parts[i].slice.segment != NULL || op->parts[i].slice.data != NULL)
		{
			log_slice_release(&op->parts[i].slice);
			op->parts[i].slice = (LogSlice){.fd = -1};
		}
}

static Partition *
find_partition(FetchPart *part, int16_t *error)
{
	PartitionTopic *topic =
		common_find_topic(part->op->call, part->topic, &part->topic_id, part->op->call->version >= 13, error);

	if (topic == NULL)
		return NULL;
	if (part->partition < 0 || part->partition >= topic->n_partitions)
	{
		*error = KERR_UNKNOWN_TOPIC_OR_PARTITION;
		return NULL;
	}
	return topic->partitions[part->partition];
}

static void
read_done(FetchPart *part, int16_t error, LogSlice *slice)
{
	FetchOp *op = part->op;

	part->error = error;
	part->slice = *slice;
	if (error != KERR_NONE)
		op->urgent = true;
	op->bytes += part->slice.len;
}

static void
on_cold_read(void *ctx, int16_t error, LogSlice *slice)
{
	FetchPart *part = ctx;
	FetchOp *op = part->op;

	op->reading = false;
	read_done(part, error, slice);
	op->cursor++;
	if (op->cancelled)
	{
		release_slices(op);
		api_no_reply(op->call);
		return;
	}
	look_on(op);
}

/*
 * Who fetches as a replica must be one.  Up to v14, which cannot say in which broker epoch, it reads as a consumer
 * does and counts for nothing; replicas of ours come with v15 (replica_fetch.c).
 */
static bool
may_fetch(const FetchOp *op, const Partition *p)
{
	const FetchRequest *request = op->request;
	int32_t replica = request->replica_id;
	const MetaTopic *topic;

	if (replica < 0 || op->call->version >= 15)
		return true;
	topic = meta_image_topic(meta_image(op->call->broker->meta), p->topic->name, p->topic->name_len);
	return topic != NULL && p->index < topic->n_partitions &&
		   meta_partition_has_replica(meta_topic_partition(topic, p->index), replica);
}

/* May this broker answer, and where it may not: who leads, for clients that can be told. */
static int16_t
check_reader(FetchPart *part, Partition *p)
{
	const FetchOp *op = part->op;
	bool as_follower = op->call->version >= 11 && op->request->replica_id < 0;
	int16_t error = partition_check_reader(p, part->want.current_leader_epoch, as_follower);

	if (!p->leading && (error == KERR_NONE || error == KERR_OFFSET_NOT_AVAILABLE))
		fetcher_note_reader(p);
	if (error == KERR_NONE && !may_fetch(op, p))
		error = KERR_NOT_LEADER_OR_FOLLOWER;
	if (error == KERR_NOT_LEADER_OR_FOLLOWER || error == KERR_FENCED_LEADER_EPOCH)
	{
		part->leader = p->leader;
		part->leader_epoch = p->leader_epoch;
	}
	return error;
}

/* Is the offset one of the log's, and does the client's log agree with it? */
static int16_t
check_offset(FetchPart *part, Partition *p)
{
	const FetchRequestTopicsPartitions *want = &part->want;
	int16_t error = KERR_NONE;

	/* Before the logs are compared: one that is behind does not part from the client's. */
	if (!p->leading)
		error = fetcher_check_offset(p, want->fetch_offset);
	if (error == KERR_NONE)
		error = partition_divergence(p, want->last_fetched_epoch, want->fetch_offset, &part->divergence);
	if (error == KERR_NONE &&
		(want->fetch_offset < log_start_offset(p->log) || want->fetch_offset > log_appended_end(p->log)))
		error = KERR_OFFSET_OUT_OF_RANGE;
	if (error != KERR_NONE)
		part->divergence.diverged = false;
	return error;
}

static void
take_offsets(FetchPart *part, const Partition *p)
{
	int64_t stable = partition_last_stable_offset(p);

	part->high_watermark = partition_readable_end(p);
	part->last_stable_offset = stable < part->high_watermark ? stable : part->high_watermark;
	part->log_start_offset = log_start_offset(p->log);
}

/* False: a cold reader is under way and look_on() goes on later. */
static bool
look_at(FetchPart *part)
{
	FetchOp *op = part->op;
	const FetchRequestTopicsPartitions *want = &part->want;
	int32_t most = op->request->max_bytes;
	int16_t error = KERR_NONE;
	Partition *p = find_partition(part, &error);
	LogSlice slice = {.fd = -1};
	LogRead read;

	part->error = KERR_NONE;
	part->divergence.diverged = false;
	part->leader = part->leader_epoch = part->preferred = -1;
	part->high_watermark = part->last_stable_offset = part->log_start_offset = -1;
	if (p != NULL)
		error = check_reader(part, p);
	if (p != NULL && error == KERR_NONE)
		error = check_offset(part, p);
	if (p == NULL || error != KERR_NONE)
	{
		read_done(part, error, &slice);
		return true;
	}
	take_offsets(part, p);
	if (op->call->version >= 11 && p->leading && !part->divergence.diverged)
		part->preferred = nearest_replica(op->call, p, op->request->rack_id, want->fetch_offset);
	if (part->divergence.diverged || part->preferred >= 0)
	{
		op->urgent = true;
		return true;
	}
	read.offset = want->fetch_offset;
	read.limit_offset = op->request->isolation_level == 1 ? part->last_stable_offset : part->high_watermark;
	read.max_bytes = want->partition_max_bytes;
	if (op->bytes > 0 && op->bytes >= most)
		return true; /* but the first batch comes past any limit, or a client might never get on */
	if (read.max_bytes > most - op->bytes)
		read.max_bytes = (int32_t) (most - op->bytes);
	read.at_least_one = op->bytes == 0;
	if (read.offset >= read.limit_offset || (read.max_bytes <= 0 && !read.at_least_one))
		return true;
	if (log_read(p->log, &read, &slice, &error, on_cold_read, part) == LOG_READ_PENDING)
	{
		op->reading = true;
		return false;
	}
	read_done(part, error, &slice);
	return true;
}

/* ---- all of them ---- */

static void
unpark(FetchOp *op)
{
	Broker *broker = op->call->broker;

	if (!op->parked)
		return;
	op->parked = false;
	DL_DELETE(broker->fetch_parked, op);
	ev_timer_stop(broker->loop, &op->timer);
	for (int i = 0; i < op->n_parts; i++)
		partition_unwait(&op->parts[i].waiter);
	if (op->woken)
	{
		FetchOp **link = &broker->fetch_woken;

		while (*link != op)
			link = &(*link)->woken_next;
		*link = op->woken_next;
		op->woken = false;
	}
}

static void
answer(FetchOp *op)
{
	unpark(op);
	fetch_answer(op);
}

static void
on_wait_over(struct ev_loop *loop, ev_timer *timer, int revents)
{
	FetchOp *op = timer->data;

	(void) loop;
	(void) revents;
	unpark(op);
	op->urgent = true; /* whatever there is now */
	if (op->reading)
		return; /* the cold reader goes on, and answers */
	op->cursor = 0;
	op->bytes = 0;
	look_on(op);
}

static void
on_moved(PartitionWaiter *w, int16_t error)
{
	FetchOp *op = ((FetchPart *) w->owner)->op;

	(void) error; /* the next look finds it */
	if (op->woken)
		return;
	op->woken = true;
	op->woken_next = op->call->broker->fetch_woken;
	op->call->broker->fetch_woken = op;
}

static void
park(FetchOp *op)
{
	int64_t waited_us = clock_boot_us() - op->call->req->received_us;
	double left = op->request->max_wait_ms / 1e3 - (double) waited_us / 1e6;

	release_slices(op);
	op->parked = true;
	DL_APPEND(op->call->broker->fetch_parked, op);
	for (int i = 0; i < op->n_parts; i++)
	{
		FetchPart *part = &op->parts[i];
		int16_t error;
		Partition *p = find_partition(part, &error);

		part->waiter.wake = on_moved;
		part->waiter.owner = part;
		if (p != NULL && part->waiter.partition == NULL)
			partition_wait(p, &part->waiter, WAIT_MORE, 0);
	}
	ev_timer_init(&op->timer, on_wait_over, left > 0. ? left : 0., 0.);
	op->timer.data = op;
	ev_timer_start(op->call->broker->loop, &op->timer);
}

static void
look_on(FetchOp *op)
{
	for (; op->cursor < op->n_parts; op->cursor++)
		if (!look_at(&op->parts[op->cursor]))
			return;
	if (op->urgent || op->n_parts == 0 || op->request->max_wait_ms <= 0 ||
		op->bytes >= op->request->min_bytes)
		answer(op);
	else if (op->parked)
		release_slices(op); /* not enough yet; it stays where it waits */
	else
		park(op);
}

void
fetch_run_woken(Broker *broker)
{
	FetchOp *op;

	while ((op = broker->fetch_woken) != NULL)
	{
		broker->fetch_woken = op->woken_next;
		op->woken = false;
		if (op->reading)
			continue;
		op->cursor = 0;
		op->bytes = 0;
		look_on(op);
	}
}

void
fetch_answer_parked(Broker *broker)
{
	while (broker->fetch_parked != NULL)
		on_wait_over(broker->loop, &broker->fetch_parked->timer, 0);
}

static void
on_client_gone(ApiCall *call)
{
	FetchOp *op = call->op;

	op->cancelled = true;
	unpark(op);
	if (op->reading)
		return; /* the cold reader ends it */
	release_slices(op);
	api_no_reply(call);
}

/* ---- what is wanted ---- */

static void
add_part(FetchOp *op, WStr topic, const WUuid *topic_id, const FetchRequestTopicsPartitions *want)
{
	FetchPart *part = &op->parts[op->n_parts++];

	part->op = op;
	part->topic = topic;
	part->topic_id = *topic_id;
	part->partition = want->partition;
	part->want = *want;
	part->slice.fd = -1;
}

static int
count_requested(const FetchRequest *request)
{
	int n = 0;

	for (int32_t i = 0; i < request->n_topics; i++)
		n += request->topics[i].n_partitions > 0 ? request->topics[i].n_partitions : 0;
	return n;
}

static void
parts_from_request(FetchOp *op, FetchSession *session)
{
	const FetchRequest *request = op->request;

	op->parts = api_alloc(op->call, sizeof(*op->parts) * (size_t) count_requested(request));
	for (int32_t i = 0; i < request->n_topics; i++)
		for (int32_t j = 0; j < request->topics[i].n_partitions; j++)
		{
			const FetchRequestTopics *topic = &request->topics[i];

			add_part(op, topic->topic, &topic->topic_id, &topic->partitions[j]);
			if (session != NULL)
				fetch_session_put(session, topic->topic, &topic->topic_id, &topic->partitions[j]);
		}
}

static void
update_session(const FetchRequest *request, FetchSession *session)
{
	for (int32_t i = 0; i < request->n_topics; i++)
		for (int32_t j = 0; j < request->topics[i].n_partitions; j++)
			fetch_session_put(session, request->topics[i].topic, &request->topics[i].topic_id,
							  &request->topics[i].partitions[j]);
	for (int32_t i = 0; i < request->n_forgotten_topics_data; i++)
	{
		const FetchRequestForgottenTopicsData *forget = &request->forgotten_topics_data[i];

		for (int32_t j = 0; j < forget->n_partitions; j++)
			fetch_session_forget(session, forget->topic, &forget->topic_id, forget->partitions[j]);
	}
}

static void
parts_from_session(FetchOp *op, FetchSession *session)
{
	FetchSessionPart *sp;

	op->parts = api_alloc(op->call, sizeof(*op->parts) * (HASH_COUNT(session->by_key) + 1));
	for (sp = session->order; sp != NULL; sp = sp->next)
	{
		FetchRequestTopicsPartitions want;
		WStr name = {arena_copy(op->call->arena, sp->key.name, (size_t) sp->key.name_len + 1),
					 sp->key.name_len};

		WIRE_INIT(FetchRequestTopicsPartitions, &want);
		want.partition = sp->key.partition;
		want.fetch_offset = sp->fetch_offset;
		want.log_start_offset = sp->log_start_offset;
		want.partition_max_bytes = sp->max_bytes;
		want.current_leader_epoch = sp->current_leader_epoch;
		want.last_fetched_epoch = sp->last_fetched_epoch;
		add_part(op, name, &sp->key.topic_id, &want);
	}
}

/* By the request's session id and epoch, what is fetched.  Not KERR_NONE: the session is not as the client thinks. */
static int16_t
resolve_session(FetchOp *op)
{
	FetchSessions *sessions = op->call->broker->fetch_sessions;
	const FetchRequest *request = op->request;
	bool uses_ids = op->call->version >= 13;
	FetchSession *session =
		request->session_id != 0 ? fetch_session_find(sessions, request->session_id) : NULL;

	if (request->session_epoch <= 0)
	{
		/* Full: a new session (0) or none (-1); the old one ends. */
		if (session != NULL)
			fetch_session_close(sessions, session);
		session = request->session_epoch == 0 && count_requested(request) > 0
					  ? fetch_session_create(sessions, uses_ids)
					  : NULL;
		op->session_id = session != NULL ? session->id : 0;
		parts_from_request(op, session);
		return KERR_NONE;
	}
	if (session == NULL)
		return KERR_FETCH_SESSION_ID_NOT_FOUND;
	if (request->session_epoch != session->epoch)
		return KERR_INVALID_FETCH_SESSION_EPOCH;
	if (uses_ids != session->uses_ids)
		return KERR_FETCH_SESSION_TOPIC_ID_ERROR;
	session->epoch = session->epoch == INT32_MAX ? 1 : session->epoch + 1;
	fetch_session_touch(sessions, session);
	update_session(request, session);
	op->session_id = session->id;
	op->incremental = true;
	parts_from_session(op, session);
	return KERR_NONE;
}

void
fetch_handle(ApiCall *call)
{
	FetchRequest *request = call->body;
	FetchOp *op;
	int16_t error;

	if (call->version >= 15 && request->replica_state.replica_id >= 0)
	{
		replica_fetch_handle(call);
		return;
	}
	op = api_alloc(call, sizeof(*op));
	op->call = call;
	op->request = request;
	if (request->max_bytes > call->broker->config->fetch_max_bytes)
		request->max_bytes = call->broker->config->fetch_max_bytes;
	error = resolve_session(op);
	if (error != KERR_NONE)
	{
		fetch_answer_error(call, error);
		return;
	}
	call->op = op;
	call->cancelled = on_client_gone;
	look_on(op);
}
