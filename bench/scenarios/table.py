"""All scenarios, in the order in which they run: those of one set of processes together, what needs a set of its own last.

A goal's factor is of issue 7's table; where it names two factors, the first is against Kafka's default and the second
against flush.messages=1.
"""
from bench.scenarios.columns import ALL, READERS
from bench.scenarios.model import Goal, Scenario

EVERY = ("quick", "bench", "all")
THROUGHPUT = ("mb_per_s", "cpu_s_per_gb", "client_cpu_s_per_gb", "helper_cores")
REPLAY = ("mb_per_s", "cpu_s_per_gb", "requests_per_s", "records_per_s", "p99_ms")
READ = ("mb_per_s", "cpu_s_per_gb", "client_cpu_s_per_gb")
LATENCY = ("p50_ms", "p99_ms", "kept_up", "msgs_per_s", "cpu_us_per_request", "p999_ms", "max_ms")
START = ("start_s", "memory_mib", "idle_cores", "helper_mib")
PARTITIONS = ("start_s", "recover_s", "stop_s", "memory_mib", "helper_mib")


def at_least(metric, column, factor, of=None):
    return Goal(metric, column, ">=", factor, of)


def at_most(metric, column, factor, of=None):
    return Goal(metric, column, "<=", factor, of)


def produce_goals(against_plain, against_flush, cpu):
    return (at_least("mb_per_s", "brokerd", against_plain, "kafka"), at_least("mb_per_s", "brokerd", against_flush, "kafka-flush"),
            at_most("cpu_s_per_gb", "brokerd", cpu, "kafka"))


def producing(name, title, short, settings, goals=(), how="librdkafka producers, as fast as they go.", **more):
    return Scenario(name, title, short, "produce", ALL, THROUGHPUT, how, {"acks": "all", "linger": 5, **settings}, goals, **more)


PRODUCE = (
    producing("produce-100", "librdkafka, one producer, 100 B", "1 producer, 100 B", {"size": 100}, produce_goals(0.85, 1.5, 0.45),
              "One librdkafka producer, as fast as it goes: at this size it is the limit, so CPU is what counts."),
    producing("produce-1000", "librdkafka, one producer, 1,000 B", "1 producer, 1,000 B", {"size": 1000},
              (*produce_goals(1.0, 2.5, 0.4), at_least("mb_per_s", "brokerd-relaxed", 1.7, "kafka"),
               at_most("cpu_s_per_gb", "brokerd-relaxed", 0.35, "kafka")), profiles=EVERY),
    producing("produce-100-x8", "librdkafka, eight producers, 100 B", "8 producers, 100 B", {"size": 100, "producers": 8},
              produce_goals(0.9, 1.25, 0.3)),
    producing("produce-100-x100", "librdkafka, a hundred producers, 100 B", "100 producers", {"size": 100, "producers": 100}, profiles=("all",)),
    producing("produce-acks-0", "one producer, 1,000 B, acks=0", "acks=0", {"size": 1000, "acks": "0"}, profiles=("all",)),
    producing("produce-acks-1", "one producer, 1,000 B, acks=1", "acks=1", {"size": 1000, "acks": "1"}, profiles=("all",)),
    producing("produce-16-partitions", "eight producers, 1,000 B, 16 partitions", "16 partitions", {"size": 1000, "producers": 8},
              partitions=16, profiles=("all",)),
    producing("produce-1000-partitions", "eight producers, 100 B, 1,000 partitions", "1,000 partitions", {"size": 100, "producers": 8},
              partitions=1000, profiles=("all",), files=5000),
    producing("produce-lz4", "one producer, JSON of 1,000 B, lz4", "lz4", {"size": 1000, "compression": "lz4"}, profiles=("all",)),
    producing("produce-zstd", "one producer, JSON of 1,000 B, zstd", "zstd", {"size": 1000, "compression": "zstd"}, profiles=("all",)),
)

