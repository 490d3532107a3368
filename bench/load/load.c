/*
 * load.c: the load generator: producers, consumers, both at once, commits; on librdkafka.
 *
 *     load produce --bootstrap 127.0.0.1:9092 --topic t --partitions 6 --size 100 --acks all --seconds 10
 *     load produce … --rate 1000 --linger 0         open loop: a message that waits counts from when it was due
 *     load produce … --outstanding 1 --linger 0     closed loop: one request in flight
 *     load consume … --from beginning               to the end of every partition
 *     load end-to-end … --rate 1000                 from due to read
 *
 * One JSON object on standard output, its fields in bench/README.md; `load --help` lists the options.
 */
#include <stdio.h>
#include <string.h>

#include "bench/load/load.h"
#include "bench/load/rdk.h"

static const Mode modes[] = {
	{"produce", 'p', "producers; latency is from due (or handed over) to acknowledged"},
	{"consume", 'c', "consumers; each reads every partition, or with --group its share"},
	{"end-to-end", 'e', "both; latency is from due to read, ack_latency to acknowledged"},
	{"commit", 'o', "groups that commit the offsets of all partitions of the topic"},
	{"create-topic", 't', "makes a topic and waits for its leaders"},
	{"delete-topic", 'd', "deletes it"},
};

/* name, kind, value, help, where, modes, least, most */
static const Option options[] = {
	OPT("bootstrap", TEXT, "H:P,…", "addresses of brokers [127.0.0.1:9092]", bootstrap, "pceotd", 0, 0),
	OPT("topic", TEXT, "NAME", "must be given", topic, "pceotd", 0, 0),
	OPT("partitions", NUMBER, "N", "makes the topic with so many if it is not there", partitions, "pceot", 1,
		1e6),
	OPT("replication-factor", NUMBER, "N", "of a topic that is made; -1 the broker's default [-1]",
		replication, "pceot", -1, 100),
	OPT("topic-config", PAIRS, "K=V", "of a topic that is made; may be repeated", topic_config, "pceot", 0,
		0),
	OPT("producers", NUMBER, "N", "instances [1]", producers, "pe", 1, 10000),
	OPT("consumers", NUMBER, "N", "instances [1]", consumers, "ce", 1, 10000),
	OPT("groups", NUMBER, "N", "groups that commit [1]", members, "o", 1, 10000),
	OPT("size", NUMBER, "B", "bytes of a value [100]", size, "pe", 0, 1e9),
	OPT("payload", TEXT, "KIND", "json, random or zero [json]", payload, "pe", 0, 0),
	OPT("acks", TEXT, "A", "0, 1 or all [all]", acks, "pe", 0, 0),
	OPT("linger", REAL, "MS", "milliseconds [5]", linger, "pe", 0, 900000),
	OPT("batch-size", NUMBER, "B", "most bytes of a batch; 0 librdkafka's [0]", batch_size, "pe", 0, 2e9),
	OPT("compression", TEXT, "C", "none, gzip, snappy, lz4 or zstd [none]", compression, "pe", 0, 0),
	OPT("inflight", NUMBER, "N", "requests in flight a connection; 0 librdkafka's [0]", inflight, "pe", 0,
		1e6),
	OPT("outstanding", NUMBER, "N",
		"closed loop: most unacknowledged messages of a producer; 0 its queue [0]", outstanding, "pe", 0,
		1e7),
	OPT("idempotence", FLAG, "", "enable.idempotence", idempotence, "pe", 0, 0),
	OPT("rate", REAL, "R", "open loop: so many a second of all together; 0 as fast as it goes [0]", rate,
		"peo", 0, 1e8),
	OPT("from", TEXT, "WHERE", "beginning or end [beginning]", from, "c", 0, 0),
	OPT("group", TEXT, "ID", "read as members of this group (commit: prefix of their names)", group, "co", 0,
		0),
	OPT("seconds", REAL, "S", "measure so long [10; consume: to the end of the partitions]", seconds, "pceo",
		0.001, 1e6),
	OPT("messages", NUMBER, "N", "instead: so many (of each consumer; commits)", messages, "pceo", 1, 1e15),
	OPT("warmup", REAL, "S", "before, and not counted [0]", warmup, "pceo", 0, 1e6),
	OPT("drain", REAL, "S", "wait so long for the last answers, then they are errors [30]", drain, "pe", 0,
		1e6),
	OPT("watch", TEXT, "PID,…", "processes whose CPU seconds and memory are told, too", watch, "pceo", 0, 0),
	OPT("X", PAIRS, "K=V", "a setting of librdkafka, over all others; may be repeated", extra, "pceotd", 0,
		0),
};

