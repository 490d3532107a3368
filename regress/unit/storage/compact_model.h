/*
 * compact_model.h: a log of keyed records beside a plain list of them, and the question that every test of compaction
 * ends with: is in the log what must be there?
 *
 *     what was cleaned   of each key one record, the newest
 *     all of it          no record that was never written; offsets rise; of each key the newest record, but for
 *                        tombstones whose time is up, and then nothing of that key
 */
#ifndef REGRESS_UNIT_STORAGE_COMPACT_MODEL_H
#define REGRESS_UNIT_STORAGE_COMPACT_MODEL_H

#include "brokerd/storage/compaction.h"
#include "brokerd/storage/manager.h"
#include "regress/unit/storage/harness.h"

typedef struct ModelRecord
{
	int key;   /* -1: without one */
	int value; /* -1: a tombstone */
	int64_t time;
	bool seen;
} ModelRecord;

typedef struct Model
{
	ModelRecord *records; /* by offset */
	int64_t n;
	int64_t cap;
	int next_value;
} Model;

static void
model_add(Model *m, int key, int value, int64_t time)
{
	if (m->n == m->cap)
	{
		m->cap = m->cap ? m->cap * 2 : 1024;
		m->records = realloc(m->records, sizeof(*m->records) * (size_t) m->cap);
	}
	m->records[m->n++] = (ModelRecord){key, value, time, false};
}

typedef struct KeyedSpec
{
	int records;
	int codec;
	int64_t producer_id; /* 0: none */
	int32_t sequence;
	int32_t epoch;
	int64_t time;
	int pad; /* bytes behind the value */
	bool append_time;
} KeyedSpec;

static int model_keys = 50;
static int model_tombstones = 10; /* of 100 */

/* A batch of random keys goes to the log and to the model. */
static bool
model_append(Harness *h, Log *log, Model *m, const KeyedSpec *spec)
{
	BatchBuilder bb;
	WireWriter w;
	Owned *o = malloc(sizeof(*o));
	LogAppend a = {.leader_epoch = spec->epoch, .transaction_verified = true};

	wire_writer_init(&w);
	batch_begin(&bb, &w, spec->codec);
	for (int i = 0; i < spec->records; i++)
	{
		char key[32], value[600];
		int k = rand() % model_keys, v = rand() % 100 < model_tombstones ? -1 : m->next_value++;
		int64_t t = spec->time + i;
		int len = snprintf(value, sizeof(value), "value-%d-%0*d", v, spec->pad, 0);
		int key_len = snprintf(key, sizeof(key), "key-%d", k);
		RecordHeader header = {{"h", 1}, {(const uint8_t *) "x", 1}};

		batch_add(&bb, t, (WBytes){(const uint8_t *) key, key_len},
				  v < 0 ? WBYTES_NULL : (WBytes){(const uint8_t *) value, len}, &header, v % 3 == 0 ? 1 : 0);
		model_add(m, k, v, t);
	}
	if (spec->producer_id != 0)
	{
		bb.producer_id = spec->producer_id;
		bb.producer_epoch = 0;
		bb.base_sequence = spec->sequence;
	}
	if (batch_end(&bb) != 0)
		abort();
	a.records = w.buf;
	a.len = (int32_t) w.len;
	*o = (Owned){h, w.buf};
	a.release = harness_release;
	a.owner = o;
	return log_append_as_leader(log, &a) == 0;
}

typedef struct ModelCheck
{
	int64_t records;
	int batches;
	int empty;
	int horizons;
	int64_t next;
	char wrong[200];
} ModelCheck;

