/* The pure parts of compaction: the map of keys, what stays of a batch, what is compacted when. */
#include <stdlib.h>
#include <string.h>

#include "brokerd/storage/compact_batch.h"
#include "brokerd/storage/compact_rule.h"
#include "regress/unit/tap.h"
#include "wire/record.h"

/* ---- the map ---- */

static CompactKey
key_of(CompactMap *m, int k)
{
	char text[32];
	CompactKey key;

	if (!compact_map_hash(m, text, snprintf(text, sizeof(text), "key-%d", k), &key))
		abort();
	return key;
}

static void
test_map(void)
{
	CompactMap *m = compact_map_new(64 * 24);
	CompactKey key, empty, other;
	bool same = true;
	int n = 0;

	is_int(compact_map_get(m, &(CompactKey){{1, 2}}), -1, "an empty map knows nothing");
	is_int((int64_t) compact_map_bytes(m), 0, "and takes no memory");
	while (compact_map_reserve(m, 1))
	{
		key = key_of(m, n);
		compact_map_put(m, &key, n++ * 10);
	}
	is_int(n, 48, "three quarters of its slots are used");
	is_int((int64_t) compact_map_bytes(m), 64 * 24, "and the memory that is allowed");
	for (int i = 0; i < n; i++)
	{
		key = key_of(m, i);
		same &= compact_map_get(m, &key) == i * 10;
	}
	ok(same, "every key is found");
	key = key_of(m, n + 1);
	is_int(compact_map_get(m, &key), -1, "and no other");
	key = key_of(m, 3);
	compact_map_put(m, &key, 7);
	is_int(compact_map_get(m, &key), 30, "an older offset changes nothing");
	compact_map_put(m, &key, 70);
	is_int(compact_map_get(m, &key), 70, "a newer one does");
	is_int(compact_map_count(m), 48, "a key counts once");
	ok(compact_map_hash(m, "", 0, &empty) && compact_map_hash(m, "\0", 1, &other) &&
		   memcmp(&empty, &other, sizeof(empty)) != 0,
	   "the empty key is one");
	compact_map_free(m);
	m = compact_map_new(64 * 24);
	ok(compact_map_reserve(m, 5000), "an empty map takes a batch of any size");
	for (int i = 0; i < 5000; i++)
	{
		key = key_of(m, i);
		compact_map_put(m, &key, i);
	}
	ok(!compact_map_reserve(m, 2000), "and is full then");
	compact_map_free(m);
	m = compact_map_new(0);
	ok(compact_map_reserve(m, 3145728) && compact_map_bytes(m) == COMPACT_MAP_BYTES, "the largest one");
	ok(!compact_map_reserve(m, (int64_t) INT32_MAX + 1), "no batch has more records than that");
	compact_map_free(m);
}

/* ---- batches ---- */

typedef struct Rec
{
	const char *key;   /* NULL: none */
	const char *value; /* NULL: a tombstone */
	int64_t time;
} Rec;

static WireWriter made;

static uint8_t *
batch(const Rec *r, int n, int codec, int16_t attributes, int64_t base)
{
	BatchBuilder bb;

	wire_writer_reset(&made);
	batch_begin(&bb, &made, codec);
	bb.attributes = attributes;
	bb.producer_id = 9;
	bb.producer_epoch = 3;
	bb.base_sequence = 100;
	for (int i = 0; i < n; i++)
	{
		RecordHeader h = {{"name", 4}, {(const uint8_t *) "x", 1}};

		batch_add(&bb, r[i].time,
				  r[i].key == NULL ? WBYTES_NULL
								   : (WBytes){(const uint8_t *) r[i].key, (int32_t) strlen(r[i].key)},
				  r[i].value == NULL ? WBYTES_NULL
									 : (WBytes){(const uint8_t *) r[i].value, (int32_t) strlen(r[i].value)},
				  &h, i % 2);
	}
	if (batch_end(&bb) != 0)
		abort();
	batch_set_base_offset(made.buf, base);
	batch_set_leader_epoch(made.buf, 4);
	return made.buf;
}

