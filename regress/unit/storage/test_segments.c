/* Rolling, retention, deletion, DeleteRecords, epochs, truncation, lookups by time. */
#include "brokerd/storage/epoch_cache.h"
#include "regress/unit/storage/harness.h"

static int
count_files(const char *dir, const char *part)
{
	DIR *dh = opendir(dir);
	struct dirent *e;
	int n = 0;

	if (dh == NULL)
		return -1;
	while ((e = readdir(dh)) != NULL)
		n += strstr(e->d_name, part) != NULL;
	closedir(dh);
	return n;
}

static int
segments(Harness *h, const char *log)
{
	return count_files(harness_path(h, log, ""), ".log");
}

static void
fill(Harness *h, Log *log, int batches, int value_len, int64_t timestamp)
{
	LogAppend a;

	for (int i = 0; i < batches; i++)
		if (harness_append(
				h, log, &(BatchSpec){.value_len = value_len, .timestamp = timestamp == 0 ? 0 : timestamp + i},
				&a) != 0)
			ok(false, "append: %s", a.message);
	harness_wait(h, log_synced_end(log) == log_appended_end(log));
	log_set_high_watermark(log, log_synced_end(log));
}

static void
test_roll(void)
{
	Harness h;
	Log *log;
	int64_t now = clock_wall_ms();

	harness_init(&h, "roll");
	h.config.segment_bytes = 1000;
	harness_open(&h);
	log = harness_log(&h, "bytes", 0);
	fill(&h, log, 10, 300, 0);
	is_int(segments(&h, "bytes-0"), 5, "segment.bytes: two batches a segment");
	h.config.segment_bytes = 1 << 30;
	h.config.segment_ms = 50;
	log = harness_log(&h, "ms", 0);
	fill(&h, log, 1, 10, now);
	fill(&h, log, 1, 10, now + 40);
	is_int(segments(&h, "ms-0"), 1, "segment.ms: not yet");
	fill(&h, log, 1, 10, now + 60);
	is_int(segments(&h, "ms-0"), 2, "by the time of the records");
	h.config.segment_ms = 604800000;
	h.config.segment_index_bytes = 40;
	h.config.index_interval_bytes = 10;
	log = harness_log(&h, "index", 0);
	fill(&h, log, 12, 100, now);
	ok(segments(&h, "index-0") >= 3, "segment.index.bytes: a full index");
	is_int(harness_count_batches(&h, log, 0, 1 << 20), 12, "and all of it is read");
	is_int(harness_append(&h, log, &(BatchSpec){.value_len = 2000000}, &(LogAppend){0}),
		   KERR_MESSAGE_TOO_LARGE, "max.message.bytes");
	h.config.segment_bytes = 5000;
	log_set_config(log, &h.config);
	is_int(harness_append(&h, log, &(BatchSpec){.value_len = 6000}, &(LogAppend){0}),
		   KERR_RECORD_LIST_TOO_LARGE, "larger than a segment");
	harness_close(&h);
	unlink(harness_path(&h, "", ".pg_broker-manifest"));
	harness_open(&h);
	is_int(harness_count_batches(&h, harness_log(&h, "bytes", 0), 0, 1 << 20), 10,
		   "read again after a restart");
	is_int(harness_count_batches(&h, harness_log(&h, "bytes", 0), 5, 100), 5, "from the middle");
	harness_close(&h);
	harness_remove(h.dir);
}

