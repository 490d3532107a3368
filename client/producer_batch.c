/* producer_batch.c: which partition a message is for, and the batch that it goes into. */
#include "client/producer.h"

#include <stdlib.h>

#include "client/partitioner.h"

#define MOST_SPARE 6

/* ---- batches ---- */

static Batch *
batch_new(pgb_producer *p, ToPart *part, int32_t partition, int64_t deadline)
{
	Batch kept = {0}, *b = p->spare;

	if (b != NULL)
	{
		LL_DELETE(p->spare, b);
		p->n_spare--;
		kept = *b;
		wire_writer_reset(&kept.out);
	}
	else if ((b = malloc(sizeof(*b))) == NULL)
		return NULL;
	*b = (Batch){.ask = {.topic = &part->topic->meta, .index = partition},
				 .part = part,
				 .out = kept.out,
				 .opaques = kept.opaques};
	b->created = client_clock();
	b->deadline = deadline != 0 ? deadline : b->created + p->c.conf.delivery_timeout;
	batch_begin(&b->bb, &b->out, part->index < 0 ? COMPRESS_NONE : p->c.conf.codec);
	b->bb.level = (int) p->c.conf.level;
	DL_APPEND(part->batches, b);
	if (part->prev == NULL)
		DL_APPEND(p->active, part);
	client_wake_at(&p->c, b->created + p->c.conf.linger);
	return b;
}

void
producer_free_batch(pgb_producer *p, Batch *b)
{
	p->bytes -= b->bytes;
	if (p->n_spare < MOST_SPARE && !b->out.failed && !p->closing)
	{
		LL_PREPEND(p->spare, b);
		p->n_spare++;
		return;
	}
	wire_writer_free(&b->out);
	free(b->opaques);
	free(b);
}

/* Into the open batch, or a new one.  1: it is full now. */
static int
append(pgb_producer *p, ToPart *part, int32_t partition, const Message *m, pgb_error *err)
{
	Batch *b = part->batches == NULL ? NULL : part->batches->prev;
	size_t before, limit = (size_t) p->c.conf.batch_size;

	if (b != NULL && !b->ended &&
		(b->ask.index != partition || batch_building_size(&b->bb) + m->size > limit))
		b->full = true;
	if (b == NULL || b->full || b->ended)
		b = batch_new(p, part, partition, m->deadline);
	if (b == NULL ||
		(p->c.conf.on_delivery != NULL && !array_room(&b->opaques, (size_t) b->n, sizeof(void *))))
		return error_memory(err);
	before = b->out.len;
	batch_add(&b->bb, m->timestamp, m->key, m->value, m->headers, m->n_headers);
	if (b->out.failed)
	{
		/* What is in the batch already is whole. */
		b->out.failed = false;
		b->out.len = before;
		b->bb.count = b->n;
		return error_memory(err);
	}
	if (p->c.conf.on_delivery != NULL)
		b->opaques[b->n] = m->opaque;
	b->n++;
	b->bytes += b->out.len - before + sizeof(void *);
	p->bytes += b->out.len - before + sizeof(void *);
	b->full = batch_building_size(&b->bb) >= limit;
	return b->full ? 1 : 0;
}

/* ---- routing ---- */

ToTopic *
producer_topic(pgb_producer *p, const char *name)
{
	ToTopic *t = p->recent;

	if (t != NULL && strcmp(t->meta.name, name) == 0)
		return t;
	t = p->recent = (ToTopic *) metadata_topic(&p->c, wstr(name));
	if (t != NULL && t->waiting.topic == NULL)
	{
		t->waiting = (ToPart){.topic = t, .index = -1};
		t->sticky = -1;
		t->next = (uint32_t) client_random(&p->c);
	}
	return t;
}

/* The next partition that has a leader, or just the next when none has. */
static int32_t
next_partition(ToTopic *t)
{
	uint32_t n = t->meta.n > 0 ? (uint32_t) t->meta.n : 1;

	for (uint32_t i = 0; i < n; i++)
		if (t->meta.parts[t->next++ % n].leader >= 0)
			return (int32_t) ((t->next - 1) % n);
	return (int32_t) (t->next++ % n);
}

static int32_t
choose(pgb_producer *p, ToTopic *t, const Message *m)
{
	Batch *open;

	if (m->key.len >= 0)
		return p->c.conf.partitioner == PARTITIONER_MURMUR2
				   ? partition_murmur2(m->key.p, (size_t) m->key.len, t->meta.n)
				   : partition_crc32(m->key.p, (size_t) m->key.len, t->meta.n);
	if (p->c.conf.unkeyed == UNKEYED_ROUND_ROBIN)
		return next_partition(t);
	open = t->sticky >= 0 && t->sticky < t->meta.n ? t->parts[t->sticky]->batches : NULL;
	if (open == NULL || open->prev->full || open->prev->ended)
		t->sticky = next_partition(t);
	return t->sticky;
}

