/*
 * rdload.c: one librdkafka client under load, to measure a broker with.
 *
 *     rdload produce BOOTSTRAP TOPIC COUNT SIZE [key=value ...]     one producer, as fast as it goes
 *     rdload consume BOOTSTRAP TOPIC COUNT SIZE [key=value ...]     one consumer of all partitions from the start
 *
 * key=value are librdkafka's settings (acks=all, linger.ms=5, compression.codec=lz4).  Prints one line of JSON:
 * {"messages":N,"bytes":B,"seconds":S,"failed":F}; B counts values only.  Ends by itself after 120 s without progress.
 */
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum
{
	STALL_MS = 120 * 1000
};

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

typedef struct Count
{
	int64_t done, failed;
} Count;

static void
on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *msg, void *opaque)
{
	Count *count = opaque;

	(void) rk;
	if (msg->err == RD_KAFKA_RESP_ERR_NO_ERROR)
		count->done++;
	else
		count->failed++;
}

static void
fail(const char *what, const char *why)
{
	fprintf(stderr, "rdload: %s: %s\n", what, why);
	exit(1);
}

static rd_kafka_conf_t *
make_conf(int argc, char **argv)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char err[256];

	for (int i = 6; i < argc; i++)
	{
		char *eq = strchr(argv[i], '=');

		if (eq == NULL)
			fail("a setting must be key=value", argv[i]);
		*eq = '\0';
		if (rd_kafka_conf_set(conf, argv[i], eq + 1, err, sizeof(err)) != RD_KAFKA_CONF_OK)
			fail(argv[i], err);
		*eq = '=';
	}
	if (rd_kafka_conf_set(conf, "bootstrap.servers", argv[2], err, sizeof(err)) != RD_KAFKA_CONF_OK)
		fail("bootstrap.servers", err);
	return conf;
}

static void
report(int64_t done, int64_t failed, int64_t size, double seconds)
{
	printf("{\"messages\":%" PRId64 ",\"bytes\":%" PRId64 ",\"seconds\":%.3f,\"failed\":%" PRId64 "}\n", done,
		   done * size, seconds, failed);
}

static void
produce(rd_kafka_conf_t *conf, const char *topic, int64_t count, size_t size)
{
	Count done = {0};
	char err[256];
	char *value = malloc(size + 1);
	rd_kafka_t *rk;
	rd_kafka_topic_t *rkt;
	double start;

	rd_kafka_conf_set_opaque(conf, &done);
	rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
	rd_kafka_conf_set(conf, "queue.buffering.max.messages", "500000", NULL, 0);
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, err, sizeof(err));
	if (rk == NULL)
		fail("producer", err);
	rkt = rd_kafka_topic_new(rk, topic, NULL);
	for (size_t i = 0; i < size; i++)
		value[i] = (char) ('a' + (int) (i * 7919 % 26));
	start = now();
	for (int64_t i = 0; i < count; i++)
		while (rd_kafka_produce(rkt, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, value, size, NULL, 0,
								NULL) != 0)
			rd_kafka_poll(rk, 10);
	rd_kafka_flush(rk, STALL_MS);
	report(done.done, done.failed + count - done.done - done.failed, (int64_t) size, now() - start);
	rd_kafka_topic_destroy(rkt);
	rd_kafka_destroy(rk);
	free(value);
}

static int32_t
partition_count(rd_kafka_t *rk, rd_kafka_topic_t *rkt)
{
	const struct rd_kafka_metadata *md;
	int32_t n;
	rd_kafka_resp_err_t e = rd_kafka_metadata(rk, 0, rkt, &md, 10000);

	if (e != RD_KAFKA_RESP_ERR_NO_ERROR)
		fail("metadata", rd_kafka_err2str(e));
	n = md->topics[0].partition_cnt;
	rd_kafka_metadata_destroy(md);
	return n;
}

static void
consume(rd_kafka_conf_t *conf, const char *topic, int64_t count, size_t size)
{
	char err[256];
	rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, err, sizeof(err));
	rd_kafka_topic_t *rkt;
	rd_kafka_queue_t *queue;
	rd_kafka_message_t *batch[1000];
	int64_t done = 0;
	int32_t n;
	double start, last;

	if (rk == NULL)
		fail("consumer", err);
	rkt = rd_kafka_topic_new(rk, topic, NULL);
	queue = rd_kafka_queue_new(rk);
	n = partition_count(rk, rkt);
	start = last = now();
	for (int32_t p = 0; p < n; p++)
		rd_kafka_consume_start_queue(rkt, p, RD_KAFKA_OFFSET_BEGINNING, queue);
	while (done < count && now() - last < STALL_MS / 1000.)
	{
		ssize_t got = rd_kafka_consume_batch_queue(queue, 100, batch, 1000);

		for (ssize_t i = 0; i < got; i++)
		{
			if (batch[i]->err == RD_KAFKA_RESP_ERR_NO_ERROR)
				done++;
			rd_kafka_message_destroy(batch[i]);
		}
		if (got > 0)
			last = now();
	}
	report(done, count - done, (int64_t) size, last - start);
	for (int32_t p = 0; p < n; p++)
		rd_kafka_consume_stop(rkt, p);
	rd_kafka_queue_destroy(queue);
	rd_kafka_topic_destroy(rkt);
	rd_kafka_destroy(rk);
}

int
main(int argc, char **argv)
{
	if (argc < 6)
	{
		fprintf(stderr, "usage: rdload produce|consume BOOTSTRAP TOPIC COUNT SIZE [key=value ...]\n");
		return 2;
	}
	if (strcmp(argv[1], "produce") == 0)
		produce(make_conf(argc, argv), argv[3], strtoll(argv[4], NULL, 10), strtoul(argv[5], NULL, 10));
	else
		consume(make_conf(argc, argv), argv[3], strtoll(argv[4], NULL, 10), strtoul(argv[5], NULL, 10));
	return 0;
}
