/* consumer_read.c: records that point into what was fetched. */
#include "client/consumer.h"

#include <stdlib.h>

/* ---- chunks ---- */

static void
retire(pgb_consumer *c, FromPart *p)
{
	Chunk *chunk = p->chunks;

	DL_DELETE(p->chunks, chunk);
	p->n_chunks--;
	p->batch = NULL;
	LL_PREPEND(c->used, chunk);
	client_wake_at(&c->c, 0);
}

void
read_drop(pgb_consumer *c, FromPart *p)
{
	while (p->chunks != NULL)
		retire(c, p);
	p->n_aborting = 0;
}

void
read_free_used(pgb_consumer *c)
{
	while (c->used != NULL)
	{
		Chunk *chunk = c->used;

		LL_DELETE(c->used, chunk);
		frame_unref(chunk->frame);
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

int
read_fetched(pgb_consumer *c, FromPart *p, const FetchResponseResponsesPartitions *r, Frame *frame)
{
	int32_t n_aborted = r->n_aborted_transactions < 0 ? 0 : r->n_aborted_transactions;
	int64_t next = p->fetch_at;
	const uint8_t *end = whole_batches(r->records.p, r->records.p + r->records.len, &next);
	bool good = end > r->records.p && next > p->fetch_at;
	Chunk *chunk = good ? malloc(sizeof(*chunk) + sizeof(chunk->aborted[0]) * (size_t) n_aborted) : NULL;

	if (chunk == NULL)
	{
		error_set(consumer_failure(c), good ? PGB_NO_MEMORY : KERR_CORRUPT_MESSAGE, true,
				  "topic \"%s\", partition %d, offset %lld: %s", p->key.topic->name, p->key.index,
				  (long long) p->fetch_at, good ? "no memory" : "what the broker sent is no record batch");
		retry_later(&c->c, &p->retry);
		return 0;
	}
	*chunk = (Chunk){.frame = frame_ref(frame), .at = r->records.p, .end = end, .n_aborted = n_aborted};
	for (int32_t i = 0; i < n_aborted; i++)
	{
		chunk->aborted[i][0] = r->aborted_transactions[i].producer_id;
		chunk->aborted[i][1] = r->aborted_transactions[i].first_offset;
	}
	chunk->size = (size_t) r->records.len;
	DL_APPEND(p->chunks, chunk);
	p->n_chunks++;
	p->fetch_at = next;
	return 0;
}

/* ---- records ---- */

/* Its place among the producers whose records are skipped; n_aborting: it is none of them. */
static size_t
aborting_index(const FromPart *p, int64_t producer_id)
{
	size_t i = 0;

	while (i < p->n_aborting && p->aborting[i] != producer_id)
		i++;
	return i;
}

/* Transactions that were aborted begin and end on the way; true: the batch belongs to one. */
static bool
is_aborted(FromPart *p, Chunk *chunk)
{
	const uint8_t *b = chunk->at;
	TxnMarker m;
	size_t i;

	for (; chunk->next_aborted < chunk->n_aborted; chunk->next_aborted++)
	{
		int64_t *next = chunk->aborted[chunk->next_aborted];

		if (next[1] > batch_last_offset(b))
			break;
		if (aborting_index(p, next[0]) == p->n_aborting &&
			array_room(&p->aborting, p->n_aborting, sizeof(int64_t)))
			p->aborting[p->n_aborting++] = next[0];
	}
	if (batch_is_control(b) && batch_read_marker(b, &m) && !m.commit &&
		(i = aborting_index(p, m.producer_id)) < p->n_aborting)
		p->aborting[i] = p->aborting[--p->n_aborting];
	return batch_is_transactional(b) && aborting_index(p, batch_producer_id(b)) < p->n_aborting;
}

/* Whether the batch is passed over. */
static bool
is_hidden(const pgb_consumer *c, FromPart *p)
{
	const uint8_t *b = p->chunks->at;

	return (c->c.conf.read_committed && is_aborted(p, p->chunks)) || batch_is_control(b) ||
		   batch_next_offset(b) <= p->position;
}

/* False, for who wanted to read it. */
static bool
damaged(pgb_consumer *c, FromPart *p, const char *what)
{
	error_set(consumer_failure(c), KERR_CORRUPT_MESSAGE, true,
			  "topic \"%s\", partition %d: the batch at offset %lld %s; it is fetched again, pgb_seek to "
			  "%lld passes over it",
			  p->key.topic->name, p->key.index, (long long) batch_base_offset(p->chunks->at), what,
			  (long long) batch_next_offset(p->chunks->at));
	read_drop(c, p);
	p->fetch_at = p->position;
	retry_later(&c->c, &p->retry);
	return false;
}

/* Begin to read the batch at chunk->at. */
static bool
open_batch(pgb_consumer *c, FromPart *p, const uint8_t *b)
{
	CompressResult r;

	if (c->c.conf.check_crcs && !batch_crc_matches(b))
		return damaged(c, p, "fails its checksum");
	if (batch_codec(b) != COMPRESS_NONE)
		c->scratch_for = b;
	r = batch_records(b, (size_t) c->c.conf.receive_max, &c->scratch, &p->it);
	if (r == COMPRESS_TOO_LARGE)
		return damaged(c, p, "is larger than receive.message.max.bytes");
	if (r != COMPRESS_OK)
		return damaged(c, p, "cannot be decompressed");
	p->batch = b;
	return true;
}

static pgb_bytes
to_user(const uint8_t *p, int32_t len)
{
	return (pgb_bytes){p, len < 0 ? 0 : (size_t) len};
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
		out[n++] = (pgb_record){.topic = p->key.topic->name,
								.partition = p->key.index,
								.n_headers = rec.n_headers,
								.offset = rec.offset,
								.timestamp = rec.timestamp,
								.key = to_user(rec.key.p, rec.key.len),
								.value = to_user(rec.value.p, rec.value.len),
								.headers = rec.headers,
								.end = rec.end};
		p->position = rec.offset + 1;
	}
	return n;
}

static int
take_from(pgb_consumer *c, FromPart *p, pgb_record *out, int max)
{
	int n = 0;

	while (n < max && p->chunks != NULL)
	{
		Chunk *chunk = p->chunks;
		const uint8_t *b = chunk->at;
		bool packed = batch_codec(b) != COMPRESS_NONE;

		/* The scratch went to another partition in between: open it again. */
		if (p->batch == b && packed && c->scratch_for != b)
			p->batch = NULL;
		if (p->batch != b && !is_hidden(c, p))
			/* Records that were given point into the scratch. */
			if ((n > 0 && packed) || !open_batch(c, p, b))
				break;
		if (p->batch == b)
		{
			n += take_batch(p, out + n, max - n);
			if (p->it.malformed)
			{
				(void) damaged(c, p, "has a malformed record");
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
read_waiting(const pgb_consumer *c)
{
	const FromPart *p = c->parts;

	while (p != NULL && (p->chunks == NULL || p->paused))
		p = p->hh.next;
	return p != NULL;
}

int
read_take(pgb_consumer *c, pgb_record *records, int max)
{
	FromPart *start = c->reading != NULL ? c->reading : c->parts, *p = start;
	int n = 0;

	if (p == NULL || max <= 0)
		return 0;
	do
	{
		/* One partition at a time, so that a chunk is done with before the next one is begun. */
		if (p->chunks != NULL && !p->paused)
			n = take_from(c, p, records, max);
		c->reading = p->chunks != NULL ? p : p->hh.next != NULL ? p->hh.next : c->parts;
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
	header->name = to_user((const uint8_t *) h.key.s, h.key.len);
	header->value = to_user(h.value.p, h.value.len);
	return true;
}
