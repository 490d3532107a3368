/*
 * Kill and recover: a copy of the files as a crash would leave them, cut at every byte of the last batches;
 * bit flips; missing indexes.  A crash is a copy of a directory in use, without the clean-shutdown marker.
 */
#include "regress/unit/storage/crash_copy.h"

#define SEG0 "00000000000000000000.log"

static void
test_every_byte(void)
{
	Harness live, h;
	Log *log;
	LogAppend a;
	int64_t ends[6];
	off_t sizes[6], full;
	int bad = 0, cuts = 0;

	harness_init(&live, "live");
	harness_open(&live);
	log = harness_log(&live, "t", 0);
	for (int i = 0; i < 5; i++)
	{
		sizes[i] = size_of(harness_path(&live, "t-0", SEG0));
		ends[i] = log_appended_end(log);
		harness_append(
			&live, log,
			&(BatchSpec){.records = i + 1, .value_len = 20, .producer_id = 7, .sequence = (int) ends[i]}, &a);
		harness_wait(&live, log_synced_end(log) == a.end_offset);
	}
	full = sizes[5] = size_of(harness_path(&live, "t-0", SEG0));
	ends[5] = log_appended_end(log);
	for (off_t cut = sizes[3]; cut <= full; cut++)
	{
		int whole = 5;
		char path[600];
		bool good;

		crash_copy(&live, &h, "cut");
		snprintf(path, sizeof(path), "%s", harness_path(&h, "t-0", SEG0));
		if (truncate(path, cut) != 0)
			abort();
		while (sizes[whole] > cut)
			whole--;
		good = harness_open(&h) && !log_manager_clean_start(h.m);
		log = harness_log(&h, "t", 0);
		good = good && log_error(log) == NULL && log_synced_end(log) == ends[whole] &&
			   size_of(path) == sizes[whole] && harness_count_batches(&h, log, 0, 1 << 20) == whole;
		/* The batch that was cut is not "a duplicate" when it comes again (hazards A6). */
		if (good && whole < 5)
			good = harness_append(
					   &h, log,
					   &(BatchSpec){.records = whole + 1, .producer_id = 7, .sequence = (int) ends[whole]},
					   &a) == 0 &&
				   !a.duplicate && a.base_offset == ends[whole];
		/* The one before is. */
		if (good)
			good = harness_append(&h, log,
								  &(BatchSpec){.records = 3, .producer_id = 7, .sequence = (int) ends[2]},
								  &a) == 0 &&
				   a.duplicate && a.base_offset == ends[2];
		bad += !good;
		cuts++;
		harness_close(&h);
		harness_remove(h.dir);
	}
	is_int(bad, 0, "cut at each of %d bytes: the whole batches are there, no more, and the log goes on",
		   cuts);
	harness_close(&live);
	harness_remove(live.dir);
}

static void
flip(const char *path, off_t at)
{
	int fd = open(path, O_RDWR);
	uint8_t c;

	if (pread(fd, &c, 1, at) != 1)
		abort();
	c ^= 0x40;
	if (pwrite(fd, &c, 1, at) != 1)
		abort();
	close(fd);
}

static void
fill(Harness *h, Log *log, int batches)
{
	LogAppend a;

	for (int i = 0; i < batches; i++)
		harness_append(h, log, &(BatchSpec){.value_len = 100}, &a);
	harness_wait(h, log_synced_end(log) == log_appended_end(log));
}

