/*
 * test_session.c: registration, heartbeat, calls and image against a PostgreSQL that behaves.
 */
#include "regress/unit/meta/fixture.h"

static Fixture f;

static void
test_register(void)
{
	fixture_start(&f, f.conninfo);
	ok(meta_broker_epoch(f.meta) == -1 && !meta_is_connected(f.meta),
	   "nothing is known before the loop runs");
	ok(wait_for(&f, f.registered == 1), "registers");
	ok(wait_for(&f, f.connected && meta_last_heartbeat_ms(f.meta) > 0), "is connected");
	is_int(meta_broker_epoch(f.meta), f.epoch, "has the epoch that it told");
	is_str(f.cluster_id, "fakefakefakefakefakefA", "has the cluster's id");
	is_str(meta_cluster_id(f.meta), f.cluster_id, "... and keeps it");
	ok(f.secret_len == 4 && f.secret[3] == 0xff, "has the cluster's secret");
	ok(wait_for(&f, f.completes >= 1 && meta_image_version(meta_image(f.meta)) == meta_version(f.meta)),
	   "has an image of that version");
	ok(meta_image_broker(meta_image(f.meta), 1) != NULL, "finds itself among the brokers");
	ok(wait_for(&f, meta_is_controller(f.meta)), "becomes the controller");
}

static void
test_heartbeat(void)
{
	int64_t before = meta_last_heartbeat_ms(f.meta);

	ok(wait_for(&f, meta_last_heartbeat_ms(f.meta) > before + 100), "heartbeats go on");
	ok(strtol(fixture_ask(&f, "SELECT last_value FROM broker_internal.ticks"), NULL, 10) >= 1,
	   "the controller ticks");
	fixture_sql(&f, "INSERT INTO broker_internal.checks VALUES ('warning', 'p', 'h')");
}

static void
test_image(void)
{
	int64_t started;

	fixture_sql(
		&f,
		"INSERT INTO broker_internal.topics VALUES ('orders', '00000000-0000-0000-0000-00000000000a', false, "
		"'{\\\"retention.ms\\\": \\\"1000\\\"}', 100, "
		"'\\\\x0000000000000001000000050000000700000001000000010000000100000001000000000000000000000000');"
		"UPDATE broker_internal.fake SET version = 100; SELECT pg_notify('pg_broker', '')");
	started = clock_boot_ms();
	ok(wait_for(&f, meta_image_topic(meta_image(f.meta), "orders", 6) != NULL), "a topic comes");
	ok(clock_boot_ms() - started < 1000, "... at once");
	{
		MetaTopic *t = meta_image_topic(meta_image(f.meta), "orders", 6);
		const MetaPartition *p = t == NULL ? NULL : meta_topic_partition(t, 0);

		ok(p != NULL && p->leader == 1 && p->leader_epoch == 5 && p->partition_epoch == 7 &&
			   p->n_replicas == 1 && meta_partition_in_isr(p, 1),
		   "with its partition");
		is_str(t == NULL ? NULL : meta_topic_config(t, "retention.ms"), "1000", "and its configuration");
	}
	fixture_sql(&f, "INSERT INTO broker_internal.configs VALUES ('cluster', NULL, 'log.retention.ms', '5');"
					"UPDATE broker_internal.configs_version SET version = 101; UPDATE broker_internal.fake "
					"SET version = 101");
	ok(wait_for(&f, meta_image_cluster_config(meta_image(f.meta), "log.retention.ms") != NULL),
	   "a cluster config comes with a heartbeat, without a NOTIFY");
	fixture_sql(&f, "INSERT INTO broker_internal.operations VALUES (7, 'delete_records', 'orders', "
					"'00000000-0000-0000-0000-00000000000a', 0, '{\\\"before_offset\\\": 42}');"
					"UPDATE broker_internal.topics SET deleted = true, partitions = NULL, changed = 102;"
					"UPDATE broker_internal.fake SET version = 102");
	ok(wait_for(&f, f.deleted_topics == 1), "a tombstone comes");
	ok(wait_for(&f, f.operations >= 1), "operations come with it");
	ok(f.last_operation.id == 7 && f.last_operation.before_offset == 42 &&
		   f.last_operation.topic_id.b[15] == 10,
	   "... with their arguments");
}

