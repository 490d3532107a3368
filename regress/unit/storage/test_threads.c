/*
 * Everything at once, for the thread sanitizer above all: many logs, appends of several sizes, reads of old
 * and new offsets, lookups, retention, truncation, deletion and creation, while disks fail now and then.
 * At the end every batch that was acknowledged and not deleted is there.
 */
#include "regress/unit/storage/faultfs.c"
#include "regress/unit/storage/harness.h"

#define LOGS 40

typedef struct Shadow
{
	Log *log;
	int64_t acked; /* the synced end that was seen */
	int pending_reads;
} Shadow;

static int answers;
static int bad_answers;

static void
read_done(void *ctx, int16_t error, LogSlice *slice)
{
	(void) ctx;
	answers++;
	if (error == 0 && slice->len > 0)
	{
		uint8_t *b = malloc((size_t) slice->len);

		if (slice->data != NULL)
			memcpy(b, slice->data, (size_t) slice->len);
		else if (pread(slice->fd, b, (size_t) slice->len, slice->pos) != slice->len)
		{
			bad_answers++;
			printf("# short slice at %" PRId64 "\n", slice->first_offset);
		}
		if (batch_check(b, (size_t) slice->len, false) != BATCH_OK || !batch_crc_matches(b))
		{
			bad_answers++;
			printf("# no batch at %" PRId64 " (%s)\n", slice->first_offset,
				   slice->data == NULL ? "file" : "data");
		}
		free(b);
	}
	log_slice_release(slice);
}

static void
time_done(void *ctx, int16_t error, int64_t offset, int64_t timestamp, int32_t epoch)
{
	(void) ctx;
	(void) offset;
	(void) timestamp;
	(void) epoch;
	answers++;
	if (error != 0 && error != KERR_UNKNOWN_TOPIC_OR_PARTITION)
	{
		bad_answers++;
		printf("# lookup: %s\n", kerr_name(error));
	}
}

static uint32_t
next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static void
step(Harness *h, Shadow *s, uint32_t *seed, int64_t *asked)
{
	uint32_t what = next_random(seed) % 100;
	LogAppend a;
	LogSlice slice;
	int16_t error;
	LogRead r = {.offset = log_start_offset(s->log),
				 .limit_offset = INT64_MAX,
				 .max_bytes = (int32_t) (next_random(seed) % 60000),
				 .at_least_one = true};
	Err err;

	if (what < 60)
		harness_append(h, s->log,
					   &(BatchSpec){.records = 1 + (int) (what % 3),
									.value_len = 1 + (int) (next_random(seed) % 3000),
									.producer_id = 1 + (int) what % 4,
									.sequence = 0,
									.epoch = (int16_t) (h->released % 30000)},
					   &a);
	else if (what < 85)
	{
		int64_t span = log_written_end(s->log) - r.offset;

		r.offset += span > 0 ? next_random(seed) % (uint32_t) span : 0;
		if (log_read(s->log, &r, &slice, &error, read_done, NULL) == LOG_READ_PENDING)
			++*asked;
		else
		{
			answers--;
			read_done(NULL, error, &slice);
		}
	}
	else if (what < 92)
	{
		log_find_time(s->log, clock_wall_ms() - next_random(seed) % 100, INT64_MAX, time_done, NULL);
		++*asked;
	}
	else if (what < 94 && log_synced_end(s->log) - log_start_offset(s->log) > 10)
	{
		log_set_high_watermark(s->log, log_synced_end(s->log));
		if (log_raise_start(s->log, log_start_offset(s->log) + 3) != 0)
			bad_answers++;
	}
	else if (what == 94 && !log_truncate(s->log, log_appended_end(s->log) - 2, &err) &&
			 log_error(s->log) == NULL)
		bad_answers++;
	else if (what == 95)
	{
		char topic[32];

		snprintf(topic, sizeof(topic), "%s", log_topic(s->log));
		log_manager_delete(h->m, s->log);
		s->log = harness_log(h, topic, 0);
	}
}

int
main(void)
{
	Harness h;
	Shadow s[LOGS];
	uint32_t seed = 4711;
	int64_t asked = 0, until = clock_boot_ms() + 4000, steps = 0;
	int wrong = 0;

	harness_init(&h, "threads");
	h.opt.checkpoint_interval_ms = 50;
	h.config.segment_bytes = 20000;
	h.config.index_interval_bytes = 500;
	h.config.retention_bytes = 200000;
	harness_open(&h);
	for (int i = 0; i < LOGS; i++)
	{
		char topic[32];

		snprintf(topic, sizeof(topic), "t%d", i);
		harness_followed = i % 2 == 0;
		s[i] = (Shadow){.log = harness_log(&h, topic, 0)};
	}
	while (clock_boot_ms() < until)
	{
		for (int i = 0; i < 50; i++, steps++)
			step(&h, &s[next_random(&seed) % LOGS], &seed, &asked);
		if (steps % 5000 == 0)
			faultfs_rules("pwrite .log short:100 3\npwrite .probe ENOSPC 1\n");
		log_manager_dispatch(h.m);
		log_manager_tick(h.m, clock_wall_ms());
		for (int i = 0; i < LOGS; i++)
			log_set_high_watermark(s[i].log, log_synced_end(s[i].log));
	}
	faultfs_rules("");
	for (int i = 0; i < LOGS; i++)
		harness_wait(&h,
					 log_error(s[i].log) == NULL && log_synced_end(s[i].log) == log_appended_end(s[i].log));
	harness_wait(&h, answers >= asked);
	is_int(answers, asked, "every read and lookup is answered (%d steps)", (int) steps);
	is_int(bad_answers, 0, "and well");
	for (int i = 0; i < LOGS; i++)
	{
		s[i].acked = log_synced_end(s[i].log);
		wrong += log_error(s[i].log) != NULL;
		wrong += harness_count_batches(&h, s[i].log, log_start_offset(s[i].log), 50000) < 0;
	}
	is_int(wrong, 0, "every log reads from its start to its end");
	harness_close(&h);
	h.config.retention_bytes = -1; /* no segment goes while it is counted */
	harness_open(&h);
	for (int i = 0; i < LOGS; i++)
	{
		char topic[32];
		Log *log;

		snprintf(topic, sizeof(topic), "t%d", i);
		harness_followed = i % 2 == 0;
		log = harness_log(&h, topic, 0);
		if (log == NULL || log_synced_end(log) != s[i].acked || log_error(log) != NULL)
			printf("# %s: %s, end %" PRId64 " instead of %" PRId64 "\n", topic,
				   log && log_error(log) ? log_error(log) : "", log ? log_synced_end(log) : -1, s[i].acked);
		wrong += log == NULL || log_synced_end(log) != s[i].acked ||
				 harness_count_batches(&h, log, log_start_offset(log), 50000) < 0;
	}
	is_int(wrong, 0, "and after a restart");
	harness_close(&h);
	unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
	harness_open(&h);
	for (int i = 0; i < LOGS; i++)
	{
		char topic[32];
		Log *log;

		snprintf(topic, sizeof(topic), "t%d", i);
		harness_followed = i % 2 == 0;
		log = harness_log(&h, topic, 0);
		wrong += log == NULL || log_synced_end(log) != s[i].acked || log_error(log) != NULL;
	}
	is_int(wrong, 0, "and after a crash");
	harness_close(&h);
	harness_remove(h.dir);
	return tap_done();
}
