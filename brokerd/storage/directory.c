/* The lock, the clean-shutdown marker. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "brokerd/base/logging.h"
#include "brokerd/storage/clean_marker.h"
#include "brokerd/storage/manager.h"
#include "wire/errors.h"

bool
directory_lock(LogManager *m, Err *err)
{
	char path[STORAGE_PATH_MAX];
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	m->dir_fd = open(m->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (m->dir_fd < 0)
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, errno, "the data directory %s cannot be opened: %s",
					   m->dir, strerror(errno));
	snprintf(path, sizeof(path), "%s/.lock", m->dir);
	m->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (m->lock_fd < 0)
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, errno, "%s cannot be opened: %s", path,
					   strerror(errno));
	/* flock between ours; Kafka takes a POSIX lock on the same file, with which only the other kind conflicts. */
	if (flock(m->lock_fd, LOCK_EX | LOCK_NB) == 0 && fcntl(m->lock_fd, F_OFD_SETLK, &whole) == 0)
		return true;
	if (errno == EWOULDBLOCK || errno == EACCES)
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, EWOULDBLOCK,
					   "the data directory %s is in use by another process", m->dir);
	return err_set(err, KERR_KAFKA_STORAGE_ERROR, errno, "%s cannot be locked: %s", path, strerror(errno));
}

/*
 * From the first change on, a crash has to be taken for one: the marker goes, and its going is on disk,
 * before anything else is written.
 */
void
directory_mark_unclean(LogManager *m)
{
	char path[STORAGE_PATH_MAX];

	if (atomic_load(&m->marker_gone))
		return;
	pthread_mutex_lock(&m->marker_mutex);
	if (!atomic_load(&m->marker_gone))
	{
		snprintf(path, sizeof(path), "%s/%s", m->dir, CLEAN_MARKER);
		if ((unlink(path) != 0 && errno != ENOENT) || fsync(m->dir_fd) != 0)
			log_msg(LOG_ERROR, "storage", "%s cannot be deleted: %s", path, strerror(errno));
		snprintf(path, sizeof(path), "%s/%s", m->dir, MANIFEST_FILE);
		unlink(path);
		atomic_store(&m->marker_gone, true);
	}
	pthread_mutex_unlock(&m->marker_mutex);
}
