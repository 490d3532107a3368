/*
 * consumer_fetch.c: fetches ahead, and gives records that point into what came.
 *
 * One Fetch a broker is on its way, for all partitions of it that want more.  While one of them has CHUNKS_AHEAD
 * answers unread nothing is asked of its broker: a long poll for the others would keep this one waiting once the
 * application has caught up.  All of them together hold about three times fetch.max.bytes at most.
 */
#include "client/consumer.h"

#include <stdlib.h>

typedef struct FetchOf
{
	FromKey key;
	uint32_t serial;
} FetchOf;

typedef struct Fetching
{
	pgb_consumer *c;
	int32_t n;
	FetchOf of[];
} Fetching;

/* ---- chunks ---- */

static void
retire(pgb_consumer *c, FromPart *p)
{
	Chunk *chunk = p->first;

	p->first = chunk->next;
	if (p->first == NULL)
		p->last = NULL;
	p->n_chunks--;
	p->batch = NULL;
	chunk->next = c->used;
	c->used = chunk;
	c->unread -= chunk->size;
	client_wake_at(&c->c, 0);
}

void
fetch_drop(pgb_consumer *c, FromPart *p)
{
	while (p->first != NULL)
		retire(c, p);
	p->n_aborting = 0;
}

void
fetch_free_used(pgb_consumer *c)
{
	while (c->used != NULL)
	{
		Chunk *chunk = c->used;

		c->used = chunk->next;
		frame_unref(chunk->frame);
		free(chunk->aborted);
		free(chunk);
	}
}

/* The end of the whole batches, and the offset behind them. */
static const uint8_t *
whole_batches(const uint8_t *at, const uint8_t *end, int64_t *next_offset)
{
	while (batch_check(at, (size_t) (end - at), false) == BATCH_OK && batch_next_offset(at) > 0)
	{
		*next_offset = batch_next_offset(at);
		at += batch_size(at);
	}
	return at;
}

static bool
add_chunk(pgb_consumer *c, FromPart *p, const FetchResponseResponsesPartitions *r, Frame *frame)
{
	const uint8_t *end;
	int64_t next = p->fetch_at;
	Chunk *chunk;

	end = whole_batches(r->records.p, r->records.p + r->records.len, &next);
	if (end == r->records.p || next <= p->fetch_at)
		return false;
	chunk = calloc(1, sizeof(*chunk));
	if (chunk == NULL)
		return false;
	if (r->n_aborted_transactions > 0)
		chunk->aborted = malloc(sizeof(*chunk->aborted) * (size_t) r->n_aborted_transactions);
	for (int32_t i = 0; chunk->aborted != NULL && i < r->n_aborted_transactions; i++, chunk->n_aborted++)
	{
		chunk->aborted[i][0] = r->aborted_transactions[i].producer_id;
		chunk->aborted[i][1] = r->aborted_transactions[i].first_offset;
	}
	chunk->frame = frame_ref(frame);
	chunk->at = r->records.p;
	chunk->end = end;
	if (p->last != NULL)
		p->last->next = chunk;
	else
		p->first = chunk;
	p->last = chunk;
	p->n_chunks++;
	chunk->size = (size_t) r->records.len;
	c->unread += chunk->size;
	p->fetch_at = next;
	return true;
}

/* ---- what comes back ---- */

static void
later(pgb_consumer *c, FromPart *p)
{
	p->retry_at = c->c.now + client_backoff(&c->c, ++p->failures);
	client_wake_at(&c->c, p->retry_at);
}

static void
partition_answered(pgb_consumer *c, FromPart *p, const FetchResponseResponsesPartitions *r, Frame *frame)
{
	pgb_error err;

	if (r->error_code == 0)
	{
		p->failures = 0;
		p->end = c->c.conf.read_committed ? r->last_stable_offset : r->high_watermark;
		if (r->records.len > 0 && !add_chunk(c, p, r, frame))
		{
			error_set(&err, KERR_CORRUPT_MESSAGE, true,
					  "topic \"%s\", partition %d, offset %lld: what the broker sent is no record batch",
					  p->key.topic->name, (int) p->key.index, (long long) p->fetch_at);
			consumer_fail(c, &err);
			later(c, p);
		}
		return;
	}
	if (r->error_code == KERR_OFFSET_OUT_OF_RANGE)
	{
		/* What was fetched before is given first. */
		if (p->first == NULL)
			offsets_reset(c, p, "the offset is out of range");
		else
			later(c, p);
		return;
	}
	error_kafka(&err, r->error_code, "topic \"%s\", partition %d", p->key.topic->name, (int) p->key.index);
	if (!err.retriable)
		consumer_fail(c, &err);
	metadata_want(&c->c);
	later(c, p);
}

