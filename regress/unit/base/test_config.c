/*
 * test_config.c: properties files good and bad, and what is said of them.
 */
#include <stdlib.h>
#include <unistd.h>

#include "brokerd/base/config.h"
#include "brokerd/base/config_internal.h"
#include "regress/unit/tap.h"

#define NEEDED "node.id=1\npg_broker.postgres=host=db dbname=broker password=geheim\n"

static char path[] = "/tmp/pgb-config-XXXXXX";

static void
write_file(const char *text)
{
	FILE *file = fopen(path, "w");

	if (file == NULL)
		return;
	fputs(text, file);
	fclose(file);
}

static bool
load(BrokerConfig *c, const char *text, Err *err)
{
	err->text[0] = '\0';
	write_file(text);
	return config_load(c, path, NULL, 0, err);
}

static void
refused(const char *text, const char *words)
{
	BrokerConfig c;
	Err err;
	bool loaded = load(&c, text, &err);

	ok(!loaded && strstr(err.text, words) != NULL, "refused: %s", err.text);
	if (!loaded && strstr(err.text, words) == NULL)
		printf("# expected: %s\n", words);
	config_free(&c);
}

static void
test_good(void)
{
	BrokerConfig c;
	Err err;

	ok(load(
		   &c,
		   "# a comment\n! another\n\n" NEEDED "  num.partitions : 3\n"
		   "log.dirs /data/a b  \n"
		   "broker.rack=rack\\u00e4\\:1\n"
		   "listeners=PLAINTEXT://:9092, \\\n    INTERNAL://127.0.0.1:9093\n"
		   "advertised.listeners=INTERNAL://int:19093,PLAINTEXT://ext.example:19092\n"
		   "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT\n"
		   "inter.broker.listener.name=internal\n"
		   "log.retention.ms=-1\nunclean.leader.election.enable=TRUE\nlog.cleaner.min.cleanable.ratio=0.25\n",
		   &err),
	   "a file is read %s", err.text);
	is_int(c.node_id, 1, "a number");
	is_int(c.num_partitions, 3, "a colon separates too");
	is_str(c.log_dirs, "/data/a b", "a blank separates, blanks at the end go");
	is_str(c.log_dir_path, "/data/a b", "the data directory");
	is_str(c.broker_rack, "rack\xc3\xa4:1", "escapes");
	is_str(c.pg_broker_postgres, "host=db dbname=broker password=geheim", "only the first = separates");
	is_int(c.n_bound, 2, "a line goes on behind a backslash");
	is_str(c.bound[0].host, "", "every address");
	is_int(c.bound[1].port, 9093, "a port");
	is_str(c.advertised[0].host, "ext.example", "what clients are told, in the order of the listeners");
	is_int(c.advertised[1].port, 19093, "... of each");
	is_int(c.inter_broker, 1, "the brokers' listener");
	ok(c.log_retention_ms == -1 && c.set[OPT_log_retention_ms], "an optional number");
	ok(c.log_roll_ms == CONFIG_UNSET && !c.set[OPT_log_roll_ms], "... that is not set");
	is_int(c.log_roll_hours, 168, "a default");
	ok(c.unclean_leader_election_enable && c.log_cleaner_min_cleanable_ratio == 0.25,
	   "booleans and fractions");
	is_int(c.n_warnings, 0, "nothing to warn of");
	config_free(&c);
}

/* Of a few words, or none. */
static void
test_selector(void)
{
	BrokerConfig c;
	Err err;

	ok(load(&c, NEEDED "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector\n",
			&err),
	   "the one class of Kafka's that chooses replicas %s", err.text);
	ok(c.replica_selector_class != NULL, "is set");
	config_free(&c);
	ok(load(&c, NEEDED "replica.selector.class=\n", &err), "empty %s", err.text);
	ok(c.replica_selector_class == NULL && c.n_warnings == 0, "is not set");
	config_free(&c);
}