static int
place(pgb_producer *p, ToTopic *t, int32_t partition, const Message *m, pgb_error *err)
{
	for (; t->n < t->meta.n; t->n++)
	{
		if (!array_room(&t->parts, (size_t) t->n, sizeof(*t->parts)) ||
			(t->parts[t->n] = calloc(1, sizeof(**t->parts))) == NULL)
			return error_memory(err);
		t->parts[t->n]->topic = t;
		t->parts[t->n]->index = t->n;
	}
	if (partition == PGB_ANY_PARTITION)
		partition = choose(p, t, m);
	if (partition >= t->meta.n)
		return error_set(err, PGB_NO_PARTITION, false, "topic \"%s\" has partitions 0 to %d, not %d",
						 t->meta.name, t->meta.n - 1, partition);
	return append(p, t->parts[partition], partition, m, err);
}

int
producer_put(pgb_producer *p, ToTopic *t, int32_t partition, const Message *m, pgb_error *err)
{
	if (t->meta.n > 0 && t->waiting.batches == NULL)
		return place(p, t, partition, m, err);
	client_wake_at(&p->c, p->c.now);
	return append(p, &t->waiting, partition, m, err);
}

/* ---- messages that move to other batches ---- */

/* In order, into the two of `halves`, or without them to where each belongs.  b->moved counts them. */
static int
move_messages(pgb_producer *p, Batch *b, ToPart *halves, pgb_error *err)
{
	int rc = b->ended || batch_end(&b->bb) == 0 ? 0 : -1;
	WireWriter scratch;
	RecordIter it;
	Record rec;

	wire_writer_init(&scratch);
	if (rc != 0 || batch_records(b->out.buf, (size_t) p->c.conf.receive_max, &scratch, &it) != COMPRESS_OK)
		rc = error_memory(err);
	while (rc >= 0 && record_next(&it, &rec))
	{
		const uint8_t *at = rec.headers;
		Message m = {rec.timestamp, rec.key, rec.value, NULL, rec.n_headers, NULL, 0, b->deadline};

		m.size = RECORD_MORE + (size_t) (rec.key.len + rec.value.len + (rec.end - rec.headers));
		m.opaque = b->opaques == NULL ? NULL : b->opaques[b->moved];
		if (rec.n_headers > 0)
			m.headers = arena_alloc(&p->c.arena, sizeof(RecordHeader) * (size_t) rec.n_headers);
		for (int32_t i = 0; m.headers != NULL && i < rec.n_headers; i++)
			(void) record_header_next(&rec, &at, &m.headers[i]);
		if (m.headers == NULL && rec.n_headers > 0)
			rc = error_memory(err);
		else if (halves == NULL)
			rc = place(p, b->part->topic, b->ask.index, &m, err);
		else
		{
			if (b->moved == b->n / 2 && halves->batches != NULL)
				halves->batches->prev->full = true;
			rc = append(p, halves, b->ask.index, &m, err);
		}
		b->moved += rc >= 0;
	}
	wire_writer_free(&scratch);
	return rc;
}

/* A topic that is known by now has its messages placed. */
void
producer_place(pgb_producer *p, ToTopic *t)
{
	pgb_error why;
	Batch *b;

	while (t->meta.n > 0 && (b = t->waiting.batches) != NULL)
		if (move_messages(p, b, NULL, &why) < 0)
			producer_finish(p, b, -1, &why);
		else
		{
			DL_DELETE(t->waiting.batches, b);
			producer_free_batch(p, b);
		}
}

/*
 * A batch that a topic finds too large becomes two.  Its messages may each be small enough; one that is not fails alone in
 * the end.
 */
bool
producer_split(pgb_producer *p, Batch *b)
{
	ToPart *part = b->part, halves = {.topic = part->topic, .index = part->index, .prev = part};
	bool good = b->n > 1 && move_messages(p, b, &halves, NULL) >= 0;
	Batch *half, *next;

	DL_FOREACH_SAFE (halves.batches, half, next)
	{
		DL_DELETE(halves.batches, half);
		half->part = part;
		half->full = true;
		if (good)
			DL_PREPEND_ELEM(part->batches, b, half);
		else
			producer_free_batch(p, half);
	}
	b->moved = 0;
	if (good)
	{
		DL_DELETE(part->batches, b);
		producer_free_batch(p, b);
	}
	return good;
}
