/*
 * lifecycle.h: a broker from its first file to its last.
 *
 *     open the data directory, recover ─▶ bind the listeners ─▶ connect to PostgreSQL ─▶ register
 *        ─▶ first complete image ─▶ serve ─▶ (SIGTERM) hand over, answer, sync, clean marker ─▶ end
 */
#ifndef BROKERD_LIFECYCLE_H
#define BROKERD_LIFECYCLE_H

#include "brokerd/base/config.h"
#include "brokerd/base/watchdog.h"

/* Runs until a signal or a fault ends it; the exit code. */
int lifecycle_run(BrokerConfig *config, Watchdog *watchdog); /* watchdog NULL: none */

#endif
