/* consumer_commit.c: what the group is told about where a partition got to. */
#include "client/consumer.h"

#include <stdlib.h>

int
offsets_positions(pgb_consumer *c, PlaceList *list, bool stored)
{
	FromPart *p, *next;

	HASH_ITER (hh, c->parts, p, next)
	{
		int64_t offset = stored ? p->stored : p->position;

		if (offset >= 0 && offset != p->committed &&
			!places_add(list, p->key.topic->name, (int32_t) p->key.index, offset))
			return -1;
	}
	return (int) list->n;
}

/* In the arena. */
static int
commit_request(pgb_consumer *c, Arena *a, const PlaceList *places, OffsetCommitRequest *req)
{
	WIRE_INIT(OffsetCommitRequest, req);
	req->group_id = wstr(c->c.conf.group_id);
	if (c->group != GROUP_NONE && c->member_id != NULL)
	{
		req->generation_id_or_member_epoch = c->generation;
		/* A copy: the group may give us another id before a request that waits is sent. */
		req->member_id = wstr(arena_strndup(a, c->member_id, strlen(c->member_id)));
		if (req->member_id.s == NULL)
			return -1;
		if (c->c.conf.instance_id[0] != '\0')
			req->group_instance_id = wstr(c->c.conf.instance_id);
	}
	req->topics = WIRE_NEW(OffsetCommitRequestTopics, a, (int32_t) places->n);
	for (size_t i = 0; req->topics != NULL && i < places->n; i++)
	{
		OffsetCommitRequestTopics *t = req->n_topics == 0 ? NULL : &req->topics[req->n_topics - 1];

		if (t == NULL || t->name.s == NULL || strcmp(t->name.s, places->at[i].topic) != 0)
		{
			t = &req->topics[req->n_topics++];
			t->name = wstr(places->at[i].topic);
			t->partitions = WIRE_NEW(OffsetCommitRequestTopicsPartitions, a, (int32_t) (places->n - i));
		}
		if (t->partitions == NULL)
			return -1;
		OffsetCommitRequestTopicsPartitions *p = &t->partitions[t->n_partitions++];

		p->partition_index = places->at[i].partition;
		p->committed_offset = places->at[i].offset;
		p->committed_metadata = WSTR_LIT("");
	}
	return req->topics == NULL ? -1 : 0;
}

/* The first error of a response; what was taken is noted. */
static int
commit_result(pgb_consumer *c, const PlaceList *places, const OffsetCommitResponse *resp, pgb_error *err)
{
	int code = 0;

	for (int32_t i = 0; i < resp->n_topics; i++)
		for (int32_t j = 0; j < resp->topics[i].n_partitions && code == 0; j++)
			code = resp->topics[i].partitions[j].error_code;
	if (code != 0)
	{
		(void) group_lost_coordinator(c, code);
		/* The group goes on without us: the next join tells us where it is. */
		if (code == KERR_ILLEGAL_GENERATION || code == KERR_UNKNOWN_MEMBER_ID ||
			code == KERR_REBALANCE_IN_PROGRESS)
			c->heartbeat_at = 0;
		return error_kafka(err, code, "a commit to group \"%s\"", c->c.conf.group_id);
	}
	for (size_t i = 0; i < places->n; i++)
	{
		Topic *t = metadata_topic(&c->c, places->at[i].topic, strlen(places->at[i].topic));
		FromPart *p = t == NULL ? NULL : consumer_find(c, t, places->at[i].partition);

		if (p != NULL)
			p->committed = places->at[i].offset;
	}
	return 0;
}

typedef struct Committing
{
	pgb_consumer *c;
	CommitResult *result;
	bool quiet; /* success is not told */
} Committing;

static void
commit_done(Client *client, Call *call, const pgb_error *err, void *response)
{
	Committing *com = call->arg;
	pgb_consumer *c = com->c;
	CommitResult *r = com->result;

	(void) client;
	c->commits_open--;
	if (err != NULL)
		r->err = *err;
	else
		(void) commit_result(c, &r->places, response, &r->err);
	if (com->quiet && r->err.code == 0)
	{
		places_clear(&r->places);
		free(r);
	}
	else
	{
		if (c->results_last != NULL)
			c->results_last->next = r;
		else
			c->results_first = r;
		c->results_last = r;
	}
	free(com);
}

/* Places with names that stay: those of the client's topics. */
static bool
copy_places(pgb_consumer *c, const pgb_place *places, size_t n, PlaceList *list)
{
	for (size_t i = 0; i < n; i++)
	{
		Topic *t = metadata_topic(&c->c, places[i].topic, strlen(places[i].topic));

		if (t == NULL || !places_add(list, t->name, places[i].partition, places[i].offset))
			return false;
	}
	return true;
}

