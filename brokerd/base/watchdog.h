/*
 * watchdog.h: a small process beside brokerd that ends it when its loop stands still.
 *
 * A broker that hangs is fenced after broker.session.timeout.ms and others lead, but its sockets stay open, and a
 * client that waits on one of them waits for its own request timeout, often a minute.  So a process that is
 * stopped (SIGSTOP, a freezer) is killed when its loop has not turned for that long: connections are reset and clients
 * go on with the new leaders.  One that runs or waits for a disk may come back, and has five times as long.
 * The watchdog sleeps itself when the whole machine does, so that a suspended machine is not taken for a hung broker.
 *
 * It is armed only while there are other brokers: a broker that is alone has nobody who could go on.
 */
#ifndef BROKERD_BASE_WATCHDOG_H
#define BROKERD_BASE_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Watchdog Watchdog;

/* Before any thread is started.  NULL: no memory or no process; brokerd runs without. */
Watchdog *watchdog_start(int64_t timeout_ms);
/* The loop turns.  NULL is fine. */
void watchdog_beat(Watchdog *w);
/* Until the next beat nothing is expected. */
void watchdog_disarm(Watchdog *w);

/* Pure: may the watched process be killed now?  Times are of the boot clock; beat 0 = disarmed. */
bool watchdog_is_due(int64_t now_ms, int64_t beat_ms, int64_t awake_since_ms, int64_t timeout_ms);
/* The state letter of /proc/PID/stat: "27001 (brokerd) T 1 ..." is 'T'; '?' when there is none. */
char watchdog_state(const char *stat);

#endif
