/* producer_send.c: batches to their leaders, and what comes back (rules in producer.h). */
#include "client/producer.h"

#include <stdlib.h>

typedef struct Sent
{
	pgb_producer *p;
	int32_t n;
	Batch *batches[];
} Sent;

/* ---- what comes back ---- */

static void
unlink_batch(ToPart *part, Batch *b)
{
	Batch **at = &part->first, *before = NULL;

	while (*at != b)
	{
		before = *at;
		at = &before->next;
	}
	*at = b->next;
	if (part->last == b)
		part->last = before;
}

static void
give_up_batch(pgb_producer *p, Batch *b, const pgb_error *err)
{
	unlink_batch(b->part, b);
	producer_finish(p, b, -1, err);
}

static void
retry(pgb_producer *p, Batch *b)
{
	ToPart *part = b->part;

	part->hold = true;
	part->retry_at = p->c.now + client_backoff(&p->c, b->attempts);
	client_wake_at(&p->c, part->retry_at);
	metadata_want(&p->c);
}

static void
batch_failed(pgb_producer *p, Batch *b, const pgb_error *err)
{
	ToPart *part = b->part;
	bool again = err->retriable;

	if (p->c.conf.idempotent &&
		(err->code == KERR_OUT_OF_ORDER_SEQUENCE_NUMBER || err->code == KERR_UNKNOWN_PRODUCER_ID ||
		 err->code == KERR_INVALID_PRODUCER_EPOCH))
	{
		/* Behind a batch that failed it is no wonder; for the first one see producer.h. */
		part->new_epoch = part->new_epoch || part->first == b;
		again = true;
	}
	if (err->code == KERR_MESSAGE_TOO_LARGE && !p->closing && producer_split(p, b))
	{
		part->hold = true;
		part->new_epoch = p->c.conf.idempotent != 0;
		client_wake_at(&p->c, p->c.now);
	}
	else if (!again || p->c.now >= b->deadline || p->closing)
		give_up_batch(p, b, err);
	else
		retry(p, b);
}

static void
batch_answered(pgb_producer *p, Batch *b, const ProduceResponseResponsesPartitionResponses *r)
{
	pgb_error err;

	if (r->error_code == 0 || r->error_code == KERR_DUPLICATE_SEQUENCE_NUMBER)
	{
		unlink_batch(b->part, b);
		producer_finish(p, b, r->error_code == 0 ? r->base_offset : -1, NULL);
		return;
	}
	error_kafka(&err, r->error_code, "topic \"%s\", partition %d", b->part->topic->meta->name,
				b->part->index);
	/* The broker knows better than its error code. */
	if (r->error_message.len > 0 && !err.retriable && r->error_code != KERR_MESSAGE_TOO_LARGE)
		error_set(&err, r->error_code, false, "topic \"%s\", partition %d: %.*s", b->part->topic->meta->name,
				  b->part->index, (int) r->error_message.len, r->error_message.s);
	batch_failed(p, b, &err);
}

static const ProduceResponseResponsesPartitionResponses *
find_answer(const ProduceResponse *resp, const Batch *b)
{
	const char *name = b->part->topic->meta->name;

	for (int32_t i = 0; i < resp->n_responses; i++)
		if (wstr_eq(resp->responses[i].name, wstr(name)))
			for (int32_t j = 0; j < resp->responses[i].n_partition_responses; j++)
				if (resp->responses[i].partition_responses[j].index == b->part->index)
					return &resp->responses[i].partition_responses[j];
	return NULL;
}

static void
produce_done(Client *c, Call *call, const pgb_error *err, void *response)
{
	Sent *sent = call->arg;
	pgb_producer *p = sent->p;

	(void) c;
	for (int32_t i = 0; i < sent->n; i++)
	{
		Batch *b = sent->batches[i];
		const ProduceResponseResponsesPartitionResponses *r;
		pgb_error missing;

		b->in_flight = false;
		b->part->n_in_flight--;
		if (err != NULL)
			batch_failed(p, b, err);
		else if (call->no_reply)
			batch_answered(p, b, &(ProduceResponseResponsesPartitionResponses){.base_offset = -1});
		else if ((r = find_answer(response, b)) != NULL)
			batch_answered(p, b, r);
		else
		{
			error_set(&missing, PGB_PROTOCOL, true,
					  "the broker's answer leaves out topic \"%s\", partition %d", b->part->topic->meta->name,
					  b->part->index);
			batch_failed(p, b, &missing);
		}
	}
	free(sent);
}

/* ---- what goes out ---- */

