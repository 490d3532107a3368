/* Record batches: what a header says, building and reading back, and every way to be malformed. */
#include "regress/unit/tap.h"
#include "wire/record.h"

#include <stdlib.h>

#define LIMIT ((size_t) 1 << 20)

static WBytes
bytes(const char *s)
{
	return s == NULL ? WBYTES_NULL : (WBytes){(const uint8_t *) s, (int32_t) strlen(s)};
}

static bool
bytes_are(WBytes b, const char *s)
{
	return s == NULL ? b.len == -1 : b.len == (int32_t) strlen(s) && memcmp(b.p, s, strlen(s)) == 0;
}

/* Three records: plain, with null key and headers, with null value. */
static void
build(WireWriter *w, int codec)
{
	RecordHeader headers[2] = {{WSTR_LIT("h1"), bytes("v1")}, {WSTR_LIT("h2"), WBYTES_NULL}};
	BatchBuilder bb;

	batch_begin(&bb, w, codec);
	bb.producer_id = 4000;
	bb.producer_epoch = 3;
	bb.base_sequence = INT32_MAX - 1;
	batch_add(&bb, 1000, bytes("k1"), bytes("value one"), NULL, 0);
	batch_add(&bb, 990, WBYTES_NULL, bytes(""), headers, 2);
	batch_add(&bb, 1010, bytes("k3"), WBYTES_NULL, NULL, 0);
	ok(batch_end(&bb) == 0, "%s: built", compress_name(codec));
}

static void
test_read_back(int codec)
{
	const char *name = compress_name(codec);
	WireWriter w, scratch;
	RecordIter it;
	Record rec;
	RecordHeader h;
	const uint8_t *at;

	wire_writer_init(&w);
	wire_writer_init(&scratch);
	build(&w, codec);
	batch_set_base_offset(w.buf, 70);
	batch_set_leader_epoch(w.buf, 9);
	is_int(batch_check(w.buf, w.len, true), BATCH_OK, "%s: well-formed", name);
	ok(batch_crc_matches(w.buf), "%s: stamping the offset and the epoch leaves the checksum right", name);
	is_int(batch_size(w.buf), (int64_t) w.len, "%s: its size", name);
	is_int(batch_codec(w.buf), codec, "%s: its codec", name);
	is_int(batch_last_offset(w.buf), 72, "%s: its last offset", name);
	is_int(batch_last_sequence(w.buf), 0, "%s: sequences wrap behind INT32_MAX", name);
	is_int(batch_max_timestamp(w.buf), 1010, "%s: its max timestamp", name);

	is_int(batch_records(w.buf, LIMIT, &scratch, &it), COMPRESS_OK, "%s: readable", name);
	ok(record_next(&it, &rec) && rec.offset == 70 && rec.timestamp == 1000 && bytes_are(rec.key, "k1") &&
		   bytes_are(rec.value, "value one") && rec.n_headers == 0,
	   "%s: the first record", name);
	ok(record_next(&it, &rec) && rec.offset == 71 && rec.timestamp == 990 && bytes_are(rec.key, NULL) &&
		   bytes_are(rec.value, "") && rec.n_headers == 2,
	   "%s: the second, older than the first, key null", name);
	at = rec.headers;
	ok(record_header_next(&rec, &at, &h) && wstr_eq(h.key, WSTR_LIT("h1")) && bytes_are(h.value, "v1"),
	   "%s: a header", name);
	ok(record_header_next(&rec, &at, &h) && wstr_eq(h.key, WSTR_LIT("h2")) && bytes_are(h.value, NULL),
	   "%s: a header without a value", name);
	ok(!record_header_next(&rec, &at, &h), "%s: no third header", name);
	ok(record_next(&it, &rec) && rec.offset == 72 && bytes_are(rec.value, NULL), "%s: the third, value null",
	   name);
	ok(!record_next(&it, &rec) && !it.malformed, "%s: then the end", name);

	batch_set_append_time(w.buf, 5000);
	ok(batch_crc_matches(w.buf), "%s: log append time recomputes the checksum", name);
	if (batch_records(w.buf, LIMIT, &scratch, &it) == COMPRESS_OK)
		ok(record_next(&it, &rec) && rec.timestamp == 5000, "%s: all records have the append time", name);
	w.buf[w.len - 1] ^= 1;
	ok(!batch_crc_matches(w.buf), "%s: a flipped bit is seen", name);
	wire_writer_free(&w);
	wire_writer_free(&scratch);
}

/* batch_check after one change to a good batch. */
static BatchCheck
check_with(int at, int width, int64_t value, bool as_produced)
{
	WireWriter w;
	BatchCheck c;

	wire_writer_init(&w);
	{
		BatchBuilder bb;

		batch_begin(&bb, &w, COMPRESS_NONE);
		batch_add(&bb, 1, bytes("k"), bytes("v"), NULL, 0);
		batch_add(&bb, 1, bytes("k"), bytes("v"), NULL, 0);
		if (batch_end(&bb) != 0)
			return BATCH_TRUNCATED;
	}
	if (width == 1)
		w.buf[at] = (uint8_t) value;
	else
		put_be32(w.buf + at, (uint32_t) value);
	c = batch_check(w.buf, w.len, as_produced);
	wire_writer_free(&w);
	return c;
}

