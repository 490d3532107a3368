/*
 * session_call.c: the calls of a session: queue, deadlines, sending, answers.
 */
#include "brokerd/meta/session_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/meta/image_internal.h"

static const MetaStatementRow statements[META_STATEMENT_COUNT] = {
#define META_STATEMENT(id, session, flags, sql) [META_##id] = {#id, session, flags, sql},
#include "brokerd/meta/statements.def"
#undef META_STATEMENT
};

const MetaStatementRow *
meta_statement_row(MetaStatement statement)
{
	return &statements[statement];
}

/* ---- answering ---- */

static void
free_call(MetaCall *call)
{
	MetaSession *s = call->session;

	ev_timer_stop(s->o.loop, &call->timer);
	if (s->n_free_calls == SESSION_FREE_CALLS || call->text_size > SESSION_TEXT_KEEP)
	{
		free(call->text);
		free(call);
		return;
	}
	call->next = s->free_calls;
	s->free_calls = call;
	s->n_free_calls++;
}

void
session_free_calls(MetaSession *s)
{
	while (s->free_calls != NULL)
	{
		MetaCall *call = s->free_calls;

		s->free_calls = call->next;
		free(call->text);
		free(call);
	}
	s->n_free_calls = 0;
}

static MetaCall *
take_call(MetaSession *s)
{
	MetaCall *call = s->free_calls;
	char *text;
	size_t size;

	if (call == NULL)
		return meta_alloc(sizeof(*call));
	s->free_calls = call->next;
	s->n_free_calls--;
	text = call->text;
	size = call->text_size;
	memset(call, 0, sizeof(*call));
	call->text = text;
	call->text_size = size;
	return call;
}

/* All of them behind each other in one text. */
static void
copy_params(MetaCall *call, const char *const *params, int n)
{
	size_t lens[SESSION_MAX_PARAMS], total = 0;
	char *p;

	if (n > SESSION_MAX_PARAMS)
		abort();
	for (int i = 0; i < n; i++)
		total += lens[i] = params[i] == NULL ? 0 : strlen(params[i]) + 1;
	if (total > call->text_size)
	{
		free(call->text);
		call->text = meta_alloc(total);
		call->text_size = total;
	}
	p = call->text;
	call->n_params = n;
	for (int i = 0; i < n; i++)
	{
		if (params[i] == NULL)
			continue;
		memcpy(p, params[i], lens[i]);
		call->params[i] = p;
		p += lens[i];
	}
}

static void
count_answer(MetaSession *s, MetaStatus status)
{
	s->stats.errors += status == META_ERROR;
	s->stats.unknown += status == META_UNKNOWN;
	s->stats.unavailable += status == META_UNAVAILABLE;
}

/* The caller hears of it, once. */
static void
answer(MetaCall *call, const MetaResult *result)
{
	if (call->answered)
		return;
	call->answered = true;
	ev_timer_stop(call->session->o.loop, &call->timer);
	count_answer(call->session, result->status);
	call->done(call->ctx, result);
}

/* No answer came, and none will: what may have happened depends on how far it got. */
static MetaResult
lost_result(const MetaCall *call, const char *why)
{
	bool unknown = call->sent && (statements[call->statement].flags & META_WRITES) != 0;

	return (MetaResult){.status = unknown ? META_UNKNOWN : META_UNAVAILABLE, .message = why};
}

static void
answer_lost(MetaCall *call, const char *why)
{
	MetaResult result = lost_result(call, why);

	answer(call, &result);
}

static void
on_deadline(struct ev_loop *loop, ev_timer *w, int events)
{
	MetaCall *call = w->data;
	MetaSession *s = call->session;

	(void) loop;
	(void) events;
	if (call != s->running)
	{
		DL_DELETE(s->queue, call);
		s->n_queue--;
		answer_lost(call, "PostgreSQL was not there in time");
		free_call(call);
		return;
	}
	/* It stays the running one until PostgreSQL has answered, so that the calls behind it keep their order. */
	answer_lost(call, "PostgreSQL did not answer in time");
}

