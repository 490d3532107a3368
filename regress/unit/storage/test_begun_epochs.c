/*
 * Epochs in which a log was led, on disk before the high watermark moves in them (hazards A1): kept by a record or
 * by a row of the journal, there after a crash, not taken for logs that were cut since; rows that are torn or
 * damaged, syncs that fail, and the end of the file at a checkpoint and at a clean stop.
 */
#include "regress/unit/storage/faultfs.c"

#include "brokerd/storage/begun_epochs.h"
#include "regress/unit/storage/crash_copy.h"

#define ROW 40

static off_t
file_size(const Harness *h)
{
	return size_of(harness_path(h, "", BEGUN_EPOCHS_FILE));
}

/* Each topic with an id of its own. */
static Log *
own_log(Harness *h, const char *topic)
{
	snprintf((char *) harness_topic_id.b, sizeof(harness_topic_id.b), "%s", topic);
	return harness_log(h, topic, 0);
}

static Log *
led_log(Harness *h, const char *topic, int records, int32_t epoch)
{
	Log *log = own_log(h, topic);
	Err err = {0};

	ok(log_begin_epoch(log, epoch, &err), "%s is led in epoch %d", topic, epoch);
	for (int i = 0; i < records; i++)
		harness_append_synced(h, log, &(BatchSpec){0});
	return log;
}

static void
keep(Harness *h, Log *log, int32_t epoch, int64_t offset)
{
	log_keep_epoch(log, epoch);
	harness_wait(h, log_epoch_is_kept(log, epoch, offset));
}

/* Opens the copy of a crash, and says what is the last epoch of a log. */
static int32_t
latest_after_crash(const Harness *live, const char *topic)
{
	Harness h;
	int32_t epoch;

	crash_copy(live, &h, "crashed");
	harness_open(&h);
	epoch = log_latest_epoch(harness_log(&h, topic, 0));
	harness_close(&h);
	harness_remove(h.dir);
	return epoch;
}

static void
test_kept(void)
{
	Harness h, after;
	Log *log;
	LogAppend a;
	int32_t epoch;
	int64_t end;
	int changes;

	harness_init(&h, "kept");
	harness_open(&h);
	log = led_log(&h, "t", 2, 3);
	ok(log_epoch_is_kept(log, 3, 2), "a synced record says its epoch");
	is_int(file_size(&h), -1, "and needs no file");
	ok(!log_epoch_is_kept(log, 4, 1), "of the next epoch nothing is known yet");
	is_int(latest_after_crash(&h, "t"), 3, "nor after a crash");
	changes = h.changes;
	log_keep_epoch(log, 4);
	ok(!log_epoch_is_kept(log, 4, 1), "it is not kept before it is on disk");
	harness_wait(&h, log_epoch_is_kept(log, 4, 2));
	ok(log_epoch_is_kept(log, 4, 2) && !log_epoch_is_kept(log, 4, 3), "then it is, up to the synced end");
	harness_turn(&h);
	ok(h.changes > changes, "and whoever uses the log hears of it");
	ok(!log_epoch_is_kept(log, 5, 1) && !log_epoch_is_kept(log, 3, 1), "another epoch is not");
	log_keep_epoch(log, 4);
	harness_turn(&h);
	is_int(file_size(&h), ROW, "what is there is not written again");
	is_int(latest_after_crash(&h, "t"), 4, "a crash keeps it");

	crash_copy(&h, &after, "after");
	harness_open(&after);
	log = harness_log(&after, "t", 0);
	log_epoch_end(log, 3, &epoch, &end);
	ok(epoch == 3 && end == 2, "the epoch before ends where it was begun");
	log_epoch_end(log, 4, &epoch, &end);
	ok(epoch == 4 && end == 2, "it ends at the log end");
	ok(harness_append(&after, log, &(BatchSpec){0}, &a) == 0 && a.base_offset == 2, "the log goes on");
	harness_close(&after);
	harness_remove(after.dir);
	harness_close(&h);
	is_int(file_size(&h), -1, "a clean stop leaves no file");
	harness_open(&h);
	is_int(log_latest_epoch(harness_log(&h, "t", 0)), 4, "the epoch file has it");
	harness_close(&h);
	harness_remove(h.dir);
}

