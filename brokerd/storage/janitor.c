#include "brokerd/storage/janitor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/checkpoint.h"
#include "brokerd/storage/compaction.h"
#include "brokerd/storage/deleter.h"
#include "brokerd/storage/file_io.h"
#include "brokerd/storage/retention.h"
#include "brokerd/storage/retire.h"

#define PROBE_EVERY_MS 500
#define PROBE_BYTES    (1024 * 1024)

/* errno says why. */
static void
say_unwritten(LogLevel level, const char *log, const char *file)
{
	int error = errno;
	char path[LOG_DIR_NAME_MAX + 80];

	snprintf(path, sizeof(path), "%s/%s", log, file);
	log_msg(level, "storage", "%s cannot be written: %s", path, strerror(error));
}

/* ---- checkpoints ---- */

typedef struct EpochFile
{
	Log *log; /* held by the job's row of it */
	TextBuf text;
} EpochFile;

typedef struct CheckpointRow
{
	Log *log; /* held by its `jobs` */
	int64_t recovery_point;
	int64_t high_watermark;
	int64_t start_offset;
	int64_t cleaned_end;
} CheckpointRow;

typedef struct CheckpointJob
{
	Job job;
	LogManager *m;
	CheckpointRow *rows;
	int nrows;
	EpochFile *epochs;
	int nepochs;
	bool cleaned;   /* cleaner-offset-checkpoint is written too */
	uint64_t begun; /* rows of begun epochs that these epoch files have */
	bool ok;
} CheckpointJob;

/* Without these the recovery point must not move: recovery would not see the epochs below it. */
static bool
write_epochs(CheckpointJob *j)
{
	bool ok = true;

	for (int i = 0; i < j->nepochs; i++)
	{
		EpochFile *f = &j->epochs[i];
		int dir_fd = log_open_dir(f->log);
		bool written = dir_fd >= 0 && file_replace_at(dir_fd, EPOCH_CHECKPOINT, f->text.s, f->text.len, true);

		if (!written && errno != ENOENT)
		{
			say_unwritten(LOG_ERROR, f->log->name, EPOCH_CHECKPOINT);
			ok = false;
		}
		if (dir_fd >= 0)
			close(dir_fd);
	}
	return ok;
}

static bool
write_file(LogManager *m, const char *name, TextBuf *t)
{
	char path[STORAGE_PATH_MAX];
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", m->dir, name);
	ok = !t->failed && file_replace(path, t->s, t->len, true);
	if (!ok)
		log_msg(LOG_ERROR, "storage", "%s cannot be written: %s", path, strerror(errno));
	text_free(t);
	return ok;
}

/* Nothing else stands on it: what it does not say is compacted again. */
static bool
write_cleaned(CheckpointJob *j)
{
	TextBuf t = {0};
	int n = 0;

	for (int i = 0; i < j->nrows; i++)
		n += j->rows[i].cleaned_end > 0;
	checkpoint_begin(&t, n);
	for (int i = 0; i < j->nrows; i++)
	{
		const CheckpointRow *r = &j->rows[i];

		if (r->cleaned_end > 0)
			checkpoint_add(&t, r->log->topic, r->log->partition, r->cleaned_end);
	}
	return write_file(j->m, CLEANER_CHECKPOINT, &t);
}

static void
checkpoint_run(Job *job)
{
	CheckpointJob *j = (CheckpointJob *) job;
	TextBuf recovery = {0}, replication = {0}, start = {0};

	directory_mark_unclean(j->m);
	j->ok = write_epochs(j);
	checkpoint_begin(&recovery, j->nrows);
	checkpoint_begin(&replication, j->nrows);
	checkpoint_begin(&start, j->nrows);
	for (int i = 0; i < j->nrows; i++)
	{
		const CheckpointRow *r = &j->rows[i];

		checkpoint_add(&recovery, r->log->topic, r->log->partition, r->recovery_point);
		checkpoint_add(&replication, r->log->topic, r->log->partition, r->high_watermark);
		checkpoint_add(&start, r->log->topic, r->log->partition, r->start_offset);
	}
	j->ok = write_file(j->m, LOG_START_CHECKPOINT, &start) && j->ok;
	j->ok = write_file(j->m, REPLICATION_CHECKPOINT, &replication) && j->ok;
	if (j->ok)
		j->ok = write_file(j->m, RECOVERY_CHECKPOINT, &recovery);
	if (j->cleaned)
		j->ok = write_cleaned(j) && j->ok;
	text_free(&recovery);
}

