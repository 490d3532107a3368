/*
 * log_bench: how fast the partition logs of one data directory take batches, without network and API.
 *
 *     log_bench append DIR BATCH_BYTES PARTITIONS INFLIGHT SECONDS
 *         appends with fdatasync before the acknowledgement, INFLIGHT batches a partition not yet acknowledged;
 *         prints MB/s, batches/s, acknowledgement latency (median, 99 %), syncs/s and CPU seconds a GB
 *     log_bench open DIR PARTITIONS
 *         makes the logs if they are not there, closes cleanly, and prints how long the next open takes and
 *         the resident memory then; run again after `kill -9` of a run for the unclean case
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/log.h"
#include "wire/record.h"

#define MAX_SAMPLES 1000000

typedef struct Part
{
	Log *log;
	int inflight;
	int64_t acked;
	int first; /* ring of what waits: end offset and when it was appended */
	int count;
	struct
	{
		int64_t end;
		int64_t us;
	} wait[256];
	uint8_t *buf[256];
} Part;

typedef struct Bench
{
	LogManager *m;
	Part *parts;
	int nparts;
	int32_t len;
	int64_t batches;
	int32_t *samples;
	int nsamples;
} Bench;

static void
on_change(void *ctx, Log *log)
{
	Bench *b = ctx;
	Part *p = log_user(log);
	int64_t now = clock_boot_us();

	if (log_error(log) != NULL)
	{
		fprintf(stderr, "%s\n", log_error(log));
		exit(1);
	}
	while (p != NULL && p->count > 0 && p->wait[p->first].end <= log_synced_end(log))
	{
		if (b->nsamples < MAX_SAMPLES)
			b->samples[b->nsamples++] = (int32_t) (now - p->wait[p->first].us);
		p->first = (p->first + 1) % 256;
		p->count--;
		b->batches++;
	}
}

static uint8_t *
make_batch(int32_t size, int32_t *len)
{
	BatchBuilder bb;
	WireWriter w;
	int value_len = size < 2000 ? size - 80 : 1000;
	uint8_t *value = calloc(1, (size_t) value_len);
	int64_t now = clock_wall_ms();

	wire_writer_init(&w);
	batch_begin(&bb, &w, COMPRESS_NONE);
	do
		batch_add(&bb, now, WBYTES_NULL, (WBytes){value, value_len}, NULL, 0);
	while (batch_building_size(&bb) + (size_t) value_len + 20 < (size_t) size);
	if (batch_end(&bb) != 0)
		abort();
	free(value);
	*len = (int32_t) w.len;
	return w.buf;
}

static void
nothing(void *owner)
{
	(void) owner;
}

static void
append(Bench *b, Part *p)
{
	int slot = (p->first + p->count) % 256;
	LogAppend a = {.records = p->buf[slot], .len = b->len, .leader_epoch = 1, .release = nothing};
	int16_t error;

	batch_set_base_offset(a.records, 0);
	error = log_append_as_leader(p->log, &a);
	if (error != 0)
	{
		fprintf(stderr, "append: %d %s\n", error, a.message == NULL ? "" : a.message);
		exit(1);
	}
	p->wait[slot].end = a.end_offset;
	p->wait[slot].us = clock_boot_us();
	p->count++;
}

static void
turn(LogManager *m, int timeout)
{
	struct pollfd pfd = {.fd = log_manager_fd(m), .events = POLLIN};

	poll(&pfd, 1, timeout);
	log_manager_dispatch(m);
}

static int
compare(const void *a, const void *b)
{
	return *(const int32_t *) a - *(const int32_t *) b;
}

