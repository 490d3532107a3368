/* consumer.c: see consumer.h. */
#include "bench/load/consumer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/load/producer.h"
#include "bench/load/rdk.h"

enum
{
	BATCH = 1000,
	WAIT_MS = 100,
	STALL_SECONDS = 60
};

static rd_kafka_conf_t *
consumer_conf(const Consumers *cs)
{
	const Settings *s = cs->settings;
	rd_kafka_conf_t *conf = rdk_conf(s);

	/* Without a group of its own it still needs a name; nothing is committed under it. */
	if (s->group != NULL)
		rdk_set(conf, "group.id", "%s", s->group);
	else
		rdk_set(conf, "group.id", "load-%d", (int) getpid());
	rdk_set(conf, "enable.auto.commit", "false");
	rdk_set(conf, "auto.offset.reset", "%s",
			s->from != NULL && strcmp(s->from, "end") == 0 ? "latest" : "earliest");
	if (cs->to_end)
		rdk_set(conf, "enable.partition.eof", "true");
	return conf;
}

static void
subscribe(rd_kafka_t *rk, const char *topic)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
	rd_kafka_resp_err_t e;

	rd_kafka_topic_partition_list_add(list, topic, RD_KAFKA_PARTITION_UA);
	e = rd_kafka_subscribe(rk, list);
	rd_kafka_topic_partition_list_destroy(list);
	if (e != RD_KAFKA_RESP_ERR_NO_ERROR)
		die("topic %s cannot be subscribed to: %s", topic, rd_kafka_err2str(e));
}

void
consumers_init(Consumers *cs, const Settings *s, bool from_end, bool stamped)
{
	memset(cs, 0, sizeof(*cs));
	cs->settings = s;
	cs->stamped = stamped;
	cs->to_end = !stamped && s->seconds == 0 && s->messages == 0;
	cs->n = (int) s->consumers;
	cs->list = calloc((size_t) cs->n, sizeof(*cs->list));
	if (cs->list == NULL)
		die("no memory for %d consumers", cs->n);
	for (int i = 0; i < cs->n; i++)
	{
		Consumer *c = &cs->list[i];

		c->all = cs;
		c->rk = rdk_new(RD_KAFKA_CONSUMER, consumer_conf(cs), s);
		rd_kafka_poll_set_consumer(c->rk);
		c->queue = rd_kafka_queue_get_consumer(c->rk);
		if (cs->partitions == 0)
			cs->partitions = rdk_topic(c->rk, s);
		if (s->group == NULL)
			c->positions = rdk_positions(c->rk, s->topic, cs->partitions, from_end);
	}
}

static void
note_error(Consumer *c, rd_kafka_resp_err_t e)
{
	if (e == RD_KAFKA_RESP_ERR__PARTITION_EOF)
		c->ends++;
	/* A lost connection is made again; whoever waits in vain ends as stalled. */
	else if (e != RD_KAFKA_RESP_ERR__TRANSPORT && e != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN &&
			 c->errors++ == 0)
		c->first_error = e;
}

static void
note_message(Consumer *c, const rd_kafka_message_t *msg, int64_t now)
{
	const Meter *m = c->all->meter;

	if (meter_in(m, now))
	{
		c->counted++;
		c->bytes += (int64_t) msg->len;
	}
	if (c->all->stamped && msg->len >= STAMP_SIZE)
	{
		int64_t due = stamp_of(msg->payload);

		if (meter_in(m, due))
			hist_record(&c->latency, now - due);
	}
}

/*
 * A stamped message is taken at once: the batch call waits until its batch is full or its time is over, which
 * only a stream without pauses does not notice.
 */
static ssize_t
take_messages(Consumer *c, rd_kafka_message_t **batch)
{
	if (!c->all->stamped)
		return rd_kafka_consume_batch_queue(c->queue, WAIT_MS, batch, BATCH);
	batch[0] = rd_kafka_consumer_poll(c->rk, WAIT_MS);
	return batch[0] == NULL ? 0 : 1;
}

static int64_t
read_of_all(Consumers *cs)
{
	int64_t sum = 0;

	for (int i = 0; i < cs->n; i++)
		sum += atomic_load_explicit(&cs->list[i].read, memory_order_relaxed);
	return sum;
}

