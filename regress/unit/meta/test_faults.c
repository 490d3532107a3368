/*
 * test_faults.c: PostgreSQL that is away, restarts, hangs, kills a session in the middle of a call.
 */
#include "regress/unit/meta/fixture.h"

static Fixture f;

#define PSQL_KILL_CALL                                                                                       \
	"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"

static void
test_away_at_start(void)
{
	Answer a = {0};
	int64_t asked;

	fixture_run(PG " stop %s", f.dir);
	fixture_start(&f, f.conninfo);
	asked = clock_boot_ms();
	meta_create_topics(f.meta, &somebody, "[{\"name\":\"t\"}]", false, asked + 300, take_answer, &a);
	ok(wait_for(&f, a.count == 1), "without PostgreSQL a call ends at its deadline");
	ok(a.status == META_UNAVAILABLE && a.code == 7, "... as unavailable, which is retriable");
	ok(a.at_ms - asked >= 300 && a.at_ms - asked < 1500, "... after 300 ms (%d)", (int) (a.at_ms - asked));
	a.count = 0;
	meta_create_topics(f.meta, &somebody, "[{\"name\":\"t\"}]", false, 0, take_answer, &a);
	fixture_run(PG " again %s", f.dir);
	ok(wait_for(&f, f.connected && f.completes > 0), "it connects when PostgreSQL comes");
	ok(wait_for(&f, a.count == 1) && a.status == META_OK, "... and what waited is done");
	is_int(f.fatal, 0, "nothing was fatal");
}

static void
test_restart(void)
{
	int64_t epoch = meta_broker_epoch(f.meta);
	int registered = f.registered;

	fixture_run(PG " stop %s immediate", f.dir);
	ok(wait_for(&f, !f.connected), "PostgreSQL dies: not connected");
	is_int(meta_broker_epoch(f.meta), epoch, "... the epoch stays, whoever it leads goes on");
	ok(meta_image_broker(meta_image(f.meta), 1) != NULL, "... the image stays");
	fixture_run(PG " again %s", f.dir);
	ok(wait_for(&f, f.connected && f.registered == registered + 1), "it is back: registered again");
	ok(f.same_epoch && meta_broker_epoch(f.meta) == epoch, "... the same process keeps its epoch (A3)");
	is_int(f.fenced, 0, "... and was never fenced");
	ok(wait_for(&f, meta_is_controller(f.meta)), "... and is the controller again");
}

static void
test_lost_call(void)
{
	Answer a = {0}, after = {0};

	fixture_sql(&f, "UPDATE broker_internal.fake SET call_seconds = 60");
	meta_create_topics(f.meta, &somebody, "[{\"name\":\"lost\"}]", false, 0, take_answer, &a);
	ok(wait_for(&f, fixture_call_is_running(&f)), "a call is running");
	meta_create_topics(f.meta, &somebody, "[{\"name\":\"next\"}]", false, 0, take_answer, &after);
	fixture_sql(&f, "UPDATE broker_internal.fake SET call_seconds = 0");
	fixture_sql(&f, PSQL_KILL_CALL);
	ok(wait_for(&f, a.count == 1), "its session is killed (A2)");
	ok(a.status == META_UNKNOWN && a.code == 7, "... the outcome is unknown");
	ok(wait_for(&f, after.count == 1) && after.status == META_OK,
	   "... the call behind it is done on the next session");
	is_int(f.fenced, 0, "the broker keeps its epoch");
}

static void
test_deadline_of_running(void)
{
	Answer a = {0}, after = {0};

	fixture_sql(&f, "UPDATE broker_internal.fake SET call_seconds = 3");
	meta_create_topics(f.meta, &somebody, "[{\"name\":\"late\"}]", false, clock_boot_ms() + 1500, take_answer,
					   &a);
	ok(wait_for(&f, fixture_call_is_running(&f)), "a slow call is running");
	fixture_sql(&f, "UPDATE broker_internal.fake SET call_seconds = 0");
	ok(wait_for(&f, a.count == 1) && a.status == META_UNKNOWN, "at its deadline the outcome is unknown");
	meta_create_topics(f.meta, &somebody, "[{\"name\":\"in order\"}]", false, 0, take_answer, &after);
	ok(wait_for(&f, after.count == 1) && after.status == META_OK, "the next call waits for it");
	is_int(a.count, 1, "its late answer is dropped");
	is_str(fixture_ask(&f, "SELECT string_agg(argument, ' ' ORDER BY id) FROM broker_internal.calls WHERE "
						   "argument ~ 'late|order'"),
		   "[{\"name\": \"late\"}] [{\"name\": \"in order\"}]", "and it was done after all, in order");
}

