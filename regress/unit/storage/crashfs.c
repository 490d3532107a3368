/*
 * crashfs.c: a file system under a process that dies at the N-th change of it.  Included by a test; the process that is
 * to die calls crashfs_arm() and then does what it does.
 *
 *     crashfs_arm(n, seed)    seed 0: killed (all that was done is there);
 *                             else the power fails: what was not fsynced is there or not, as the seed says: names that
 *                             were made, renamed or removed, and the bytes of files
 *
 * Files that are removed or renamed over are kept in a folder of their own until then, so that they can come back.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define CRASH_STATUS 77

typedef enum ChangeKind
{
	CHANGE_MADE,    /* a name */
	CHANGE_RENAMED, /* from -> to; `kept` is what was at `to` */
	CHANGE_REMOVED, /* `kept` */
	CHANGE_BYTES    /* of a file */
} ChangeKind;

typedef struct Change
{
	ChangeKind kind;
	char from[300], to[300], kept[300];
	bool synced;
} Change;

static Change crash_changes[4096];
static int crash_nchanges;
static int crash_left = -1; /* changes until the end; < 0: not armed */
static unsigned crash_seed;
static char crash_keep[300];
static int crash_nkept;
static pthread_mutex_t crash_mutex = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name, type) ((type) dlsym(RTLD_NEXT, name))

static void
undo_bytes(const Change *c)
{
	struct stat st;

	if (stat(c->from, &st) == 0 && st.st_size > 0)
		if (truncate(c->from, rand_r(&crash_seed) % (st.st_size + 1)) != 0)
			_exit(1);
}

static void
undo(const Change *c)
{
	switch (c->kind)
	{
		case CHANGE_MADE:
			REAL("unlink", int (*)(const char *))(c->from);
			break;
		case CHANGE_RENAMED:
			/* What was built on it stands: then this has happened too. */
			if (access(c->to, F_OK) != 0 || access(c->from, F_OK) == 0)
				return;
			REAL("rename", int (*)(const char *, const char *))(c->to, c->from);
			if (c->kept[0] != '\0' && link(c->kept, c->to) != 0)
				_exit(1);
			break;
		case CHANGE_REMOVED:
			if (c->kept[0] != '\0' && access(c->from, F_OK) != 0 && link(c->kept, c->from) != 0)
				_exit(1);
			break;
		case CHANGE_BYTES:
			undo_bytes(c);
			break;
	}
}

static void
crash_now(void)
{
	for (int i = crash_nchanges - 1; crash_seed != 0 && i >= 0; i--)
		if (!crash_changes[i].synced && rand_r(&crash_seed) % 2 == 0)
			undo(&crash_changes[i]);
	_exit(CRASH_STATUS);
}

/* With the mutex: a change is about to be made.  False: it is not noted. */
static bool
counted(void)
{
	if (crash_left < 0)
		return false;
	if (crash_left-- == 0)
		crash_now();
	return true;
}

static void
note(ChangeKind kind, const char *from, const char *to, const char *kept)
{
	Change *c;

	if (crash_nchanges == (int) (sizeof(crash_changes) / sizeof(crash_changes[0])))
		_exit(1);
	c = &crash_changes[crash_nchanges++];
	*c = (Change){.kind = kind};
	snprintf(c->from, sizeof(c->from), "%s", from);
	snprintf(c->to, sizeof(c->to), "%s", to);
	snprintf(c->kept, sizeof(c->kept), "%s", kept);
}

static void
fd_path(int fd, char *out, size_t cap)
{
	char link_name[64];
	ssize_t n;

	snprintf(link_name, sizeof(link_name), "/proc/self/fd/%d", fd);
	n = readlink(link_name, out, cap - 1);
	out[n < 0 ? 0 : n] = '\0';
}

static void
full_path(int dir_fd, const char *name, char *out, size_t cap)
{
	char dir[200];

	if (name[0] == '/' || dir_fd == AT_FDCWD)
		snprintf(out, cap, "%s", name);
	else
	{
		fd_path(dir_fd, dir, sizeof(dir));
		snprintf(out, cap, "%s/%.90s", dir, name);
	}
}

/* A second name for what is about to lose its first. */
static void
keep(const char *path, char *kept, size_t cap)
{
	kept[0] = '\0';
	if (access(path, F_OK) != 0)
		return;
	snprintf(kept, cap, "%.250s/%d", crash_keep, crash_nkept++);
	if (link(path, kept) != 0)
		kept[0] = '\0';
}

__attribute__((unused)) static void
crashfs_arm(int n, unsigned seed, const char *keep_dir)
{
	snprintf(crash_keep, sizeof(crash_keep), "%s", keep_dir);
	crash_seed = seed;
	crash_left = n;
}

/* ---- the calls ---- */

