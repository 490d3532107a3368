/* rdk.c: see rdk.h. */
#include "bench/load/rdk.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "bench/load/dial.h"
#include "bench/load/meter.h"

enum
{
	ASK_MS = 10000,
	LEADERS_SECONDS = 60
};

rd_kafka_conf_t *
rdk_conf(const Settings *s)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();

	rdk_set(conf, "bootstrap.servers", "%s", s->bootstrap);
	rdk_set(conf, "client.id", "load");
	/* Its log tells of every lost connection; what matters comes back as errors of messages. */
	rd_kafka_conf_set_log_cb(conf, NULL);
	return conf;
}

void
rdk_set(rd_kafka_conf_t *conf, const char *key, const char *format, ...)
{
	char value[512], why[256];
	va_list args;

	va_start(args, format);
	vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	if (rd_kafka_conf_set(conf, key, value, why, sizeof(why)) != RD_KAFKA_CONF_OK)
		die_usage("%s", why);
}

rd_kafka_t *
rdk_new(rd_kafka_type_t type, rd_kafka_conf_t *conf, const Settings *s)
{
	rd_kafka_t *rk;
	char why[256];

	for (int i = 0; i < s->extra.n; i++)
	{
		const char *equals = strchr(s->extra.text[i], '=');
		char key[128];

		snprintf(key, sizeof(key), "%.*s", (int) (equals - s->extra.text[i]), s->extra.text[i]);
		rdk_set(conf, key, "%s", equals + 1);
	}
	rk = rd_kafka_new(type, conf, why, sizeof(why));
	if (rk == NULL)
		die("%s", why);
	return rk;
}

void
rdk_check_bootstrap(const char *bootstrap)
{
	dial_close(dial_any(bootstrap));
}

int32_t
rdk_partition_count(rd_kafka_t *rk, const char *topic, bool *all_led)
{
	rd_kafka_topic_t *rkt = rd_kafka_topic_new(rk, topic, NULL);
	const struct rd_kafka_metadata *md;
	rd_kafka_resp_err_t e = rd_kafka_metadata(rk, 0, rkt, &md, ASK_MS);
	int32_t n = -1;

	rd_kafka_topic_destroy(rkt);
	if (e != RD_KAFKA_RESP_ERR_NO_ERROR)
		die("no metadata of topic %s: %s", topic, rd_kafka_err2str(e));
	*all_led = false;
	if (md->topic_cnt == 1 && md->topics[0].err == RD_KAFKA_RESP_ERR_NO_ERROR &&
		md->topics[0].partition_cnt > 0)
	{
		n = md->topics[0].partition_cnt;
		*all_led = true;
		for (int32_t p = 0; p < n; p++)
			if (md->topics[0].partitions[p].leader < 0)
				*all_led = false;
	}
	rd_kafka_metadata_destroy(md);
	return n;
}

/* Ask the admin API one thing about one topic; the error of the answer. */
static rd_kafka_resp_err_t
ask_topic(rd_kafka_t *rk, rd_kafka_NewTopic_t *new_topic, rd_kafka_DeleteTopic_t *old_topic, char *why,
		  size_t size)
{
	rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
	const rd_kafka_topic_result_t **results = NULL;
	rd_kafka_resp_err_t e = RD_KAFKA_RESP_ERR__TIMED_OUT;
	rd_kafka_event_t *event;
	size_t n = 0;

	if (new_topic != NULL)
		rd_kafka_CreateTopics(rk, &new_topic, 1, NULL, queue);
	else
		rd_kafka_DeleteTopics(rk, &old_topic, 1, NULL, queue);
	event = rd_kafka_queue_poll(queue, 3 * ASK_MS);
	snprintf(why, size, "no answer within %d s", 3 * ASK_MS / 1000);
	if (event != NULL)
	{
		e = rd_kafka_event_error(event);
		snprintf(why, size, "%s", rd_kafka_event_error_string(event));
		if (e == RD_KAFKA_RESP_ERR_NO_ERROR && new_topic != NULL)
			results = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n);
		else if (e == RD_KAFKA_RESP_ERR_NO_ERROR)
			results = rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), &n);
		if (n == 1)
		{
			const char *text = rd_kafka_topic_result_error_string(results[0]);

			e = rd_kafka_topic_result_error(results[0]);
			snprintf(why, size, "%s", text == NULL ? rd_kafka_err2str(e) : text);
		}
		rd_kafka_event_destroy(event);
	}
	rd_kafka_queue_destroy(queue);
	return e;
}

