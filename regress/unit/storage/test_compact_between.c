/* What comes between the steps of a compaction: readers, truncation, deletion, a stop. */
#include "regress/unit/storage/compact_model.h"

/* Until the pass is there where it renames, or is over. */
static bool
under_way(Harness *h, const Log *log)
{
	harness_wait(h, log->compaction->job != NULL || is_idle(log));
	return log->compaction->job != NULL;
}

/* Slices that were given before stay what they were, though their segment has been replaced and deleted. */
static void
test_readers(void)
{
	Harness h;
	Model m = {0};
	Log *log;
	LogSlice held[20];
	uint8_t *bytes[20];
	int n = 0, same = 0;
	int64_t next = 0;

	compact_init(&h, "readers");
	harness_open(&h);
	model_log(&h, &m, &log, 300);
	while (n < 20 && harness_read(&h, log, next, INT64_MAX, 2000) == 0 && h.slice.len > 0)
	{
		held[n] = h.slice;
		next = h.slice.next_offset + 37;
		bytes[n] = malloc((size_t) held[n].len);
		if (held[n].data != NULL)
			memcpy(bytes[n], held[n].data, (size_t) held[n].len);
		else if (pread(held[n].fd, bytes[n], (size_t) held[n].len, held[n].pos) != held[n].len)
			abort();
		n++;
	}
	settle(&h, log);
	ok(log->cleaned_end > 0, "compacted while %d slices are held", n);
	for (int i = 0; i < 20; i++)
		harness_turn(&h); /* the deleter has its turn */
	for (int i = 0; i < n; i++)
	{
		uint8_t *now = malloc((size_t) held[i].len);

		same += held[i].data != NULL ||
				(pread(held[i].fd, now, (size_t) held[i].len, held[i].pos) == held[i].len &&
				 memcmp(now, bytes[i], (size_t) held[i].len) == 0);
		free(now);
		free(bytes[i]);
		log_slice_release(&held[i]);
	}
	is_int(same, n, "every slice still has its bytes");
	check(&h, log, &m, false, "new reads see the new segments");
	harness_close(&h);
	model_free(&m);
	harness_remove(h.dir);
}

/* Reads of all kinds go on while segments are replaced under them: each gets what is in the log, and gets on. */
static void
test_reads_meanwhile(void)
{
	Harness h;
	Model m = {0};
	Log *log;
	int bad = 0, reads = 0;

	compact_init(&h, "meanwhile");
	h.config.index_interval_bytes = 200;
	harness_open(&h);
	model_log(&h, &m, &log, 200);
	for (int round = 0; round < 6; round++)
	{
		log_set_high_watermark(log, log_synced_end(log));
		for (int i = 0; i < 40; i++)
		{
			int64_t from = rand() % log_written_end(log);
			ModelCheck c = {.next = 0};

			harness_turn(&h);
			reads++;
			if (harness_read(&h, log, from, INT64_MAX, 1 + rand() % 5000) != 0 || h.slice.len == 0 ||
				h.slice.next_offset <= from)
			{
				bad++;
				continue;
			}
			else
			{
				int32_t len = h.slice.len, pos = 0;
				uint8_t *buf = harness_bytes(&h);

				while (pos < len && c.wrong[0] == '\0')
				{
					if (batch_check(buf + pos, (size_t) (len - pos), false) != BATCH_OK ||
						!batch_crc_matches(buf + pos))
						snprintf(c.wrong, sizeof(c.wrong), "damaged");
					else
						model_check_batch(&m, &c, buf + pos);
					pos += (int32_t) batch_size(buf + pos);
				}
				free(buf);
				bad += c.wrong[0] != '\0';
			}
			if (i % 10 == 0)
			{
				int64_t found = harness_find_time(&h, log, m.records[from].time);

				bad += found >= 0 && m.records[found].time < m.records[from].time;
				/* The one with that time may be gone; one that is in the active segment is not. */
				for (int64_t o = log_active(log)->base_offset; found < 0 && o < m.n; o++)
					if (m.records[o].time >= m.records[from].time)
					{
						printf("# no record is found at or after the time of offset %d\n", (int) o);
						bad++;
						break;
					}
			}
		}
		model_fill(&h, log, &m, 40);
		harness_wait(&h, log_synced_end(log) == log_appended_end(log));
	}
	is_int(bad, 0, "%d reads during compactions", reads);
	settle(&h, log);
	check(&h, log, &m, false, "and at the end");
	harness_close(&h);
	model_free(&m);
	harness_remove(h.dir);
}

/* The log is cut below what a pass has looked at: what the pass knew may be wrong now, and it must not go on. */
static void
test_truncation(void)
{
	int ended = 0, bad = 0;

	for (int round = 0; round < 40; round++)
	{
		Harness h;
		Model m = {0};
		ModelCheck c;
		Log *log;
		Err err = {0};
		int64_t to, kept;
		const char *wrong;

		compact_init(&h, "cut");
		harness_open(&h);
		model_log(&h, &m, &log, 120);
		log_set_high_watermark(log, log_synced_end(log));
		under_way(&h, log);
		for (int i = rand() % 3; i > 0; i--)
			log_manager_dispatch(h.m);
		ended += log->compaction->job != NULL;
		to = log->segments[rand() % log->nsegments]->base_offset + rand() % 20;
		if (to > log_appended_end(log))
			to = log_appended_end(log);
		if (!log_truncate(log, to, &err))
			bad++;
		if (log->cleaned_end > log_appended_end(log))
			bad++;
		m.n = kept = log_appended_end(log);
		model_fill(&h, log, &m, 30);
		settle(&h, log);
		model_read(&h, log, &m, 0, 3000, &c);
		/* Passes that were swapped before it have taken what was newer then; what is left of a key is the newest there is. */
		for (int64_t i = log->cleaned_end > kept ? log->cleaned_end : kept; i < m.n && c.wrong[0] == '\0';
			 i++)
			if (!m.records[i].seen)
				snprintf(c.wrong, sizeof(c.wrong), "offset %d is not there", (int) i);
		wrong = c.wrong[0] == '\0' ? NULL : c.wrong;
		if (wrong != NULL && bad++ < 3)
			printf("# %s\n", wrong);
		harness_close(&h);
		harness_open(&h);
		log = harness_log(&h, "t", 0);
		if (log_error(log) != NULL || log_synced_end(log) != m.n)
			bad++;
		harness_close(&h);
		model_free(&m);
		harness_remove(h.dir);
	}
	is_int(bad, 0, "40 truncations, %d of them during a pass", ended);
	ok(ended > 0, "some were");
}