static void
test_retention(void)
{
	Harness h;
	Log *log;
	int64_t now = clock_wall_ms();

	harness_init(&h, "keep");
	h.config.segment_bytes = 1000;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	fill(&h, log, 10, 300, now - 100000);
	fill(&h, log, 2, 300, now);
	h.config.retention_ms = 50000;
	log_set_config(log, &h.config);
	harness_wait(&h, log_start_offset(log) == 10);
	is_int(log_start_offset(log), 10, "retention.ms: what is older is gone");
	harness_wait(&h, segments(&h, "t-0") == 1);
	is_int(segments(&h, "t-0"), 1, "and deleted in the background");
	is_int(count_files(harness_path(&h, "t-0", ""), ".deleted"), 0, "completely");
	is_int(harness_read(&h, log, 3, 12, 1000), KERR_OFFSET_OUT_OF_RANGE, "it cannot be read");
	h.config.retention_ms = -1;
	h.config.retention_bytes = 1500;
	log_set_config(log, &h.config);
	fill(&h, log, 10, 300, now);
	harness_wait(&h, log_size_bytes(log) < 2500);
	ok(log_size_bytes(log) >= 1500 && log_size_bytes(log) < 2500, "retention.bytes: %d bytes are kept",
	   (int) log_size_bytes(log));
	/* Everything is too old: the log is empty but goes on at its offset. */
	h.config.retention_ms = 1;
	log_set_config(log, &h.config);
	harness_wait(&h, log_start_offset(log) == 22);
	is_int(log_start_offset(log), 22, "all of it expires, the active segment too");
	is_int(log_size_bytes(log), 0, "no byte is left");
	h.config.retention_ms = -1;
	log_set_config(log, &h.config);
	fill(&h, log, 1, 10, 0);
	is_int(log_synced_end(log), 23, "and it goes on");
	harness_close(&h);
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	is_int(log_start_offset(log), 22, "the log start is kept");

	/* Nothing goes that consumers may not have seen: above the high watermark. */
	log = harness_log(&h, "u", 0);
	fill(&h, log, 4, 300, now - 100000);
	log_set_high_watermark(log, 0);
	h.config.retention_ms = 1000;
	log_set_config(log, &h.config);
	harness_turn(&h);
	harness_turn(&h);
	is_int(log_start_offset(log), 0, "what is above the high watermark stays, however old");
	log_set_high_watermark(log, 4);
	harness_wait(&h, log_start_offset(log) == 4);
	is_int(log_start_offset(log), 4, "and goes when the mark has passed it");
	harness_close(&h);
	harness_remove(h.dir);
}

static void
test_delete_records(void)
{
	Harness h;
	Log *log;

	harness_init(&h, "raise");
	h.config.segment_bytes = 1000;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	fill(&h, log, 10, 300, 0);
	log_set_high_watermark(log, 10);
	is_int(log_raise_start(log, 11), KERR_OFFSET_OUT_OF_RANGE, "beyond the high watermark");
	is_int(log_raise_start(log, 7), 0, "within a segment");
	harness_wait(&h, log_start_offset(log) == 7);
	is_int(log_start_offset(log), 7, "the log start moves");
	harness_wait(&h, segments(&h, "t-0") == 2);
	is_int(segments(&h, "t-0"), 2, "whole segments below are deleted");
	is_int(harness_count_batches(&h, log, 7, 1 << 20), 3, "the rest is read");
	unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
	harness_close(&h);
	unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
	harness_open(&h);
	is_int(log_start_offset(harness_log(&h, "t", 0)), 7, "and kept over a crash");
	harness_close(&h);
	harness_remove(h.dir);
}