static void
checkpoint_done(Job *job)
{
	CheckpointJob *j = (CheckpointJob *) job;
	LogManager *m = j->m;

	m->checkpoint_running = false;
	if (!j->ok)
	{
		m->checkpoint_dirty = true;
		m->cleaned_dirty |= j->cleaned;
	}
	else if (!m->closing)
		begun_epochs_are_kept(m, j->begun);
	for (int i = 0; i < j->nepochs; i++)
	{
		/* A recovery point that moves later stands on this file all the same. */
		if (!j->ok)
			j->epochs[i].log->epochs_dirty = true;
		text_free(&j->epochs[i].text);
	}
	for (int i = 0; i < j->nrows; i++)
	{
		Log *log = j->rows[i].log;

		log->jobs--;
		if (!log->deleted && j->ok && j->rows[i].start_offset > log->start_offset)
		{
			retention_set_start(log, j->rows[i].start_offset);
			retention_drop_below_start(log);
		}
		retire_log_if_done(log);
	}
	free(j->rows);
	free(j->epochs);
	free(j);
	/* Somebody waits for a log start that was raised meanwhile. */
	if (m->start_dirty && !m->closing)
		janitor_checkpoint(m);
}

static void
add_epochs(CheckpointJob *j, Log *log)
{
	EpochFile *f;

	if (!log->epochs_dirty)
		return;
	log->epochs_dirty = false;
	j->epochs = realloc(j->epochs, sizeof(*j->epochs) * (size_t) (j->nepochs + 1));
	f = &j->epochs[j->nepochs++];
	*f = (EpochFile){.log = log};
	checkpoint_epochs(&f->text, &log->epochs);
}

/* Logs that could not be opened keep the rows they had. */
static CheckpointJob *
checkpoint_make(LogManager *m)
{
	CheckpointJob *j = calloc(1, sizeof(*j));
	Log *log, *tmp;

	j->m = m;
	j->job.run = checkpoint_run;
	j->job.done = checkpoint_done;
	j->rows = calloc(HASH_COUNT(m->logs) + 1, sizeof(*j->rows));
	HASH_ITER (hh, m->logs, log, tmp)
	{
		log->jobs++;
		j->rows[j->nrows++] =
			(CheckpointRow){.log = log,
							.recovery_point = log->state == LOG_STATE_OFFLINE ? log->kept_recovery_point
																			  : log_recovery_point(log),
							.high_watermark = log->high_watermark,
							.start_offset = log->wanted_start,
							.cleaned_end = log->cleaned_end};
		if (log->state != LOG_STATE_OFFLINE)
			add_epochs(j, log);
	}
	j->begun = m->begun.given;
	j->cleaned = m->cleaned_dirty;
	m->cleaned_dirty = false;
	m->checkpoint_dirty = false;
	m->start_dirty = false;
	m->checkpoint_running = true;
	return j;
}

void
janitor_checkpoint(LogManager *m)
{
	CheckpointJob *j = checkpoint_make(m);

	m->last_checkpoint_ms = m->wall_ms;
	work_queue_push(&m->janitor, &j->job);
}

bool
janitor_checkpoint_now(LogManager *m)
{
	CheckpointJob *j = checkpoint_make(m);
	bool ok;

	checkpoint_run(&j->job);
	ok = j->ok;
	checkpoint_done(&j->job);
	return ok;
}

/* ---- sealed segments ---- */

typedef struct SealJob
{
	Job job;
	Log *log;
	LogSegment *segment;
	void *snapshot;
	size_t snapshot_len;
	int64_t snapshot_offset;
	bool ok;
} SealJob;

static void
seal_run(Job *job)
{
	SealJob *j = (SealJob *) job;
	char name[64];
	int dir_fd = log_open_dir(j->log);

	if (dir_fd < 0)
		return;
	j->ok = true;
	for (int i = SEGMENT_INDEXES; i < SEGMENT_FILES; i++)
	{
		segment_file_name(j->segment, segment_suffixes[i], name, sizeof(name));
		if (!file_sync_if_there(dir_fd, name))
			j->ok = false;
	}
	snprintf(name, sizeof(name), "%020" PRId64 ".snapshot", j->snapshot_offset);
	if (j->snapshot != NULL && !file_replace_at(dir_fd, name, j->snapshot, j->snapshot_len, true))
		say_unwritten(LOG_WARNING, j->log->name, name);
	else if (fsync(dir_fd) != 0)
		j->ok = false;
	close(dir_fd);
}

