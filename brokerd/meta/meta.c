/*
 * meta.c: the three sessions of a broker, as one.
 */
#include "brokerd/meta/meta_internal.h"

#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "wire/errors.h"

/* A session is closed when PostgreSQL has not answered for longer than it would run a statement. */
#define STUCK_GRACE_MS 10000
/* After PostgreSQL was away, a call of an older session has this long to come back. */
#define RECYCLE_PATIENCE_MS 2000
#define PAGE_PARTITIONS     2000

/* ---- saying ---- */

void
meta_fatal(Meta *m, const char *sentence)
{
	if (m->stopped)
		return;
	m->stopped = true;
	m->o.callbacks.on_fatal(m->o.callbacks.ctx, sentence);
}

void
meta_unfit(Meta *m, const char *sentence)
{
	if (m->own_epoch < 0)
		meta_fatal(m, sentence);
	else
	{
		log_msg(LOG_ERROR, "meta", "%s", sentence);
		session_recycle(m->sessions[META_SESSION_HEARTBEAT], 0);
	}
}

void
meta_set_connected(Meta *m, bool connected)
{
	if (m->connected == connected)
		return;
	m->connected = connected;
	if (m->o.callbacks.on_connection != NULL)
		m->o.callbacks.on_connection(m->o.callbacks.ctx, connected);
}

/* ---- sessions coming and going ---- */

/* No two sessions may be one backend. */
static bool
check_pairs(Meta *m, MetaSession *session)
{
	Err err;

	for (int i = 0; i < META_SESSION_COUNT; i++)
	{
		if (m->sessions[i] == session || !session_is_up(m->sessions[i]))
			continue;
		if (!probe_judge_pair(session_probe(session), session_probe(m->sessions[i]), &err))
		{
			meta_unfit(m, err.text);
			return false;
		}
	}
	return true;
}

static void
on_up(void *ctx, MetaSession *session)
{
	Meta *m = ctx;

	if (m->stopped || !check_pairs(m, session))
		return;
	if (session_kind(session) == META_SESSION_HEARTBEAT)
	{
		for (int i = META_SESSION_CONTROL; i < META_SESSION_COUNT; i++)
		{
			/* The heartbeat was away, and may have found another server: the others follow it. */
			session_recycle(m->sessions[i], RECYCLE_PATIENCE_MS);
		}
		session_start(m->sessions[META_SESSION_CONTROL]);
		registration_begin(m);
	}
	else if (session_kind(session) == META_SESSION_CONTROL)
	{
		/* At the start it comes last: nothing waits for it, and registering has the processors meanwhile. */
		session_start(m->sessions[META_SESSION_OFFSETS]);
		registration_begin(m);
	}
}

static void
on_down(void *ctx, MetaSession *session, const char *why)
{
	Meta *m = ctx;

	if (session_kind(session) == META_SESSION_HEARTBEAT)
	{
		registration_session_lost(m);
		/* A heartbeat must not be the first thing that the next session says. */
		session_drop_queue(session, why);
	}
	else if (session_kind(session) == META_SESSION_CONTROL)
		control_session_lost(m);
}

static void
on_unfit(void *ctx, MetaSession *session, const char *sentence)
{
	(void) session;
	meta_unfit(ctx, sentence);
}

static void
on_notify(void *ctx)
{
	control_on_notify(ctx);
}

static void
on_answer(void *ctx, MetaStatement statement, const MetaResult *result)
{
	Meta *m = ctx;
	int flags = meta_statement_row(statement)->flags;

	if (m->stopped)
		return;
	if (statement == META_NOTIFY)
		m->notify_queued = false;
	/* Unknown counts as changed: others should look. */
	if ((flags & META_CHANGES) != 0 &&
		(meta_result_status(result) == META_OK || meta_result_status(result) == META_UNKNOWN))
		control_changed(m);
	/* Whoever is told that the epoch is over: the heartbeat finds out what is so. */
	if ((flags & META_AS_BROKER) != 0 && statement != META_HEARTBEAT &&
		meta_result_status(result) == META_ERROR && meta_result_kafka_code(result) == KERR_STALE_BROKER_EPOCH)
		registration_heartbeat_now(m);
}

/* ---- life ---- */

static char *
copy(const char *s)
{
	return s == NULL ? NULL : meta_strndup(s, strlen(s));
}