/* Truncated before any group was replaced: then not one record of what stays may be missing. */
static void
test_cut_while_mapped(void)
{
	Harness h;
	Model m = {0};
	ModelCheck c;
	Log *log;
	Err err = {0};
	int missing = 0;

	compact_init(&h, "mapped");
	harness_open(&h);
	model_log(&h, &m, &log, 200);
	log_set_high_watermark(log, log_synced_end(log));
	/* It begins with a tick, and nothing of it is dispatched. */
	harness_wait(&h, log->compaction->job != NULL);
	ok(log->compaction->job != NULL, "a pass is under way");
	is_int(log_truncate(log, log->segments[2]->base_offset, &err), true, "the log is cut");
	m.n = log_appended_end(log);
	h.config.cleanup_compact = false;
	log_set_config(log, &h.config);
	for (int i = 0; i < 20; i++)
		harness_turn(&h);
	model_read(&h, log, &m, 0, 3000, &c);
	for (int64_t i = 0; i < m.n; i++)
		missing += !m.records[i].seen;
	is_int(missing, 0, "all %d records that stay are there%s%s", (int) m.n, c.wrong[0] != '\0' ? ": " : "",
		   c.wrong);
	ok(log->compaction == NULL, "and nothing is kept for a log that is not compacted any more");
	harness_close(&h);
	model_free(&m);
	harness_remove(h.dir);
}

/* Cut below what was cleaned: the checkpoint that says more is off the disk before the log is cut, whatever comes then. */
static void
test_checkpoint_first(void)
{
	Harness h;
	Model m = {0};
	Log *log;
	Err err = {0};
	int64_t cleaned;

	compact_init(&h, "mark");
	harness_open(&h);
	model_log(&h, &m, &log, 200);
	settle(&h, log);
	cleaned = log->cleaned_end;
	harness_close(&h);
	ok(size_of(harness_path(&h, "", "cleaner-offset-checkpoint")) > 0, "what was cleaned is kept");
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	is_int(log->cleaned_end, cleaned, "and read");
	is_int(log_truncate(log, cleaned / 2, &err), true, "the log is cut below it");
	is_int(log->cleaned_end, cleaned / 2, "no more than that is clean");
	is_int(size_of(harness_path(&h, "", "cleaner-offset-checkpoint")), -1,
		   "and nothing on the disk says otherwise");
	harness_close(&h);
	model_free(&m);
	harness_remove(h.dir);
}

/* The log goes, is set aside, starts anew, or the process stops. */
static void
test_log_goes(void)
{
	for (int how = 0; how < 4; how++)
	{
		static const char *const names[] = {"deleted", "set aside", "started anew", "stopped"};
		int during = 0, bad = 0;

		for (int round = 0; round < 12; round++)
		{
			Harness h;
			Model m = {0};
			Log *log;
			Err err = {0};
			char path[600];

			compact_init(&h, "goes");
			harness_open(&h);
			model_log(&h, &m, &log, 80);
			log_set_high_watermark(log, log_synced_end(log));
			under_way(&h, log);
			for (int i = rand() % 4; i > 0; i--)
				log_manager_dispatch(h.m);
			during += log->compaction->job != NULL;
			if (how == 0)
				log_manager_delete(h.m, log);
			else if (how == 1)
				bad += !log_manager_set_aside(h.m, log, path, sizeof(path), &err);
			else if (how == 2)
				bad += !log_truncate_fully(log, 1000000, &err);
			if (how < 2)
			{
				/* Another one of that name. */
				model_free(&m);
				model_log(&h, &m, &log, 30);
				settle(&h, log);
				check(&h, log, &m, false, names[how]);
			}
			else if (how == 2)
			{
				bad += log->cleaned_end != 0 || log_appended_end(log) != 1000000;
				bad += !harness_append_synced(&h, log, &(BatchSpec){0});
			}
			harness_close(&h);
			harness_open(&h);
			log = harness_log(&h, "t", 0);
			if (how == 2)
				bad += log_error(log) != NULL || log_synced_end(log) != 1000001 ||
					   log_start_offset(log) != 1000000;
			else if (how == 3)
			{
				settle(&h, log);
				check(&h, log, &m, false, names[how]);
			}
			harness_close(&h);
			model_free(&m);
			harness_remove(h.dir);
		}
		is_int(bad, 0, "%s: %d of 12 times during a pass", names[how], during);
	}
}

int
main(void)
{
	srand(model_seed());
	test_readers();
	test_reads_meanwhile();
	test_truncation();
	test_cut_while_mapped();
	test_checkpoint_first();
	test_log_goes();
	return tap_done();
}
