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
		retry_want(&p->c, &p->c.meta);
	}
}

static void
produced(Client *c, Ask *ask, const pgb_error *err, const void *part)
{
	const ProduceResponseResponsesPartitionResponses *r = part;
	int code = r == NULL ? 0 : r->error_code;
	Batch *b = (Batch *) ask;
	pgb_error why;

	b->part->n_in_flight--;
	if (code != 0 && code != KERR_DUPLICATE_SEQUENCE_NUMBER)
	{
		error_kafka(&why, code, "topic \"%s\", partition %d", ask->topic->name, ask->index);
		/* The broker knows better than its error code. */
		if (r->error_message.len > 0 && !why.retriable && code != KERR_MESSAGE_TOO_LARGE)
			error_set(&why, code, false, "topic \"%s\", partition %d: %.*s", ask->topic->name, ask->index,
					  (int) r->error_message.len, r->error_message.s);
		err = &why;
	}
	if (err != NULL)
		batch_failed((pgb_producer *) c, b, err);
	else
		producer_finish((pgb_producer *) c, b, r != NULL && code == 0 ? r->base_offset : -1, NULL);
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
		b->number = part->next_number++;
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

	while (b != NULL && b->ask.call != NULL)
		b = b->next;
	return b;
}

/* Whether the broker will still know the partition's first batch when it has this one: that may have to be sent again. */
static bool
in_window(const ToPart *part, const Batch *b)
{
	uint32_t number = b->bb.base_sequence == BATCH_NO_SEQUENCE ? part->next_number : b->number;

	return b == part->batches || number - part->batches->number < MOST_IN_FLIGHT;
}

/* Gives up what has no time left, or a topic that is not to be had. */
static void
expire(pgb_producer *p, ToPart *part)
{
	Client *c = &p->c;
	pgb_error why;
	Batch *b;

	while ((b = part->batches) != NULL && b->ask.call == NULL)
	{
		if (metadata_failed(c, b->ask.topic, CLIENT_NEVER, &why) == 0)
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
	if (c->conf.idempotent && !in_window(part, b))
		return NULL;
	/* Everything has come back: the batches that are left start a new epoch at sequence 0. */
	if (part->new_epoch)
	{
		part->new_epoch = part->known = false;
		part->next_sequence = 0;
		if (part->epoch == INT16_MAX)
			p->producer_id = BATCH_NO_PRODUCER_ID;
		part->epoch = part->epoch == INT16_MAX ? 0 : (int16_t) (part->epoch + 1);
		for (Batch *it = part->batches; it != NULL; it = it->next)
			it->bb.base_sequence = BATCH_NO_SEQUENCE;
	}
	if (!retry_due(c, &part->retry))
		return NULL;
	if (!b->full && !b->ended && !p->flushing && p->bytes < (size_t) c->conf.buffer_memory / 2 &&
		c->now < b->created + c->conf.linger)
	{
		client_wake_at(c, b->created + c->conf.linger);
		return NULL;
	}
	node = metadata_leader(c, b->ask.topic, part->index);
	conn = node == NULL ? NULL : client_ready(c, node, USE_DATA);
	/* A leader that cannot be reached may be one no more. */
	if (node != NULL && conn == NULL && node->conns[USE_DATA].state == CONN_DOWN)
		retry_want(c, &c->meta);
	return conn != NULL && conn->n_calls < MOST_IN_FLIGHT ? node : NULL;
}

/* One request to a node, of one batch of each partition that it leads, up to max.request.size. */
static bool
send_to(pgb_producer *p, Node *node)
{
	Client *c = &p->c;
	Conn *conn = client_ready(c, node, USE_DATA);
	int64_t deadline = c->now + c->conf.request_timeout;
	Call call = {.answer = produced};
	size_t bytes = 0;
	ProduceRequest req;

	if (conn == NULL || conn->n_calls >= MOST_IN_FLIGHT)
		return false;
	WIRE_INIT(ProduceRequest, &req);
	req.acks = (int16_t) c->conf.acks;
	for (ToPart *part = p->active; part != NULL; part = part->next)
	{
		Batch *b = part->to == node ? next_batch(part) : NULL;
		ProduceRequestTopicDataPartitionData *data = NULL;
		pgb_error err;

		if (b == NULL || (bytes > 0 && bytes + b->out.len > (size_t) c->conf.request_size))
			continue;
		part->to = NULL;
		if (seal(p, b))
			data = wire_by_topic_add(&ProduceRequest_desc, &c->arena, &req, wstr(b->ask.topic->name),
									 part->index);
		if (data == NULL)
		{
			error_set(&err, PGB_NO_MEMORY, true, "no memory to end or compress a batch");
			producer_finish(p, b, -1, &err);
			continue;
		}
		data->records = (WRecords){b->out.buf, (int32_t) b->out.len, b->out.buf};
		bytes += b->out.len;
		DL_APPEND(call.asks, &b->ask);
		part->n_in_flight++;
		part->hold = false;
		if (b->deadline < deadline)
			deadline = b->deadline;
	}
	req.timeout_ms = (int32_t) (deadline > c->now ? deadline - c->now : 1);
	call.timeout = req.timeout_ms;
	if (bytes > 0)
		client_send(c, conn, API_PRODUCE, 12, &req, call);
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
	for (ToPart *part = p->active; part != NULL; part = part->next)
		part->new_epoch = part->next_sequence > 0;
	client_wake_at(c, c->now);
}

static void
ask_id(pgb_producer *p)
{
	Client *c = &p->c;
	InitProducerIdRequest req;
	Conn *conn;

	if (p->producer_id >= 0 || !c->conf.idempotent || p->active == NULL || !retry_due(c, &p->id) ||
		(conn = client_any(c)) == NULL)
		return;
	WIRE_INIT(InitProducerIdRequest, &req);
	req.transactional_id = WSTR_NULL;
	req.transaction_timeout_ms = INT32_MAX;
	client_send(c, conn, API_INIT_PRODUCER_ID, 5, &req, (Call){.done = id_done, .arg = p, .retry = &p->id});
}

void
producer_step(void *handle)
{
	pgb_producer *p = handle;
	ToPart *part, *next;

	ask_id(p);
	/* A partition sends several batches in a turn, each in a request of its own. */
	for (bool some = true; some;)
	{
		/* A partition without batches leaves the list; one whose topic became known adds others at its end. */
		for (part = p->active; part != NULL; part = next)
		{
			part->to = destination(p, part);
			next = part->next;
			if (part->batches != NULL)
				continue;
			DL_DELETE(p->active, part);
			part->prev = NULL;
		}
		some = false;
		for (part = p->active; part != NULL; part = part->next)
			some = (part->to != NULL && send_to(p, part->to)) || some;
	}
	if ((part = p->active) != NULL)
	{
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): what is in the list has a neighbour or is its head */
		DL_DELETE(p->active, part);
		DL_APPEND(p->active, part);
	}
}