/* Makes the batch ready for the wire; false: no memory. */
static bool
finish_batch(pgb_producer *p, Batch *b)
{
	ToPart *part = b->part;
	bool renumber = p->c.conf.idempotent && b->sequence == NO_SEQUENCE;

	if (renumber)
	{
		b->epoch = part->epoch;
		b->sequence = part->next_sequence;
	}
	if (!b->ended)
	{
		if (p->c.conf.idempotent)
		{
			b->bb.producer_id = p->producer_id;
			b->bb.producer_epoch = b->epoch;
			b->bb.base_sequence = b->sequence;
		}
		if (batch_end(&b->bb) != 0)
			return false;
		b->ended = true;
	}
	else if (renumber)
		batch_set_producer(b->out.buf, p->producer_id, b->epoch, b->sequence);
	if (renumber)
		part->next_sequence = batch_add_sequence(b->sequence, b->n);
	return true;
}

static void
send_batches(pgb_producer *p, Conn *conn, Sent *sent)
{
	Client *c = &p->c;
	int64_t deadline = c->now + c->conf.request_timeout;
	ProduceRequest req;
	pgb_error err;

	WIRE_INIT(ProduceRequest, &req);
	req.acks = (int16_t) c->conf.acks;
	req.topic_data = WIRE_NEW(ProduceRequestTopicData, &c->arena, sent->n);
	for (int32_t i = 0; req.topic_data != NULL && i < sent->n; i++)
	{
		Batch *b = sent->batches[i];
		const char *name = b->part->topic->meta->name;
		int32_t k = 0;

		while (k < req.n_topic_data && req.topic_data[k].name.s != name)
			k++;
		if (k == req.n_topic_data)
		{
			req.topic_data[k].name = wstr(name);
			req.topic_data[k].partition_data =
				WIRE_NEW(ProduceRequestTopicDataPartitionData, &c->arena, sent->n - i);
			if (req.topic_data[k].partition_data == NULL)
				break;
			req.n_topic_data++;
		}
		req.topic_data[k].partition_data[req.topic_data[k].n_partition_data++] =
			(ProduceRequestTopicDataPartitionData){b->part->index,
												   {b->out.buf, (int32_t) b->out.len, b->out.buf}};
		b->in_flight = true;
		b->part->n_in_flight++;
		b->part->hold = false;
		b->attempts++;
		if (b->deadline < deadline)
			deadline = b->deadline;
	}
	req.timeout_ms = (int32_t) (deadline > c->now ? deadline - c->now : 1);
	if (client_send(c, conn, API_PRODUCE, 12, &req, produce_done, sent, req.timeout_ms, &err) != 0)
	{
		Call failed = {.arg = sent};

		produce_done(c, &failed, &err, NULL);
	}
	arena_reset(&c->arena);
}

static Batch *
next_batch(const ToPart *part)
{
	Batch *b = part->first;

	while (b != NULL && b->in_flight)
		b = b->next;
	return b;
}

static void
expire(pgb_producer *p, ToPart *part)
{
	Client *c = &p->c;
	pgb_error why;
	Batch *b;

	while ((b = part->first) != NULL && !b->in_flight)
	{
		if (metadata_failed(c, part->topic->meta, &why) == 0)
		{
			if (c->now < b->deadline)
			{
				client_wake_at(c, b->deadline);
				return;
			}
			error_set(&why, PGB_TIMED_OUT, true, "not delivered within delivery.timeout.ms (%lld)%s%s",
					  (long long) c->conf.delivery_timeout, c->last_error.text[0] != '\0' ? "; " : "",
					  c->last_error.text);
		}
		give_up_batch(p, b, &why);
	}
}

/* Everything has come back: the batches that are left start a new epoch at sequence 0. */
static void
begin_epoch(pgb_producer *p, ToPart *part)
{
	part->new_epoch = false;
	part->next_sequence = 0;
	if (part->epoch == INT16_MAX)
		p->producer_id = BATCH_NO_PRODUCER_ID;
	part->epoch = part->epoch == INT16_MAX ? 0 : (int16_t) (part->epoch + 1);
	for (Batch *b = part->first; b != NULL; b = b->next)
		b->sequence = NO_SEQUENCE;
}

/* Where the partition's next batch can go now: a node with a connection that has room, else NULL. */
static Node *
destination(pgb_producer *p, ToPart *part)
{
	Client *c = &p->c;
	Batch *b;
	Node *node;
	Conn *conn;

	expire(p, part);
	b = next_batch(part);
	if (b == NULL || (c->conf.idempotent && p->producer_id < 0) || part->n_in_flight >= MOST_IN_FLIGHT)
		return NULL;
	if (part->n_in_flight > 0 && (part->hold || part->new_epoch))
		return NULL;
	if (part->new_epoch)
		begin_epoch(p, part);
	if (c->now < part->retry_at)
	{
		client_wake_at(c, part->retry_at);
		return NULL;
	}
	if (!b->full && !b->ended && !p->flushing && p->bytes < (size_t) c->conf.buffer_memory / 2 &&
		c->now < b->created + c->conf.linger)
	{
		client_wake_at(c, b->created + c->conf.linger);
		return NULL;
	}
	node = metadata_leader(c, part->topic->meta, part->index);
	conn = node == NULL ? NULL : client_ready(c, node, USE_DATA);
	/* A leader that cannot be reached may be one no more. */
	if (node != NULL && conn == NULL && node->conns[USE_DATA].state == CONN_DOWN)
		metadata_want(c);
	return conn != NULL && conn->n_calls < MOST_IN_FLIGHT ? node : NULL;
}

