#include "client/producer.h"

#include <stdlib.h>

#define RUN_EVERY ((size_t) 64 * 1024) /* bytes of messages between two looks at the network */

/* ---- reports ---- */

void
producer_finish(pgb_producer *p, Batch *b, int64_t offset, const pgb_error *err)
{
	DL_DELETE(b->part->batches, b);
	if (err == NULL)
	{
		b->part->retry.failures = 0;
		b->part->known = true;
	}
	b->offset = offset;
	b->err = err == NULL ? (pgb_error){0} : *err;
	DL_APPEND(p->done, b);
	if (p->c.conf.on_delivery == NULL)
		(void) producer_reports(p);
}

int
producer_reports(pgb_producer *p)
{
	pgb_on_delivery tell = p->c.conf.on_delivery;
	int n = 0;
	Batch *b;

	while ((b = p->done) != NULL)
	{
		DL_DELETE(p->done, b);
		for (int32_t i = b->moved; i < b->n; i++)
		{
			p->pending--;
			if (tell != NULL)
				tell(&(pgb_report){b->ask.topic->name, b->ask.index, b->offset < 0 ? -1 : b->offset + i,
								   b->err.code == 0 ? NULL : &b->err, b->opaques[i]},
					 p->c.conf.on_delivery_arg);
		}
		n += b->n - b->moved;
		producer_free_batch(p, b);
	}
	return n;
}

/* ---- the handle ---- */

pgb_producer *
pgb_producer_new(const pgb_conf *conf, pgb_error *err)
{
	pgb_producer *p = client_new(sizeof(*p), sizeof(ToTopic), conf, producer_step, err);

	if (p == NULL)
		return NULL;
	p->producer_id = BATCH_NO_PRODUCER_ID;
	/* A retry that is not acknowledged by all could be acknowledged by nobody who remembers it. */
	p->c.conf.idempotent = p->c.conf.idempotent && p->c.conf.acks == -1;
	return p;
}

static WBytes
to_wire(pgb_bytes b)
{
	return b.data == NULL ? WBYTES_NULL : (WBytes){b.data, (int32_t) b.len};
}

/* In the words of the wire, with headers in the arena. */
static int
convert(pgb_producer *p, const pgb_message *m, Message *out, pgb_error *err)
{
	size_t key = m->key.data == NULL ? 0 : m->key.len, value = m->value.data == NULL ? 0 : m->value.len;

	if (m->topic == NULL || m->topic[0] == '\0' || m->partition < PGB_ANY_PARTITION ||
		m->timestamp < PGB_NOW || (m->n_headers > 0 && m->headers == NULL))
		return error_set(err, PGB_INVALID, false,
						 "a message has a topic, a partition or -1, and a time or -1");
	out->size = RECORD_MORE + key + value;
	for (size_t i = 0; i < m->n_headers; i++)
		out->size += HEADER_MORE + m->headers[i].name.len +
					 (m->headers[i].value.data == NULL ? 0 : m->headers[i].value.len);
	if (key > INT32_MAX || value > INT32_MAX || out->size > (size_t) p->c.conf.request_size)
		return error_set(err, PGB_TOO_LARGE, false, "a message of %zu bytes is above max.request.size (%lld)",
						 out->size, (long long) p->c.conf.request_size);
	out->timestamp = m->timestamp == PGB_NOW ? client_time() : m->timestamp;
	out->key = to_wire(m->key);
	out->value = to_wire(m->value);
	out->n_headers = (int32_t) m->n_headers;
	out->opaque = m->opaque;
	out->deadline = 0;
	out->headers = m->n_headers == 0 ? NULL : arena_alloc(&p->c.arena, sizeof(RecordHeader) * m->n_headers);
	if (out->headers == NULL && m->n_headers > 0)
		return error_memory(err);
	for (size_t i = 0; i < m->n_headers; i++)
	{
		const pgb_header *h = &m->headers[i];

		out->headers[i].key = (WStr){h->name.data == NULL ? "" : h->name.data, (int32_t) h->name.len};
		out->headers[i].value = to_wire(h->value);
	}
	return 0;
}

int
pgb_produce(pgb_producer *p, const pgb_message *m, pgb_error *err)
{
	size_t most = (size_t) p->c.conf.buffer_memory;
	Message message = {0};
	ToTopic *t;
	int rc;

	if (convert(p, m, &message, err) != 0)
		return -1;
	if (p->bytes + message.size > most)
		client_run(&p->c, 0);
	if (p->bytes + message.size > most)
		return error_set(
			err, PGB_QUEUE_FULL, true,
			"buffer.memory (%lld bytes) is used up by %lld messages; call pgb_producer_work and try again",
			(long long) most, (long long) p->pending);
	t = producer_topic(p, m->topic);
	if (t == NULL)
		return error_memory(err);
	rc = producer_put(p, t, m->partition, &message, err);
	if (m->n_headers > 0)
		arena_reset(&p->c.arena);
	if (rc < 0)
		return -1;
	p->pending++;
	p->since_run += message.size;
	if (rc == 1 || p->since_run >= RUN_EVERY)
	{
		p->since_run = 0;
		client_run(&p->c, 0);
	}
	return 0;
}

int
pgb_producer_work(pgb_producer *p, int timeout_ms)
{
	int n = producer_reports(p);

	client_run(&p->c, n > 0 ? 0 : client_clock() + timeout_ms);
	return n + producer_reports(p);
}

int
pgb_flush(pgb_producer *p, int timeout_ms, pgb_error *err)
{
	int64_t until = client_clock() + timeout_ms;

	p->flushing = true;
	client_wake_at(&p->c, 0);
	for (int64_t left = timeout_ms; p->pending > 0 && left >= 0; left = until - client_clock() - 1)
		(void) pgb_producer_work(p, (int) left);
	p->flushing = false;
	return p->pending == 0
			   ? 0
			   : client_late(&p->c, err, PGB_TIMED_OUT, "%lld messages were not delivered in %d ms",
							 (long long) p->pending, timeout_ms);
}

int64_t
pgb_pending(const pgb_producer *p)
{
	return p->pending;
}

int
pgb_producer_fd(const pgb_producer *p)
{
	return p->c.epfd;
}

int
pgb_producer_timeout(const pgb_producer *p)
{
	return p->done != NULL ? 0 : client_timeout(&p->c);
}

int64_t
pgb_producer_close(pgb_producer *p, int timeout_ms)
{
	pgb_error why;
	int64_t left;

	if (p == NULL)
		return 0;
	(void) pgb_flush(p, timeout_ms, NULL);
	left = p->pending;
	error_set(&why, PGB_TIMED_OUT, true, "the producer was closed before the message was delivered");
	/* The connections end first: what is in flight comes back to its partition.  The rest gets its report. */
	p->c.step = NULL;
	p->closing = true;
	client_free_nodes(&p->c);
	for (ToPart *part = p->active; part != NULL; part = part->next)
		while (part->batches != NULL)
			producer_finish(p, part->batches, -1, &why);
	(void) producer_reports(p);
	for (Topic *t = p->c.topics; t != NULL; t = t->hh.next)
	{
		ToTopic *to = (ToTopic *) t;

		while (to->n > 0)
			free(to->parts[--to->n]);
		free(to->parts);
	}
	for (Batch *b; (b = p->spare) != NULL;)
	{
		LL_DELETE(p->spare, b);
		producer_free_batch(p, b);
	}
	client_free(&p->c);
	return left;
}
