/*
 * Disks that fail: full, broken, slow.  faultfs.c stands in for the file system (the same code that cluster
 * tests preload into a running brokerd).
 */
#include "regress/unit/storage/faultfs.c"

#include <sys/mount.h>

#include "regress/unit/storage/harness.h"

#define SEG0 "00000000000000000000.log"

/* A9(a): a failed fdatasync is final; nothing that a later one says is believed. */
static void
test_failed_sync(void)
{
	Harness h;
	Log *log, *other;
	LogAppend a;

	harness_init(&h, "sync");
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	other = harness_log(&h, "u", 0);
	harness_append_synced(&h, log, &(BatchSpec){0});
	faultfs_rules("fdatasync t-0/ EIO 1\n");
	is_int(harness_append(&h, log, &(BatchSpec){0}, &a), 0, "a batch is taken");
	harness_wait(&h, log_error(log) != NULL);
	ok(log_error(log) != NULL && strstr(log_error(log), "sync failed"), "its sync fails: %s",
	   log_error(log) ? log_error(log) : "");
	is_int(log_synced_end(log), 1, "it does not count as synced");
	is_int(h.released, 2, "its buffer comes back");
	is_int(harness_append(&h, log, &(BatchSpec){0}, &a), KERR_KAFKA_STORAGE_ERROR, "no more is taken");
	ok(harness_append_synced(&h, other, &(BatchSpec){0}), "another log goes on");
	for (int i = 0; i < 10; i++)
		harness_turn(&h);
	is_int(log_synced_end(log), 1, "nor later");
	is_int(harness_read(&h, log, 0, 1, 1000), 0, "what had been synced is read");
	log_slice_release(&h.slice);
	is_int(harness_read(&h, log, 2, 3, 1000), KERR_KAFKA_STORAGE_ERROR, "what had not is not");
	harness_close(&h);
	ok(harness_open(&h) && !log_manager_clean_start(h.m), "the next start recovers");
	log = harness_log(&h, "t", 0);
	ok(log_error(log) == NULL && harness_append_synced(&h, log, &(BatchSpec){0}), "and the log goes on");
	harness_close(&h);
	harness_remove(h.dir);
}

/* A log that nobody follows: the loop is told of a write with its sync, and of each with what others there are. */
static void
test_told_once(void)
{
	Harness h;
	Log *log;
	LogAppend a;

	harness_init(&h, "once");
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	harness_append_synced(&h, log, &(BatchSpec){0});
	for (int followed = 0; followed <= 1; followed++)
	{
		int64_t end = log_appended_end(log);

		log_set_followed(log, followed);
		faultfs_rules("fdatasync t-0/ delay:300 1\n");
		harness_append(&h, log, &(BatchSpec){0}, &a);
		harness_wait(&h, log_written_end(log) > end);
		is_int(log_synced_end(log), followed ? end : end + 1,
			   followed ? "followers hear of a write before it is synced" : "nobody else does");
		/* What comes meanwhile is written while the sync runs, and has the next one. */
		faultfs_rules("fdatasync t-0/ delay:300 1\n");
		for (int i = 0; i < 20; i++)
			harness_append(&h, log, &(BatchSpec){0}, &a);
		harness_wait(&h, log_synced_end(log) == a.end_offset);
		is_int(log_synced_end(log), a.end_offset, "all that comes is synced");
		is_int(h.released, a.end_offset, "and all buffers come back");
		is_int(harness_count_batches(&h, log, 0, 10000), a.end_offset, "it is read");
	}
	/* Each comes while the sync of the one before may still run. */
	log_set_followed(log, false);
	faultfs_rules("");
	for (int i = 0; i < 300; i++)
	{
		harness_append(&h, log, &(BatchSpec){0}, &a);
		if (i % 3 != 0)
			harness_turn(&h);
	}
	harness_wait(&h, log_synced_end(log) == a.end_offset);
	is_int(log_synced_end(log), a.end_offset, "one after another, too");
	harness_wait(&h, h.released == a.end_offset);
	is_int(h.released, a.end_offset, "with their buffers");
	harness_close(&h);
	harness_remove(h.dir);
}

