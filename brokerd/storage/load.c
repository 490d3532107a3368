#include "brokerd/storage/load.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/checkpoint.h"
#include "brokerd/storage/compact_swap.h"
#include "brokerd/storage/file_io.h"
#include "brokerd/storage/manager.h"
#include "brokerd/storage/producer_snapshot.h"
#include "brokerd/storage/scan.h"
#include "brokerd/storage/txn_index.h"
#include "wire/batch.h"

#define SNAPSHOT_MAX ((size_t) 1024 * 1024 * 1024)

void
log_load_error(Log *log, bool quarantine, const char *fmt, ...)
{
	char text[512], path[STORAGE_PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	free(log->error);
	log->error = strdup(text);
	log->state = LOG_STATE_OFFLINE;
	log_msg(LOG_ERROR, "storage", "%s is offline: %s", log->name, text);
	if (!quarantine)
		return;
	/* A later clean stop must not make this log look well: the finding is kept beside the data. */
	log->quarantined = true;
	if (log_path(log, QUARANTINE_FILE, path, sizeof(path)) < 0 ||
		!file_replace(path, text, strlen(text), true))
		log_msg(LOG_ERROR, "storage", "%s cannot be written: %s", path, strerror(errno));
}

/* ---- what is in the folder ---- */

typedef struct Folder
{
	int64_t *segments;
	int nsegments;
	int64_t *snapshots;
	int nsnapshots;
} Folder;

static void
push_offset(int64_t **list, int *n, int64_t offset)
{
	*list = realloc(*list, sizeof(**list) * (size_t) (*n + 1));
	(*list)[(*n)++] = offset;
}

static int
compare_offsets(const void *a, const void *b)
{
	int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

	return x < y ? -1 : x > y;
}

static bool
read_folder(Log *log, Folder *f)
{
	char path[STORAGE_PATH_MAX];
	DIR *dh;
	struct dirent *e;

	log_path(log, NULL, path, sizeof(path));
	if ((dh = opendir(path)) == NULL)
	{
		log_load_error(log, false, "the folder %s cannot be read: %s", path, strerror(errno));
		return false;
	}
	while ((e = readdir(dh)) != NULL)
	{
		int64_t offset;
		const char *suffix = file_name_offset(e->d_name, &offset);

		/* Half done deletions and replacements of an earlier process. */
		if (file_name_ends(e->d_name, ".deleted") || file_name_ends(e->d_name, ".tmp"))
		{
			log_path(log, e->d_name, path, sizeof(path));
			unlink(path);
			log->touched = true;
		}
		else if (suffix != NULL && strcmp(suffix, ".log") == 0)
			push_offset(&f->segments, &f->nsegments, offset);
		else if (suffix != NULL && strcmp(suffix, ".snapshot") == 0)
			push_offset(&f->snapshots, &f->nsnapshots, offset);
	}
	closedir(dh);
	if (f->nsegments > 0)
		qsort(f->segments, (size_t) f->nsegments, sizeof(*f->segments), compare_offsets);
	if (f->nsnapshots > 0)
		qsort(f->snapshots, (size_t) f->nsnapshots, sizeof(*f->snapshots), compare_offsets);
	return true;
}

/* A compaction that was interrupted, ours or Kafka's, is ended before anybody looks at the segments. */
static bool
end_compaction(Log *log)
{
	char why[512];
	bool is_damaged;

	if (compact_recover(log, why, sizeof(why), &is_damaged))
		return true;
	log_load_error(log, is_damaged, "%s", why);
	return false;
}

/* ---- small files ---- */

static bool
read_quarantine(Log *log)
{
	char path[STORAGE_PATH_MAX];
	size_t len;
	char *text;

	log_path(log, QUARANTINE_FILE, path, sizeof(path));
	if ((text = file_read(path, 4096, &len)) == NULL)
		return true;
	log->quarantined = true;
	log_load_error(log, false, "%s", text);
	free(text);
	return false;
}

static bool
read_metadata(Log *log)
{
	char path[STORAGE_PATH_MAX];
	size_t len;
	char *text, *id;
	bool ok;

	log_path(log, "partition.metadata", path, sizeof(path));
	if ((text = file_read(path, 4096, &len)) == NULL)
	{
		if (errno == ENOENT)
			return true; /* a log of an old Kafka: no topic id is recorded */
		log_load_error(log, false, "%s cannot be read: %s", path, strerror(errno));
		return false;
	}
	if (strncmp(text, "version: ", 9) == 0 && strncmp(text, "version: 0\n", 11) != 0)
	{
		log_load_error(log, false, "%s has another version than 0, which is the one that this broker reads",
					   path);
		free(text);
		return false;
	}
	id = strstr(text, "topic_id: ");
	ok = id != NULL && uuid_from_text(id + 10, (int) strcspn(id + 10, " \r\n"), &log->topic_id);
	free(text);
	if (!ok)
		log_load_error(log, false, "%s is damaged: it has no readable topic_id", path);
	return ok;
}

static bool
read_epochs(Log *log)
{
	char path[STORAGE_PATH_MAX];
	Err err = {0};

	log_path(log, EPOCH_CHECKPOINT, path, sizeof(path));
	if (checkpoint_read_epochs(path, &log->epochs, &err))
		return true;
	log_load_error(log, false, "%s", err.text);
	return false;
}

/* ---- segments ---- */

static int64_t
file_size(const LogSegment *s, const char *suffix)
{
	char path[STORAGE_PATH_MAX];
	struct stat st;

	if (segment_path(s, suffix, path, sizeof(path)) < 0 || stat(path, &st) != 0)
		return -1;
	return st.st_size;
}

static bool
read_entry(const LogSegment *s, const char *suffix, int64_t pos, void *out, size_t len)
{
	char path[STORAGE_PATH_MAX];
	int fd;
	bool ok;

	segment_path(s, suffix, path, sizeof(path));
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
		return false;
	ok = file_pread_all(fd, out, len, pos) == (ssize_t) len;
	close(fd);
	return ok;
}

/* The ends of the index files, when they make sense; false: they have to be built again. */
static bool
read_index_ends(LogSegment *s)
{
	int64_t size = file_size(s, ".index"), time_size = file_size(s, ".timeindex");
	uint8_t e[12];

	if (size < 0 || time_size < 0 || size % 8 != 0 || time_size % 12 != 0)
		return false;
	if (size > 0)
	{
		if (!read_entry(s, ".index", size - 8, e, 8))
			return false;
		if ((int32_t) get_be32(e) <= 0 || (int32_t) get_be32(e + 4) <= 0 ||
			(int32_t) get_be32(e + 4) >= s->size)
			return false;
	}
	s->index_entries = (int32_t) (size / 8);
	s->time_entries = (int32_t) (time_size / 12);
	if (time_size > 0)
	{
		if (!read_entry(s, ".timeindex", time_size - 12, e, 12) || (int64_t) get_be64(e) < 0)
			return false;
		s->last_time = (TimeEntry){(int64_t) get_be64(e), s->base_offset + (int32_t) get_be32(e + 8)};
		s->max_timestamp = s->last_time.timestamp;
		s->max_timestamp_offset = s->last_time.offset;
	}
	return true;
}

static bool
add_segment(Log *log, int64_t base)
{
	LogSegment *s = segment_new(log, base);
	char path[STORAGE_PATH_MAX];
	struct stat st;

	segment_push(log, s);
	if (log->nsegments > 1)
	{
		LogSegment *prev = log->segments[log->nsegments - 2];

		prev->sealed = true;
		prev->index_synced = true;
		prev->end_offset = prev->written_end = prev->flushed_end = base;
	}
	segment_path(s, ".log", path, sizeof(path));
	if (stat(path, &st) != 0 || st.st_size > INT32_MAX)
	{
		log_load_error(log, false, "%s cannot be read or is larger than 2 GiB", path);
		return false;
	}
	s->size = s->written_size = s->warm_from = (int32_t) st.st_size;
	s->created_ms = (int64_t) st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
	log->size += st.st_size;
	segment_path(s, ".txnindex", path, sizeof(path));
	s->naborted = s->aborted_queued = s->aborted_cap = txn_index_read(path, &s->aborted);
	if (s->naborted < 0)
	{
		s->naborted = s->aborted_queued = s->aborted_cap = 0;
		log_load_error(log, false, "%s is damaged or of a newer version", path);
		return false;
	}
	return true;
}

/* A crash right after the folder was made. */
static bool
create_first(Log *log, int64_t base)
{
	char name[64], path[STORAGE_PATH_MAX];
	int fd;

	snprintf(name, sizeof(name), "%020" PRId64 ".log", base);
	log_path(log, name, path, sizeof(path));
	if ((fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644)) >= 0)
	{
		close(fd);
		return true;
	}
	log_load_error(log, false, "%s cannot be created: %s", path, strerror(errno));
	return false;
}

