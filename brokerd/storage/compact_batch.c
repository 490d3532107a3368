#include "brokerd/storage/compact_batch.h"

#include <stdlib.h>
#include <string.h>

#include "wire/record.h"

/* A batch of max.message.bytes may decompress to much more; one that becomes more than this cannot be looked into. */
#define DECOMPRESS_MAX ((size_t) 256 * 1024 * 1024)

void
compact_filter_init(CompactFilter *f)
{
	memset(f, 0, sizeof(*f));
	wire_writer_init(&f->scratch);
	wire_writer_init(&f->packed);
	f->horizon_ms = INT64_MAX;
}

void
compact_filter_free(CompactFilter *f)
{
	wire_writer_free(&f->scratch);
	wire_writer_free(&f->packed);
	free(f->stays);
}

static CompactOutcome
open_records(CompactFilter *f, const uint8_t *batch, RecordIter *it)
{
	switch (batch_records(batch, DECOMPRESS_MAX, &f->scratch, it))
	{
		case COMPRESS_OK:
			return COMPACT_KEPT;
		case COMPRESS_NO_MEMORY:
			return COMPACT_NO_MEMORY;
		default:
			return COMPACT_BAD;
	}
}

/* Within the batch and behind the one before it (`*next` is the least that it may be). */
static bool
offset_fits(const uint8_t *batch, const Record *r, int64_t *next)
{
	if (r->offset < *next || r->offset > batch_last_offset(batch))
		return false;
	*next = r->offset + 1;
	return true;
}

CompactOutcome
compact_batch_add(CompactFilter *f, const uint8_t *batch)
{
	int64_t next = batch_base_offset(batch);
	CompactOutcome o;
	RecordIter it;
	Record r;

	if (batch_is_control(batch) || batch_is_transactional(batch) || batch_count(batch) == 0)
		return COMPACT_KEPT;
	if (!compact_map_reserve(f->map, batch_count(batch)))
		return compact_map_count(f->map) > 0 ? COMPACT_DROPPED : COMPACT_NO_MEMORY;
	if ((o = open_records(f, batch, &it)) != COMPACT_KEPT)
		return o;
	while (record_next(&it, &r))
	{
		CompactKey key;

		if (!offset_fits(batch, &r, &next))
			return COMPACT_BAD;
		if (r.key.len < 0)
			continue;
		if (!compact_map_hash(f->map, r.key.p, r.key.len, &key))
			return COMPACT_NO_MEMORY;
		compact_map_put(f->map, &key, r.offset);
	}
	return it.malformed ? COMPACT_BAD : COMPACT_KEPT;
}

/* ---- what stays ---- */

static bool
has_horizon(const uint8_t *batch)
{
	return (batch_attributes(batch) & BATCH_DELETE_HORIZON) != 0;
}

/* 1 it stays, 0 it goes, -1 nobody knows. */
static int
stays(CompactFilter *f, const uint8_t *batch, const Record *r)
{
	CompactKey key;

	if (r->key.len < 0)
	{
		f->keyless++;
		return 0;
	}
	if (!compact_map_hash(f->map, r->key.p, r->key.len, &key))
		return -1;
	if (compact_map_get(f->map, &key) > r->offset)
		return 0;
	/* Of a transaction's tombstone nobody knows since when what it hides is gone. */
	return r->value.len >= 0 || batch_is_transactional(batch) || !has_horizon(batch) ||
		   f->now_ms < batch_base_timestamp(batch);
}

static int64_t
horizon_from_now(const CompactFilter *f)
{
	return f->delete_retention_ms > INT64_MAX - f->now_ms ? INT64_MAX : f->now_ms + f->delete_retention_ms;
}

/* Who stays, found before anything is written: mostly all do, and then nothing is. */
typedef struct Survey
{
	int32_t kept;
	int32_t dropped;
	int32_t tombstones; /* of the kept */
	int64_t max_timestamp;
} Survey;

