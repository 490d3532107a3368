/*
 * A process dies at every single change that a compaction makes to the disk, killed or with the power: the next start
 * finds the log whole, no record that must stay is missing, and compaction goes on.
 */
#include "regress/unit/storage/crashfs.c"

#include <sys/wait.h>

#include "regress/unit/storage/compact_model.h"
#include "regress/unit/storage/crash_copy.h"

/* With sanitizers each takes ten times as long. */
#if defined(__SANITIZE_THREAD__)
#define STEP 13
#elif defined(__SANITIZE_ADDRESS__)
#define STEP 4
#else
#define STEP 1
#endif

static void
configure(Harness *h, bool compact)
{
	h->config.cleanup_delete = false;
	h->config.cleanup_compact = compact;
	h->config.segment_bytes = 6000;
	h->config.index_interval_bytes = 500;
	h->config.min_dirty_ratio = 0.01;
	h->config.delete_retention_ms = 0;
	h->opt.checkpoint_interval_ms = 50;
}

/* A log that was compacted once and has grown since. */
static void
prepare(Harness *h, Model *m)
{
	Log *log;
	int32_t sequence = 0;

	harness_init(h, "before");
	configure(h, true);
	harness_open(h);
	log = harness_log(h, "t", 0);
	for (int i = 0; i < 110; i++)
	{
		int records = 1 + rand() % 5;

		model_append(h, log, m,
					 &(KeyedSpec){.records = records,
								  .codec = rand() % 3,
								  .producer_id = i % 3 == 0 ? 7 : 0,
								  .sequence = sequence,
								  .time = clock_wall_ms(),
								  .pad = 1 + rand() % 80});
		if (i % 3 == 0)
			sequence += records;
		if (i == 45)
		{
			settle(h, log);
			h->config.cleanup_compact = false;
			log_set_config(log, &h->config);
		}
	}
	settle(h, log);
	harness_close(h);
}

/* In a process of its own: compacts all there is and stops, if it gets to that. */
static void
die_at(Harness *h, int n, unsigned seed, const char *keep_dir)
{
	Log *log;

	if (!harness_open(h))
		_exit(1);
	crashfs_arm(n, seed, keep_dir);
	configure(h, true);
	log = harness_log(h, "t", 0);
	settle(h, log);
	harness_close(h);
	_exit(0);
}

/* NULL, or what is wrong with what the process has left. */
static const char *
look_after(Harness *h, Model *m, bool again)
{
	static char why[300];
	const char *wrong;
	ModelCheck c;
	Log *log;

	configure(h, false);
	if (!harness_open(h))
		return "the directory does not open";
	log = harness_log(h, "t", 0);
	why[0] = '\0';
	if (log_error(log) != NULL)
		snprintf(why, sizeof(why), "%s", log_error(log));
	else if (log_synced_end(log) != m->n)
		snprintf(why, sizeof(why), "it ends at %d, not %d", (int) log_synced_end(log), (int) m->n);
	else
	{
		model_read(h, log, m, 0, 4000, &c);
		wrong = model_verdict(m, &c, 0, log->cleaned_end, log_active(log)->base_offset, true);
		if (wrong != NULL)
			snprintf(why, sizeof(why), "%s", wrong);
	}
	if (why[0] == '\0' && again)
	{
		configure(h, true);
		log_set_config(log, &h->config);
		settle(h, log);
		model_read(h, log, m, 0, 4000, &c);
		wrong = model_verdict(m, &c, 0, log->cleaned_end, log->cleaned_end, true);
		if (wrong != NULL)
			snprintf(why, sizeof(why), "compacted again: %s", wrong);
		else if (log->cleaned_end != log_active(log)->base_offset)
			snprintf(why, sizeof(why), "it is not compacted again");
	}
	harness_close(h);
	return why[0] == '\0' ? NULL : why;
}

/* True: it died. */
static bool
one(const Harness *before, Model *m, int n, unsigned seed, int *bad)
{
	Harness h;
	char keep_dir[300];
	const char *wrong;
	int status;
	pid_t pid;

	crash_copy(before, &h, "crash");
	h.opt.checkpoint_interval_ms = 50;
	snprintf(keep_dir, sizeof(keep_dir), "%s-kept", h.dir);
	mkdir(keep_dir, 0755);
	fflush(stdout);
	if ((pid = fork()) == 0)
		die_at(&h, n, seed, keep_dir);
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || (WEXITSTATUS(status) != CRASH_STATUS && WEXITSTATUS(status) != 0))
		wrong = "the process ended in another way";
	else
		wrong = look_after(&h, m, true);
	if (wrong != NULL && ++*bad <= 5)
		printf("# change %d, seed %u: %s (%s)\n", n, seed, wrong, h.dir);
	harness_remove(keep_dir);
	if (wrong == NULL || getenv("KEEP") == NULL)
		harness_remove(h.dir);
	return WIFEXITED(status) && WEXITSTATUS(status) == CRASH_STATUS;
}

int
main(void)
{
	unsigned seed = model_seed();
	Harness before;
	Model m = {0};
	int killed = 0, bad = 0;

	srand(seed);
	model_keys = 30;
	prepare(&before, &m);
	while (one(&before, &m, killed, 0, &bad) && killed < 1000)
		killed += STEP;
	is_int(bad, 0, "killed at each of %d changes, or every %dth", killed, STEP);
	ok(killed > 30, "there were some");
	bad = 0;
	for (int i = (int) (seed % 2); i < killed; i += 2 * STEP)
		one(&before, &m, i, seed + 1 + (unsigned) i, &bad);
	is_int(bad, 0, "the power fails at every other of them");
	model_free(&m);
	harness_remove(before.dir);
	return tap_done();
}
