#include "client/producer.h"

#include <stdlib.h>

#include "client/partitioner.h"

#define RUN_EVERY   ((size_t) 64 * 1024) /* bytes of messages between two looks at the network */
#define MOST_SPARE  6
#define RECORD_MORE 64 /* of a record besides its bytes, at most; a header adds HEADER_MORE */
#define HEADER_MORE 20

static WBytes
to_wire(pgb_bytes b)
{
	return b.data == NULL ? WBYTES_NULL : (WBytes){b.data, (int32_t) b.len};
}

/* ---- batches ---- */

static Batch *
batch_new(pgb_producer *p, ToPart *part)
{
	Batch *b = p->spare;

	if (b != NULL)
	{
		Batch kept = *b;

		p->spare = b->next;
		p->n_spare--;
		memset(b, 0, sizeof(*b));
		b->out = kept.out;
		b->opaques = kept.opaques;
		b->cap_opaques = kept.cap_opaques;
		wire_writer_reset(&b->out);
	}
	else if ((b = calloc(1, sizeof(*b))) == NULL)
		return NULL;
	b->part = part;
	b->sequence = NO_SEQUENCE;
	b->created = client_clock();
	b->deadline = b->created + p->c.conf.delivery_timeout;
	batch_begin(&b->bb, &b->out, p->c.conf.codec);
	b->bb.level = (int) p->c.conf.level;
	if (part->last != NULL)
		part->last->next = b;
	else
		part->first = b;
	part->last = b;
	client_wake_at(&p->c, b->created + p->c.conf.linger);
	return b;
}

static void
batch_free(pgb_producer *p, Batch *b)
{
	p->bytes -= b->bytes;
	if (p->n_spare < MOST_SPARE && !b->out.failed)
	{
		b->next = p->spare;
		p->spare = b;
		p->n_spare++;
		return;
	}
	wire_writer_free(&b->out);
	free(b->opaques);
	free(b);
}

static bool
keep_opaque(pgb_producer *p, Batch *b, void *opaque)
{
	if (p->c.conf.on_delivery == NULL)
		return true;
	if (b->n == b->cap_opaques)
	{
		int32_t cap = b->cap_opaques == 0 ? 16 : b->cap_opaques * 2;
		void **more = realloc(b->opaques, sizeof(void *) * (size_t) cap);

		if (more == NULL)
			return false;
		b->opaques = more;
		b->cap_opaques = cap;
	}
	b->opaques[b->n] = opaque;
	return true;
}

static bool
activate(pgb_producer *p, ToPart *part)
{
	if (part->active)
		return true;
	if (p->n_active == p->cap_active)
	{
		int32_t cap = p->cap_active == 0 ? 16 : p->cap_active * 2;
		ToPart **more = realloc(p->active, sizeof(*more) * (size_t) cap);

		if (more == NULL)
			return false;
		p->active = more;
		p->cap_active = cap;
	}
	p->active[p->n_active++] = part;
	part->active = true;
	return true;
}

/* Headers in the form of the builder: the same pairs in other types. */
static void
add_record(Batch *b, const pgb_message *m, int64_t timestamp)
{
	RecordHeader few[16], *h = m->n_headers <= 16 ? few : malloc(sizeof(*h) * m->n_headers);

	if (h == NULL)
	{
		b->out.failed = true;
		return;
	}
	for (size_t i = 0; i < m->n_headers; i++)
		h[i] = (RecordHeader){{m->headers[i].name.data == NULL ? "" : m->headers[i].name.data,
							   (int32_t) m->headers[i].name.len},
							  to_wire(m->headers[i].value)};
	batch_add(&b->bb, timestamp, to_wire(m->key), to_wire(m->value), h, (int32_t) m->n_headers);
	if (h != few)
		free(h);
}

