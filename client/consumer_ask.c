/*
 * consumer_ask.c: what partitions ask brokers for: where to begin, and records.  A table has one row for each question;
 * all of them are asked, answered and asked again in the same way.
 *
 * One Fetch a broker is on its way, for all partitions of it that want more.  While one of them has CHUNKS_AHEAD
 * answers unread nothing is fetched from its broker: a long poll for the others would keep this one waiting once the
 * application has caught up.  All of them together hold about twice fetch.max.bytes at most.
 */
#include "client/consumer.h"

#include <stdlib.h>

#define CHUNKS_AHEAD 2 /* answers that wait for pgb_poll in a partition */

typedef struct Question
{
	int16_t key, most;
	ConnUse use;
	void (*put)(const pgb_consumer *c, const FromPart *p, void *request, void *part);

	/* The error of one partition; 0: none, or it is dealt with. */
	int (*answer)(pgb_consumer *c, FromPart *p, const void *part);
} Question;

void
consumer_reset(pgb_consumer *c, FromPart *p, const char *why)
{
	if (c->c.conf.reset != RESET_NONE)
	{
		consumer_place(c, p, ASK_TIME, c->c.conf.reset == RESET_EARLIEST ? PGB_EARLIEST : PGB_LATEST);
		return;
	}
	error_set(consumer_failure(c), PGB_NO_OFFSET, false,
			  "topic \"%s\", partition %d: %s and auto.offset.reset is none; pgb_seek to where to go on",
			  p->ask.topic->name, p->ask.index, why);
	consumer_place(c, p, IDLE, 0);
}

/* ---- the group's offset ---- */

static void
put_commit(const pgb_consumer *c, const FromPart *p, void *request, void *part)
{
	OffsetCommitRequest *req = request;
	OffsetCommitRequestTopicsPartitions *to = part;

	req->group_id = wstr(c->c.conf.group_id);
	if (c->member.len > 0)
	{
		req->generation_id_or_member_epoch = c->generation;
		req->member_id = c->member;
		req->group_instance_id = c->instance;
	}
	to->committed_offset = p->when;
	to->committed_metadata = WSTR_LIT("");
}

static int
answer_commit(pgb_consumer *c, FromPart *p, const void *part)
{
	int code = ((const OffsetCommitResponseTopicsPartitions *) part)->error_code;
	FromPart *mine = consumer_find(c->parts, p->ask.topic, p->ask.index);

	if (code == 0 && mine != NULL)
		mine->committed = p->when;
	/* The group goes on without us: the next join tells us where it is. */
	if (code == KERR_ILLEGAL_GENERATION || code == KERR_UNKNOWN_MEMBER_ID ||
		code == KERR_REBALANCE_IN_PROGRESS)
		c->heartbeat_at = 0;
	return code;
}

static void
put_committed(const pgb_consumer *c, const FromPart *p, void *request, void *part)
{
	OffsetFetchRequest *req = request;

	(void) p;
	(void) part;
	req->group_id = wstr(c->c.conf.group_id);
	req->require_stable = true;
}

static int
answer_committed(pgb_consumer *c, FromPart *p, const void *part)
{
	const OffsetFetchResponseTopicsPartitions *r = part;

	if (r->error_code != 0 || job_answered(p, r->committed_offset))
		return r->error_code;
	if (r->committed_offset < 0)
	{
		consumer_reset(c, p, "the group has no offset");
		return 0;
	}
	consumer_place(c, p, FETCHING, r->committed_offset);
	p->stored = p->committed = r->committed_offset;
	return 0;
}

/* ---- the offset of a time ---- */

static void
put_time(const pgb_consumer *c, const FromPart *p, void *request, void *part)
{
	ListOffsetsRequest *req = request;
	ListOffsetsRequestTopicsPartitions *to = part;

	req->replica_id = -1;
	req->isolation_level = (int8_t) c->c.conf.read_committed;
	to->timestamp = p->when;
	to->current_leader_epoch = p->ask.topic->parts[p->ask.index].epoch;
}

static int
answer_time(pgb_consumer *c, FromPart *p, const void *part)
{
	const ListOffsetsResponseTopicsPartitions *r = part;

	if (r->error_code != 0 || job_answered(p, r->offset))
		return r->error_code;
	if (r->offset < 0 && p->when == PGB_LATEST)
		return KERR_OFFSET_NOT_AVAILABLE;
	/* Nothing so late: the end. */
	consumer_place(c, p, r->offset < 0 ? ASK_TIME : FETCHING, r->offset < 0 ? PGB_LATEST : r->offset);
	return 0;
}

/* ---- records ---- */

static void
put_fetch(const pgb_consumer *c, const FromPart *p, void *request, void *part)
{
	FetchRequest *req = request;
	FetchRequestTopicsPartitions *to = part;

	req->max_wait_ms = (int32_t) c->c.conf.fetch_wait;
	req->min_bytes = (int32_t) c->c.conf.fetch_min;
	req->max_bytes = (int32_t) c->c.conf.fetch_max;
	req->isolation_level = (int8_t) c->c.conf.read_committed;
	to->current_leader_epoch = p->ask.topic->parts[p->ask.index].epoch;
	to->fetch_offset = p->fetch_at;
	to->partition_max_bytes = (int32_t) c->c.conf.partition_fetch_max;
}