static void
test_delete_log(void)
{
	Harness h;
	Log *log;
	LogAppend a;
	Err err;
	char long_name[250];
	uint8_t *bytes;
	LogSlice held;

	harness_init(&h, "drop");
	h.config.segment_bytes = 1000;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	fill(&h, log, 5, 300, 0);
	harness_read(&h, log, 0, 5, 1000);
	held = h.slice;
	harness_append(&h, log, &(BatchSpec){0}, &a);
	log_manager_delete(h.m, log);
	ok(log_manager_find(h.m, "t", 1, 0) == NULL, "a deleted log is gone at once");
	log = log_manager_create(h.m, "t", 1, 0, &harness_topic_id, &h.config, &err);
	ok(log != NULL && log_appended_end(log) == 0, "one of the same name begins at 0");
	fill(&h, log, 3, 300, 0);
	is_int(harness_count_batches(&h, log, 0, 1 << 20), 3, "and is its own");
	for (int i = 0; i < 5; i++)
		harness_turn(&h);
	is_int(count_files(h.dir, "-delete"), 1, "the folder waits for the slice that is still read");
	h.slice = held;
	bytes = harness_bytes(&h);
	ok(bytes != NULL && batch_crc_matches(bytes), "which is whole");
	free(bytes);
	harness_wait(&h, count_files(h.dir, "-delete") == 0);
	is_int(count_files(h.dir, "-delete"), 0, "then it goes");
	memset(long_name, 'x', sizeof(long_name));
	log = log_manager_create(h.m, long_name, 249, 0, NULL, &h.config, &err);
	ok(log != NULL, "a topic of 249 characters");
	harness_close(&h);
	h.opt.delete_delay_ms = 3600000;
	harness_open(&h);
	log = log_manager_find(h.m, long_name, 249, 0);
	log_manager_delete(h.m, log);
	is_int(count_files(h.dir, "-delete"), 1, "has a folder name of at most 255 bytes when it goes");
	harness_close(&h);
	harness_open(&h);
	harness_wait(&h, count_files(h.dir, "-delete") == 0);
	is_int(count_files(h.dir, "-delete"), 0, "what a stop left over is removed at the next start");
	is_int(log_manager_count(h.m), 1, "and is no log");
	harness_close(&h);
	harness_remove(h.dir);
}

static void
test_epochs(void)
{
	EpochCache c = {0};
	static const struct
	{
		int32_t ask;
		int32_t found;
		int64_t end;
	} rows[] = {{-1, -1, -1}, {2, 2, 0},   {3, 3, 100}, {4, 3, 100},
				{5, 5, 250},  {8, 5, 250}, {9, 9, 300}, {10, -1, -1}};
	int32_t found;
	int64_t end;
	Harness h;
	Log *log;
	Err err;

	epoch_cache_assign(&c, 3, 0);
	epoch_cache_assign(&c, 5, 100);
	epoch_cache_assign(&c, 9, 250);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		epoch_cache_end(&c, rows[i].ask, 300, &found, &end);
		ok(found == rows[i].found && end == rows[i].end, "end of epoch %d: %d, %d", rows[i].ask, found,
		   (int) end);
	}
	is_int(epoch_cache_at(&c, 99), 3, "epoch of an offset");
	ok(!epoch_cache_assign(&c, 9, 260), "the same epoch again changes nothing");
	epoch_cache_truncate_start(&c, 120);
	ok(c.n == 2 && c.e[0].epoch == 5 && c.e[0].start_offset == 120, "cut at the start");
	epoch_cache_truncate_end(&c, 250);
	ok(c.n == 1 && epoch_cache_latest(&c) == 5, "cut at the end");
	epoch_cache_assign(&c, 4, 200);
	ok(c.n == 1 && c.e[0].epoch == 4, "what contradicts goes");
	epoch_cache_free(&c);

	harness_init(&h, "epoch");
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	ok(log_begin_epoch(log, 4, &err), "epoch 4");
	fill(&h, log, 3, 10, 0);
	ok(log_begin_epoch(log, 6, &err), "epoch 6");
	log_epoch_end(log, 4, &found, &end);
	ok(found == 4 && end == 3, "A12: its begin is known before its first append");
	ok(!log_begin_epoch(log, 5, &err) && err.code == KERR_FENCED_LEADER_EPOCH, "an older epoch is refused");
	fill(&h, log, 2, 10, 0);
	harness_close(&h);
	unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
	unlink(harness_path(&h, "", ".pg_broker-manifest"));
	unlink(harness_path(&h, "t-0", "leader-epoch-checkpoint"));
	unlink(harness_path(&h, "", "recovery-point-offset-checkpoint"));
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	ok(log_latest_epoch(log) == 6 && log_epoch_at(log, 2) == 4 && log_epoch_at(log, 3) == 6,
	   "after a crash the epochs come from the batches");
	harness_close(&h);
	harness_remove(h.dir);
}

