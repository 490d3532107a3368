#include "brokerd/storage/compact_swap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "brokerd/base/logging.h"
#include "brokerd/storage/compact_run.h"
#include "brokerd/storage/file_io.h"
#include "brokerd/storage/scan.h"
#include "wire/batch.h"

/* ---- the swap ---- */

/* False: errno.  A file that is not there need not be renamed. */
static bool
rename_at(int dir_fd, const char *from, const char *to)
{
	return renameat(dir_fd, from, dir_fd, to) == 0 || errno == ENOENT;
}

/* All files that were made get another ending. */
static bool
rename_made(const CompactJob *j, int dir_fd, const char *from_end, const char *to_end)
{
	int64_t base = j->sources[j->first].segment->base_offset;

	for (int i = 0; i < SEGMENT_FILES; i++)
	{
		char from[80], to[80];

		snprintf(from, sizeof(from), "%020" PRId64 "%s%s", base, segment_suffixes[i], from_end);
		snprintf(to, sizeof(to), "%020" PRId64 "%s%s", base, segment_suffixes[i], to_end);
		if (!rename_at(dir_fd, from, to))
			return false;
	}
	return true;
}

/* The producers' snapshot at the group's first offset is the new segment's. */
static bool
move_source(CompactJob *j, int dir_fd, int at)
{
	CompactSource *src = &j->sources[at];
	int files = at == j->first ? SEGMENT_FILES_AND_SNAPSHOT - 1 : SEGMENT_FILES_AND_SNAPSHOT;

	for (int i = 0; i < files; i++)
	{
		char from[80], to[100];

		snprintf(from, sizeof(from), "%020" PRId64 "%s", src->segment->base_offset, segment_suffixes[i]);
		snprintf(to, sizeof(to), "%020" PRId64 ".c%" PRIu64 "%s.deleted", src->segment->base_offset,
				 src->moved, segment_suffixes[i]);
		if (!rename_at(dir_fd, from, to))
			return false;
	}
	return true;
}

/* Who opens a file of an old segment by its name finds it, under the one name or the other. */
static bool
move_sources(CompactJob *j, int dir_fd)
{
	LogManager *m = j->log->m;
	bool ok = true;

	pthread_rwlock_wrlock(&m->path_lock);
	for (int i = j->first; ok && i < j->first + j->n; i++)
	{
		ok = move_source(j, dir_fd, i);
		if (ok)
			atomic_store(&j->sources[i].segment->moved, j->sources[i].moved);
	}
	pthread_rwlock_unlock(&m->path_lock);
	return ok;
}

static void
half_done(CompactJob *j)
{
	int error = errno;

	compact_fail(j, error);
	j->result = COMPACT_HALF_DONE;
}

/* Until the names are on disk as .swap the old files are the log, and the new ones can go. */
static bool
announce(CompactJob *j, int dir_fd)
{
	int error;

	if (rename_made(j, dir_fd, CLEANED_SUFFIX, SWAP_SUFFIX) && fsync(dir_fd) == 0)
		return true;
	error = errno;
	/* Back to a name that a start removes; should that fail too, it is for the next start to end. */
	if (rename_made(j, dir_fd, SWAP_SUFFIX, CLEANED_SUFFIX) && fsync(dir_fd) == 0)
		compact_fail(j, error);
	else
		half_done(j);
	return false;
}

void
compact_run_swap(Job *job)
{
	CompactJob *j = (CompactJob *) job;
	int dir_fd = log_open_dir(j->log);

	j->result = COMPACT_DONE;
	if (dir_fd < 0)
	{
		compact_fail(j, errno);
		return;
	}
	compact_hurry(true);
	if (announce(j, dir_fd) && (!move_sources(j, dir_fd) || fsync(dir_fd) != 0 ||
								!rename_made(j, dir_fd, SWAP_SUFFIX, "") || fsync(dir_fd) != 0))
		half_done(j);
	compact_hurry(false);
	close(dir_fd);
}

/* ---- what a start finds ---- */

typedef struct Found
{
	char **swaps; /* names of files that end in .swap */
	int nswaps;
	int64_t least_cleaned; /* base offset of a .cleaned file; INT64_MAX none */
	int64_t from, to;      /* offsets of all .log.swap files; from > to: none */
	bool any;              /* something was removed or renamed */
} Found;

