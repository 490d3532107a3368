/* producer.c: see producer.h. */
#include "bench/load/producer.h"

#include <errno.h>
#include <stdlib.h>

#include "bench/load/rdk.h"

enum
{
	QUEUE_MESSAGES = 500000, /* of all producers together */
	QUEUE_LEAST = 10000,
	CLOCK_EVERY = 16, /* messages, where none waits for its moment */
	REPORTS_EVERY = 256
};

static rd_kafka_conf_t *
producer_conf(const Settings *s)
{
	rd_kafka_conf_t *conf = rdk_conf(s);
	int64_t queue = QUEUE_MESSAGES / s->producers;

	rdk_set(conf, "acks", "%s", s->acks);
	rdk_set(conf, "linger.ms", "%g", s->linger);
	rdk_set(conf, "compression.codec", "%s", s->compression);
	rdk_set(conf, "enable.idempotence", "%s", s->idempotence ? "true" : "false");
	rdk_set(conf, "queue.buffering.max.messages", "%lld",
			(long long) (queue < QUEUE_LEAST ? QUEUE_LEAST : queue));
	if (s->batch_size > 0)
		rdk_set(conf, "batch.size", "%lld", (long long) s->batch_size);
	if (s->inflight > 0)
		rdk_set(conf, "max.in.flight", "%lld", (long long) s->inflight);
	rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR);
	return conf;
}

void
producers_init(Producers *ps, const Settings *s, bool stamped)
{
	memset(ps, 0, sizeof(*ps));
	if (stamped && s->size < STAMP_SIZE)
		die_usage("--size must be at least %d, which the time stamp takes", STAMP_SIZE);
	payload_init(&ps->payload, s->payload, (size_t) s->size);
	ps->n = (int) s->producers;
	ps->list = calloc((size_t) ps->n, sizeof(*ps->list));
	if (ps->list == NULL)
		die("no memory for %d producers", ps->n);
	for (int i = 0; i < ps->n; i++)
	{
		Producer *p = &ps->list[i];
		bool all_led;

		p->settings = s;
		p->payload = &ps->payload;
		p->index = i;
		p->stamped = stamped;
		p->rk = rdk_new(RD_KAFKA_PRODUCER, producer_conf(s), s);
		/*
		 * The first makes the topic where that is wanted, before any handle of it asks for its metadata, which
		 * makes topics, too, with as many partitions as the broker likes.  All know them before the clock runs.
		 */
		if (i == 0)
			rdk_topic(p->rk, s);
		p->rkt = rd_kafka_topic_new(p->rk, s->topic, NULL);
		p->queue = rd_kafka_queue_get_main(p->rk);
		if (i > 0)
			rdk_partition_count(p->rk, s->topic, &all_led);
	}
}

static void
note_delivery(Producer *p, int64_t due, int64_t now)
{
	p->delivered++;
	if (p->last > p->meter->begin && now < p->meter->end && now - p->last > p->longest_gap)
		p->longest_gap = now - p->last;
	p->last = now;
	if (meter_in(p->meter, now))
		p->counted++;
	if (meter_in(p->meter, due))
		hist_record(&p->latency, now - due);
}

/* Delivery reports come many at a time, and one look at the clock is enough for those of one time. */
static void
take_reports(Producer *p, int timeout_ms)
{
	rd_kafka_event_t *event = rd_kafka_queue_poll(p->queue, timeout_ms);

	while (event != NULL)
	{
		int64_t now = clock_ns();
		const rd_kafka_message_t *msg;

		while ((msg = rd_kafka_event_message_next(event)) != NULL)
		{
			p->answered++;
			if (msg->err == RD_KAFKA_RESP_ERR_NO_ERROR)
				note_delivery(p, (int64_t) (intptr_t) msg->_private, now);
			else if (p->failed++ == 0)
				p->first_error = msg->err;
		}
		rd_kafka_event_destroy(event);
		event = rd_kafka_queue_poll(p->queue, 0);
	}
}

static int64_t
sent_so_far(Producer *p)
{
	return atomic_load_explicit(&p->sent, memory_order_relaxed);
}

/* False: the queue is full.  Values of the pool are sent as they lie there; a stamped one is written for itself. */
static bool
send_one(Producer *p, int64_t due)
{
	int64_t n = sent_so_far(p);
	uint8_t *value = payload_at(p->payload, n * p->settings->producers + p->index);
	uint8_t stamped[4096];
	uint8_t *copy = NULL;
	size_t size = p->payload->size;
	bool taken;

	if (p->stamped)
	{
		copy = size <= sizeof(stamped) ? stamped : malloc(size);
		if (copy == NULL)
			die("no memory for a message");
		memcpy(copy, value, size);
		memcpy(copy, &due, STAMP_SIZE);
		value = copy;
	}
	taken = rd_kafka_produce(p->rkt, RD_KAFKA_PARTITION_UA, p->stamped ? RD_KAFKA_MSG_F_COPY : 0, value, size,
							 NULL, 0, (void *) (intptr_t) due) == 0;
	if (copy != NULL && copy != stamped)
		free(copy);
	if (!taken && errno != ENOBUFS)
		die("a message cannot be sent: %s", rd_kafka_err2str(rd_kafka_last_error()));
	if (taken)
		atomic_store_explicit(&p->sent, n + 1, memory_order_relaxed);
	return taken;
}

