#include "brokerd/storage/load_all.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/checkpoint.h"
#include "brokerd/storage/clean_marker.h"
#include "brokerd/storage/deleter.h"
#include "brokerd/storage/load.h"
#include "brokerd/storage/manifest.h"
#include "brokerd/storage/retire.h"
#include "brokerd/storage/schedule.h"

typedef struct LoadTask
{
	Log *log;
	LoadPoints points;
	bool recovered;
	bool loaded; /* from the manifest */
} LoadTask;

typedef struct Loading
{
	LogManager *m;
	LoadTask *tasks;
	int ntasks;
	_Atomic int next;
	int last_found; /* checkpoints are mostly in the order of the tasks */
} Loading;

static void
add_log(Loading *l, const char *name, bool clean)
{
	Log *log = log_new(l->m, name);

	if (log == NULL)
	{
		log_msg(LOG_WARNING, "storage", "%s/%s is not the name of a partition and is left alone", l->m->dir,
				name);
		return;
	}
	HASH_ADD_KEYPTR(hh, l->m->logs, log->name, (unsigned) strlen(log->name), log);
	l->tasks = realloc(l->tasks, sizeof(*l->tasks) * (size_t) (l->ntasks + 1));
	l->tasks[l->ntasks++] =
		(LoadTask){.log = log, .points = {.clean = clean, .high_watermark = -1, .start_offset = -1}};
	log->load_index = l->ntasks - 1;
}

