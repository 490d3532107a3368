/* Compaction of whole logs: what stays, after restarts, in followers, for producers and epochs. */
#include "regress/unit/storage/compact_model.h"

static void
test_rounds(void)
{
	Harness h;
	Model m = {0};
	Log *log;
	Err err;
	int64_t before;

	compact_init(&h, "rounds");
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	for (int round = 0; round < 6; round++)
	{
		if (!log_begin_epoch(log, round * 2, &err))
			abort();
		model_fill(&h, log, &m, 300);
		settle(&h, log);
		check(&h, log, &m, false, "a round");
	}
	ok(log->cleaned_end > 0, "there was something to compact");
	before = log_size_bytes(log);
	harness_close(&h);
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	is_int(log_size_bytes(log), before, "the same size after a restart");
	check(&h, log, &m, false, "after a clean stop");
	settle(&h, log);
	ok(log->cleaned_end > 0, "what was cleaned is remembered");
	model_fill(&h, log, &m, 100);
	settle(&h, log);
	check(&h, log, &m, false, "and it goes on");
	harness_close(&h);
	unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	ok(log_error(log) == NULL, "it opens after a crash");
	is_int(log_synced_end(log), m.n, "with the same end");
	check(&h, log, &m, false, "after a crash");
	harness_close(&h);
	model_free(&m);
	harness_remove(h.dir);
}

static void
test_small_map(void)
{
	Harness h;
	Model m = {0};
	Log *log;

	compact_init(&h, "smallmap");
	h.opt.compact_map_bytes = 16 * 24;
	model_keys = 100;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	model_fill(&h, log, &m, 400);
	settle(&h, log);
	ok(log->cleaned_end > log->segments[log->nsegments - 1]->base_offset - 100,
	   "a map of 12 keys gets to the end");
	check(&h, log, &m, false, "a map that is always full");
	harness_close(&h);
	model_keys = 50;
	model_free(&m);
	harness_remove(h.dir);
}

static void
test_tombstones(void)
{
	Harness h;
	Model m = {0};
	ModelCheck c;
	Log *log;

	compact_init(&h, "tombs");
	h.config.delete_retention_ms = 3600000;
	model_tombstones = 60;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	model_fill(&h, log, &m, 400);
	settle(&h, log);
	check(&h, log, &m, false, "tombstones stay");
	model_read(&h, log, &m, 0, 100000, &c);
	ok(c.horizons > 0, "with their time noted in %d batches", c.horizons);
	harness_close(&h);
	/* A shorter retention is for those that come. */
	h.config.delete_retention_ms = 300;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	model_fill(&h, log, &m, 400);
	settle(&h, log);
	check(&h, log, &m, true, "with a short time");
	harness_wait(&h, log->compaction->tombstones_go_ms > clock_wall_ms() + 100000);
	settle(&h, log);
	check(&h, log, &m, true, "and they are gone");
	model_read(&h, log, &m, 0, 100000, &c);
	for (int64_t i = 0; i < log->cleaned_end; i++)
		if (m.records[i].seen && m.records[i].value < 0 && m.n - i < 700)
			c.horizons = 1000;
	ok(c.horizons < 1000, "the young ones are gone by themselves");
	harness_close(&h);
	model_tombstones = 10;
	model_free(&m);
	harness_remove(h.dir);
}

/* compact,delete: segments go by age as well, also while a pass is under way. */
static void
test_retention(void)
{
	Harness h;
	Model m = {0};
	Log *log;
	ModelCheck c;
	int64_t lost = 0;

	compact_init(&h, "both");
	h.config.cleanup_delete = true;
	harness_open(&h);
	model_log(&h, &m, &log, 300);
	settle(&h, log);
	check(&h, log, &m, false, "compacted");
	model_fill(&h, log, &m, 200);
	harness_wait(&h, log_synced_end(log) == log_appended_end(log));
	h.config.retention_bytes = 3 * 8000;
	log_set_config(log, &h.config);
	settle(&h, log);
	harness_wait(&h, log_start_offset(log) > 0);
	settle(&h, log);
	ok(log_start_offset(log) > 0, "old segments are gone as well");
	model_read(&h, log, &m, log_start_offset(log), 3000, &c);
	for (int64_t i = log->cleaned_end > log_start_offset(log) ? log->cleaned_end : log_start_offset(log);
		 i < m.n; i++)
		lost += !m.records[i].seen;
	ok(c.wrong[0] == '\0' && lost == 0, "the rest is as it should be%s", c.wrong);
	is_int(log_raise_start(log, log_high_watermark(log) - 3), 0, "records are deleted by a client");
	harness_wait(&h, log_start_offset(log) == log_high_watermark(log) - 3);
	settle(&h, log);
	model_read(&h, log, &m, log_start_offset(log), 3000, &c);
	ok(c.wrong[0] == '\0', "and it goes on%s", c.wrong);
	harness_close(&h);
	model_free(&m);
	harness_remove(h.dir);
}