static bool
has_enough(const Consumer *c, int64_t now)
{
	Consumers *cs = c->all;
	const Settings *s = cs->settings;

	if (atomic_load_explicit(&cs->finish, memory_order_acquire) || meter_stopped())
		return true;
	if (cs->stamped)
		return false;
	if (cs->to_end)
		return c->ends >= cs->partitions;
	if (s->messages > 0 && s->group != NULL)
		return read_of_all(cs) >= s->messages;
	if (s->messages > 0)
		return atomic_load_explicit(&c->read, memory_order_relaxed) >= s->messages;
	return now >= cs->meter->end;
}

/* Messages or ends of partitions are awaited, and nothing comes. */
static bool
is_stalled(const Consumer *c, int64_t now, int64_t heard)
{
	bool waits = c->all->to_end || (c->all->settings->messages > 0 && !c->all->stamped);

	return waits && now - heard > (int64_t) STALL_SECONDS * 1000000000;
}

static void
start_reading(Consumer *c)
{
	const Settings *s = c->all->settings;

	if (c->positions == NULL)
		subscribe(c->rk, s->topic);
	else if (rd_kafka_assign(c->rk, c->positions) != RD_KAFKA_RESP_ERR_NO_ERROR)
		die("the partitions of topic %s cannot be read", s->topic);
}

static void *
consumer_main(void *arg)
{
	Consumer *c = arg;
	rd_kafka_message_t *batch[BATCH];
	int64_t now, heard;

	meter_wait_start(c->all->meter);
	start_reading(c);
	now = heard = clock_ns();
	while (!has_enough(c, now) && !c->stalled)
	{
		ssize_t got = take_messages(c, batch);
		int64_t messages = 0;

		now = clock_ns();
		for (ssize_t i = 0; i < got; i++)
		{
			if (batch[i]->err == RD_KAFKA_RESP_ERR_NO_ERROR)
			{
				note_message(c, batch[i], now);
				messages++;
			}
			else
				note_error(c, batch[i]->err);
			rd_kafka_message_destroy(batch[i]);
		}
		if (messages > 0)
		{
			atomic_fetch_add_explicit(&c->read, messages, memory_order_relaxed);
			c->last = heard = now;
			if (c->first == 0)
				c->first = now;
		}
		c->stalled = is_stalled(c, now, heard);
	}
	return NULL;
}

void
consumers_start(Consumers *cs, Meter *meter)
{
	cs->meter = meter;
	for (int i = 0; i < cs->n; i++)
	{
		Consumer *c = &cs->list[i];

		if (pthread_create(&c->thread, NULL, consumer_main, c) != 0)
			die("a thread cannot be started");
	}
}

void
consumers_finish(Consumers *cs, int64_t messages, double seconds)
{
	int64_t until = clock_ns() + (int64_t) (seconds * 1e9);

	while (clock_ns() < until && read_of_all(cs) < messages * cs->n && !meter_stopped())
		clock_sleep_until(clock_ns() + 10 * 1000000);
	atomic_store_explicit(&cs->finish, true, memory_order_release);
}

void
consumers_join(Consumers *cs)
{
	for (int i = 0; i < cs->n; i++)
	{
		Consumer *c = &cs->list[i];

		pthread_join(c->thread, NULL);
		cs->read += atomic_load(&c->read);
		cs->counted += c->counted;
		cs->bytes += c->bytes;
		cs->errors += c->errors;
		cs->stalled = cs->stalled || c->stalled;
		if (c->last > cs->last)
			cs->last = c->last;
		if (c->first > 0 && (cs->first == 0 || c->first < cs->first))
			cs->first = c->first;
		if (cs->first_error == RD_KAFKA_RESP_ERR_NO_ERROR)
			cs->first_error = c->first_error;
		hist_add(&cs->latency, &c->latency);
	}
}

void
consumers_free(Consumers *cs)
{
	for (int i = 0; i < cs->n; i++)
	{
		Consumer *c = &cs->list[i];

		rd_kafka_queue_destroy(c->queue);
		if (c->positions != NULL)
			rd_kafka_topic_partition_list_destroy(c->positions);
		rd_kafka_consumer_close(c->rk);
		rd_kafka_destroy(c->rk);
	}
	free(cs->list);
}