/* -1: the name begins with no offset. */
static int64_t
base_of(const char *name)
{
	int64_t base;

	return file_name_offset(name, &base) == NULL ? -1 : base;
}

static void
found_free(Found *f)
{
	for (int i = 0; i < f->nswaps; i++)
		free(f->swaps[i]);
	free(f->swaps);
}

static bool
remove_at(int dir_fd, const char *name, Found *f)
{
	f->any = true;
	return unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT;
}

/* The first look: what was being written goes, what may replace others is noted. */
static bool
look(DIR *dh, Found *f)
{
	struct dirent *e;

	rewinddir(dh);
	while ((e = readdir(dh)) != NULL)
	{
		if (file_name_ends(e->d_name, CLEANED_SUFFIX))
		{
			int64_t base = base_of(e->d_name);

			if (base >= 0 && base < f->least_cleaned)
				f->least_cleaned = base;
		}
		else if (file_name_ends(e->d_name, SWAP_SUFFIX) && base_of(e->d_name) >= 0)
		{
			char **larger = realloc(f->swaps, sizeof(*larger) * (size_t) (f->nswaps + 1));

			if (larger == NULL)
				return false;
			f->swaps = larger;
			if ((f->swaps[f->nswaps] = strdup(e->d_name)) == NULL)
				return false;
			f->nswaps++;
		}
	}
	return true;
}

/* A .swap beside a .cleaned at or below it was not announced in full: what it would replace is all there.  First the
 * .swap goes for good, and only then what says so. */
static bool
drop_unannounced(int dir_fd, Found *f)
{
	int kept = 0;
	bool ok = true;

	for (int i = 0; i < f->nswaps; i++)
	{
		if (base_of(f->swaps[i]) < f->least_cleaned)
		{
			f->swaps[kept++] = f->swaps[i];
			continue;
		}
		ok = remove_at(dir_fd, f->swaps[i], f) && ok;
		free(f->swaps[i]);
	}
	f->nswaps = kept;
	return ok && (!f->any || fsync(dir_fd) == 0);
}

static bool
drop_cleaned(DIR *dh, int dir_fd, Found *f)
{
	struct dirent *e;

	rewinddir(dh);
	while ((e = readdir(dh)) != NULL)
		if (file_name_ends(e->d_name, CLEANED_SUFFIX) && !remove_at(dir_fd, e->d_name, f))
			return false;
	return true;
}

/* The offsets that a .log.swap stands for; it must be whole, or nothing may be removed for it. */
static bool
measure_swap(int dir_fd, const char *name, Found *f, char *why, size_t cap)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	int64_t base = base_of(name), next = base;
	struct stat st;
	ScanResult r = SCAN_ERROR;
	BatchScan sc;

	if (fd >= 0 && fstat(fd, &st) == 0)
	{
		scan_init(&sc, fd, 0, st.st_size, SCAN_WHOLE);
		while ((r = scan_next(&sc)) == SCAN_BATCH && batch_base_offset(sc.batch) >= next)
			next = batch_next_offset(sc.batch);
		scan_free(&sc);
	}
	if (fd >= 0)
		close(fd);
	if (r != SCAN_END)
	{
		snprintf(why, cap, "%s, which is to replace segments that were compacted, is damaged", name);
		return false;
	}
	if (base < f->from)
		f->from = base;
	if (next > f->to)
		f->to = next;
	return true;
}

/* Kafka may find that nothing of a segment is left.  What nothing takes the place of stays: that is never wrong. */
static bool
drop_empty(int dir_fd, Found *f)
{
	int kept = 0;
	bool ok = true;

	for (int i = 0; i < f->nswaps; i++)
	{
		int64_t base = base_of(f->swaps[i]);
		char swap[80], old[80];
		struct stat st;

		snprintf(swap, sizeof(swap), "%020" PRId64 ".log" SWAP_SUFFIX, base);
		snprintf(old, sizeof(old), "%020" PRId64 ".log", base);
		/* With the .log.swap gone, its indexes are removed like those that lost theirs. */
		if (strcmp(f->swaps[i], swap) != 0 || fstatat(dir_fd, swap, &st, 0) != 0 || st.st_size > 0 ||
			fstatat(dir_fd, old, &st, 0) != 0)
		{
			f->swaps[kept++] = f->swaps[i];
			continue;
		}
		ok = remove_at(dir_fd, swap, f) && ok;
		free(f->swaps[i]);
	}
	f->nswaps = kept;
	return ok;
}

