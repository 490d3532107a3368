/*
 * session.c: the connection of a session: connecting, settings, questions, losing it, trying again.
 */
#include "brokerd/meta/session_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/meta/image_internal.h"

#define RETRY_FIRST_MS 50
#define RETRY_MOST_MS  2000
#define SETUP_MS       10000
#define SAY_AGAIN_MS   30000

static const char *const kind_names[META_SESSION_COUNT] = {"heartbeat", "control", "offsets"};

static void connect_begin(MetaSession *s);
static void setup_next(MetaSession *s);

/* ---- trying again ---- */

/* xorshift: jitter needs no better. */
static double
random_unit(MetaSession *s)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return (double) (s->random >> 11) / 9007199254740992.0;
}

/* Doubling, and between half and all of it: the brokers of a cluster do not come back in step. */
static void
retry_later(MetaSession *s)
{
	int64_t most = RETRY_FIRST_MS;

	for (int i = 0; i < s->attempts && most < RETRY_MOST_MS; i++)
		most *= 2;
	if (most > RETRY_MOST_MS)
		most = RETRY_MOST_MS;
	s->attempts++;
	ev_timer_stop(s->o.loop, &s->retry);
	ev_timer_set(&s->retry, (double) most * (0.5 + random_unit(s) / 2) / 1000, 0.0);
	ev_timer_start(s->o.loop, &s->retry);
}

/* A failure is said once, and again when it is another one or half a minute has passed. */
static void
say_failure(MetaSession *s, const char *why)
{
	int64_t now = clock_boot_ms();

	if (strcmp(why, s->last_why) == 0 && now - s->last_said_ms < SAY_AGAIN_MS)
		return;
	snprintf(s->last_why, sizeof(s->last_why), "%s", why);
	s->last_said_ms = now;
	log_msg(LOG_WARNING, "meta", "%s session: %s; trying again", kind_names[s->o.kind], why);
}

static void
close_connection(MetaSession *s)
{
	ev_io_stop(s->o.loop, &s->io);
	ev_timer_stop(s->o.loop, &s->stuck);
	PQclear(s->setup_result);
	PQclear(s->result);
	s->setup_result = s->result = NULL;
	PQfinish(s->conn);
	s->conn = NULL;
	memset(s->prepared, 0, sizeof(s->prepared));
	s->recycle = false;
	s->state = SESSION_DOWN;
}

void
session_lose(MetaSession *s, const char *why)
{
	char text[512];

	if (s->state == SESSION_DOWN)
		return;
	/* `why` may live in the connection that is closed now. */
	snprintf(text, sizeof(text), "%s", why);
	for (char *c = text; *c != '\0'; c++)
		if (*c == '\n')
			*c = ' ';
	if (s->connect != NULL)
	{
		meta_connect_abandon(s->connect);
		s->connect = NULL;
	}
	close_connection(s);
	say_failure(s, text);
	retry_later(s);
	session_running_lost(s, text);
	s->o.on_down(s->o.ctx, s, text);
}

static void
on_retry(struct ev_loop *loop, ev_timer *w, int events)
{
	MetaSession *s = w->data;

	(void) loop;
	(void) events;
	if (s->state == SESSION_DOWN)
		connect_begin(s);
}

static void
on_stuck(struct ev_loop *loop, ev_timer *w, int events)
{
	(void) loop;
	(void) events;
	session_lose(w->data, "PostgreSQL does not answer");
}

/* ---- connecting ---- */

static void
connect_begin(MetaSession *s)
{
	Err err;

	s->connect =
		meta_connect_start(s->conninfo, s->first_host, s->application_name, s->o.loop, &s->wake, &err);
	s->state = SESSION_CONNECTING;
	if (s->connect == NULL)
		session_lose(s, err.text);
}

static void
take_notice(void *arg, const PGresult *notice)
{
	MetaSession *s = arg;
	const char *function = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);
	const char *message = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);

	/* The commit stands here, and a synchronous standby has not confirmed it: it may be lost with this server
	 * (hazards A21).  The message is translated, the name of the function is not. */
	if (function != NULL && strcmp(function, "SyncRepWaitForLSN") == 0)
		s->not_durable = true;
	if (message != NULL)
		log_msg(LOG_WARNING, "meta", "PostgreSQL: %s", message);
}

