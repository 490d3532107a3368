#include "brokerd/base/watchdog.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"

enum
{
	BUSY_FACTOR = 5 /* for a process that may come back */
};

struct Watchdog
{
	_Atomic int64_t beat_ms; /* 0: disarmed */
};

bool
watchdog_is_due(int64_t now_ms, int64_t beat_ms, int64_t awake_since_ms, int64_t timeout_ms)
{
	int64_t since = beat_ms > awake_since_ms ? beat_ms : awake_since_ms;

	return beat_ms > 0 && now_ms - since > timeout_ms;
}

static void
nap(int64_t ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

/* The name in parentheses may hold anything, so the last ) counts. */
char
watchdog_state(const char *stat)
{
	const char *end = strrchr(stat, ')');

	return end != NULL && end[1] == ' ' && end[2] != '\0' ? end[2] : '?';
}

static bool
is_stopped(pid_t pid)
{
	char path[64], stat[512];
	FILE *file;
	size_t n;
	char state;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
	file = fopen(path, "re");
	if (file == NULL)
		return false;
	n = fread(stat, 1, sizeof(stat) - 1, file);
	fclose(file);
	stat[n] = '\0';
	state = watchdog_state(stat);
	return state == 'T' || state == 't';
}

static void
watch(const Watchdog *w, pid_t watched, int64_t timeout_ms)
{
	int64_t period = timeout_ms / 20 < 20 ? 20 : timeout_ms / 20 > 100 ? 100 : timeout_ms / 20;
	int64_t awake_since = clock_boot_ms(), last = awake_since;

	while (getppid() == watched)
	{
		int64_t now;

		nap(period);
		now = clock_boot_ms();
		if (now - last > period + timeout_ms / 2)
			awake_since = now; /* this process slept, too */
		last = now;
		if (!watchdog_is_due(now, atomic_load(&w->beat_ms), awake_since,
							 is_stopped(watched) ? timeout_ms : BUSY_FACTOR * timeout_ms))
			continue;
		log_msg(LOG_FATAL, "watchdog",
				"the loop of process %d has not turned for %lld ms: it is fenced by now, and is killed so "
				"that its "
				"clients go on elsewhere",
				(int) watched, (long long) (now - atomic_load(&w->beat_ms)));
		kill(watched, SIGKILL);
		return;
	}
}

Watchdog *
watchdog_start(int64_t timeout_ms)
{
	Watchdog *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t watched = getpid(), child;

	if (w == MAP_FAILED)
		return NULL;
	atomic_init(&w->beat_ms, 0);
	child = fork();
	if (child < 0)
	{
		munmap(w, sizeof(*w));
		return NULL;
	}
	if (child > 0)
		return w;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "brokerd-watch");
	signal(SIGINT, SIG_IGN); /* a terminal sends it to both; this one ends with the other */
	signal(SIGTERM, SIG_IGN);
	watch(w, watched, timeout_ms);
	_exit(0);
}

void
watchdog_beat(Watchdog *w)
{
	if (w != NULL)
		atomic_store(&w->beat_ms, clock_boot_ms());
}

void
watchdog_disarm(Watchdog *w)
{
	if (w != NULL)
		atomic_store(&w->beat_ms, 0);
}