/* ---- producers ---- */

/* The newest readable snapshot at or below `limit`; later ones are of a log that was longer.  Without any the
 * state begins empty at the log start, and `*from` says so. */
static void
load_snapshot(Log *log, const Folder *f, int64_t limit, int64_t *from)
{
	char path[STORAGE_PATH_MAX], name[64];

	*from = log->start_offset;
	for (int i = f->nsnapshots - 1; i >= 0; i--)
	{
		ProducerState *s;
		size_t len;
		void *data;

		snprintf(name, sizeof(name), "%020" PRId64 ".snapshot", f->snapshots[i]);
		log_path(log, name, path, sizeof(path));
		if (f->snapshots[i] > limit)
		{
			unlink(path);
			continue;
		}
		s = producer_state_new();
		data = file_read(path, SNAPSHOT_MAX, &len);
		if (data != NULL && producer_snapshot_decode(s, data, len, clock_wall_ms()))
		{
			free(data);
			*from = f->snapshots[i];
			if (producer_state_count(s) > 0)
				log->producers = s;
			else
				producer_state_free(s);
			return;
		}
		log_msg(LOG_WARNING, "storage", "%s is damaged and not used", path);
		free(data);
		producer_state_free(s);
		unlink(path);
	}
}

/* Those of clean stops, but for the newest, stand in the middle of a segment and are of no more use. */
static void
remove_stray_snapshots(Log *log, const Folder *f)
{
	if (f->nsnapshots > 0)
		log->stop_snapshot = f->snapshots[f->nsnapshots - 1];
	for (int i = 0; i + 1 < f->nsnapshots; i++)
	{
		LogSegment *s = log_segment_for(log, f->snapshots[i]);
		char name[64], path[STORAGE_PATH_MAX];

		if (s != NULL && s->base_offset == f->snapshots[i])
			continue;
		snprintf(name, sizeof(name), "%020" PRId64 ".snapshot", f->snapshots[i]);
		log_path(log, name, path, sizeof(path));
		unlink(path);
	}
}

