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
	int (*answer)(pgb_consumer *c, FromPart *p, const void *part, Frame *frame);
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
			  p->key.topic->name, p->key.index, why);
	consumer_place(c, p, IDLE, 0);
}

/* The answer to an application's question; false: it is none. */
static bool
answer_aside(FromPart *p, int code, int64_t offset)
{
	if (p->place == NULL)
		return false;
	p->place->code = code;
	p->place->offset = code == 0 && offset >= 0 ? offset : PGB_UNKNOWN;
	p->state = IDLE;
	return true;
}

/* ---- the group's offset ---- */

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
answer_committed(pgb_consumer *c, FromPart *p, const void *part, Frame *frame)
{
	const OffsetFetchResponseTopicsPartitions *r = part;

	(void) frame;
	if (r->error_code != 0 || answer_aside(p, 0, r->committed_offset))
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
	to->current_leader_epoch = p->key.topic->parts[p->key.index].epoch;
}

static int
answer_time(pgb_consumer *c, FromPart *p, const void *part, Frame *frame)
{
	const ListOffsetsResponseTopicsPartitions *r = part;

	(void) frame;
	if (r->error_code != 0 || answer_aside(p, 0, r->offset))
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
	to->current_leader_epoch = p->key.topic->parts[p->key.index].epoch;
	to->fetch_offset = p->fetch_at;
	to->partition_max_bytes = (int32_t) c->c.conf.partition_fetch_max;
}

static int
answer_fetch(pgb_consumer *c, FromPart *p, const void *part, Frame *frame)
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
		HASH_ADD(hh, c->parts, key, sizeof(p->key), p);
	}
	return read_fetched(c, p, r, frame);
}

static const Question questions[] = {
	[ASK_COMMITTED] = {API_OFFSET_FETCH, 7, USE_CONTROL, put_committed, answer_committed},
	[ASK_TIME] = {API_LIST_OFFSETS, 7, USE_CONTROL, put_time, answer_time},
	[FETCHING] = {API_FETCH, 12, USE_DATA, put_fetch, answer_fetch},
};

/* ---- answers ---- */

/* An application's question that is answered. */
static void
drop_aside(pgb_consumer *c, FromPart *p)
{
	HASH_DEL(c->asides, p);
	free(p);
}

static void
part_failed(pgb_consumer *c, FromPart *p, const pgb_error *err)
{
	if (p->state == ASK_COMMITTED)
		(void) group_lost_coordinator(c, err->code);
	else
		metadata_want(&c->c);
	if (p->place != NULL)
		c->c.last_error = *err;
	else
		consumer_fail(c, err);
	if (err->retriable || !answer_aside(p, err->code, 0))
		retry_later(&c->c, &p->retry);
}

static bool
asked_by(const FromPart *p, const Call *call)
{
	return p != NULL && p->retry.open && p->call == call->correlation_id;
}

/* What the answer says of one partition. */
static void
answer_one(pgb_consumer *c, const Call *call, const WireEachPart *each, const void *part)
{
	const Topic *t = metadata_find(&c->c, *each->topic);
	FromPart *p = consumer_find(c->parts, t, each->index);
	pgb_error err;
	int code;

	if (!asked_by(p, call))
		p = consumer_find(c->asides, t, each->index);
	if (!asked_by(p, call))
		return;
	p->retry.open = false;
	code = questions[p->state].answer(c, p, part, call->frame);
	if (code != 0)
	{
		error_kafka(&err, code, "topic \"%s\", partition %d", t->name, each->index);
		part_failed(c, p, &err);
	}
	if (p->place != NULL && p->state == IDLE)
		drop_aside(c, p);
}

static void
answered(Client *client, Call *call, const pgb_error *err, void *response)
{
	WireEachPart each = {.m = call->api->response, .message = response};
	pgb_consumer *c = call->arg;
	FromPart *p, *next;
	const void *part;
	pgb_error why;

	while (err == NULL && (part = wire_by_topic_next(&each)) != NULL)
		answer_one(c, call, &each, part);
	error_set(&why, PGB_PROTOCOL, true, "an answer to %s leaves out a partition", call->api->name);
	err = err != NULL ? err : &why;
	for (int i = 0; i < 2; i++)
		HASH_ITER (hh, (i == 0 ? c->parts : c->asides), p, next)
		{
			if (!asked_by(p, call))
				continue;
			part_failed(c, p, err);
			if (p->place == NULL || p->state != IDLE)
				continue;
			c->aside_error = *err;
			drop_aside(c, p);
		}
	client_wake_at(client, client->now);
}

/* ---- asking ---- */

/* Who is to be asked, if that is known. */
static Node *
whom(pgb_consumer *c, const FromPart *p)
{
	if (p->state == IDLE || (p->state == FETCHING && p->paused))
		return NULL;
	return p->state == ASK_COMMITTED ? group_coordinator(c)
									 : metadata_leader(&c->c, p->key.topic, p->key.index);
}

