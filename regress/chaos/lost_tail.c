/*
 * lost_tail.c: notes what a program has on disk for certain, so that a test can take the rest away.
 *
 *     LOST_TAIL_JOURNAL=/path/journal LD_PRELOAD=BUILD/lost_tail.so brokerd ...
 *
 * After every successful fdatasync or fsync a record is appended to the journal: how long the file was when the
 * call began.  What was written beyond that is in the page cache at best: after a power cut it is there, there
 * as zeroes, or not there, and lost_tail.py makes it so once the process is dead.  syncfs covers the whole file
 * system; noted are the files in the folder of its descriptor and in the folders there.  A file that was cut is
 * certain up to the cut only, until it is synced again; one that was just made, not at all: it may have the inode of
 * another that is gone.  The journal itself needs no sync: the machine stays up.
 *
 *     struct { uint64_t device, inode, length, is_cut; }     32 bytes, native order
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Entry
{
	uint64_t device, inode, length, is_cut;
} Entry;

typedef struct Entries
{
	Entry *rows;
	size_t n, cap;
} Entries;

static pthread_once_t journal_once = PTHREAD_ONCE_INIT;
static int journal_fd = -1;

static void
open_journal(void)
{
	const char *path = getenv("LOST_TAIL_JOURNAL");
	int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...)) dlsym(RTLD_NEXT, "open");

	/* Not by ours, which notes that it has made a file. */
	if (path != NULL)
		journal_fd = next(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static void
note(const Entry *rows, size_t n)
{
	size_t size = n * sizeof(*rows);

	pthread_once(&journal_once, open_journal);
	/* One write: the records of several threads do not mix.  A test that cannot note would take too much away. */
	if (journal_fd >= 0 && n > 0 && write(journal_fd, rows, size) != (ssize_t) size)
		abort();
}

static void
add(Entries *e, const struct stat *st, uint64_t length, uint64_t is_cut)
{
	if (e->n == e->cap)
	{
		e->cap = e->cap > 0 ? e->cap * 2 : 64;
		e->rows = realloc(e->rows, e->cap * sizeof(*e->rows));
		if (e->rows == NULL)
			abort();
	}
	e->rows[e->n++] = (Entry){(uint64_t) st->st_dev, (uint64_t) st->st_ino, length, is_cut};
}

/* The regular files of a folder, and of the folders in it down to `depth`. */
static void
add_folder(Entries *e, const char *path, int depth)
{
	DIR *dir = opendir(path);
	struct dirent *name;

	while (dir != NULL && (name = readdir(dir)) != NULL)
	{
		char full[8192];
		struct stat st;

		snprintf(full, sizeof(full), "%s/%s", path, name->d_name);
		if (name->d_name[0] == '.' || stat(full, &st) != 0)
			continue;
		if (S_ISREG(st.st_mode))
			add(e, &st, (uint64_t) st.st_size, 0);
		else if (S_ISDIR(st.st_mode) && depth > 0)
			add_folder(e, full, depth - 1);
	}
	if (dir != NULL)
		closedir(dir);
}

static int
sync_and_note(const char *call, int fd)
{
	int (*next)(int) = (int (*)(int)) dlsym(RTLD_NEXT, call);
	Entries e = {0};
	struct stat st;
	int result;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		add(&e, &st, (uint64_t) st.st_size, 0);
	result = next(fd);
	if (result == 0)
		note(e.rows, e.n);
	free(e.rows);
	return result;
}

int
fdatasync(int fd)
{
	return sync_and_note("fdatasync", fd);
}

int
fsync(int fd)
{
	return sync_and_note("fsync", fd);
}

int
syncfs(int fd)
{
	int (*next)(int) = (int (*)(int)) dlsym(RTLD_NEXT, "syncfs");
	Entries e = {0};
	char link[64];
	int result;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	add_folder(&e, link, 1);
	result = next(fd);
	if (result == 0)
		note(e.rows, e.n);
	free(e.rows);
	return result;
}

static int
cut_and_note(const char *call, int fd, off_t length)
{
	int (*next)(int, off_t) = (int (*)(int, off_t)) dlsym(RTLD_NEXT, call);
	int result = next(fd, length);
	struct stat st;

	if (result == 0 && fstat(fd, &st) == 0)
		note(&(Entry){(uint64_t) st.st_dev, (uint64_t) st.st_ino, (uint64_t) length, 1}, 1);
	return result;
}

int
ftruncate(int fd, off_t length)
{
	return cut_and_note("ftruncate", fd, length);
}

int
ftruncate64(int fd, off_t length)
{
	return cut_and_note("ftruncate64", fd, length);
}

/* ---- new files ---- */

static int
note_made(int fd, int flags)
{
	struct stat st;

	/* Whatever was known of the inode was said of another file: ext4 gives it out again at once. */
	if (fd >= 0 && (flags & O_CREAT) != 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
		note(&(Entry){(uint64_t) st.st_dev, (uint64_t) st.st_ino, 0, 1}, 1);
	return fd;
}

static int
open_and_note(const char *call, int dir_fd, const char *path, int flags, va_list ap)
{
	int (*next)(int, const char *, int, ...) = (int (*)(int, const char *, int, ...)) dlsym(RTLD_NEXT, call);
	mode_t mode = (flags & O_CREAT) != 0 ? (mode_t) va_arg(ap, int) : 0;

	return note_made(next(dir_fd, path, flags, mode), flags);
}

int
open(const char *path, int flags, ...)
{
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = open_and_note("openat", AT_FDCWD, path, flags, ap);
	va_end(ap);
	return fd;
}

int
open64(const char *path, int flags, ...)
{
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = open_and_note("openat64", AT_FDCWD, path, flags, ap);
	va_end(ap);
	return fd;
}

int
openat(int dir_fd, const char *path, int flags, ...)
{
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = open_and_note("openat", dir_fd, path, flags, ap);
	va_end(ap);
	return fd;
}

int
openat64(int dir_fd, const char *path, int flags, ...)
{
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = open_and_note("openat64", dir_fd, path, flags, ap);
	va_end(ap);
	return fd;
}