static bool
room_for(CompactFilter *f, int32_t count)
{
	bool *larger;

	if (count <= f->stays_cap)
		return true;
	if ((larger = realloc(f->stays, sizeof(*larger) * (size_t) count)) == NULL)
		return false;
	f->stays = larger;
	f->stays_cap = count;
	return true;
}

static CompactOutcome
survey(CompactFilter *f, const uint8_t *batch, RecordIter it, Survey *s)
{
	int64_t next = batch_base_offset(batch);
	Record r;

	*s = (Survey){.max_timestamp = -1};
	if (!room_for(f, batch_count(batch)))
		return COMPACT_NO_MEMORY;
	while (record_next(&it, &r))
	{
		int stay = offset_fits(batch, &r, &next) ? stays(f, batch, &r) : -2;

		if (stay < 0)
			return stay == -1 ? COMPACT_NO_MEMORY : COMPACT_BAD;
		f->stays[s->kept + s->dropped] = stay > 0;
		if (stay == 0)
		{
			s->dropped++;
			continue;
		}
		s->kept++;
		s->tombstones += r.value.len < 0;
		if (r.timestamp > s->max_timestamp)
			s->max_timestamp = r.timestamp;
	}
	return it.malformed ? COMPACT_BAD : COMPACT_KEPT;
}

/* ---- writing ---- */

/* The record at `start` with its time counted from another base; all else of it stays. */
static void
put_with_time(WireWriter *w, const uint8_t *start, const uint8_t *end, int64_t delta)
{
	uint64_t skipped = 0;
	const uint8_t *p = start + uvarint_get(start, end, 32, &skipped);
	uint8_t attributes = *p++, head[24];
	size_t n = 0, rest;

	p += uvarint_get(p, end, 64, &skipped);
	rest = (size_t) (end - p);
	n += (size_t) uvarint_put(head, zigzag((int64_t) (1 + (size_t) uvarint_size(zigzag(delta)) + rest)));
	head[n++] = attributes;
	n += (size_t) uvarint_put(head + n, zigzag(delta));
	wire_put_bytes(w, head, n);
	wire_put_bytes(w, p, rest);
}

/* The time as it stands in the record, also where the batch has one for all. */
static int64_t
own_time(const uint8_t *batch, const uint8_t *start, const uint8_t *end)
{
	uint64_t v = 0;
	const uint8_t *p = start + uvarint_get(start, end, 32, &v) + 1;

	(void) uvarint_get(p, end, 64, &v);
	return (int64_t) ((uint64_t) batch_base_timestamp(batch) + (uint64_t) unzigzag(v));
}

static CompactOutcome
put_records(const CompactFilter *f, const uint8_t *batch, RecordIter it, bool new_horizon, int64_t base_time,
			WireWriter *w)
{
	const uint8_t *start = it.p;
	Record r;

	for (int32_t i = 0; record_next(&it, &r); start = r.end, i++)
	{
		if (!f->stays[i])
			continue;
		if (new_horizon)
			put_with_time(w, start, r.end,
						  (int64_t) ((uint64_t) own_time(batch, start, r.end) - (uint64_t) base_time));
		else
			wire_put_bytes(w, start, (size_t) (r.end - start));
	}
	return w->failed ? COMPACT_NO_MEMORY : COMPACT_CHANGED;
}

/* `b` begins as a copy of the old header; what follows it in `out` are the new records. */
static void
finish_header(uint8_t *b, size_t size, int16_t attributes, int64_t base_time, int64_t max_time, int32_t count)
{
	put_be32(b + 8, (uint32_t) (size - BATCH_FRAME_SIZE));
	put_be16(b + 21, (uint16_t) attributes);
	put_be64(b + 27, (uint64_t) base_time);
	put_be64(b + 35, (uint64_t) max_time);
	put_be32(b + 57, (uint32_t) count);
	batch_set_crc(b);
}

