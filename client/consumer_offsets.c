/* consumer_offsets.c: where a partition begins, and the questions about offsets that an application has. */
#include "client/consumer.h"

#include <stdlib.h>

typedef struct Asked
{
	pgb_consumer *c;
	int32_t n;
	struct
	{
		FromKey key;
		uint32_t serial;
		int64_t when;
	} of[];
} Asked;

static void
later(pgb_consumer *c, FromPart *p)
{
	p->retry_at = c->c.now + client_backoff(&c->c, ++p->failures);
	client_wake_at(&c->c, p->retry_at);
}

void
offsets_reset(pgb_consumer *c, FromPart *p, const char *why)
{
	pgb_error err;

	if (c->c.conf.reset != RESET_NONE)
	{
		consumer_place(c, p, START_TIME, c->c.conf.reset == RESET_EARLIEST ? PGB_EARLIEST : PGB_LATEST);
		return;
	}
	error_set(&err, PGB_NO_OFFSET, false,
			  "topic \"%s\", partition %d: %s and auto.offset.reset is none; pgb_seek to where to go on",
			  p->key.topic->name, (int) p->key.index, why);
	consumer_place(c, p, START_FAILED, 0);
	consumer_fail(c, &err);
}

/* The partition that an answer is about, if it still waits for it. */
static FromPart *
still(const Asked *a, int32_t i)
{
	FromPart *p = consumer_find(a->c, a->of[i].key.topic, (int32_t) a->of[i].key.index);

	return p != NULL && p->serial == a->of[i].serial ? p : NULL;
}

static void
put_asked(Asked *a, FromPart *p)
{
	a->of[a->n].key = p->key;
	a->of[a->n].serial = p->serial;
	a->of[a->n].when = p->when;
	a->n++;
	p->asked = true;
}

static void
not_asked(Asked *a, const pgb_error *err)
{
	for (int32_t i = 0; i < a->n; i++)
	{
		FromPart *p = still(a, i);

		if (p == NULL)
			continue;
		p->asked = false;
		later(a->c, p);
		if (!err->retriable)
			consumer_fail(a->c, err);
	}
}

/* ---- offsets of times ---- */

static const ListOffsetsResponseTopicsPartitions *
find_listed(const ListOffsetsResponse *resp, const char *topic, int32_t partition)
{
	for (int32_t i = 0; i < resp->n_topics; i++)
		if (wstr_eq(resp->topics[i].name, wstr(topic)))
			for (int32_t j = 0; j < resp->topics[i].n_partitions; j++)
				if (resp->topics[i].partitions[j].partition_index == partition)
					return &resp->topics[i].partitions[j];
	return NULL;
}

static void
list_done(Client *client, Call *call, const pgb_error *err, void *response)
{
	Asked *a = call->arg;

	if (err != NULL)
		not_asked(a, err);
	for (int32_t i = 0; err == NULL && i < a->n; i++)
	{
		FromPart *p = still(a, i);
		const ListOffsetsResponseTopicsPartitions *r;
		pgb_error why;

		if (p == NULL)
			continue;
		p->asked = false;
		r = find_listed(response, p->key.topic->name, (int32_t) p->key.index);
		if (r != NULL && r->error_code == 0 && r->offset < 0)
			consumer_place(a->c, p, START_TIME, PGB_LATEST); /* nothing so late: the end */
		else if (r != NULL && r->error_code == 0)
			consumer_place(a->c, p, FETCHING, r->offset);
		else
		{
			later(a->c, p);
			metadata_want(client);
			error_kafka(&why, r == NULL ? KERR_UNKNOWN_SERVER_ERROR : r->error_code,
						"topic \"%s\", partition %d", p->key.topic->name, (int) p->key.index);
			if (!why.retriable)
				consumer_fail(a->c, &why);
		}
	}
	free(a);
}

static ListOffsetsRequestTopicsPartitions *
put_listed(Arena *a, ListOffsetsRequest *req, const Topic *t, int32_t index, int64_t when)
{
	ListOffsetsRequestTopics *at = req->n_topics == 0 ? NULL : &req->topics[req->n_topics - 1];
	ListOffsetsRequestTopicsPartitions *part;

	if (at == NULL || at->name.s != t->name)
	{
		at = &req->topics[req->n_topics];
		at->name = wstr(t->name);
		at->partitions = WIRE_NEW(ListOffsetsRequestTopicsPartitions, a, t->n);
		if (at->partitions == NULL)
			return NULL;
		req->n_topics++;
	}
	if (at->n_partitions == t->n)
		return NULL;
	part = &at->partitions[at->n_partitions++];
	part->partition_index = index;
	part->timestamp = when;
	part->current_leader_epoch = t->parts[index].epoch;
	return part;
}