/* A leader's bytes into a follower, offsets and epochs kept; then the two diverge. */
static void
test_follower(void)
{
	Harness h;
	Log *leader, *follower;
	LogAppend a = {0};
	Err err;
	int32_t found;
	int64_t end;

	harness_init(&h, "follow");
	h.config.segment_bytes = 4000;
	harness_open(&h);
	leader = harness_log(&h, "l", 0);
	follower = harness_log(&h, "f", 0);
	ok(log_begin_epoch(leader, 2, &err), "epoch 2");
	fill(&h, leader, 20, 300, 0);
	ok(log_begin_epoch(leader, 3, &err), "epoch 3");
	fill(&h, leader, 20, 300, 0);
	while (log_appended_end(follower) < 40)
	{
		harness_read(&h, leader, log_appended_end(follower), INT64_MAX, 100000);
		a.len = h.slice.len;
		a.records = harness_bytes(&h);
		a.release = free;
		a.owner = a.records;
		a.leader_epoch = 2;
		if (log_appended_end(follower) >= 20)
			is_int(log_append_as_follower(follower, &a), KERR_CORRUPT_MESSAGE,
				   "batches of an epoch after the leader's are refused");
		a.leader_epoch = 3;
		is_int(log_append_as_follower(follower, &a), 0, "%d bytes are taken", a.len);
	}
	harness_wait(&h, log_synced_end(follower) == 40);
	is_int(log_synced_end(follower), 40, "the follower has it all");
	is_int(log_epoch_at(follower, 25), 3, "with the epochs");
	is_int(harness_count_batches(&h, follower, 0, 1 << 20), 40, "and the batches");
	harness_read(&h, leader, 10, 11, 1000);
	a.len = h.slice.len;
	a.records = harness_bytes(&h);
	is_int(log_append_as_follower(follower, &a), KERR_OFFSET_OUT_OF_RANGE,
		   "batches that do not continue the log are refused");
	a.records[70] ^= 1;
	is_int(log_append_as_follower(follower, &a), KERR_CORRUPT_MESSAGE, "damaged ones too");
	free(a.records);
	ok(log_truncate(follower, 15, &err), "the follower is truncated");
	is_int(log_appended_end(follower), 15, "to the offset");
	is_int(log_latest_epoch(follower), 2, "and its epochs");
	log_epoch_end(follower, 2, &found, &end);
	is_int(end, 15, "end of the epoch");
	is_int(harness_count_batches(&h, follower, 0, 1 << 20), 15, "it reads well");
	ok(harness_append_synced(&h, follower, &(BatchSpec){0}), "and goes on");
	harness_close(&h);
	unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
	harness_open(&h);
	follower = harness_log(&h, "f", 0);
	is_int(harness_count_batches(&h, follower, 0, 1 << 20), 16, "after a crash too");
	ok(log_truncate_fully(follower, 1000, &err), "it starts anew at the leader's log start");
	is_int(log_appended_end(follower), 1000, "at that offset");
	is_int(log_start_offset(follower), 1000, "which is its start");
	ok(harness_append_synced(&h, follower, &(BatchSpec){0}), "and goes on");
	is_int(harness_count_batches(&h, follower, 1000, 100), 1, "there");
	harness_close(&h);
	harness_open(&h);
	follower = harness_log(&h, "f", 0);
	ok(log_start_offset(follower) == 1000 && log_synced_end(follower) == 1001, "kept over a restart");
	harness_close(&h);
	harness_remove(h.dir);
}