static CompactOutcome
put_empty(const uint8_t *batch, WireWriter *out)
{
	size_t start = out->len;

	wire_put_bytes(out, batch, BATCH_HEADER_SIZE);
	if (out->failed)
		return COMPACT_NO_MEMORY;
	finish_header(out->buf + start, BATCH_HEADER_SIZE,
				  (int16_t) (batch_attributes(batch) & ~(BATCH_CODEC_MASK | BATCH_DELETE_HORIZON)), -1,
				  batch_max_timestamp(batch), 0);
	return COMPACT_CHANGED;
}

/* Behind the header in `out`. */
static CompactOutcome
put_payload(CompactFilter *f, const uint8_t *batch, const RecordIter *it, bool new_horizon, int64_t base_time,
			WireWriter *out)
{
	CompactOutcome o;

	if (batch_codec(batch) == COMPRESS_NONE)
		return put_records(f, batch, *it, new_horizon, base_time, out);
	wire_writer_reset(&f->packed);
	o = put_records(f, batch, *it, new_horizon, base_time, &f->packed);
	if (o == COMPACT_CHANGED &&
		compress_pack(batch_codec(batch), -1, f->packed.buf, f->packed.len, out) != COMPRESS_OK)
		o = COMPACT_NO_MEMORY;
	return o;
}

static CompactOutcome
put_rest(CompactFilter *f, const uint8_t *batch, const RecordIter *it, const Survey *s, bool new_horizon,
		 WireWriter *out)
{
	size_t start = out->len;
	int16_t attributes = batch_attributes(batch);
	int64_t base_time = new_horizon ? horizon_from_now(f) : batch_base_timestamp(batch);
	CompactOutcome o;

	wire_put_bytes(out, batch, BATCH_HEADER_SIZE);
	o = put_payload(f, batch, it, new_horizon, base_time, out);
	if (o == COMPACT_CHANGED && (out->failed || out->len - start > INT32_MAX))
		o = COMPACT_NO_MEMORY;
	if (o != COMPACT_CHANGED)
	{
		out->len = start;
		return o;
	}
	if (new_horizon)
		attributes |= BATCH_DELETE_HORIZON;
	finish_header(out->buf + start, out->len - start, attributes, base_time,
				  attributes & BATCH_LOG_APPEND_TIME ? batch_max_timestamp(batch) : s->max_timestamp,
				  s->kept);
	return COMPACT_CHANGED;
}

static void
note_horizon(CompactFilter *f, const uint8_t *batch, const Survey *s, bool new_horizon)
{
	int64_t at = new_horizon ? horizon_from_now(f) : batch_base_timestamp(batch);

	if (s->tombstones > 0 && (new_horizon || has_horizon(batch)) && !batch_is_transactional(batch) &&
		at < f->horizon_ms)
		f->horizon_ms = at;
}

CompactOutcome
compact_batch_filter(CompactFilter *f, const uint8_t *batch, bool keep_empty, WireWriter *out)
{
	bool new_horizon;
	CompactOutcome o;
	RecordIter it;
	Survey s;

	if (batch_is_control(batch) || batch_base_offset(batch) >= f->map_end)
	{
		f->records += batch_count(batch);
		f->kept += batch_count(batch);
		return COMPACT_KEPT;
	}
	if (batch_count(batch) == 0)
		return keep_empty ? COMPACT_KEPT : COMPACT_DROPPED;
	if ((o = open_records(f, batch, &it)) != COMPACT_KEPT || (o = survey(f, batch, it, &s)) != COMPACT_KEPT)
		return o;
	f->records += s.kept + s.dropped;
	f->kept += s.kept;
	if (s.kept == 0)
		return keep_empty ? put_empty(batch, out) : COMPACT_DROPPED;
	new_horizon = s.tombstones > 0 && !has_horizon(batch) && !batch_is_transactional(batch);
	note_horizon(f, batch, &s, new_horizon);
	if (s.dropped == 0 && !new_horizon)
		return COMPACT_KEPT;
	return put_rest(f, batch, &it, &s, new_horizon, out);
}