static void
list_offsets(pgb_consumer *c, Node *node)
{
	Client *client = &c->c;
	size_t most = HASH_COUNT(c->parts);
	Conn *conn = client_ready(client, node, USE_CONTROL);
	Asked *a = conn == NULL ? NULL : malloc(sizeof(*a) + sizeof(a->of[0]) * most);
	ListOffsetsRequest req;
	FromPart *p, *next;
	pgb_error err;

	if (a == NULL)
		return;
	*a = (Asked){.c = c};
	WIRE_INIT(ListOffsetsRequest, &req);
	req.replica_id = -1;
	req.isolation_level = (int8_t) client->conf.read_committed;
	req.topics = WIRE_NEW(ListOffsetsRequestTopics, &client->arena, (int32_t) most);
	HASH_ITER (hh, c->parts, p, next)
	{
		if (req.topics != NULL && p->state == START_TIME && !p->asked && client->now >= p->retry_at &&
			metadata_leader(client, p->key.topic, (int32_t) p->key.index) == node &&
			put_listed(&client->arena, &req, p->key.topic, (int32_t) p->key.index, p->when) != NULL)
			put_asked(a, p);
	}
	if (a->n == 0)
		free(a);
	else if (client_send(client, conn, API_LIST_OFFSETS, 7, &req, list_done, a, client->conf.request_timeout,
						 &err) != 0)
	{
		not_asked(a, &err);
		free(a);
	}
	arena_reset(&client->arena);
}

/* ---- the group's offsets ---- */

static const OffsetFetchResponseTopicsPartitions *
find_fetched(const OffsetFetchResponse *resp, const char *topic, int32_t partition)
{
	for (int32_t i = 0; i < resp->n_topics; i++)
		if (wstr_eq(resp->topics[i].name, wstr(topic)))
			for (int32_t j = 0; j < resp->topics[i].n_partitions; j++)
				if (resp->topics[i].partitions[j].partition_index == partition)
					return &resp->topics[i].partitions[j];
	return NULL;
}

static int
put_fetched(Arena *a, OffsetFetchRequest *req, const char *topic, int32_t partition, int32_t most)
{
	OffsetFetchRequestTopics *at = req->n_topics == 0 ? NULL : &req->topics[req->n_topics - 1];

	if (at == NULL || at->name.s == NULL || strcmp(at->name.s, topic) != 0)
	{
		at = &req->topics[req->n_topics];
		at->name = wstr(topic);
		at->partition_indexes = arena_alloc(a, sizeof(int32_t) * (size_t) most);
		if (at->partition_indexes == NULL)
			return -1;
		req->n_topics++;
	}
	at->partition_indexes[at->n_partition_indexes++] = partition;
	return 0;
}

static void
fetched(pgb_consumer *c, FromPart *p, const OffsetFetchResponse *resp)
{
	const OffsetFetchResponseTopicsPartitions *r =
		find_fetched(resp, p->key.topic->name, (int32_t) p->key.index);
	int code = resp->error_code != 0 ? resp->error_code
			   : r == NULL           ? KERR_UNKNOWN_SERVER_ERROR
									 : r->error_code;
	pgb_error err;

	p->asked = false;
	if (code == 0 && r->committed_offset >= 0)
	{
		consumer_place(c, p, FETCHING, r->committed_offset);
		p->stored = p->committed = r->committed_offset;
	}
	else if (code == 0)
		offsets_reset(c, p, "the group has no offset");
	else
	{
		later(c, p);
		error_kafka(&err, code, "the offsets of group \"%s\"", c->c.conf.group_id);
		if (!group_lost_coordinator(c, code) && !err.retriable)
			consumer_fail(c, &err);
	}
}

