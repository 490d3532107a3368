/*
 * producer_split.c: a batch that a topic finds too large becomes two.  Its messages may each be small enough; one that is
 * not fails alone in the end.
 */
#include "client/producer.h"

#include <stdlib.h>

static bool
copy_record(BatchBuilder *bb, const Record *rec)
{
	RecordHeader few[16], *h = rec->n_headers <= 16 ? few : malloc(sizeof(*h) * (size_t) rec->n_headers);
	const uint8_t *at = rec->headers;

	if (h == NULL)
		return false;
	for (int32_t i = 0; i < rec->n_headers; i++)
		(void) record_header_next(rec, &at, &h[i]);
	batch_add(bb, rec->timestamp, rec->key, rec->value, h, rec->n_headers);
	if (h != few)
		free(h);
	return true;
}

static Batch *
half(const pgb_producer *p, const Batch *of, int32_t n)
{
	Batch *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	if (of->opaques != NULL && (b->opaques = malloc(sizeof(void *) * (size_t) n)) == NULL)
	{
		free(b);
		return NULL;
	}
	b->cap_opaques = of->opaques == NULL ? 0 : n;
	b->part = of->part;
	b->sequence = NO_SEQUENCE;
	b->created = of->created;
	b->deadline = of->deadline;
	b->attempts = of->attempts;
	b->full = true;
	batch_begin(&b->bb, &b->out, p->c.conf.codec);
	b->bb.level = (int) p->c.conf.level;
	return b;
}

static void
drop(Batch *b)
{
	if (b == NULL)
		return;
	wire_writer_free(&b->out);
	free(b->opaques);
	free(b);
}

bool
producer_split(pgb_producer *p, Batch *b)
{
	Batch *two[2] = {half(p, b, b->n / 2), half(p, b, b->n - b->n / 2)};
	WireWriter scratch;
	RecordIter it;
	Record rec;
	bool good = b->n > 1 && two[0] != NULL && two[1] != NULL;
	int32_t i = 0;

	wire_writer_init(&scratch);
	good = good && batch_records(b->out.buf, (size_t) p->c.conf.receive_max, &scratch, &it) == COMPRESS_OK;
	for (; good && record_next(&it, &rec); i++)
	{
		Batch *to = two[i >= b->n / 2];

		good = copy_record(&to->bb, &rec);
		if (b->opaques != NULL)
			to->opaques[to->n] = b->opaques[i];
		to->n++;
	}
	good = good && i == b->n && !two[0]->out.failed && !two[1]->out.failed;
	wire_writer_free(&scratch);
	if (!good)
	{
		drop(two[0]);
		drop(two[1]);
		return false;
	}
	/* In its place; what is counted of it stays counted. */
	two[0]->bytes = b->bytes;
	two[0]->next = two[1];
	two[1]->next = b->next;
	if (b->part->last == b)
		b->part->last = two[1];
	for (Batch **at = &b->part->first;; at = &(*at)->next)
		if (*at == b)
		{
			*at = two[0];
			break;
		}
	drop(b);
	return true;
}