/* The share of producer `index` of so many messages in all. */
static int64_t
share_of(const Settings *s, int index, int64_t messages)
{
	return messages / s->producers + (index < messages % s->producers ? 1 : 0);
}

static bool
sending_ends(const Producer *p, int64_t now)
{
	return now >= p->meter->end || meter_stopped();
}

/* As fast as it goes; this thread takes the reports, too. */
static void
send_freely(Producer *p)
{
	const Settings *s = p->settings;
	int64_t wanted = s->messages > 0 ? share_of(s, p->index, s->messages) : INT64_MAX;
	int64_t now = clock_ns();

	for (int64_t i = 1; sent_so_far(p) < wanted && !sending_ends(p, now); i++)
	{
		bool waits = s->outstanding > 0 && sent_so_far(p) - p->answered >= s->outstanding;

		waits = waits || !send_one(p, now);
		if (waits)
			take_reports(p, 10);
		else if (i % REPORTS_EVERY == 0)
			take_reports(p, 0);
		if (waits || s->outstanding > 0 || i % CLOCK_EVERY == 0)
			now = clock_ns();
	}
}

static void *
reaper_main(void *arg)
{
	Producer *p = arg;

	while (!atomic_load_explicit(&p->sending_done, memory_order_acquire))
		take_reports(p, 50);
	return NULL;
}

/* What is due is still sent after the end: times without those that waited longest would be too good. */
static bool
gives_up(const Producer *p, int64_t now)
{
	return meter_stopped() || now - (int64_t) (p->settings->drain * 1e9) >= p->meter->end;
}

/* Each at its moment.  Another thread takes the reports: this one sleeps until the next is due. */
static void
send_at_rate(Producer *p)
{
	const Settings *s = p->settings;
	int64_t wanted = s->messages > 0 ? share_of(s, p->index, s->messages) : INT64_MAX;
	pthread_t reaper;

	if (pthread_create(&reaper, NULL, reaper_main, p) != 0)
		die("a thread cannot be started");
	for (int64_t k = 0; k < wanted; k++)
	{
		int64_t due = p->meter->start +
					  (int64_t) (((double) k * (double) s->producers + (double) p->index) / s->rate * 1e9);
		bool ends = due >= p->meter->end;

		if (!ends && due > clock_ns())
			clock_sleep_until(due);
		while (!ends && !send_one(p, due))
		{
			clock_sleep_until(clock_ns() + 1000000);
			ends = gives_up(p, clock_ns());
		}
		if (ends && due < p->meter->end && !meter_stopped())
			p->unsent =
				(int64_t) ((double) (p->meter->end - due) / 1e9 * s->rate / (double) s->producers) + 1;
		if (ends || meter_stopped())
			break;
	}
	atomic_store_explicit(&p->sending_done, true, memory_order_release);
	pthread_join(reaper, NULL);
}

static void *
producer_main(void *arg)
{
	Producer *p = arg;
	int64_t until;

	meter_wait_start(p->meter);
	if (p->settings->rate > 0)
		send_at_rate(p);
	else
		send_freely(p);
	until = clock_ns() + (int64_t) (p->settings->drain * 1e9);
	while (p->answered < sent_so_far(p) && clock_ns() < until && !meter_stopped())
		take_reports(p, 100);
	return NULL;
}

void
producers_start(Producers *ps, Meter *meter)
{
	for (int i = 0; i < ps->n; i++)
	{
		ps->list[i].meter = meter;
		if (pthread_create(&ps->list[i].thread, NULL, producer_main, &ps->list[i]) != 0)
			die("a thread cannot be started");
	}
}

void
producers_join(Producers *ps)
{
	for (int i = 0; i < ps->n; i++)
	{
		Producer *p = &ps->list[i];

		pthread_join(p->thread, NULL);
		ps->counted += p->counted;
		ps->delivered += p->delivered;
		/* What has no answer after the time for that has failed, unless somebody stopped it all. */
		if (!meter_stopped())
			ps->failed += p->failed + sent_so_far(p) - p->answered;
		ps->unsent += p->unsent;
		if (p->last > ps->last)
			ps->last = p->last;
		if (p->longest_gap > ps->longest_gap)
			ps->longest_gap = p->longest_gap;
		if (ps->first_error == RD_KAFKA_RESP_ERR_NO_ERROR)
			ps->first_error = p->first_error;
		hist_add(&ps->latency, &p->latency);
	}
	if (ps->failed > 0 && ps->first_error == RD_KAFKA_RESP_ERR_NO_ERROR)
		ps->first_error = RD_KAFKA_RESP_ERR__TIMED_OUT;
}

void
producers_free(Producers *ps)
{
	for (int i = 0; i < ps->n; i++)
	{
		Producer *p = &ps->list[i];

		/* Nobody waits for what is still in its queue. */
		rd_kafka_purge(p->rk,
					   RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
		rd_kafka_queue_destroy(p->queue);
		rd_kafka_topic_destroy(p->rkt);
		rd_kafka_destroy(p->rk);
	}
	free(ps->list);
	payload_free(&ps->payload);
}
