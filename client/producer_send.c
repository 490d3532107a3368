/* producer_send.c: batches to their leaders, and what comes back (rules in producer.h). */
#include "client/producer.h"

#include <stdlib.h>

/* ---- what comes back ---- */

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
		part->new_epoch = part->new_epoch || part->batches == b;
		again = true;
	}
	if (err->code == KERR_MESSAGE_TOO_LARGE && !p->closing && producer_split(p, b))
	{
		part->hold = true;
		part->new_epoch = p->c.conf.idempotent != 0;
		client_wake_at(&p->c, p->c.now);
	}
	else if (!again || p->c.now >= b->deadline || p->closing)
		producer_finish(p, b, -1, err);
	else
	{
		/* Of several in flight only the first counts. */
		if (!part->hold)
			retry_later(&p->c, &part->retry);
		part->hold = true;
		metadata_want(&p->c);
	}
}

static void
batch_answered(pgb_producer *p, Batch *b, const ProduceResponseResponsesPartitionResponses *r)
{
	pgb_error err;

	if (r->error_code == 0 || r->error_code == KERR_DUPLICATE_SEQUENCE_NUMBER)
	{
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

/* The batch of a partition that a call took along, which is in flight no more; NULL: none. */
static Batch *
take_back(ToPart *part, const Call *call)
{
	Batch *b = part->batches;

	while (b != NULL && b->call != call->correlation_id)
		b = b->next;
	if (b != NULL)
	{
		b->call = CLIENT_NO_CALL;
		part->n_in_flight--;
	}
	return b;
}

static void
produce_done(Client *c, Call *call, const pgb_error *err, void *response)
{
	WireEachPart each = {.m = &ProduceResponse_desc, .message = response};
	pgb_producer *p = call->arg;
	pgb_error missing;
	const void *part;

	while (response != NULL && (part = wire_by_topic_next(&each)) != NULL)
	{
		const Topic *t = metadata_find(c, *each.topic);
		const ToTopic *to = t == NULL ? NULL : t->owner;
		Batch *b = to != NULL && each.index >= 0 && each.index < to->n
					   ? take_back(to->parts[each.index], call)
					   : NULL;

		if (b != NULL)
			batch_answered(p, b, part);
	}
	error_set(&missing, PGB_PROTOCOL, true, "the broker's answer leaves out a partition");
	for (int32_t i = 0; i < p->n_active; i++)
	{
		Batch *b = take_back(p->active[i], call);

		if (b != NULL && err == NULL && call->no_reply)
			producer_finish(p, b, -1, NULL);
		else if (b != NULL)
			batch_failed(p, b, err != NULL ? err : &missing);
	}
}

/* ---- what goes out ---- */

/* Makes the batch ready for the wire; false: no memory. */
static bool
seal(pgb_producer *p, Batch *b)
{
	BatchBuilder *bb = &b->bb;
	ToPart *part = b->part;

	if (p->c.conf.idempotent && bb->base_sequence == BATCH_NO_SEQUENCE)
	{
		bb->producer_id = p->producer_id;
		bb->producer_epoch = part->epoch;
		bb->base_sequence = part->next_sequence;
		part->next_sequence = batch_add_sequence(bb->base_sequence, b->n);
		if (b->ended)
			batch_set_producer(b->out.buf, bb->producer_id, bb->producer_epoch, bb->base_sequence);
	}
	b->ended = b->ended || batch_end(bb) == 0;
	return b->ended;
}

static Batch *
next_batch(const ToPart *part)
{
	Batch *b = part->batches;

	while (b != NULL && b->call != CLIENT_NO_CALL)
		b = b->next;
	return b;
}

/* Gives up what has no time left, or a topic that is not to be had. */
static void
expire(pgb_producer *p, ToPart *part)
{
	Client *c = &p->c;
	pgb_error why;
	Batch *b;

	while ((b = part->batches) != NULL && b->call == CLIENT_NO_CALL)
	{
		if (metadata_failed(c, part->topic->meta, CLIENT_NEVER, &why) == 0)
		{
			client_wake_at(c, b->deadline);
			if (c->now < b->deadline)
				return;
			client_late(c, &why, PGB_TIMED_OUT, "not delivered within delivery.timeout.ms (%lld)",
						(long long) c->conf.delivery_timeout);
		}
		producer_finish(p, b, -1, &why);
	}
}

/* Everything has come back: the batches that are left start a new epoch at sequence 0. */
static void
begin_epoch(pgb_producer *p, ToPart *part)
{
	part->new_epoch = part->known = false;
	part->next_sequence = 0;
	if (part->epoch == INT16_MAX)
		p->producer_id = BATCH_NO_PRODUCER_ID;
	part->epoch = part->epoch == INT16_MAX ? 0 : (int16_t) (part->epoch + 1);
	for (Batch *b = part->batches; b != NULL; b = b->next)
		b->bb.base_sequence = BATCH_NO_SEQUENCE;
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
	if (part->index < 0)
	{
		producer_place(p, part->topic);
		return NULL;
	}
	b = next_batch(part);
	if (b == NULL || (c->conf.idempotent && p->producer_id < 0) || part->n_in_flight >= MOST_IN_FLIGHT)
		return NULL;
	if (part->n_in_flight > 0 && (part->hold || part->new_epoch || (c->conf.idempotent && !part->known)))
		return NULL;
	if (part->new_epoch)
		begin_epoch(p, part);
	if (!retry_due(c, &part->retry))
		return NULL;
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
	Client *c = &p->c;
	Conn *conn = client_ready(c, node, USE_DATA);
	int64_t deadline = c->now + c->conf.request_timeout;
	size_t bytes = 0;
	ProduceRequest req;

	if (conn == NULL || conn->n_calls >= MOST_IN_FLIGHT)
		return false;
	WIRE_INIT(ProduceRequest, &req);
	req.acks = (int16_t) c->conf.acks;
	for (int32_t i = 0; i < p->n_active; i++)
	{
		ToPart *part = p->active[(p->turn + i) % p->n_active];
		Batch *b = part->to == node ? next_batch(part) : NULL;
		ProduceRequestTopicDataPartitionData *data = NULL;
		pgb_error err;

		if (b == NULL || (bytes > 0 && bytes + b->out.len > (size_t) c->conf.request_size))
			continue;
		part->to = NULL;
		if (seal(p, b))
			data = wire_by_topic_add(&ProduceRequest_desc, &c->arena, &req, wstr(part->topic->meta->name),
									 part->index);
		if (data == NULL)
		{
			error_set(&err, PGB_NO_MEMORY, true, "no memory to end or compress a batch");
			producer_finish(p, b, -1, &err);
			continue;
		}
		data->records = (WRecords){b->out.buf, (int32_t) b->out.len, b->out.buf};
		bytes += b->out.len;
		b->call = c->correlation_id;
		part->n_in_flight++;
		part->hold = false;
		if (b->deadline < deadline)
			deadline = b->deadline;
	}
	req.timeout_ms = (int32_t) (deadline > c->now ? deadline - c->now : 1);
	if (bytes > 0)
		client_send(c, conn, API_PRODUCE, 12, &req, produce_done, p, req.timeout_ms, NULL);
	return bytes > 0;
}

/* ---- the producer id ---- */

static void
id_done(Client *c, Call *call, const pgb_error *err, void *response)
{
	pgb_producer *p = call->arg;

	if (err != NULL)
	{
		c->last_error = *err;
		return;
	}
	p->id.failures = 0;
	p->producer_id = ((InitProducerIdResponse *) response)->producer_id;
	/* Whatever had a number of an older id gets a new one. */
	for (int32_t i = 0; i < p->n_active; i++)
		p->active[i]->new_epoch = p->active[i]->next_sequence > 0;
	client_wake_at(c, c->now);
}

static void
ask_id(pgb_producer *p)
{
	Client *c = &p->c;
	InitProducerIdRequest req;
	Conn *conn;

	if (p->producer_id >= 0 || !c->conf.idempotent || p->n_active == 0 || !retry_due(c, &p->id) ||
		(conn = client_any(c)) == NULL)
		return;
	WIRE_INIT(InitProducerIdRequest, &req);
	req.transactional_id = WSTR_NULL;
	req.transaction_timeout_ms = INT32_MAX;
	client_send(c, conn, API_INIT_PRODUCER_ID, 5, &req, id_done, p, c->conf.request_timeout, &p->id);
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
		if (part->batches != NULL)
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
producer_step(void *handle)
{
	pgb_producer *p = handle;
	bool sent = true;

	ask_id(p);
	/* A partition sends several batches in a turn, each in a request of its own. */
	while (sent && find_destinations(p))
	{
		sent = false;
		for (Node *n = p->c.nodes; n != NULL; n = n->next)
			while (n->id >= 0 && send_to(p, n))
				sent = true;
	}
	p->turn = p->n_active == 0 ? 0 : (p->turn + 1) % p->n_active;
}
