/*
 * session_internal.h: the inside of a session, shared by session.c (the connection) and session_call.c (the
 * queue).
 */
#ifndef BROKERD_META_SESSION_INTERNAL_H
#define BROKERD_META_SESSION_INTERNAL_H

#include "brokerd/meta/connect.h"
#include "brokerd/meta/session.h"

#define SESSION_MAX_QUEUED 20000 /* a call beyond that is unavailable at once */
#define SESSION_MAX_PARAMS 16
#define SESSION_FREE_CALLS 8 /* that are kept to be used again, with texts of up to so many bytes */
#define SESSION_TEXT_KEEP  ((size_t) 256 * 1024)

typedef struct MetaCall MetaCall;

struct MetaCall
{
	MetaSession *session;
	MetaStatement statement;
	const char *params[SESSION_MAX_PARAMS]; /* in `text` */
	int n_params;
	char *text; /* stays with the call for its next use */
	size_t text_size;
	int64_t epoch; /* broker epoch when it was made: it is not sent under another one */
	MetaCallDone done;
	void *ctx;
	ev_timer timer; /* its deadline */
	bool answered;  /* `done` was called (deadline); the answer still has to be read */
	bool sent;      /* beyond PREPARE: it may have an effect */
	MetaCall *prev, *next;
};

typedef enum SessionState
{
	SESSION_DOWN,
	SESSION_CONNECTING,
	SESSION_SETUP,
	SESSION_UP
} SessionState;

struct MetaSession
{
	MetaSessionOptions o;
	char *conninfo;
	char application_name[64];
	SessionState state;
	bool started;
	bool open;
	MetaConnect *connect;
	PGconn *conn;
	ev_async wake; /* the connecting thread is done */
	ev_io io;
	ev_timer retry;
	ev_timer stuck; /* a call, or the setup, has no answer */
	ev_timer kick;  /* fed as an event, never started: "look at the queue" from the loop */
	int attempts;
	int first_host; /* of those in conninfo, the one that is tried first */
	uint64_t random;
	char last_why[512]; /* of the last failed attempt: said once, not at each try */
	int64_t last_said_ms;

	/* setup */
	int step; /* -1: the settings; then MetaProbeStep */
	PGresult *setup_result;
	MetaProbe probe;

	/* calls */
	MetaCall *queue; /* waiting, in order */
	int n_queue;
	MetaCall *free_calls;
	int n_free_calls;
	MetaCall *running;
	int64_t running_since;
	PGresult *result; /* of the running call, until all of it is there */
	bool preparing;   /* the running call waits for its PREPARE */
	bool prepared[META_STATEMENT_COUNT];
	bool not_durable; /* a standby did not confirm the commit of the running call (hazards A21) */
	bool recycle;
	MetaSessionStats stats;
};

/* ---- session.c ---- */

/* Close the connection; the running call loses its answer.  Tries again after a while. */
void session_lose(MetaSession *s, const char *why);
/* Write what is buffered, and watch the socket for what is needed. */
bool session_flush(MetaSession *s);

/* ---- session_call.c ---- */

/* Send the next call that may go. */
void session_next_call(MetaSession *s);
/* Results of the running call are there. */
void session_read_call(MetaSession *s);
void session_running_lost(MetaSession *s, const char *why);
void session_free_calls(MetaSession *s); /* those that are kept */

#endif
