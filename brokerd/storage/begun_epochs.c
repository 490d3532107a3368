#include "brokerd/storage/begun_epochs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "brokerd/base/logging.h"
#include "brokerd/storage/file_io.h"
#include "brokerd/storage/manager.h"
#include "brokerd/storage/retire.h"
#include "wire/bytes.h"
#include "wire/crc32c.h"

#define ROW_SIZE    40
#define FILE_MAX    ((size_t) 1 << 30)
#define RETRY_MS    500
#define AT_TOPIC_ID 4
#define AT_PART     20
#define AT_EPOCH    24
#define AT_END      28

typedef struct BegunRow
{
	Log *log; /* held by its `jobs` */
	int32_t epoch;
	int64_t synced_end;
} BegunRow;

struct BegunJob
{
	Job job;
	LogManager *m;
	BegunRow *rows;
	int n, cap;
	bool ok;
};

/* ---- writing ---- */

static void
encode(uint8_t out[ROW_SIZE], const BegunRow *r)
{
	memset(out, 0, ROW_SIZE);
	memcpy(out + AT_TOPIC_ID, r->log->topic_id.b, sizeof(r->log->topic_id.b));
	put_be32(out + AT_PART, (uint32_t) r->log->partition);
	put_be32(out + AT_EPOCH, (uint32_t) r->epoch);
	put_be64(out + AT_END, (uint64_t) r->synced_end);
	put_be32(out, crc32c(0, out + 4, ROW_SIZE - 4));
}