static void
test_calls(void)
{
	Answer a = {.inside = true}, b = {0};
	const char *names[] = {"a\"b", NULL};
	WUuid ids[2] = {{{0}}, {{9}}};
	int64_t version = meta_version(f.meta);

	meta_create_topics(f.meta, &somebody, "[{\"name\":\"t1\"}]", false, 0, take_answer, &a);
	a.inside = false;
	ok(wait_for(&f, a.count == 1), "a call is answered");
	ok(!a.came_inside, "... not from inside");
	ok(a.status == META_OK && a.rows == 1, "... with rows");
	is_str(a.text, "t1", "... that say what was asked");
	ok(wait_for(&f, meta_version(f.meta) > version), "what it changed is read at once");
	meta_create_topics(f.meta, &somebody, "[]", false, 0, take_answer, &b);
	ok(wait_for(&f, b.count == 1), "a refused call is answered");
	ok(b.status == META_ERROR && b.code == 42, "... with Kafka's code of its SQLSTATE");
	is_str(b.message, "no topic is named", "... and its message");
	is_str(b.detail, "The array is empty.", "... its detail");
	is_str(b.hint, "Name one.", "... and its hint");
	b.count = 0;
	meta_delete_topics(f.meta, &somebody, names, ids, 2, 0, take_answer, &b);
	wait_for(&f, b.count == 1);
	is_str(b.text, "a\"b", "a name with a quote arrives as it is");
	is_str(fixture_ask(&f, "SELECT argument FROM broker_internal.calls WHERE name = 'delete_topics'"),
		   "User:ANONYMOUS 10.0.0.1 {\"a\\\"b\"} {09000000-0000-0000-0000-000000000000}",
		   "names and ids, and who asks");
}

/* Calls and their parameters are used again, by longer and by shorter ones, while others wait. */
static void
test_many_calls(void)
{
	static const int lengths[] = {3, 250, 1, 100, 7, 249, 2, 2, 200, 30, 5, 120, 1, 90, 8};
	enum
	{
		CALLS = sizeof(lengths) / sizeof(lengths[0])
	};
	Answer answers[CALLS];
	char names[CALLS][256];
	WUuid none = {{0}};

	for (int round = 0; round < 3; round++)
	{
		int right = 0;

		memset(answers, 0, sizeof(answers));
		for (int i = 0; i < CALLS; i++)
		{
			const char *name = names[i];

			memset(names[i], 'a' + i, sizeof(names[i]));
			names[i][lengths[(i + round) % CALLS]] = '\0';
			meta_delete_topics(f.meta, &somebody, &name, &none, 1, 0, take_answer, &answers[i]);
		}
		ok(wait_for(&f, answers[CALLS - 1].count == 1), "many calls are answered");
		for (int i = 0; i < CALLS; i++)
			right += answers[i].count == 1 && answers[i].status == META_OK &&
					 strncmp(answers[i].text, names[i], sizeof(answers[i].text) - 1) == 0;
		is_int(right, CALLS, "each with its own parameters");
	}
}

typedef struct Isr
{
	int count, n;
	int32_t isr[4];
	bool landed;
	int64_t epoch;
} Isr;

static void
take_isr(void *ctx, const MetaResult *r)
{
	Isr *isr = ctx;

	isr->count++;
	isr->landed = meta_result_bool(r, 0, 2);
	isr->epoch = meta_result_int(r, 0, 5);
	isr->n = meta_result_ints(r, 0, 6, isr->isr, 4);
}

static void
test_typed(void)
{
	const int32_t members[] = {1, 2};
	const int64_t epochs[] = {5, -1};
	MetaIsrChange change = {.topic_id = {{1}},
							.partition = 3,
							.leader_epoch = 4,
							.partition_epoch = 8,
							.isr = members,
							.epochs = epochs,
							.n_isr = 2};
	MetaFigures figures = {.topic_id = {{1}},
						   .partition = 2,
						   .log_start_offset = 0,
						   .high_watermark = META_FIGURE_UNKNOWN,
						   .log_end_offset = 9,
						   .is_online = true};
	MetaBrokerStats stats = {
		.disk_free_bytes = 5, .disk_total_bytes = -1, .connections = 0, .log_dir = "/a \"b\""};
	Isr isr = {0};
	Answer a = {0};

	meta_alter_isr(f.meta, &change, 1, 0, take_isr, &isr);
	ok(wait_for(&f, isr.count == 1), "an ISR change is answered");
	ok(isr.landed && isr.epoch == 9 && isr.n == 2 && isr.isr[1] == 2, "... with the row as it is then");
	meta_report(f.meta, &stats, &figures, 1, take_answer, &a);
	ok(wait_for(&f, a.count == 1) && a.status == META_OK, "a report is taken");
	is_str(
		fixture_ask(&f, "SELECT argument FROM broker_internal.calls WHERE name = 'report'"),
		"{\"log_dir\": \"/a \\\"b\\\"\", \"connections\": 0, \"disk_free_bytes\": 5} {2} {0,NULL,0,9,0,0,1}",
		"... unknown figures as NULL, unknown statistics left out");
	a.count = 0;
	meta_finish_operation(f.meta, 7, 0, 42, 0, NULL, take_answer, &a);
	ok(wait_for(&f, a.count == 1) && a.status == META_OK, "an operation is finished");
	a.count = 0;
	meta_logs_deleted(f.meta, &change.topic_id, 1, take_answer, &a);
	ok(wait_for(&f, a.count == 1) && a.status == META_OK, "deleted logs are told");
	meta_event(f.meta, "log.truncated", "t-0", "{\"to\": 1}");
	a.count = 0;
	meta_stop_broker(f.meta, 0, take_answer, &a);
	ok(wait_for(&f, a.count == 1) && a.status == META_OK, "a controlled shutdown is asked for");
	is_str(fixture_ask(&f, "SELECT argument FROM broker_internal.calls WHERE name = 'event'"),
		   "log.truncated t-0 {\"to\": 1}", "an event is told, in the order of the calls");
}