static void
model_check_batch(Model *m, ModelCheck *c, const uint8_t *b)
{
	WireWriter scratch;
	RecordIter it;
	Record r;
	int64_t max = -1;

	wire_writer_init(&scratch);
	if (batch_base_offset(b) < c->next || batch_next_offset(b) > m->n)
		snprintf(c->wrong, sizeof(c->wrong), "batch %" PRId64 "..%" PRId64 " is out of order",
				 batch_base_offset(b), batch_last_offset(b));
	c->next = batch_next_offset(b);
	c->batches++;
	c->empty += batch_count(b) == 0;
	c->horizons += (batch_attributes(b) & BATCH_DELETE_HORIZON) != 0;
	if (batch_records(b, 1 << 24, &scratch, &it) != COMPRESS_OK)
		snprintf(c->wrong, sizeof(c->wrong), "batch %" PRId64 " cannot be read", batch_base_offset(b));
	else
		while (record_next(&it, &r))
		{
			ModelRecord *want = r.offset < m->n ? &m->records[r.offset] : NULL;
			char key[32], value[32];
			int key_len, len;

			if (want == NULL)
				break;
			key_len = snprintf(key, sizeof(key), "key-%d", want->key);
			len = snprintf(value, sizeof(value), "value-%d-", want->value);
			if (r.key.len != key_len || memcmp(r.key.p, key, (size_t) key_len) != 0 ||
				(want->value < 0) != (r.value.len < 0) ||
				(want->value >= 0 && (r.value.len < len || memcmp(r.value.p, value, (size_t) len) != 0)))
				snprintf(c->wrong, sizeof(c->wrong), "offset %" PRId64 " is another record", r.offset);
			if (!(batch_attributes(b) & BATCH_LOG_APPEND_TIME) && r.timestamp != want->time)
				snprintf(c->wrong, sizeof(c->wrong), "offset %" PRId64 " has time %" PRId64 ", not %" PRId64,
						 r.offset, r.timestamp, want->time);
			if (want->value >= 0 && r.n_headers != (want->value % 3 == 0))
				snprintf(c->wrong, sizeof(c->wrong), "offset %" PRId64 " has lost its headers", r.offset);
			if (r.timestamp > max)
				max = r.timestamp;
			want->seen = true;
			c->records++;
		}
	if (it.malformed)
		snprintf(c->wrong, sizeof(c->wrong), "batch %" PRId64 " is malformed", batch_base_offset(b));
	if (batch_count(b) > 0 && !(batch_attributes(b) & BATCH_LOG_APPEND_TIME) && max != batch_max_timestamp(b))
		snprintf(c->wrong, sizeof(c->wrong), "batch %" PRId64 " has max timestamp %" PRId64 ", not %" PRId64,
				 batch_base_offset(b), batch_max_timestamp(b), max);
	wire_writer_free(&scratch);
}

/* Reads the log from `from` by slices of at most `max_bytes`; the records that are there are marked in the model. */
static void
model_read(Harness *h, Log *log, Model *m, int64_t from, int32_t max_bytes, ModelCheck *c)
{
	*c = (ModelCheck){.next = from};
	for (int64_t i = 0; i < m->n; i++)
		m->records[i].seen = false;
	for (int64_t next = from; next < log_written_end(log) && c->wrong[0] == '\0';)
	{
		int32_t len, pos = 0;
		int64_t told;
		uint8_t *buf;
		int16_t error = harness_read(h, log, next, INT64_MAX, max_bytes);

		if (error != 0 || h->slice.len == 0)
		{
			snprintf(c->wrong, sizeof(c->wrong), "offset %" PRId64 " cannot be read (%d)", next, error);
			return;
		}
		len = h->slice.len;
		told = h->slice.next_offset;
		if ((buf = harness_bytes(h)) == NULL)
		{
			snprintf(c->wrong, sizeof(c->wrong), "the slice at %" PRId64 " is short", next);
			return;
		}
		while (pos < len && c->wrong[0] == '\0')
		{
			const uint8_t *b = buf + pos;

			if (batch_check(b, (size_t) (len - pos), false) != BATCH_OK || !batch_crc_matches(b))
			{
				snprintf(c->wrong, sizeof(c->wrong), "a batch behind %" PRId64 " is damaged", next);
				break;
			}
			/* The first may begin before the offset that was asked for. */
			if (pos == 0 && batch_base_offset(b) < c->next && batch_last_offset(b) >= next)
				c->next = batch_base_offset(b);
			model_check_batch(m, c, b);
			pos += (int32_t) batch_size(b);
		}
		free(buf);
		if (told <= next && c->wrong[0] == '\0')
			snprintf(c->wrong, sizeof(c->wrong), "the read at %" PRId64 " does not get on", next);
		if (c->wrong[0] == '\0' && told < c->next)
			snprintf(c->wrong, sizeof(c->wrong),
					 "the read at %" PRId64 " says %" PRId64 " instead of %" PRId64, next, told, c->next);
		next = told;
	}
}

/* The last offset below `end` of each key; malloc'ed. */
static int64_t *
model_newest(const Model *m, int64_t end)
{
	int64_t *newest = malloc(sizeof(*newest) * (size_t) model_keys);

	for (int k = 0; k < model_keys; k++)
		newest[k] = -1;
	for (int64_t i = 0; i < end && i < m->n; i++)
		newest[m->records[i].key] = i;
	return newest;
}

/*
 * After model_read() from the log's start `from`: what has a newer record below `sure` must be gone, what has none below
 * `may` must be there.  `tombstones_went`: those below `may` need not.  NULL, or what is wrong.
 */