/* The log has nothing that waits for the disk any more, also when a write and its sync were told of at once. */
static void
test_nothing_waits(void)
{
	Harness h;
	LogDirStats stats;

	harness_init(&h, "waits");
	harness_open(&h);
	harness_append_synced(&h, harness_log(&h, "t", 0), &(BatchSpec){0});
	usleep(20000);
	log_manager_stats(h.m, &stats);
	is_int(stats.oldest_unsynced_ms, 0, "nothing waits for a sync");
	harness_close(&h);
	harness_remove(h.dir);
}

/* An error of syncfs counts against every file of the round. */
static void
test_failed_syncfs(void)
{
	Harness h;
	LogAppend a;
	int failed = 0, synced = 0;

	harness_init(&h, "syncfs");
	harness_open(&h);
	for (int i = 0; i < 60; i++)
		harness_log(&h, "t", i);
	/* The first batch's sync takes so long that all others wait for the next round. */
	faultfs_rules("fdatasync * delay:500 1\nsyncfs * EIO\n");
	for (int i = 0; i < 60; i++)
		harness_append(&h, harness_log(&h, "t", i), &(BatchSpec){0}, &a);
	harness_wait(&h, log_manager_find(h.m, "t", 1, 59) != NULL &&
						 log_error(log_manager_find(h.m, "t", 1, 59)) != NULL);
	for (int i = 0; i < 60; i++)
	{
		Log *log = log_manager_find(h.m, "t", 1, i);

		failed += log_error(log) != NULL;
		synced += log_synced_end(log) == 1;
	}
	ok(failed > 32, "more than 32 files of one round failed together: %d", failed);
	is_int(failed + synced, 60, "the others had their own sync");
	faultfs_rules("");
	harness_close(&h);
	harness_remove(h.dir);
}

/* A6(c), A9: a write that fails for lack of space leaves nothing behind and heals. */
static void
test_no_space(void)
{
	Harness h;
	Log *log, *other;
	LogAppend a;
	off_t size;
	BatchSpec second = {.records = 3, .value_len = 500, .producer_id = 9, .sequence = 2};

	harness_init(&h, "full");
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	other = harness_log(&h, "u", 0);
	harness_append_synced(&h, log, &(BatchSpec){.records = 2, .producer_id = 9});
	size = size_of(harness_path(&h, "t-0", SEG0));
	faultfs_rules("pwrite t-0/ short:200 1\npwrite t-0/ ENOSPC\npwrite .probe ENOSPC\n");
	is_int(harness_append(&h, log, &second, &a), 0, "a batch is taken");
	is_int(harness_append(&h, log, &(BatchSpec){.producer_id = 9, .sequence = 5}, &a), 0, "and the next");
	harness_wait(&h, log_error(log) != NULL);
	ok(log_error(log) != NULL && strstr(log_error(log), "full"), "the disk is full: %s",
	   log_error(log) ? log_error(log) : "");
	harness_wait(&h, h.released == 3);
	is_int(h.released, 3, "the buffers come back");
	is_int(log_appended_end(log), 2, "the log ends where it did");
	is_int(size_of(harness_path(&h, "t-0", SEG0)), size, "what was written of the batch is cut");
	is_int(harness_append(&h, log, &second, &a), KERR_KAFKA_STORAGE_ERROR, "no more is taken");
	ok(harness_append_synced(&h, other, &(BatchSpec){0}), "another log goes on");
	is_int(harness_count_batches(&h, log, 0, 1000), 1, "the log is read");
	faultfs_rules("");
	harness_wait(&h, log_error(log) == NULL);
	ok(log_error(log) == NULL, "when there is space again it heals");
	is_int(harness_append(&h, log, &second, &a), 0, "the batch comes again");
	ok(!a.duplicate, "and is no duplicate");
	is_int(a.base_offset, 2, "at its place");
	harness_wait(&h, log_synced_end(log) == 5);
	is_int(harness_count_batches(&h, log, 0, 100000), 2, "all of it is there");
	harness_close(&h);
	harness_open(&h);
	ok(log_manager_clean_start(h.m), "a disk that was full for a while does not make the stop unclean");
	is_int(harness_count_batches(&h, harness_log(&h, "t", 0), 0, 100000), 2, "and after a restart too");
	harness_close(&h);
	harness_remove(h.dir);
}

