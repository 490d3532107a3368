/* When the watchdog ends a broker, and that it does. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/watchdog.h"
#include "regress/unit/tap.h"

static void
test_rules(void)
{
	ok(!watchdog_is_due(100000, 0, 0, 6000), "disarmed: never");
	ok(!watchdog_is_due(100000, 94000, 0, 6000), "a beat as old as the timeout");
	ok(watchdog_is_due(100001, 94000, 0, 6000), "an older one");
	ok(!watchdog_is_due(100001, 94000, 99000, 6000), "the whole machine slept until a second ago");
	is_int(watchdog_state("27001 (brokerd) T 1 27001"), 'T', "a stopped process");
	is_int(watchdog_state("27001 (a) R (b) S 1 27001"), 'S', "a name with parentheses");
	is_int(watchdog_state("27001 (brokerd)"), '?', "half a line");
	is_int(watchdog_state(""), '?', "no line");
}

/* A process with a watchdog of 200 ms that beats, as told, and the signal that ended it. */
static int
end_of(void (*live)(Watchdog *w))
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
	{
		Watchdog *w = watchdog_start(200);

		if (w != NULL)
			live(w);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void
beat_on(Watchdog *w)
{
	for (int64_t end = clock_boot_ms() + 600; clock_boot_ms() < end; usleep(10000))
		watchdog_beat(w);
}

static void
stop(Watchdog *w)
{
	watchdog_beat(w);
	raise(SIGSTOP);
}

static void
be_busy(Watchdog *w)
{
	watchdog_beat(w);
	usleep(500 * 1000);
}

static void
disarm_and_sleep(Watchdog *w)
{
	watchdog_beat(w);
	watchdog_disarm(w);
	usleep(1500 * 1000);
}

static void
hang(Watchdog *w)
{
	watchdog_beat(w);
	pause();
}

int
main(void)
{
	test_rules();
	is_int(end_of(beat_on), 0, "who beats lives");
	is_int(end_of(stop), SIGKILL, "who is stopped is killed");
	is_int(end_of(be_busy), 0, "who is busy for a while lives");
	is_int(end_of(hang), SIGKILL, "who does not come back is killed");
	is_int(end_of(disarm_and_sleep), 0, "disarmed, nothing is expected");
	return tap_done();
}
