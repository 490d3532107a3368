/*
 * consumer_ask.c: what partitions ask brokers for: where to begin, and records.  A table has one row for each question;
 * all of them are asked, answered and asked again in the same way.
 *
 * One Fetch a broker is on its way, for all partitions of it that want more.  While one of them has CHUNKS_AHEAD
 * answers unread nothing is fetched from its broker: a long poll for the others would keep this one waiting once the
 * application has caught up.  All of them together hold about twice fetch.max.bytes at most.
 */
#include "client/consumer.h"

#define CHUNKS_AHEAD 2 /* answers that wait for pgb_poll in a partition */

typedef struct Question
{
	int16_t key, most;
	ConnUse use;
	void (*begin)(const pgb_consumer *c, void *request);
	void (*put)(const pgb_consumer *c, const FromPart *p, void *part);

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
begin_committed(const pgb_consumer *c, void *request)
{
	OffsetFetchRequest *req = request;

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
begin_time(const pgb_consumer *c, void *request)
{
	ListOffsetsRequest *req = request;

	req->replica_id = -1;
	req->isolation_level = (int8_t) c->c.conf.read_committed;
}

static void
put_time(const pgb_consumer *c, const FromPart *p, void *part)
{
	ListOffsetsRequestTopicsPartitions *to = part;

	(void) c;
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
begin_fetch(const pgb_consumer *c, void *request)
{
	FetchRequest *req = request;

	req->replica_id = -1;
	req->max_wait_ms = (int32_t) c->c.conf.fetch_wait;
	req->min_bytes = (int32_t) c->c.conf.fetch_min;
	req->max_bytes = (int32_t) c->c.conf.fetch_max;
	req->isolation_level = (int8_t) c->c.conf.read_committed;
}

static void
put_fetch(const pgb_consumer *c, const FromPart *p, void *part)
{
	FetchRequestTopicsPartitions *to = part;

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
	[ASK_COMMITTED] = {API_OFFSET_FETCH, 7, USE_CONTROL, begin_committed, NULL, answer_committed},
	[ASK_TIME] = {API_LIST_OFFSETS, 7, USE_CONTROL, begin_time, put_time, answer_time},
	[FETCHING] = {API_FETCH, 12, USE_DATA, begin_fetch, put_fetch, answer_fetch},
};

/* ---- answers ---- */

static void
part_failed(pgb_consumer *c, FromPart *p, const pgb_error *err)
{
	FromState asked = p->state;

	if (err->retriable || !answer_aside(p, err->code, 0))
		retry_later(&c->c, &p->retry);
	if (p->place != NULL)
		c->c.last_error = *err;
	else
		consumer_fail(c, err);
	if (asked == ASK_COMMITTED)
		(void) group_lost_coordinator(c, err->code);
	else
		metadata_want(&c->c);
}

static bool
asked_by(const FromPart *p, const Call *call)
{
	return p != NULL && p->retry.open && p->call == call->correlation_id;
}

/* What the answer says of one partition. */
static void
answer_one(pgb_consumer *c, const Call *call, const EachPart *each, const void *part)
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
	if (code == 0)
		return;
	error_kafka(&err, code, "topic \"%s\", partition %d", t->name, each->index);
	part_failed(c, p, &err);
}

static void
answered(Client *client, Call *call, const pgb_error *err, void *response)
{
	EachPart each = {.m = call->api->response, .message = response};
	pgb_consumer *c = call->arg;
	FromPart *p, *next;
	const void *part;
	pgb_error why;

	while (err == NULL && (part = by_topic_next(&each)) != NULL)
		answer_one(c, call, &each, part);
	error_set(&why, PGB_PROTOCOL, true, "an answer to %s leaves out a partition", call->api->name);
	for (int i = 0; i < 2; i++)
		HASH_ITER (hh, (i == 0 ? c->parts : c->asides), p, next)
		{
			if (!asked_by(p, call))
				continue;
			part_failed(c, p, err != NULL ? err : &why);
			if (p->place != NULL && err != NULL && !err->retriable)
				c->aside_error = *err;
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
	FromPart *p, *next;
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
	q->begin(c, req);
	HASH_ITER (hh, set, p, next)
	{
		void *part = NULL;

		if (p->state == state && whom(c, p) == node && retry_due(client, &p->retry))
			part = by_topic_add(wire_api(q->key)->request, &client->arena, req, wstr(p->key.topic->name),
								p->key.index);
		if (part == NULL)
			continue;
		if (q->put != NULL)
			q->put(c, p, part);
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
	FromPart *p, *next;
	Chunk *chunk;

	c->unread = 0;
	for (Node *n = c->c.nodes; n != NULL; n = n->next)
	{
		n->wanted = 0;
		n->full = false;
	}
	for (int i = 0; i < 2; i++)
		HASH_ITER (hh, (i == 0 ? c->parts : c->asides), p, next)
		{
			Node *node = whom(c, p);

			if (!p->paused)
				LL_FOREACH (p->chunks, chunk)
				{
					c->unread += chunk->size;
				}
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

static void
drop_asides(pgb_consumer *c)
{
	FromPart *p, *next;

	HASH_ITER (hh, c->asides, p, next)
	{
		HASH_DEL(c->asides, p);
		free(p);
	}
}

/* Asks until all are answered, as for partitions that are to be read.  Of one that is there twice the second waits. */
static int
ask_aside(pgb_consumer *c, FromState state, pgb_place *places, size_t n, int timeout_ms, pgb_error *err)
{
	int64_t until = client_clock() + timeout_ms;
	const FromPart *open;
	int rc = 0;

	for (size_t at = 0; at < n && rc == 0; drop_asides(c))
	{
		for (; at < n && rc == 0; at++)
		{
			Topic *t = metadata_topic(&c->c, wstr(places[at].topic));
			FromPart *p = NULL;

			if (t != NULL && consumer_find(c->asides, t, places[at].partition) != NULL)
				break;
			if (t != NULL)
				p = consumer_add(&c->asides, t, places[at].partition);
			if (p == NULL)
				rc = error_memory(err);
			else
				*p = (FromPart){.hh = p->hh,
								.key = p->key,
								.state = state,
								.when = places[at].offset,
								.place = &places[at]};
		}
		c->aside_error.code = 0;
		client_wake_at(&c->c, 0);
		while (rc == 0)
		{
			for (open = c->asides; open != NULL && open->state == IDLE;)
				open = open->hh.next;
			if (open == NULL)
				break;
			if (client_clock() >= until)
				rc = client_late(&c->c, err, PGB_TIMED_OUT, "topic \"%s\", partition %d: no offset in %d ms",
								 open->key.topic->name, open->key.index, timeout_ms);
			client_run(&c->c, until);
		}
		if (rc == 0 && c->aside_error.code != 0)
			rc = error_set(err, c->aside_error.code, c->aside_error.retriable, "%s", c->aside_error.text);
	}
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