/* The failure hits in the middle of a queue that spans several segments. */
static void
test_no_space_roll(void)
{
	Harness h;
	Log *log;
	LogAppend a;
	int64_t end;

	harness_init(&h, "fullroll");
	h.config.segment_bytes = 3000;
	h.config.index_interval_bytes = 500;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	for (int i = 0; i < 7; i++)
		harness_append(&h, log, &(BatchSpec){.value_len = 400, .producer_id = 3, .sequence = i}, &a);
	harness_wait(&h, log_synced_end(log) == 7);
	faultfs_rules("pwrite t-0/ ENOSPC\npwrite .probe ENOSPC 1\n");
	for (int i = 7; i < 40; i++)
		harness_append(&h, log, &(BatchSpec){.value_len = 400, .producer_id = 3, .sequence = i}, &a);
	harness_wait(&h, log_error(log) != NULL);
	end = log_appended_end(log);
	is_int(end, 7, "back to what is in the file");
	faultfs_rules("");
	harness_wait(&h, log_error(log) == NULL);
	for (int i = 7; i < 40; i++)
		if (harness_append(&h, log, &(BatchSpec){.value_len = 400, .producer_id = 3, .sequence = i}, &a) !=
				0 ||
			a.duplicate)
			ok(false, "sequence %d is refused", i);
	harness_wait(&h, log_synced_end(log) == 40);
	is_int(harness_count_batches(&h, log, 0, 100000), 40, "everything is there");
	harness_close(&h);
	unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	ok(log_error(log) == NULL, "an unclean start finds nothing wrong: %s",
	   log_error(log) ? log_error(log) : "");
	is_int(harness_count_batches(&h, log, 0, 100000), 40, "and everything is there");
	harness_close(&h);
	harness_remove(h.dir);
}

/* A topic cannot be made on a full disk, and can be later. */
static void
test_create(void)
{
	Harness h;
	Err err = {0};

	harness_init(&h, "create");
	harness_open(&h);
	faultfs_rules("pwrite partition.metadata ENOSPC 1\nopen 00.log ENOSPC 1\n");
	ok(log_manager_create(h.m, "t", 1, 0, &harness_topic_id, &h.config, &err) == NULL,
	   "no space for its metadata");
	ok(strstr(err.text, "cannot be created") != NULL, "which is said: %s", err.text);
	ok(log_manager_create(h.m, "t", 1, 0, &harness_topic_id, &h.config, &err) == NULL,
	   "no space for its first segment");
	ok(log_manager_create(h.m, "t", 1, 0, &harness_topic_id, &h.config, &err) != NULL, "then it is made");
	faultfs_rules("");
	harness_close(&h);
	harness_remove(h.dir);
}

static void
test_write_error(void)
{
	Harness h;
	Log *log;
	LogAppend a;

	harness_init(&h, "eio");
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	harness_append_synced(&h, log, &(BatchSpec){0});
	faultfs_rules("pwrite t-0/ EIO 1\n");
	harness_append(&h, log, &(BatchSpec){0}, &a);
	harness_wait(&h, log_error(log) != NULL);
	ok(log_error(log) != NULL && strstr(log_error(log), "or the broker restarts"), "an I/O error is final");
	for (int i = 0; i < 40; i++)
		harness_turn(&h);
	ok(log_error(log) != NULL, "and does not heal");
	harness_close(&h);
	harness_remove(h.dir);
}

static bool stuck_now;
static int stuck_calls;

static void
on_stuck(void *ctx, bool stuck)
{
	(void) ctx;
	stuck_now = stuck;
	stuck_calls++;
}

/* A26: a sync that hangs is noticed while it hangs. */
static void
test_stuck(void)
{
	Harness h;
	Log *log;
	LogAppend a;
	LogDirStats stats;
	int64_t until;

	harness_init(&h, "stuck");
	h.opt.on_stuck = on_stuck;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	faultfs_rules("fdatasync t-0/ delay:10700 1\n");
	harness_append(&h, log, &(BatchSpec){0}, &a);
	until = clock_boot_ms() + 13000;
	while (!stuck_now && clock_boot_ms() < until)
		harness_turn(&h);
	ok(stuck_now, "after 10 s the directory is said to be stuck");
	log_manager_stats(h.m, &stats);
	ok(stats.stuck && stats.oldest_unsynced_ms >= 9000, "and the stats say how long: %" PRId64 " ms",
	   stats.oldest_unsynced_ms);
	harness_wait(&h, !stuck_now);
	ok(!stuck_now, "when the sync ends it is well again");
	harness_wait(&h, log_synced_end(log) == 1);
	is_int(log_synced_end(log), 1, "and the batch is synced");
	is_int(stuck_calls, 2, "each said once");
	harness_close(&h);
	harness_remove(h.dir);
}

