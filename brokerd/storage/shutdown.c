#include "brokerd/storage/shutdown.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "brokerd/base/logging.h"
#include "brokerd/storage/checkpoint.h"
#include "brokerd/storage/clean_marker.h"
#include "brokerd/storage/compaction.h"
#include "brokerd/storage/deleter.h"
#include "brokerd/storage/index.h"
#include "brokerd/storage/janitor.h"
#include "brokerd/storage/manifest.h"
#include "brokerd/storage/producer_snapshot.h"
#include "brokerd/storage/read.h"

#define STOP_BY_LOG 16 /* up to so many logs a stop syncs each of them */

void
shutdown_threads(LogManager *m)
{
	writer_stop(m);
	if (m->syncer.nthreads > 0)
		syncer_stop(m);
	if (m->readers.nthreads > 0)
		work_queue_stop(&m->readers);
	if (m->janitor.nthreads > 0)
		work_queue_stop(&m->janitor);
	if (m->compactor.nthreads > 0)
		work_queue_stop(&m->compactor);
	begun_epochs_stop(m);
	deleter_stop(m);
}

/* What is only in memory goes to the writer; the rest of the index of the active segment too. */
static void
flush_all(LogManager *m)
{
	Log *log, *tmp;

	HASH_ITER (hh, m->logs, log, tmp)
	{
		LogSegment *s = log_active(log);

		if (log->state != LOG_STATE_OK || s == NULL)
			continue;
		log_flush(log);
		if (s->tail != NULL || s->max_timestamp > s->last_time.timestamp)
			writer_push(m, index_make_op(s, true));
	}
}

/* The one of the stop before is of no more use, unless a segment begins there. */
static void
replace_stop_snapshot(Log *log)
{
	int64_t old = log->stop_snapshot;
	LogSegment *s = log_segment_for(log, old);
	char name[64], path[STORAGE_PATH_MAX];

	log->stop_snapshot = log->appended_end;
	if (old < 0 || old == log->appended_end || (s != NULL && s->base_offset == old))
		return;
	snprintf(name, sizeof(name), "%020" PRId64 ".snapshot", old);
	if (log_path(log, name, path, sizeof(path)) >= 0)
		unlink(path);
}

static bool
write_snapshot(Log *log)
{
	char name[64], path[STORAGE_PATH_MAX];
	size_t len;
	void *data;
	bool ok;

	if (!log->snapshot_dirty)
		return true;
	data = producer_snapshot_encode(log->producers, &len);
	snprintf(name, sizeof(name), "%020" PRId64 ".snapshot", log->appended_end);
	ok = log_path(log, name, path, sizeof(path)) >= 0 && file_replace(path, data, len, false);
	free(data);
	if (ok)
		replace_stop_snapshot(log);
	return ok;
}

static bool
write_epochs(Log *log)
{
	char path[STORAGE_PATH_MAX];
	TextBuf t = {0};
	bool ok;

	if (!log->epochs_dirty)
		return true;
	checkpoint_epochs(&t, &log->epochs);
	ok = log_path(log, EPOCH_CHECKPOINT, path, sizeof(path)) >= 0 && file_replace(path, t.s, t.len, false);
	text_free(&t);
	log->epochs_dirty = !ok;
	return ok;
}

/* A log that failed must be read again at the next start: then the stop is not said to be clean. */
static bool
write_logs(LogManager *m)
{
	Log *log, *tmp;
	bool ok = true;

	HASH_ITER (hh, m->logs, log, tmp)
	{
		if (log->state == LOG_STATE_OFFLINE)
			continue;
		if (log->state == LOG_STATE_FAILED || log->flushed_end < log->appended_end || !write_snapshot(log) ||
			!write_epochs(log))
		{
			log_msg(LOG_WARNING, "storage", "%s could not be closed cleanly", log->name);
			ok = false;
		}
	}
	return ok;
}

/* What of the log is not known to be on disk: all but the sealed segments that the recovery point has passed. */
static bool
sync_log(Log *log)
{
	char name[64];
	int dir_fd = log_open_dir(log);
	bool ok = dir_fd >= 0;

	for (int i = log->nsegments - 1; ok && i >= 0; i--)
	{
		const LogSegment *s = log->segments[i];

		for (int k = 0; ok && !(s->sealed && s->index_synced) && k < SEGMENT_FILES; k++)
		{
			segment_file_name(s, segment_suffixes[k], name, sizeof(name));
			ok = file_sync_if_there(dir_fd, name);
		}
	}
	snprintf(name, sizeof(name), "%020" PRId64 ".snapshot", log->stop_snapshot);
	ok = ok && (log->stop_snapshot < 0 || file_sync_if_there(dir_fd, name)) &&
		 file_sync_if_there(dir_fd, EPOCH_CHECKPOINT) && file_sync_if_there(dir_fd, "partition.metadata") &&
		 fsync(dir_fd) == 0;
	if (dir_fd >= 0)
		close(dir_fd);
	return ok;
}

/*
 * All that this process wrote.  A syncfs writes out what everybody else has dirty on that file system too, and the
 * syncs of brokers that go on wait for that: it is for when there is much to sync.
 */
static bool
sync_written(LogManager *m)
{
	Log *log, *tmp;
	int touched = 0;

	HASH_ITER (hh, m->logs, log, tmp)
		touched += log->touched;
	if (touched > STOP_BY_LOG)
		return syncfs(m->dir_fd) == 0;
	HASH_ITER (hh, m->logs, log, tmp)
		if (log->touched && log->state != LOG_STATE_OFFLINE && !sync_log(log))
			return false;
	return file_sync_at(m->dir_fd, MANIFEST_FILE) && fsync(m->dir_fd) == 0;
}

/*
 * Nothing was written since a clean start: its manifest still holds, and its marker too, once that names this
 * incarnation, as the directory does since it registered.
 */
static bool
keep_marker(LogManager *m)
{
	if (m->marker.broker_epoch == m->meta.broker_epoch)
		return true;
	m->marker.broker_epoch = m->meta.broker_epoch;
	return clean_marker_write(m->dir, &m->marker);
}

void
shutdown_clean(LogManager *m)
{
	CleanMarker marker = {.broker_epoch = m->meta.broker_epoch, .has_manifest = true};
	bool changed, ok;

	m->closing = true;
	compaction_close(m);
	log_manager_dispatch(m);
	flush_all(m);
	/* What the writer gave back may be the janitor's next job. */
	writer_stop(m);
	dispatch_take(m);
	shutdown_threads(m);
	while (dispatch_take(m))
		;
	cold_read_drop_waiting(m);
	log_changed_flush(m);
	changed = atomic_load(&m->marker_gone);
	if (m->clean_start && !changed && !m->checkpoint_dirty && keep_marker(m))
		return;
	directory_mark_unclean(m);
	ok = write_logs(m);
	ok = janitor_checkpoint_now(m) && ok;
	if (ok)
		begun_epochs_remove(m);
	ok = ok && manifest_write(m, &marker.manifest_crc);
	/* All of it is on disk before the marker says so. */
	if (ok && sync_written(m) && clean_marker_write(m->dir, &marker))
		return;
	log_msg(LOG_WARNING, "storage", "%s is not marked as cleanly stopped: the next start will recover",
			m->dir);
}

void
shutdown_free_logs(LogManager *m)
{
	Log *log, *tmp;

	HASH_ITER (hh, m->logs, log, tmp)
	{
		HASH_DEL(m->logs, log);
		log_free(log);
	}
}