/* A9: a bad CRC with whole batches behind it is corruption, not a torn tail. */
static void
test_corruption(void)
{
	Harness live, h;
	Log *log;
	off_t size;
	LogAppend a;
	char path[600];
	Err err;

	harness_init(&live, "live");
	harness_open(&live);
	fill(&live, harness_log(&live, "t", 0), 5);
	fill(&live, harness_log(&live, "u", 0), 5);

	crash_copy(&live, &h, "flip");
	snprintf(path, sizeof(path), "%s", harness_path(&h, "t-0", SEG0));
	size = size_of(path);
	flip(path, size / 2);
	ok(harness_open(&h), "the directory opens in spite of a flipped bit");
	log = harness_log(&h, "t", 0);
	ok(log_error(log) != NULL && strstr(log_error(log), SEG0) != NULL,
	   "the log is offline, and says which file: %s", log_error(log) ? log_error(log) : "");
	is_int(size_of(path), size, "nothing of it was cut");
	is_int(harness_append(&h, log, &(BatchSpec){0}, &a), KERR_KAFKA_STORAGE_ERROR, "it takes no records");
	is_int(harness_read(&h, log, 0, 5, 1000), KERR_KAFKA_STORAGE_ERROR, "and gives none");
	is_int(harness_count_batches(&h, harness_log(&h, "u", 0), 0, 1 << 20), 5, "the other log is served");
	harness_close(&h);
	ok(harness_open(&h), "after a clean stop");
	log = harness_log(&h, "t", 0);
	ok(log_error(log) != NULL, "the corrupt log is still offline");
	log_manager_delete(h.m, log);
	ok(log_manager_find(h.m, "t", 1, 0) == NULL, "it can be replaced by a fresh replica");
	log = log_manager_create(h.m, "t", 1, 0, &harness_topic_id, &h.config, &err);
	ok(log != NULL && harness_append_synced(&h, log, &(BatchSpec){0}), "which works");
	{
		DIR *dh = opendir(h.dir);
		struct dirent *e;
		bool kept = false;

		while ((e = readdir(dh)) != NULL)
			kept |= strncmp(e->d_name, "t-0.", 4) == 0 && strstr(e->d_name, "-stray") != NULL;
		closedir(dh);
		ok(kept, "and the corrupt files are kept aside");
	}
	harness_close(&h);
	harness_remove(h.dir);

	/* The last batch, but below the recovery point: it had been synced. */
	harness_close(&live);
	crash_copy(&live, &h, "below");
	snprintf(path, sizeof(path), "%s/.kafka_cleanshutdown", h.dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s", harness_path(&h, "t-0", SEG0));
	flip(path, size - 5);
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	ok(log_error(log) != NULL && strstr(log_error(log), "had been synced") != NULL,
	   "a bad batch below the recovery point is corruption");
	harness_close(&h);
	harness_remove(h.dir);
	harness_remove(live.dir);
}

static void
test_indexes(void)
{
	static const char *const suffixes[] = {".index", ".timeindex"};
	Harness h;
	Log *log;
	int64_t t0 = 1700000000000;
	LogAppend a;

	harness_init(&h, "index");
	h.config.index_interval_bytes = 100;
	h.config.segment_bytes = 20000;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	for (int i = 0; i < 400; i++)
		harness_append(&h, log, &(BatchSpec){.value_len = 100, .timestamp = t0 + i * 10}, &a);
	harness_wait(&h, log_synced_end(log) == 400);
	is_int(harness_find_time(&h, log, t0 + 1234), 124, "a lookup by time, from files and memory");
	harness_close(&h);
	for (int i = 0; i < 2; i++)
	{
		char name[64];
		char manifest[600];

		snprintf(manifest, sizeof(manifest), "%s/.pg_broker-manifest", h.dir);
		unlink(manifest);
		snprintf(name, sizeof(name), "00000000000000000000%s", suffixes[i]);
		ok(unlink(harness_path(&h, "t-0", name)) == 0, "%s is lost", name);
		ok(harness_open(&h), "the directory opens");
		log = harness_log(&h, "t", 0);
		ok(size_of(harness_path(&h, "t-0", name)) > 0, "it is built again");
		is_int(harness_find_time(&h, log, t0 + 455), 46, "and serves lookups");
		is_int(harness_count_batches(&h, log, 17, 3000), 383, "and reads");
		harness_close(&h);
	}
	{
		int fd = open(harness_path(&h, "t-0", "00000000000000000000.index"), O_WRONLY | O_TRUNC);

		if (write(fd, "\0\0\0\5\0\0\0\0\0\0\0", 11) != 11)
			abort();
		close(fd);
		snprintf(h.dir + strlen(h.dir), 1, "%s", "");
		unlink(harness_path(&h, "", ".pg_broker-manifest"));
		ok(harness_open(&h), "a damaged index");
		log = harness_log(&h, "t", 0);
		is_int(harness_count_batches(&h, log, 17, 3000), 383, "is built again");
		harness_close(&h);
	}
	harness_remove(h.dir);
}

static void
spoil(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (write(fd, text, strlen(text)) != (ssize_t) strlen(text))
		abort();
	close(fd);
}

/* Garbage, truncated, newer files: said by name; that partition offline, the rest served. */
static void
test_bad_files(void)
{
	static const struct
	{
		const char *file;
		const char *text;
		const char *says;
	} cases[] = {
		{"partition.metadata", "version: 7\ntopic_id: x", "another version"},
		{"partition.metadata", "rubbish", "partition.metadata is damaged"},
		{"leader-epoch-checkpoint", "1\n0\n", "version \"1\""},
		{"leader-epoch-checkpoint", "0\n3\n1 2\n", "1 lines instead of 3"},
		{"leader-epoch-checkpoint", "0\nx\n", "is no count"},
		{"leader-epoch-checkpoint", "0\n1\n1 2 3\n", "is no row"},
		{SEG0, "this is no log at all, whatever its name says, and long enough for a header", "is corrupt"},
		{"00000000000000000000.txnindex", "\1\1aaaaaaaabbbbbbbbccccccccdddddddd", "is damaged or of a newer"},
		{"00000000000000000007.log.swap", "no batch", "compacted, is damaged"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Harness h;
		Log *log;

		harness_init(&h, "bad");
		harness_open(&h);
		fill(&h, harness_log(&h, "t", 0), 2);
		fill(&h, harness_log(&h, "u", 0), 2);
		harness_close(&h);
		spoil(harness_path(&h, "t-0", cases[i].file), cases[i].text);
		unlink(harness_path(&h, "", ".pg_broker-manifest"));
		ok(harness_open(&h), "the directory opens with a bad %s", cases[i].file);
		log = harness_log(&h, "t", 0);
		ok(log_error(log) != NULL && strstr(log_error(log), cases[i].says) != NULL, "the log is offline: %s",
		   log_error(log) == NULL ? "no" : log_error(log));
		is_int(harness_count_batches(&h, harness_log(&h, "u", 0), 0, 1000), 2, "the other is served");
		harness_close(&h);
		harness_remove(h.dir);
	}
}

static void
test_directory(void)
{
	Harness h, other;
	Err err = {0};
	LogManagerOptions opt;

	harness_init(&h, "dir");
	h.opt.cluster_id = NULL;
	harness_open(&h);
	ok(log_manager_cluster_id(h.m) == NULL, "a new directory is not bound");
	ok(log_manager_bind(h.m, "c1", 42, &err), "it is bound");
	other = h;
	ok(log_manager_open(&other.opt, &err) == NULL && strstr(err.text, "in use") != NULL, "twice: %s",
	   err.text);
	harness_close(&h);
	{
		/* As Kafka locks it. */
		struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		int fd = open(harness_path(&h, "", ".lock"), O_RDWR);

		if (fcntl(fd, F_SETLK, &whole) != 0)
			abort();
		ok(log_manager_open(&h.opt, &err) == NULL && strstr(err.text, "in use") != NULL,
		   "locked by Kafka: %s", err.text);
		close(fd);
	}
	opt = h.opt;
	opt.node_id = 2;
	ok(log_manager_open(&opt, &err) == NULL && strstr(err.text, "broker 1") != NULL, "another broker: %s",
	   err.text);
	opt = h.opt;
	opt.cluster_id = "c2";
	ok(log_manager_open(&opt, &err) == NULL && strstr(err.text, "cluster c1") != NULL, "another cluster: %s",
	   err.text);
	harness_open(&h);
	is_str(log_manager_cluster_id(h.m), "c1", "the cluster id is kept");
	is_int(log_manager_broker_epoch(h.m), 42, "and the broker epoch");
	ok(log_manager_clean_start(h.m), "an empty directory is closed cleanly");
	ok(log_manager_bind(h.m, "c1", 43, &err), "its broker registers again");
	harness_close(&h);
	harness_open(&h);
	ok(log_manager_clean_start(h.m), "a stop of the next incarnation, which wrote nothing, is clean too");
	harness_close(&h);
	harness_remove(h.dir);
}

int
main(void)
{
	test_every_byte();
	test_corruption();
	test_indexes();
	test_bad_files();
	test_directory();
	return tap_done();
}
