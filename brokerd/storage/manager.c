/* The data directory: opening, creating, looking up and closing. */
#include "brokerd/storage/manager.h"
#include "brokerd/storage/read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/compaction.h"
#include "brokerd/storage/deleter.h"
#include "brokerd/storage/file_io.h"
#include "brokerd/storage/load_all.h"
#include "brokerd/storage/retire.h"
#include "brokerd/storage/schedule.h"
#include "brokerd/storage/shutdown.h"
#include "wire/errors.h"

static void
set_defaults(LogManager *m, const LogManagerOptions *opt)
{
	struct rlimit rl;

	m->opt = *opt;
	if (m->opt.sync_workers <= 0)
		m->opt.sync_workers = 4;
	if (m->opt.reader_threads <= 0)
		m->opt.reader_threads = 4;
	if (m->opt.recovery_threads <= 0)
		m->opt.recovery_threads = 2;
	if (m->opt.checkpoint_interval_ms <= 0)
		m->opt.checkpoint_interval_ms = 5000;
	if (m->opt.producer_expiration_ms <= 0)
		m->opt.producer_expiration_ms = 86400000;
	/* Half of the descriptors are for sockets. */
	m->max_open = 4096;
	if (getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur != RLIM_INFINITY &&
		(int64_t) rl.rlim_cur / 2 < m->max_open)
		m->max_open = (int) (rl.rlim_cur / 2);
}

/* The files of another cluster or broker are not ours to write to. */
static bool
check_meta(LogManager *m, Err *err)
{
	const LogManagerOptions *o = &m->opt;

	if (!meta_properties_read(m->dir, &m->meta, err))
		return false;
	if (m->meta.exists && m->meta.node_id >= 0 && m->meta.node_id != o->node_id)
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, 0,
					   "the data directory %s belongs to broker %d, not to broker %d (node.id)", m->dir,
					   m->meta.node_id, o->node_id);
	if (m->meta.cluster_id[0] != '\0' && o->cluster_id != NULL &&
		strcmp(m->meta.cluster_id, o->cluster_id) != 0)
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, 0,
					   "the data directory %s belongs to cluster %s, not to cluster %s", m->dir,
					   m->meta.cluster_id, o->cluster_id);
	if (m->meta.exists && !wuuid_is_zero(&m->meta.directory_id))
		return true;
	m->meta.node_id = o->node_id;
	if (o->cluster_id != NULL)
		snprintf(m->meta.cluster_id, sizeof(m->meta.cluster_id), "%s", o->cluster_id);
	uuid_random(&m->meta.directory_id);
	m->meta.exists = true;
	return meta_properties_write(m->dir, &m->meta, err);
}

static bool
make_dir(const char *dir, Err *err)
{
	if (mkdir(dir, 0755) == 0 || errno == EEXIST)
		return true;
	return err_set(err, KERR_KAFKA_STORAGE_ERROR, errno, "the data directory %s cannot be created: %s", dir,
				   strerror(errno));
}

static void
free_manager(LogManager *m)
{
	while (m->free_ops != NULL)
	{
		WriteOp *op = m->free_ops;

		m->free_ops = op->next;
		free(op);
	}
	while (m->free_undos != NULL)
	{
		ProducerUndo *u = m->free_undos;

		m->free_undos = u->next;
		free(u);
	}
	cold_read_free(m);
	read_cache_free(&m->read_cache);
	begun_epochs_close(m);
	completions_free(&m->completions);
	pthread_rwlock_destroy(&m->path_lock);
	pthread_mutex_destroy(&m->marker_mutex);
	if (m->dir_fd >= 0)
		close(m->dir_fd);
	if (m->lock_fd >= 0)
		close(m->lock_fd);
	free(m->due);
	free(m->meta.others);
	free(m->dir);
	free(m);
}

static bool
start_threads(LogManager *m, Err *err)
{
	if (syncer_start(m) && writer_start(m) && deleter_start(m) &&
		work_queue_start(&m->readers, m->opt.reader_threads, "log-read", &m->completions) &&
		work_queue_start(&m->janitor, 1, "log-janitor", &m->completions) &&
		work_queue_start(&m->compactor, 1, "log-compact", &m->completions) && begun_epochs_start(m))
		return true;
	return err_set(err, KERR_KAFKA_STORAGE_ERROR, errno,
				   "the threads of the data directory %s cannot be started", m->dir);
}

LogManager *
log_manager_open(const LogManagerOptions *opt, Err *err)
{
	LogManager *m = calloc(1, sizeof(*m));

	m->dir = strdup(opt->dir);
	m->dir_fd = m->lock_fd = -1;
	set_defaults(m, opt);
	begun_epochs_init(m);
	completions_init(&m->completions);
	pthread_rwlock_init(&m->path_lock, NULL);
	pthread_mutex_init(&m->marker_mutex, NULL);
	m->wall_ms = m->last_checkpoint_ms = clock_wall_ms();
	if (!make_dir(m->dir, err) || !directory_lock(m, err) || !check_meta(m, err) || !start_threads(m, err))
	{
		shutdown_threads(m);
		free_manager(m);
		return NULL;
	}
	if (!load_all(m, err))
	{
		shutdown_threads(m);
		shutdown_free_logs(m);
		free_manager(m);
		return NULL;
	}
	return m;
}

void
log_manager_close(LogManager *m)
{
	shutdown_clean(m);
	shutdown_free_logs(m);
	free_manager(m);
}