static void
ask(pgb_consumer *c, Node *node, FromState state, FromPart *set)
{
	const Question *q = &questions[state];
	Client *client = &c->c;
	Conn *conn = client_ready(client, node, q->use);
	bool some = false;
	void *req;

	/* A leader that cannot be reached may be one no more. */
	if (conn == NULL && state != ASK_COMMITTED && node->conns[q->use].state == CONN_DOWN)
		metadata_want(client);
	if (conn == NULL || (state == FETCHING &&
						 (conn->n_calls > 0 || node->full || c->unread >= (size_t) client->conf.fetch_max)))
		return;
	req = wire_new(wire_api(q->key)->request, &client->arena, 1);
	if (req == NULL)
		return;
	for (FromPart *p = set; p != NULL; p = p->hh.next)
	{
		void *part = NULL;

		/* Of one that is there twice the second waits: an answer could not tell them apart. */
		if (p->state == state && (p->place == NULL || consumer_find(set, p->key.topic, p->key.index) == p) &&
			whom(c, p) == node && retry_due(client, &p->retry))
			part = wire_by_topic_add(wire_api(q->key)->request, &client->arena, req, wstr(p->key.topic->name),
									 p->key.index);
		if (part == NULL)
			continue;
		q->put(c, p, req, part);
		p->retry.open = some = true;
		p->call = client->correlation_id;
	}
	if (some)
		client_send(client, conn, q->key, q->most, req, answered, c,
					client->conf.request_timeout + (state == FETCHING ? client->conf.fetch_wait : 0), NULL);
}

void
consumer_ask(pgb_consumer *c)
{
	c->unread = 0;
	for (Node *n = c->c.nodes; n != NULL; n = n->next)
	{
		n->wanted = 0;
		n->full = false;
	}
	for (int i = 0; i < 2; i++)
		for (FromPart *p = i == 0 ? c->parts : c->asides; p != NULL; p = p->hh.next)
		{
			Node *node = whom(c, p);

			for (const Chunk *chunk = p->paused ? NULL : p->chunks; chunk != NULL; chunk = chunk->next)
				c->unread += chunk->size;
			if (node == NULL)
				continue;
			node->full = node->full || p->n_chunks >= CHUNKS_AHEAD;
			if (retry_due(&c->c, &p->retry))
				node->wanted |= 1U << (p->state * 2 + i);
		}
	for (Node *n = c->c.nodes; n != NULL; n = n->next)
		for (unsigned bit = 0; bit < IDLE * 2; bit++)
			if ((n->wanted & 1U << bit) != 0)
				ask(c, n, (FromState) (bit / 2), bit % 2 == 0 ? c->parts : c->asides);
}

/* ---- questions of the application ---- */

/* Asks until all are answered, as for partitions that are to be read. */
static int
ask_aside(pgb_consumer *c, FromState state, pgb_place *places, size_t n, int timeout_ms, pgb_error *err)
{
	int64_t until = client_clock() + timeout_ms;
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
	{
		FromPart *p = consumer_add(c, &c->asides, places[i].topic, places[i].partition);

		if (p == NULL)
			rc = error_memory(err);
		else
		{
			p->state = state;
			p->when = places[i].offset;
			p->place = &places[i];
		}
	}
	c->aside_error.code = 0;
	client_wake_at(&c->c, 0);
	while (rc == 0 && c->asides != NULL)
	{
		client_run(&c->c, until);
		if (c->asides != NULL && client_clock() >= until)
			rc = client_late(&c->c, err, PGB_TIMED_OUT, "topic \"%s\", partition %d: no offset in %d ms",
							 c->asides->key.topic->name, c->asides->key.index, timeout_ms);
	}
	while (c->asides != NULL)
		drop_aside(c, c->asides);
	if (rc == 0 && c->aside_error.code != 0)
		rc = error_set(err, c->aside_error.code, c->aside_error.retriable, "%s", c->aside_error.text);
	return rc;
}

int
pgb_committed(pgb_consumer *c, pgb_place *places, size_t n, int timeout_ms, pgb_error *err)
{
	if (c->c.conf.group_id[0] == '\0')
		return error_set(err, PGB_STATE, false, "only a group has commits: set group.id");
	return ask_aside(c, ASK_COMMITTED, places, n, timeout_ms, err);
}

int
pgb_offsets(pgb_consumer *c, pgb_place *places, size_t n, int timeout_ms, pgb_error *err)
{
	for (size_t i = 0; i < n; i++)
	{
		int parts = pgb_partitions(c, places[i].topic, timeout_ms, err);

		if (parts < 0)
			return -1;
		if (places[i].partition < 0 || places[i].partition >= parts)
			return error_set(err, PGB_NO_PARTITION, false, "topic \"%s\" has partitions 0 to %d, not %d",
							 places[i].topic, parts - 1, places[i].partition);
	}
	return ask_aside(c, ASK_TIME, places, n, timeout_ms, err);
}