/* ---- all of it ---- */

/* Behind a segment that was cut only empty ones can follow (recovery has seen to that): they go.  One that is
 * whole but ends before the next begins has lost batches in the middle of the log. */
static bool
check_continues(Log *log, int i, int64_t cleaned_end)
{
	LogSegment *s = log->segments[i], *next = log->segments[i + 1];

	if (s->end_offset == next->base_offset)
		return true;
	/* Kafka's compaction leaves the end of a segment empty (ours keeps the last batch), and no segment spans more
	 * offsets than an index can name. */
	if (s->end_offset < next->base_offset && s->size > 0 &&
		(next->base_offset <= cleaned_end || next->base_offset - s->base_offset > INT32_MAX))
	{
		s->end_offset = s->written_end = s->flushed_end = next->base_offset;
		return true;
	}
	for (int k = i + 1; k < log->nsegments; k++)
		if (log->segments[k]->size > 0)
		{
			log_load_error(log, true, "offsets %" PRId64 " to %" PRId64 " are missing between two segments",
						   s->end_offset, next->base_offset - 1);
			return false;
		}
	while (log->nsegments > i + 1)
	{
		LogSegment *gone = log_active(log);
		char path[STORAGE_PATH_MAX];

		for (int k = 0; k < SEGMENT_FILES; k++)
			if (segment_path(gone, segment_suffixes[k], path, sizeof(path)) >= 0)
				unlink(path);
		log->nsegments--;
		segment_free_unused(gone);
	}
	s->sealed = false;
	return true;
}

/* So that the next crash need not read the whole log for its producers. */
static void
write_snapshot(Log *log, int64_t offset)
{
	char name[64], path[STORAGE_PATH_MAX];
	size_t len;
	void *data = producer_snapshot_encode(log->producers, &len);

	snprintf(name, sizeof(name), "%020" PRId64 ".snapshot", offset);
	if (log_path(log, name, path, sizeof(path)) >= 0 && !file_replace(path, data, len, false))
		log_msg(LOG_WARNING, "storage", "%s cannot be written: %s", path, strerror(errno));
	free(data);
}