static void
test_json(void)
{
	BrokerConfig c;
	Err err;
	char *json;

	ok(load(&c, NEEDED "broker.id=4\nbroker.rack=a\"b\nlisteners=PLAINTEXT://h:1\n", &err), "a file %s",
	   err.text);
	is_int(c.node_id, 4, "broker.id is node.id, and the last line counts");
	ok(c.n_warnings == 1 && strstr(c.warnings[0], "line 3") != NULL, "... with a warning: %s", c.warnings[0]);
	json = config_static_json(&c);
	is_str(json, "{\"node.id\":\"4\",\"broker.rack\":\"a\\\"b\",\"listeners\":\"PLAINTEXT://h:1\"}",
		   "what was set, without the connection string");
	free(json);
	json = config_endpoints_json(&c);
	is_str(json, "[{\"name\":\"PLAINTEXT\",\"host\":\"h\",\"port\":1,\"protocol\":\"PLAINTEXT\"}]",
		   "the endpoints");
	free(json);
	config_free(&c);
}

static void
test_ignored(void)
{
	BrokerConfig c;
	Err err;
	const char *const overrides[] = {"num.partitions=7", "node.id=9"};

	ok(load(&c,
			NEEDED "process.roles=broker,controller\nnum.network.threads=3\nlog.cleaner.io.buffer.size=1\n",
			&err),
	   "a file of Kafka's is taken %s", err.text);
	ok(c.n_warnings == 3 && strstr(c.warnings[1], "num.network.threads is ignored") != NULL,
	   "one warning each: %s", c.warnings[1]);
	config_free(&c);
	write_file(NEEDED);
	ok(config_load(&c, path, overrides, 2, &err), "overrides");
	ok(c.num_partitions == 7 && c.node_id == 9 && c.n_warnings == 0, "... win, without a warning");
	config_free(&c);
	ok(!config_load(&c, NULL, overrides, 2, &err) && strstr(err.text, "pg_broker.postgres") != NULL,
	   "what must be given: %s", err.text);
	config_free(&c);
}

static void
test_refused(void)
{
	refused(NEEDED "num.partitons=3\n",
			"line 3: unknown option \"num.partitons\": perhaps you meant \"num.partitions\"");
	refused(NEEDED "frobnicate=3\n", "brokerd --help");
	refused(NEEDED "num.partitions=0\n",
			"num.partitions must be a whole number from 1 to 2147483647, not \"0\"");
	refused(NEEDED "num.partitions=3x\n", "not \"3x\"");
	refused(NEEDED "num.partitions=\n", "not \"\"");
	refused(NEEDED "log.retention.bytes=9223372036854775808\n", "9223372036854775807 bytes");
	refused(NEEDED "log.retention.bytes=-2\n", "-1 to 9223372036854775807");
	refused(NEEDED "log.cleaner.min.cleanable.ratio=1.5\n", "a number from 0 to 1");
	refused(NEEDED "auto.create.topics.enable=yes\n", "true or false");
	refused(NEEDED "compression.type=rar\n", "must be one of");
	refused(NEEDED "log.cleanup.policy=compact,remove\n", "or several");
	refused(NEEDED "replica.selector.class=com.example.Nearest\n",
			"must be one of org.apache.kafka.common.replica.RackAwareReplicaSelector, not");
	refused(NEEDED "compression.type=\n", "must be one of");
	refused(NEEDED "ssl.keystore.location=/k\n", "TLS is not served yet");
	refused(NEEDED "super.users=User:a\n", "permissions");
	refused(NEEDED "log.dirs=/a, /b\n", "run one brokerd a disk");
	refused("pg_broker.postgres=x\n", "node.id is not set");
	refused("node.id=1\n", "pg_broker.postgres is not set");
	refused(NEEDED "listeners=PLAINTEXT//:1\n", "NAME://HOST:PORT");
	refused(NEEDED "listeners=PLAINTEXT://h:70000\n", "0 to 65535");
	refused(NEEDED "listeners=PLAINTEXT://::1:9092\n", "NAME://HOST:PORT");
	refused(NEEDED "listeners=PLAINTEXT://:1,PLAINTEXT://:2\n", "twice");
	refused(NEEDED "listeners=,\n", "line 3: listeners is empty");
	refused(NEEDED "listeners=SSL://:1\nlistener.security.protocol.map=SSL:SSL\n",
			"only PLAINTEXT is served");
	refused(NEEDED "listeners=EXT://:1\n", "add EXT:PLAINTEXT");
	refused(NEEDED "advertised.listeners=PLAINTEXT://0.0.0.0:1\n", "no address");
	refused(NEEDED "advertised.listeners=OTHER://h:1\n", "not in listeners");
	refused(NEEDED "inter.broker.listener.name=X\n", "not in listeners");
	refused(NEEDED "broker.heartbeat.interval.ms=3000\n", "three times");
	refused(NEEDED "group.min.session.timeout.ms=5000\ngroup.max.session.timeout.ms=4000\n", "is above");
}

