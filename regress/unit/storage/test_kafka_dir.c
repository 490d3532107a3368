/*
 * A data directory with everything that the log writes, for Kafka's tools to look at (regress/storage-kafka):
 *
 *     test_kafka_dir                       checks itself: writes one, opens it, reads it
 *     test_kafka_dir write DIR             writes one and closes it cleanly
 *     test_kafka_dir crash DIR             the same, but the process ends without closing
 *     test_kafka_dir read DIR              prints a line a log: NAME ERROR|ok START END BATCHES RECORDS EPOCH
 *     test_kafka_dir append DIR            adds a batch to each log and closes
 *     test_kafka_dir compact DIR           compacts each log up to its active segment and closes
 */
#include "brokerd/storage/compaction.h"
#include "regress/unit/storage/harness.h"

static void
write_codecs(Harness *h)
{
	LogAppend a;
	Err err;

	for (int codec = 0; codec < 5; codec++)
	{
		Log *log = harness_log(h, compress_name(codec), 0);

		if (!log_begin_epoch(log, codec + 1, &err))
			abort();
		for (int i = 0; i < 60; i++)
		{
			if (i == 30 && !log_begin_epoch(log, codec + 10, &err))
				abort();
			harness_append(h, log,
						   &(BatchSpec){.records = 1 + i % 7,
										.codec = codec,
										.value_len = 10 + i * 13 % 700,
										.timestamp = clock_wall_ms() - 60000 + i * 50,
										.keyless = i % 3 == 0},
						   &a);
		}
	}
}

static void
write_transactions(Harness *h)
{
	Log *log = harness_log(h, "transactions", 0);
	LogAppend a;

	for (int i = 0; i < 40; i++)
	{
		harness_append(
			h, log, &(BatchSpec){.producer_id = 1000 + i % 3, .sequence = i / 3, .transactional = true}, &a);
		if (i % 4 == 3)
			harness_append_marker(h, log, 1000 + i % 3, 0, 1 + i / 10, i % 8 == 3, &a);
	}
	log = harness_log(h, "idempotent", 0);
	for (int i = 0; i < 40; i++)
		harness_append(
			h, log,
			&(BatchSpec){.records = 2, .producer_id = 5, .epoch = 3, .sequence = i * 2, .value_len = 200},
			&a);
	log = harness_log(h, "appendtime", 0);
	h->config.log_append_time = true;
	log_set_config(log, &h->config);
	for (int i = 0; i < 20; i++)
		harness_append(h, log, &(BatchSpec){.records = 3, .value_len = 300, .codec = i % 5}, &a);
	h->config.log_append_time = false;
	harness_log(h, "empty", 7);
}

static void
settle(Harness *h)
{
	for (Log *log = log_manager_next(h->m, NULL); log != NULL; log = log_manager_next(h->m, log))
	{
		harness_wait(h, log_synced_end(log) == log_appended_end(log));
		log_set_high_watermark(log, log_synced_end(log));
	}
}

static bool
write_dir(Harness *h)
{
	h->config.segment_bytes = 4000;
	h->config.index_interval_bytes = 300;
	if (!harness_open(h))
		return false;
	write_codecs(h);
	write_transactions(h);
	settle(h);
	if (log_raise_start(log_manager_find(h->m, "none", 4, 0), 20) != 0)
		return false;
	harness_wait(h, log_start_offset(log_manager_find(h->m, "none", 4, 0)) == 20);
	/* What goes in the background has gone. */
	for (int i = 0; i < 20; i++)
		harness_turn(h);
	return true;
}

/* Every batch is read, and every record of it looked at. */
static bool
count(Harness *h, Log *log, int *batches, int64_t *records)
{
	int64_t next = log_start_offset(log);
	WireWriter scratch;

	*batches = 0;
	*records = 0;
	wire_writer_init(&scratch);
	while (next < log_written_end(log))
	{
		int32_t len, pos = 0;
		uint8_t *buf;

		if (harness_read(h, log, next, INT64_MAX, 100000) != 0 || h->slice.len == 0)
			return false;
		len = h->slice.len;
		next = h->slice.next_offset;
		buf = harness_bytes(h);
		while (pos < len)
		{
			RecordIter it;
			Record r;

			if (batch_check(buf + pos, (size_t) (len - pos), false) != BATCH_OK ||
				!batch_crc_matches(buf + pos) ||
				batch_records(buf + pos, 1 << 24, &scratch, &it) != COMPRESS_OK)
				return false;
			while (record_next(&it, &r))
				++*records;
			if (it.malformed)
				return false;
			++*batches;
			pos += (int32_t) batch_size(buf + pos);
		}
		free(buf);
	}
	wire_writer_free(&scratch);
	return true;
}