void
session_running_lost(MetaSession *s, const char *why)
{
	MetaCall *call = s->running;

	if (call == NULL)
		return;
	s->running = NULL;
	answer_lost(call, why);
	free_call(call);
}

void
session_drop_queue(MetaSession *s, const char *why)
{
	while (s->queue != NULL)
	{
		MetaCall *call = s->queue;

		DL_DELETE(s->queue, call);
		s->n_queue--;
		answer_lost(call, why);
		free_call(call);
	}
}

/* ---- sending ---- */

/* May this call go now?  Before registration only those go that need no epoch and no open session. */
static bool
may_go(const MetaSession *s, const MetaCall *call)
{
	if ((statements[call->statement].flags & META_AS_BROKER) != 0)
		return s->o.identity->broker_epoch >= 0;
	return s->open;
}

static bool
send_call(MetaSession *s, MetaCall *call)
{
	const MetaStatementRow *row = &statements[call->statement];
	char id[16], epoch[24];
	const char *values[SESSION_MAX_PARAMS];

	if (!s->prepared[call->statement])
	{
		s->preparing = true;
		return PQsendPrepare(s->conn, row->name, row->sql, 0, NULL) != 0;
	}
	for (int i = 0; i < call->n_params; i++)
		values[i] = call->params[i];
	if ((row->flags & META_AS_BROKER) != 0)
	{
		snprintf(id, sizeof(id), "%d", s->o.identity->node_id);
		snprintf(epoch, sizeof(epoch), "%" PRId64, s->o.identity->broker_epoch);
		values[0] = id;
		values[1] = epoch;
	}
	s->preparing = false;
	call->sent = true;
	return PQsendQueryPrepared(s->conn, row->name, call->n_params, values, NULL, NULL,
							   (row->flags & META_BINARY) != 0) != 0;
}

/* It was meant for an epoch that is over: what it says may no longer be so. */
static void
refuse_old_epoch(MetaSession *s, MetaCall *call)
{
	MetaResult result = {.status = META_ERROR,
						 .sqlstate = "PB077",
						 .message = "this broker was registered again before the call was sent"};

	DL_DELETE(s->queue, call);
	s->n_queue--;
	answer(call, &result);
	free_call(call);
}

void
session_next_call(MetaSession *s)
{
	while (s->state == SESSION_UP && s->running == NULL && s->queue != NULL)
	{
		MetaCall *call = s->queue;

		if (!may_go(s, call))
			return;
		if ((statements[call->statement].flags & META_AS_BROKER) != 0 && call->epoch >= 0 &&
			call->epoch != s->o.identity->broker_epoch)
		{
			refuse_old_epoch(s, call);
			continue;
		}
		DL_DELETE(s->queue, call);
		s->n_queue--;
		s->running = call;
		s->running_since = clock_boot_ms();
		s->not_durable = false;
		ev_timer_set(&s->stuck, (double) s->o.stuck_ms / 1000, 0.0);
		ev_timer_start(s->o.loop, &s->stuck);
		if (!send_call(s, call) || !session_flush(s))
			session_lose(s, PQerrorMessage(s->conn));
	}
}

/* ---- answers ---- */

