/* consumer_read.c: records that point into what was fetched. */
#include "client/consumer.h"

#include <stdlib.h>

/* ---- chunks ---- */

static void
retire(pgb_consumer *c, FromPart *p)
{
	Chunk *chunk = p->chunks;

	DL_DELETE(p->chunks, chunk);
	p->batch = NULL;
	LL_PREPEND(c->used, chunk);
	client_wake_at(&c->c, 0);
}

void
read_drop(pgb_consumer *c, FromPart *p)
{
	while (p->chunks != NULL)
		retire(c, p);
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

int
read_fetched(pgb_consumer *c, FromPart *p, const FetchResponseResponsesPartitions *r)
{
	int32_t n_aborted = r->n_aborted_transactions < 0 ? 0 : r->n_aborted_transactions;
	const uint8_t *end = r->records.p, *stop = end + r->records.len;
	int64_t next = p->fetch_at;
	Chunk *chunk = NULL;
	bool good;

	/* The last batch may be cut off. */
	for (; batch_check(end, (size_t) (stop - end), false) == BATCH_OK && batch_next_offset(end) > 0;
		 end += batch_size(end))
		next = batch_next_offset(end);
	good = end > r->records.p && next > p->fetch_at;
	if (!good || (chunk = malloc(sizeof(*chunk) + sizeof(Aborted) * (size_t) n_aborted)) == NULL)
	{
		error_set(consumer_failure(c), good ? PGB_NO_MEMORY : KERR_CORRUPT_MESSAGE, true,
				  "topic \"%s\", partition %d, offset %lld: %s", p->ask.topic->name, p->ask.index,
				  (long long) p->fetch_at, good ? "no memory" : "what the broker sent is no record batch");
		retry_later(&c->c, &p->retry);
		return 0;
	}
	frame_ref(c->c.frame);
	*chunk = (Chunk){.frame = c->c.frame, .at = r->records.p, .end = end, .n_aborted = n_aborted};
	if (n_aborted > 0)
		memcpy(chunk->aborted, r->aborted_transactions, sizeof(Aborted) * (size_t) n_aborted);
	chunk->size = (size_t) r->records.len;
	DL_APPEND(p->chunks, chunk);
	p->fetch_at = next;
	return 0;
}

/* ---- records ---- */

/* Transactions that were aborted end on the way, by their markers; true: the batch belongs to one. */
static bool
is_aborted(Chunk *chunk, const uint8_t *b)
{
	Aborted *a = chunk->aborted;
	TxnMarker m;

	while (a < chunk->aborted + chunk->n_aborted &&
		   (a->producer_id != batch_producer_id(b) || a->first_offset > batch_last_offset(b)))
		a++;
	if (a == chunk->aborted + chunk->n_aborted)
		return false;
	if (batch_is_control(b) && batch_read_marker(b, &m) && !m.commit)
		*a = chunk->aborted[--chunk->n_aborted];
	return batch_is_transactional(b);
}

/* False, for who wanted to read it. */
static bool
damaged(pgb_consumer *c, FromPart *p, const char *what)
{
	error_set(consumer_failure(c), KERR_CORRUPT_MESSAGE, true,
			  "topic \"%s\", partition %d: the batch at offset %lld %s; it is fetched again, pgb_seek to "
			  "%lld passes over it",
			  p->ask.topic->name, p->ask.index, (long long) batch_base_offset(p->chunks->at), what,
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
		out[n++] = (pgb_record){.topic = p->ask.topic->name,
								.partition = p->ask.index,
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
		if (p->batch != b && !(c->c.conf.read_committed && is_aborted(chunk, b)) && !batch_is_control(b) &&
			batch_next_offset(b) > p->position)
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
	FromPart *p = c->reading != NULL ? c->reading : c->parts, *next;
	int n = 0;

	/* One partition at a time, so that a chunk is done with before the next one is begun; then who has waited longest. */
	for (; p != NULL && n == 0 && c->failure.code == 0; p = next)
	{
		if (p->chunks != NULL && !p->paused)
			n = take_from(c, p, records, max);
		next = p == c->reading ? c->parts : p->hh.next;
		c->reading = p->chunks != NULL && !p->paused ? p : NULL;
	}
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