static const char *
model_verdict(Model *m, ModelCheck *c, int64_t from, int64_t sure, int64_t may, bool tombstones_went)
{
	int64_t *newest = model_newest(m, m->n), *in_sure = model_newest(m, sure), *in_may = model_newest(m, may);

	for (int64_t i = from; i < m->n && c->wrong[0] == '\0'; i++)
	{
		const ModelRecord *r = &m->records[i];

		if (!r->seen && (i >= may || in_may[r->key] == i) && !(r->value < 0 && i < may && tombstones_went))
			snprintf(c->wrong, sizeof(c->wrong), "LOST: offset %" PRId64 " of key %d, newest is %" PRId64, i,
					 r->key, newest[r->key]);
		else if (r->seen && i < sure && in_sure[r->key] != i)
			snprintf(c->wrong, sizeof(c->wrong), "offset %" PRId64 " is there, though %" PRId64 " is newer",
					 i, in_sure[r->key]);
	}
	/* Nothing that a tombstone hides may come back with it. */
	for (int k = 0; k < model_keys && c->wrong[0] == '\0'; k++)
		for (int64_t i = newest[k] - 1; newest[k] >= 0 && !m->records[newest[k]].seen && i >= from; i--)
			if (m->records[i].key == k && m->records[i].seen)
				snprintf(c->wrong, sizeof(c->wrong),
						 "BACK: offset %" PRId64 " of key %d, which was deleted at %" PRId64, i, k,
						 newest[k]);
	free(newest);
	free(in_sure);
	free(in_may);
	return c->wrong[0] == '\0' ? NULL : c->wrong;
}

__attribute__((unused)) static void
model_free(Model *m)
{
	free(m->records);
	*m = (Model){0};
}

/* ---- logs that are compacted ---- */

/* SEED, or another each time. */
__attribute__((unused)) static unsigned
model_seed(void)
{
	unsigned seed =
		getenv("SEED") != NULL ? (unsigned) atoi(getenv("SEED")) : (unsigned) (clock_boot_us() & 0xffffff);

	printf("# SEED=%u\n", seed);
	return seed;
}

__attribute__((unused)) static void
compact_init(Harness *h, const char *name)
{
	harness_init(h, name);
	h->config.cleanup_delete = false;
	h->config.cleanup_compact = true;
	h->config.segment_bytes = 8000;
	h->config.index_interval_bytes = 500;
	h->config.min_dirty_ratio = 0.01;
}

__attribute__((unused)) static bool
is_idle(const Log *log)
{
	const LogCompaction *c = log->compaction;

	/* A pass that finds a segment's index on its way to the disk goes on a second later. */
	return c == NULL || (c->job == NULL && !c->waiting && c->due_ms > clock_wall_ms() + 1500);
}

__attribute__((unused)) static void
settle(Harness *h, Log *log)
{
	harness_wait(h, log_synced_end(log) == log_appended_end(log));
	log_set_high_watermark(log, log_synced_end(log));
	harness_turn(h);
	harness_wait(h, is_idle(log));
}

__attribute__((unused)) static void
check(Harness *h, Log *log, Model *m, bool tombstones_went, const char *what)
{
	ModelCheck c;
	const char *wrong;

	model_read(h, log, m, log_start_offset(log), 3000, &c);
	wrong = model_verdict(m, &c, log_start_offset(log), log->cleaned_end, log->cleaned_end, tombstones_went);
	ok(wrong == NULL, "%s: %d batches, %d of %d records, cleaned to %d of %d%s%s", what, c.batches,
	   (int) c.records, (int) m->n, (int) log->cleaned_end, (int) log_synced_end(log),
	   wrong == NULL ? "" : ": ", wrong == NULL ? "" : wrong);
}

__attribute__((unused)) static void
model_fill(Harness *h, Log *log, Model *m, int batches)
{
	int64_t now = clock_wall_ms() - 100000;

	for (int i = 0; i < batches; i++)
		model_append(h, log, m,
					 &(KeyedSpec){.records = 1 + rand() % 9,
								  .codec = rand() % 5,
								  .epoch = log_latest_epoch(log) < 0 ? 0 : log_latest_epoch(log),
								  .time = now + i * 10,
								  .pad = 1 + rand() % 60});
}

/* A log with so many batches, all synced; the high watermark is where it was. */
__attribute__((unused)) static void
model_log(Harness *h, Model *m, Log **log, int batches)
{
	*log = harness_log(h, "t", 0);
	model_fill(h, *log, m, batches);
	harness_wait(h, log_synced_end(*log) == log_appended_end(*log));
}

#endif