static bool
load_segments(Log *log, const LoadPoints *p, int64_t producers_from, bool *recovered)
{
	int first_scanned = log->nsegments - 1;

	if (!p->clean)
		while (first_scanned > 0 && log->segments[first_scanned]->base_offset > p->recovery_point)
			first_scanned--;
	for (int i = 0; i < log->nsegments; i++)
	{
		LogSegment *s = log->segments[i];
		bool last = i == log->nsegments - 1;
		RecoverArgs a = {.check_crc = !p->clean && i >= first_scanned,
						 .rebuild_index = !read_index_ends(s),
						 .recovery_point = p->recovery_point,
						 .producers_from = producers_from,
						 .is_last = last,
						 .recovered = recovered};

		if (a.check_crc)
			a.rebuild_index = true;
		if (!a.rebuild_index && !last && s->end_offset <= producers_from)
			continue;
		if (a.check_crc && i > 0 && i >= log->nsegments - 2)
			write_snapshot(log, s->base_offset);
		log->touched = true;
		if (!log_recover_segment(log, s, &a))
			return false;
		if (!last && a.check_crc && !check_continues(log, i, p->cleaned_end))
			return false;
	}
	return true;
}

static bool
load_offsets(Log *log, const LoadPoints *p)
{
	LogSegment *last = log_active(log);

	/* Offsets that consumers have seen must not be given again. */
	if (p->clean && last->end_offset < p->high_watermark)
	{
		log_load_error(log, true,
					   "it ends at offset %" PRId64 ", though the last clean stop recorded %" PRId64
					   " as committed: files are missing",
					   last->end_offset, p->high_watermark);
		return false;
	}
	log->appended_end = log->written_end = log->synced_end = log->flushed_end = last->end_offset;
	log->sync_index = log->nsegments - 1;
	if (log->start_offset > log->appended_end)
		log->start_offset = log->appended_end;
	log->wanted_start = log->start_offset;
	if (epoch_cache_truncate_end(&log->epochs, log->appended_end + 1))
		log->epochs_dirty = true;
	log->high_watermark = p->high_watermark > log->appended_end ? log->appended_end : p->high_watermark;
	if (log->high_watermark < log->start_offset)
		log->high_watermark = log->start_offset;
	return true;
}

void
log_load(Log *log, const LoadPoints *p, bool *recovered)
{
	Folder f = {0};
	int64_t producers_from, snapshot_limit;
	bool ok;

	log->kept_recovery_point = p->recovery_point;
	log->high_watermark = p->high_watermark < 0 ? 0 : p->high_watermark;
	log->start_offset = log->wanted_start = p->start_offset < 0 ? 0 : p->start_offset;
	ok = read_metadata(log) && read_quarantine(log) && end_compaction(log) && read_folder(log, &f) &&
		 read_epochs(log);
	if (ok && f.nsegments == 0)
	{
		push_offset(&f.segments, &f.nsegments, log->start_offset);
		ok = create_first(log, log->start_offset);
	}
	for (int i = 0; ok && i < f.nsegments; i++)
		ok = add_segment(log, f.segments[i]);
	if (ok)
	{
		if (log->start_offset < f.segments[0])
			log->start_offset = f.segments[0];
		/* Snapshots of before the recovery point are of what is surely there. */
		snapshot_limit = p->clean ? INT64_MAX : p->recovery_point;
		for (int i = 0; !p->clean && i < f.nsegments && f.segments[i] <= p->recovery_point; i++)
			if (f.segments[i] > snapshot_limit)
				snapshot_limit = f.segments[i];
		load_snapshot(log, &f, snapshot_limit, &producers_from);
		/* A clean stop writes one when there are producers: none means that there were none. */
		if (p->clean && f.nsnapshots == 0)
			producers_from = INT64_MAX;
		ok = load_segments(log, p, producers_from, recovered) && load_offsets(log, p);
	}
	if (ok)
		remove_stray_snapshots(log, &f);
	if (ok && !p->clean)
		log->snapshot_dirty = log->producers != NULL || log->nsegments > 1;
	if (ok && log->producers != NULL)
		log->producers_due_ms = clock_wall_ms() + log->m->opt.producer_expiration_ms;
	free(f.segments);
	free(f.snapshots);
}