/* The segments that were compacted: the .log last, as it is what says that the others belong to something. */
static bool
drop_replaced(DIR *dh, int dir_fd, Found *f)
{
	struct dirent *e;

	rewinddir(dh);
	while ((e = readdir(dh)) != NULL)
	{
		int64_t base = base_of(e->d_name);
		char name[80];

		if (base < f->from || base >= f->to || strcmp(e->d_name + 20, ".log") != 0)
			continue;
		/* Some of the new names are there already, when this start is not the first: only what has no successor. */
		for (int i = SEGMENT_FILES_AND_SNAPSHOT - 1; i >= 0; i--)
		{
			struct stat st;

			if (base == f->from && i == SEGMENT_FILES_AND_SNAPSHOT - 1)
				continue; /* the snapshot at its first offset is the new segment's */
			snprintf(name, sizeof(name), "%020" PRId64 "%s" SWAP_SUFFIX, base, segment_suffixes[i]);
			if (fstatat(dir_fd, name, &st, 0) == 0)
				continue; /* renamed over it */
			snprintf(name, sizeof(name), "%020" PRId64 "%s", base, segment_suffixes[i]);
			if (!remove_at(dir_fd, name, f))
				return false;
		}
	}
	return true;
}

static bool
has_log_swap(const Found *f, int64_t base)
{
	for (int i = 0; i < f->nswaps; i++)
		if (base_of(f->swaps[i]) == base && strcmp(f->swaps[i] + 20, ".log" SWAP_SUFFIX) == 0)
			return true;
	return false;
}

static bool
rename_swaps(int dir_fd, Found *f)
{
	for (int i = 0; i < f->nswaps; i++)
	{
		const char *from = f->swaps[i];
		bool is_index =
			strcmp(from + 20, ".index" SWAP_SUFFIX) == 0 || strcmp(from + 20, ".timeindex" SWAP_SUFFIX) == 0;
		char to[256];

		snprintf(to, sizeof(to), "%.*s", (int) (strlen(from) - strlen(SWAP_SUFFIX)), from);
		/* Of which of two .log files it is the index, nobody can tell. */
		if (is_index && !has_log_swap(f, base_of(from)))
		{
			if (!remove_at(dir_fd, to, f) || !remove_at(dir_fd, from, f))
				return false;
		}
		else if (renameat(dir_fd, from, dir_fd, to) != 0)
			return false;
		f->any = true;
	}
	return true;
}

/* False: `why`, or errno when it is empty. */
static bool
end_swaps(DIR *dh, int dir_fd, Found *f, char *why, size_t cap)
{
	if (!drop_empty(dir_fd, f))
		return false;
	for (int i = 0; i < f->nswaps; i++)
		if (file_name_ends(f->swaps[i], ".log" SWAP_SUFFIX) &&
			!measure_swap(dir_fd, f->swaps[i], f, why, cap))
			return false;
	if (f->nswaps == 0)
		return true;
	return drop_replaced(dh, dir_fd, f) && fsync(dir_fd) == 0 && rename_swaps(dir_fd, f) &&
		   fsync(dir_fd) == 0;
}

bool
compact_recover(Log *log, char *why, size_t cap, bool *damaged)
{
	char path[STORAGE_PATH_MAX];
	Found f = {.least_cleaned = INT64_MAX, .from = INT64_MAX, .to = -1};
	DIR *dh;
	int dir_fd;
	bool ok;

	why[0] = '\0';
	*damaged = false;
	if (log_path(log, NULL, path, sizeof(path)) < 0 || (dh = opendir(path)) == NULL)
	{
		snprintf(why, cap, "the folder %s cannot be read: %s", path, strerror(errno));
		return false;
	}
	dir_fd = dirfd(dh);
	ok = look(dh, &f) &&
		 (f.least_cleaned == INT64_MAX || (drop_unannounced(dir_fd, &f) && drop_cleaned(dh, dir_fd, &f)));
	ok = ok && end_swaps(dh, dir_fd, &f, why, cap);
	*damaged = !ok && why[0] != '\0';
	if (!ok && !*damaged)
		snprintf(why, cap, "a compaction that was interrupted cannot be ended: %s", strerror(errno));
	if (ok && f.nswaps > 0)
		log_msg(LOG_INFO, "storage", "%s: a compaction that was interrupted is ended", log->name);
	found_free(&f);
	closedir(dh);
	return ok;
}