static void
fetch_done(Client *client, Call *call, const pgb_error *err, void *response)
{
	Fetching *f = call->arg;
	FetchResponse *resp = response;
	pgb_consumer *c = f->c;

	for (int32_t i = 0; i < f->n; i++)
	{
		FromPart *p = consumer_find(c, f->of[i].key.topic, (int32_t) f->of[i].key.index);

		if (p == NULL || p->serial != f->of[i].serial)
			continue;
		p->asked = false;
		if (err != NULL)
			later(c, p);
	}
	if (err != NULL)
		metadata_want(client);
	for (int32_t i = 0; err == NULL && i < resp->n_responses; i++)
	{
		Topic *t = NULL;

		if (resp->responses[i].topic.len > 0)
			HASH_FIND(hh, client->topics, resp->responses[i].topic.s, (size_t) resp->responses[i].topic.len,
					  t);
		for (int32_t j = 0; t != NULL && j < resp->responses[i].n_partitions; j++)
		{
			const FetchResponseResponsesPartitions *r = &resp->responses[i].partitions[j];
			FromPart *p = consumer_find(c, t, r->partition_index);

			for (int32_t k = 0; p != NULL && k < f->n; k++)
				if (f->of[(k + c->guess) % f->n].key.topic == t &&
					f->of[(k + c->guess) % f->n].key.index == r->partition_index)
				{
					uint32_t serial = f->of[(k + c->guess) % f->n].serial;

					c->guess = (k + c->guess + 1) % f->n;
					if (p->serial == serial)
						partition_answered(c, p, r, call->frame);
					break;
				}
		}
	}
	client_wake_at(client, client->now);
	free(f);
}

/* ---- asking ---- */

static bool
wants(const pgb_consumer *c, const FromPart *p)
{
	return p->state == FETCHING && !p->paused && !p->asked && c->c.now >= p->retry_at;
}

static void
put_partition(FetchRequest *req, Client *client, FromPart *p)
{
	FetchRequestTopics *t = req->n_topics == 0 ? NULL : &req->topics[req->n_topics - 1];

	if (t == NULL || t->topic.s != p->key.topic->name)
	{
		t = &req->topics[req->n_topics++];
		t->topic = wstr(p->key.topic->name);
		t->partitions = WIRE_NEW(FetchRequestTopicsPartitions, &client->arena, p->key.topic->n);
	}
	if (t->partitions == NULL)
		return;
	FetchRequestTopicsPartitions *f = &t->partitions[t->n_partitions++];

	f->partition = (int32_t) p->key.index;
	f->current_leader_epoch = p->key.topic->parts[p->key.index].epoch;
	f->fetch_offset = p->fetch_at;
	f->partition_max_bytes = (int32_t) client->conf.partition_fetch_max;
}

static void
fetch_node(pgb_consumer *c, Node *node, Conn *conn)
{
	int32_t most = (int32_t) HASH_COUNT(c->parts), seen = 0;
	Fetching *f = malloc(sizeof(*f) + sizeof(FetchOf) * (size_t) most);
	FetchRequest req;
	FromPart *p, *next;
	pgb_error err;

	WIRE_INIT(FetchRequest, &req);
	req.topics = WIRE_NEW(FetchRequestTopics, &c->c.arena, most);
	if (f == NULL || req.topics == NULL)
	{
		free(f);
		return;
	}
	*f = (Fetching){.c = c};
	req.replica_id = -1;
	req.max_wait_ms = (int32_t) c->c.conf.fetch_wait;
	req.min_bytes = (int32_t) c->c.conf.fetch_min;
	req.max_bytes = (int32_t) c->c.conf.fetch_max;
	req.isolation_level = (int8_t) c->c.conf.read_committed;
	/* Brokers fill an answer in the order of the question: each time another partition comes first. */
	c->turn++;
	for (int pass = 0; pass < 2; pass++)
	{
		seen = 0;
		HASH_ITER (hh, c->parts, p, next)
		{
			bool early = most > 0 && (uint64_t) seen++ < c->turn % (uint64_t) most;

			if (early == (pass == 0) || !wants(c, p) ||
				metadata_leader(&c->c, p->key.topic, (int32_t) p->key.index) != node)
				continue;
			put_partition(&req, &c->c, p);
			f->of[f->n++] = (FetchOf){p->key, p->serial};
			p->asked = true;
		}
	}
	if (f->n == 0 || client_send(&c->c, conn, API_FETCH, 12, &req, fetch_done, f,
								 c->c.conf.request_timeout + c->c.conf.fetch_wait, &err) != 0)
	{
		for (int32_t i = 0; i < f->n; i++)
			if ((p = consumer_find(c, f->of[i].key.topic, (int32_t) f->of[i].key.index)) != NULL)
			{
				p->asked = false;
				later(c, p);
				consumer_fail(c, &err);
			}
		free(f);
	}
	arena_reset(&c->c.arena);
}

