#include "wire/record.h"

#include <string.h>

void
record_iter_init(RecordIter *it, const uint8_t *batch, const void *payload, size_t len)
{
	it->p =
		len == 0 ? (const uint8_t *) "" : payload; /* may be NULL then, which no arithmetic is defined on */
	it->end = it->p + len;
	it->base_offset = batch_base_offset(batch);
	it->base_timestamp = batch_base_timestamp(batch);
	it->append_time =
		(batch_attributes(batch) & BATCH_LOG_APPEND_TIME) != 0 ? batch_max_timestamp(batch) : INT64_C(-1);
	it->left = batch_count(batch);
	it->malformed = false;
}

/* A zigzag varint at *p; false when there is none before `end`. */
static bool
take_varint(const uint8_t **p, const uint8_t *end, int bits, int64_t *out)
{
	uint64_t v;
	int n = uvarint_get(*p, end, bits, &v);

	*p += n;
	*out = n == 0 ? 0 : unzigzag(v);
	return n != 0;
}

/* A length and as many bytes; length -1 is null. */
static bool
take_slice(const uint8_t **p, const uint8_t *end, WBytes *out)
{
	int64_t len;

	if (!take_varint(p, end, 32, &len) || len < -1 || len > end - *p)
		return false;
	*out = (WBytes){len < 0 ? NULL : *p, (int32_t) len};
	if (len > 0)
		*p += len;
	return true;
}

static bool
skip_headers(const uint8_t **p, const uint8_t *end, int32_t n)
{
	WBytes key, value;

	for (int32_t i = 0; i < n; i++)
		if (!take_slice(p, end, &key) || key.len < 0 || !take_slice(p, end, &value))
			return false;
	return true;
}

static bool
take_record(RecordIter *it, Record *rec)
{
	const uint8_t *p = it->p, *end;
	int64_t len, time_delta, offset_delta, n;

	if (!take_varint(&p, it->end, 32, &len) || len < 1 || len > it->end - p)
		return false;
	end = p + len;
	p++; /* attributes of a record: none are defined */
	if (!take_varint(&p, end, 64, &time_delta) || !take_varint(&p, end, 32, &offset_delta) ||
		!take_slice(&p, end, &rec->key) || !take_slice(&p, end, &rec->value) ||
		!take_varint(&p, end, 32, &n) || n < 0 || n > (end - p) / 2)
		return false;
	rec->headers = p;
	rec->n_headers = (int32_t) n;
	if (!skip_headers(&p, end, rec->n_headers) || p != end)
		return false;
	/* Added without sign, so that what a client made up wraps instead of being undefined. */
	rec->offset = (int64_t) ((uint64_t) it->base_offset + (uint64_t) offset_delta);
	rec->timestamp = it->append_time >= 0 ? it->append_time
										  : (int64_t) ((uint64_t) it->base_timestamp + (uint64_t) time_delta);
	rec->end = end;
	it->p = end;
	return true;
}

bool
record_next(RecordIter *it, Record *rec)
{
	if (it->malformed)
		return false;
	if (it->left <= 0)
	{
		it->malformed = it->p != it->end;
		return false;
	}
	it->left--;
	it->malformed = !take_record(it, rec);
	return !it->malformed;
}

bool
record_header_next(const Record *rec, const uint8_t **at, RecordHeader *h)
{
	WBytes key;

	if (*at == rec->end || !take_slice(at, rec->end, &key) || !take_slice(at, rec->end, &h->value))
		return false;
	h->key = (WStr){(const char *) key.p, key.len};
	return true;
}

CompressResult
batch_records(const uint8_t *batch, size_t limit, WireWriter *scratch, RecordIter *it)
{
	const uint8_t *payload = batch + BATCH_HEADER_SIZE;
	size_t len = (size_t) batch_size(batch) - BATCH_HEADER_SIZE;

	if (batch_codec(batch) != COMPRESS_NONE)
	{
		CompressResult r;

		wire_writer_reset(scratch);
		r = compress_unpack(batch_codec(batch), payload, len, limit, scratch);
		if (r != COMPRESS_OK)
			return r;
		payload = scratch->buf;
		len = scratch->len;
	}
	record_iter_init(it, batch, payload, len);
	return COMPRESS_OK;
}