static int
read_dir(Harness *h, bool print)
{
	int bad = 0;

	if (!harness_open(h))
		return 1;
	for (Log *log = log_manager_next(h->m, NULL); log != NULL; log = log_manager_next(h->m, log))
	{
		int batches = -1;
		int64_t records = -1;

		if (log_error(log) == NULL && !count(h, log, &batches, &records))
			batches = -1;
		bad += batches < 0;
		if (print)
			printf("%s-%d %s %" PRId64 " %" PRId64 " %d %" PRId64 " %d%s%s\n", log_topic(log),
				   log_partition(log), log_error(log) == NULL ? "ok" : "ERROR", log_start_offset(log),
				   log_synced_end(log), batches, records, log_latest_epoch(log),
				   log_error(log) == NULL ? "" : " ", log_error(log) == NULL ? "" : log_error(log));
	}
	harness_close(h);
	return bad;
}

static int
append_dir(Harness *h)
{
	int bad = 0;

	if (!harness_open(h))
		return 1;
	for (Log *log = log_manager_next(h->m, NULL); log != NULL; log = log_manager_next(h->m, log))
		bad += !harness_append_synced(h, log, &(BatchSpec){.records = 3});
	settle(h);
	harness_close(h);
	return bad;
}

static int
compact_dir(Harness *h)
{
	int bad = 0;

	h->config.cleanup_delete = false;
	h->config.cleanup_compact = true;
	h->config.min_dirty_ratio = 0;
	if (!harness_open(h))
		return 1;
	for (Log *log = log_manager_next(h->m, NULL); log != NULL; log = log_manager_next(h->m, log))
	{
		const LogSegment *last;

		log_set_high_watermark(log, log_synced_end(log));
		log_set_config(log, &h->config);
		/* Not what an open transaction holds back. */
		last = log_segment_for(log, log_last_stable_offset(log));
		harness_wait(h, log->cleaned_end >= last->base_offset && log->compaction->job == NULL);
		if (log->cleaned_end < last->base_offset)
		{
			printf("%s-%d is not compacted\n", log_topic(log), log_partition(log));
			bad++;
		}
	}
	harness_close(h);
	return bad;
}

int
main(int argc, char **argv)
{
	Harness h;
	char *made;

	harness_init(&h, "kafka");
	if (argc != 3)
	{
		ok(write_dir(&h), "a directory with everything is written");
		harness_close(&h);
		is_int(read_dir(&h, false), 0, "and read");
		is_int(append_dir(&h), 0, "appended to");
		is_int(compact_dir(&h), 0, "compacted");
		is_int(read_dir(&h, false), 0, "and read");
		unlink(harness_path(&h, "", ".pg_broker-manifest"));
		is_int(read_dir(&h, false), 0, "and read without the manifest");
		unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
		is_int(read_dir(&h, false), 0, "and after a crash");
		harness_remove(h.dir);
		return tap_done();
	}
	made = strdup(h.dir);
	harness_remove(made);
	free(made);
	snprintf(h.dir, sizeof(h.dir), "%s", argv[2]);
	/* A directory of Kafka's own keeps its cluster. */
	h.opt.cluster_id = NULL;
	if (strcmp(argv[1], "read") == 0)
		return read_dir(&h, true);
	if (strcmp(argv[1], "append") == 0)
		return append_dir(&h);
	if (strcmp(argv[1], "compact") == 0)
		return compact_dir(&h);
	if (!write_dir(&h))
		return 1;
	if (strcmp(argv[1], "crash") == 0)
		_exit(0);
	harness_close(&h);
	return 0;
}