/* Hung, not gone: nothing is refused, nothing is answered. */
static void
test_paused(void)
{
	Answer a = {0};
	int registered = f.registered;
	int64_t beat = meta_last_heartbeat_ms(f.meta), asked;

	fixture_run(PG " pause %s", f.dir);
	asked = clock_boot_ms();
	meta_create_topics(f.meta, &somebody, "[{\"name\":\"paused\"}]", false, asked + 500, take_answer, &a);
	ok(wait_for(&f, a.count == 1), "with PostgreSQL stopped a call ends at its deadline");
	ok(a.status == META_UNKNOWN || a.status == META_UNAVAILABLE, "... not as done");
	ok(a.at_ms - asked < 1500, "... in time (%d ms)", (int) (a.at_ms - asked));
	ok(wait_for(&f, !f.connected), "a heartbeat without an answer for a session timeout: not connected");
	ok(clock_boot_ms() - asked < 5000, "... soon");
	ok(meta_last_heartbeat_ms(f.meta) >= beat && meta_last_heartbeat_ms(f.meta) <= asked,
	   "the last heartbeat counts from when it was sent (A11)");
	fixture_run(PG " resume %s", f.dir);
	ok(wait_for(&f, f.connected && f.registered > registered), "it goes on: registered again");
	ok(f.same_epoch, "... with the same epoch");
	a.count = 0;
	meta_create_topics(f.meta, &somebody, "[{\"name\":\"again\"}]", false, 0, take_answer, &a);
	ok(wait_for(&f, a.count == 1) && a.status == META_OK, "... and calls work");
}

/* A call that was made under one epoch is not sent under the next. */
static void
test_old_epoch(void)
{
	Answer a = {0}, blocker = {0};
	int fenced = f.fenced;

	fixture_sql(&f, "UPDATE broker_internal.fake SET call_seconds = 2");
	meta_create_topics(f.meta, &somebody, "[{\"name\":\"blocker\"}]", false, 0, take_answer, &blocker);
	ok(wait_for(&f, fixture_call_is_running(&f)), "the control session is busy");
	meta_logs_deleted(f.meta, &(WUuid){{1}}, 1, take_answer, &a);
	fixture_sql(&f, "UPDATE broker_internal.fake SET call_seconds = 0; UPDATE broker_internal.brokers SET "
					"state = 'dead'");
	ok(wait_for(&f, f.fenced > fenced && f.connected), "fenced and registered meanwhile");
	ok(wait_for(&f, a.count == 1) && blocker.count == 1, "the waiting call is answered");
	ok(a.status == META_ERROR && a.code == 77, "... STALE_BROKER_EPOCH");
	is_str(fixture_ask(&f, "SELECT count(*) FROM broker_internal.calls WHERE name = 'logs_deleted'"), "0",
		   "... and was not sent");
}

/* The same server with another history (A1): everything is read anew, what is not there is stray. */
static void
test_incarnation(void)
{
	int gone = f.gone_topics;

	fixture_sql(
		&f,
		"INSERT INTO broker_internal.topics VALUES ('kept', '00000000-0000-0000-0000-00000000000c', "
		"false, '{}', 1000, "
		"'\\\\x0000000000000001000000050000000700000001000000010000000100000001000000000000000000000000'), "
		"('young', '00000000-0000-0000-0000-00000000000d', false, '{}', 1000, "
		"'\\\\x0000000000000001000000050000000700000001000000010000000100000001000000000000000000000000');"
		"UPDATE broker_internal.fake SET version = 1000");
	ok(wait_for(&f, meta_image_topic(meta_image(f.meta), "young", 5) != NULL &&
						meta_image_version(meta_image(f.meta)) >= 1000),
	   "two topics are there");
	fixture_sql(
		&f, "DELETE FROM broker_internal.topics WHERE topic = 'young';"
			"UPDATE broker_internal.topics SET changed = 30, partitions = "
			"'\\\\x0000000000000001000000040000000300000001000000010000000100000001000000000000000000000000' "
			"WHERE topic = 'kept';"
			"UPDATE broker_internal.fake SET version = 30, incarnation = 2");
	ok(wait_for(&f, f.gone_topics == gone + 1),
	   "PostgreSQL went back: a topic that it does not know is gone, not deleted (A7)");
	ok(wait_for(&f, meta_image_version(meta_image(f.meta)) < 1000), "the image follows its version");
	{
		MetaTopic *kept = meta_image_topic(meta_image(f.meta), "kept", 4);

		ok(kept != NULL && meta_topic_partition(kept, 0)->leader_epoch == 5 &&
			   meta_topic_partition(kept, 0)->partition_epoch == 7,
		   "the leader in office goes on: an older epoch does not replace a newer one");
	}
	is_int(meta_pg_incarnation(f.meta), 2, "the incarnation is known");
}

