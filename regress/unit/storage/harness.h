/*
 * harness.h: a data directory in a temporary folder, and a loop that waits for what a test expects.
 */
#ifndef REGRESS_UNIT_STORAGE_HARNESS_H
#define REGRESS_UNIT_STORAGE_HARNESS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/log.h"
#include "regress/unit/tap.h"
#include "wire/errors.h"
#include "wire/record.h"

typedef struct Harness
{
	char dir[256];
	LogManager *m;
	int changes;
	int released;
	LogConfig config;
	LogManagerOptions opt;
	/* the last answer of a read or a lookup */
	bool answered;
	int16_t error;
	LogSlice slice;
	int64_t offset;
	int64_t timestamp;
	int32_t epoch;
} Harness;

/* Of logs that harness_log() gives: do others read up to the written end? */
static bool harness_followed = true;

static WUuid harness_topic_id = {{1, 2, 3, 4, 5, 6, 0x47, 8, 0x89, 10, 11, 12, 13, 14, 15, 16}};

static void
harness_on_change(void *ctx, Log *log)
{
	(void) log;
	((Harness *) ctx)->changes++;
}

static int
harness_unlink(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void) st;
	(void) flag;
	(void) ftw;
	return remove(path);
}

__attribute__((unused)) static void
harness_remove(const char *dir)
{
	nftw(dir, harness_unlink, 32, FTW_DEPTH | FTW_PHYS);
}

__attribute__((unused)) static void
harness_init(Harness *h, const char *name)
{
	const char *tmp = getenv("TMPDIR");

	/* In memory where that is possible: hundreds of crashes then take no time. */
	if (tmp == NULL)
		tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

	memset(h, 0, sizeof(*h));
	log_set_level(getenv("TEST_VERBOSE") != NULL ? LOG_DEBUG : LOG_FATAL);
	snprintf(h->dir, sizeof(h->dir), "%s/storage-%s-XXXXXX", tmp, name);
	if (mkdtemp(h->dir) == NULL)
		abort();
	log_config_default(&h->config);
	h->config.file_delete_delay_ms = 0;
	h->opt = (LogManagerOptions){.dir = h->dir,
								 .cluster_id = "test-cluster",
								 .node_id = 1,
								 .checkpoint_interval_ms = 3600000,
								 .producer_expiration_ms = 86400000,
								 .on_change = harness_on_change,
								 .ctx = h};
}

__attribute__((unused)) static bool
harness_open(Harness *h)
{
	Err err = {0};

	h->opt.dir = h->dir;
	h->opt.ctx = h;
	h->m = log_manager_open(&h->opt, &err);
	if (h->m == NULL)
		printf("# open: %s\n", err.text);
	return h->m != NULL;
}

__attribute__((unused)) static void
harness_close(Harness *h)
{
	log_manager_close(h->m);
	h->m = NULL;
}

/* Dispatch until `cond` holds, at most ten seconds. */
#define harness_wait(h, cond)                                                                                \
	do                                                                                                       \
	{                                                                                                        \
		int64_t hw_until = clock_boot_ms() + 10000;                                                          \
		while (!(cond) && clock_boot_ms() < hw_until)                                                        \
			harness_turn(h);                                                                                 \
	} while (0)

__attribute__((unused)) static void
harness_turn(Harness *h)
{
	struct pollfd pfd = {.fd = log_manager_fd(h->m), .events = POLLIN};

	poll(&pfd, 1, 20);
	log_manager_dispatch(h->m);
	log_manager_tick(h->m, clock_wall_ms());
}

__attribute__((unused)) static Log *
harness_log(Harness *h, const char *topic, int32_t partition)
{
	Err err = {0};
	Log *log = log_manager_find(h->m, topic, (int) strlen(topic), partition);

	if (log == NULL)
	{
		log = log_manager_create(h->m, topic, (int) strlen(topic), partition, &harness_topic_id, &h->config,
								 &err);
		if (log == NULL)
			printf("# create: %s\n", err.text);
	}
	else
		log_set_config(log, &h->config);
	if (log != NULL)
		log_set_followed(log, harness_followed);
	return log;
}

/* ---- batches ---- */

typedef struct BatchSpec
{
	int records;   /* 1 */
	int value_len; /* 10 */
	int codec;
	int64_t timestamp;   /* of the first record; each next one is 1 ms later.  0: now */
	int64_t producer_id; /* 0: none */
	int16_t epoch;
	int32_t sequence;
	bool transactional;
	bool keyless;
} BatchSpec;

/* malloc'ed; `*len` its size. */
__attribute__((unused)) static uint8_t *
make_batch(const BatchSpec *spec, int32_t *len)
{
	BatchBuilder bb;
	WireWriter w;
	int n = spec->records == 0 ? 1 : spec->records, value_len = spec->value_len == 0 ? 10 : spec->value_len;
	uint8_t *value = malloc((size_t) value_len);
	uint64_t seed = 0x9e3779b97f4a7c15u;

	for (int i = 0; i < value_len; i++)
	{
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		value[i] = (uint8_t) ((seed >> 60) + 'a');
	}
	wire_writer_init(&w);
	batch_begin(&bb, &w, spec->codec);
	for (int i = 0; i < n; i++)
	{
		int64_t t = (spec->timestamp == 0 ? clock_wall_ms() : spec->timestamp) + i;

		batch_add(&bb, t, spec->keyless ? WBYTES_NULL : (WBytes){(const uint8_t *) "key", 3},
				  (WBytes){value, value_len}, NULL, 0);
	}
	if (spec->producer_id != 0)
	{
		bb.producer_id = spec->producer_id;
		bb.producer_epoch = spec->epoch;
		bb.base_sequence = spec->sequence;
		if (spec->transactional)
			bb.attributes |= BATCH_TRANSACTIONAL;
	}
	if (batch_end(&bb) != 0)
		abort();
	free(value);
	*len = (int32_t) w.len;
	return w.buf;
}