int
offsets_commit_async(pgb_consumer *c, const PlaceList *places, bool quiet, pgb_error *err)
{
	Node *node = group_coordinator(c);
	Conn *conn = node == NULL ? NULL : client_ready(&c->c, node, USE_CONTROL);
	Committing *com = conn == NULL ? NULL : calloc(1, sizeof(*com));
	OffsetCommitRequest req;
	int rc;

	if (conn == NULL)
		return error_set(err, PGB_STATE, true, "the group's coordinator is not known yet");
	if (com == NULL)
		return error_set(err, PGB_NO_MEMORY, true, "no memory");
	com->c = c;
	com->quiet = quiet;
	if ((com->result = calloc(1, sizeof(*com->result))) == NULL ||
		!copy_places(c, places->at, places->n, &com->result->places) ||
		commit_request(c, &c->c.arena, &com->result->places, &req) != 0)
		rc = error_set(err, PGB_NO_MEMORY, true, "no memory");
	else
		rc = client_send(&c->c, conn, API_OFFSET_COMMIT, 8, &req, commit_done, com, c->c.conf.request_timeout,
						 err);
	if (rc == 0)
		c->commits_open++;
	else
	{
		if (com->result != NULL)
			places_clear(&com->result->places);
		free(com->result);
		free(com);
	}
	arena_reset(&c->c.arena);
	return rc;
}

static int
commit_list(pgb_consumer *c, const pgb_place *places, size_t n, PlaceList *list, pgb_error *err)
{
	if (c->c.conf.group_id[0] == '\0')
		return error_set(err, PGB_STATE, false, "only a group has commits: set group.id");
	if (places != NULL ? !copy_places(c, places, n, list) : offsets_positions(c, list, false) < 0)
		return error_set(err, PGB_NO_MEMORY, true, "no memory");
	return 0;
}

int
pgb_commit_async(pgb_consumer *c, const pgb_place *places, size_t n, pgb_error *err)
{
	PlaceList list = {0};
	int rc = commit_list(c, places, n, &list, err);

	if (rc == 0 && list.n > 0)
		rc = offsets_commit_async(c, &list, false, err);
	places_clear(&list);
	return rc;
}

Node *
offsets_wait_coordinator(pgb_consumer *c, int64_t until, pgb_error *err)
{
	Node *node;

	while ((node = group_coordinator(c)) == NULL)
	{
		if (client_clock() >= until)
		{
			error_set(err, PGB_TIMED_OUT, true, "the coordinator of group \"%s\" was not found in time%s%s",
					  c->c.conf.group_id, c->c.last_error.text[0] != '\0' ? "; " : "", c->c.last_error.text);
			return NULL;
		}
		client_run(&c->c, until);
	}
	return node;
}

int
pgb_commit(pgb_consumer *c, const pgb_place *places, size_t n, int timeout_ms, pgb_error *err)
{
	int64_t until = client_clock() + timeout_ms;
	PlaceList list = {0};
	pgb_error own;
	int rc = commit_list(c, places, n, &list, &own);

	for (int tries = 1; rc == 0 && list.n > 0; tries++)
	{
		Node *node = offsets_wait_coordinator(c, until, &own);
		OffsetCommitRequest req;
		OffsetCommitResponse *resp;
		int64_t again;

		rc = -1;
		if (node == NULL)
			break;
		arena_reset(&c->c.ask);
		if (commit_request(c, &c->c.ask, &list, &req) != 0)
			error_set(&own, PGB_NO_MEMORY, true, "no memory");
		else if ((resp = client_call(&c->c, node->id, API_OFFSET_COMMIT, 8, &req, until - client_clock(),
									 &own)) != NULL)
			rc = commit_result(c, &list, resp, &own);
		if (rc == 0 || !own.retriable || own.code == KERR_REBALANCE_IN_PROGRESS || client_clock() >= until)
			break;
		for (again = client_clock() + client_backoff(&c->c, tries); client_clock() < again && again < until;)
			client_run(&c->c, again);
		rc = 0;
	}
	places_clear(&list);
	if (rc != 0 && err != NULL)
		*err = own;
	return rc;
}

void
offsets_auto_commit(pgb_consumer *c, int64_t timeout)
{
	PlaceList list = {0};
	CommitResult *r;
	pgb_error err;

	if (!c->c.conf.auto_commit || c->c.conf.group_id[0] == '\0' || offsets_positions(c, &list, true) <= 0)
	{
		places_clear(&list);
		return;
	}
	if (pgb_commit(c, list.at, list.n, (int) timeout, &err) != 0 && (r = calloc(1, sizeof(*r))) != NULL)
	{
		r->err = err;
		r->places = list;
		if (c->results_last != NULL)
			c->results_last->next = r;
		else
			c->results_first = r;
		c->results_last = r;
		return;
	}
	places_clear(&list);
}
