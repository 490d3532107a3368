/*
 * replay_drain.c: bare fetches; of what comes only the headers of the batches are looked at.
 *
 * One fetch in flight a connection, as a consumer does it.  A large batch's records are thrown away in the kernel
 * (MSG_TRUNC), without a copy to this program; --copy reads them, as every real consumer must.
 *
 *     answer     [size][fixed head][aborted transactions][replica, length][batch header][skipped …][batch header] …
 *     states      SIZE  HEAD        ABORTED               TAIL             BATCH         SKIP       BATCH
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "bench/load/dial.h"
#include "bench/load/replay.h"
#include "bench/load/replay_cluster.h"
#include "bench/load/replay_spread.h"
#include "wire/batch.h"
#include "wire/errors.h"
#include "wire/messages.h"

enum
{
	VERSION = 11,
	IN_SIZE = 64 << 10,
	IN_FEW = 4 << 10,               /* what is read at once where batches are large */
	SKIP_LEAST = 32 << 10,          /* bytes that are worth a call of their own */
	HEAD_FIXED = 4 + 4 + 2 + 4 + 4, /* correlation id, throttle time, error, session, topics */
	HEAD_PARTITION =
		4 + 4 + 2 + 8 + 8 + 8 + 4, /* partitions, index, error, HW, LSO, start, aborted transactions */
	ABORTED_SIZE = 16,
	TAIL_SIZE = 8, /* preferred replica, length of the records */
	MIN_BYTES = 1,
	EVENTS = 64
};

typedef enum State
{
	SIZE,
	HEAD,
	ABORTED,
	TAIL,
	BATCH,
	SKIP,
	ANSWERED
} State;

typedef struct Conn
{
	int fd;
	const Share *share;
	int turn;       /* of its partitions */
	int64_t round;  /* how often it has read them all */
	int64_t offset; /* to fetch next */
	int64_t end;    /* the high watermark that the last answer told */
	int64_t asked;  /* when */
	int64_t left;   /* bytes of records still to come */
	int64_t skip;   /* bytes to throw away, then `next` */
	State state, next;
	int32_t large; /* size of the last batch */
	size_t start, have;
	uint8_t *in;
} Conn;

typedef struct Drain
{
	const Settings *settings;
	Meter meter;
	Conn *conns;
	int n, open;
	int epoll;
	size_t topic_len;
	uint8_t *scratch;
	int64_t requests, records, batches, bytes; /* within the measured time */
	int64_t last;
	Hist latency;
} Drain;

static void
ask(Drain *d, Conn *c)
{
	FetchRequestTopicsPartitions partition = {.partition = c->share->partitions[c->turn],
											  .current_leader_epoch = -1,
											  .fetch_offset = c->offset,
											  .log_start_offset = -1,
											  .partition_max_bytes = (int32_t) d->settings->max_bytes};
	FetchRequestTopics topic = {
		.topic = wstr(d->settings->topic), .partitions = &partition, .n_partitions = 1};
	FetchRequest request;
	WireWriter w;
	size_t start;

	WIRE_INIT(FetchRequest, &request);
	request.max_wait_ms = (int32_t) d->settings->max_wait;
	request.min_bytes = MIN_BYTES;
	request.topics = &topic;
	request.n_topics = 1;
	wire_writer_init(&w);
	start = wire_request_begin(&w, wire_api(API_FETCH), VERSION, 0, WSTR_LIT("replay"));
	if (wire_encode(&FetchRequest_desc, VERSION, &w, &request) != 0)
		die("a Fetch request cannot be made");
	wire_frame_end(&w, start);
	/* A socket whose answers have all been read has room for a request. */
	if (send(c->fd, w.buf, w.len, MSG_NOSIGNAL) != (ssize_t) w.len)
		die("the connection to the broker broke: %s", strerror(errno));
	wire_writer_free(&w);
	c->asked = clock_ns();
	c->state = SIZE;
}

/* Bytes that the state needs before anything can be done. */
static size_t
needed(const Drain *d, const Conn *c)
{
	switch (c->state)
	{
		case SIZE:
			return 4;
		case HEAD:
			return HEAD_FIXED + 2 + d->topic_len + HEAD_PARTITION;
		case TAIL:
			return TAIL_SIZE;
		case BATCH:
			return BATCH_HEADER_SIZE;
		case ABORTED:
		case SKIP:
		case ANSWERED:
			break;
	}
	return 0;
}

static void
skip(Conn *c, int64_t bytes, State next)
{
	c->skip = bytes;
	c->state = SKIP;
	c->next = next;
}