static void
test_check(void)
{
	uint8_t short_one[16] = {0};

	is_int(check_with(16, 1, 2, true), BATCH_OK, "unchanged");
	is_int(check_with(16, 1, 1, true), BATCH_BAD_MAGIC, "magic 1");
	is_int(check_with(8, 4, 48, true), BATCH_BAD_SIZE, "a length below the header's");
	is_int(check_with(8, 4, -1, true), BATCH_BAD_SIZE, "a negative length");
	is_int(check_with(8, 4, INT32_MAX, true), BATCH_BAD_SIZE,
		   "a length that overflows with what precedes it");
	is_int(check_with(8, 4, 100000, true), BATCH_TRUNCATED, "a length beyond the buffer");
	is_int(check_with(57, 4, -1, true), BATCH_BAD_COUNT, "a negative count");
	is_int(check_with(57, 4, 3, true), BATCH_BAD_COUNT, "more records than offsets");
	is_int(check_with(57, 4, 1, true), BATCH_BAD_COUNT, "produced with fewer records than offsets");
	is_int(check_with(57, 4, 1, false), BATCH_OK, "compacted to fewer records than offsets");
	is_int(check_with(57, 4, 0, true), BATCH_BAD_COUNT, "produced empty");
	is_int(check_with(57, 4, 0, false), BATCH_OK, "compacted to nothing");
	is_int(check_with(23, 4, -1, false), BATCH_BAD_COUNT, "a negative last offset delta");
	is_int(batch_check(short_one, sizeof(short_one), false), BATCH_TRUNCATED, "16 bytes");
}

/* Every truncation and every flipped byte of the payload: either all records or malformed, never outside. */
static void
test_broken_records(void)
{
	WireWriter w;
	int malformed = 0, tried = 0;

	wire_writer_init(&w);
	build(&w, COMPRESS_NONE);
	for (size_t len = 0; len < w.len - BATCH_HEADER_SIZE; len++)
		for (int flip = 0; flip < 256; flip += 5)
		{
			/* An own allocation, so that a sanitizer sees one byte too many. */
			uint8_t *payload = malloc(len + 1);
			RecordIter it;
			Record rec;

			if (payload == NULL)
				return;
			memcpy(payload + 1, w.buf + BATCH_HEADER_SIZE, len);
			if (len > 0)
				payload[1 + len / 2] ^= (uint8_t) flip;
			record_iter_init(&it, w.buf, payload + 1, len);
			while (record_next(&it, &rec))
			{
				const uint8_t *at = rec.headers;
				RecordHeader h;

				while (record_header_next(&rec, &at, &h))
					continue;
			}
			tried++;
			malformed += it.malformed;
			free(payload);
		}
	is_int(malformed, tried, "a cut payload is always malformed");
	wire_writer_free(&w);
}

static void
test_extra_bytes(void)
{
	WireWriter w;
	RecordIter it;
	Record rec;

	wire_writer_init(&w);
	build(&w, COMPRESS_NONE);
	wire_put_bytes(&w, "x", 1);
	record_iter_init(&it, w.buf, w.buf + BATCH_HEADER_SIZE, w.len - BATCH_HEADER_SIZE);
	while (record_next(&it, &rec))
		continue;
	ok(it.malformed, "a byte behind the last record is malformed");
	wire_writer_free(&w);
}

/* A record that says a byte more than its fields take: Kafka refuses it, too. */
static void
test_long_record(void)
{
	static const uint8_t payload[] = {8 << 1, 0, 0, 0, 1, 1, 0, 'x', 'x'};
	uint8_t header[BATCH_HEADER_SIZE] = {0};
	RecordIter it;
	Record rec;

	put_be32(header + 57, 1);
	record_iter_init(&it, header, payload, sizeof(payload));
	ok(!record_next(&it, &rec) && it.malformed, "a record longer than its fields is malformed");
}

static void
test_markers(void)
{
	WireWriter w;
	TxnMarker in = {.producer_id = 77, .producer_epoch = 5, .coordinator_epoch = 12, .timestamp = 99}, out;

	wire_writer_init(&w);
	for (int commit = 0; commit < 2; commit++)
	{
		wire_writer_reset(&w);
		in.commit = commit;
		ok(batch_put_marker(&w, &in) == 0 && batch_check(w.buf, w.len, true) == BATCH_OK &&
			   batch_crc_matches(w.buf),
		   "a %s marker is a good batch", commit ? "commit" : "abort");
		ok(batch_is_control(w.buf) && batch_is_transactional(w.buf) && batch_count(w.buf) == 1,
		   "it is a transactional control batch of one record");
		ok(batch_read_marker(w.buf, &out) && out.producer_id == 77 && out.producer_epoch == 5 &&
			   out.coordinator_epoch == 12 && out.timestamp == 99 && out.commit == commit,
		   "it reads back");
	}
	wire_writer_reset(&w);
	build(&w, COMPRESS_NONE);
	ok(!batch_read_marker(w.buf, &out), "an ordinary batch is no marker");
	wire_writer_free(&w);
}

int
main(void)
{
	for (int codec = COMPRESS_NONE; codec <= COMPRESS_ZSTD; codec++)
		test_read_back(codec);
	test_check();
	test_broken_records();
	test_extra_bytes();
	test_long_record();
	test_markers();
	return tap_done();
}
