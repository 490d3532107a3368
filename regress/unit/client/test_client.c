/* What of the client needs no broker: settings, errors, partitioners, assignors, and two handles in two threads. */
#include <pthread.h>
#include <stdlib.h>

#include "client/assign.h"
#include "client/conf.h"
#include "client/partitioner.h"
#include "client/pgbroker.h"
#include "regress/unit/tap.h"
#include "wire/errors.h"

static void
test_settings(void)
{
	pgb_conf *conf = pgb_conf_new();
	const char *name, *value, *text;
	pgb_error err = {0};
	int n = 0, wrong = 0;

	for (; pgb_conf_each(n, &name, &value, &text); n++)
		wrong += pgb_conf_set(conf, name, value, &err) != 0 && strcmp(name, "bootstrap.servers") != 0;
	ok(n > 30 && wrong == 0, "every default is a value of its setting");
	is_int(pgb_conf_set(conf, "acks", "all", &err), 0, "acks=all is Kafka's word for -1");
	is_int(conf->acks, -1, "and is -1");
	is_int(pgb_conf_set(conf, "linger.ms", "5x", &err), -1, "a number with something behind it is refused");
	ok(err.code == PGB_INVALID && strstr(err.text, "linger.ms") != NULL, "with its name: %s", err.text);
	is_int(pgb_conf_set(conf, "compression.type", "zip", &err), -1, "so is a word that is none");
	ok(strstr(err.text, "none|gzip|snappy|lz4|zstd") != NULL, "with those that are: %s", err.text);
	is_int(pgb_conf_set(conf, "lingerms", "5", &err), -1, "and a setting that there is not");
	is_int(pgb_conf_set(conf, "bootstrap.servers", "a:1,[::1]:2 , b", &err), 0,
		   "hosts with and without ports");
	ok(pgb_producer_close(pgb_producer_new(conf, &err), 0) == 0, "a handle that never met a broker ends");
	is_int(pgb_conf_set(conf, "bootstrap.servers", "a:1x", &err), 0, "a port that is none is seen later");
	ok(pgb_producer_new(conf, &err) == NULL && err.code == PGB_INVALID, "by the handle: %s", err.text);
	is_int(pgb_conf_set(conf, "partition.assignment.strategy", "range,stickey", &err), 0,
		   "as is an assignor");
	pgb_conf_set(conf, "bootstrap.servers", "a", &err);
	ok(pgb_consumer_new(conf, &err) == NULL && strstr(err.text, "stickey") != NULL, "by the consumer: %s",
	   err.text);
	pgb_conf_free(conf);
}

static void
test_errors(void)
{
	pgb_error err;

	is_str(pgb_error_name(3), "UNKNOWN_TOPIC_OR_PARTITION", "Kafka's codes have Kafka's names");
	is_str(pgb_error_name(PGB_TIMED_OUT), "TIMED_OUT", "the first of ours");
	is_str(pgb_error_name(PGB_POLL_INTERRUPTED), "POLL_INTERRUPTED", "the last of ours");
	is_str(pgb_error_name(-500), "UNKNOWN_ERROR_CODE", "neither");
	error_kafka(&err, KERR_NOT_LEADER_OR_FOLLOWER, "topic \"%s\"", "t");
	ok(err.retriable && err.code == 6 && strncmp(err.text, "topic \"t\": ", 11) == 0, "a retriable one: %s",
	   err.text);
	error_kafka(&err, KERR_MESSAGE_TOO_LARGE, "topic \"%s\"", "t");
	ok(!err.retriable && strstr(err.text, "batch.size") != NULL, "one with advice: %s", err.text);
}