bool
log_manager_bind(LogManager *m, const char *cluster_id, int64_t broker_epoch, Err *err)
{
	if (m->meta.cluster_id[0] != '\0' && strcmp(m->meta.cluster_id, cluster_id) != 0)
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, 0,
					   "the data directory %s belongs to cluster %s, not to cluster %s", m->dir,
					   m->meta.cluster_id, cluster_id);
	if ((size_t) snprintf(m->meta.cluster_id, sizeof(m->meta.cluster_id), "%s", cluster_id) >=
		sizeof(m->meta.cluster_id))
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, 0, "the cluster id %.40s... is too long", cluster_id);
	m->meta.broker_epoch = broker_epoch;
	return meta_properties_write(m->dir, &m->meta, err);
}

const char *
log_manager_cluster_id(const LogManager *m)
{
	return m->meta.cluster_id[0] == '\0' ? NULL : m->meta.cluster_id;
}

WUuid
log_manager_directory_id(const LogManager *m)
{
	return m->meta.directory_id;
}

int64_t
log_manager_broker_epoch(const LogManager *m)
{
	return m->meta.broker_epoch;
}

bool
log_manager_clean_start(const LogManager *m)
{
	return m->clean_start;
}

void
log_manager_stats(const LogManager *m, LogDirStats *out)
{
	struct statfs fs;

	*out = (LogDirStats){
		.total_bytes = -1, .free_bytes = -1, .syncs = atomic_load(&m->syncer.syncs), .stuck = m->stuck};
	if (fstatfs(m->dir_fd, &fs) == 0)
	{
		out->total_bytes = (int64_t) fs.f_blocks * fs.f_bsize;
		out->free_bytes = (int64_t) fs.f_bavail * fs.f_bsize;
	}
	if (m->unsynced != NULL)
		out->oldest_unsynced_ms = (clock_boot_us() - m->unsynced->unsynced_since_us) / 1000;
}

/* ---- logs ---- */

Log *
log_manager_find(LogManager *m, const char *topic, int topic_len, int32_t partition)
{
	char name[LOG_DIR_NAME_MAX + 32];
	int n;
	Log *log = NULL;

	if (topic_len < 0 || topic_len > LOG_DIR_NAME_MAX)
		return NULL;
	n = snprintf(name, sizeof(name), "%.*s-%" PRId32, topic_len, topic, partition);
	HASH_FIND(hh, m->logs, name, (unsigned) n, log);
	return log;
}

Log *
log_manager_next(LogManager *m, Log *after)
{
	return after == NULL ? m->logs : (Log *) after->hh.next;
}

int
log_manager_count(const LogManager *m)
{
	return (int) HASH_COUNT(m->logs);
}

/* A log that could only be half made must not be in the way of the next try. */
static void
remove_files(Log *log)
{
	char path[STORAGE_PATH_MAX];

	if (log_path(log, "partition.metadata", path, sizeof(path)) >= 0)
		unlink(path);
	if (segment_path(log_active(log), ".log", path, sizeof(path)) >= 0)
		unlink(path);
	if (log_path(log, NULL, path, sizeof(path)) >= 0)
		rmdir(path);
}

static bool
create_files(Log *log, Err *err)
{
	char path[STORAGE_PATH_MAX], id[23];
	TextBuf t = {0};
	int fd = -1;
	bool ok, made;

	uuid_to_text(&log->topic_id, id);
	text_add(&t, "version: 0\ntopic_id: %s", id);
	ok = made = log_path(log, NULL, path, sizeof(path)) >= 0 && mkdir(path, 0755) == 0;
	if (ok && !wuuid_is_zero(&log->topic_id))
		ok = log_path(log, "partition.metadata", path, sizeof(path)) >= 0 &&
			 file_replace(path, t.s, t.len, false);
	text_free(&t);
	ok = ok && segment_path(log_active(log), ".log", path, sizeof(path)) >= 0 &&
		 (fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) >= 0;
	if (!ok)
	{
		err_set(err, KERR_KAFKA_STORAGE_ERROR, errno, "%s cannot be created: %s", path, strerror(errno));
		if (made)
			remove_files(log);
		return false;
	}
	close(fd);
	return true;
}

Log *
log_manager_create(LogManager *m, const char *topic, int topic_len, int32_t partition, const WUuid *topic_id,
				   const LogConfig *config, Err *err)
{
	char name[LOG_DIR_NAME_MAX + 32];
	Log *log;

	snprintf(name, sizeof(name), "%.*s-%" PRId32, topic_len < 0 ? 0 : topic_len, topic, partition);
	if (topic_len <= 0 || strlen(name) > LOG_DIR_NAME_MAX || memchr(topic, '/', (size_t) topic_len) != NULL ||
		(log = log_new(m, name)) == NULL)
	{
		err_set(err, KERR_INVALID_TOPIC_EXCEPTION, 0, "\"%.*s\" cannot be the name of a topic", topic_len,
				topic);
		return NULL;
	}
	if (log_manager_find(m, topic, topic_len, partition) != NULL)
	{
		err_set(err, KERR_TOPIC_ALREADY_EXISTS, 0, "the log %s exists already", name);
		log_free(log);
		return NULL;
	}
	directory_mark_unclean(m);
	if (topic_id != NULL)
		log->topic_id = *topic_id;
	if (config != NULL)
		log->config = *config;
	atomic_store(&log->new_dir, true);
	log->touched = true;
	segment_push(log, segment_new(log, 0));
	if (!create_files(log, err))
	{
		log_free(log);
		return NULL;
	}
	HASH_ADD_KEYPTR(hh, m->logs, log->name, (unsigned) strlen(log->name), log);
	compaction_configure(log);
	m->checkpoint_dirty = true;
	return log;
}