static void
committed_done(Client *client, Call *call, const pgb_error *err, void *response)
{
	Asked *a = call->arg;

	(void) client;
	if (err != NULL)
		not_asked(a, err);
	for (int32_t i = 0; err == NULL && i < a->n; i++)
	{
		FromPart *p = still(a, i);

		if (p != NULL)
			fetched(a->c, p, response);
	}
	free(a);
}

static void
fetch_committed(pgb_consumer *c)
{
	Client *client = &c->c;
	Node *node = group_coordinator(c);
	Conn *conn = node == NULL ? NULL : client_ready(client, node, USE_CONTROL);
	int32_t most = (int32_t) HASH_COUNT(c->parts);
	Asked *a = conn == NULL ? NULL : malloc(sizeof(*a) + sizeof(a->of[0]) * (size_t) most);
	OffsetFetchRequest req;
	FromPart *p, *next;
	pgb_error err;

	if (a == NULL)
		return;
	*a = (Asked){.c = c};
	WIRE_INIT(OffsetFetchRequest, &req);
	req.group_id = wstr(client->conf.group_id);
	req.require_stable = true;
	req.topics = WIRE_NEW(OffsetFetchRequestTopics, &client->arena, most);
	HASH_ITER (hh, c->parts, p, next)
	{
		if (req.topics != NULL && p->state == START_COMMITTED && !p->asked && client->now >= p->retry_at &&
			put_fetched(&client->arena, &req, p->key.topic->name, (int32_t) p->key.index, most - a->n) == 0)
			put_asked(a, p);
	}
	if (a->n == 0)
		free(a);
	else if (client_send(client, conn, API_OFFSET_FETCH, 7, &req, committed_done, a,
						 client->conf.request_timeout, &err) != 0)
	{
		not_asked(a, &err);
		free(a);
	}
	arena_reset(&client->arena);
}

void
offsets_step(pgb_consumer *c)
{
	bool committed = false;
	FromPart *p, *next;

	for (Node *n = c->c.nodes; n != NULL; n = n->next)
		n->wanted = false;
	HASH_ITER (hh, c->parts, p, next)
	{
		Node *node;

		if (p->asked || (p->state != START_TIME && p->state != START_COMMITTED))
			continue;
		if (c->c.now < p->retry_at)
		{
			client_wake_at(&c->c, p->retry_at);
			continue;
		}
		committed = committed || p->state == START_COMMITTED;
		node = p->state == START_TIME ? metadata_leader(&c->c, p->key.topic, (int32_t) p->key.index) : NULL;
		if (node != NULL)
			node->wanted = true;
	}
	if (committed)
		fetch_committed(c);
	for (Node *n = c->c.nodes; n != NULL; n = n->next)
		if (n->wanted)
			list_offsets(c, n);
	if (c->c.conf.auto_commit && c->c.conf.group_id[0] != '\0')
	{
		if (c->c.now >= c->commit_at && c->commits_open == 0 && !c->in_callback)
		{
			PlaceList list = {0};

			if (offsets_positions(c, &list, true) > 0)
				(void) offsets_commit_async(c, &list, true, NULL);
			places_clear(&list);
			c->commit_at = c->c.now + c->c.conf.commit_interval;
		}
		client_wake_at(&c->c, c->commit_at);
	}
}

/* ---- questions of the application ---- */

int
pgb_committed(pgb_consumer *c, pgb_place *places, size_t n, int timeout_ms, pgb_error *err)
{
	int64_t until = client_clock() + timeout_ms;

	for (int tries = 1;; tries++)
	{
		Node *node = offsets_wait_coordinator(c, until, err);
		OffsetFetchRequest req;
		OffsetFetchResponse *resp;
		int64_t again;

		if (node == NULL)
			return -1;
		WIRE_INIT(OffsetFetchRequest, &req);
		req.group_id = wstr(c->c.conf.group_id);
		req.require_stable = true;
		arena_reset(&c->c.ask);
		req.topics = WIRE_NEW(OffsetFetchRequestTopics, &c->c.ask, (int32_t) n);
		for (size_t i = 0; i < n; i++)
			if (req.topics == NULL ||
				put_fetched(&c->c.ask, &req, places[i].topic, places[i].partition, (int32_t) (n - i)) != 0)
				return error_set(err, PGB_NO_MEMORY, true, "no memory");
		resp = client_call(&c->c, node->id, API_OFFSET_FETCH, 7, &req, until - client_clock(), err);
		if (resp == NULL)
			return -1;
		for (size_t i = 0; resp->error_code == 0 && i < n; i++)
		{
			const OffsetFetchResponseTopicsPartitions *r =
				find_fetched(resp, places[i].topic, places[i].partition);

			places[i].code = r == NULL ? KERR_UNKNOWN_SERVER_ERROR : r->error_code;
			places[i].offset = r == NULL || r->committed_offset < 0 ? PGB_UNKNOWN : r->committed_offset;
		}
		if (resp->error_code == 0)
			return 0;
		if ((!group_lost_coordinator(c, resp->error_code) && !kerr_retriable(resp->error_code)) ||
			client_clock() >= until)
			return error_kafka(err, resp->error_code, "the offsets of group \"%s\"", c->c.conf.group_id);
		for (again = client_clock() + client_backoff(&c->c, tries); client_clock() < again;)
			client_run(&c->c, again);
	}
}