void
fetch_step(pgb_consumer *c)
{
	Client *client = &c->c;
	FromPart *p, *next;

	for (Node *n = client->nodes; n != NULL; n = n->next)
		n->wanted = n->full = false;
	HASH_ITER (hh, c->parts, p, next)
	{
		Node *node = p->state != FETCHING || p->paused
						 ? NULL
						 : metadata_leader(client, p->key.topic, (int32_t) p->key.index);

		if (node == NULL)
			continue;
		if (client->now < p->retry_at)
			client_wake_at(client, p->retry_at);
		node->wanted = node->wanted || wants(c, p);
		node->full = node->full || p->n_chunks >= CHUNKS_AHEAD;
	}
	for (Node *n = client->nodes; n != NULL; n = n->next)
	{
		Conn *conn = n->wanted ? client_ready(client, n, USE_DATA) : NULL;

		if (conn != NULL && conn->n_calls == 0 && !n->full && c->unread < 2 * (size_t) client->conf.fetch_max)
			fetch_node(c, n, conn);
		/* A leader that cannot be reached may be one no more. */
		else if (n->wanted && n->conns[USE_DATA].state == CONN_DOWN)
			metadata_want(client);
	}
}

/* ---- records ---- */

static bool
is_aborting(const FromPart *p, int64_t producer_id)
{
	for (int32_t i = 0; i < p->n_aborting; i++)
		if (p->aborting[i] == producer_id)
			return true;
	return false;
}

static bool
begin_aborting(FromPart *p, int64_t producer_id)
{
	if (p->n_aborting == p->cap_aborting)
	{
		int32_t cap = p->cap_aborting == 0 ? 8 : p->cap_aborting * 2;
		int64_t *more = realloc(p->aborting, sizeof(*more) * (size_t) cap);

		if (more == NULL)
			return false;
		p->aborting = more;
		p->cap_aborting = cap;
	}
	p->aborting[p->n_aborting++] = producer_id;
	return true;
}

/* Whether the batch is passed over; transactions that were aborted begin and end on the way. */
static bool
is_hidden(const pgb_consumer *c, FromPart *p, Chunk *chunk)
{
	const uint8_t *b = chunk->at;
	TxnMarker m;

	if (c->c.conf.read_committed)
	{
		for (; chunk->next_aborted < chunk->n_aborted &&
			   chunk->aborted[chunk->next_aborted][1] <= batch_last_offset(b);
			 chunk->next_aborted++)
			if (!is_aborting(p, chunk->aborted[chunk->next_aborted][0]))
				(void) begin_aborting(p, chunk->aborted[chunk->next_aborted][0]);
		if (batch_is_control(b) && batch_read_marker(b, &m) && !m.commit)
			for (int32_t i = 0; i < p->n_aborting; i++)
				if (p->aborting[i] == m.producer_id)
				{
					p->aborting[i] = p->aborting[--p->n_aborting];
					break;
				}
		if (batch_is_transactional(b) && is_aborting(p, batch_producer_id(b)))
			return true;
	}
	return batch_is_control(b) || batch_next_offset(b) <= p->position;
}

static void
damaged(pgb_consumer *c, FromPart *p, const char *what)
{
	pgb_error err;

	error_set(&err, KERR_CORRUPT_MESSAGE, true,
			  "topic \"%s\", partition %d: the batch at offset %lld %s; it is fetched again, pgb_seek to "
			  "%lld passes over it",
			  p->key.topic->name, (int) p->key.index, (long long) batch_base_offset(p->first->at), what,
			  (long long) batch_next_offset(p->first->at));
	consumer_fail(c, &err);
	fetch_drop(c, p);
	p->fetch_at = p->position;
	p->serial = ++c->serial;
	p->asked = false;
	later(c, p);
}

