/*
 * file_io.h: whole reads and writes, and files that are replaced as one (temporary file, fsync, rename,
 * fsync of the folder).  errno says why something failed.  Any thread.
 */
#ifndef BROKERD_STORAGE_FILE_IO_H
#define BROKERD_STORAGE_FILE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

bool file_pwrite_all(int fd, const void *data, size_t len, int64_t pos);
/* Bytes read, less than `len` only at the end of the file; -1 with errno. */
ssize_t file_pread_all(int fd, void *data, size_t len, int64_t pos);
/* What of it is in the page cache, from its beginning: less than `len` also there.  -1 with errno, EAGAIN: nothing;
 * EOPNOTSUPP: the file system cannot tell. */
ssize_t file_pread_cached(int fd, void *data, size_t len, int64_t pos);
/* The whole file, NUL-terminated, malloc'ed; NULL with errno.  EFBIG when larger than `max`. */
char *file_read(const char *path, size_t max, size_t *len);
/* `sync`: survives a crash when it returns. */
bool file_replace(const char *path, const void *data, size_t len, bool sync);
/* The same in a folder that is open, whatever its name is by now. */
bool file_replace_at(int dir_fd, const char *name, const void *data, size_t len, bool sync);
bool file_sync_at(int dir_fd, const char *name);
bool file_sync_if_there(int dir_fd, const char *name); /* true also when there is no such file */
bool file_sync_path(const char *path);                 /* fsync of a file or folder */
bool file_sync_parent(const char *path);

/* ---- names ---- */

bool file_name_ends(const char *name, const char *end);
/* "00000000000000000042.log": 42 and ".log"; NULL: no such name. */
const char *file_name_offset(const char *name, int64_t *offset);

/* Text that grows; `failed` sticks. */
typedef struct TextBuf
{
	char *s;
	size_t len;
	size_t cap;
	bool failed;
} TextBuf;
void text_add(TextBuf *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_free(TextBuf *t);

#endif