static void
test_times(void)
{
	static const int codecs[] = {COMPRESS_NONE, COMPRESS_GZIP, COMPRESS_SNAPPY, COMPRESS_LZ4, COMPRESS_ZSTD};
	Harness h;
	int64_t t0 = 1700000000000;

	harness_init(&h, "time");
	h.config.segment_bytes = 2000;
	h.config.index_interval_bytes = 100;
	h.config.retention_ms = -1;
	harness_open(&h);
	for (int c = 0; c < 5; c++)
	{
		Log *log = harness_log(&h, compress_name(codecs[c]), 0);
		LogAppend a;
		int wrong = 0;

		/* Batches of 5 records, 1 ms apart; 100 ms from batch to batch. */
		for (int i = 0; i < 30; i++)
			harness_append(
				&h, log,
				&(BatchSpec){.records = 5, .codec = codecs[c], .value_len = 50, .timestamp = t0 + i * 100},
				&a);
		harness_wait(&h, log_synced_end(log) == 150);
		for (int i = 0; i < 30; i++)
		{
			wrong += harness_find_time(&h, log, t0 + i * 100) != i * 5;
			wrong +=
				harness_find_time(&h, log, t0 + i * 100 + 3) != i * 5 + 3 || h.timestamp != t0 + i * 100 + 3;
			wrong += harness_find_time(&h, log, t0 + i * 100 - 50) != i * 5 || h.timestamp != t0 + i * 100;
		}
		is_int(wrong, 0, "%s: the record and its timestamp are exact", compress_name(codecs[c]));
		is_int(harness_find_time(&h, log, t0 + 100000), -1, "%s: nothing that young",
			   compress_name(codecs[c]));
		is_int(h.error, 0, "%s: which is no error", compress_name(codecs[c]));
		h.answered = false;
		log_find_max_timestamp(log, harness_time_done, &h);
		harness_wait(&h, h.answered);
		ok(h.offset == 149 && h.timestamp == t0 + 2904, "%s: the greatest timestamp",
		   compress_name(codecs[c]));
	}
	{
		Log *log = harness_log(&h, "mixed", 0);
		LogAppend a;

		harness_append(&h, log, &(BatchSpec){.timestamp = t0 + 500}, &a);
		harness_append(&h, log, &(BatchSpec){.timestamp = t0 + 100}, &a);
		harness_append(&h, log, &(BatchSpec){.timestamp = t0 + 900}, &a);
		harness_wait(&h, log_synced_end(log) == 3);
		is_int(harness_find_time(&h, log, t0 + 101), 0, "out of order: the first record that is late enough");
		is_int(harness_find_time(&h, log, t0 + 501), 2, "and the next");
		log_find_time(log, t0 + 501, 2, harness_time_done, &h);
		h.answered = false;
		harness_wait(&h, h.answered);
		is_int(h.offset, -1, "not beyond the limit");
	}
	harness_close(&h);
	harness_remove(h.dir);
}

/* What a batch must be. */
static void
test_validation(void)
{
	static const struct
	{
		const char *what;
		int at; /* byte that is changed, CRC set again unless at < 21 */
		uint8_t value;
		int16_t error;
	} rows[] = {
		{"magic 1", 16, 1, KERR_INVALID_RECORD},
		{"magic 3", 16, 3, KERR_CORRUPT_MESSAGE},
		{"a base offset", 7, 1, KERR_INVALID_RECORD},
		{"a wrong CRC", 18, 0xee, KERR_CORRUPT_MESSAGE},
		{"a wrong last offset delta", 26, 7, KERR_INVALID_RECORD},
		{"a wrong count", 60, 9, KERR_INVALID_RECORD},
		{"no records", 60, 0, KERR_INVALID_RECORD},
		{"a control batch", 22, BATCH_CONTROL, KERR_INVALID_RECORD},
		{"codec 7", 22, 7, KERR_UNSUPPORTED_COMPRESSION_TYPE},
		{"a length too small", 11, 3, KERR_CORRUPT_MESSAGE},
	};
	Harness h;
	Log *log;
	LogAppend a;
	uint8_t *b;
	int32_t len;

	harness_init(&h, "check");
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		b = make_batch(&(BatchSpec){.records = 2}, &len);
		b[rows[i].at] = rows[i].value;
		if (rows[i].at >= 21)
			batch_set_crc(b);
		a = (LogAppend){.records = b, .len = len};
		is_int(log_append_as_leader(log, &a), rows[i].error, "%s: %s", rows[i].what,
			   kerr_name(rows[i].error));
		free(b);
	}
	b = make_batch(&(BatchSpec){0}, &len);
	a = (LogAppend){.records = b, .len = len - 1};
	is_int(log_append_as_leader(log, &a), KERR_INVALID_RECORD, "half a batch");
	free(b);
	is_int(harness_append(&h, log, &(BatchSpec){.timestamp = clock_wall_ms() + 7200000}, &a),
		   KERR_INVALID_TIMESTAMP, "two hours ahead");
	h.config.timestamp_before_max_ms = 1000;
	log_set_config(log, &h.config);
	is_int(harness_append(&h, log, &(BatchSpec){.timestamp = clock_wall_ms() - 5000}, &a),
		   KERR_INVALID_TIMESTAMP, "too old");
	is_int(harness_append(&h, log, &(BatchSpec){.codec = COMPRESS_LZ4}, &a), 0, "recent");
	h.config.cleanup_compact = true;
	log_set_config(log, &h.config);
	for (int c = 0; c < 5; c++)
		is_int(harness_append(&h, log, &(BatchSpec){.keyless = true, .codec = c}, &a), KERR_INVALID_RECORD,
			   "no key on a compacted topic: %s", compress_name(c));
	is_int(harness_append(&h, log, &(BatchSpec){0}, &a), 0, "with a key");
	h.config.cleanup_compact = false;
	h.config.log_append_time = true;
	log_set_config(log, &h.config);
	is_int(harness_append(&h, log, &(BatchSpec){.timestamp = 1000}, &a), 0,
		   "LogAppendTime: any timestamp is taken");
	ok(clock_wall_ms() - a.log_append_time_ms < 10000, "and replaced by the broker's");
	harness_wait(&h, log_synced_end(log) == log_appended_end(log));
	harness_read(&h, log, a.base_offset, INT64_MAX, 1000);
	b = harness_bytes(&h);
	ok(batch_crc_matches(b) && batch_max_timestamp(b) == a.log_append_time_ms &&
		   (batch_attributes(b) & BATCH_LOG_APPEND_TIME),
	   "in the batch too, with a new CRC");
	free(b);
	harness_close(&h);
	harness_remove(h.dir);
}