/* A synchronous standby that is away: the commit waits, a cancel lets it stand without the standby (A21). */
static void
test_not_durable(void)
{
	Answer a = {0};
	char out[1024];
	bool waits = false;

	fixture_sql(&f, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
	fixture_sql(&f, "SELECT pg_reload_conf()");
	wait_for(&f, strcmp(fixture_ask(&f, "SHOW synchronous_standby_names"), "nobody") == 0);
	meta_create_topics(f.meta, &somebody, "[{\"name\":\"undurable\"}]", false, 0, take_answer, &a);
	for (int i = 0; i < 200 && !waits; i++)
	{
		fixture_turn(&f, 20);
		waits = strcmp(fixture_ask(&f, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"),
					   "1") == 0;
	}
	ok(waits && a.count == 0, "a commit waits for a standby");
	fixture_sql(&f, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
	ok(wait_for(&f, a.count == 1), "it is cancelled");
	ok(a.status == META_UNKNOWN, "... which counts as unknown, although PostgreSQL says COMMIT: %s",
	   a.message);
	fixture_sh(out, sizeof(out), PG " sql %s \"ALTER SYSTEM RESET synchronous_standby_names\" 2>&1", f.dir);
	fixture_sql(&f, "SELECT pg_reload_conf()");
	a.count = 0;
	meta_create_topics(f.meta, &somebody, "[{\"name\":\"durable\"}]", false, 0, take_answer, &a);
	ok(wait_for(&f, a.count == 1) && a.status == META_OK, "without the standby commits are confirmed again");
}

/* Another PostgreSQL beside the fixture's, of another incarnation, with metadata version 7. */
static bool
start_second(Fixture *second, int number, int incarnation)
{
	char out[1024];

	snprintf(second->dir, sizeof(second->dir), "%.40s-%d", f.dir, number);
	if (!fixture_sh(out, sizeof(out), PG " start %s %d 2>&1", second->dir, (int) getpid()))
		return ok(false, "a second server: %s", out);
	fixture_run(PG " file %s broker regress/unit/meta/fake.sql 2>&1", second->dir);
	snprintf(out, sizeof(out), "UPDATE broker_internal.fake SET incarnation = %d, version = 7", incarnation);
	fixture_sql(second, out);
	return true;
}

/* The first host dies, the second takes writes: another PostgreSQL, which knows nothing of our epoch. */
static void
test_failover(void)
{
	Fixture second = {.dir = ""};
	char both[1024];
	int fenced;

	if (!start_second(&second, 2, 3))
		return;
	snprintf(both, sizeof(both), "host=%s,%s user=postgres dbname=broker", f.dir, second.dir);
	fixture_stop(&f);
	fixture_start(&f, both);
	ok(wait_for(&f, f.connected && f.completes > 0), "connected to the first of two hosts");
	fenced = f.fenced;
	fixture_run(PG " stop %s immediate", f.dir);
	ok(wait_for(&f, f.connected && f.registered == 2 && meta_pg_incarnation(f.meta) == 3),
	   "the first dies: registered with the second");
	ok(!f.same_epoch && f.fenced == fenced + 1, "... which gives another epoch, so what was led is lost");
	ok(wait_for(&f, meta_image_version(meta_image(f.meta)) >= 7 &&
						meta_image_version(meta_image(f.meta)) < 30 &&
						meta_image_topic(meta_image(f.meta), "kept", 4) == NULL),
	   "... and the image is that of the second");
	{
		Answer a = {0};

		meta_create_topics(f.meta, &somebody, "[{\"name\":\"second\"}]", false, 0, take_answer, &a);
		ok(wait_for(&f, a.count == 1) && a.status == META_OK, "calls go there");
		is_str(
			fixture_ask(&second, "SELECT count(*) FROM broker_internal.calls WHERE name = 'create_topics'"),
			"1", "... all of them");
	}
	fixture_remove(&second);
}

/* Both hosts take writes, and other brokers have the second, which was promoted (A1). */
static void
test_left_behind(void)
{
	Fixture second = {.dir = ""};
	char both[1024];
	int64_t until;

	if (!start_second(&second, 3, 9))
		return;
	fixture_run(PG " again %s", f.dir);
	fixture_sql(&f, "UPDATE broker_internal.fake SET incarnation = 5");
	snprintf(both, sizeof(both), "host=%s,%s user=postgres dbname=broker", f.dir, second.dir);
	fixture_stop(&f);
	fixture_start(&f, both);
	ok(wait_for(&f, f.connected && meta_pg_incarnation(f.meta) == 5), "connected to the first of two hosts");
	meta_heard_incarnation(f.meta, 9, 60000);
	until = clock_boot_ms() + 400;
	(void) wait_for(&f, clock_boot_ms() > until);
	ok(f.connected && meta_pg_incarnation(f.meta) == 5, "a peer that has lost its own is not listened to");
	until = clock_boot_ms() + 20000;
	(void) wait_for(
		&f, (meta_heard_incarnation(f.meta, 9, 10), f.connected && meta_pg_incarnation(f.meta) == 9) ||
				clock_boot_ms() > until);
	is_int(meta_pg_incarnation(f.meta), 9, "one that has a later one is: registered there");
	fixture_remove(&second);
}

int
main(void)
{
	fixture_init(&f);
	test_away_at_start();
	test_restart();
	test_lost_call();
	test_deadline_of_running();
	test_paused();
	test_old_epoch();
	test_not_durable();
	test_incarnation();
	test_failover();
	test_left_behind();
	fixture_stop(&f);
	fixture_done(&f);
	return tap_done();
}