REPLAYED = (
    Scenario("replay-1mb", "replayed 1 MB batches of 100 B, 4 connections", "1 MB batches", "replay", ALL, REPLAY,
             "Recorded batches sent again by four connections to a partition each: the client costs nothing.",
             {"batch": 1000000, "size": 100, "connections": 4}, (
                 at_least("mb_per_s", "brokerd", 1.4, "kafka-flush"), at_most("cpu_s_per_gb", "brokerd", 1.3),
                 at_least("mb_per_s", "brokerd-relaxed", 2.0, "kafka"), at_most("cpu_s_per_gb", "brokerd-relaxed", 1.0)), partitions=4, disk_gb=6),
    Scenario("replay-16k", "replayed 16 KB batches of 100 B, 4 connections", "16 KB batches", "replay", ALL, REPLAY,
             "The same with batches of 16 KB, 147 records.", {"batch": 16384, "size": 100, "connections": 4}, (
                 at_least("mb_per_s", "brokerd", 3.0, "kafka-flush"), at_least("mb_per_s", "brokerd-relaxed", 4.0, "kafka"),
                 at_most("cpu_s_per_gb", "brokerd", 0.2, "kafka"), at_most("cpu_s_per_gb", "brokerd-relaxed", 0.2, "kafka")),
             profiles=EVERY, partitions=4, disk_gb=4),
    Scenario("replay-one", "replayed requests of one record, 4 connections", "one record", "replay", ALL,
             ("requests_per_s", "cpu_us_per_request", "p99_ms"), "The same with one record of 100 B a request.",
             {"batch": 1, "size": 100, "connections": 4}, (
                 at_least("requests_per_s", "brokerd", 3.5, "kafka-flush"), at_most("cpu_us_per_request", "brokerd", 45),
                 at_least("requests_per_s", "brokerd-relaxed", 4.5, "kafka"), at_most("cpu_us_per_request", "brokerd-relaxed", 15)), partitions=4),
    Scenario("replay-lz4", "replayed lz4 batches of JSON, 4 connections", "lz4 batches", "replay", ALL,
             ("records_per_s", "cpu_us_per_record", "mb_per_s", "p99_ms"), "The same with batches of JSON that lz4 has compressed; MB are compressed ones.",
             {"batch": 1000000, "size": 100, "compression": "lz4", "connections": 4}, (
                 at_least("records_per_s", "brokerd", 2.5, "kafka-flush"), at_least("records_per_s", "brokerd-relaxed", 5.0, "kafka"),
                 at_most("cpu_us_per_record", "brokerd", 0.15, "kafka"), at_most("cpu_us_per_record", "brokerd-relaxed", 0.15, "kafka")), partitions=4),
)

READING = (
    Scenario("consume-100", "librdkafka consumes 100 B from the start", "consume 100 B", "consume", READERS, READ,
             "One librdkafka consumer reads what is in the page cache: at this size only it counts.", {"size": 100, "fill_mb": 400},
             (at_most("cpu_s_per_gb", "brokerd", 0.35, "kafka"),)),
    Scenario("consume-1000", "librdkafka consumes 1,000 B from the start", "consume 1,000 B", "consume", READERS, READ,
             "One librdkafka consumer reads what is in the page cache.", {"size": 1000, "fill_mb": 1200},
             (at_least("mb_per_s", "brokerd", 1.15, "kafka"), at_most("cpu_s_per_gb", "brokerd", 0.4, "kafka")), profiles=EVERY),
    Scenario("drain-1", "drained by bare fetches, one connection", "drain, 1", "drain", READERS, READ[:2],
             "Fetches one after the other; records are read into memory, but only batch headers are looked at.", {"size": 1000, "fill_mb": 1200, "connections": 1},
             (at_least("mb_per_s", "brokerd", 1.5, "kafka"), at_most("cpu_s_per_gb", "brokerd", 0.55, "kafka"))),
    Scenario("drain-4", "drained by bare fetches, 4 connections", "drain, 4", "drain", READERS, READ[:2],
             "The same by four connections at a time.", {"size": 1000, "fill_mb": 1200, "connections": 4},
             (at_least("mb_per_s", "brokerd", 1.4, "kafka"), at_most("cpu_s_per_gb", "brokerd", 0.55, "kafka"))),
    Scenario("fan-out-10", "ten consumers read the same from the start", "fan out, 10", "consume", READERS, READ,
             "Ten librdkafka consumers in one process, each of all of it.", {"size": 1000, "fill_mb": 400, "consumers": 10}, profiles=("all",)),
    Scenario("follow", "a consumer that follows: from producer to consumer", "follow", "follow", ALL, ("p50_ms", "p99_ms", "kept_up", "msgs_per_s", "cpu_us_per_request"),
             "One producer at a fixed rate, linger 0, and a consumer at the end; from when a message was due until it was read.",
             {"size": 100, "rate": 1000, "acks": "all", "linger": 0}, profiles=("all",)),
    Scenario("cold-read", "cold reads while a producer goes on", "cold read", "cold_read", ALL, ("mb_per_s", "cpu_s_per_gb", "producer_p99_ms"),
             "A consumer reads from the start what was dropped from the page cache, beside a producer of 1,000 requests a second.",
             {"size": 1000, "fill_mb": 1500, "rate": 1000}, profiles=("all",), disk_gb=8),
)

