/* Compaction on disks that are full or broken, and of logs that are damaged: it gives up, and nothing has happened. */
#include "regress/unit/storage/faultfs.c"

#include "regress/unit/storage/compact_model.h"

static void
fill(Harness *h, Log *log, Model *m, int batches)
{
	for (int i = 0; i < batches; i++)
		model_append(
			h, log, m,
			&(KeyedSpec){.records = 1 + rand() % 9, .codec = rand() % 5, .time = 1000 + i, .pad = 30});
	harness_wait(h, log_synced_end(log) == log_appended_end(log));
	log_set_high_watermark(log, log_synced_end(log));
}

static Log *
begin(Harness *h, Model *m, const char *name)
{
	Log *log;

	harness_init(h, name);
	h->config.cleanup_delete = false;
	h->config.segment_bytes = 8000;
	h->config.min_dirty_ratio = 0.01;
	harness_open(h);
	log = harness_log(h, "t", 0);
	fill(h, log, m, 200);
	return log;
}

static void
compact(Harness *h, Log *log)
{
	h->config.cleanup_compact = true;
	log_set_config(log, &h->config);
}

static int
missing(Harness *h, Log *log, Model *m)
{
	ModelCheck c;
	int n = 0;

	model_read(h, log, m, 0, 4000, &c);
	for (int64_t i = 0; i < m->n; i++)
		n += !m->records[i].seen;
	return c.wrong[0] == '\0' ? n : -1;
}

static int
left_over(const Harness *h, const char *what)
{
	DIR *dh = opendir(harness_path(h, "t-0", ""));
	struct dirent *e;
	int n = 0;

	while ((e = readdir(dh)) != NULL)
		n += strstr(e->d_name, what) != NULL;
	closedir(dh);
	return n;
}

static void
test_fault(const char *rule, const char *what)
{
	Harness h;
	Model m = {0};
	ModelCheck c;
	const char *wrong;
	Log *log = begin(&h, &m, "fault");

	faultfs_rules(rule);
	compact(&h, log);
	harness_wait(&h, log->compaction->told && log->compaction->job == NULL);
	ok(log->compaction->told, "%s: it gives up, and says so", what);
	ok(log_error(log) == NULL, "the log is well");
	is_int(missing(&h, log, &m), 0, "nothing is missing");
	is_int(left_over(&h, ".cleaned") + left_over(&h, ".swap"), 0, "nothing is left over");
	ok(log->compaction->due_ms > clock_wall_ms() + 30000, "it is not tried again at once");
	is_int(log->cleaned_end, 0, "nor recorded");
	ok(harness_append_synced(&h, log, &(BatchSpec){0}), "the log takes records");
	m.n++;
	m.cap = m.n;
	m.records = realloc(m.records, sizeof(*m.records) * (size_t) m.n);
	m.records[m.n - 1] = (ModelRecord){model_keys, 0, 0, true};
	faultfs_rules("");
	log->compaction->due_ms = 1;
	compaction_wake(log);
	harness_wait(&h, log->cleaned_end > 0 && log->compaction->job == NULL);
	m.n--;
	model_read(&h, log, &m, 0, 4000, &c);
	c.wrong[0] = '\0'; /* the record that is not the model's */
	wrong = model_verdict(&m, &c, 0, log->cleaned_end, log->cleaned_end, false);
	ok(wrong == NULL && log->cleaned_end > 0, "later it works%s", wrong == NULL ? "" : wrong);
	ok(!log->compaction->told, "and the next failure would be said");
	harness_close(&h);
	model_free(&m);
	harness_remove(h.dir);
}

/* Names that are neither the one nor the other: only a start can tell, and until then nobody may change the log. */
static void
test_half_done(const char *rule, const char *what)
{
	Harness h;
	Model m = {0};
	ModelCheck c;
	const char *wrong;
	Log *log = begin(&h, &m, "half");

	faultfs_rules(rule);
	compact(&h, log);
	harness_wait(&h, log_error(log) != NULL);
	ok(log_error(log) != NULL && log_is_broken(log), "%s: the log is offline: %s", what,
	   log_error(log) == NULL ? "" : log_error(log));
	is_int(missing(&h, log, &m), 0, "what it had is still read");
	is_int(harness_append(&h, log, &(BatchSpec){0}, &(LogAppend){0}), KERR_KAFKA_STORAGE_ERROR,
		   "it takes nothing");
	faultfs_rules("");
	harness_close(&h);
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	log_set_high_watermark(log, log_synced_end(log));
	harness_wait(&h, log->cleaned_end > 0 && log->compaction->job == NULL);
	is_int(log_synced_end(log), m.n, "the next start finds its end");
	model_read(&h, log, &m, 0, 4000, &c);
	wrong = model_verdict(&m, &c, 0, log->cleaned_end, log->cleaned_end, false);
	ok(wrong == NULL, "and all that must be there%s", wrong == NULL ? "" : wrong);
	harness_close(&h);
	model_free(&m);
	harness_remove(h.dir);
}

