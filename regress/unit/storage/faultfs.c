/*
 * faultfs.c: a file system that fails when told to.
 *
 * Linked into a unit test, or preloaded into a running brokerd (make BUILD=... BUILD/faultfs.so):
 *
 *     FAULTFS_CONTROL=/path/rules LD_PRELOAD=BUILD/faultfs.so brokerd ...
 *
 * The control file holds one rule a line and is read again whenever it changes (or, in a unit test,
 * faultfs_rules() sets them):
 *
 *     CALL PATH ACTION [COUNT]
 *
 *     CALL     pwrite (pwritev too), fdatasync, fsync, syncfs, open (with O_CREAT), ftruncate, rename (by the old name),
 *              or * for all
 *     PATH     a part of the file's path, or *
 *     ACTION   an errno name (EIO ENOSPC EDQUOT EROFS), short:N (writes only: N bytes, then ENOSPC),
 *              or delay:MS (then the real call)
 *     COUNT    how many calls it hits; without: all
 *
 * The first rule that fits is used.  A failed fdatasync is not passed on, so its pages are as a kernel that
 * marked them clean would leave them: not known to be on disk.
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
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FAULT_RULES 16

typedef struct FaultRule
{
	char call[16];
	char path[256];
	int error;
	int short_len; /* -1: not a short write */
	int delay_ms;
	int left; /* -1: for ever */
} FaultRule;

static FaultRule fault_rules[FAULT_RULES];
static int fault_nrules;
static int fault_hits;
static struct stat fault_seen; /* the control file as it was read last */
static pthread_mutex_t fault_mutex = PTHREAD_MUTEX_INITIALIZER;

void faultfs_rules(const char *text);
int faultfs_hits(void);

static int
errno_by_name(const char *name)
{
	static const struct
	{
		const char *name;
		int value;
	} names[] = {{"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS}, {"EACCES", EACCES}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i].name, name) == 0)
			return names[i].value;
	return 0;
}

static void
parse_rules(const char *text)
{
	fault_nrules = 0;
	while (text != NULL && *text != '\0' && fault_nrules < FAULT_RULES)
	{
		FaultRule *r = &fault_rules[fault_nrules];
		char action[32];

		*r = (FaultRule){.short_len = -1, .left = -1};
		if (sscanf(text, "%15s %255s %31s %d", r->call, r->path, action, &r->left) >= 3 && r->call[0] != '#')
		{
			if (strncmp(action, "short:", 6) == 0)
				r->short_len = atoi(action + 6);
			else if (strncmp(action, "delay:", 6) == 0)
				r->delay_ms = atoi(action + 6);
			else
				r->error = errno_by_name(action);
			fault_nrules++;
		}
		text = strchr(text, '\n');
		if (text != NULL)
			text++;
	}
}

void
faultfs_rules(const char *text)
{
	pthread_mutex_lock(&fault_mutex);
	parse_rules(text);
	pthread_mutex_unlock(&fault_mutex);
}

int
faultfs_hits(void)
{
	int n;

	pthread_mutex_lock(&fault_mutex);
	n = fault_hits;
	pthread_mutex_unlock(&fault_mutex);
	return n;
}

/* With the mutex held. */
static void
reload(void)
{
	const char *path = getenv("FAULTFS_CONTROL");
	struct stat st;
	char text[4096];
	int fd;
	ssize_t n;

	if (path == NULL)
		return;
	if (stat(path, &st) != 0)
	{
		fault_nrules = 0;
		return;
	}
	/* Times move in steps of some milliseconds: two files within one are told apart by inode and size. */
	if (st.st_mtim.tv_sec == fault_seen.st_mtim.tv_sec && st.st_mtim.tv_nsec == fault_seen.st_mtim.tv_nsec &&
		st.st_ino == fault_seen.st_ino && st.st_size == fault_seen.st_size)
		return;
	fault_seen = st;
	if ((fd = open(path, O_RDONLY)) < 0)
		return;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	parse_rules(text);
}

static bool
find_rule(const char *call, const char *path, FaultRule *out)
{
	bool found = false;

	pthread_mutex_lock(&fault_mutex);
	reload();
	for (int i = 0; i < fault_nrules && !found; i++)
	{
		FaultRule *r = &fault_rules[i];

		if (r->left == 0 || (strcmp(r->call, "*") != 0 && strcmp(r->call, call) != 0) ||
			(strcmp(r->path, "*") != 0 && strstr(path, r->path) == NULL))
			continue;
		*out = *r;
		if (r->left > 0)
			r->left--;
		fault_hits++;
		found = true;
	}
	pthread_mutex_unlock(&fault_mutex);
	if (found && out->delay_ms > 0)
	{
		struct timespec ts = {out->delay_ms / 1000, (long) (out->delay_ms % 1000) * 1000000};

		nanosleep(&ts, NULL);
		found = false;
	}
	return found;
}

static bool
fd_rule(const char *call, int fd, FaultRule *out)
{
	char link[64], path[4096];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n < 0 ? 0 : n] = '\0';
	return find_rule(call, path, out);
}

static void *
real(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

/* What of a write goes through before it fails: -1 nothing, and errno is set. */
static ssize_t
short_write(const FaultRule *r, int fd, const struct iovec *iov, off_t pos)
{
	ssize_t (*next)(int, const void *, size_t, off_t) =
		(ssize_t(*)(int, const void *, size_t, off_t)) real("pwrite");
	size_t n = (size_t) r->short_len;

	if (r->short_len < 0)
	{
		errno = r->error;
		return -1;
	}
	if (n > iov->iov_len)
		n = iov->iov_len;
	if (n == 0)
	{
		errno = ENOSPC;
		return -1;
	}
	/* The rest fails at the next call. */
	pthread_mutex_lock(&fault_mutex);
	for (int i = 0; i < fault_nrules; i++)
		if (fault_rules[i].short_len == r->short_len && strcmp(fault_rules[i].path, r->path) == 0)
		{
			fault_rules[i].short_len = -1;
			fault_rules[i].error = ENOSPC;
		}
	pthread_mutex_unlock(&fault_mutex);
	return next(fd, iov->iov_base, n, pos);
}

ssize_t
pwrite(int fd, const void *buf, size_t n, off_t pos)
{
	ssize_t (*next)(int, const void *, size_t, off_t) =
		(ssize_t(*)(int, const void *, size_t, off_t)) real("pwrite");
	struct iovec iov = {(void *) (uintptr_t) buf, n};
	FaultRule r;

	return fd_rule("pwrite", fd, &r) ? short_write(&r, fd, &iov, pos) : next(fd, buf, n, pos);
}

ssize_t
pwritev(int fd, const struct iovec *iov, int n, off_t pos)
{
	ssize_t (*next)(int, const struct iovec *, int, off_t) =
		(ssize_t(*)(int, const struct iovec *, int, off_t)) real("pwritev");
	FaultRule r;

	return fd_rule("pwrite", fd, &r) ? short_write(&r, fd, iov, pos) : next(fd, iov, n, pos);
}

static int
by_fd(const char *call, int fd)
{
	int (*next)(int) = (int (*)(int)) real(call);
	FaultRule r;

	if (!fd_rule(call, fd, &r))
		return next(fd);
	errno = r.error;
	return -1;
}

int
fdatasync(int fd)
{
	return by_fd("fdatasync", fd);
}

int
fsync(int fd)
{
	return by_fd("fsync", fd);
}

int
syncfs(int fd)
{
	return by_fd("syncfs", fd);
}

int
ftruncate(int fd, off_t length)
{
	int (*next)(int, off_t) = (int (*)(int, off_t)) real("ftruncate");
	FaultRule r;

	if (!fd_rule("ftruncate", fd, &r))
		return next(fd, length);
	errno = r.error;
	return -1;
}

static int
open_any(const char *name, const char *path, int flags, mode_t mode)
{
	int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...)) real(name);
	FaultRule r;

	if ((flags & O_CREAT) && find_rule("open", path, &r))
	{
		errno = r.error;
		return -1;
	}
	return next(path, flags, mode);
}