static void
read_head(Drain *d, Conn *c, const uint8_t *p)
{
	const uint8_t *q = p + HEAD_FIXED + 2 + d->topic_len;
	int16_t error = (int16_t) get_be16(p + 8);
	int32_t aborted;

	if (error == 0 && get_be32(p + 14) == 1)
		error = (int16_t) get_be16(q + 8);
	else if (error == 0)
		die("an answer to Fetch without the topic");
	if (error != 0)
		die("partition %d of topic %s cannot be read: %s", c->share->partitions[c->turn], d->settings->topic,
			kerr_name(error));
	c->end = (int64_t) get_be64(q + 10);
	aborted = (int32_t) get_be32(q + 34);
	skip(c, aborted > 0 ? (int64_t) aborted * ABORTED_SIZE : 0, TAIL);
}

/* A batch that is cut off at the end of the answer is not counted, and fetched again. */
static void
read_batch(Drain *d, Conn *c, const uint8_t *batch, int64_t now)
{
	int64_t size = batch_size(batch);

	if (size < BATCH_HEADER_SIZE)
		die("partition %d of topic %s: a batch of %lld bytes at offset %lld", c->share->partitions[c->turn],
			d->settings->topic, (long long) size, (long long) c->offset);
	if (size > c->left)
		size = c->left;
	else if (batch_next_offset(batch) > c->offset)
	{
		c->offset = batch_next_offset(batch);
		if (meter_in(&d->meter, now))
		{
			d->records += batch_count(batch);
			d->batches++;
		}
	}
	c->large = (int32_t) size;
	c->left -= size;
	skip(c, size - BATCH_HEADER_SIZE, BATCH);
}

static void
use(Drain *d, Conn *c, const uint8_t *p, int64_t now)
{
	switch (c->state)
	{
		case SIZE:
			c->state = HEAD;
			break;
		case HEAD:
			read_head(d, c, p);
			break;
		case TAIL:
			c->left = (int32_t) get_be32(p + 4) < 0 ? 0 : (int64_t) (int32_t) get_be32(p + 4);
			if (meter_in(&d->meter, now))
				d->bytes += c->left;
			c->state = BATCH;
			break;
		case BATCH:
			read_batch(d, c, p, now);
			break;
		case ABORTED:
		case SKIP:
		case ANSWERED:
			break;
	}
}

/* What is in the buffer.  Returns at the end of an answer or where more bytes are needed. */
static void
consume(Drain *d, Conn *c, int64_t now)
{
	for (;;)
	{
		size_t n = needed(d, c);

		if (c->state == SKIP)
		{
			size_t gone = (int64_t) c->have < c->skip ? c->have : (size_t) c->skip;

			c->start += gone;
			c->have -= gone;
			c->skip -= (int64_t) gone;
			if (c->skip > 0)
				return;
			c->state = c->next;
			continue;
		}
		/* Less than a header is a batch that was cut off. */
		if (c->state == BATCH && c->left < BATCH_HEADER_SIZE)
		{
			int64_t rest = c->left;

			c->left = 0;
			if (rest == 0)
				c->state = ANSWERED;
			else
				skip(c, rest, ANSWERED);
			continue;
		}
		if (c->state == ANSWERED || c->have < n)
			return;
		c->start += n;
		c->have -= n;
		use(d, c, c->in + c->start - n, now);
	}
}

/* False: the socket has no more now. */
static bool
receive(Drain *d, Conn *c)
{
	size_t most = c->large > SKIP_LEAST ? IN_FEW : IN_SIZE;
	ssize_t n;

	if (c->state == SKIP && c->have == 0 && c->skip >= SKIP_LEAST)
	{
		n = d->settings->copy
				? recv(c->fd, d->scratch, c->skip < IN_SIZE * 16 ? (size_t) c->skip : IN_SIZE * 16, 0)
				: recv(c->fd, NULL, (size_t) c->skip, MSG_TRUNC);
		if (n > 0)
			c->skip -= n;
	}
	else
	{
		/* Half a header goes to the front of the buffer. */
		memmove(c->in, c->in + c->start, c->have);
		c->start = 0;
		n = recv(c->fd, c->in + c->have, most - c->have, 0);
		if (n > 0)
			c->have += (size_t) n;
	}
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0)
		die("the connection to the broker broke: %s", n == 0 ? "it was closed" : strerror(errno));
	return true;
}

static void
close_conn(Drain *d, Conn *c)
{
	dial_close(c->fd);
	c->fd = -1;
	d->open--;
}