typedef struct Ids
{
	int n, errors;
	int64_t ids[32];
} Ids;

static void
take_id(void *ctx, int16_t error, int64_t id)
{
	Ids *ids = ctx;

	ids->errors += error != 0;
	if (error == 0 && ids->n < 32)
		ids->ids[ids->n++] = id;
}

static void
test_producer_ids(void)
{
	Ids ids = {0};
	bool rising = true;

	for (int i = 0; i < 8; i++)
		meta_producer_id(f.meta, 0, take_id, &ids);
	is_int(ids.n, 0, "producer ids are not given from inside");
	ok(wait_for(&f, ids.n == 8), "eight ids from blocks of three");
	for (int i = 1; i < ids.n; i++)
		rising = rising && ids.ids[i] > ids.ids[i - 1];
	ok(rising && ids.errors == 0, "each once, in order");
}

/* Another process was given our id: what it is told depends on whether we were fenced. */
static void
test_fenced(void)
{
	fixture_sql(&f, "UPDATE broker_internal.brokers SET state = 'dead'");
	ok(wait_for(&f, f.fenced == 1), "fenced: the layer above hears of it");
	ok(wait_for(&f, f.registered == 2 && f.connected), "... and it registers again");
	ok(!f.same_epoch && f.epoch == meta_broker_epoch(f.meta), "... with a new epoch");
	fixture_sql(&f, "UPDATE broker_internal.brokers SET broker_epoch = broker_epoch + 10, incarnation = "
					"gen_random_uuid()");
	ok(wait_for(&f, f.fatal == 1), "superseded by a living process (A17): fatal");
	ok(strstr(f.sentence, "superseded") != NULL && strstr(f.sentence, "node.id") != NULL,
	   "... with what to do: %s", f.sentence);
	fixture_stop(&f);
}

static void
test_stop(void)
{
	Answer waiting = {0}, running = {0};

	fixture_sql(&f, "UPDATE broker_internal.fake SET call_seconds = 30");
	fixture_start(&f, f.conninfo);
	ok(wait_for(&f, f.connected), "a new process");
	meta_create_topics(f.meta, &somebody, "[{\"name\":\"t2\"}]", false, clock_boot_ms() + 60000, take_answer,
					   &running);
	meta_create_topics(f.meta, &somebody, "[{\"name\":\"t3\"}]", false, clock_boot_ms() + 60000, take_answer,
					   &waiting);
	ok(wait_for(&f, fixture_call_is_running(&f)), "a call is running");
	fixture_stop(&f);
	ok(running.count == 1 && running.status == META_UNKNOWN, "at the stop a sent call is unknown");
	ok(waiting.count == 1 && waiting.status == META_UNAVAILABLE, "... a waiting one unavailable");
	fixture_sql(&f, "UPDATE broker_internal.fake SET call_seconds = 0");
}

/* More topics than a page has partitions, and a change between the pages is not lost. */
static void
test_pages(void)
{
	int n = 0;

	fixture_sql(
		&f, "INSERT INTO broker_internal.topics SELECT 'p' || i, "
			"('00000000-0000-0000-0000-0000000001' || to_hex(i))::uuid, "
			"false, '{}', 200, "
			"'\\\\x0000000000000001000000050000000700000001000000010000000100000001000000000000000000000000' "
			"FROM generate_series(16, 40) i; UPDATE broker_internal.fake SET version = 200");
	f.page = 3;
	fixture_start(&f, f.conninfo);
	ok(wait_for(&f, f.completes > 0), "an image is read in pages of three partitions");
	for (MetaTopic *t = meta_image_next_topic(meta_image(f.meta), NULL); t != NULL;
		 t = meta_image_next_topic(meta_image(f.meta), t))
		n++;
	is_int(n, 25, "... all of it");
	ok(f.changes > 8, "... and told page by page");
	is_int(f.new_topics, 25, "... each topic once");
	fixture_stop(&f);
	f.page = 0;
}

int
main(void)
{
	fixture_init(&f);
	test_register();
	test_heartbeat();
	test_image();
	test_calls();
	test_many_calls();
	test_typed();
	test_producer_ids();
	test_fenced();
	test_stop();
	test_pages();
	fixture_done(&f);
	return tap_done();
}
