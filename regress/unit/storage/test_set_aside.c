/*
 * Logs that nobody may believe any more are set aside: renamed and kept, with readers and writers still on them, and
 * another log gets the name at once (hazards A9).
 */
#include "regress/unit/storage/faultfs.c"

#include "regress/unit/storage/harness.h"

#define SEG0 "00000000000000000000.log"

/* How many names in a folder end with `suffix`. */
static int
count_names(const char *dir, const char *suffix)
{
	DIR *dh = opendir(dir);
	struct dirent *e;
	int n = 0;

	while (dh != NULL && (e = readdir(dh)) != NULL)
	{
		size_t len = strlen(e->d_name), k = strlen(suffix);

		n += len >= k && strcmp(e->d_name + len - k, suffix) == 0;
	}
	if (dh != NULL)
		closedir(dh);
	return n;
}

static Log *
failed_log(Harness *h, const char *name, const char *rule)
{
	LogAppend a;
	Log *log;

	harness_init(h, name);
	harness_open(h);
	log = harness_log(h, "t", 0);
	harness_append_synced(h, log, &(BatchSpec){.records = 3, .value_len = 100});
	faultfs_rules(rule);
	harness_append(h, log, &(BatchSpec){0}, &a);
	harness_wait(h, log_error(log) != NULL);
	faultfs_rules("");
	return log;
}

/* Who reads from it goes on doing so, and the new log of the name knows nothing of it. */
static void
test_open_slice(void)
{
	Harness h;
	char aside[512] = "", byte;
	LogSlice slice;
	Log *log = failed_log(&h, "aside", "fdatasync t-0/ EIO 1\n");
	Err err;

	ok(log_is_broken(log), "a log whose sync failed is broken");
	is_int(harness_read(&h, log, 0, 3, 1000), 0, "a slice of it is open");
	slice = h.slice;
	ok(log_manager_set_aside(h.m, log, aside, sizeof(aside), &err), "it is set aside");
	ok(strstr(aside, "/t-0.") != NULL && strcmp(aside + strlen(aside) - 8, "-corrupt") == 0,
	   "to a name that says so: %s", aside);
	ok(log_manager_find(h.m, "t", 1, 0) == NULL, "the manager knows it no more");
	log = harness_log(&h, "t", 0);
	ok(log != NULL && log_error(log) == NULL && log_appended_end(log) == 0,
	   "another log has its name, and is empty");
	ok(harness_append_synced(&h, log, &(BatchSpec){0}), "and takes records");
	is_int(pread(slice.fd, &byte, 1, slice.pos + slice.len - 1), 1, "the slice is read to its end meanwhile");
	log_slice_release(&slice);
	for (int i = 0; i < 10; i++)
		harness_turn(&h);
	is_int(count_names(h.dir, "-corrupt"), 1, "the folder stays when the last reader is gone");
	snprintf(aside + strlen(aside), sizeof(aside) - strlen(aside), "/%s", SEG0);
	ok(size_of(aside) > 0, "with all its bytes");
	harness_close(&h);
	harness_remove(h.dir);
}

/* What is queued comes back without a trace in the log that has the name now. */
static void
test_queued_writes(void)
{
	Harness h;
	char aside[512] = "";
	Log *log, *other;
	LogAppend a;
	int64_t sent = 0;
	Err err;

	harness_init(&h, "queued");
	h.config.segment_bytes = 3000; /* so that files of the log are yet to be made */
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	other = harness_log(&h, "u", 0);
	harness_append_synced(&h, log, &(BatchSpec){0});
	/* The writer is held in a write of another log while those of this one wait. */
	faultfs_rules("pwrite u-0/ delay:300 1\n");
	harness_append(&h, other, &(BatchSpec){0}, &a);
	for (int i = 0; i < 20; i++)
		sent += harness_append(&h, log, &(BatchSpec){.value_len = 1000}, &a) == 0;
	is_int(sent, 20, "20 batches are queued");
	ok(log_manager_set_aside(h.m, log, aside, sizeof(aside), &err), "the log is set aside");
	log = harness_log(&h, "t", 0);
	is_int(harness_append(&h, log, &(BatchSpec){.value_len = 10}, &a), 0,
		   "the new one takes a batch at once");
	is_int(a.base_offset, 0, "at offset 0");
	harness_wait(&h, log_synced_end(log) == 1 && h.released == 23);
	is_int(h.released, 23, "every buffer comes back, those of the old log too");
	is_int(log_synced_end(log), 1, "the new log has its batch");
	is_int(harness_count_batches(&h, log, 0, 100000), 1, "and nothing else");
	ok(size_of(harness_path(&h, "t-0", SEG0)) < 500, "nor has its file");
	is_int(count_names(harness_path(&h, "t-0", ""), ".log"), 1, "and no other stands beside it");
	faultfs_rules("");
	harness_close(&h);
	ok(harness_open(&h) && log_manager_clean_start(h.m), "the stop was clean");
	is_int(harness_count_batches(&h, harness_log(&h, "t", 0), 0, 100000), 1,
		   "and the next start finds the same");
	harness_close(&h);
	harness_remove(h.dir);
}