/* "10:a=1@5 12:b=-@7": offset, key, value, time of what is in a batch. */
static const char *
shown(const uint8_t *b)
{
	static char out[2000];
	WireWriter scratch;
	RecordIter it;
	Record r;
	size_t n = 0;

	out[0] = '\0';
	wire_writer_init(&scratch);
	if (batch_check(b, (size_t) batch_size(b), false) != BATCH_OK || !batch_crc_matches(b) ||
		batch_records(b, 1 << 20, &scratch, &it) != COMPRESS_OK)
		return "damaged";
	while (record_next(&it, &r))
		n +=
			(size_t) snprintf(out + n, sizeof(out) - n, "%s%lld:%.*s=%.*s@%lld", n > 0 ? " " : "",
							  (long long) r.offset, r.key.len < 0 ? 1 : r.key.len,
							  r.key.len < 0 ? "?" : (const char *) r.key.p, r.value.len < 0 ? 1 : r.value.len,
							  r.value.len < 0 ? "-" : (const char *) r.value.p, (long long) r.timestamp);
	wire_writer_free(&scratch);
	return it.malformed ? "malformed" : out;
}

static void
filter_init(CompactFilter *f, int64_t now)
{
	compact_filter_init(f);
	f->map = compact_map_new(0);
	f->map_end = INT64_MAX;
	f->now_ms = now;
	f->delete_retention_ms = 1000;
}

static void
filter_done(CompactFilter *f)
{
	compact_map_free(f->map);
	compact_filter_free(f);
}

static void
know(CompactFilter *f, const char *key, int64_t offset)
{
	CompactKey k;

	if (!compact_map_reserve(f->map, 1) || !compact_map_hash(f->map, key, (int32_t) strlen(key), &k))
		abort();
	compact_map_put(f->map, &k, offset);
}

static void
test_batch(int codec)
{
	const Rec four[] = {{"a", "1", 500}, {"b", "2", 900}, {"a", "3", 700}, {"c", "4", 600}};
	CompactFilter f;
	WireWriter out;
	uint8_t *b = batch(four, 4, codec, 0, 10), *got;

	filter_init(&f, 100000);
	wire_writer_init(&out);
	is_int(compact_batch_filter(&f, b, false, &out), COMPACT_KEPT,
		   "codec %d: nothing is known, all of it stays", codec);
	is_int((int64_t) out.len, 0, "and nothing is written");
	is_int(compact_batch_add(&f, b), COMPACT_KEPT, "its keys are noted");
	is_int(compact_map_count(f.map), 3, "three of them");
	is_int(compact_batch_filter(&f, b, false, &out), COMPACT_CHANGED, "a newer record in the same batch");
	is_str(shown(out.buf), "11:b=2@900 12:a=3@700 13:c=4@600", "the older one is gone");
	know(&f, "a", 20);
	know(&f, "b", 21);
	wire_writer_reset(&out);
	is_int(compact_batch_filter(&f, b, false, &out), COMPACT_CHANGED, "newer ones behind it");
	got = out.buf;
	is_str(shown(got), "13:c=4@600", "one record stays");
	is_int(batch_base_offset(got), 10, "base offset");
	is_int(batch_last_offset(got), 13, "last offset");
	is_int(batch_leader_epoch(got), 4, "leader epoch");
	is_int(batch_max_timestamp(got), 600, "the max timestamp is that of what stays");
	is_int(batch_codec(got), codec, "the codec stays");
	is_int(batch_producer_id(got), 9, "producer");
	is_int(batch_producer_epoch(got), 3, "its epoch");
	is_int(batch_base_sequence(got), 100, "its sequence");
	is_int(batch_last_sequence(got), 103, "also the last one");
	is_int(compact_batch_filter(&f, got, false, &(WireWriter){0}), COMPACT_KEPT,
		   "what is left stays as it is");
	know(&f, "c", 22);
	is_int(compact_batch_filter(&f, b, false, &out), COMPACT_DROPPED, "nothing is left of it");
	wire_writer_reset(&out);
	is_int(compact_batch_filter(&f, b, true, &out), COMPACT_CHANGED, "unless it has to stay");
	got = out.buf;
	ok(batch_count(got) == 0 && batch_size(got) == BATCH_HEADER_SIZE && batch_codec(got) == 0,
	   "then without records");
	is_str(shown(got), "", "well formed");
	ok(batch_base_offset(got) == 10 && batch_last_offset(got) == 13 && batch_last_sequence(got) == 103 &&
		   batch_max_timestamp(got) == 900,
	   "it says what it said");
	is_int(compact_batch_filter(&f, got, true, &(WireWriter){0}), COMPACT_KEPT, "an empty one stays");
	is_int(compact_batch_filter(&f, got, false, &(WireWriter){0}), COMPACT_DROPPED, "or goes");
	f.map_end = 10;
	is_int(compact_batch_filter(&f, batch(four, 4, codec, 0, 10), false, &out), COMPACT_KEPT,
		   "where the map ends everything stays");
	wire_writer_free(&out);
	filter_done(&f);
}