static void
on_wake(struct ev_loop *loop, ev_async *w, int events)
{
	MetaSession *s = w->data;
	Err err;

	(void) loop;
	(void) events;
	if (s->connect == NULL || !meta_connect_is_done(s->connect))
		return;
	s->conn = meta_connect_take(s->connect, &err);
	s->connect = NULL;
	if (s->conn == NULL)
	{
		session_lose(s, err.text);
		return;
	}
	PQsetnonblocking(s->conn, 1);
	PQsetNoticeReceiver(s->conn, take_notice, s);
	s->state = SESSION_SETUP;
	s->step = -1;
	s->probe = (MetaProbe){.libpq_pid = PQbackendPID(s->conn), .quiet = s->o.kind != META_SESSION_HEARTBEAT};
	s->not_durable = false;
	ev_io_set(&s->io, PQsocket(s->conn), EV_READ);
	ev_io_start(s->o.loop, &s->io);
	ev_timer_set(&s->stuck, SETUP_MS / 1000.0, 0.0);
	ev_timer_start(s->o.loop, &s->stuck);
	setup_next(s);
}

bool
session_flush(MetaSession *s)
{
	int left = PQflush(s->conn);
	int want = left > 0 ? EV_READ | EV_WRITE : EV_READ;

	if (left < 0)
		return false;
	if (s->io.events != want)
	{
		ev_io_stop(s->o.loop, &s->io);
		ev_io_set(&s->io, s->io.fd, want);
		ev_io_start(s->o.loop, &s->io);
	}
	return true;
}

/* ---- setup: settings, then the questions ---- */

static void
setup_next(MetaSession *s)
{
	MetaText sql = {0};
	int sent;

	if (s->step < 0)
		probe_settings_sql(&sql, s->o.statement_timeout_ms, s->o.listen);
	else
		meta_text_puts(&sql, probe_sql((MetaProbeStep) s->step));
	sent = PQsendQuery(s->conn, meta_text_cstr(&sql));
	meta_text_free(&sql);
	if (sent == 0 || !session_flush(s))
		session_lose(s, PQerrorMessage(s->conn));
}

static void
setup_unfit(MetaSession *s, const char *sentence)
{
	char text[512];

	snprintf(text, sizeof(text), "%s", sentence);
	session_lose(s, text);
	s->o.on_unfit(s->o.ctx, s, text);
}

static void
setup_done(MetaSession *s)
{
	ev_timer_stop(s->o.loop, &s->stuck);
	s->state = SESSION_UP;
	s->attempts = 0;
	s->last_why[0] = '\0';
	s->stats.reconnects++;
	log_msg(LOG_INFO, "meta", "%s session: connected to PostgreSQL %d.%d at %s port %s%s",
			kind_names[s->o.kind], s->probe.server_version / 10000, s->probe.server_version % 10000,
			PQhost(s->conn), PQport(s->conn), probe_is_pooled(&s->probe) ? " through a pooler" : "");
	s->o.on_up(s->o.ctx, s);
	session_next_call(s);
}

/* All results of the step are there. */
static void
setup_take(MetaSession *s)
{
	PGresult *res = s->setup_result;
	Err err;
	bool fit = true;

	s->setup_result = NULL;
	if (s->step < 0)
	{
		if (PQresultStatus(res) == PGRES_FATAL_ERROR)
		{
			char why[512];

			snprintf(why, sizeof(why), "PostgreSQL refused the settings of a session: %s",
					 PQresultErrorMessage(res));
			PQclear(res);
			session_lose(s, why);
			return;
		}
	}
	else if (!probe_take(&s->probe, (MetaProbeStep) s->step, res, &err))
	{
		PQclear(res);
		session_lose(s, err.text);
		return;
	}
	else
		fit = probe_judge(&s->probe, &err);
	PQclear(res);
	if (!fit)
		setup_unfit(s, err.text);
	else if (++s->step == META_PROBE_STEPS)
		setup_done(s);
	else
		setup_next(s);
}

static void
setup_read(MetaSession *s)
{
	while (s->state == SESSION_SETUP && !PQisBusy(s->conn))
	{
		PGresult *res = PQgetResult(s->conn);

		if (res == NULL)
		{
			if (s->setup_result == NULL)
				return;
			setup_take(s);
			return;
		}
		/* An error stays; of several good ones the last. */
		if (s->setup_result != NULL && PQresultStatus(s->setup_result) == PGRES_FATAL_ERROR)
			PQclear(res);
		else
		{
			PQclear(s->setup_result);
			s->setup_result = res;
		}
	}
}

/* ---- the socket ---- */

