#include "brokerd/base/logging.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum
{
	LINE_MAX_BYTES = 1024,
	RING_LINES = 1024
};

typedef struct Line
{
	int len;
	char text[LINE_MAX_BYTES];
} Line;

/*
 * The process has one stderr, so the ring that guards it is the one piece of state here that is not
 * hung from a context.
 */
static struct
{
	pthread_mutex_t lock;
	pthread_cond_t more;
	pthread_t thread;
	bool running;
	bool stopping;
	unsigned head;  /* next line to write */
	unsigned count; /* lines waiting */
	Line lines[RING_LINES];
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static _Atomic int least_level = LOG_INFO;
static _Atomic uint64_t dropped;

static void
write_all(const char *p, int len)
{
	while (len > 0)
	{
		ssize_t n = write(STDERR_FILENO, p, (size_t) len);

		if (n <= 0)
			return;
		p += n;
		len -= (int) n;
	}
}

static void *
writer_main(void *arg)
{
	(void) arg;
	pthread_mutex_lock(&ring.lock);
	for (;;)
	{
		Line line;

		while (ring.count == 0 && !ring.stopping)
			pthread_cond_wait(&ring.more, &ring.lock);
		if (ring.count == 0)
			break;
		line = ring.lines[ring.head];
		ring.head = (ring.head + 1) % RING_LINES;
		ring.count--;
		pthread_mutex_unlock(&ring.lock);
		write_all(line.text, line.len);
		pthread_mutex_lock(&ring.lock);
	}
	pthread_mutex_unlock(&ring.lock);
	return NULL;
}

bool
log_start_writer(void)
{
	ring.stopping = false;
	if (pthread_create(&ring.thread, NULL, writer_main, NULL) != 0)
		return false;
	ring.running = true;
	return true;
}

void
log_stop_writer(void)
{
	if (!ring.running)
		return;
	pthread_mutex_lock(&ring.lock);
	ring.stopping = true;
	pthread_cond_signal(&ring.more);
	pthread_mutex_unlock(&ring.lock);
	pthread_join(ring.thread, NULL);
	ring.running = false;
}

uint64_t
log_dropped(void)
{
	return atomic_load(&dropped);
}

void
log_set_level(LogLevel least)
{
	atomic_store(&least_level, least);
}

void
log_msg(LogLevel level, const char *subsystem, const char *fmt, ...)
{
	static const char *const names[] = {"DEBUG", "INFO", "WARNING", "ERROR", "FATAL"};
	char text[LINE_MAX_BYTES];
	struct timespec ts;
	struct tm tm;
	va_list ap;
	size_t len;
	int n;

	if ((int) level < atomic_load(&least_level))
		return;
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	len = strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	len += (size_t) snprintf(text + len, sizeof(text) - len,
							 ".%03d UTC %-7s %s: ", (int) (ts.tv_nsec / 1000000), names[level], subsystem);
	va_start(ap, fmt);
	n = vsnprintf(text + len, sizeof(text) - len - 1, fmt, ap);
	va_end(ap);
	len += n < 0 ? 0 : (size_t) n;
	if (len > sizeof(text) - 2)
		len = sizeof(text) - 2;
	text[len++] = '\n';

	if (!ring.running)
	{
		write_all(text, (int) len);
		return;
	}
	pthread_mutex_lock(&ring.lock);
	if (ring.count == RING_LINES)
		atomic_fetch_add(&dropped, 1);
	else
	{
		Line *line = &ring.lines[(ring.head + ring.count) % RING_LINES];

		memcpy(line->text, text, len);
		line->len = (int) len;
		ring.count++;
		pthread_cond_signal(&ring.more);
	}
	pthread_mutex_unlock(&ring.lock);
}