/* A real file system that is full; needs root for the mount. */
static void
test_full_file_system(void)
{
	Harness h;
	Log *log;
	LogAppend a;
	int n = 0;
	char filler[600];
	int fd;
	uint8_t block[65536] = {0};

	harness_init(&h, "tmpfs");
	if (geteuid() != 0 || mount("tmpfs", h.dir, "tmpfs", 0, "size=8m") != 0)
	{
		ok(true, "a full file system # SKIP no right to mount a tmpfs");
		harness_remove(h.dir);
		return;
	}
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	harness_append_synced(&h, log, &(BatchSpec){.value_len = 1000});
	snprintf(filler, sizeof(filler), "%s/.filler", h.dir);
	fd = open(filler, O_WRONLY | O_CREAT, 0644);
	while (write(fd, block, sizeof(block)) > 0 || write(fd, block, 512) > 0)
		;
	close(fd);
	while (n < 100 && harness_append(&h, log, &(BatchSpec){.value_len = 100000}, &a) == 0)
	{
		harness_turn(&h);
		n++;
	}
	harness_wait(&h, log_error(log) != NULL);
	ok(log_error(log) != NULL && strstr(log_error(log), "full"), "a full file system: writes are refused");
	n = (int) log_appended_end(log);
	unlink(filler);
	harness_wait(&h, log_error(log) == NULL);
	ok(harness_append_synced(&h, log, &(BatchSpec){.value_len = 1000}), "with space again it goes on");
	is_int(harness_count_batches(&h, log, 0, 1 << 20), n + 1, "and everything acknowledged is there");
	harness_close(&h);
	if (umount2(h.dir, MNT_DETACH) != 0)
		printf("# umount: %s\n", strerror(errno));
	harness_remove(h.dir);
}

/* Stops with some logs written to, while `rule` holds; whether the stop is said to be clean. */
static bool
stops_clean(int logs, const char *rule)
{
	Harness h;
	bool clean;

	harness_init(&h, "stop");
	harness_open(&h);
	for (int i = 0; i < logs; i++)
		for (int k = 0; k < 5; k++)
			harness_append_synced(&h, harness_log(&h, "t", i),
								  &(BatchSpec){.value_len = 600, .producer_id = 7, .sequence = k});
	faultfs_rules(rule);
	harness_close(&h);
	faultfs_rules("");
	clean = access(harness_path(&h, "", ".kafka_cleanshutdown"), F_OK) == 0;
	harness_remove(h.dir);
	return clean;
}

/* A clean stop is one after which all is on disk: of few logs each file by itself, and nobody else's. */
static void
test_stop(void)
{
	static const char *const files[] = {".log",
										".index",
										".timeindex",
										".snapshot",
										"leader-epoch-checkpoint",
										"partition.metadata",
										"t-1/",
										".pg_broker-manifest"};
	char rule[64];

	ok(stops_clean(2, "syncfs * EIO\n"), "a stop with few logs needs no syncfs");
	ok(!stops_clean(40, "syncfs * EIO\n"), "one with many does");
	for (int i = 0; i < (int) (sizeof(files) / sizeof(files[0])); i++)
	{
		snprintf(rule, sizeof(rule), "fsync %s EIO\n", files[i]);
		ok(!stops_clean(2, rule), "one of which %s cannot be synced is not clean", files[i]);
	}
}

int
main(void)
{
	for (int alone = 0; alone <= 1; alone++)
	{
		harness_followed = !alone;
		printf("# logs that %s\n", alone ? "nobody follows" : "others follow");
		test_failed_sync();
		test_failed_syncfs();
		test_no_space();
		test_no_space_roll();
		test_write_error();
		test_nothing_waits();
	}
	test_told_once();
	test_stop();
	test_create();
	test_full_file_system();
	test_stuck();
	return tap_done();
}
