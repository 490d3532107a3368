/* load_modes.c: produce, consume, end-to-end, and the making of topics.  See load.h. */
#include <stdio.h>

#include "bench/load/consumer.h"
#include "bench/load/load.h"
#include "bench/load/producer.h"
#include "bench/load/rdk.h"
#include "bench/load/result.h"

/* The exit code of a run: 130 as the shell has it for Ctrl-C, 1 with a sentence when messages were lost. */
static int
ending(int64_t errors, const char *what, rd_kafka_resp_err_t first)
{
	if (meter_stopped())
		return 130;
	if (errors == 0)
		return 0;
	fprintf(stderr, "load: %lld %s; the first: %s\n", (long long) errors, what, rd_kafka_err2str(first));
	return 1;
}

static void
begin_result(Result *r, const Load *load)
{
	result_begin(r, load->mode);
	result_settings(r, load->usage, load->mode, &load->settings);
	result_text(r, "librdkafka", rd_kafka_version_str());
}

/* A number of messages ends when the last was answered, a time when it is over. */
static void
measure_producers(Producers *ps, Meter *m, const Settings *s)
{
	producers_start(ps, m);
	meter_start(m, s->warmup, s->messages > 0 ? 0 : s->seconds);
	meter_open(m);
	if (m->end == INT64_MAX)
	{
		producers_join(ps);
		meter_close(m, ps->last > 0 ? ps->last : clock_ns());
	}
	else
	{
		meter_close(m, 0);
		producers_join(ps);
	}
}

int
load_produce(const Load *load)
{
	const Settings *s = &load->settings;
	Producers ps;
	Result r;
	Meter m;
	int code;

	meter_init(&m, s->watch);
	producers_init(&ps, s, false);
	measure_producers(&ps, &m, s);
	begin_result(&r, load);
	result_rates(&r, &m, ps.counted, ps.counted * s->size);
	result_int(&r, "errors", ps.failed);
	result_text(&r, "first_error", ps.failed > 0 ? rd_kafka_err2str(ps.first_error) : NULL);
	result_int(&r, "unsent", ps.unsent);
	result_real(&r, "longest_gap_us", (double) ps.longest_gap / 1e3, 1);
	result_costs(&r, &m);
	result_latency(&r, "latency_us", &ps.latency);
	result_end(&r);
	code = ending(ps.failed, "messages were not acknowledged", ps.first_error);
	producers_free(&ps);
	return code;
}

int
load_consume(const Load *load)
{
	const Settings *s = &load->settings;
	bool to_last = s->messages > 0 || s->seconds == 0;
	Consumers cs;
	Result r;
	Meter m;
	int code;

	meter_init(&m, s->watch);
	consumers_init(&cs, s, s->from[0] == 'e', false);
	consumers_start(&cs, &m);
	meter_start(&m, s->warmup, to_last ? 0 : s->seconds);
	meter_open(&m);
	if (!to_last)
		meter_close(&m, 0);
	consumers_join(&cs);
	if (to_last)
		meter_close(&m, cs.last > 0 ? cs.last : clock_ns());
	begin_result(&r, load);
	result_rates(&r, &m, cs.counted, cs.bytes);
	result_int(&r, "errors", cs.errors + cs.stalled);
	result_text(&r, "first_error", cs.errors > 0 ? rd_kafka_err2str(cs.first_error) : NULL);
	result_real(&r, "first_message_us", cs.first > 0 ? (double) (cs.first - m.start) / 1e3 : 0, 1);
	result_costs(&r, &m);
	result_latency(&r, "latency_us", &cs.latency);
	result_end(&r);
	code = ending(cs.errors, "errors while consuming", cs.first_error);
	if (cs.stalled && code == 0)
	{
		fprintf(stderr, "load: %lld messages were read, then nothing came for a minute\n",
				(long long) cs.read);
		code = 1;
	}
	consumers_free(&cs);
	return code;
}

int
load_end_to_end(const Load *load)
{
	const Settings *s = &load->settings;
	int64_t missing;
	Producers ps;
	Consumers cs;
	Result r;
	Meter m;
	int code;

	meter_init(&m, s->watch);
	/* The producers first: they make the topic.  The consumers start at its end, so that nothing older is read. */
	producers_init(&ps, s, true);
	consumers_init(&cs, s, true, true);
	consumers_start(&cs, &m);
	measure_producers(&ps, &m, s);
	consumers_finish(&cs, ps.delivered, s->drain);
	consumers_join(&cs);
	missing = meter_stopped() ? 0 : ps.delivered * cs.n - cs.read;
	begin_result(&r, load);
	result_rates(&r, &m, cs.counted, cs.bytes);
	result_int(&r, "errors", ps.failed + cs.errors + (missing > 0 ? missing : 0));
	result_text(&r, "first_error",
				ps.failed > 0   ? rd_kafka_err2str(ps.first_error)
				: cs.errors > 0 ? rd_kafka_err2str(cs.first_error)
				: missing > 0   ? "acknowledged messages were not read"
								: NULL);
	result_int(&r, "unsent", ps.unsent);
	result_costs(&r, &m);
	result_latency(&r, "latency_us", &cs.latency);
	result_latency(&r, "ack_latency_us", &ps.latency);
	result_end(&r);
	code = ending(ps.failed, "messages were not acknowledged", ps.first_error);
	if (missing > 0 && code == 0)
	{
		fprintf(stderr, "load: %lld acknowledged messages were not read within %g s\n", (long long) missing,
				s->drain);
		code = 1;
	}
	if (code == 0)
		code = ending(cs.errors, "errors while consuming", cs.first_error);
	consumers_free(&cs);
	producers_free(&ps);
	return code;
}

/* One client for what is asked once. */
static rd_kafka_t *
admin_client(const Settings *s)
{
	return rdk_new(RD_KAFKA_PRODUCER, rdk_conf(s), s);
}

int
load_create_topic(const Load *load)
{
	rd_kafka_t *rk = admin_client(&load->settings);
	int64_t begun = clock_ns();
	Result r;

	rdk_topic(rk, &load->settings);
	begin_result(&r, load);
	result_real(&r, "seconds", (double) (clock_ns() - begun) / 1e9, 3);
	result_end(&r);
	rd_kafka_destroy(rk);
	return 0;
}

int
load_delete_topic(const Load *load)
{
	rd_kafka_t *rk = admin_client(&load->settings);
	int64_t begun = clock_ns();
	Result r;

	rdk_delete_topic(rk, load->settings.topic);
	begin_result(&r, load);
	result_real(&r, "seconds", (double) (clock_ns() - begun) / 1e9, 3);
	result_end(&r);
	rd_kafka_destroy(rk);
	return 0;
}
