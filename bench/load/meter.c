/* meter.c: see meter.h. */
#include "bench/load/meter.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench/load/options.h"

static volatile sig_atomic_t stop_asked;

static void
on_signal(int number)
{
	(void) number;
	/* Whoever is asked twice ends as a program that handles nothing would. */
	if (stop_asked)
		_exit(130);
	stop_asked = 1;
}

bool
meter_stopped(void)
{
	return stop_asked != 0;
}

int64_t
clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t) ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void
clock_sleep_until(int64_t ns)
{
	struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	while (!stop_asked && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* User and system time of a process in seconds; -1 when there is none. */
static double
process_cpu(int pid)
{
	char path[64], line[1024];
	unsigned long user, system;
	const char *after;
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "r");
	if (file == NULL)
		return -1;
	n = fread(line, 1, sizeof(line) - 1, file);
	fclose(file);
	line[n] = '\0';
	/* The name is in brackets and may hold anything. */
	after = strrchr(line, ')');
	if (after == NULL ||
		sscanf(after + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
		return -1;
	return (double) (user + system) / (double) sysconf(_SC_CLK_TCK);
}

/* A line such as "VmRSS:   1234 kB" of /proc/PID/status; 0 when there is none. */
static int64_t
process_kb(int pid, const char *name)
{
	char path[64], line[256];
	int64_t kb = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
			kb = strtoll(line + strlen(name) + 1, NULL, 10);
	if (file != NULL)
		fclose(file);
	return kb;
}

static double
own_cpu(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return (double) (ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
		   (double) (ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
}

static double
watched_cpu(const Meter *m)
{
	double sum = 0;

	for (int i = 0; i < m->n_watched; i++)
	{
		double cpu = process_cpu(m->watched[i]);

		if (cpu > 0)
			sum += cpu;
	}
	return sum;
}

static void
read_watch_list(Meter *m, const char *text)
{
	while (*text != '\0')
	{
		char *end;
		long pid = strtol(text, &end, 10);

		if (end == text || pid <= 0 || pid > INT32_MAX || (*end != ',' && *end != '\0') ||
			m->n_watched == METER_WATCH_MAX)
			die_usage("--watch wants up to %d process ids, separated by commas", METER_WATCH_MAX);
		if (process_cpu((int) pid) < 0)
			die("no process %ld runs, which --watch names", pid);
		m->watched[m->n_watched++] = (int) pid;
		text = *end == ',' ? end + 1 : end;
	}
}

void
meter_init(Meter *m, const char *watch)
{
	struct sigaction action = {.sa_handler = on_signal};

	memset(m, 0, sizeof(*m));
	if (watch != NULL)
		read_watch_list(m, watch);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_TIMERSLACK, 1);
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->on_start, NULL);
}

/* What has been used up so far does not count. */
static void
note_costs(Meter *m)
{
	m->cpu_before = own_cpu();
	m->watched_before = watched_cpu(m);
}

void
meter_start(Meter *m, double warmup, double seconds)
{
	note_costs(m);
	pthread_mutex_lock(&m->lock);
	m->start = clock_ns();
	m->begin = m->start + (int64_t) (warmup * 1e9);
	m->end = seconds == 0 ? INT64_MAX : m->begin + (int64_t) (seconds * 1e9);
	m->started = true;
	pthread_cond_broadcast(&m->on_start);
	pthread_mutex_unlock(&m->lock);
}

void
meter_wait_start(Meter *m)
{
	pthread_mutex_lock(&m->lock);
	while (!m->started)
		pthread_cond_wait(&m->on_start, &m->lock);
	pthread_mutex_unlock(&m->lock);
}

void
meter_open(Meter *m)
{
	if (m->begin > m->start)
	{
		clock_sleep_until(m->begin);
		note_costs(m);
	}
	m->opened = true;
}

void
meter_close(Meter *m, int64_t at)
{
	int64_t now;

	if (at == 0)
		clock_sleep_until(m->end);
	now = clock_ns();
	m->cpu = own_cpu() - m->cpu_before;
	m->watched_cpu = watched_cpu(m) - m->watched_before;
	m->rss_kb = process_kb((int) getpid(), "VmHWM");
	for (int i = 0; i < m->n_watched; i++)
		m->watched_rss_kb += process_kb(m->watched[i], "VmRSS");
	m->interrupted = meter_stopped();
	/* An interruption closes early what would have ended later. */
	if (at == 0)
		at = m->end < now ? m->end : now;
	m->seconds = at > m->begin ? (double) (at - m->begin) / 1e9 : 0;
}