LATENCIES = (
    Scenario("latency-1000", "1,000 requests a second, linger 0", "1,000/s", "latency", ALL, LATENCY,
             "One producer at a fixed rate, a request each message; from when it was due until it was acknowledged.",
             {"size": 100, "rate": 1000, "acks": "all", "linger": 0},
             (at_most("p50_ms", "brokerd-relaxed", 0.2), at_most("p99_ms", "brokerd-relaxed", 1.5),
              at_most("p50_ms", "brokerd", 0.65), at_most("p99_ms", "brokerd", 4.0)), profiles=EVERY, seconds=2),
    Scenario("latency-10000", "10,000 requests a second, linger 0", "10,000/s", "latency", ALL, LATENCY, "The same at ten times the rate.",
             {"size": 100, "rate": 10000, "acks": "all", "linger": 0},
             (at_least("kept_up", "brokerd", 0.98), at_most("p99_ms", "brokerd", 20.0), at_least("kept_up", "brokerd-relaxed", 0.98))),
    Scenario("latency-one", "one request in flight", "one in flight", "latency_one", ALL, ("p50_ms", "p99_ms", "requests_per_s", "cpu_us_per_request"),
             "The next request is sent when the last one is acknowledged.", {"size": 100},
             (at_most("p50_ms", "brokerd-relaxed", 0.06), at_most("p99_ms", "brokerd-relaxed", 0.15),
              at_most("p50_ms", "brokerd", 0.35), at_most("p99_ms", "brokerd", 0.65))),
    *(Scenario(f"rate-{rate}", f"{rate:,} requests a second, linger 0", f"{rate:,}/s", "latency", ALL, LATENCY, "As latency-1000.",
               {"size": 100, "rate": rate, "acks": "all", "linger": 0}, profiles=("all",)) for rate in (200, 500, 2000, 5000, 20000)),
    Scenario("commit", "offset commits, a hundred members", "commits", "commit", READERS, ("commits_per_s", "cpu_us_per_request", "p99_ms", "helper_cores"),
             "Members that commit one after the other as fast as they are answered.", {"members": 100}, profiles=("all",)),
)

PERF_TOOLS = (
    Scenario("perf-produce-100", "kafka-producer-perf-test, 100 B", "perf-test 100 B", "perf_produce", ALL, ("mb_per_s", "cpu_s_per_gb", "p99_ms"),
             "Kafka's own tool and client, for those who trust only them.", {"size": 100, "acks": "all"}, profiles=("all",)),
    Scenario("perf-produce-1000", "kafka-producer-perf-test, 1,000 B", "perf-test 1,000 B", "perf_produce", ALL, ("mb_per_s", "cpu_s_per_gb", "p99_ms"),
             "Kafka's own tool and client, for those who trust only them.", {"size": 1000, "acks": "all"}, profiles=("all",)),
    Scenario("perf-consume-1000", "kafka-consumer-perf-test, 1,000 B", "perf-test consumes", "perf_consume", READERS, ("mb_per_s", "cpu_s_per_gb"),
             "Kafka's own tool and client, from the start.", {"size": 1000, "fill_mb": 1200}, profiles=("all",)),
)


def of_three(name, title, short, measure, metrics, how, settings, goals, **more):
    return Scenario(name, title, short, measure, ALL, metrics, how, {"acks": "all", **settings}, goals, nodes=3, memory_gb=6, **more)


THREE = (
    *(of_three(f"rf3-{size}", f"three brokers, RF 3, {size:,} B", f"RF 3, {size:,} B", "produce", THROUGHPUT,
               "One librdkafka producer; CPU is that of the three brokers.", {"size": size, "linger": 5},
               (at_least("mb_per_s", "brokerd", 1.5, "kafka"), at_most("cpu_s_per_gb", "brokerd", 0.25, "kafka")), disk_gb=5) for size in (100, 1000)),
    of_three("rf3-latency", "RF 3, 1,000 requests a second", "RF 3, 1,000/s", "latency", LATENCY, "As latency-1000 on three brokers.",
             {"size": 100, "rate": 1000, "linger": 0}, (at_least("kept_up", "brokerd", 0.98), at_most("p99_ms", "brokerd", 1.0, "kafka")), seconds=2),
)