/* harness_count_batches() for a log with gaps. */
static int
count_batches(Harness *h, Log *log, int32_t max_bytes)
{
	int n = 0;

	for (int64_t next = 0, at = 0; next < log_written_end(log);)
	{
		int32_t len, pos = 0;
		uint8_t *buf;

		if (harness_read(h, log, next, INT64_MAX, max_bytes) != 0 || h->slice.len == 0 ||
			h->slice.next_offset <= next)
			return -1;
		len = h->slice.len;
		next = h->slice.next_offset;
		buf = harness_bytes(h);
		for (; pos < len; pos += (int32_t) batch_size(buf + pos), n++)
		{
			if (!batch_crc_matches(buf + pos) || batch_base_offset(buf + pos) < at)
				n = -1000000;
			at = batch_next_offset(buf + pos);
		}
		free(buf);
	}
	return n;
}

/* A follower gets batches with gaps between them, rolls, crashes, and ends where the leader's batches end. */
static void
test_follower(void)
{
	Harness h;
	Log *log;
	int64_t next = 7;
	int batches = 0;
	LogAppend a;

	harness_init(&h, "follower");
	h.config.segment_bytes = 1500;
	h.config.index_interval_bytes = 100;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	for (int i = 0; i < 60; i++)
	{
		int32_t len;
		Owned *o = malloc(sizeof(*o));

		a = (LogAppend){.leader_epoch = 3 + i / 20};
		a.records = make_batch(&(BatchSpec){.records = 2, .value_len = 100}, &len);
		a.len = len;
		batch_set_base_offset(a.records, next);
		batch_set_leader_epoch(a.records, 3 + i / 20);
		*o = (Owned){&h, a.records};
		a.release = harness_release;
		a.owner = o;
		if (log_append_as_follower(log, &a) != 0)
		{
			ok(false, "%s", a.message);
			free(o->buf);
			free(o);
		}
		batches++;
		next += 2 + rand() % 30;
		if (i == 40)
			next += (int64_t) INT32_MAX + 10;
	}
	harness_wait(&h, log_synced_end(log) == log_appended_end(log));
	for (int i = 0; i + 1 < log->nsegments; i++)
		if (log->segments[i]->end_offset != log->segments[i + 1]->base_offset &&
			log->segments[i + 1]->base_offset - log->segments[i]->base_offset <= INT32_MAX)
			ok(false, "segment %d begins behind a gap", i + 1);
	is_int(count_batches(&h, log, 500), batches, "all batches are read across the gaps");
	for (int clean = 1; clean >= 0; clean--)
	{
		int64_t end = log_synced_end(log);

		harness_close(&h);
		unlink(harness_path(&h, "", ".pg_broker-manifest"));
		if (!clean)
		{
			unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
			unlink(harness_path(&h, "", "recovery-point-offset-checkpoint"));
		}
		harness_open(&h);
		log = harness_log(&h, "t", 0);
		ok(log_error(log) == NULL, "%s: it opens%s%s", clean ? "a clean stop" : "a crash",
		   log_error(log) == NULL ? "" : ": ", log_error(log) == NULL ? "" : log_error(log));
		is_int(log_synced_end(log), end, "with the same end");
		is_int(count_batches(&h, log, 500), batches, "and all batches");
		is_int(log_latest_epoch(log), 5, "and epochs");
	}
	harness_close(&h);
	harness_remove(h.dir);
}