static double
cpu_seconds(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return (double) (ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
		   (double) (ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
}

static LogManager *
open_dir(const char *dir, Bench *b)
{
	Err err = {0};
	LogManagerOptions opt = {
		.dir = dir, .cluster_id = "bench", .node_id = 1, .on_change = on_change, .ctx = b};
	LogManager *m = log_manager_open(&opt, &err);

	if (m == NULL)
	{
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	return m;
}

static Log *
get_log(LogManager *m, int i)
{
	LogConfig c;
	Err err = {0};
	Log *log = log_manager_find(m, "bench", 5, i);

	log_config_default(&c);
	c.max_message_bytes = 64 << 20;
	c.retention_bytes = (int64_t) 2 << 30;
	if (log == NULL)
		log = log_manager_create(m, "bench", 5, i, NULL, &c, &err);
	if (log == NULL)
	{
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	log_set_config(log, &c);
	return log;
}

static void
bench_append(char **argv)
{
	Bench b = {.nparts = atoi(argv[4]), .samples = malloc(sizeof(int32_t) * MAX_SAMPLES)};
	int inflight = atoi(argv[5]);
	int64_t start, until, tick = 0, us;
	double cpu;
	LogDirStats before, after;
	double gb;

	b.m = open_dir(argv[2], &b);
	b.parts = calloc((size_t) b.nparts, sizeof(*b.parts));
	for (int i = 0; i < b.nparts; i++)
	{
		b.parts[i].log = get_log(b.m, i);
		log_set_user(b.parts[i].log, &b.parts[i]);
		/* The bytes are the same for all; each batch in flight needs its own header. */
		for (int k = 0; k < 256 && (k == 0 || (int64_t) k * b.len * b.nparts < (int64_t) 1 << 30); k++)
			b.parts[i].buf[k] = make_batch(atoi(argv[3]), &b.len);
		for (int k = 0; k < 256; k++)
			if (b.parts[i].buf[k] == NULL)
				b.parts[i].buf[k] = make_batch(atoi(argv[3]), &b.len);
	}
	log_manager_stats(b.m, &before);
	start = clock_boot_us();
	until = start + (int64_t) atoi(argv[6]) * 1000000;
	cpu = cpu_seconds();
	while (clock_boot_us() < until)
	{
		for (int i = 0; i < b.nparts; i++)
			while (b.parts[i].count < inflight)
				append(&b, &b.parts[i]);
		turn(b.m, 100);
		if (clock_boot_ms() - tick > 100)
		{
			tick = clock_boot_ms();
			for (int i = 0; i < b.nparts; i++)
				log_set_high_watermark(b.parts[i].log, log_synced_end(b.parts[i].log));
			log_manager_tick(b.m, clock_wall_ms());
		}
	}
	us = clock_boot_us() - start;
	cpu = cpu_seconds() - cpu;
	log_manager_stats(b.m, &after);
	gb = (double) b.batches * b.len / 1e9;
	qsort(b.samples, (size_t) b.nsamples, sizeof(int32_t), compare);
	printf(
		"%d partitions, %d bytes, %d in flight: %.0f MB/s, %.0f batches/s, ack %.2f ms median %.2f ms 99%%, "
		"%.0f syncs/s, %.2f CPU s/GB\n",
		b.nparts, b.len, inflight, gb * 1e9 / (double) us, (double) b.batches * 1e6 / (double) us,
		b.samples[b.nsamples / 2] / 1000.0, b.samples[b.nsamples / 100 * 99] / 1000.0,
		(double) (after.syncs - before.syncs) * 1e6 / (double) us, cpu / gb);
	log_manager_close(b.m);
}

static long
resident_kib(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long size = 0, resident = 0;

	if (f == NULL || fscanf(f, "%ld %ld", &size, &resident) != 2)
		resident = 0;
	if (f != NULL)
		fclose(f);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void
bench_open(char **argv)
{
	Bench b = {0};
	int n = atoi(argv[3]);
	int64_t us = clock_boot_us();

	b.m = open_dir(argv[2], &b);
	printf("open: %d logs in %.0f ms (%s stop), %ld KiB resident\n", log_manager_count(b.m),
		   (double) (clock_boot_us() - us) / 1000, log_manager_clean_start(b.m) ? "clean" : "unclean",
		   resident_kib());
	for (int i = 0; i < n; i++)
		get_log(b.m, i);
	us = clock_boot_us();
	log_manager_close(b.m);
	printf("close: %.0f ms\n", (double) (clock_boot_us() - us) / 1000);
	us = clock_boot_us();
	b.m = open_dir(argv[2], &b);
	printf("open: %d logs in %.0f ms (%s stop), %ld KiB resident\n", log_manager_count(b.m),
		   (double) (clock_boot_us() - us) / 1000, log_manager_clean_start(b.m) ? "clean" : "unclean",
		   resident_kib());
	log_manager_close(b.m);
}

int
main(int argc, char **argv)
{
	log_set_level(LOG_WARNING);
	if (argc == 7 && strcmp(argv[1], "append") == 0)
		bench_append(argv);
	else if (argc == 4 && strcmp(argv[1], "open") == 0)
		bench_open(argv);
	else
	{
		fprintf(stderr, "usage: log_bench append DIR BATCH_BYTES PARTITIONS INFLIGHT SECONDS\n"
						"       log_bench open DIR PARTITIONS\n");
		return 2;
	}
	return 0;
}
