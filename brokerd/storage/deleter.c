#include "brokerd/storage/deleter.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/manager.h"

#define DELETE_STEP    ((int64_t) 4 * 1024 * 1024)
#define DELETE_STEP_MS 10

struct DeleteTask
{
	DeleteTask *next;
	int64_t due_ms; /* wall clock */
	bool is_dir;
	char path[];
};

struct RetiredDir
{
	int refs;
	int64_t due_ms;
	char path[];
};

static void
add_task(LogManager *m, const char *path, int64_t due_ms, bool is_dir)
{
	Deleter *d = &m->deleter;
	DeleteTask *t;

	if (!d->running)
		return; /* closing: its name says it to the next start */
	t = malloc(sizeof(*t) + strlen(path) + 1);
	*t = (DeleteTask){.due_ms = due_ms, .is_dir = is_dir};
	memcpy(t->path, path, strlen(path) + 1);
	pthread_mutex_lock(&d->mutex);
	t->next = d->tasks;
	d->tasks = t;
	pthread_cond_signal(&d->wake);
	pthread_mutex_unlock(&d->mutex);
}

void
deleter_add_segment(LogManager *m, const char *base, int64_t due_ms)
{
	add_task(m, base, due_ms, false);
}

void
deleter_add_dir(LogManager *m, const char *path, int64_t due_ms)
{
	add_task(m, path, due_ms, true);
}

/* False: stopping. */
static bool
pause_ms(Deleter *d, int ms)
{
	struct timespec until;
	bool stop;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += (long) ms * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&d->mutex);
	while (!d->stopping && pthread_cond_timedwait(&d->wake, &d->mutex, &until) != ETIMEDOUT)
		;
	stop = d->stopping;
	pthread_mutex_unlock(&d->mutex);
	return !stop;
}

static bool
shrink_and_unlink(Deleter *d, const char *path)
{
	struct stat st;
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd >= 0)
	{
		if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
			for (int64_t size = st.st_size - DELETE_STEP; size > 0; size -= DELETE_STEP)
			{
				if (ftruncate(fd, size) != 0)
					break;
				if (!pause_ms(d, DELETE_STEP_MS))
				{
					close(fd);
					return false;
				}
			}
		close(fd);
	}
	if (unlink(path) != 0 && errno != ENOENT)
		log_msg(LOG_WARNING, "storage", "%s cannot be deleted: %s", path, strerror(errno));
	return true;
}

static bool
delete_segment(Deleter *d, const char *base)
{
	char path[STORAGE_PATH_MAX];

	for (int i = 0; i < SEGMENT_FILES_AND_SNAPSHOT; i++)
	{
		snprintf(path, sizeof(path), "%s%s.deleted", base, segment_suffixes[i]);
		if (!shrink_and_unlink(d, path))
			return false;
	}
	return true;
}

static bool
delete_dir(Deleter *d, const char *dir)
{
	char path[STORAGE_PATH_MAX];
	DIR *dh = opendir(dir);
	struct dirent *e;
	bool go_on = true;

	if (dh == NULL)
		return true;
	while (go_on && (e = readdir(dh)) != NULL)
	{
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if ((size_t) snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) < sizeof(path))
			go_on = shrink_and_unlink(d, path);
	}
	closedir(dh);
	if (go_on && rmdir(dir) != 0 && errno != ENOENT)
		log_msg(LOG_WARNING, "storage", "%s cannot be deleted: %s", dir, strerror(errno));
	return go_on;
}

/* The first task that is due, taken off the list; `*wait_ms` when none is. */
static DeleteTask *
take_due(Deleter *d, int *wait_ms)
{
	int64_t now = clock_wall_ms(), next = now + 60000;

	for (DeleteTask **p = &d->tasks; *p != NULL; p = &(*p)->next)
	{
		DeleteTask *t = *p;

		if (t->due_ms <= now)
		{
			*p = t->next;
			return t;
		}
		if (t->due_ms < next)
			next = t->due_ms;
	}
	*wait_ms = (int) (next - now);
	return NULL;
}

static void *
deleter_main(void *arg)
{
	LogManager *m = arg;
	Deleter *d = &m->deleter;

	pthread_mutex_lock(&d->mutex);
	while (!d->stopping)
	{
		int wait_ms = 0;
		DeleteTask *t = take_due(d, &wait_ms);

		if (t == NULL)
		{
			struct timespec until;

			clock_gettime(CLOCK_REALTIME, &until);
			until.tv_sec += wait_ms / 1000;
			until.tv_nsec += (long) (wait_ms % 1000) * 1000000;
			until.tv_sec += until.tv_nsec / 1000000000;
			until.tv_nsec %= 1000000000;
			pthread_cond_timedwait(&d->wake, &d->mutex, &until);
			continue;
		}
		pthread_mutex_unlock(&d->mutex);
		directory_mark_unclean(m);
		if (t->is_dir)
			delete_dir(d, t->path);
		else
			delete_segment(d, t->path);
		free(t);
		pthread_mutex_lock(&d->mutex);
	}
	pthread_mutex_unlock(&d->mutex);
	return NULL;
}

bool
deleter_start(LogManager *m)
{
	Deleter *d = &m->deleter;

	pthread_mutex_init(&d->mutex, NULL);
	pthread_cond_init(&d->wake, NULL);
	d->running = storage_thread_start(&d->thread, "log-deleter", deleter_main, m);
	return d->running;
}

void
deleter_stop(LogManager *m)
{
	Deleter *d = &m->deleter;

	if (!d->running)
		return;
	pthread_mutex_lock(&d->mutex);
	d->stopping = true;
	pthread_cond_signal(&d->wake);
	pthread_mutex_unlock(&d->mutex);
	pthread_join(d->thread, NULL);
	d->running = false;
	while (d->tasks != NULL)
	{
		DeleteTask *t = d->tasks;

		d->tasks = t->next;
		free(t);
	}
	pthread_mutex_destroy(&d->mutex);
	pthread_cond_destroy(&d->wake);
}

RetiredDir *
retired_dir_new(const char *path, int64_t due_ms)
{
	RetiredDir *d = malloc(sizeof(*d) + strlen(path) + 1);

	*d = (RetiredDir){.refs = 1, .due_ms = due_ms};
	memcpy(d->path, path, strlen(path) + 1);
	return d;
}

RetiredDir *
retired_dir_ref(RetiredDir *d)
{
	d->refs++;
	return d;
}

void
retired_dir_unref(LogManager *m, RetiredDir *d)
{
	if (d == NULL || --d->refs > 0)
		return;
	deleter_add_dir(m, d->path, d->due_ms);
	free(d);
}
