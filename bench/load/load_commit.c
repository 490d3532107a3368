/*
 * load_commit.c: groups that commit offsets.
 *
 * Each of the groups is an instance of librdkafka that never joins anything: it commits as a consumer does
 * whose partitions were given to it by hand, all partitions of the topic at once, the next when the last was
 * answered.  At a rate, commit k of all is due k/rate after the start and belongs to group k mod n.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/load/hist.h"
#include "bench/load/load.h"
#include "bench/load/meter.h"
#include "bench/load/rdk.h"
#include "bench/load/result.h"

typedef struct Member
{
	const Settings *settings;
	Meter *meter;
	rd_kafka_t *rk;
	rd_kafka_topic_partition_list_t *offsets;
	int index;
	int64_t counted, done, last, failed;
	rd_kafka_resp_err_t first_error;
	Hist latency;
	pthread_t thread;
} Member;

static void
commit_once(Member *m, int64_t due)
{
	rd_kafka_resp_err_t e;
	int64_t now;

	for (int i = 0; i < m->offsets->cnt; i++)
	{
		m->offsets->elems[i].offset = m->done + 1;
		m->offsets->elems[i].err = RD_KAFKA_RESP_ERR_NO_ERROR;
	}
	e = rd_kafka_commit(m->rk, m->offsets, 0);
	now = clock_ns();
	m->done++;
	m->last = now;
	if (e != RD_KAFKA_RESP_ERR_NO_ERROR && m->failed++ == 0)
		m->first_error = e;
	if (e == RD_KAFKA_RESP_ERR_NO_ERROR && meter_in(m->meter, now))
		m->counted++;
	if (e == RD_KAFKA_RESP_ERR_NO_ERROR && meter_in(m->meter, due))
		hist_record(&m->latency, now - due);
}

static void *
member_main(void *arg)
{
	Member *m = arg;
	const Settings *s = m->settings;
	int64_t wanted =
		s->messages > 0 ? s->messages / s->members + (m->index < s->messages % s->members) : INT64_MAX;

	meter_wait_start(m->meter);
	for (int64_t k = 0; k < wanted; k++)
	{
		int64_t due = clock_ns();

		if (s->rate > 0)
		{
			due = m->meter->start + (int64_t) (((double) k * (double) s->members + m->index) / s->rate * 1e9);
			clock_sleep_until(due);
		}
		if (clock_ns() >= m->meter->end || meter_stopped())
			break;
		commit_once(m, due);
	}
	return NULL;
}

static Member *
make_members(const Settings *s, Meter *meter)
{
	Member *list = calloc((size_t) s->members, sizeof(*list));
	int32_t partitions = 0;

	if (list == NULL)
		die("no memory for %d groups", (int) s->members);
	for (int i = 0; i < s->members; i++)
	{
		Member *m = &list[i];
		rd_kafka_conf_t *conf = rdk_conf(s);

		rdk_set(conf, "group.id", "%s-%d", s->group != NULL ? s->group : "load-commit", i);
		rdk_set(conf, "enable.auto.commit", "false");
		m->settings = s;
		m->meter = meter;
		m->index = i;
		m->rk = rdk_new(RD_KAFKA_CONSUMER, conf, s);
		if (partitions == 0)
			partitions = rdk_topic(m->rk, s);
		m->offsets = rdk_positions(m->rk, s->topic, partitions, false);
	}
	return list;
}

/* Before the clock runs each group has found its coordinator; a broker that just started may still be without. */
static void
warm_up(Member *list, const Settings *s)
{
	for (int i = 0; i < s->members; i++)
	{
		int64_t until = clock_ns() + (int64_t) 30 * 1000000000;
		rd_kafka_resp_err_t e;

		list[i].offsets->elems[0].offset = 0;
		for (int p = 0; p < list[i].offsets->cnt; p++)
			list[i].offsets->elems[p].offset = 0;
		while ((e = rd_kafka_commit(list[i].rk, list[i].offsets, 0)) != RD_KAFKA_RESP_ERR_NO_ERROR)
		{
			if (clock_ns() > until || meter_stopped())
				die("offsets of group %d cannot be committed: %s", i, rd_kafka_err2str(e));
			clock_sleep_until(clock_ns() + 50 * 1000000);
		}
	}
}

static Member
join_members(Member *list, const Settings *s)
{
	Member sum = {.settings = s};

	for (int i = 0; i < s->members; i++)
	{
		Member *m = &list[i];

		pthread_join(m->thread, NULL);
		sum.counted += m->counted;
		sum.failed += m->failed;
		if (m->last > sum.last)
			sum.last = m->last;
		if (sum.first_error == RD_KAFKA_RESP_ERR_NO_ERROR)
			sum.first_error = m->first_error;
		hist_add(&sum.latency, &m->latency);
	}
	return sum;
}

static void
free_members(Member *list, const Settings *s)
{
	for (int i = 0; i < s->members; i++)
	{
		rd_kafka_topic_partition_list_destroy(list[i].offsets);
		rd_kafka_consumer_close(list[i].rk);
		rd_kafka_destroy(list[i].rk);
	}
	free(list);
}

int
load_commit(const Load *load)
{
	const Settings *s = &load->settings;
	Member *list, sum;
	int partitions;
	Result r;
	Meter m;

	meter_init(&m, s->watch);
	list = make_members(s, &m);
	partitions = list[0].offsets->cnt;
	warm_up(list, s);
	for (int i = 0; i < s->members; i++)
		if (pthread_create(&list[i].thread, NULL, member_main, &list[i]) != 0)
			die("a thread cannot be started");
	meter_start(&m, s->warmup, s->messages > 0 ? 0 : s->seconds);
	meter_open(&m);
	if (s->messages == 0)
		meter_close(&m, 0);
	sum = join_members(list, s);
	if (s->messages > 0)
		meter_close(&m, sum.last > 0 ? sum.last : clock_ns());
	result_begin(&r, load->mode);
	result_settings(&r, load->usage, load->mode, s);
	result_text(&r, "librdkafka", rd_kafka_version_str());
	/* A commit is the message here, and has no bytes to speak of. */
	result_rates(&r, &m, sum.counted, 0);
	result_int(&r, "offsets", sum.counted * partitions);
	result_int(&r, "errors", sum.failed);
	result_text(&r, "first_error", sum.failed > 0 ? rd_kafka_err2str(sum.first_error) : NULL);
	result_costs(&r, &m);
	result_latency(&r, "latency_us", &sum.latency);
	result_end(&r);
	free_members(list, s);
	if (sum.failed > 0)
		fprintf(stderr, "load: %lld commits failed; the first: %s\n", (long long) sum.failed,
				rd_kafka_err2str(sum.first_error));
	return meter_stopped() ? 130 : sum.failed > 0;
}