/* One request to a node, of one batch of each partition that it leads, up to max.request.size. */
static bool
send_to(pgb_producer *p, Node *node)
{
	Conn *conn = client_ready(&p->c, node, USE_DATA);
	Sent *sent = NULL;
	size_t bytes = 0;

	if (conn == NULL || conn->n_calls >= MOST_IN_FLIGHT)
		return false;
	for (int32_t i = 0; i < p->n_active; i++)
	{
		ToPart *part = p->active[(p->turn + i) % p->n_active];
		Batch *b = part->to == node ? next_batch(part) : NULL;

		if (b == NULL)
			continue;
		if (sent == NULL && (sent = malloc(sizeof(*sent) + sizeof(Batch *) * (size_t) p->n_active)) == NULL)
			return false;
		if (bytes == 0)
			*sent = (Sent){.p = p};
		if (bytes > 0 && bytes + b->out.len > (size_t) p->c.conf.request_size)
			continue;
		part->to = NULL;
		if (!finish_batch(p, b))
		{
			pgb_error err;

			error_set(&err, PGB_NO_MEMORY, true, "no memory to %s a batch",
					  b->bb.codec != 0 ? "compress" : "end");
			give_up_batch(p, b, &err);
			continue;
		}
		bytes += b->out.len;
		sent->batches[sent->n++] = b;
	}
	if (sent == NULL || sent->n == 0)
	{
		free(sent);
		return false;
	}
	send_batches(p, conn, sent);
	return true;
}

/* ---- the producer id ---- */

static void
id_done(Client *c, Call *call, const pgb_error *err, void *response)
{
	pgb_producer *p = call->arg;
	InitProducerIdResponse *resp = response;

	p->id_asked = false;
	if (err == NULL && resp->error_code == 0)
	{
		p->producer_id = resp->producer_id;
		p->id_failures = 0;
		/* Whatever had a number of an older id gets a new one. */
		for (int32_t i = 0; i < p->n_active; i++)
			p->active[i]->new_epoch = p->active[i]->next_sequence > 0;
		client_wake_at(c, c->now);
		return;
	}
	if (err == NULL)
		error_kafka(&c->last_error, resp->error_code, "a producer id was asked for");
	p->id_at = c->now + client_backoff(c, ++p->id_failures);
	client_wake_at(c, p->id_at);
}

static void
ask_id(pgb_producer *p)
{
	Client *c = &p->c;
	InitProducerIdRequest req;

	if (p->producer_id >= 0 || p->id_asked || !c->conf.idempotent || p->n_active == 0)
		return;
	client_wake_at(c, p->id_at);
	for (Node *n = c->nodes; n != NULL && c->now >= p->id_at && !p->id_asked; n = n->next)
	{
		Conn *conn = n->gone || n->id < 0 ? NULL : client_ready(c, n, USE_CONTROL);

		WIRE_INIT(InitProducerIdRequest, &req);
		req.transactional_id = WSTR_NULL;
		req.transaction_timeout_ms = INT32_MAX;
		if (conn != NULL)
			p->id_asked = client_send(c, conn, API_INIT_PRODUCER_ID, 5, &req, id_done, p,
									  c->conf.request_timeout, &c->last_error) == 0;
	}
}

/* Looks at every partition with batches, and drops those without from the list. */
static bool
find_destinations(pgb_producer *p)
{
	bool some = false;

	for (int32_t i = 0; i < p->n_active;)
	{
		ToPart *part = p->active[i];

		part->to = destination(p, part);
		some = some || part->to != NULL;
		if (part->first != NULL)
		{
			i++;
			continue;
		}
		part->active = false;
		p->active[i] = p->active[--p->n_active];
	}
	return some;
}

void
producer_step(Client *c)
{
	pgb_producer *p = c->owner;
	bool sent = true;

	producer_route_waiting(p);
	ask_id(p);
	/* A partition sends several batches in a turn, each in a request of its own. */
	while (sent && find_destinations(p))
	{
		sent = false;
		for (Node *n = c->nodes; n != NULL; n = n->next)
			while (n->id >= 0 && send_to(p, n))
				sent = true;
	}
	p->turn = p->n_active == 0 ? 0 : (p->turn + 1) % p->n_active;
}
