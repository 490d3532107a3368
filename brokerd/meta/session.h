/*
 * session.h: one session with PostgreSQL and the calls that wait for it.
 *
 *     DOWN ──retry──▶ CONNECTING ──▶ SETUP ──checks──▶ UP ──▶ DOWN (lost, stuck, recycled)
 *                     (thread)       settings,          one call at a time, in order
 *                                    who answers
 *
 * A session owns its connection and its queue.  It knows statements and results, nothing of brokers.  Loop
 * thread only.  Callbacks come from the loop, never from inside session_call().
 */
#ifndef BROKERD_META_SESSION_H
#define BROKERD_META_SESSION_H

#include <ev.h>

#include "brokerd/meta/meta.h"
#include "brokerd/meta/probe.h"
#include "brokerd/meta/result.h"

typedef enum MetaSessionKind
{
	META_SESSION_HEARTBEAT,
	META_SESSION_CONTROL,
	META_SESSION_OFFSETS,
	META_SESSION_COUNT
} MetaSessionKind;

#define META_BINARY    1
#define META_WRITES    2
#define META_AS_BROKER 4
#define META_CHANGES   8

typedef struct MetaStatementRow
{
	const char *name;
	MetaSessionKind session;
	int flags;
	const char *sql;
} MetaStatementRow;
const MetaStatementRow *meta_statement_row(MetaStatement statement);

/* This broker, as META_AS_BROKER calls send it. */
typedef struct MetaIdentity
{
	int32_t node_id;
	int64_t broker_epoch; /* -1: none, such calls wait */
} MetaIdentity;

typedef struct MetaSession MetaSession;

typedef struct MetaSessionOptions
{
	struct ev_loop *loop;
	MetaSessionKind kind;
	const char *conninfo;
	const MetaIdentity *identity; /* lives longer than the session */
	int64_t stuck_ms;             /* a call without an answer for so long: the session is closed */
	int64_t statement_timeout_ms;
	bool listen; /* LISTEN pg_broker */

	void (*on_up)(void *ctx, MetaSession *session);
	/* It was up, or an attempt failed.  `why` is for the log. */
	void (*on_down)(void *ctx, MetaSession *session, const char *why);
	/* Connected, and of no use: `sentence` says what to do.  It tries again later. */
	void (*on_unfit)(void *ctx, MetaSession *session, const char *sentence);
	void (*on_notify)(void *ctx);
	/* After each answer, before the caller hears of it. */
	void (*on_answer)(void *ctx, MetaStatement statement, const MetaResult *result);
	void *ctx;
} MetaSessionOptions;

MetaSession *session_new(const MetaSessionOptions *options);
/* Waiting calls get META_UNAVAILABLE, sent ones META_UNKNOWN, from inside. */
void session_free(MetaSession *s);

/* Connect now (and again after each loss).  A session does not begin by itself. */
void session_start(MetaSession *s);
/* Close the connection, keep the queue, connect again.  In the middle of a call: when that is answered, or
 * at once when it has run for `patience_ms`. */
void session_recycle(MetaSession *s, int64_t patience_ms);
/* Close the connection now and connect again, where several hosts are named to the next one first. */
void session_leave(MetaSession *s);
bool session_is_up(const MetaSession *s);
MetaSessionKind session_kind(const MetaSession *s);
/* Of an up session. */
const MetaProbe *session_probe(const MetaSession *s);

/* Whether calls that need nothing but the session may flow (before registration only some may). */
void session_set_open(MetaSession *s, bool open);
/* Look at the queue again (the identity changed). */
void session_kick(MetaSession *s);

/* Answer all that waits as unavailable. */
void session_drop_queue(MetaSession *s, const char *why);
void session_call(MetaSession *s, MetaStatement statement, const char *const *params, int n_params,
				  int64_t deadline, MetaCallDone done, void *ctx);
int session_queued(const MetaSession *s);

typedef struct MetaSessionStats
{
	uint64_t calls, errors, unknown, unavailable, reconnects;
} MetaSessionStats;
const MetaSessionStats *session_stats(const MetaSession *s);

#endif