static void
test_files(void)
{
	BrokerConfig c;
	Err err;

	ok(!config_load(&c, "/nowhere/x", NULL, 0, &err) && strstr(err.text, "/nowhere/x") != NULL, "no file: %s",
	   err.text);
	config_free(&c);
	ok(!config_load(&c, "/tmp", NULL, 0, &err) && err.text[0] != '\0', "a folder: %s", err.text);
	config_free(&c);
	ok(!load(&c, "node.id=1\\", &err), "a backslash at the end of the file is harmless: %s", err.text);
	config_free(&c);
	ok(load(&c, NEEDED "listeners=PLAINTEXT://[::1]:0\r\nnum.partitions=2\r\n", &err),
	   "lines of other systems %s", err.text);
	ok(strcmp(c.bound[0].host, "::1") == 0 && c.bound[0].port == 0 && c.num_partitions == 2,
	   "an IPv6 address, any port");
	config_free(&c);
}

/* Everything wrong at once. */
static void
test_check(void)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int code;

	write_file("num.partitons=3\nnode.id=x\nnum.io.threads=8\n");
	code = config_check(path, NULL, 0, out);
	fclose(out);
	is_int(code, 1, "--check-config fails");
	ok(strstr(text, ":1: error: unknown option") && strstr(text, ":2: error: node.id must be") &&
		   strstr(text, "pg_broker.postgres is not set") &&
		   strstr(text, "warning: line 3: num.io.threads is ignored"),
	   "... and says everything that is wrong");
	free(text);
	out = open_memstream(&text, &size);
	write_file(NEEDED "advertised.listeners=PLAINTEXT://b1:9092\n");
	code = config_check(path, NULL, 0, out);
	fclose(out);
	ok(code == 0 && strstr(text, "told to connect to b1:9092") != NULL,
	   "a good one: what clients will be told");
	free(text);
}

/* The table is what --help and the docs are made from. */
static void
test_table(void)
{
	int n;
	const ConfigOption *options = config_options(&n);
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	bool good = true, listed = true, apart = true;

	config_print_help(out);
	fclose(out);
	for (int i = 0; i < n; i++)
	{
		Err err;
		const char *why;

		if (i != OPT_node_id && options[i].default_text != NULL)
			good = good && config_check_value(&options[i], options[i].default_text, &err);
		good = good && options[i].doc[0] != '\0' && options[i].doc[strlen(options[i].doc) - 1] == '.';
		listed = listed && strstr(text, options[i].name) != NULL;
		apart = apart && config_name_kind(options[i].name, &why) == CONFIG_NAME_OPTION;
		for (int j = 0; j < i; j++)
			apart = apart && strcmp(options[i].name, options[j].name) != 0;
	}
	ok(good, "every default is within its bounds and every doc a sentence");
	ok(listed, "--help lists every option");
	ok(apart, "no name is there twice");
	free(text);
}

/* docs/configuration.md has the tables as they are printed. */
static void
test_docs(void)
{
	char *want = NULL, *have = NULL;
	size_t size, n;
	FILE *out = open_memstream(&want, &size), *file;

	config_print_markdown(out);
	fclose(out);
	have = calloc(1, 1024 * 1024);
	file = fopen("docs/configuration.md", "r");
	if (file != NULL && have != NULL)
	{
		n = fread(have, 1, 1024 * 1024 - 1, file);
		have[n] = '\0';
		fclose(file);
	}
	if (!ok(have != NULL && strstr(have, want) != NULL, "docs/configuration.md is up to date"))
		printf("# Replace its tables with what `brokerd --print-config-docs` prints.\n");
	free(have);
	free(want);
}

int
main(void)
{
	int fd = mkstemp(path);

	if (fd >= 0)
		close(fd);
	test_good();
	test_selector();
	test_json();
	test_ignored();
	test_refused();
	test_files();
	test_check();
	test_table();
	test_docs();
	unlink(path);
	return tap_done();
}