/* Into the open batch of a partition, or a new one. */
static int
append(pgb_producer *p, ToPart *part, const pgb_message *m, size_t size, pgb_error *err)
{
	Batch *b = part->last;
	size_t before, limit = (size_t) p->c.conf.batch_size;
	int32_t n_before;

	if (b != NULL && !b->full && !b->ended && batch_building_size(&b->bb) + size > limit)
		b->full = true;
	if (b == NULL || b->full || b->ended)
		b = activate(p, part) ? batch_new(p, part) : NULL;
	if (b == NULL || !keep_opaque(p, b, m->opaque))
		return error_set(err, PGB_NO_MEMORY, true, "no memory");
	before = b->out.len;
	n_before = b->bb.count;
	add_record(b, m, m->timestamp == PGB_NOW ? client_time() : m->timestamp);
	if (b->out.failed)
	{
		/* What is in the batch already is whole. */
		b->out.failed = false;
		b->out.len = before;
		b->bb.count = n_before;
		return error_set(err, PGB_NO_MEMORY, true, "no memory");
	}
	b->n++;
	b->bytes += b->out.len - before + sizeof(void *);
	p->bytes += b->out.len - before + sizeof(void *);
	if (batch_building_size(&b->bb) >= limit)
		b->full = true;
	return b->full ? 1 : 0;
}

/* ---- routing ---- */

static ToTopic *
find_topic(pgb_producer *p, const char *name)
{
	Topic *meta;
	ToTopic *t;

	if (p->recent != NULL && strcmp(p->recent->meta->name, name) == 0)
		return p->recent;
	meta = metadata_topic(&p->c, name, strlen(name));
	if (meta == NULL)
		return NULL;
	t = meta->owner;
	if (t == NULL)
	{
		t = calloc(1, sizeof(*t));
		if (t == NULL)
			return NULL;
		t->meta = meta;
		t->sticky = -1;
		t->next = (uint32_t) client_random(&p->c);
		t->next_topic = p->topics;
		p->topics = t;
		meta->owner = t;
	}
	p->recent = t;
	return t;
}

static bool
grow_parts(ToTopic *t)
{
	int32_t n = t->meta->n;
	ToPart **more = n <= t->n ? t->parts : realloc(t->parts, sizeof(*more) * (size_t) n);

	if (more == NULL)
		return false;
	t->parts = more;
	for (; t->n < n; t->n++)
	{
		ToPart *part = calloc(1, sizeof(*part));

		if (part == NULL)
			return false;
		part->topic = t;
		part->index = t->n;
		t->parts[t->n] = part;
	}
	return true;
}

/* The next partition that has a leader, or just the next when none has. */
static int32_t
next_partition(ToTopic *t)
{
	uint32_t n = t->meta->n > 0 ? (uint32_t) t->meta->n : 1;

	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t at = t->next++ % n;

		if (t->meta->parts[at].leader >= 0)
			return (int32_t) at;
	}
	return (int32_t) (t->next++ % n);
}

static int32_t
choose(pgb_producer *p, ToTopic *t, const pgb_message *m)
{
	Batch *open;

	if (m->partition >= 0)
		return m->partition;
	if (m->key.data != NULL)
		return p->c.conf.partitioner == PARTITIONER_MURMUR2
				   ? partition_murmur2(m->key.data, m->key.len, t->meta->n)
				   : partition_crc32(m->key.data, m->key.len, t->meta->n);
	if (p->c.conf.unkeyed == UNKEYED_ROUND_ROBIN)
		return next_partition(t);
	open = t->sticky >= 0 && t->sticky < t->meta->n ? t->parts[t->sticky]->last : NULL;
	if (open == NULL || open->full || open->ended)
		t->sticky = next_partition(t);
	return t->sticky;
}

static int
route(pgb_producer *p, ToTopic *t, const pgb_message *m, size_t size, pgb_error *err)
{
	int32_t at;

	if (!grow_parts(t))
		return error_set(err, PGB_NO_MEMORY, true, "no memory");
	at = choose(p, t, m);
	if (at >= t->meta->n)
		return error_set(err, PGB_NO_PARTITION, false, "topic \"%s\" has partitions 0 to %d, not %d",
						 t->meta->name, t->meta->n - 1, at);
	return append(p, t->parts[at], m, size, err);
}

/* ---- messages that wait for their topic ---- */

static const void *
put_copy(char **at, const void *src, size_t len)
{
	char *to = *at;

	if (src == NULL)
		return NULL;
	memcpy(to, src, len);
	*at += len;
	return to;
}

