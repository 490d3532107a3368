/*
 * probe.c: is this a PostgreSQL that brokerd can work with?
 */
#include "brokerd/meta/probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/base/logging.h"
#include "brokerd/meta/connect.h"
#include "brokerd/meta/meta.h"

static const char *const step_sql[META_PROBE_STEPS] = {
	[META_PROBE_IDENTITY] =
		"SELECT pg_backend_pid(), pg_is_in_recovery(), current_setting('server_version_num'), "
		"current_database(), "
		"current_user, (SELECT extversion FROM pg_extension WHERE extname = 'pg_broker'), n.oid IS NOT NULL, "
		"coalesce(has_schema_privilege(n.oid, 'USAGE'), false) "
		"FROM (VALUES (1)) one LEFT JOIN pg_namespace n ON n.nspname = 'broker_internal'",
	[META_PROBE_CONTRACT] =
		"SELECT pg_backend_pid(), oldest, newest, extension_version FROM broker_internal.contract()",
	/* A row in any case, so that the pid comes along. */
	[META_PROBE_CHECK] = "SELECT pg_backend_pid(), c.severity, c.problem, c.hint "
						 "FROM (VALUES (1)) one LEFT JOIN broker_internal.session_check_1() c ON true",
};

const char *
probe_sql(MetaProbeStep step)
{
	return step_sql[step];
}

static int
int_value(const PGresult *rows, int column)
{
	return (int) strtol(PQgetvalue(rows, 0, column), NULL, 10);
}

static void
take_identity(MetaProbe *probe, const PGresult *rows)
{
	probe->backend_pid = int_value(rows, 0);
	probe->is_standby = PQgetvalue(rows, 0, 1)[0] == 't';
	probe->server_version = int_value(rows, 2);
	snprintf(probe->database, sizeof(probe->database), "%s", PQgetvalue(rows, 0, 3));
	snprintf(probe->role, sizeof(probe->role), "%s", PQgetvalue(rows, 0, 4));
	snprintf(probe->extension, sizeof(probe->extension), "%s", PQgetvalue(rows, 0, 5));
	probe->has_schema = PQgetvalue(rows, 0, 6)[0] == 't';
	probe->may_use_schema = PQgetvalue(rows, 0, 7)[0] == 't';
}

static void
take_checks(MetaProbe *probe, const PGresult *rows)
{
	for (int i = 0; i < PQntuples(rows); i++)
	{
		const char *severity = PQgetvalue(rows, i, 1), *problem = PQgetvalue(rows, i, 2),
				   *hint = PQgetvalue(rows, i, 3);

		if (severity[0] == '\0')
			continue;
		if (strcmp(severity, "critical") == 0 && probe->critical[0] == '\0')
			snprintf(probe->critical, sizeof(probe->critical), "%s: %s", problem, hint);
		else if (!probe->quiet)
			log_msg(LOG_WARNING, "meta", "PostgreSQL: %s. %s", problem, hint);
	}
}

bool
probe_take(MetaProbe *probe, MetaProbeStep step, const PGresult *rows, Err *err)
{
	if (PQresultStatus(rows) != PGRES_TUPLES_OK || PQntuples(rows) == 0)
	{
		const char *message = PQresultErrorField(rows, PG_DIAG_MESSAGE_PRIMARY);

		return err_set(err, 0, 0, "PostgreSQL did not answer the first questions: %s",
					   message != NULL ? message : "no rows");
	}
	if (step == META_PROBE_IDENTITY)
		take_identity(probe, rows);
	else if (step == META_PROBE_CONTRACT)
	{
		probe->contract_oldest = int_value(rows, 1);
		probe->contract_newest = int_value(rows, 2);
		snprintf(probe->extension, sizeof(probe->extension), "%s", PQgetvalue(rows, 0, 3));
	}
	else
		take_checks(probe, rows);
	probe->later_pid = int_value(rows, 0);
	return true;
}

bool
probe_pooler_sentence(Err *err)
{
	return err_set(
		err, 0, 0,
		"brokerd reaches PostgreSQL through a transaction pooler, which gives each statement another "
		"session: connect directly, or set pool_mode = session for this database in the pooler");
}

bool
probe_is_pooled(const MetaProbe *probe)
{
	return probe->libpq_pid != probe->backend_pid;
}

bool
probe_judge_pair(const MetaProbe *a, const MetaProbe *b, Err *err)
{
	return a->backend_pid == b->backend_pid ? probe_pooler_sentence(err) : true;
}