static void
take_notifies(MetaSession *s)
{
	PGnotify *notify;
	bool any = false;

	while ((notify = PQnotifies(s->conn)) != NULL)
	{
		PQfreemem(notify);
		any = true;
	}
	if (any && s->state == SESSION_UP && s->o.on_notify != NULL)
		s->o.on_notify(s->o.ctx);
}

static void
on_io(struct ev_loop *loop, ev_io *w, int events)
{
	MetaSession *s = w->data;

	(void) loop;
	if ((events & EV_WRITE) && !session_flush(s))
	{
		session_lose(s, PQerrorMessage(s->conn));
		return;
	}
	if (!(events & EV_READ))
		return;
	if (PQconsumeInput(s->conn) == 0)
	{
		session_lose(s, PQerrorMessage(s->conn));
		return;
	}
	if (s->state == SESSION_SETUP)
		setup_read(s);
	else if (s->running != NULL)
		session_read_call(s);
	else
		/* Nothing is asked: what comes is a notification, or a farewell. */
		PQisBusy(s->conn);
	if (s->state != SESSION_UP)
		return;
	if (PQstatus(s->conn) == CONNECTION_BAD)
	{
		session_lose(s, PQerrorMessage(s->conn));
		return;
	}
	take_notifies(s);
}

static void
on_kick(struct ev_loop *loop, ev_timer *w, int events)
{
	(void) loop;
	(void) events;
	session_next_call(w->data);
}

/* ---- life ---- */

MetaSession *
session_new(const MetaSessionOptions *options)
{
	MetaSession *s = meta_alloc(sizeof(*s));

	s->o = *options;
	s->conninfo = meta_strndup(options->conninfo, strlen(options->conninfo));
	snprintf(s->application_name, sizeof(s->application_name), "brokerd %d %s", options->identity->node_id,
			 kind_names[options->kind]);
	if (getrandom(&s->random, sizeof(s->random), 0) != (ssize_t) sizeof(s->random) || s->random == 0)
		s->random = (uint64_t) clock_boot_us() | 1;
	ev_async_init(&s->wake, on_wake);
	ev_init(&s->io, on_io);
	ev_init(&s->retry, on_retry);
	ev_init(&s->stuck, on_stuck);
	ev_init(&s->kick, on_kick);
	s->wake.data = s->io.data = s->retry.data = s->stuck.data = s->kick.data = s;
	ev_async_start(s->o.loop, &s->wake);
	return s;
}

void
session_free(MetaSession *s)
{
	if (s == NULL)
		return;
	s->started = false;
	if (s->connect != NULL)
		meta_connect_abandon(s->connect);
	close_connection(s);
	ev_async_stop(s->o.loop, &s->wake);
	ev_timer_stop(s->o.loop, &s->retry);
	ev_clear_pending(s->o.loop, &s->kick);
	session_running_lost(s, "brokerd stops");
	session_drop_queue(s, "brokerd stops");
	session_free_calls(s);
	free(s->conninfo);
	free(s);
}

void
session_start(MetaSession *s)
{
	if (s->started)
		return;
	s->started = true;
	/* From the loop, so that nothing is called back before the caller has returned. */
	ev_timer_set(&s->retry, 0.0, 0.0);
	ev_timer_start(s->o.loop, &s->retry);
}

void
session_recycle(MetaSession *s, int64_t patience_ms)
{
	if (s->state != SESSION_UP && s->state != SESSION_SETUP)
		return;
	if (s->state == SESSION_UP && s->running != NULL && clock_boot_ms() - s->running_since < patience_ms)
		s->recycle = true;
	else
		session_lose(s, "closed, since PostgreSQL was away");
}

void
session_leave(MetaSession *s)
{
	s->first_host++;
	if (s->state == SESSION_UP || s->state == SESSION_SETUP)
		session_lose(s, "closed, since others have a later PostgreSQL");
}

bool
session_is_up(const MetaSession *s)
{
	return s->state == SESSION_UP;
}

MetaSessionKind
session_kind(const MetaSession *s)
{
	return s->o.kind;
}

const MetaProbe *
session_probe(const MetaSession *s)
{
	return &s->probe;
}

void
session_set_open(MetaSession *s, bool open)
{
	s->open = open;
	session_kick(s);
}

void
session_kick(MetaSession *s)
{
	ev_feed_event(s->o.loop, &s->kick, EV_CUSTOM);
}

const MetaSessionStats *
session_stats(const MetaSession *s)
{
	return &s->stats;
}