/* What the row speaks of is not there any more. */
static void
test_cut_since(void)
{
	Harness h;
	Log *log;
	Err err = {0};

	harness_init(&h, "cut");
	harness_open(&h);
	log = led_log(&h, "t", 3, 3);
	keep(&h, log, 4, 3);
	ok(log_truncate(log, 3, &err), "a new leader knows nothing of that epoch");
	is_int(log_latest_epoch(log), 3, "it is dropped");
	is_int(latest_after_crash(&h, "t"), 4,
		   "after a crash it is there again: the log has all that it had then");
	ok(log_truncate(log, 2, &err), "the log is cut");
	is_int(latest_after_crash(&h, "t"), 3, "which the row does not speak of");
	log_manager_delete(h.m, log);
	led_log(&h, "t", 1, 1);
	is_int(latest_after_crash(&h, "t"), 1, "nor of another log of that name");
	harness_close(&h);
	harness_remove(h.dir);
}

static void
damage(Harness *h, off_t at)
{
	const char *path = harness_path(h, "", BEGUN_EPOCHS_FILE);
	int fd = open(path, O_RDWR);
	uint8_t byte;

	if (pread(fd, &byte, 1, at) != 1)
		abort();
	byte ^= 0x10;
	if (pwrite(fd, &byte, 1, at) != 1)
		abort();
	close(fd);
}

static void
test_damage(void)
{
	Harness h;
	Log *t, *u;
	int wrong = 0;

	harness_init(&h, "damage");
	harness_open(&h);
	t = led_log(&h, "t", 1, 3);
	u = led_log(&h, "u", 1, 3);
	keep(&h, t, 4, 1);
	keep(&h, t, 5, 1);
	keep(&h, u, 7, 1);
	is_int(file_size(&h), 3 * ROW, "a row for each");
	is_int(latest_after_crash(&h, "t"), 5, "the last of a log counts");
	for (off_t at = ROW; at < 2 * ROW; at++)
	{
		damage(&h, at);
		wrong += latest_after_crash(&h, "t") != 4 || latest_after_crash(&h, "u") != 7;
		damage(&h, at);
	}
	is_int(wrong, 0, "a damaged row is skipped, whatever byte it is, and no other");
	for (off_t cut = 3 * ROW - 1; cut > 2 * ROW; cut -= 3)
	{
		if (truncate(harness_path(&h, "", BEGUN_EPOCHS_FILE), cut) != 0)
			abort();
		wrong += latest_after_crash(&h, "u") != 3 || latest_after_crash(&h, "t") != 5;
	}
	is_int(wrong, 0, "so is a torn one");
	harness_close(&h);
	harness_remove(h.dir);
}

/* A torn row at the end of an unclean stop is written over, not behind. */
static void
test_after_crash(void)
{
	Harness live, h;
	Log *log;
	int fd;

	harness_init(&live, "live");
	harness_open(&live);
	keep(&live, led_log(&live, "t", 1, 3), 4, 1);
	crash_copy(&live, &h, "again");
	harness_close(&live);
	harness_remove(live.dir);
	fd = open(harness_path(&h, "", BEGUN_EPOCHS_FILE), O_WRONLY | O_APPEND);
	if (write(fd, "torn", 4) != 4)
		abort();
	close(fd);
	harness_open(&h);
	log = led_log(&h, "u", 1, 5);
	keep(&h, log, 6, 1);
	is_int(file_size(&h), 2 * ROW, "the next row stands behind the last whole one");
	is_int(latest_after_crash(&h, "u"), 6, "and is read");
	is_int(latest_after_crash(&h, "t"), 4, "the one before, too");
	harness_close(&h);
	harness_remove(h.dir);
}