static void
test_tombstones(void)
{
	const Rec r[] = {{"a", "1", 500}, {"b", NULL, 900}, {"c", NULL, 700}};
	CompactFilter f;
	WireWriter out, again, third;

	filter_init(&f, 100000);
	wire_writer_init(&out);
	wire_writer_init(&again);
	wire_writer_init(&third);
	know(&f, "c", 99);
	is_int(compact_batch_filter(&f, batch(r, 3, COMPRESS_NONE, 0, 10), false, &out), COMPACT_CHANGED,
		   "a tombstone that is the newest stays for now");
	is_str(shown(out.buf), "10:a=1@500 11:b=-@900", "with all times as they were");
	ok(batch_attributes(out.buf) & BATCH_DELETE_HORIZON, "its batch says");
	is_int(batch_base_timestamp(out.buf), 101000, "until when");
	is_int(batch_max_timestamp(out.buf), 900, "the max timestamp is not touched by it");
	is_int(f.horizon_ms, 101000, "and somebody remembers");
	f.now_ms = 100999;
	f.horizon_ms = INT64_MAX;
	is_int(compact_batch_filter(&f, out.buf, false, &again), COMPACT_KEPT, "a moment before");
	is_int(f.horizon_ms, 101000, "it is remembered again");
	know(&f, "a", 98);
	is_int(compact_batch_filter(&f, out.buf, false, &again), COMPACT_CHANGED,
		   "another record of the batch goes");
	is_str(shown(again.buf), "11:b=-@900", "the times are right");
	ok((batch_attributes(again.buf) & BATCH_DELETE_HORIZON) && batch_base_timestamp(again.buf) == 101000,
	   "the horizon stays what it was");
	f.now_ms = 101000;
	f.horizon_ms = INT64_MAX;
	is_int(compact_batch_filter(&f, again.buf, false, &third), COMPACT_DROPPED, "then it goes");
	is_int(f.horizon_ms, INT64_MAX, "and nothing is left to wait for");
	wire_writer_reset(&out);
	f.delete_retention_ms = INT64_MAX;
	is_int(compact_batch_filter(&f, batch(r, 3, COMPRESS_NONE, 0, 10), false, &out), COMPACT_CHANGED,
		   "kept for ever");
	is_int(batch_base_timestamp(out.buf), INT64_MAX, "is a time too");
	is_str(shown(out.buf), "11:b=-@900", "from which others are counted");
	/* The broker's time is in the max timestamp. */
	wire_writer_reset(&out);
	{
		uint8_t *b = batch(r, 3, COMPRESS_NONE, 0, 10);

		batch_set_append_time(b, 5000);
		f.delete_retention_ms = 1000;
		is_int(compact_batch_filter(&f, b, false, &out), COMPACT_CHANGED, "with LogAppendTime");
		is_str(shown(out.buf), "11:b=-@5000", "the time of all stays");
	}
	wire_writer_free(&out);
	wire_writer_free(&again);
	wire_writer_free(&third);
	filter_done(&f);
}

