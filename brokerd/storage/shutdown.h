/*
 * shutdown.h: the end of a data directory's process.
 */
#ifndef BROKERD_STORAGE_SHUTDOWN_H
#define BROKERD_STORAGE_SHUTDOWN_H

#include "brokerd/storage/manager.h"

/* Finish what is queued, sync, snapshot, checkpoint, and say last of all that the stop was clean. */
void shutdown_clean(LogManager *m);
void shutdown_threads(LogManager *m);
void shutdown_free_logs(LogManager *m);

#endif