/* flush.messages: acknowledged when written, synced later. */
static void
test_relaxed(void)
{
	Harness h;
	Log *log;
	LogAppend a;
	LogDirStats before, after;

	harness_init(&h, "relaxed");
	h.config.flush_messages = 10;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	log_manager_stats(h.m, &before);
	for (int i = 0; i < 9; i++)
		harness_append(&h, log, &(BatchSpec){0}, &a);
	harness_wait(&h, log_synced_end(log) == 9);
	is_int(log_synced_end(log), 9, "written is acknowledged");
	log_manager_stats(h.m, &after);
	is_int(after.syncs - before.syncs, 0, "without a sync");
	harness_append(&h, log, &(BatchSpec){0}, &a);
	harness_wait(&h, (log_manager_stats(h.m, &after), after.syncs > before.syncs));
	ok(after.syncs > before.syncs, "the tenth message brings one");
	h.config.flush_messages = INT64_MAX;
	h.config.flush_ms = 30;
	log = harness_log(&h, "u", 0);
	log_manager_stats(h.m, &before);
	harness_append(&h, log, &(BatchSpec){0}, &a);
	harness_wait(&h, log_synced_end(log) == 1);
	harness_wait(&h, (log_manager_stats(h.m, &after), after.syncs > before.syncs));
	ok(after.syncs > before.syncs, "flush.ms does");
	harness_close(&h);
	harness_open(&h);
	is_int(log_synced_end(harness_log(&h, "t", 0)), 10, "all is there after a clean stop");
	/* A stop with writes still on their way is clean all the same. */
	h.config.flush_messages = 3;
	log = harness_log(&h, "v", 0);
	for (int i = 0; i < 5; i++)
		harness_append(&h, log, &(BatchSpec){0}, &a);
	harness_close(&h);
	harness_open(&h);
	ok(log_manager_clean_start(h.m), "a stop while relaxed writes are under way is clean");
	is_int(log_synced_end(harness_log(&h, "v", 0)), 5, "and they are there");
	harness_close(&h);
	harness_remove(h.dir);
}

int
main(void)
{
	test_roll();
	test_retention();
	test_delete_records();
	test_delete_log();
	test_epochs();
	test_follower();
	test_times();
	test_validation();
	test_relaxed();
	return tap_done();
}
