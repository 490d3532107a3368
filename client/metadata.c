/*
 * metadata.c: brokers, and the leaders of the topics that somebody asked for.  Any broker answers: one after the
 * other is tried.  It is asked again when the answer is old, when somebody met an error that newer ones may heal
 * (Retry.wanted), or while a topic or a leader is missing; between two questions is a backoff.
 */
#include "client/client.h"

#include <stdlib.h>

Topic *
metadata_find(const Client *c, WStr name)
{
	Topic *t = NULL;

	if (name.len >= 0)
		HASH_FIND(hh, c->topics, name.s, (size_t) name.len, t);
	return t;
}

Topic *
metadata_topic(Client *c, WStr name)
{
	Topic *t = metadata_find(c, name);

	if (t != NULL)
		return t;
	t = calloc(1, c->topic_size + (size_t) name.len + 1);
	if (t == NULL)
		return NULL;
	t->name = memcpy((char *) t + c->topic_size, name.s, (size_t) name.len);
	t->unknown_since = c->now;
	HASH_ADD_KEYPTR(hh, c->topics, t->name, (size_t) name.len, t);
	/* A new topic is no retry. */
	if (c->meta.failures == 0)
		c->meta.at = c->now;
	retry_want(c, &c->meta);
	return t;
}

Node *
metadata_leader(Client *c, const Topic *t, int32_t partition)
{
	Node *node = NULL;

	if (partition < t->n && t->parts[partition].leader >= 0)
		node = client_node(c, t->parts[partition].leader);
	if (node == NULL)
		retry_want(c, &c->meta);
	return node;
}

int
metadata_failed(Client *c, const Topic *t, int64_t until, pgb_error *err)
{
	int64_t end = t->unknown_since + c->conf.metadata_wait;

	if (t->unknown_since == 0)
		return 0;
	end = end < until ? end : until;
	client_wake_at(c, end);
	if (c->now < end && (t->code == 0 || kerr_retriable(t->code)))
		return 0;
	return t->code != 0 ? error_kafka(err, t->code, "topic \"%s\"", t->name)
						: client_late(c, err, PGB_NO_BROKER, "no broker said in %lld ms what topic \"%s\" is",
									  (long long) (end - t->unknown_since), t->name);
}

static void
apply_topic(Client *c, const MetadataResponseTopics *m)
{
	Topic *t = metadata_find(c, m->name);
	int32_t n = m->n_partitions;
	Part *parts;

	if (t == NULL)
		return;
	t->code = m->error_code;
	if (m->error_code != 0 || n <= 0)
	{
		if (t->unknown_since == 0)
			t->unknown_since = c->now;
		if (m->error_code == 0 || kerr_retriable(m->error_code))
			retry_want(c, &c->meta);
		return;
	}
	t->unknown_since = 0;
	parts = realloc(t->parts, sizeof(Part) * (size_t) (n > t->n ? n : t->n));
	if (parts == NULL)
		return;
	t->parts = parts;
	/* A topic that was deleted and made anew begins with lower epochs. */
	for (int32_t i = wuuid_eq(&t->id, &m->topic_id) ? t->n : 0; i < n; i++)
		t->parts[i] = (Part){CLIENT_NO_NODE, -1};
	t->n = n;
	t->id = m->topic_id;
	for (int32_t i = 0; i < n; i++)
	{
		const MetadataResponseTopicsPartitions *p = &m->partitions[i];
		Part *part = p->partition_index >= 0 && p->partition_index < n ? &t->parts[p->partition_index] : NULL;

		/* An answer from a broker that lags must not undo a newer one. */
		if (part == NULL || (p->leader_epoch >= 0 && p->leader_epoch < part->epoch))
			continue;
		*part = (Part){p->leader_id, p->leader_epoch};
		if (p->leader_id < 0)
			retry_want(c, &c->meta);
	}
}

static void
metadata_done(Client *c, Call *call, const pgb_error *err, void *response)
{
	MetadataResponse *resp = response;

	(void) call;
	c->meta.wanted = c->meta.wanted || err != NULL;
	if (err != NULL)
		return;
	for (Node *n = c->nodes; n != NULL; n = n->next)
		n->gone = n->id >= 0;
	for (int32_t i = 0; i < resp->n_brokers; i++)
	{
		const MetadataResponseBrokers *b = &resp->brokers[i];
		Node *n = b->node_id < 0 ? NULL : client_add_node(c, b->node_id, b->host, b->port);

		if (n != NULL)
			n->gone = false;
	}
	for (int32_t i = 0; i < resp->n_topics; i++)
		apply_topic(c, &resp->topics[i]);
	c->meta_version++;
	if (c->meta.wanted)
		retry_later(c, &c->meta); /* a topic or a leader is missing still */
	else
		c->meta = (Retry){.at = c->now + c->conf.backoff};
	c->meta_fresh = c->now + c->conf.metadata_age;
}

#define ASK_TIMEOUT 5000 /* a broker that has not answered by then is no reason not to ask the next */

void
metadata_step(Client *c)
{
	Call call = {.done = metadata_done, .retry = &c->meta};
	MetadataRequest req;
	Conn *conn;

	c->meta.wanted = c->meta.wanted || c->now >= c->meta_fresh;
	if (!c->meta.wanted && !c->meta.open)
		client_wake_at(c, c->meta_fresh);
	if (!c->meta.wanted || !retry_due(c, &c->meta) || (conn = client_any(c)) == NULL)
		return;
	WIRE_INIT(MetadataRequest, &req);
	req.allow_auto_topic_creation = c->conf.create_topics != 0;
	req.topics = WIRE_NEW(MetadataRequestTopics, &c->arena, (int32_t) HASH_COUNT(c->topics) + 1);
	if (req.topics == NULL)
		return;
	req.n_topics = 0;
	for (const Topic *t = c->topics; t != NULL; t = t->hh.next)
		req.topics[req.n_topics++].name = wstr(t->name);
	/* Whoever wants something from now on wants a newer answer than this one. */
	c->meta.wanted = false;
	call.timeout = c->conf.request_timeout < ASK_TIMEOUT ? c->conf.request_timeout : ASK_TIMEOUT;
	client_send(c, conn, API_METADATA, 12, &req, call);
}