static int
wait_for_topic(pgb_producer *p, ToTopic *t, const pgb_message *m, size_t size, pgb_error *err)
{
	size_t bytes = sizeof(Waiting) + sizeof(pgb_header) * m->n_headers + size;
	Waiting *w = malloc(bytes);
	pgb_header *h;
	char *at;

	if (w == NULL)
		return error_set(err, PGB_NO_MEMORY, true, "no memory");
	h = (pgb_header *) (w + 1);
	at = (char *) (h + m->n_headers);
	*w = (Waiting){.m = *m, .bytes = bytes, .deadline = client_clock() + p->c.conf.delivery_timeout};
	w->m.topic = t->meta->name;
	w->m.key.data = put_copy(&at, m->key.data, m->key.len);
	w->m.value.data = put_copy(&at, m->value.data, m->value.len);
	w->m.headers = h;
	for (size_t i = 0; i < m->n_headers; i++)
	{
		h[i] = m->headers[i];
		h[i].name.data = put_copy(&at, h[i].name.data, h[i].name.len);
		h[i].value.data = put_copy(&at, h[i].value.data, h[i].value.len);
	}
	if (m->timestamp == PGB_NOW)
		w->m.timestamp = client_time();
	if (t->last != NULL)
		t->last->next = w;
	else
		t->first = w;
	t->last = w;
	p->bytes += bytes;
	client_wake_at(&p->c, p->c.now);
	return 0;
}

/* Topics that are known by now get their messages; those that are not to be had give them up. */
void
producer_route_waiting(pgb_producer *p)
{
	for (ToTopic *t = p->topics; t != NULL; t = t->next_topic)
	{
		pgb_error why = {0};
		bool lost = t->first != NULL && metadata_failed(&p->c, t->meta, &why) != 0;
		Waiting *w;

		while ((w = t->first) != NULL)
		{
			if (!lost && t->meta->n == 0 && p->c.now < w->deadline)
				break;
			if (t->meta->n == 0 && !lost)
				error_set(&why, PGB_TIMED_OUT, true, "nobody said in time what topic \"%s\" is; %s",
						  t->meta->name, p->c.last_error.text);
			t->first = w->next;
			if (t->first == NULL)
				t->last = NULL;
			w->next = NULL;
			p->bytes -= w->bytes;
			if (t->meta->n > 0 && !lost && route(p, t, &w->m, w->bytes, &why) >= 0)
			{
				free(w);
				continue;
			}
			w->err = why;
			if (p->lost_last != NULL)
				p->lost_last->next = w;
			else
				p->lost_first = w;
			p->lost_last = w;
		}
		if (t->first != NULL)
			client_wake_at(&p->c, t->first->deadline);
	}
}

/* ---- reports ---- */

void
producer_finish(pgb_producer *p, Batch *b, int64_t offset, const pgb_error *err)
{
	b->offset = offset;
	b->err = err == NULL ? (pgb_error){0} : *err;
	b->next = NULL;
	if (p->done_last != NULL)
		p->done_last->next = b;
	else
		p->done_first = b;
	p->done_last = b;
	if (p->c.conf.on_delivery == NULL)
		(void) producer_reports(p);
}

static void
report(pgb_producer *p, const pgb_report *r)
{
	p->pending--;
	if (r->error != NULL)
		p->failed++;
	if (p->c.conf.on_delivery != NULL)
		p->c.conf.on_delivery(r, p->c.conf.on_delivery_arg);
}

int
producer_reports(pgb_producer *p)
{
	int n = 0;
	Batch *b;
	Waiting *w;

	while ((b = p->done_first) != NULL)
	{
		p->done_first = b->next;
		if (b->next == NULL)
			p->done_last = NULL;
		n += b->n;
		for (int32_t i = 0; i < b->n; i++)
			report(p, &(pgb_report){b->part->topic->meta->name, b->part->index,
									b->offset < 0 ? -1 : b->offset + i, b->err.code == 0 ? NULL : &b->err,
									p->c.conf.on_delivery == NULL ? NULL : b->opaques[i]});
		batch_free(p, b);
	}
	while ((w = p->lost_first) != NULL)
	{
		p->lost_first = w->next;
		if (w->next == NULL)
			p->lost_last = NULL;
		n++;
		report(p, &(pgb_report){w->m.topic, w->m.partition, -1, &w->err, w->m.opaque});
		free(w);
	}
	return n;
}

/* ---- the handle ---- */

pgb_producer *
pgb_producer_new(const pgb_conf *conf, pgb_error *err)
{
	pgb_producer *p = calloc(1, sizeof(*p));

	if (p == NULL)
	{
		error_set(err, PGB_NO_MEMORY, true, "no memory");
		return NULL;
	}
	p->producer_id = BATCH_NO_PRODUCER_ID;
	if (client_init(&p->c, conf, err) != 0)
	{
		client_free(&p->c);
		free(p);
		return NULL;
	}
	/* A retry that is not acknowledged by all could be acknowledged by nobody who remembers it. */
	p->c.conf.idempotent = p->c.conf.idempotent && p->c.conf.acks == -1;
	p->c.step = producer_step;
	p->c.owner = p;
	return p;
}

