/*
 * replay.c: puts a broker under load with a client that costs next to nothing: sockets and wire/, no librdkafka.
 *
 *     replay make-batches --file b.100 --records 7000 --size 100 --count 64
 *     replay produce --file b.100 --topic t --connections 4 --window 5 --seconds 10
 *     replay produce --file /var/lib/…/t-0/00000000000000000000.log …     what a real producer once sent
 *     replay drain --topic t --connections 4                             bare fetches, from the beginning to the end
 *     replay idle --connections 10000                                    opens them and holds them
 *
 * One JSON object on standard output, its fields in bench/README.md; `replay --help` lists the options.
 */
#include "bench/load/replay.h"

#include <stdio.h>

static const Mode modes[] = {
	{"make-batches", 'm', "writes batches to a file; any log segment is such a file, too"},
	{"produce", 'p', "sends them again and again; latency is from due (or sent) to answered"},
	{"drain", 'd', "fetches from the beginning, reads headers of batches only"},
	{"idle", 'i', "opens connections, prints, and holds them until Ctrl-C"},
};

static const Option options[] = {
	OPT("bootstrap", TEXT, "H:P,…", "addresses of brokers [127.0.0.1:9092]", bootstrap, "pdi", 0, 0),
	OPT("topic", TEXT, "NAME", "must be given", topic, "pd", 0, 0),
	OPT("partition", NUMBER, "N", "this one only [all; connections share them]", partition, "pd", 0, 1e6),
	OPT("file", TEXT, "PATH", "of batches; must be given", file, "mp", 0, 0),
	OPT("count", NUMBER, "N", "batches [64]", count, "m", 1, 1e6),
	OPT("records", NUMBER, "N", "records of a batch [1000]", records, "m", 1, 1e7),
	OPT("size", NUMBER, "B", "bytes of a value [100]", size, "m", 0, 1e8),
	OPT("compression", TEXT, "C", "none, gzip, snappy, lz4 or zstd [none]", compression, "m", 0, 0),
	OPT("payload", TEXT, "KIND", "json, random or zero [json]", payload, "m", 0, 0),
	OPT("acks", TEXT, "A", "0, 1 or all [all]", acks, "p", 0, 0),
	OPT("connections", NUMBER, "N", "connections [1]", connections, "pdi", 1, 1e6),
	OPT("window", NUMBER, "W", "requests in flight a connection [5]", window, "p", 1, 1e6),
	OPT("rate", REAL, "R", "open loop: so many requests a second in all; 0 as fast as it goes [0]", rate, "p",
		0, 1e8),
	OPT("seconds", REAL, "S", "measure so long [produce 10; drain: to the end once; idle: until Ctrl-C]",
		seconds, "pdi", 0.001, 1e6),
	OPT("megabytes", REAL, "M", "instead: so many MB of batches", megabytes, "p", 0.000001, 1e9),
	OPT("times", NUMBER, "N", "instead: read all so often", times, "d", 1, 1e9),
	OPT("warmup", REAL, "S", "before, and not counted [0]", warmup, "pd", 0, 1e6),
	OPT("max-bytes", NUMBER, "B", "of a fetch [1048576]", max_bytes, "d", 1, 2e9),
	OPT("max-wait", NUMBER, "MS", "of a fetch [500]", max_wait, "d", 0, 1e6),
	OPT("copy", FLAG, "", "read what is skipped, too", copy, "d", 0, 0),
	OPT("watch", TEXT, "PID,…", "processes whose CPU seconds and memory are told, too", watch, "pdi", 0, 0),
};

static const Usage usage = {
	.program = "replay",
	.head = "replay: puts a Kafka-protocol broker under load with prepared batches and bare fetches, prints "
			"one JSON "
			"object.\n\n"
			"    replay make-batches --file b.lz4 --records 1000 --size 1000 --compression lz4\n"
			"    replay produce --file b.lz4 --topic t --connections 4 --window 5 --seconds 10 --warmup 2\n"
			"    replay produce --file b.one --topic t --rate 1000    each request has its moment: waiting "
			"counts\n"
			"    replay drain --topic t --connections 4\n"
			"    replay idle --connections 10000\n",
	.tail =
		"Times are microseconds, MB are 10^6 bytes of batches, CPU is that of the measured time.  Exit code "
		"0; 1 when\n"
		"a request failed or nothing could be done, with one sentence; 2 for a wrong command line; 130 for\n"
		"Ctrl-C, with what was measured until then (idle: 0).\n",
	.modes = modes,
	.n_modes = sizeof(modes) / sizeof(*modes),
	.options = options,
	.n_options = sizeof(options) / sizeof(*options),
};

void
replay_begin_result(Result *r, const Replay *replay)
{
	result_begin(r, replay->mode);
	result_settings(r, replay->usage, replay->mode, &replay->settings);
}

static void
check_settings(Replay *replay)
{
	Settings *s = &replay->settings;
	char mode = replay->mode->letter;

	if ((mode == 'p' || mode == 'd') && s->topic == NULL)
		die_usage("--topic must be given");
	if ((mode == 'p' || mode == 'm') && s->file == NULL)
		die_usage("--file must be given");
	if ((s->megabytes > 0 || s->times > 0) && (s->seconds > 0 || s->warmup > 0))
		die_usage("--seconds and --warmup do not go with --megabytes or --times");
	if (mode == 'p' && s->seconds == 0)
		s->seconds = 10;
	if (mode == 'd' && s->seconds == 0 && s->times == 0)
		s->times = 1;
	if (mode == 'd' && s->times > 0 && s->warmup > 0)
		die_usage("--warmup goes with --seconds");
}

int
main(int argc, char **argv)
{
	static int (*const run[])(const Replay *) = {replay_make_batches, replay_produce, replay_drain,
												 replay_idle};
	Replay replay = {.usage = &usage,
					 .settings = {.bootstrap = "127.0.0.1:9092",
								  .acks = "all",
								  .compression = "none",
								  .payload = "json",
								  .connections = 1,
								  .window = 5,
								  .count = 64,
								  .records = 1000,
								  .size = 100,
								  .max_bytes = 1 << 20,
								  .max_wait = 500,
								  .partition = -1}};

	replay.mode = options_parse(&usage, argc, argv, &replay.settings);
	check_settings(&replay);
	return run[replay.mode - modes](&replay);
}