static MetaSession *
new_session(Meta *m, MetaSessionKind kind)
{
	bool heartbeat = kind == META_SESSION_HEARTBEAT;
	/* A heartbeat that takes longer than the session timeout is of no use to anybody. */
	int64_t timeout = heartbeat ? m->o.session_timeout_ms : m->o.call_timeout_ms;
	MetaSessionOptions o = {.loop = m->o.loop,
							.kind = kind,
							.conninfo = m->o.conninfo,
							.identity = &m->identity,
							.statement_timeout_ms = timeout,
							.stuck_ms = heartbeat ? timeout : timeout + STUCK_GRACE_MS,
							.listen = heartbeat,
							.on_up = on_up,
							.on_down = on_down,
							.on_unfit = on_unfit,
							.on_notify = on_notify,
							.on_answer = on_answer,
							.ctx = m};

	return session_new(&o);
}

Meta *
meta_new(const MetaOptions *options, Err *err)
{
	char *message = NULL;
	PQconninfoOption *parsed = PQconninfoParse(options->conninfo, &message);
	Meta *m;

	if (parsed == NULL)
	{
		err_set(err, 0, 0, "pg_broker.postgres is no connection string: %s",
				message != NULL ? message : "out of memory");
		PQfreemem(message);
		return NULL;
	}
	PQconninfoFree(parsed);
	m = meta_alloc(sizeof(*m));
	m->o = *options;
	m->o.conninfo = copy(options->conninfo);
	m->o.rack = copy(options->rack);
	m->o.endpoints_json = copy(options->endpoints_json);
	m->o.static_json = copy(options->static_json);
	m->o.version = copy(options->version);
	m->o.cluster_id = copy(options->cluster_id);
	if (m->o.page_partitions <= 0)
		m->o.page_partitions = PAGE_PARTITIONS;
	m->identity = (MetaIdentity){.node_id = options->node_id, .broker_epoch = -1};
	m->image = meta_image_new();
	for (int i = 0; i < META_SESSION_COUNT; i++)
		m->sessions[i] = new_session(m, (MetaSessionKind) i);
	session_set_open(m->sessions[META_SESSION_HEARTBEAT], true);
	registration_init(m);
	control_init(m);
	producer_ids_init(m);
	session_start(m->sessions[META_SESSION_HEARTBEAT]);
	return m;
}

void
meta_free(Meta *m)
{
	if (m == NULL)
		return;
	m->stopped = true;
	for (int i = 0; i < META_SESSION_COUNT; i++)
		session_free(m->sessions[i]);
	producer_ids_stop(m);
	control_stop(m);
	registration_stop(m);
	meta_image_free(m->image);
	free((void *) m->o.conninfo);
	free((void *) m->o.rack);
	free((void *) m->o.endpoints_json);
	free((void *) m->o.static_json);
	free((void *) m->o.version);
	free((void *) m->o.cluster_id);
	free(m);
}

/* ---- what is known ---- */

bool
meta_is_connected(const Meta *m)
{
	return m->connected;
}

int64_t
meta_last_heartbeat_ms(const Meta *m)
{
	return m->last_heartbeat_ms;
}

int64_t
meta_broker_epoch(const Meta *m)
{
	return m->identity.broker_epoch;
}

const char *
meta_cluster_id(const Meta *m)
{
	return m->cluster_id;
}

int64_t
meta_pg_incarnation(const Meta *m)
{
	return m->pg_incarnation;
}

void
meta_heard_incarnation(Meta *m, int64_t incarnation, int64_t age_ms)
{
	newer_heard(&m->newer, incarnation, age_ms, m->o.session_timeout_ms, clock_boot_ms());
}

int32_t
meta_controller_id(const Meta *m)
{
	return m->controller_id;
}

bool
meta_is_controller(const Meta *m)
{
	return m->is_controller;
}

int64_t
meta_version(const Meta *m)
{
	return m->version;
}

MetaImage *
meta_image(const Meta *m)
{
	return m->image;
}

void
meta_refresh(Meta *m)
{
	registration_heartbeat_now(m);
}

void
meta_stats(const Meta *m, MetaStats *out)
{
	*out = (MetaStats){.refreshes = m->refreshes, .last_round_trip_us = m->last_round_trip_us};
	for (int i = 0; i < META_SESSION_COUNT; i++)
	{
		const MetaSessionStats *s = session_stats(m->sessions[i]);

		out->calls += s->calls;
		out->errors += s->errors;
		out->unknown += s->unknown;
		out->unavailable += s->unavailable;
		out->reconnects += s->reconnects;
		out->queued += session_queued(m->sessions[i]);
	}
}
