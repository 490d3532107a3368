/*
 * test_unfit.c: a PostgreSQL that brokerd cannot work with is refused with one sentence that says what to do.
 */
#include "regress/unit/meta/fixture.h"

static Fixture f;

/* Both ways in: the check before the start, and the running sessions. */
static void
is_refused(const char *conninfo, const char *words, const char *what)
{
	Err err = {0};

	ok(!meta_check(conninfo, &err), "%s: the check refuses it", what);
	ok(strstr(err.text, words) != NULL, "... and says what to do: %s", err.text);
	fixture_start(&f, conninfo);
	ok(wait_for(&f, f.fatal == 1), "... at the start it is fatal");
	ok(strstr(f.sentence, words) != NULL, "... with a sentence: %s", f.sentence);
	is_int(f.registered, 0, "... and nothing was registered");
	fixture_stop(&f);
}

static void
test_extension(void)
{
	char other[1100];

	fixture_run("psql -Xqh %s -U postgres -d postgres -c 'CREATE DATABASE bare'", f.dir);
	snprintf(other, sizeof(other), "host=%s user=postgres dbname=bare", f.dir);
	is_refused(other, "CREATE EXTENSION pg_broker", "no extension");
	fixture_sql(&f, "UPDATE broker_internal.fake SET oldest = 2, newest = 3");
	is_refused(f.conninfo, "upgrade brokerd", "an extension that is too new");
	fixture_sql(&f, "UPDATE broker_internal.fake SET oldest = 0, newest = 0");
	fixture_sql(&f, "CREATE OR REPLACE FUNCTION broker_internal.contract(OUT oldest int, OUT newest int, OUT "
					"extension_version text) "
					"LANGUAGE sql AS 'SELECT -1, -1, ''0.0'''");
	is_refused(f.conninfo, "ALTER EXTENSION pg_broker UPDATE", "an extension that is too old");
	fixture_sql(&f, "CREATE OR REPLACE FUNCTION broker_internal.contract(OUT oldest int, OUT newest int, OUT "
					"extension_version text) "
					"LANGUAGE sql AS 'SELECT 1, 1, ''0.1'''");
}

static void
test_rights(void)
{
	char other[1100];

	fixture_sql(&f, "CREATE ROLE nobody_special LOGIN");
	snprintf(other, sizeof(other), "host=%s user=nobody_special dbname=broker", f.dir);
	is_refused(other, "GRANT broker_daemon", "a role without rights");
	fixture_sql(&f, "INSERT INTO broker_internal.checks VALUES ('critical', 'track_activities is off', "
					"'ALTER ROLE it.')");
	is_refused(f.conninfo, "ALTER ROLE it", "a critical finding of session_check_1");
	fixture_sql(&f, "DELETE FROM broker_internal.checks");
}

static void
test_registration(void)
{
	fixture_sql(&f, "UPDATE broker_internal.fake SET register_fails = 'PB101'");
	fixture_start(&f, f.conninfo);
	ok(wait_for(&f, f.fatal == 1), "an id in use by another directory is fatal");
	ok(strstr(f.sentence, "Ask the test.") != NULL, "... with PostgreSQL's sentence and hint: %s",
	   f.sentence);
	fixture_stop(&f);
	fixture_sql(&f, "UPDATE broker_internal.fake SET register_fails = '55P03'");
	fixture_start(&f, f.conninfo);
	for (int i = 0; i < 10; i++)
		fixture_turn(&f, 50);
	is_int(f.fatal, 0, "a lock timeout is not");
	fixture_sql(&f, "UPDATE broker_internal.fake SET register_fails = NULL");
	ok(wait_for(&f, f.registered == 1), "... it tries again");
	fixture_stop(&f);
}

static void
test_pooler(void)
{
	char pooled[1024];
	Err err = {0};

	if (!fixture_sh(pooled, sizeof(pooled), PG " pooler %s transaction 2>&1", f.dir))
	{
		printf("Bail out! no pgbouncer: %s\n", pooled);
		exit(1);
	}
	is_refused(pooled, "transaction pooler", "a transaction pooler");
	fixture_sh(pooled, sizeof(pooled), PG " pooler %s session 2>&1", f.dir);
	ok(meta_check(pooled, &err), "a session pooler is accepted: %s", err.text);
	fixture_start(&f, pooled);
	ok(wait_for(&f, f.connected), "... and registered through");
	for (int i = 0; i < 20; i++)
		fixture_turn(&f, 20);
	is_int(f.fatal, 0, "... and kept");
	ok(f.connected, "... connected");
	fixture_stop(&f);
}

static void
test_conninfo(void)
{
	char several[1200];
	Err err = {0};
	MetaOptions o = fixture_options(&f, "host='unclosed");

	ok(meta_new(&o, &err) == NULL && strstr(err.text, "pg_broker.postgres") != NULL,
	   "no connection string: %s", err.text);
	ok(!meta_check("host=/nowhere user=postgres dbname=broker", &err), "nobody there: %s", err.text);
	snprintf(several, sizeof(several), "host=/nowhere,%s user=postgres dbname=broker", f.dir);
	ok(meta_check(several, &err), "of several hosts the one that answers is taken");
	fixture_start(&f, several);
	ok(wait_for(&f, f.connected), "... by the sessions too");
	fixture_stop(&f);
}

int
main(void)
{
	fixture_init(&f);
	test_extension();
	test_rights();
	test_registration();
	test_pooler();
	test_conninfo();
	fixture_done(&f);
	return tap_done();
}