/* The next fetch: of this partition, of the next one, of the first one again, or none. */
static void
go_on(Drain *d, Conn *c, int64_t now)
{
	const Settings *s = d->settings;

	d->last = now;
	if (meter_in(&d->meter, now))
	{
		d->requests++;
		hist_record(&d->latency, now - c->asked);
	}
	if (c->offset >= c->end)
	{
		c->offset = 0;
		c->turn = (c->turn + 1) % c->share->n;
		c->round += c->turn == 0;
	}
	if (now >= d->meter.end || meter_stopped() || (d->meter.end == INT64_MAX && c->round >= s->times))
		close_conn(d, c);
	else
		ask(d, c);
}

static void
on_readable(Drain *d, Conn *c)
{
	int64_t now;

	/* Not more than an answer a turn, so that every connection gets its share. */
	while (c->fd >= 0 && receive(d, c))
	{
		now = clock_ns();
		consume(d, c, now);
		if (c->state == ANSWERED)
		{
			go_on(d, c, now);
			break;
		}
	}
}

static void
open_conns(Drain *d, const Cluster *cluster, const Share *shares)
{
	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	d->conns = calloc((size_t) d->n, sizeof(*d->conns));
	d->scratch = malloc(IN_SIZE * 16);
	if (d->epoll < 0 || d->conns == NULL || d->scratch == NULL)
		die("no memory for %d connections", d->n);
	for (int i = 0; i < d->n; i++)
	{
		Conn *c = &d->conns[i];
		const ClusterPartition *p = &cluster->partitions[shares[i].partitions[0]];
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};

		c->share = &shares[i];
		c->in = malloc(IN_SIZE);
		if (c->in == NULL)
			die("no memory for %d connections", d->n);
		c->fd = dial_host(p->host, p->port);
		fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
		if (epoll_ctl(d->epoll, EPOLL_CTL_ADD, c->fd, &event) != 0)
			die("epoll: %s", strerror(errno));
		d->open++;
	}
}

static void
measure(Drain *d)
{
	Meter *m = &d->meter;
	bool closed = false;

	for (int i = 0; i < d->n; i++)
		ask(d, &d->conns[i]);
	while (d->open > 0 && !meter_stopped() && !closed)
	{
		struct epoll_event events[EVENTS];
		int n = epoll_wait(d->epoll, events, EVENTS, 20);
		int64_t now = clock_ns();

		if (n < 0 && errno != EINTR)
			die("epoll: %s", strerror(errno));
		if (!m->opened && now >= m->begin)
			meter_open(m);
		for (int i = 0; i < n; i++)
			on_readable(d, events[i].data.ptr);
		closed = clock_ns() >= m->end;
	}
	if (!m->opened)
		meter_open(m);
	meter_close(m, closed ? m->end : d->last > 0 ? d->last : clock_ns());
}

static void
print_drained(const Replay *replay, const Drain *d)
{
	const Meter *m = &d->meter;
	Result r;

	replay_begin_result(&r, replay);
	result_rates(&r, m, d->records, d->bytes);
	result_requests(&r, m, d->requests, d->records);
	result_int(&r, "batches", d->batches);
	result_int(&r, "errors", 0);
	result_costs(&r, m);
	result_latency(&r, "latency_us", &d->latency);
	result_end(&r);
}

/* An empty partition would be asked for ever. */
static void
check_not_empty(const Cluster *cluster, const Settings *s)
{
	int64_t records = 0;

	for (int i = 0; i < cluster->n; i++)
		if (s->partition < 0 || s->partition == i)
			records += cluster->partitions[i].end;
	if (records == 0)
		die("topic %s is empty: there is nothing to drain", s->topic);
}

int
replay_drain(const Replay *replay)
{
	const Settings *s = &replay->settings;
	Drain *d = calloc(1, sizeof(*d));
	Cluster cluster;
	Share *shares;

	if (d == NULL)
		die("no memory");
	d->settings = s;
	d->n = (int) s->connections;
	d->topic_len = strlen(s->topic);
	meter_init(&d->meter, s->watch);
	cluster_load(&cluster, s->bootstrap, s->topic);
	cluster_ends(&cluster, s->topic);
	check_not_empty(&cluster, s);
	shares = spread(&cluster, d->n, s->partition);
	open_conns(d, &cluster, shares);
	meter_start(&d->meter, s->warmup, s->times > 0 ? 0 : s->seconds);
	measure(d);
	print_drained(replay, d);
	for (int i = 0; i < d->n; i++)
	{
		if (d->conns[i].fd >= 0)
			close_conn(d, &d->conns[i]);
		free(d->conns[i].in);
	}
	dial_close(d->epoll);
	free(d->conns);
	free(d->scratch);
	free(d);
	spread_free(shares, (int) s->connections);
	cluster_free(&cluster);
	return meter_stopped() ? 130 : 0;
}