static void
test_many_and_checkpoint(void)
{
	enum
	{
		LOGS = 300
	};
	Harness h;
	Log *logs[LOGS];
	char name[16];
	int kept = 0;

	harness_init(&h, "many");
	h.opt.checkpoint_interval_ms = 3600000;
	harness_open(&h);
	for (int i = 0; i < LOGS; i++)
	{
		Err err;

		snprintf(name, sizeof(name), "t%d", i);
		logs[i] = own_log(&h, name);
		if (!log_begin_epoch(logs[i], 3, &err) || !harness_append_synced(&h, logs[i], &(BatchSpec){0}))
			abort();
	}
	for (int i = 0; i < LOGS; i++)
		log_keep_epoch(logs[i], 4);
	for (int i = 0; i < LOGS; i++)
	{
		harness_wait(&h, log_epoch_is_kept(logs[i], 4, 1));
		kept += log_epoch_is_kept(logs[i], 4, 1);
	}
	is_int(kept, LOGS, "many at once are kept");
	is_int(file_size(&h), LOGS * ROW, "a row for each");
	log_set_high_watermark(logs[0], 1);
	is_int(log_raise_start(logs[0], 1), 0, "something makes the next checkpoint due");
	harness_wait(&h, file_size(&h) == 0);
	is_int(file_size(&h), 0, "it empties the file");
	is_int(latest_after_crash(&h, "t299"), 4, "as the epoch files have all that it had");
	ok(log_epoch_is_kept(logs[299], 4, 1), "what is kept stays so");
	keep(&h, logs[7], 5, 1);
	is_int(file_size(&h), ROW, "it goes on at the front");
	is_int(latest_after_crash(&h, "t7"), 5, "with what comes later");
	harness_close(&h);
	harness_remove(h.dir);
}

static void
test_failed_sync(void)
{
	Harness h;
	Log *log, *other;

	harness_init(&h, "fails");
	harness_open(&h);
	log = led_log(&h, "t", 1, 3);
	other = led_log(&h, "u", 1, 3);
	faultfs_rules("fdatasync begun-epochs EIO 1\n");
	log_keep_epoch(log, 4);
	for (int i = 0; i < 5; i++)
		harness_turn(&h);
	ok(!log_epoch_is_kept(log, 4, 1), "what could not be synced is not kept");
	log_keep_epoch(other, 4);
	ok(harness_append_synced(&h, log, &(BatchSpec){0}), "the logs go on");
	faultfs_rules("");
	harness_wait(&h, log_epoch_is_kept(log, 4, 1) && log_epoch_is_kept(other, 4, 1));
	ok(log_epoch_is_kept(log, 4, 1) && log_epoch_is_kept(other, 4, 1),
	   "it is tried again, with what came meanwhile");
	is_int(latest_after_crash(&h, "u"), 4, "and is there");
	faultfs_rules("fdatasync begun-epochs EIO\n");
	log_keep_epoch(log, 5);
	for (int i = 0; i < 5; i++)
		harness_turn(&h);
	log_keep_epoch(other, 5);
	log_manager_delete(h.m, other);
	harness_close(&h);
	faultfs_rules("");
	ok(harness_open(&h), "a stop does not wait for it");
	is_int(log_latest_epoch(harness_log(&h, "t", 0)), 5, "and leaves the epoch in its file");
	harness_close(&h);
	harness_remove(h.dir);
}

/* An epoch file that could not be written is written by the next checkpoint, before a recovery point moves on it. */
static void
test_epoch_file_fails(void)
{
	Harness h;
	Log *log;
	Err err;

	harness_init(&h, "file");
	h.opt.checkpoint_interval_ms = 20;
	harness_open(&h);
	log = led_log(&h, "t", 1, 3);
	faultfs_rules("open leader-epoch-checkpoint EIO 1\n");
	ok(log_begin_epoch(log, 4, &err), "an epoch begins");
	for (int i = 0; i < 10; i++)
		harness_turn(&h);
	faultfs_rules("");
	harness_wait(&h, latest_after_crash(&h, "t") == 4);
	is_int(latest_after_crash(&h, "t"), 4, "its file is written once that is possible");
	harness_close(&h);
	harness_remove(h.dir);
}

int
main(void)
{
	test_kept();
	test_cut_since();
	test_damage();
	test_after_crash();
	test_many_and_checkpoint();
	test_failed_sync();
	test_epoch_file_fails();
	return tap_done();
}
