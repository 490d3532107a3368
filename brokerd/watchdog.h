/*
 * watchdog.h: a small process beside brokerd that ends it when its loop stands still.
 *
 * A broker that hangs (a stopped process, a kernel that does not come back) is fenced after
 * broker.session.timeout.ms and others lead, but its sockets stay open, and a client that waits on one of them waits for
 * its own request timeout, often a minute.  Once the loop has not turned for that long, the watchdog kills
 * the process: connections are reset and clients go on with the new leaders.  It sleeps itself when the whole
 * machine does, so that a suspended machine is not taken for a hung broker.
 *
 * It is armed only while there are other brokers: a broker that is alone has nobody who could go on.
 */
#ifndef BROKERD_WATCHDOG_H
#define BROKERD_WATCHDOG_H

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

#endif