static int
sync_fd(const char *call, int fd)
{
	char path[300];
	struct stat st;
	int rc;

	pthread_mutex_lock(&crash_mutex);
	counted();
	rc = REAL(call, int (*)(int))(fd);
	fd_path(fd, path, sizeof(path));
	if (rc == 0 && fstat(fd, &st) == 0)
		for (int i = 0; i < crash_nchanges; i++)
		{
			Change *c = &crash_changes[i];
			size_t n = strlen(path);
			const char *at = c->kind == CHANGE_RENAMED ? c->to : c->from;

			/* Of a folder its names, of a file its bytes. */
			if (S_ISDIR(st.st_mode) ? c->kind != CHANGE_BYTES && strncmp(at, path, n) == 0 && at[n] == '/' &&
										  strchr(at + n + 1, '/') == NULL
									: c->kind == CHANGE_BYTES && strcmp(c->from, path) == 0)
				c->synced = true;
		}
	pthread_mutex_unlock(&crash_mutex);
	return rc;
}

int
fsync(int fd)
{
	return sync_fd("fsync", fd);
}

int
fdatasync(int fd)
{
	return sync_fd("fdatasync", fd);
}

int
syncfs(int fd)
{
	int rc;

	pthread_mutex_lock(&crash_mutex);
	counted();
	rc = REAL("syncfs", int (*)(int))(fd);
	for (int i = 0; i < crash_nchanges; i++)
		crash_changes[i].synced = true;
	pthread_mutex_unlock(&crash_mutex);
	return rc;
}

static void
follow_bytes(const char *from, const char *to)
{
	for (int i = 0; i < crash_nchanges; i++)
		if (crash_changes[i].kind == CHANGE_BYTES && strcmp(crash_changes[i].from, from) == 0)
			snprintf(crash_changes[i].from, sizeof(crash_changes[i].from), "%s", to);
}

int
renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	char a[300], b[300], kept[300] = "";
	int rc;

	pthread_mutex_lock(&crash_mutex);
	full_path(from_fd, from, a, sizeof(a));
	full_path(to_fd, to, b, sizeof(b));
	if (counted())
		keep(b, kept, sizeof(kept));
	rc = REAL("renameat", int (*)(int, const char *, int, const char *))(from_fd, from, to_fd, to);
	if (rc == 0 && crash_left >= 0)
	{
		note(CHANGE_RENAMED, a, b, kept);
		follow_bytes(a, b);
	}
	pthread_mutex_unlock(&crash_mutex);
	return rc;
}

int
rename(const char *from, const char *to)
{
	return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int
unlinkat(int dir_fd, const char *name, int flags)
{
	char path[300], kept[300] = "";
	int rc;

	pthread_mutex_lock(&crash_mutex);
	full_path(dir_fd, name, path, sizeof(path));
	if (counted())
		keep(path, kept, sizeof(kept));
	rc = REAL("unlinkat", int (*)(int, const char *, int))(dir_fd, name, flags);
	if (rc == 0 && crash_left >= 0)
		note(CHANGE_REMOVED, path, "", kept);
	pthread_mutex_unlock(&crash_mutex);
	return rc;
}

int
unlink(const char *path)
{
	return unlinkat(AT_FDCWD, path, 0);
}

static int
open_at(int dir_fd, const char *name, int flags, mode_t mode)
{
	char path[300];
	bool made = false;
	int fd;

	if (!(flags & O_CREAT))
		return REAL("openat", int (*)(int, const char *, int, ...))(dir_fd, name, flags, mode);
	pthread_mutex_lock(&crash_mutex);
	full_path(dir_fd, name, path, sizeof(path));
	if (counted())
		made = access(path, F_OK) != 0;
	fd = REAL("openat", int (*)(int, const char *, int, ...))(dir_fd, name, flags, mode);
	if (fd >= 0 && made)
		note(CHANGE_MADE, path, "", "");
	pthread_mutex_unlock(&crash_mutex);
	return fd;
}

int
openat(int dir_fd, const char *name, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & O_CREAT ? (mode_t) va_arg(ap, int) : 0;
	va_end(ap);
	return open_at(dir_fd, name, flags, mode);
}

int
open(const char *name, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & O_CREAT ? (mode_t) va_arg(ap, int) : 0;
	va_end(ap);
	return open_at(AT_FDCWD, name, flags, mode);
}

/* Many small writes are one change: what is not synced is lost from some byte on. */
static void
note_bytes(int fd)
{
	char path[300];

	fd_path(fd, path, sizeof(path));
	for (int i = 0; i < crash_nchanges; i++)
		if (crash_changes[i].kind == CHANGE_BYTES && !crash_changes[i].synced &&
			strcmp(crash_changes[i].from, path) == 0)
			return;
	note(CHANGE_BYTES, path, "", "");
}

ssize_t
pwrite(int fd, const void *buf, size_t n, off_t pos)
{
	ssize_t rc;

	pthread_mutex_lock(&crash_mutex);
	if (counted())
		note_bytes(fd);
	rc = REAL("pwrite", ssize_t(*)(int, const void *, size_t, off_t))(fd, buf, n, pos);
	pthread_mutex_unlock(&crash_mutex);
	return rc;
}