/* Begin to read the batch at chunk->at. */
static bool
open_batch(pgb_consumer *c, FromPart *p, const uint8_t *b)
{
	CompressResult r;

	if (c->c.conf.check_crcs && !batch_crc_matches(b))
	{
		damaged(c, p, "fails its checksum");
		return false;
	}
	if (batch_codec(b) != COMPRESS_NONE)
		c->scratch_for = b;
	r = batch_records(b, (size_t) c->c.conf.receive_max, &c->scratch, &p->it);
	if (r != COMPRESS_OK)
	{
		damaged(c, p,
				r == COMPRESS_TOO_LARGE ? "is larger than receive.message.max.bytes"
										: "cannot be decompressed");
		return false;
	}
	p->batch = b;
	return true;
}

/* Up to `max` records of the batch that is open; sets position. */
static int
take_batch(FromPart *p, pgb_record *out, int max)
{
	Record rec;
	int n = 0;

	while (n < max && record_next(&p->it, &rec))
	{
		if (rec.offset < p->position)
			continue;
		out[n++] = (pgb_record){p->key.topic->name,
								(int32_t) p->key.index,
								rec.n_headers,
								rec.offset,
								rec.timestamp,
								{rec.key.p, rec.key.len < 0 ? 0 : (size_t) rec.key.len},
								{rec.value.p, rec.value.len < 0 ? 0 : (size_t) rec.value.len},
								rec.headers,
								rec.end};
		p->position = rec.offset + 1;
	}
	return n;
}

static int
take_from(pgb_consumer *c, FromPart *p, pgb_record *out, int max)
{
	int n = 0;

	while (n < max && p->first != NULL)
	{
		Chunk *chunk = p->first;
		const uint8_t *b = chunk->at;
		bool packed = batch_codec(b) != COMPRESS_NONE;

		/* The scratch went to another partition in between: open it again. */
		if (p->batch == b && packed && c->scratch_for != b)
			p->batch = NULL;
		if (p->batch != b && !is_hidden(c, p, chunk))
		{
			/* Records that were given point into the scratch. */
			if (n > 0 && packed)
				break;
			if (!open_batch(c, p, b))
				break;
		}
		if (p->batch == b)
		{
			n += take_batch(p, out + n, max - n);
			if (p->it.malformed)
			{
				damaged(c, p, "has a malformed record");
				break;
			}
			if (n == max && p->it.left > 0)
				break;
		}
		if (batch_next_offset(b) > p->position)
			p->position = batch_next_offset(b);
		p->batch = NULL;
		chunk->at += batch_size(b);
		if (chunk->at == chunk->end)
			retire(c, p);
		if (n > 0 && packed)
			break;
	}
	return n;
}

bool
fetch_waiting(const pgb_consumer *c)
{
	FromPart *p, *next;

	HASH_ITER (hh, c->parts, p, next)
	{
		if (p->first != NULL && !p->paused)
			return true;
	}
	return false;
}

int
fetch_take(pgb_consumer *c, pgb_record *records, int max)
{
	FromPart *start = c->reading != NULL ? c->reading : c->parts, *p = start;
	int n = 0;

	if (p == NULL || max <= 0)
		return 0;
	do
	{
		/* One partition at a time, so that a chunk is done with before the next one is begun. */
		if (p->first != NULL && !p->paused)
			n = take_from(c, p, records, max);
		c->reading = p->first != NULL ? p : p->hh.next != NULL ? p->hh.next : c->parts;
		p = p->hh.next != NULL ? p->hh.next : c->parts;
	} while (n == 0 && p != start && c->failure.code == 0);
	return n;
}

bool
pgb_header_next(const pgb_record *record, const void **at, pgb_header *header)
{
	Record rec = {.headers = record->headers, .end = record->end, .n_headers = record->n_headers};
	const uint8_t *p = *at == NULL ? record->headers : *at;
	RecordHeader h;

	if (record->n_headers == 0 || !record_header_next(&rec, &p, &h))
		return false;
	*at = p;
	header->name = (pgb_bytes){h.key.s, (size_t) h.key.len};
	header->value = (pgb_bytes){h.value.p, h.value.len < 0 ? 0 : (size_t) h.value.len};
	return true;
}