static void
test_special(void)
{
	const Rec r[] = {{"a", "1", 500}, {NULL, "2", 900}, {"c", NULL, 700}};
	CompactFilter f;
	WireWriter out;
	uint8_t *b;
	TxnMarker marker = {.producer_id = 5, .commit = true, .timestamp = 1};

	filter_init(&f, 100000);
	wire_writer_init(&out);
	b = batch(r, 3, COMPRESS_NONE, BATCH_TRANSACTIONAL, 10);
	is_int(compact_batch_add(&f, b), COMPACT_KEPT, "records of transactions");
	is_int(compact_map_count(f.map), 0, "take nobody's place");
	know(&f, "a", 50);
	is_int(compact_batch_filter(&f, b, false, &out), COMPACT_CHANGED, "but others take theirs");
	is_str(shown(out.buf), "12:c=-@700", "a record without a key goes, as in Kafka");
	is_int(f.keyless, 1, "which is counted");
	ok(!(batch_attributes(out.buf) & BATCH_DELETE_HORIZON) && batch_is_transactional(out.buf) &&
		   f.horizon_ms == INT64_MAX,
	   "their tombstones stay");
	wire_writer_reset(&out);
	if (batch_put_marker(&out, &marker) != 0)
		abort();
	know(&f, "", 99);
	is_int(compact_batch_filter(&f, out.buf, false, &(WireWriter){0}), COMPACT_KEPT, "a marker stays");
	is_int(compact_batch_add(&f, out.buf), COMPACT_KEPT, "and has no key");
	/* Not what it says. */
	b = batch(r, 3, COMPRESS_NONE, 0, 10);
	put_be32(b + 23, 1);
	batch_set_crc(b);
	is_int(compact_batch_filter(&f, b, false, &out), COMPACT_BAD, "an offset beyond the batch's last");
	b = batch(r, 3, COMPRESS_NONE, 0, 10);
	put_be32(b + 57, 2);
	batch_set_crc(b);
	is_int(compact_batch_filter(&f, b, false, &out), COMPACT_BAD, "more records than are counted");
	is_int(compact_batch_add(&f, b), COMPACT_BAD, "neither is noted");
	b = batch(r, 3, COMPRESS_ZSTD, 0, 10);
	b[BATCH_HEADER_SIZE] ^= 0xff;
	is_int(compact_batch_filter(&f, b, false, &out), COMPACT_BAD, "what cannot be decompressed");
	wire_writer_free(&out);
	filter_done(&f);
}

/* A log as a list of batches, passes with a map of any size, and a list of records beside it. */
#define MODEL_BATCHES 60
#define MODEL_KEYS    12