static size_t
message_size(const pgb_message *m)
{
	size_t size =
		RECORD_MORE + (m->key.data == NULL ? 0 : m->key.len) + (m->value.data == NULL ? 0 : m->value.len);

	for (size_t i = 0; i < m->n_headers; i++)
		size += HEADER_MORE + m->headers[i].name.len +
				(m->headers[i].value.data == NULL ? 0 : m->headers[i].value.len);
	return size;
}

int
pgb_produce(pgb_producer *p, const pgb_message *m, pgb_error *err)
{
	size_t size = message_size(m);
	ToTopic *t;
	int rc;

	if (m->topic == NULL || m->topic[0] == '\0' || m->partition < PGB_ANY_PARTITION ||
		m->timestamp < PGB_NOW || (m->n_headers > 0 && m->headers == NULL))
		return error_set(err, PGB_INVALID, false,
						 "a message has a topic, a partition or -1, and a time or -1");
	if (m->key.len > INT32_MAX || m->value.len > INT32_MAX || size > (size_t) p->c.conf.request_size)
		return error_set(err, PGB_TOO_LARGE, false, "a message of %zu bytes is above max.request.size (%lld)",
						 size, (long long) p->c.conf.request_size);
	if (p->bytes + size > (size_t) p->c.conf.buffer_memory)
	{
		client_run(&p->c, 0);
		if (p->bytes + size > (size_t) p->c.conf.buffer_memory)
			return error_set(err, PGB_QUEUE_FULL, true,
							 "buffer.memory (%lld bytes) is used up by %lld messages; call pgb_producer_work "
							 "and try again",
							 (long long) p->c.conf.buffer_memory, (long long) p->pending);
	}
	t = find_topic(p, m->topic);
	if (t == NULL)
		return error_set(err, PGB_NO_MEMORY, true, "no memory");
	rc = t->meta->n == 0 || t->first != NULL ? wait_for_topic(p, t, m, size, err) : route(p, t, m, size, err);
	if (rc < 0)
		return -1;
	p->pending++;
	p->since_run += size;
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
	(void) producer_reports(p);
	while (p->pending > 0)
	{
		client_run(&p->c, until);
		(void) producer_reports(p);
		if (client_clock() >= until)
			break;
	}
	p->flushing = false;
	if (p->pending > 0)
		return error_set(err, PGB_TIMED_OUT, true, "%lld messages were not delivered in %d ms%s%s",
						 (long long) p->pending, timeout_ms, p->c.last_error.text[0] != '\0' ? "; " : "",
						 p->c.last_error.text);
	return 0;
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
	return p->done_first != NULL || p->lost_first != NULL ? 0 : client_timeout(&p->c);
}

/* Everything that is left gets its report. */
static void
give_up(pgb_producer *p, const pgb_error *why)
{
	for (ToTopic *t = p->topics; t != NULL; t = t->next_topic)
	{
		for (Waiting *w; (w = t->first) != NULL;)
		{
			t->first = w->next;
			report(p, &(pgb_report){w->m.topic, w->m.partition, -1, why, w->m.opaque});
			free(w);
		}
		for (int32_t i = 0; i < t->n; i++)
			for (Batch *b; (b = t->parts[i]->first) != NULL;)
			{
				t->parts[i]->first = b->next;
				producer_finish(p, b, -1, why);
			}
	}
	(void) producer_reports(p);
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
	/* The connections end first: what is in flight comes back to its partition. */
	p->c.step = NULL;
	p->closing = true;
	client_free_nodes(&p->c);
	give_up(p, &why);
	while (p->topics != NULL)
	{
		ToTopic *t = p->topics;

		p->topics = t->next_topic;
		for (int32_t i = 0; i < t->n; i++)
			free(t->parts[i]);
		free(t->parts);
		free(t);
	}
	p->n_spare = MOST_SPARE;
	while (p->spare != NULL)
	{
		Batch *b = p->spare;

		p->spare = b->next;
		batch_free(p, b);
	}
	free(p->active);
	client_free(&p->c);
	free(p);
	return left;
}