int
open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & O_CREAT ? (mode_t) va_arg(ap, int) : 0;
	va_end(ap);
	return open_any("open", path, flags, mode);
}

int
open64(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & O_CREAT ? (mode_t) va_arg(ap, int) : 0;
	va_end(ap);
	return open_any("open64", path, flags, mode);
}

static int
open_at(const char *name, int dir_fd, const char *path, int flags, mode_t mode)
{
	int (*next)(int, const char *, int, ...) = (int (*)(int, const char *, int, ...)) real(name);
	char link[64], full[8192];
	ssize_t n = 0;
	FaultRule r;

	if (dir_fd != AT_FDCWD)
	{
		snprintf(link, sizeof(link), "/proc/self/fd/%d", dir_fd);
		n = readlink(link, full, 4096);
	}
	if (n < 0)
		n = 0;
	snprintf(full + n, sizeof(full) - (size_t) n, "%s%s", n > 0 ? "/" : "", path);
	if ((flags & O_CREAT) && find_rule("open", full, &r))
	{
		errno = r.error;
		return -1;
	}
	return next(dir_fd, path, flags, mode);
}

int
openat(int dir_fd, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & O_CREAT ? (mode_t) va_arg(ap, int) : 0;
	va_end(ap);
	return open_at("openat", dir_fd, path, flags, mode);
}

int
openat64(int dir_fd, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & O_CREAT ? (mode_t) va_arg(ap, int) : 0;
	va_end(ap);
	return open_at("openat64", dir_fd, path, flags, mode);
}

int
renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	int (*next)(int, const char *, int, const char *) =
		(int (*)(int, const char *, int, const char *)) real("renameat");
	FaultRule r;

	if (!find_rule("rename", from, &r))
		return next(from_fd, from, to_fd, to);
	errno = r.error;
	return -1;
}