static void
test_against_list(void)
{
	int64_t newest[MODEL_KEYS], bad = 0;

	for (int round = 0; round < 300; round++)
	{
		WireWriter log[MODEL_BATCHES];
		int64_t next = 0, from = 0, now = 100000;
		char values[MODEL_BATCHES * 8][16], *last[MODEL_KEYS] = {0};
		int nvalues = 0;

		for (int k = 0; k < MODEL_KEYS; k++)
			newest[k] = -1;
		for (int i = 0; i < MODEL_BATCHES; i++)
		{
			Rec r[8];
			char keys[8][16];
			int n = 1 + rand() % 8;

			for (int j = 0; j < n; j++)
			{
				int k = rand() % MODEL_KEYS;
				char *v = values[nvalues++];

				snprintf(keys[j], sizeof(keys[j]), "k%d", k);
				snprintf(v, 16, "v%d", nvalues);
				r[j] = (Rec){keys[j], rand() % 5 == 0 ? NULL : v, 1 + rand() % 1000};
				newest[k] = next + j;
				last[k] = r[j].value == NULL ? NULL : v;
			}
			wire_writer_init(&log[i]);
			(void) batch(r, n, rand() % 5, 0, next);
			wire_put_bytes(&log[i], made.buf, made.len);
			next += n;
		}
		/* Passes until nothing is dirty, and one when all tombstones have had their time. */
		for (bool done = false; !done;)
		{
			CompactFilter f;
			bool is_last = from == next;

			filter_init(&f, is_last ? now + 2000 : now);
			compact_map_free(f.map);
			f.map = compact_map_new((size_t) (16 << (rand() % 4)) * 24);
			f.map_end = next;
			for (int i = 0; i < MODEL_BATCHES; i++)
			{
				if (log[i].len == 0 || batch_last_offset(log[i].buf) < from)
					continue;
				if (compact_batch_add(&f, log[i].buf) == COMPACT_DROPPED)
				{
					f.map_end = batch_base_offset(log[i].buf);
					break;
				}
			}
			for (int i = 0; i < MODEL_BATCHES; i++)
			{
				WireWriter out;
				CompactOutcome o;

				if (log[i].len == 0)
					continue;
				wire_writer_init(&out);
				o = compact_batch_filter(&f, log[i].buf, false, &out);
				bad += o == COMPACT_BAD || o == COMPACT_NO_MEMORY;
				if (o == COMPACT_DROPPED)
					log[i].len = 0;
				else if (o == COMPACT_CHANGED)
				{
					wire_writer_free(&log[i]);
					log[i] = out;
					continue;
				}
				wire_writer_free(&out);
			}
			bad += f.map_end <= from && !is_last; /* every pass gets on */
			from = f.map_end;
			done = is_last;
			filter_done(&f);
		}
		for (int i = 0; i < MODEL_BATCHES; i++)
		{
			WireWriter scratch;
			RecordIter it;
			Record rec;

			wire_writer_init(&scratch);
			if (log[i].len > 0 && batch_records(log[i].buf, 1 << 20, &scratch, &it) == COMPRESS_OK)
				while (record_next(&it, &rec))
				{
					int k = atoi((const char *) rec.key.p + 1);

					bad += newest[k] != rec.offset || last[k] == NULL ||
						   rec.value.len != (int32_t) strlen(last[k]) ||
						   memcmp(rec.value.p, last[k], strlen(last[k])) != 0;
					last[k] = NULL;
				}
			wire_writer_free(&scratch);
			wire_writer_free(&log[i]);
		}
		/* Each that was there has been seen. */
		for (int k = 0; k < MODEL_KEYS; k++)
			bad += last[k] != NULL;
	}
	is_int(bad, 0, "300 random logs with maps of any size: what stays is the newest of each key");
}

/* ---- when ---- */

#define NEVER INT64_MAX