/* A start leaves what was set aside alone, after a crash too; a second time gets a name of its own. */
static void
test_restart_and_again(void)
{
	Harness h;
	char first[512] = "", second[512] = "";
	Log *log = failed_log(&h, "again", "pwrite t-0/ EIO 1\n");
	Err err;

	ok(log_manager_set_aside(h.m, log, first, sizeof(first), &err), "set aside");
	harness_append_synced(&h, harness_log(&h, "t", 0), &(BatchSpec){.records = 2});
	harness_close(&h);
	unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
	ok(harness_open(&h), "an unclean start");
	is_int(log_manager_count(h.m), 1, "has one log");
	is_int(log_appended_end(harness_log(&h, "t", 0)), 2, "the new one");
	is_int(count_names(h.dir, "-corrupt"), 1, "and keeps the folder");
	ok(log_manager_set_aside(h.m, harness_log(&h, "t", 0), second, sizeof(second), &err), "set aside again");
	ok(strcmp(first, second) != 0, "under another name");
	ok(harness_append_synced(&h, harness_log(&h, "t", 0), &(BatchSpec){0}), "a third log goes on");
	is_int(count_names(h.dir, "-corrupt"), 2, "both are kept");
	harness_close(&h);
	harness_remove(h.dir);
}

/* A log that could not even be opened, as a start with a bit flip leaves it. */
static void
test_quarantined(void)
{
	Harness h;
	char aside[512] = "", path[512];
	Log *log;
	Err err;
	int fd;

	harness_init(&h, "flip");
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	for (int i = 0; i < 5; i++)
		harness_append_synced(&h, log, &(BatchSpec){.value_len = 200});
	harness_close(&h);
	unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
	fd = open(harness_path(&h, "t-0", SEG0), O_WRONLY);
	ok(fd >= 0 && pwrite(fd, "?", 1, 100) == 1, "a byte of the first batch flips");
	close(fd);
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	ok(log_is_broken(log) && !log_is_open(log), "the log is offline: %s",
	   log_error(log) ? log_error(log) : "");
	ok(log_manager_set_aside(h.m, log, aside, sizeof(aside), &err), "it is set aside");
	log = harness_log(&h, "t", 0);
	ok(!log_is_broken(log) && harness_append_synced(&h, log, &(BatchSpec){0}), "the new one is well");
	snprintf(path, sizeof(path), "%.400s/quarantined", aside);
	ok(size_of(path) >= 0, "the mark of the quarantine went with the folder");
	harness_close(&h);
	harness_open(&h);
	ok(!log_is_broken(harness_log(&h, "t", 0)), "so the next start finds a log that is well");
	harness_close(&h);
	harness_remove(h.dir);
}

/* A folder that is not there: nothing is lost, and nothing new stands beside it. */
static void
test_no_rename(void)
{
	Harness h;
	char aside[512] = "", moved[512];
	Log *log = failed_log(&h, "norename", "fdatasync t-0/ EIO 1\n");
	Err err;

	snprintf(moved, sizeof(moved), "%s/moved", h.dir);
	ok(rename(harness_path(&h, "", "t-0"), moved) == 0, "somebody has moved its folder");
	ok(!log_manager_set_aside(h.m, log, aside, sizeof(aside), &err), "which cannot be renamed then");
	ok(strstr(err.text, "cannot be set aside") != NULL, "is told: %s", err.text);
	ok(log_manager_find(h.m, "t", 1, 0) == log && log_is_broken(log), "and the log is as it was");
	harness_close(&h);
	harness_remove(h.dir);
}

/* A full disk heals by itself. */
static void
test_full_is_not_broken(void)
{
	Harness h;
	Log *log = failed_log(&h, "full", "pwrite t-0/ ENOSPC 1\npwrite .probe ENOSPC 1\n");

	ok(!log_is_broken(log), "a log on a full disk is not broken");
	harness_close(&h);
	harness_remove(h.dir);
}

int
main(void)
{
	test_open_slice();
	test_queued_writes();
	test_restart_and_again();
	test_quarantined();
	test_no_rename();
	test_full_is_not_broken();
	return tap_done();
}