/* The last batch of each producer stays, so the next one is no gap and the same again no new one. */
static void
test_producers(void)
{
	Harness h;
	Model m = {0};
	Log *log;
	LogAppend a;

	compact_init(&h, "producers");
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	for (int i = 0; i < 30; i++)
		model_append(
			&h, log, &m,
			&(KeyedSpec){.records = 2, .producer_id = 100 + i, .sequence = 0, .time = 1 + i, .pad = 10});
	model_fill(&h, log, &m, 200);
	settle(&h, log);
	check(&h, log, &m, false, "with 30 producers");
	harness_close(&h);
	unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
	/* Their state has to come out of the log. */
	{
		DIR *dh = opendir(harness_path(&h, "t-0", ""));
		struct dirent *e;

		while ((e = readdir(dh)) != NULL)
			if (strstr(e->d_name, ".snapshot") != NULL)
				unlinkat(dirfd(dh), e->d_name, 0);
		closedir(dh);
		unlink(harness_path(&h, "", "recovery-point-offset-checkpoint"));
	}
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	is_int(log_producers(log, NULL, 0), 30, "all producers are known after a crash");
	is_int(harness_append(&h, log, &(BatchSpec){.records = 2, .producer_id = 110, .sequence = 0}, &a), 0,
		   "the same batch again");
	ok(a.duplicate, "is a duplicate");
	is_int(harness_append(&h, log, &(BatchSpec){.records = 1, .producer_id = 110, .sequence = 2}, &a), 0,
		   "the next one is taken");
	ok(!a.duplicate, "as a new one");
	is_int(harness_append(&h, log, &(BatchSpec){.records = 1, .producer_id = 111, .sequence = 3}, &a),
		   KERR_OUT_OF_ORDER_SEQUENCE_NUMBER, "one behind a gap is not");
	harness_close(&h);
	model_free(&m);
	harness_remove(h.dir);
}

/* Who is filled from a compacted log knows the same epochs. */
static void
test_epochs(void)
{
	Harness h;
	Model m = {0};
	Log *log;
	Err err;
	int32_t found;
	int64_t end, starts[8];
	int seen = 0, last = -1;

	compact_init(&h, "epochs");
	model_keys = 3;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	for (int e = 0; e < 8; e++)
	{
		starts[e] = log_appended_end(log);
		if (!log_begin_epoch(log, e, &err))
			abort();
		model_fill(&h, log, &m, 60);
	}
	settle(&h, log);
	check(&h, log, &m, false, "eight epochs");
	for (int64_t next = 0; next < log_written_end(log);)
	{
		int32_t len, pos = 0;
		uint8_t *buf;

		if (harness_read(&h, log, next, INT64_MAX, 100000) != 0 || h.slice.len == 0)
			break;
		len = h.slice.len;
		next = h.slice.next_offset;
		buf = harness_bytes(&h);
		for (; pos < len; pos += (int32_t) batch_size(buf + pos))
			if (batch_leader_epoch(buf + pos) != last)
			{
				last = batch_leader_epoch(buf + pos);
				seen += last >= 0 && last < 8 && batch_base_offset(buf + pos) == starts[last];
			}
		free(buf);
	}
	is_int(seen, 8, "a follower sees each of them begin where it began");
	log_epoch_end(log, 3, &found, &end);
	is_int(end, starts[4], "and is told where it ends");
	harness_close(&h);
	model_keys = 50;
	model_free(&m);
	harness_remove(h.dir);
}

/* max.compaction.lag.ms rolls the active segment, so that a quiet log is compacted to its end. */
static void
test_lag(void)
{
	Harness h;
	Model m = {0};
	Log *log;

	compact_init(&h, "lag");
	h.config.segment_bytes = 1 << 20;
	h.config.min_dirty_ratio = 1;
	h.config.max_compaction_lag_ms = 300;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	model_fill(&h, log, &m, 50);
	harness_wait(&h, log_synced_end(log) == log_appended_end(log));
	log_set_high_watermark(log, log_synced_end(log));
	harness_wait(&h, log->cleaned_end == m.n);
	is_int(log->cleaned_end, m.n, "compacted to its end");
	settle(&h, log);
	check(&h, log, &m, false, "max.compaction.lag.ms");
	harness_close(&h);
	unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	is_int(log_synced_end(log), m.n, "after a crash it ends where it ended");
	model_fill(&h, log, &m, 1);
	harness_wait(&h, log_synced_end(log) == log_appended_end(log));
	h.config.max_compaction_lag_ms = INT64_MAX;
	h.config.min_dirty_ratio = 0;
	h.config.min_compaction_lag_ms = 3600000;
	h.config.segment_ms = 1;
	log_set_config(log, &h.config);
	model_fill(&h, log, &m, 5);
	settle(&h, log);
	ok(log->cleaned_end < m.n && log->compaction->due_ms < clock_wall_ms() + 3700000,
	   "min.compaction.lag.ms waits, and knows for how long");
	harness_close(&h);
	model_free(&m);
	harness_remove(h.dir);
}

int
main(void)
{
	srand(model_seed());
	test_rounds();
	test_small_map();
	test_tombstones();
	test_retention();
	test_follower();
	test_producers();
	test_epochs();
	test_lag();
	return tap_done();
}