static void
make_topic(rd_kafka_t *rk, const Settings *s)
{
	char why[512];
	rd_kafka_resp_err_t e;
	rd_kafka_NewTopic_t *topic =
		rd_kafka_NewTopic_new(s->topic, (int) s->partitions, (int) s->replication, why, sizeof(why));

	if (topic == NULL)
		die("topic %s cannot be made: %s", s->topic, why);
	for (int i = 0; i < s->topic_config.n; i++)
	{
		const char *equals = strchr(s->topic_config.text[i], '=');
		char key[128];

		snprintf(key, sizeof(key), "%.*s", (int) (equals - s->topic_config.text[i]), s->topic_config.text[i]);
		rd_kafka_NewTopic_set_config(topic, key, equals + 1);
	}
	e = ask_topic(rk, topic, NULL, why, sizeof(why));
	rd_kafka_NewTopic_destroy(topic);
	if (e != RD_KAFKA_RESP_ERR_NO_ERROR && e != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
		die("topic %s cannot be made: %s", s->topic, why);
}

void
rdk_delete_topic(rd_kafka_t *rk, const char *name)
{
	rd_kafka_DeleteTopic_t *topic = rd_kafka_DeleteTopic_new(name);
	char why[512];

	if (ask_topic(rk, NULL, topic, why, sizeof(why)) != RD_KAFKA_RESP_ERR_NO_ERROR)
		die("topic %s cannot be deleted: %s", name, why);
	rd_kafka_DeleteTopic_destroy(topic);
}

int32_t
rdk_topic(rd_kafka_t *rk, const Settings *s)
{
	int64_t until = clock_ns() + (int64_t) LEADERS_SECONDS * 1000000000;
	bool all_led;
	int32_t n = -1;

	if (s->partitions > 0)
		make_topic(rk, s);
	for (;;)
	{
		n = rdk_partition_count(rk, s->topic, &all_led);
		if (n < 0 && s->partitions == 0)
			die("topic %s is not there; --partitions N makes it", s->topic);
		if (n > 0 && s->partitions > 0 && n != s->partitions)
			die("topic %s has %d partitions, not the %d that are asked for", s->topic, n,
				(int) s->partitions);
		if (n > 0 && all_led)
			return n;
		if (clock_ns() > until || meter_stopped())
			die("topic %s: not every partition had a leader within %d s", s->topic, LEADERS_SECONDS);
		clock_sleep_until(clock_ns() + 20 * 1000000);
	}
}

rd_kafka_topic_partition_list_t *
rdk_positions(rd_kafka_t *rk, const char *topic, int32_t partitions, bool from_end)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);

	for (int32_t p = 0; p < partitions; p++)
	{
		rd_kafka_topic_partition_t *at = rd_kafka_topic_partition_list_add(list, topic, p);
		int64_t low, high;
		rd_kafka_resp_err_t e;

		at->offset = RD_KAFKA_OFFSET_BEGINNING;
		if (!from_end)
			continue;
		e = rd_kafka_query_watermark_offsets(rk, topic, p, &low, &high, ASK_MS);
		if (e != RD_KAFKA_RESP_ERR_NO_ERROR)
			die("no end offset of partition %d of topic %s: %s", p, topic, rd_kafka_err2str(e));
		at->offset = high;
	}
	return list;
}