def files_of(count):
    """Open files of a process that has so many logs or connections: one each, and some more."""
    return count * 3 // 2 + 1000


def lifecycle(name, title, short, measure, metrics, how, settings=None, goals=(), **more):
    return Scenario(name, title, short, measure, READERS, metrics, how, settings or {}, goals, **more)


LIFE = (
    lifecycle("start", "start with no data, and idle", "start", "start", START, "From the start of the process until clients are answered; memory and CPU after that.",
              goals=(at_most("start_s", "brokerd", 0.1), at_most("memory_mib", "brokerd", 15))),
    lifecycle("failover", "the leader is killed, 200 messages a second", "failover", "failover", ("stall_s",),
              "Three brokers, RF 3, acks=all; SIGKILL to the leader of the partition, which is not the controller; the longest time that a message waited.",
              {"rate": 200, "whom": "leader"}, (at_most("stall_s", "brokerd", 1.0),), nodes=3, memory_gb=6),
    lifecycle("failover-controller", "the leader is killed, and it was the controller", "controller", "failover", ("stall_s",),
              "The same when the leader is the controller, too.", {"rate": 200, "whom": "controller"}, (at_most("stall_s", "brokerd", 1.0),),
              profiles=("all",), nodes=3, memory_gb=6),
    *(lifecycle(f"failover-{count}", f"the leader is killed, among {count:,} partitions", f"failover, {count:,}", "failover", ("stall_s",),
                "The same among many partitions that nobody uses.", {"rate": 200, "whom": "leader", "others": count}, profiles=("all",), nodes=3,
                memory_gb=8, most_pairs=3, files=files_of(count)) for count in (1000, 10000)),
    *(lifecycle(f"partitions-{count}", f"start, stop and recovery with {count:,} partition{'s' if count > 1 else ''}", f"{count:,} partitions", "partitions", PARTITIONS,
                "Start after a clean stop and after SIGKILL, until the last partition is led; memory after that.", {"count": count},
                (at_most("start_s", "brokerd", 1.0),) if count > 1000 else (), profiles=("all",), most_pairs=3, memory_gb=4, files=files_of(count))
      for count in (1, 1000, 10000)),
    lifecycle("connections-10000", "memory with 10,000 idle connections", "10,000 connections", "connections", ("memory_mib", "idle_cores"),
              "Resident memory while so many clients are connected and say nothing.", {"count": 10000}, profiles=("all",), most_pairs=3, files=files_of(10000)),
)


def growth(name, title, measure, unit, metrics, how, sizes, columns=("brokerd",), **more):
    return Scenario(name, title, name, measure, columns, metrics, how, profiles=("all",), sizes=sizes, unit=unit, **more)


SIZES = (100, 1000, 10000)
GROWTH = (
    growth("growth-partitions", "one more partition", "grow_partitions", "partitions", ("memory_mib", "helper_mib", "idle_cores", "p50_ms", "cpu_us_per_request"),
           "Partitions that nobody uses; p50 and CPU are of 1,000 requests a second to another topic.", SIZES, READERS, files=files_of(SIZES[-1]), memory_gb=4),
    growth("growth-topics", "one more topic", "grow_topics", "topics", ("memory_mib", "helper_mib", "idle_cores", "p50_ms", "cpu_us_per_request"),
           "Topics of one partition, otherwise as growth-partitions.", SIZES, files=files_of(SIZES[-1])),
    growth("growth-connections", "one more connection", "grow_connections", "connections", ("memory_mib", "idle_cores", "p50_ms", "cpu_us_per_request"),
           "Connections that say nothing; p50 and CPU are of 1,000 requests a second on another one.", SIZES, READERS, files=files_of(SIZES[-1])),
    growth("growth-groups", "one more group", "grow_groups", "groups", ("memory_mib", "helper_mib", "idle_cores", "p50_ms", "cpu_us_per_request"),
           "Groups of one member that has joined, otherwise as growth-connections.", SIZES),
    growth("growth-clients", "one more client that sends", "grow_clients", "clients", ("requests_per_s", "cpu_us_per_request", "p99_ms", "memory_mib"),
           "So many connections that each send one record a request, one request in flight, fsync.", (1, 10, 100, 1000), settings={"batch": 1, "size": 100}, files=3000),
)

SCENARIOS = PRODUCE + REPLAYED + READING + LATENCIES + PERF_TOOLS + THREE + LIFE + GROWTH
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