/* Asks one node for what it leads of the places that have no answer yet (code 1). */
static int
ask_offsets(pgb_consumer *c, Node *node, pgb_place *places, size_t n, int64_t until, pgb_error *err)
{
	ListOffsetsRequest req;
	ListOffsetsResponse *resp;

	WIRE_INIT(ListOffsetsRequest, &req);
	req.replica_id = -1;
	req.isolation_level = (int8_t) c->c.conf.read_committed;
	arena_reset(&c->c.ask);
	req.topics = WIRE_NEW(ListOffsetsRequestTopics, &c->c.ask, (int32_t) n);
	for (size_t i = 0; req.topics != NULL && i < n; i++)
	{
		Topic *t = metadata_topic(&c->c, places[i].topic, strlen(places[i].topic));

		if (places[i].code == 1 && t != NULL && metadata_leader(&c->c, t, places[i].partition) == node)
			(void) put_listed(&c->c.ask, &req, t, places[i].partition, places[i].offset);
	}
	resp = client_call(&c->c, node->id, API_LIST_OFFSETS, 7, &req, until - client_clock(), err);
	for (size_t i = 0; resp != NULL && i < n; i++)
	{
		const ListOffsetsResponseTopicsPartitions *r =
			find_listed(resp, places[i].topic, places[i].partition);

		if (places[i].code != 1 || r == NULL || (kerr_retriable(r->error_code) && r->error_code != 0))
			continue;
		places[i].code = r->error_code;
		places[i].offset = r->error_code != 0 || r->offset < 0 ? PGB_UNKNOWN : r->offset;
	}
	return resp == NULL ? -1 : 0;
}

int
pgb_offsets(pgb_consumer *c, pgb_place *places, size_t n, int timeout_ms, pgb_error *err)
{
	int64_t until = client_clock() + timeout_ms;
	pgb_error own = {0};

	for (size_t i = 0; i < n; i++)
	{
		int parts = pgb_partitions(c, places[i].topic, timeout_ms, err);

		if (parts < 0)
			return -1;
		if (places[i].partition < 0 || places[i].partition >= parts)
			return error_set(err, PGB_NO_PARTITION, false, "topic \"%s\" has partitions 0 to %d, not %d",
							 places[i].topic, parts - 1, places[i].partition);
		places[i].code = 1;
	}
	for (int tries = 1;; tries++)
	{
		int64_t again = client_clock() + client_backoff(&c->c, tries);
		size_t first = 0;

		for (Node *node = c->c.nodes; node != NULL; node = node->next)
			for (size_t i = 0; i < n; i++)
				if (places[i].code == 1 &&
					metadata_leader(&c->c, metadata_topic(&c->c, places[i].topic, strlen(places[i].topic)),
									places[i].partition) == node)
				{
					(void) ask_offsets(c, node, places, n, until, &own);
					break;
				}
		while (first < n && places[first].code != 1)
			first++;
		if (first == n)
			return 0;
		if (client_clock() >= until)
			return error_set(err, PGB_TIMED_OUT, true,
							 "topic \"%s\", partition %d: its leader gave no offset in %d ms%s%s",
							 places[first].topic, places[first].partition, timeout_ms,
							 own.text[0] != '\0' ? "; " : "", own.text);
		metadata_want(&c->c);
		while (client_clock() < again)
			client_run(&c->c, again);
	}
}