/* Rows of a stop that was not clean stay in front until they are kept elsewhere. */
static bool
open_file(LogManager *m)
{
	BegunEpochs *b = &m->begun;
	off_t end;

	if (b->fd >= 0)
		return true;
	b->fd = openat(m->dir_fd, BEGUN_EPOCHS_FILE, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (b->fd < 0 || fsync(m->dir_fd) != 0 || (end = lseek(b->fd, 0, SEEK_END)) < 0)
	{
		int error = errno;

		if (b->fd >= 0)
			close(b->fd);
		b->fd = -1;
		errno = error;
		return false;
	}
	b->size = end / ROW_SIZE * ROW_SIZE;
	return true;
}

/*
 * What could not be written or synced is written again to the same place: those pages are new to the kernel then,
 * so that it cannot take them for clean (hazards A9).
 */
static void
write_run(Job *job)
{
	BegunJob *j = (BegunJob *) job;
	BegunEpochs *b = &j->m->begun;
	size_t len = (size_t) j->n * ROW_SIZE;
	uint8_t *text = malloc(len);

	directory_mark_unclean(j->m);
	for (int i = 0; text != NULL && i < j->n; i++)
		encode(text + (size_t) i * ROW_SIZE, &j->rows[i]);
	j->ok = text != NULL && open_file(j->m) && file_pwrite_all(b->fd, text, len, b->size) &&
			fdatasync(b->fd) == 0;
	if (j->ok)
		b->size += (int64_t) len;
	else
		log_msg(LOG_ERROR, "storage", "%s/%s cannot be written: %s; what new leaders commit waits for it",
				j->m->dir, BEGUN_EPOCHS_FILE, text == NULL ? "out of memory" : strerror(errno));
	free(text);
}

static void
push(LogManager *m, BegunJob *j)
{
	m->begun.running = true;
	work_queue_push(&m->begun.queue, &j->job);
}

static void
finish(BegunJob *j)
{
	for (int i = 0; i < j->n; i++)
	{
		BegunRow *r = &j->rows[i];
		Log *log = r->log;

		log->jobs--;
		if (j->ok)
		{
			log->begun_epoch = r->epoch;
			log->begun_end = r->synced_end;
			log_changed(log);
		}
		retire_log_if_done(log);
	}
	free(j->rows);
	free(j);
}

static void
write_done(Job *job)
{
	BegunJob *j = (BegunJob *) job, *next;
	LogManager *m = j->m;
	BegunEpochs *b = &m->begun;

	b->running = false;
	if (!j->ok && !m->closing)
	{
		b->failed = j;
		b->retry_ms = m->wall_ms + RETRY_MS;
		return;
	}
	finish(j);
	if ((next = b->next) != NULL)
	{
		b->next = NULL;
		push(m, next);
	}
}

void
begun_epochs_add(Log *log, int32_t epoch, int64_t synced_end)
{
	LogManager *m = log->m;
	BegunEpochs *b = &m->begun;
	BegunJob *j = b->next;

	if (log->begun_asked_epoch == epoch && log->begun_asked_end >= synced_end)
		return;
	log->begun_asked_epoch = epoch;
	log->begun_asked_end = synced_end;
	if (j == NULL)
	{
		j = calloc(1, sizeof(*j));
		j->m = m;
		j->job.run = write_run;
		j->job.done = write_done;
		b->next = j;
	}
	if (j->n == j->cap)
	{
		j->cap = j->cap ? j->cap * 2 : 8;
		j->rows = realloc(j->rows, sizeof(*j->rows) * (size_t) j->cap);
	}
	j->rows[j->n++] = (BegunRow){.log = log, .epoch = epoch, .synced_end = synced_end};
	log->jobs++;
	b->given++;
	if (!b->running && b->failed == NULL)
	{
		b->next = NULL;
		push(m, j);
	}
}

void
begun_epochs_tick(LogManager *m)
{
	BegunEpochs *b = &m->begun;
	BegunJob *j = b->failed;

	if (j == NULL || (m->wall_ms < b->retry_ms && b->retry_ms - m->wall_ms <= RETRY_MS))
		return;
	b->failed = NULL;
	push(m, j);
}

/* ---- emptying ---- */

static void
empty_run(Job *job)
{
	BegunJob *j = (BegunJob *) job;
	BegunEpochs *b = &j->m->begun;

	/* What comes back after a crash is nothing that the epoch files do not say. */
	if (b->fd >= 0 && ftruncate(b->fd, 0) == 0)
		b->size = 0;
}

static void
empty_done(Job *job)
{
	free(job);
}

void
begun_epochs_are_kept(LogManager *m, uint64_t given)
{
	BegunEpochs *b = &m->begun;
	BegunJob *j;

	/* Else the next checkpoint finds it so. */
	if (given == 0 || b->given != given || b->running || b->failed != NULL ||
		(j = calloc(1, sizeof(*j))) == NULL)
		return;
	b->given = 0;
	j->m = m;
	j->job.run = empty_run;
	j->job.done = empty_done;
	work_queue_push(&b->queue, &j->job);
}

/* ---- reading ---- */

typedef struct LastRow
{
	UT_hash_handle hh;
	struct
	{
		WUuid topic_id;
		int32_t partition;
	} of;
	int32_t epoch;
	int64_t synced_end;
} LastRow;

/* The last row of each log; `data` is what the file holds. */
static LastRow *
read_rows(const uint8_t *data, size_t len)
{
	LastRow *rows = NULL;

	for (size_t at = 0; at + ROW_SIZE <= len; at += ROW_SIZE)
	{
		const uint8_t *d = data + at;
		LastRow key = {0}, *r;

		if (get_be32(d) != crc32c(0, d + 4, ROW_SIZE - 4))
			continue;
		memcpy(key.of.topic_id.b, d + AT_TOPIC_ID, sizeof(key.of.topic_id.b));
		key.of.partition = (int32_t) get_be32(d + AT_PART);
		HASH_FIND(hh, rows, &key.of, sizeof(key.of), r);
		if (r == NULL)
		{
			r = malloc(sizeof(*r));
			*r = key;
			HASH_ADD(hh, rows, of, sizeof(r->of), r);
		}
		r->epoch = (int32_t) get_be32(d + AT_EPOCH);
		r->synced_end = (int64_t) get_be64(d + AT_END);
	}
	return rows;
}

static bool
apply(Log *log, const LastRow *r)
{
	if (log->state == LOG_STATE_OFFLINE || r->epoch <= epoch_cache_latest(&log->epochs) ||
		log->appended_end < r->synced_end || !epoch_cache_assign(&log->epochs, r->epoch, log->appended_end))
		return false;
	log_epochs_changed(log);
	return true;
}

void
begun_epochs_apply(LogManager *m)
{
	char path[STORAGE_PATH_MAX];
	LastRow *rows, *r, *tmp_row, key = {0};
	Log *log, *tmp;
	size_t len = 0;
	int n = 0;
	char *data;

	snprintf(path, sizeof(path), "%s/" BEGUN_EPOCHS_FILE, m->dir);
	if ((data = file_read(path, FILE_MAX, &len)) == NULL)
	{
		if (errno != ENOENT)
			log_msg(LOG_ERROR, "storage", "%s cannot be read: %s; what it says is not used", path,
					strerror(errno));
		return;
	}
	rows = read_rows((const uint8_t *) data, len);
	free(data);
	HASH_ITER (hh, m->logs, log, tmp)
	{
		key.of.topic_id = log->topic_id;
		key.of.partition = log->partition;
		HASH_FIND(hh, rows, &key.of, sizeof(key.of), r);
		if (r != NULL && apply(log, r))
			n++;
	}
	HASH_ITER (hh, rows, r, tmp_row)
	{
		HASH_DEL(rows, r);
		free(r);
	}
	if (n > 0)
		log_msg(LOG_INFO, "storage", "%d logs were led in an epoch in which nothing was appended", n);
	/* The next checkpoint has them, and empties the file. */
	m->begun.given = len > 0;
	m->checkpoint_dirty = m->checkpoint_dirty || len > 0;
}

/* ---- life ---- */

void
begun_epochs_init(LogManager *m)
{
	m->begun.fd = -1;
}

bool
begun_epochs_start(LogManager *m)
{
	return work_queue_start(&m->begun.queue, 1, "log-epochs", &m->completions);
}

/* What waits to be tried again is given up, and what waits behind it; the next start finds the older epoch. */
void
begun_epochs_stop(LogManager *m)
{
	BegunEpochs *b = &m->begun;

	if (b->queue.nthreads > 0)
		work_queue_stop(&b->queue);
	if (b->failed == NULL)
		return;
	finish(b->failed);
	if (b->next != NULL)
		finish(b->next);
	b->failed = b->next = NULL;
}

void
begun_epochs_remove(LogManager *m)
{
	unlinkat(m->dir_fd, BEGUN_EPOCHS_FILE, 0);
}

void
begun_epochs_close(LogManager *m)
{
	if (m->begun.fd >= 0)
		close(m->begun.fd);
	m->begun.fd = -1;
}