static void
seal_done(Job *job)
{
	SealJob *j = (SealJob *) job;
	Log *log = j->log;

	log->jobs--;
	j->segment->index_synced = j->ok;
	segment_unref(j->segment);
	if (!log->deleted)
		compaction_wake(log);
	retire_log_if_done(log);
	free(j->snapshot);
	free(j);
}

void
janitor_segment_sealed(LogSegment *s, WriteOp *op)
{
	Log *log = s->log;
	SealJob *j = calloc(1, sizeof(*j));

	*j = (SealJob){.job = {.run = seal_run, .done = seal_done},
				   .log = log,
				   .segment = s,
				   .snapshot = op->snapshot,
				   .snapshot_len = op->snapshot_len,
				   .snapshot_offset = s->end_offset};
	op->snapshot = NULL;
	segment_ref(s);
	log->jobs++;
	work_queue_push(&log->m->janitor, &j->job);
}

/* ---- the data directory ---- */

typedef struct SyncDirJob
{
	Job job;
	LogManager *m;
} SyncDirJob;

static void
sync_dir_run(Job *job)
{
	LogManager *m = ((SyncDirJob *) job)->m;

	if (fsync(m->dir_fd) != 0)
		log_msg(LOG_WARNING, "storage", "the data directory %s cannot be synced: %s", m->dir,
				strerror(errno));
}

static void
sync_dir_done(Job *job)
{
	free(job);
}

void
janitor_sync_dir(LogManager *m)
{
	SyncDirJob *j = calloc(1, sizeof(*j));

	*j = (SyncDirJob){.job = {.run = sync_dir_run, .done = sync_dir_done}, .m = m};
	work_queue_push(&m->janitor, &j->job);
}

/* ---- full disks ---- */

typedef struct ProbeJob
{
	Job job;
	LogManager *m;
	bool ok;
} ProbeJob;

static void
probe_run(Job *job)
{
	ProbeJob *j = (ProbeJob *) job;
	char path[STORAGE_PATH_MAX];
	char *data = calloc(1, PROBE_BYTES);
	int fd;

	snprintf(path, sizeof(path), "%s/.probe", j->m->dir);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd >= 0)
	{
		j->ok = data != NULL && file_pwrite_all(fd, data, PROBE_BYTES, 0) && fdatasync(fd) == 0;
		close(fd);
		unlink(path);
	}
	free(data);
}

static void
probe_done(Job *job)
{
	ProbeJob *j = (ProbeJob *) job;
	LogManager *m = j->m;
	Log *log, *tmp;

	m->probe_running = false;
	if (j->ok && !m->closing) /* then there is no writer any more */
		HASH_ITER (hh, m->logs, log, tmp)
			if (log->state == LOG_STATE_NO_SPACE && log->ops == 0)
				log_resume(log);
	free(j);
}

static void
probe(LogManager *m)
{
	ProbeJob *j = calloc(1, sizeof(*j));

	j->m = m;
	j->job.run = probe_run;
	j->job.done = probe_done;
	m->probe_running = true;
	m->last_probe_ms = m->wall_ms;
	work_queue_push(&m->janitor, &j->job);
}

void
log_epochs_changed(Log *log)
{
	log->epochs_dirty = true;
	log->m->checkpoint_dirty = true;
}

void
janitor_tick(LogManager *m, int64_t wall_ms)
{
	int64_t since = wall_ms - m->last_checkpoint_ms;

	if (!m->checkpoint_running &&
		(m->start_dirty || (m->checkpoint_dirty && (since >= m->opt.checkpoint_interval_ms || since < 0))))
		janitor_checkpoint(m);
	if (m->nfull > 0 && !m->probe_running &&
		(wall_ms - m->last_probe_ms >= PROBE_EVERY_MS || wall_ms < m->last_probe_ms))
		probe(m);
	begun_epochs_tick(m);
}