static const Usage usage = {
	.program = "load",
	.head = "load: puts a Kafka-protocol broker under load with librdkafka, and prints one JSON object.\n\n"
			"    load produce --topic t --partitions 6 --size 100 --seconds 10 --warmup 2\n"
			"    load produce --topic t --rate 1000 --linger 0        each message has its moment: waiting "
			"counts\n"
			"    load produce --topic t --outstanding 1 --linger 0    one message in flight\n"
			"    load consume --topic t                               from the beginning to the end\n"
			"    load end-to-end --topic t --rate 1000 --linger 0\n",
	.tail = "Times are microseconds, MB are 10^6 bytes of values, CPU is that of the measured time.  Exit "
			"code 0; 1 when\n"
			"a message was lost or nothing could be done, with one sentence; 2 for a wrong command line; 130 "
			"for\n"
			"Ctrl-C, with what was measured until then.\n",
	.modes = modes,
	.n_modes = sizeof(modes) / sizeof(*modes),
	.options = options,
	.n_options = sizeof(options) / sizeof(*options),
};

static void
check_settings(const Load *load)
{
	const Settings *s = &load->settings;

	if (s->topic == NULL)
		die_usage("--topic must be given");
	if (s->messages > 0 && s->seconds > 0)
		die_usage("--messages and --seconds exclude each other");
	if (s->messages > 0 && s->warmup > 0)
		die_usage("--warmup goes with --seconds, not with --messages");
	if (s->rate > 0 && s->outstanding > 0)
		die_usage("--rate is an open loop and --outstanding a closed one: one of them");
	if (strcmp(s->acks, "0") != 0 && strcmp(s->acks, "1") != 0 && strcmp(s->acks, "-1") != 0 &&
		strcmp(s->acks, "all") != 0)
		die_usage("--acks is 0, 1 or all, not \"%s\"", s->acks);
	if (strcmp(s->from, "beginning") != 0 && strcmp(s->from, "end") != 0)
		die_usage("--from is beginning or end, not \"%s\"", s->from);
	if (load->mode->letter == 'c' && s->seconds == 0 && s->messages == 0 &&
		(s->from[0] == 'e' || s->group != NULL))
		die_usage("--seconds or --messages must say when to end");
	if (load->mode->letter == 't' && s->partitions == 0)
		die_usage("--partitions must be given");
}

int
main(int argc, char **argv)
{
	static int (*const run[])(const Load *) = {load_produce, load_consume,      load_end_to_end,
											   load_commit,  load_create_topic, load_delete_topic};
	Load load = {.usage = &usage,
				 .settings = {.bootstrap = "127.0.0.1:9092",
							  .acks = "all",
							  .compression = "none",
							  .payload = "json",
							  .from = "beginning",
							  .replication = -1,
							  .producers = 1,
							  .consumers = 1,
							  .members = 1,
							  .size = 100,
							  .linger = 5,
							  .drain = 30}};
	Settings *s = &load.settings;

	load.mode = options_parse(&usage, argc, argv, s);
	check_settings(&load);
	if (s->seconds == 0 && s->messages == 0 && load.mode->letter != 'c')
		s->seconds = 10;
	rdk_check_bootstrap(s->bootstrap);
	return run[load.mode - modes](&load);
}