static bool
judge_contract(const MetaProbe *p, Err *err)
{
	if (p->contract_oldest == 0 ||
		(p->contract_oldest <= META_CONTRACT_VERSION && META_CONTRACT_VERSION <= p->contract_newest))
		return true;
	if (p->contract_newest < META_CONTRACT_VERSION)
		return err_set(
			err, 0, 0,
			"the extension pg_broker %s in database \"%s\" is too old for this brokerd (it serves contract "
			"versions %d to %d, brokerd speaks %d): install the newer package where PostgreSQL runs, then "
			"run "
			"ALTER EXTENSION pg_broker UPDATE",
			p->extension, p->database, p->contract_oldest, p->contract_newest, META_CONTRACT_VERSION);
	return err_set(
		err, 0, 0,
		"this brokerd is too old for the extension pg_broker %s in database \"%s\" (it serves contract "
		"versions %d to %d, brokerd speaks %d): upgrade brokerd",
		p->extension, p->database, p->contract_oldest, p->contract_newest, META_CONTRACT_VERSION);
}

bool
probe_judge(const MetaProbe *p, Err *err)
{
	if (p->prepared_lost || p->backend_pid != p->later_pid)
		return probe_pooler_sentence(err);
	if (p->is_standby)
		return err_set(
			err, 0, 0,
			"database \"%s\" is on a standby, which takes no writes: name the primary, or all hosts, in "
			"pg_broker.postgres",
			p->database);
	if (p->server_version < 150000)
		return err_set(err, 0, 0, "PostgreSQL %d is too old: pg_broker needs 15 or later",
					   p->server_version / 10000);
	if (!p->has_schema)
		return err_set(
			err, 0, 0,
			"database \"%s\" has no extension pg_broker: run CREATE EXTENSION pg_broker in it, or point "
			"pg_broker.postgres at the database that has it",
			p->database);
	if (!p->may_use_schema)
		return err_set(
			err, 0, 0,
			"role \"%s\" may not use the extension pg_broker in database \"%s\": run GRANT broker_daemon TO "
			"\"%s\"",
			p->role, p->database, p->role);
	if (!judge_contract(p, err))
		return false;
	if (p->critical[0] != '\0')
		return err_set(err, 0, 0, "%s", p->critical);
	return true;
}

void
probe_settings_sql(MetaText *out, int64_t statement_timeout_ms, bool listen)
{
	meta_text_printf(out, "SET statement_timeout = %" PRId64 "; SET lock_timeout = %" PRId64 "; ",
					 statement_timeout_ms, statement_timeout_ms / 2);
	meta_text_puts(out, "SET idle_session_timeout = 0; "
						"SET idle_in_transaction_session_timeout = '10s'; "
						"SET default_transaction_isolation = 'read committed'; "
						"SET default_transaction_read_only = off; "
						"SET default_transaction_deferrable = off; "
						"SET jit = off; "
						"SET tcp_user_timeout = '10s'; "
						"SET client_connection_check_interval = '2s'; "
						"SET client_min_messages = warning; "
						"SET bytea_output = 'hex'; "
						"SET search_path = pg_catalog, pg_temp; ");
	/* remote_apply is stronger than on: keep it.  Anything weaker can lose what was confirmed (hazards A1). */
	meta_text_puts(out, "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') "
						"WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)");
	if (listen)
		meta_text_puts(out, "; LISTEN pg_broker");
}

/* ---- the blocking check ---- */

static bool
ask(PGconn *conn, MetaProbe *probe, MetaProbeStep step, Err *err)
{
	PGresult *rows = PQexec(conn, step_sql[step]);
	bool taken = probe_take(probe, step, rows, err);

	PQclear(rows);
	return taken && probe_judge(probe, err);
}

/* The questions to two sessions in turn, so that a transaction pooler mixes them up. */
static bool
check_pair(PGconn *const conns[2], Err *err)
{
	MetaProbe probes[2] = {{.libpq_pid = PQbackendPID(conns[0])},
						   {.libpq_pid = PQbackendPID(conns[1]), .quiet = true}};

	for (int step = 0; step < META_PROBE_STEPS; step++)
		for (int i = 0; i < 2; i++)
			if (!ask(conns[i], &probes[i], (MetaProbeStep) step, err))
				return false;
	return probe_judge_pair(&probes[0], &probes[1], err);
}

static bool
check_settings(PGconn *conn, Err *err)
{
	MetaText sql = {0};
	PGresult *res;
	bool done;

	probe_settings_sql(&sql, 30000, false);
	res = PQexec(conn, meta_text_cstr(&sql));
	meta_text_free(&sql);
	done = PQresultStatus(res) == PGRES_TUPLES_OK;
	if (!done)
		err_set(err, 0, 0, "PostgreSQL refused the settings of a session: %s", PQerrorMessage(conn));
	PQclear(res);
	return done;
}

bool
meta_check(const char *conninfo, Err *err)
{
	PGconn *conns[2];
	bool fit;

	conns[0] = meta_connect_now(conninfo, "brokerd check", err);
	if (conns[0] == NULL)
		return false;
	conns[1] = meta_connect_now(conninfo, "brokerd check", err);
	fit = conns[1] != NULL && check_settings(conns[0], err) && check_settings(conns[1], err) &&
		  check_pair(conns, err);
	PQfinish(conns[0]);
	PQfinish(conns[1]);
	return fit;
}
