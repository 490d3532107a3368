/*
 * connect.h: one attempt to connect, on a thread of its own.
 *
 * Connecting is the one thing that libpq cannot do without blocking: names are resolved, a service file is read,
 * several hosts are tried with a timeout each, SCRAM hashes thousands of times.  So a short-lived thread runs
 * the blocking PQconnectdbParams, which does all of that right, and hands the finished connection to the loop.
 *
 *     start ──▶ (thread) ──▶ `wake` is sent ──▶ take          on the loop thread
 *                                └── or abandon, at any time
 *
 * A PGconn is touched by one thread at a time: by the helper until it posts, by the loop afterwards.
 */
#ifndef BROKERD_META_CONNECT_H
#define BROKERD_META_CONNECT_H

#include <ev.h>
#include <libpq-fe.h>

#include "brokerd/base/err.h"

typedef struct MetaConnect MetaConnect;

/* Of several hosts the one at `first` is tried first (modulo how many there are).  NULL: no thread could be started. */
MetaConnect *meta_connect_start(const char *conninfo, int first, const char *application_name,
								struct ev_loop *loop, ev_async *wake, Err *err);
bool meta_connect_is_done(const MetaConnect *connect);
/* Only when done.  NULL and a sentence when the attempt failed; frees `connect`. */
PGconn *meta_connect_take(MetaConnect *connect, Err *err);
/* Nobody waits for it any more: the thread frees what it has when it ends. */
void meta_connect_abandon(MetaConnect *connect);

/* The same, blocking, for the checks before the loop runs. */
PGconn *meta_connect_now(const char *conninfo, const char *application_name, Err *err);

#endif