static bool
is_dir(const LogManager *m, const struct dirent *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return e->d_type == DT_DIR;
	return fstatat(m->dir_fd, e->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

static int64_t
folder_bytes(const LogManager *m, const char *name)
{
	char path[STORAGE_PATH_MAX];
	int64_t bytes = 0;
	struct dirent *e;
	struct stat st;
	DIR *dh;

	snprintf(path, sizeof(path), "%s/%s", m->dir, name);
	if ((dh = opendir(path)) == NULL)
		return 0;
	while ((e = readdir(dh)) != NULL)
		if (fstatat(dirfd(dh), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
			bytes += st.st_size;
	closedir(dh);
	return bytes;
}

static bool
find_logs(Loading *l, bool clean, Err *err)
{
	LogManager *m = l->m;
	char path[STORAGE_PATH_MAX];
	DIR *dh = opendir(m->dir);
	struct dirent *e;
	int set_aside = 0;
	int64_t set_aside_bytes = 0;

	if (dh == NULL)
		return err_set(err, 56, errno, "the data directory %s cannot be read: %s", m->dir, strerror(errno));
	while ((e = readdir(dh)) != NULL)
	{
		if (e->d_name[0] == '.' || !is_dir(m, e) || strcmp(e->d_name, "lost+found") == 0)
			continue;
		if (file_name_ends(e->d_name, "-delete"))
		{
			/* The process stopped before the deletion was done. */
			snprintf(path, sizeof(path), "%s/%s", m->dir, e->d_name);
			deleter_add_dir(m, path, 0);
		}
		else if (file_name_ends(e->d_name, SET_ASIDE_SUFFIX))
		{
			set_aside++;
			set_aside_bytes += folder_bytes(m, e->d_name);
		}
		else if (file_name_ends(e->d_name, "-stray"))
			log_msg(LOG_WARNING, "storage", "%s/%s was set aside; it is kept until somebody removes it",
					m->dir, e->d_name);
		else if (!file_name_ends(e->d_name, "-future") && strcmp(e->d_name, "__cluster_metadata-0") != 0)
			add_log(l, e->d_name, clean);
	}
	closedir(dh);
	if (set_aside > 0)
		log_msg(LOG_WARNING, "storage",
				"%d logs in %s were set aside (their folders end in -corrupt: %" PRId64
				" bytes); they are kept until somebody removes them",
				set_aside, m->dir, set_aside_bytes);
	return true;
}

/* ---- checkpoints ---- */

static LoadTask *
task_of(Loading *l, const char *topic, int32_t partition)
{
	Log *log = log_manager_find(l->m, topic, (int) strlen(topic), partition);

	return log == NULL ? NULL : &l->tasks[log->load_index];
}

static void
take_recovery(void *ctx, const char *topic, int32_t partition, int64_t offset)
{
	LoadTask *t = task_of(ctx, topic, partition);

	if (t != NULL)
		t->points.recovery_point = offset;
}

static void
take_replication(void *ctx, const char *topic, int32_t partition, int64_t offset)
{
	LoadTask *t = task_of(ctx, topic, partition);

	if (t != NULL)
		t->points.high_watermark = offset;
}

static void
take_start(void *ctx, const char *topic, int32_t partition, int64_t offset)
{
	LoadTask *t = task_of(ctx, topic, partition);

	if (t != NULL)
		t->points.start_offset = offset;
}

static void
take_cleaned(void *ctx, const char *topic, int32_t partition, int64_t offset)
{
	LoadTask *t = task_of(ctx, topic, partition);

	if (t != NULL && offset > 0)
		t->points.cleaned_end = offset;
}

/* A damaged checkpoint costs time or a lower high watermark, not the start. */
static void
read_checkpoints(Loading *l)
{
	static const struct
	{
		const char *name;
		CheckpointRowFn row;
	} files[] = {{RECOVERY_CHECKPOINT, take_recovery},
				 {REPLICATION_CHECKPOINT, take_replication},
				 {LOG_START_CHECKPOINT, take_start},
				 {CLEANER_CHECKPOINT, take_cleaned}};
	char path[STORAGE_PATH_MAX];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
	{
		Err err = {0};

		snprintf(path, sizeof(path), "%s/%s", l->m->dir, files[i].name);
		if (!checkpoint_read(path, files[i].row, l, &err))
			log_msg(LOG_ERROR, "storage", "%s; what it says is not used", err.text);
	}
}

/* ---- loading ---- */

static void *
load_main(void *arg)
{
	Loading *l = arg;

	for (;;)
	{
		int i = atomic_fetch_add(&l->next, 1);

		if (i >= l->ntasks)
			return NULL;
		if (!l->tasks[i].loaded)
			log_load(l->tasks[i].log, &l->tasks[i].points, &l->tasks[i].recovered);
	}
}

static void
run_threads(Loading *l)
{
	pthread_t threads[64];
	int n = l->m->opt.recovery_threads, started = 0;

	if (n > 64)
		n = 64;
	if (n > l->ntasks)
		n = l->ntasks;
	while (started < n - 1 && storage_thread_start(&threads[started], "log-recovery", load_main, l))
		started++;
	load_main(l);
	for (int i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}

/*
 * After a kill the recovered tails may be in the page cache only: they are put on disk before they count.
 * One syncfs for all; when it fails, the logs that were recovered cannot be trusted to be there.
 */
static void
sync_recovered(Loading *l)
{
	bool any = false;
	int error;

	for (int i = 0; i < l->ntasks; i++)
		any |= l->tasks[i].recovered;
	if (!any)
		return;
	directory_mark_unclean(l->m);
	error = syncfs(l->m->dir_fd) == 0 ? 0 : errno;
	for (int i = 0; error != 0 && i < l->ntasks; i++)
		if (l->tasks[i].recovered && l->tasks[i].log->state != LOG_STATE_OFFLINE)
			log_load_error(l->tasks[i].log, false, "what was recovered could not be synced: %s",
						   strerror(error));
}

/* Beyond the active segment's begin nothing is ever compacted: then it is of another log, and not believed. */
static void
take_cleaned_end(Log *log, int64_t cleaned_end)
{
	const LogSegment *active = log_active(log);

	if (log->state == LOG_STATE_OFFLINE || (active != NULL && cleaned_end <= active->base_offset))
		log->cleaned_end = cleaned_end;
	else if (cleaned_end > 0)
		log->m->cleaned_dirty = log->m->checkpoint_dirty = true;
}

static void
finish(Loading *l, int64_t started_us)
{
	int offline = 0, recovered = 0;

	for (int i = 0; i < l->ntasks; i++)
	{
		Log *log = l->tasks[i].log;

		for (int k = 0; k < log->nsegments; k++)
			segment_note_fd(log->segments[k]);
		take_cleaned_end(log, l->tasks[i].points.cleaned_end);
		offline += log->state == LOG_STATE_OFFLINE;
		recovered += l->tasks[i].recovered;
	}
	log_msg(LOG_INFO, "storage",
			"%d logs of %s are open after %" PRId64 " ms (%s stop, %d recovered, %d offline)", l->ntasks,
			l->m->dir, (clock_boot_us() - started_us) / 1000, l->m->clean_start ? "clean" : "unclean",
			recovered, offline);
}

bool
load_all(LogManager *m, Err *err)
{
	Loading l = {.m = m};
	const CleanMarker *marker = &m->marker;
	int64_t started_us = clock_boot_us();
	Manifest *manifest = NULL;
	bool ok;

	m->clean_start = clean_marker_read(m->dir, &m->marker);
	/* A marker of another incarnation of this disk says nothing about the stop of this one. */
	if (m->clean_start && marker->broker_epoch >= 0 && m->meta.broker_epoch >= 0 &&
		marker->broker_epoch != m->meta.broker_epoch)
		m->clean_start = false;
	ok = find_logs(&l, m->clean_start, err);
	if (ok)
	{
		read_checkpoints(&l);
		if (m->clean_start && marker->has_manifest)
			manifest = manifest_read(m->dir, marker->manifest_crc);
		for (int i = 0; manifest != NULL && i < l.ntasks; i++)
			l.tasks[i].loaded = manifest_load(manifest, l.tasks[i].log);
		manifest_free(manifest);
		run_threads(&l);
		sync_recovered(&l);
		if (!m->clean_start)
			begun_epochs_apply(m);
		finish(&l, started_us);
	}
	free(l.tasks);
	return ok;
}
