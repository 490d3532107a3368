#include "wire/record.h"

#include <string.h>

static void
put_varint(WireWriter *w, int64_t v)
{
	uint8_t buf[10];

	wire_put_bytes(w, buf, (size_t) uvarint_put(buf, zigzag(v)));
}

static void
put_slice(WireWriter *w, const void *p, int32_t len)
{
	put_varint(w, len < 0 ? -1 : len);
	if (len > 0)
		wire_put_bytes(w, p, (size_t) len);
}

static size_t
slice_size(int32_t len)
{
	return (size_t) uvarint_size(zigzag(len < 0 ? -1 : len)) + (size_t) (len < 0 ? 0 : len);
}

void
batch_begin(BatchBuilder *bb, WireWriter *out, int codec)
{
	memset(bb, 0, sizeof(*bb));
	bb->out = out;
	bb->start = out->len;
	bb->codec = codec;
	bb->level = -1;
	bb->max_timestamp = -1;
	bb->producer_id = BATCH_NO_PRODUCER_ID;
	bb->producer_epoch = BATCH_NO_EPOCH;
	bb->base_sequence = BATCH_NO_SEQUENCE;
	wire_put_bytes(out, (const uint8_t[BATCH_HEADER_SIZE]){0}, BATCH_HEADER_SIZE);
}

void
batch_add(BatchBuilder *bb, int64_t timestamp, WBytes key, WBytes value, const RecordHeader *headers,
		  int32_t n_headers)
{
	WireWriter *w = bb->out;
	int64_t delta;
	size_t size;

	if (bb->count == 0)
		bb->base_timestamp = timestamp;
	if (timestamp > bb->max_timestamp)
		bb->max_timestamp = timestamp;
	delta = timestamp - bb->base_timestamp;
	size = 1 + (size_t) uvarint_size(zigzag(delta)) + (size_t) uvarint_size(zigzag(bb->count)) +
		   slice_size(key.len) + slice_size(value.len) + (size_t) uvarint_size(zigzag(n_headers));
	for (int32_t i = 0; i < n_headers; i++)
		size += slice_size(headers[i].key.len) + slice_size(headers[i].value.len);

	put_varint(w, (int64_t) size);
	wire_put_bytes(w, "", 1);
	put_varint(w, delta);
	put_varint(w, bb->count);
	put_slice(w, key.p, key.len);
	put_slice(w, value.p, value.len);
	put_varint(w, n_headers);
	for (int32_t i = 0; i < n_headers; i++)
	{
		put_slice(w, headers[i].key.s, headers[i].key.len);
		put_slice(w, headers[i].value.p, headers[i].value.len);
	}
	bb->count++;
}

size_t
batch_building_size(const BatchBuilder *bb)
{
	return bb->out->len - bb->start;
}

/* Replace the records behind the header by their compressed form. */
static bool
compress_records(BatchBuilder *bb)
{
	WireWriter *w = bb->out;
	size_t from = bb->start + BATCH_HEADER_SIZE;
	WireWriter packed;
	bool done;

	wire_writer_init(&packed);
	done = compress_pack(bb->codec, bb->level, w->buf + from, w->len - from, &packed) == COMPRESS_OK;
	if (done)
	{
		w->len = from;
		wire_put_bytes(w, packed.buf, packed.len);
	}
	wire_writer_free(&packed);
	return done && !w->failed;
}

int
batch_end(BatchBuilder *bb)
{
	WireWriter *w = bb->out;
	uint8_t *b;

	if (w->failed || bb->count == 0 || (bb->codec != COMPRESS_NONE && !compress_records(bb)))
	{
		w->failed = true;
		return -1;
	}
	b = w->buf + bb->start;
	put_be64(b, 0);
	put_be32(b + 8, (uint32_t) (w->len - bb->start - BATCH_FRAME_SIZE));
	put_be32(b + 12, (uint32_t) -1);
	b[16] = 2;
	put_be16(b + 21, (uint16_t) (bb->attributes | bb->codec));
	put_be32(b + 23, (uint32_t) (bb->count - 1));
	put_be64(b + 27, (uint64_t) bb->base_timestamp);
	put_be64(b + 35, (uint64_t) bb->max_timestamp);
	put_be64(b + 43, (uint64_t) bb->producer_id);
	put_be16(b + 51, (uint16_t) bb->producer_epoch);
	put_be32(b + 53, (uint32_t) bb->base_sequence);
	put_be32(b + 57, (uint32_t) bb->count);
	batch_set_crc(b);
	return 0;
}

int
batch_put_marker(WireWriter *out, const TxnMarker *m)
{
	BatchBuilder bb;
	uint8_t key[4], value[6];

	put_be16(key, 0);
	put_be16(key + 2, m->commit ? 1 : 0);
	put_be16(value, 0);
	put_be32(value + 2, (uint32_t) m->coordinator_epoch);
	batch_begin(&bb, out, COMPRESS_NONE);
	bb.attributes = BATCH_TRANSACTIONAL | BATCH_CONTROL;
	bb.producer_id = m->producer_id;
	bb.producer_epoch = m->producer_epoch;
	batch_add(&bb, m->timestamp, (WBytes){key, sizeof(key)}, (WBytes){value, sizeof(value)}, NULL, 0);
	return batch_end(&bb);
}

bool
batch_read_marker(const uint8_t *batch, TxnMarker *m)
{
	RecordIter it;
	Record rec;

	if (!batch_is_control(batch) || batch_codec(batch) != COMPRESS_NONE)
		return false;
	record_iter_init(&it, batch, batch + BATCH_HEADER_SIZE, (size_t) batch_size(batch) - BATCH_HEADER_SIZE);
	/* Later versions only add to the end of key and value. */
	if (!record_next(&it, &rec) || rec.key.len < 4 || rec.value.len < 6 || get_be16(rec.key.p + 2) > 1)
		return false;
	m->producer_id = batch_producer_id(batch);
	m->producer_epoch = batch_producer_epoch(batch);
	m->coordinator_epoch = (int32_t) get_be32(rec.value.p + 2);
	m->timestamp = rec.timestamp;
	m->commit = get_be16(rec.key.p + 2) == 1;
	return true;
}
