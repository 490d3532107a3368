#include "brokerd/storage/file_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

bool
file_pwrite_all(int fd, const void *data, size_t len, int64_t pos)
{
	const char *p = data;

	while (len > 0)
	{
		ssize_t n = pwrite(fd, p, len, pos);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
		{
			if (n == 0)
				errno = EIO;
			return false;
		}
		p += n;
		pos += n;
		len -= (size_t) n;
	}
	return true;
}

ssize_t
file_pread_all(int fd, void *data, size_t len, int64_t pos)
{
	size_t done = 0;

	while (done < len)
	{
		ssize_t n = pread(fd, (char *) data + done, len - done, pos + (int64_t) done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t) n;
	}
	return (ssize_t) done;
}

ssize_t
file_pread_cached(int fd, void *data, size_t len, int64_t pos)
{
	struct iovec iov = {data, len};

	return preadv2(fd, &iov, 1, pos, RWF_NOWAIT);
}

char *
file_read(const char *path, size_t max, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *data = NULL;
	ssize_t n;
	int error;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && (size_t) st.st_size <= max)
	{
		data = malloc((size_t) st.st_size + 1);
		if (data != NULL && (n = file_pread_all(fd, data, (size_t) st.st_size, 0)) >= 0)
		{
			data[n] = '\0';
			*len = (size_t) n;
			close(fd);
			return data;
		}
	}
	else if ((size_t) st.st_size > max)
		errno = EFBIG;
	error = errno;
	free(data);
	close(fd);
	errno = error;
	return NULL;
}

static bool
sync_and_close(int fd)
{
	bool ok = fd >= 0 && fsync(fd) == 0;
	int error = errno;

	if (fd >= 0)
		close(fd);
	errno = error;
	return ok;
}

bool
file_sync_path(const char *path)
{
	return sync_and_close(open(path, O_RDONLY | O_CLOEXEC));
}

bool
file_sync_at(int dir_fd, const char *name)
{
	return sync_and_close(openat(dir_fd, name, O_RDONLY | O_CLOEXEC));
}

bool
file_sync_if_there(int dir_fd, const char *name)
{
	return file_sync_at(dir_fd, name) || errno == ENOENT;
}

bool
file_sync_parent(const char *path)
{
	char dir[4096];
	const char *slash = strrchr(path, '/');

	if (slash == NULL)
		return file_sync_path(".");
	if ((size_t) (slash - path) >= sizeof(dir))
	{
		errno = ENAMETOOLONG;
		return false;
	}
	memcpy(dir, path, (size_t) (slash - path));
	dir[slash - path] = '\0';
	return file_sync_path(slash == path ? "/" : dir);
}

/* All but the sync of the folder. */
static bool
replace(int dir_fd, const char *path, const void *data, size_t len, bool sync)
{
	char tmp[4096 + 8];
	int fd, error;
	bool ok;

	if ((size_t) snprintf(tmp, sizeof(tmp), "%s.tmp", path) >= sizeof(tmp))
	{
		errno = ENAMETOOLONG;
		return false;
	}
	fd = openat(dir_fd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return false;
	ok = file_pwrite_all(fd, data, len, 0) && (!sync || fsync(fd) == 0);
	error = errno;
	close(fd);
	/* A rename over a file makes ext4 write the new one out at once, a wait for each of thousands at a stop.  Who does
	 * not ask for a sync can do without that order: a crash in between leaves no file, and what an unclean
	 * start does not find it makes anew from the log. */
	if (ok && !sync && unlinkat(dir_fd, path, 0) != 0 && errno != ENOENT)
		ok = false;
	if (ok && renameat(dir_fd, tmp, dir_fd, path) == 0)
		return true;
	if (ok)
		error = errno;
	unlinkat(dir_fd, tmp, 0);
	errno = error;
	return false;
}

bool
file_replace(const char *path, const void *data, size_t len, bool sync)
{
	return replace(AT_FDCWD, path, data, len, sync) && (!sync || file_sync_parent(path));
}

bool
file_replace_at(int dir_fd, const char *name, const void *data, size_t len, bool sync)
{
	return replace(dir_fd, name, data, len, sync) && (!sync || fsync(dir_fd) == 0);
}

void
text_add(TextBuf *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (t->failed)
		return;
	for (;;)
	{
		va_start(ap, fmt);
		n = vsnprintf(t->s == NULL ? NULL : t->s + t->len, t->cap - t->len, fmt, ap);
		va_end(ap);
		if (n >= 0 && (size_t) n < t->cap - t->len)
		{
			t->len += (size_t) n;
			return;
		}
		t->cap = t->cap == 0 ? 4096 : t->cap * 2;
		if (n < 0 || (t->s = realloc(t->s, t->cap)) == NULL)
		{
			t->failed = true;
			return;
		}
	}
}

void
text_free(TextBuf *t)
{
	free(t->s);
	*t = (TextBuf){0};
}

bool
file_name_ends(const char *name, const char *end)
{
	size_t n = strlen(name), k = strlen(end);

	return n >= k && strcmp(name + n - k, end) == 0;
}

const char *
file_name_offset(const char *name, int64_t *offset)
{
	char *end;

	if (strspn(name, "0123456789") != 20)
		return NULL;
	errno = 0;
	*offset = strtoll(name, &end, 10);
	return errno != 0 ? NULL : end;
}