/* A bit that has changed in a segment: said once, left alone, and everything else goes on. */
static void
test_damage(void)
{
	Harness h;
	Model m = {0};
	Log *log = begin(&h, &m, "damage"), *other;
	Model n = {0};
	ModelCheck c;
	const char *wrong;
	uint8_t b;
	int fd;
	int64_t size = log_size_bytes(log);

	fd = open(harness_path(&h, "t-0", "00000000000000000000.log"), O_RDWR);
	if (pread(fd, &b, 1, 3000) != 1)
		abort();
	b ^= 4;
	if (pwrite(fd, &b, 1, 3000) != 1)
		abort();
	compact(&h, log);
	harness_wait(&h, log->compaction->damaged != 0);
	ok(log->compaction->told && log->compaction->damaged != 0, "a damaged batch is found");
	ok(log_error(log) == NULL && log_size_bytes(log) == size, "the log stays as it is");
	other = harness_log(&h, "u", 0);
	fill(&h, other, &n, 200);
	harness_wait(&h, other->cleaned_end > 0);
	ok(other->cleaned_end > 0, "another log is compacted");
	fill(&h, log, &m, 100);
	for (int i = 0; i < 10; i++)
		harness_turn(&h);
	ok(log->compaction->job == NULL && log->cleaned_end == 0, "it is not tried again");
	b ^= 4;
	if (pwrite(fd, &b, 1, 3000) != 1)
		abort();
	close(fd);
	harness_close(&h);
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	log_set_high_watermark(log, log_synced_end(log));
	harness_wait(&h, log->cleaned_end > 0 && log->compaction->job == NULL);
	model_read(&h, log, &m, 0, 4000, &c);
	wrong = model_verdict(&m, &c, 0, log->cleaned_end, log->cleaned_end, false);
	ok(wrong == NULL && log->cleaned_end > 0, "until the next start%s", wrong == NULL ? "" : wrong);
	harness_close(&h);
	model_free(&m);
	model_free(&n);
	harness_remove(h.dir);
}

/* What Kafka has left of its own compactions. */
static void
test_kafkas_leftovers(void)
{
	static const struct
	{
		const char *from, *to, *extra;
		bool opens;
		const char *what;
	} t[] = {{"00000000000000000000.log", "00000000000000000000.log.swap", NULL, true,
			  "a .log.swap takes the segment's place"},
			 {NULL, NULL, "00000000000000000000.log.cleaned", true, "a .cleaned goes"},
			 {NULL, NULL, "00000000000000000000.log.swap", true, "an empty .log.swap takes nothing's place"},
			 {NULL, NULL, "00000000000000000000.index.swap", true,
			  "an .index.swap without its .log is built again"},
			 {NULL, NULL, "00000000000000000000.log.deleted", true, "a .deleted goes"}};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
	{
		Harness h;
		Model m = {0};
		Log *log = begin(&h, &m, "kafka");
		char from[600], to[600];

		harness_close(&h);
		unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
		if (t[i].from != NULL)
		{
			snprintf(from, sizeof(from), "%s", harness_path(&h, "t-0", t[i].from));
			snprintf(to, sizeof(to), "%s", harness_path(&h, "t-0", t[i].to));
			if (rename(from, to) != 0)
				abort();
		}
		if (t[i].extra != NULL)
			close(open(harness_path(&h, "t-0", t[i].extra), O_RDWR | O_CREAT, 0644));
		harness_open(&h);
		log = harness_log(&h, "t", 0);
		ok(log_error(log) == NULL && missing(&h, log, &m) == 0, "%s", t[i].what);
		is_int(left_over(&h, ".swap") + left_over(&h, ".cleaned") + left_over(&h, ".deleted"), 0,
			   "nothing is left over");
		harness_close(&h);
		model_free(&m);
		harness_remove(h.dir);
	}
}

/* What is to replace others must be whole. */
static void
test_damaged_swap(void)
{
	Harness h;
	Model m = {0};
	Log *log = begin(&h, &m, "badswap");
	int fd;

	harness_close(&h);
	unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
	fd = open(harness_path(&h, "t-0", "00000000000000000000.log.swap"), O_RDWR | O_CREAT, 0644);
	if (pwrite(fd, "nothing that is a batch, but long enough to be one: 61 bytes and more", 70, 0) != 70)
		abort();
	close(fd);
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	ok(log_error(log) != NULL && strstr(log_error(log), "is damaged") != NULL, "the log is offline: %s",
	   log_error(log) == NULL ? "" : log_error(log));
	ok(size_of(harness_path(&h, "t-0", "00000000000000000000.log")) > 0, "and no segment was removed for it");
	harness_close(&h);
	model_free(&m);
	harness_remove(h.dir);
}

int
main(void)
{
	srand(7);
	test_fault("pwrite .cleaned ENOSPC\n", "a full disk");
	test_fault("pwrite .cleaned short:100\n", "a disk that is full in the middle");
	test_fault("open .log.cleaned EROFS\n", "a file that cannot be made");
	test_fault("fsync .cleaned EIO\n", "a sync that fails");
	test_fault("open .timeindex.cleaned ENOSPC\n", "a full disk at the index");
	test_fault("rename .log.cleaned EIO 1\n", "a name that cannot be changed");
	test_fault("rename .timeindex.cleaned EIO 1\n", "one of three names that cannot be changed");
	test_half_done("rename .log.swap EIO\n", "the new segment cannot get its name");
	test_half_done("rename .timeindex.swap EIO\n", "its index cannot");
	test_half_done("rename 0.index EIO\n", "the old one's index cannot");
	test_damage();
	test_kafkas_leftovers();
	test_damaged_swap();
	return tap_done();
}