static int
answer_fetch(pgb_consumer *c, FromPart *p, const void *part)
{
	const FetchResponseResponsesPartitions *r = part;

	if (r->error_code == KERR_OFFSET_OUT_OF_RANGE)
	{
		/* What was fetched before is given first. */
		if (p->chunks == NULL)
			consumer_reset(c, p, "the offset is out of range");
		else
			retry_later(&c->c, &p->retry);
		return 0;
	}
	if (r->error_code != 0)
		return r->error_code;
	p->retry.failures = 0;
	p->end = c->c.conf.read_committed ? r->last_stable_offset : r->high_watermark;
	if (r->records.len <= 0)
		return 0;
	/* Brokers fill an answer in the order of the question: who got something comes last next time. */
	if (HASH_COUNT(c->parts) > 1)
	{
		HASH_DEL(c->parts, p);
		HASH_ADD(hh, c->parts, ask.topic, KEY_SIZE, p);
	}
	return read_fetched(c, p, r);
}

static const Question questions[] = {
	[COMMITTING] = {API_OFFSET_COMMIT, 8, USE_CONTROL, put_commit, answer_commit},
	[ASK_COMMITTED] = {API_OFFSET_FETCH, 7, USE_CONTROL, put_committed, answer_committed},
	[ASK_TIME] = {API_LIST_OFFSETS, 7, USE_CONTROL, put_time, answer_time},
	[FETCHING] = {API_FETCH, 12, USE_DATA, put_fetch, answer_fetch},
};

/* ---- answers ---- */

static void
answered(Client *client, Ask *ask, const pgb_error *err, const void *part)
{
	pgb_consumer *c = (pgb_consumer *) client;
	FromPart *p = (FromPart *) ask;
	FromState state = p->state;
	int code = part == NULL ? 0 : questions[state].answer(c, p, part);
	pgb_error why;

	client_wake_at(client, client->now);
	if (code != 0 && state == COMMITTING)
		error_kafka(&why, code, "a commit to group \"%s\"", client->conf.group_id);
	else if (code != 0)
		error_kafka(&why, code, "topic \"%s\", partition %d", ask->topic->name, ask->index);
	if (code != 0)
		err = &why;
	if (err != NULL && state <= ASK_COMMITTED)
		(void) group_lost_coordinator(c, err->code);
	else if (err != NULL)
		retry_want(client, &client->meta);
	if (p->job != NULL)
		job_step(c, p, err, code == 0);
	else if (err != NULL)
	{
		consumer_fail(c, err);
		retry_later(client, &p->retry);
	}
}

/* ---- asking ---- */

/* Who is to be asked, if that is known. */
static Node *
whom(pgb_consumer *c, const FromPart *p)
{
	if (p->state == IDLE || (p->state == FETCHING && p->paused))
		return NULL;
	return p->state <= ASK_COMMITTED ? group_coordinator(c)
									 : metadata_leader(&c->c, p->ask.topic, p->ask.index);
}

static bool
is_due(pgb_consumer *c, const FromPart *p)
{
	return p->ask.call == NULL && retry_due(&c->c, &p->retry);
}

static void
ask(pgb_consumer *c, Node *node, FromState state, FromPart *set)
{
	const Question *q = &questions[state];
	Conn *conn = client_ready(&c->c, node, q->use);
	Call call = {.answer = answered, .timeout = c->c.conf.request_timeout};
	void *req;

	/* A leader that cannot be reached may be one no more. */
	if (conn == NULL && state > ASK_COMMITTED && node->conns[q->use].state == CONN_DOWN)
		retry_want(&c->c, &c->c.meta);
	if (conn == NULL ||
		(state == FETCHING && (conn->n_calls > 0 || node->full || c->unread >= (size_t) c->c.conf.fetch_max)))
		return;
	req = wire_new(wire_api(q->key)->request, &c->c.arena, 1);
	for (FromPart *p = req == NULL ? NULL : set; p != NULL; p = p->hh.next)
	{
		void *part = NULL;

		/* Of one that is there twice the second waits: an answer could not tell them apart. */
		if (p->state == state && (p->job == NULL || consumer_find(set, p->ask.topic, p->ask.index) == p) &&
			whom(c, p) == node && is_due(c, p))
			part = wire_by_topic_add(wire_api(q->key)->request, &c->c.arena, req, wstr(p->ask.topic->name),
									 p->ask.index);
		if (part == NULL)
			continue;
		q->put(c, p, req, part);
		DL_APPEND(call.asks, &p->ask);
	}
	if (state == FETCHING)
		call.timeout += c->c.conf.fetch_wait;
	if (call.asks != NULL)
		client_send(&c->c, conn, q->key, q->most, req, call);
}

static void
ask_all(pgb_consumer *c, FromPart **set)
{
	for (Node *n = c->c.nodes; n != NULL; n = n->next)
	{
		n->wanted = 0;
		n->full = false;
	}
	for (FromPart *p = *set; p != NULL; p = p->hh.next)
	{
		Node *node = whom(c, p);
		int n = 0;

		for (const Chunk *chunk = p->paused ? NULL : p->chunks; chunk != NULL; chunk = chunk->next, n++)
			c->unread += chunk->size;
		if (node == NULL)
			continue;
		node->full = node->full || n >= CHUNKS_AHEAD;
		if (is_due(c, p))
			node->wanted |= 1U << p->state;
	}
	for (Node *n = c->c.nodes; n != NULL; n = n->next)
		for (unsigned state = 0; state < IDLE; state++)
			if ((n->wanted & 1U << state) != 0)
				ask(c, n, (FromState) state, *set);
}

void
consumer_ask(pgb_consumer *c)
{
	Job *job, *next;

	c->unread = 0;
	ask_all(c, &c->parts);
	DL_FOREACH_SAFE (c->jobs, job, next)
		ask_all(c, &job->parts);
}