static void
test_rule(void)
{
	/* base, end, size, first time, time, index, ready */
	const CompactSegment s[] = {{0, 100, 1000, 10, 50, 10, true},
								{100, 200, 1000, 60, 90, 10, true},
								{200, 300, 1000, 100, 150, 10, true},
								{300, 310, 50, 160, 170, 0, false}};
	CompactSegment unready[4];
	const struct
	{
		const char *what;
		CompactQuestion q;
		int n;
		int64_t from, to; /* to -1: it does not run */
		int64_t look;
		bool high;
	} t[] = {
		{"all of it is dirty", {s, 4, 0, 310, 0.5, 0, NEVER, NEVER, 1000}, 3, 0, 300, 0, false},
		{"a third is dirty", {s, 4, 200, 310, 0.5, 0, NEVER, NEVER, 1000}, 3, 0, -1, NEVER, false},
		{"and that is enough", {s, 4, 200, 310, 0.3, 0, NEVER, NEVER, 1000}, 3, 200, 300, 0, false},
		{"nothing is dirty", {s, 4, 300, 310, 0, 0, NEVER, NEVER, 1000}, 3, 0, -1, NEVER, false},
		{"a ratio of 1 is never exceeded", {s, 4, 0, 310, 1, 0, NEVER, NEVER, 1000}, 3, 0, -1, NEVER, false},
		{"above the high watermark", {s, 4, 0, 150, 0.5, 0, NEVER, NEVER, 1000}, 1, 0, 100, 0, false},
		{"all above it", {s, 4, 0, 99, 0.5, 0, NEVER, NEVER, 1000}, 0, 0, -1, NEVER, true},
		{"min.compaction.lag.ms", {s, 4, 0, 310, 0.5, 100, NEVER, NEVER, 200}, 2, 0, 200, 0, false},
		{"all too young", {s, 4, 0, 310, 0.5, 1000, NEVER, NEVER, 200}, 0, 0, -1, 1050, false},
		{"what is clean may be young", {s, 4, 100, 310, 0.4, 120, NEVER, NEVER, 215}, 2, 100, 200, 0, false},
		{"max.compaction.lag.ms: not yet", {s, 4, 200, 310, 0.5, 0, 900, NEVER, 1000}, 3, 0, -1, 1001, false},
		{"then", {s, 4, 200, 310, 0.5, 0, 900, NEVER, 1001}, 3, 200, 300, 0, false},
		{"not for what is clean", {s, 4, 300, 310, 0.5, 0, 1, NEVER, 9000}, 3, 0, -1, NEVER, false},
		{"tombstones: not yet", {s, 4, 300, 310, 0.5, 0, NEVER, 1500, 1499}, 3, 0, -1, 1500, false},
		{"then", {s, 4, 300, 310, 0.5, 0, NEVER, 1500, 1500}, 3, 300, 300, 0, false},
		{"a log that was never compacted has none",
		 {s, 4, 0, 310, 1, 0, NEVER, 1, 1500},
		 3,
		 0,
		 -1,
		 NEVER,
		 false},
		{"segments that are not on disk",
		 {unready, 4, 0, 310, 0.5, 0, NEVER, NEVER, 1000},
		 1,
		 0,
		 100,
		 0,
		 false},
		{"an active segment only", {s + 3, 1, 0, 310, 0, 0, 1, NEVER, 1000}, 0, 0, -1, NEVER, false},
		{"no segment", {s, 0, 0, 0, 0, 0, 1, NEVER, 1000}, 0, 0, -1, NEVER, false},
		{"the log start has passed what was cleaned",
		 {s + 1, 3, 50, 310, 0.5, 0, NEVER, NEVER, 1000},
		 2,
		 100,
		 300,
		 0,
		 false},
	};

	memcpy(unready, s, sizeof(unready));
	unready[1].ready = false;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
	{
		CompactVerdict v = compact_rule(&t[i].q);
		bool same = v.run == (t[i].to >= 0) && v.n == t[i].n;

		if (v.run)
			same = same && v.dirty_from == t[i].from && v.dirty_end == t[i].to && v.reason != NULL;
		else
			same = same && v.look_ms == t[i].look && v.waits_for_high == t[i].high;
		ok(same, "%s: run %d, %d segments, %d to %d, look at %lld", t[i].what, v.run, v.n, (int) v.dirty_from,
		   (int) v.dirty_end, (long long) v.look_ms);
	}
}

static void
test_groups(void)
{
	const CompactSegment s[] = {{0, 100, 400, 0, 0, 40, true},
								{100, 200, 400, 0, 0, 40, true},
								{200, 300, 300, 0, 0, 40, true},
								{300, (int64_t) INT32_MAX + 1, 10, 0, 0, 4, true},
								{(int64_t) INT32_MAX + 1, (int64_t) INT32_MAX + 2, 10, 0, 0, 4, true}};

	is_int(compact_group(s, 0, 3, 800, 1000), 2, "up to segment.bytes");
	is_int(compact_group(s, 2, 3, 800, 1000), 1, "the rest");
	is_int(compact_group(s, 0, 3, 100, 1000), 1, "one that is too large alone stays alone");
	is_int(compact_group(s, 0, 3, 10000, 80), 2, "up to segment.index.bytes");
	is_int(compact_group(s, 0, 4, 10000, 1000), 4, "as far as 31 bits of offsets go");
	is_int(compact_group(s, 0, 5, 10000, 1000), 4, "and no further");
	is_int(compact_group(s, 1, 5, 10000, 1000), 4, "from the next one on it fits");
}

int
main(void)
{
	srand(getenv("SEED") != NULL ? (unsigned) atoi(getenv("SEED")) : 1);
	wire_writer_init(&made);
	test_map();
	for (int codec = 0; codec < 5; codec++)
		test_batch(codec);
	test_tombstones();
	test_special();
	test_against_list();
	test_rule();
	test_groups();
	wire_writer_free(&made);
	return tap_done();
}