static void
classify(MetaSession *s, const MetaCall *call, PGresult *rows, MetaResult *result, bool *lost)
{
	ExecStatusType status = PQresultStatus(rows);
	const char *sqlstate;

	*result = (MetaResult){.status = META_OK, .rows = rows};
	*lost = false;
	if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
	{
		if (s->not_durable && (statements[call->statement].flags & META_WRITES) != 0)
			*result = (MetaResult){.status = META_UNKNOWN, .message = "no standby confirmed the commit"};
		return;
	}
	result->status = META_ERROR;
	sqlstate = PQresultErrorField(rows, PG_DIAG_SQLSTATE);
	/* Without an SQLSTATE libpq speaks: the connection broke. */
	if (sqlstate == NULL)
	{
		*lost = true;
		*result = lost_result(call, "the connection to PostgreSQL was lost");
	}
	else if (meta_sqlstate_is_lost(sqlstate))
	{
		*lost = true;
		/* A server that turned read-only wrote nothing; one that shuts down may have. */
		if (strcmp(sqlstate, "25006") == 0)
			*result = (MetaResult){.status = META_UNAVAILABLE, .message = "PostgreSQL became a standby"};
		else
			*result = lost_result(call, "PostgreSQL shuts down");
	}
	/* 26000 invalid_sql_statement_name, 42P05 duplicate_prepared_statement: another session answered. */
	else if (strcmp(sqlstate, "26000") == 0 || strcmp(sqlstate, "42P05") == 0)
	{
		s->probe.prepared_lost = true;
		*lost = true;
		*result = (MetaResult){.status = META_UNAVAILABLE, .message = "a pooler mixed up sessions"};
	}
}

static void
finish_call(MetaSession *s)
{
	MetaCall *call = s->running;
	PGresult *rows = s->result;
	MetaResult result;
	bool lost, mixed;
	char why[256];

	s->result = NULL;
	classify(s, call, rows, &result, &lost);
	if (s->preparing && result.status == META_OK)
	{
		s->prepared[call->statement] = true;
		PQclear(rows);
		/* Its deadline passed meanwhile: nothing was done, and nothing has to be. */
		if (!call->answered)
		{
			if (!send_call(s, call) || !session_flush(s))
				session_lose(s, PQerrorMessage(s->conn));
			return;
		}
		rows = NULL;
		result = (MetaResult){.status = META_UNAVAILABLE};
	}
	ev_timer_stop(s->o.loop, &s->stuck);
	s->running = NULL;
	s->stats.calls++;
	mixed = s->probe.prepared_lost;
	snprintf(why, sizeof(why), "%s", result.message != NULL ? result.message : "");
	/* First the session, so that a callback that calls again finds it as it is. */
	if (lost)
		session_lose(s, why);
	if (s->o.on_answer != NULL)
		s->o.on_answer(s->o.ctx, call->statement, &result);
	answer(call, &result);
	free_call(call);
	PQclear(rows);
	if (mixed)
	{
		Err err;

		probe_pooler_sentence(&err);
		s->o.on_unfit(s->o.ctx, s, err.text);
		return;
	}
	if (s->recycle)
		session_lose(s, "closed, since PostgreSQL was away");
	session_next_call(s);
}

void
session_read_call(MetaSession *s)
{
	while (s->state == SESSION_UP && s->running != NULL && !PQisBusy(s->conn))
	{
		PGresult *res = PQgetResult(s->conn);

		if (res == NULL)
		{
			if (s->result == NULL)
				return;
			finish_call(s);
			continue;
		}
		if (s->result != NULL && PQresultStatus(s->result) == PGRES_FATAL_ERROR)
			PQclear(res);
		else
		{
			PQclear(s->result);
			s->result = res;
		}
	}
}

/* ---- making calls ---- */

void
session_call(MetaSession *s, MetaStatement statement, const char *const *params, int n_params,
			 int64_t deadline, MetaCallDone done, void *ctx)
{
	MetaCall *call = take_call(s);
	int64_t left = deadline - clock_boot_ms();

	call->session = s;
	call->statement = statement;
	copy_params(call, params, n_params);
	call->epoch = s->o.identity->broker_epoch;
	call->done = done;
	call->ctx = ctx;
	/* Too many wait: this one is answered at once, from the loop. */
	if (s->n_queue >= SESSION_MAX_QUEUED || left < 0)
		left = 0;
	ev_timer_init(&call->timer, on_deadline, (double) left / 1000, 0.0);
	call->timer.data = call;
	/* The loop's idea of now may be old after a long turn. */
	ev_now_update(s->o.loop);
	ev_timer_start(s->o.loop, &call->timer);
	DL_APPEND(s->queue, call);
	s->n_queue++;
	session_kick(s);
}

int
session_queued(const MetaSession *s)
{
	return s->n_queue + (s->running != NULL);
}
