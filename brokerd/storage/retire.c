#include "brokerd/storage/retire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/compaction.h"
#include "brokerd/storage/deleter.h"
#include "brokerd/storage/file_io.h"
#include "brokerd/storage/janitor.h"
#include "brokerd/storage/manager.h"
#include "brokerd/storage/schedule.h"
#include "wire/errors.h"

void
retire_segment(Log *log, int index, const char *reason)
{
	LogManager *m = log->m;
	LogSegment *s = log->segments[index], *active;
	WriteOp *op;

	log_msg(LOG_INFO, "storage", "%s: segment %020" PRId64 " (%d bytes) goes: %s", log->name, s->base_offset,
			s->size, reason);
	memmove(&log->segments[index], &log->segments[index + 1],
			sizeof(*log->segments) * (size_t) (log->nsegments - index - 1));
	log->nsegments--;
	if (log->sync_index > index)
		log->sync_index--;
	log->size -= s->size;
	s->retired = true;
	op = writer_op(m, OP_RETIRE, log, s);
	/* An active segment gets its file with its first batch.  When it is all that stays, its name is where the
	 * log ends: without the file, a start after a crash would begin at offset 0 again. */
	active = log->nsegments > 0 ? log_active(log) : NULL;
	if (active != NULL && active->size == 0)
	{
		segment_ref(active);
		op->owner = active;
	}
	writer_push(m, op);
}

void
retire_done(LogSegment *s)
{
	char path[STORAGE_PATH_MAX];

	if (segment_path(s, "", path, sizeof(path)) >= 0)
		s->delete_path = strdup(path);
	s->delete_due_ms = clock_wall_ms() + s->log->config.file_delete_delay_ms;
	segment_set_unsynced(s, false);
	segment_unref(s); /* the list's */
}

void
retired_dir_name(const Log *log, const char *suffix, char *out, size_t cap)
{
	WUuid u;
	char tail[64];
	int room, n;

	uuid_random(&u);
	n = snprintf(tail, sizeof(tail), "-%d.", log->partition);
	for (int i = 0; i < 16 && n < (int) sizeof(tail) - 2; i++)
		n += snprintf(tail + n, sizeof(tail) - (size_t) n, "%02x", u.b[i]);
	room = LOG_DIR_NAME_MAX - n - (int) strlen(suffix);
	snprintf(out, cap, "%.*s%s%s", room, log->topic, tail, suffix);
}

/*
 * The folder gets another name: who opens files of the log by path finds none from here on, also when another
 * log gets its name.  On an error (errno) that holds only when the log is to go `anyway`.  `to` is the new path.
 */
static bool
rename_folder(Log *log, const char *suffix, bool anyway, char *to, size_t cap)
{
	LogManager *m = log->m;
	char from[STORAGE_PATH_MAX], name[LOG_DIR_NAME_MAX + 1];
	int error = 0;

	directory_mark_unclean(m);
	retired_dir_name(log, suffix, name, sizeof(name));
	log_path(log, NULL, from, sizeof(from));
	snprintf(to, cap, "%s/%s", m->dir, name);
	pthread_rwlock_wrlock(&m->path_lock);
	if (rename(from, to) != 0)
		error = errno;
	if (error == 0 || anyway)
		atomic_store(&log->dead, true);
	pthread_rwlock_unlock(&m->path_lock);
	if (error != 0)
		log_msg(LOG_ERROR, "storage", "%s cannot be renamed to %s: %s", from, to, strerror(error));
	errno = error;
	return error == 0;
}

/* Out of everything that the loop keeps of logs. */
static void
take_out(Log *log)
{
	LogManager *m = log->m;

	log->deleted = true;
	HASH_DEL(m->logs, log);
	schedule_remove(log);
	compaction_log_gone(log);
	log_note_unsynced(log, 0);
	m->checkpoint_dirty = true;
	if (log->state == LOG_STATE_NO_SPACE)
		m->nfull--;
}

void
log_manager_delete(LogManager *m, Log *log)
{
	char to[STORAGE_PATH_MAX];
	RetiredDir *dir;

	/* What could not be opened because it is damaged is set aside, not deleted: somebody may want to look. */
	rename_folder(log, log->quarantined ? "-stray" : "-delete", true, to, sizeof(to));
	take_out(log);
	if (log->quarantined)
		dir = NULL;
	else
		dir = retired_dir_new(to, clock_wall_ms() + m->opt.delete_delay_ms);
	for (int i = 0; dir != NULL && i < log->nsegments; i++)
		log->segments[i]->retired_dir = retired_dir_ref(dir);
	retired_dir_unref(m, dir);
	writer_push(m, writer_op(m, OP_CLOSE, log, NULL));
}

bool
log_manager_set_aside(LogManager *m, Log *log, char *path, size_t cap, Err *err)
{
	if (!rename_folder(log, SET_ASIDE_SUFFIX, false, path, cap))
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, errno, "%s cannot be set aside: %s", log->name,
					   strerror(errno));
	take_out(log);
	janitor_sync_dir(m);
	/* What the checkpoints say of the name is of the log that was: they are written anew before much of the next
	 * one is on disk. */
	m->start_dirty = true;
	writer_push(m, writer_op(m, OP_CLOSE, log, NULL));
	return true;
}

void
retire_log_if_done(Log *log)
{
	if (log->deleted && log->ops == 0 && log->jobs == 0 && !log->in_changed)
		log_free(log);
}