typedef struct Owned
{
	Harness *h;
	void *buf;
} Owned;

static void
harness_release(void *owner)
{
	Owned *o = owner;

	o->h->released++;
	free(o->buf);
	free(o);
}

/* Appends as leader; the outcome in `*a`. */
__attribute__((unused)) static int16_t
harness_append(Harness *h, Log *log, const BatchSpec *spec, LogAppend *a)
{
	Owned *o = malloc(sizeof(*o));
	int16_t error;

	*a = (LogAppend){.leader_epoch = log_latest_epoch(log) < 0 ? 0 : log_latest_epoch(log),
					 .transaction_verified = true};
	a->records = make_batch(spec, &a->len);
	*o = (Owned){h, a->records};
	a->release = harness_release;
	a->owner = o;
	error = log_append_as_leader(log, a);
	if (error != 0)
	{
		free(o->buf);
		free(o);
	}
	return error;
}

__attribute__((unused)) static bool
harness_append_synced(Harness *h, Log *log, const BatchSpec *spec)
{
	LogAppend a;

	if (harness_append(h, log, spec, &a) != 0)
		return false;
	harness_wait(h, log_synced_end(log) >= a.end_offset);
	return log_synced_end(log) >= a.end_offset;
}

__attribute__((unused)) static bool
harness_append_marker(Harness *h, Log *log, int64_t producer_id, int16_t epoch, int32_t coordinator_epoch,
					  bool commit, LogAppend *a)
{
	WireWriter w;
	Owned *o = malloc(sizeof(*o));
	TxnMarker marker = {.producer_id = producer_id,
						.producer_epoch = epoch,
						.coordinator_epoch = coordinator_epoch,
						.timestamp = clock_wall_ms(),
						.commit = commit};
	int16_t error;

	wire_writer_init(&w);
	if (batch_put_marker(&w, &marker) != 0)
		abort();
	*o = (Owned){h, w.buf};
	*a = (LogAppend){
		.records = w.buf, .len = (int32_t) w.len, .marker = true, .release = harness_release, .owner = o};
	error = log_append_as_leader(log, a);
	if (error != 0)
	{
		free(o->buf);
		free(o);
	}
	return error == 0;
}

/* ---- reading ---- */

static void
harness_read_done(void *ctx, int16_t error, LogSlice *slice)
{
	Harness *h = ctx;

	h->error = error;
	h->slice = *slice;
	h->answered = true;
}

/* Waits for the answer; the slice is in h->slice. */
__attribute__((unused)) static int16_t
harness_read(Harness *h, Log *log, int64_t offset, int64_t limit, int32_t max_bytes)
{
	LogRead r = {.offset = offset, .limit_offset = limit, .max_bytes = max_bytes, .at_least_one = true};

	h->answered = false;
	if (log_read(log, &r, &h->slice, &h->error, harness_read_done, h) == LOG_READ_PENDING)
		harness_wait(h, h->answered);
	return h->error;
}

/* The bytes of h->slice, malloc'ed; the slice is released. */
__attribute__((unused)) static uint8_t *
harness_bytes(Harness *h)
{
	uint8_t *buf = malloc((size_t) h->slice.len + 1);

	if (h->slice.data != NULL)
		memcpy(buf, h->slice.data, (size_t) h->slice.len);
	else if (pread(h->slice.fd, buf, (size_t) h->slice.len, h->slice.pos) != h->slice.len)
	{
		free(buf);
		buf = NULL;
	}
	log_slice_release(&h->slice);
	return buf;
}

/* Reads a log from `from` to its end by slices: how many whole, valid batches follow each other. */
__attribute__((unused)) static int
harness_count_batches(Harness *h, Log *log, int64_t from, int32_t max_bytes)
{
	int n = 0;
	int64_t next = from;

	while (next < log_written_end(log))
	{
		int32_t len, pos = 0;
		int64_t told;
		uint8_t *buf;

		if (harness_read(h, log, next, INT64_MAX, max_bytes) != 0 || h->slice.len == 0)
			return -1;
		len = h->slice.len;
		told = h->slice.next_offset;
		if ((buf = harness_bytes(h)) == NULL)
			return -1;
		while (pos < len)
		{
			if (batch_check(buf + pos, (size_t) (len - pos), false) != BATCH_OK ||
				!batch_crc_matches(buf + pos) || batch_base_offset(buf + pos) > next ||
				batch_next_offset(buf + pos) <= next)
			{
				free(buf);
				return -1;
			}
			next = batch_next_offset(buf + pos);
			pos += (int32_t) batch_size(buf + pos);
			n++;
		}
		free(buf);
		if (pos != len || told != next)
			return -1;
	}
	return n;
}

static void
harness_time_done(void *ctx, int16_t error, int64_t offset, int64_t timestamp, int32_t leader_epoch)
{
	Harness *h = ctx;

	h->error = error;
	h->offset = offset;
	h->timestamp = timestamp;
	h->epoch = leader_epoch;
	h->answered = true;
}

__attribute__((unused)) static int64_t
harness_find_time(Harness *h, Log *log, int64_t timestamp)
{
	h->answered = false;
	log_find_time(log, timestamp, INT64_MAX, harness_time_done, h);
	harness_wait(h, h->answered);
	return h->offset;
}

/* Path of a file of a log; static buffer. */
__attribute__((unused)) static const char *
harness_path(const Harness *h, const char *log, const char *file)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s/%s", h->dir, log, file);
	return path;
}

/* Of a file, in bytes; -1: it is not there. */
__attribute__((unused)) static off_t
size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_size : -1;
}

#endif