static void
test_partitioners(void)
{
	/* Hashes of Kafka's own test of Utils.murmur2. */
	static const struct
	{
		const char *key;
		int32_t hash;
	} keys[] = {{"21", -973932308},
				{"foobar", -790332482},
				{"a-little-bit-long-string", -985981536},
				{"a-little-bit-longer-string", -1486304829},
				{"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
				{"abc", 479470107}};
	int wrong = 0;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		wrong += partition_murmur2(keys[i].key, strlen(keys[i].key), 1 << 30) !=
				 ((keys[i].hash & INT32_MAX) & ((1 << 30) - 1));
	is_int(wrong, 0, "murmur2 is Kafka's");
	is_int(partition_crc32("123456789", 9, INT32_MAX), 0xcbf43926U % INT32_MAX,
		   "crc32 is the usual one, without sign");
}

/* Two members, one topic of five partitions; who owned what before. */
static int
assign_two(const char *name, int32_t *owner, int32_t *owned_a, int32_t n_a, bool both)
{
	AssignTopic topic = {WSTR_LIT("t"), 5, 0};
	bool takes[] = {true};
	AssignMember members[2] = {
		{.id = WSTR_LIT("a"),
		 .instance = WSTR_NULL,
		 .takes = takes,
		 .owned = owned_a,
		 .n_owned = n_a,
		 .generation = n_a > 0 ? 3 : -1,
		 .sub_generation = n_a > 0 ? 3 : -1},
		{.id = WSTR_LIT("b"), .instance = WSTR_NULL, .takes = takes, .generation = -1, .sub_generation = -1}};
	AssignGroup g = {.topics = &topic,
					 .n_topics = 1,
					 .members = members,
					 .n_members = both ? 2 : 1,
					 .n_parts = 5,
					 .owner = owner};

	return assign_by_name(wstr(name), &g);
}

static void
test_assignors(void)
{
	int32_t owner[5], all[] = {0, 1, 2, 3, 4};
	int count[2] = {0, 0}, nobody = 0;

	is_int(assign_two("range", owner, NULL, 0, true), 0, "range");
	ok(owner[2] == 0 && owner[3] == 1, "the first member has one more");
	is_int(assign_two("roundrobin", owner, NULL, 0, true), 0, "roundrobin");
	ok(owner[0] == 0 && owner[1] == 1 && owner[4] == 0, "in turn");
	is_int(assign_two("sticky", owner, all, 5, true), 0, "sticky");
	for (int i = 0; i < 5; i++)
		count[owner[i]]++;
	ok(count[0] == 3 && count[1] == 2, "a keeps three of its five");
	is_int(assign_two("cooperative-sticky", owner, all, 5, true), 0, "cooperative-sticky");
	for (int i = 0; i < 5; i++)
		nobody += owner[i] < 0;
	is_int(nobody, 2, "what moves belongs to nobody until it was let go");
	is_int(assign_two("cooperative-sticky", owner, all, 3, true), 0, "the next round");
	ok(owner[0] == 0 && owner[3] == 1 && owner[4] == 1, "gives it");
	is_int(assign_two("stick", owner, NULL, 0, true), -1, "an assignor that there is not");
	ok(assign_find(WSTR_LIT("cooperative-sticky"))->cooperative &&
		   !assign_find(WSTR_LIT("sticky"))->cooperative,
	   "which can move single partitions");
}

static void *
use_a_handle(void *arg)
{
	pgb_conf *conf = pgb_conf_new();
	pgb_message m = PGB_MESSAGE("t");
	pgb_error err = {0};
	int64_t *left = arg;
	pgb_producer *p;
	pgb_consumer *c;
	pgb_record r;

	/* Nobody listens on port 1. */
	(void) pgb_conf_set(conf, "bootstrap.servers", "127.0.0.1:1", &err);
	(void) pgb_conf_set(conf, "metadata.wait.ms", "100", &err);
	p = pgb_producer_new(conf, &err);
	c = pgb_consumer_new(conf, &err);
	pgb_conf_free(conf);
	m.value = pgb_text("v");
	for (int i = 0; i < 10; i++)
		(void) pgb_produce(p, &m, &err);
	(void) pgb_assign(c, &(pgb_place){"t", 0, PGB_EARLIEST, 0}, 1, &err);
	while (pgb_poll(c, &r, 1, 50, &err) >= 0)
		(void) pgb_producer_work(p, 10);
	left[0] = err.code;
	left[1] = pgb_flush(p, 2000, &err);
	left[2] = pgb_pending(p);
	pgb_consumer_close(c, 100);
	(void) pgb_producer_close(p, 0);
	return NULL;
}

static void
test_threads(void)
{
	pthread_t threads[2];
	int64_t left[2][3];

	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, use_a_handle, left[i]) != 0)
			abort();
	for (int i = 0; i < 2; i++)
		(void) pthread_join(threads[i], NULL);
	for (int i = 0; i < 2; i++)
		ok(left[i][0] == PGB_NO_BROKER && left[i][1] == 0 && left[i][2] == 0,
		   "thread %d: no broker is an error for the consumer and a report for each message", i);
}

int
main(void)
{
	test_settings();
	test_errors();
	test_partitioners();
	test_assignors();
	test_threads();
	return tap_done();
}
