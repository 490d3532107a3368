/*
 * replay_produce.c: batches as Produce requests, over connections with several requests in flight each.
 *
 * Large batches go from a file without a name to the socket by sendfile, small ones are copied behind one
 * another into one send: a client that costs next to nothing, so that the broker is what is measured.
 *
 *     out   [head][small batch][head][small batch][head] + the large batch in the file
 *
 * Closed loop: a connection sends as long as fewer than `window` of its requests are unanswered.  Open loop:
 * request k of all is due k/rate after the start and belongs to connection k mod n; one that waits for the
 * window counts from when it was due.  With acks=0 a request is answered once the socket has taken it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>

#include "bench/load/dial.h"
#include "bench/load/replay.h"
#include "bench/load/replay_batches.h"
#include "bench/load/replay_cluster.h"
#include "bench/load/replay_spread.h"
#include "wire/bytes.h"
#include "wire/errors.h"
#include "wire/messages.h"

enum
{
	VERSION = 7,
	SMALL = 32 << 10, /* bytes of a batch that is copied */
	OUT_SIZE = 256 << 10,
	IN_SIZE = 64 << 10,
	BATCHES_MOST = 512 << 20,
	TIMEOUT_MS = 30000,
	DRAIN_SECONDS = 30,
	CORRELATION_AT = 8,
	EVENTS = 64
};

typedef struct Pending
{
	int64_t due;
	int32_t bytes, records;
} Pending;

typedef struct Conn
{
	int fd;
	int index;
	const Share *share;
	int turn;      /* of its partitions */
	int batch;     /* the next one */
	int64_t begun; /* requests so far; also the next correlation id */
	int64_t answered;
	Pending *pending; /* a ring of `window` */
	int64_t file_at;  /* of a large batch on its way */
	int32_t file_left;
	size_t out_start, out_end;
	size_t in_len;
	bool wants_room; /* waits until the socket takes more */
	uint8_t *out;
	uint8_t *in;
} Conn;

typedef struct Run
{
	const Settings *settings;
	Meter meter;
	Batches batches;
	Conn *conns;
	int n;
	int epoll;
	int acks;
	uint8_t *head; /* of a request, up to the length of its records */
	size_t head_len;
	int64_t limit; /* bytes to send in all */
	int64_t sent_bytes;
	int64_t requests, records, bytes; /* answered within the measured time */
	int64_t unanswered;
	int64_t last;
	bool sending;
	Arena arena;
	Hist latency;
} Run;

static void
make_head(Run *run, const char *topic)
{
	ProduceRequestTopicDataPartitionData partition = {.records = {.len = 1, .hole = run}};
	ProduceRequestTopicData data = {.name = wstr(topic), .partition_data = &partition, .n_partition_data = 1};
	ProduceRequest request;
	WireWriter w;

	WIRE_INIT(ProduceRequest, &request);
	request.acks = (int16_t) run->acks;
	request.timeout_ms = TIMEOUT_MS;
	request.topic_data = &data;
	request.n_topic_data = 1;
	wire_writer_init(&w);
	wire_request_begin(&w, wire_api(API_PRODUCE), VERSION, 0, WSTR_LIT("replay"));
	if (wire_encode(&ProduceRequest_desc, VERSION, &w, &request) != 0)
		die("a Produce request cannot be made");
	run->head_len = w.len;
	run->head = malloc(w.len);
	if (run->head == NULL)
		die("no memory for a request");
	memcpy(run->head, w.buf, w.len);
	wire_writer_free(&w);
}

/* The head's last eight bytes are the partition and the length of its records. */
static void
put_head(Run *run, Conn *c, const Batch *batch)
{
	uint8_t *at = c->out + c->out_end;

	memcpy(at, run->head, run->head_len);
	put_be32(at, (uint32_t) (run->head_len - 4) + (uint32_t) batch->size);
	put_be32(at + CORRELATION_AT, (uint32_t) c->begun);
	put_be32(at + run->head_len - 8, (uint32_t) c->share->partitions[c->turn]);
	put_be32(at + run->head_len - 4, (uint32_t) batch->size);
	c->out_end += run->head_len;
}

static int64_t
next_due(const Run *run, const Conn *c)
{
	return run->meter.start + (int64_t) (((double) c->begun * run->n + c->index) / run->settings->rate * 1e9);
}

/* May it begin another request now?  Then `due` is when it should. */
static bool
may_begin(const Run *run, const Conn *c, int64_t now, int64_t *due)
{
	const Batch *batch = &run->batches.list[c->batch];
	size_t room = run->head_len + (batch->size <= SMALL ? (size_t) batch->size : 0);

	if (!run->sending || c->begun - c->answered >= run->settings->window || c->file_left > 0 ||
		OUT_SIZE - c->out_end < room)
		return false;
	*due = run->settings->rate > 0 ? next_due(run, c) : now;
	return *due <= now && *due < run->meter.end && run->sent_bytes < run->limit;
}

static void
begin_request(Run *run, Conn *c, int64_t due)
{
	const Batch *batch = &run->batches.list[c->batch];

	put_head(run, c, batch);
	if (batch->size <= SMALL)
	{
		memcpy(c->out + c->out_end, run->batches.bytes + batch->at, (size_t) batch->size);
		c->out_end += (size_t) batch->size;
	}
	else
	{
		c->file_at = batch->at;
		c->file_left = batch->size;
	}
	c->pending[c->begun % run->settings->window] =
		(Pending){.due = due, .bytes = batch->size, .records = batch->records};
	c->begun++;
	c->batch = (c->batch + 1) % run->batches.n;
	c->turn = (c->turn + 1) % c->share->n;
	run->sent_bytes += batch->size;
}

static void
note_answer(Run *run, Conn *c, int64_t now)
{
	const Pending *p = &c->pending[c->answered++ % run->settings->window];

	run->last = now;
	if (meter_in(&run->meter, now))
	{
		run->requests++;
		run->records += p->records;
		run->bytes += p->bytes;
	}
	if (meter_in(&run->meter, p->due))
		hist_record(&run->latency, now - p->due);
}

static bool
is_sent(const Conn *c)
{
	return c->out_start == c->out_end && c->file_left == 0;
}

/* False: the socket takes no more now. */
static bool
flush_conn(Run *run, Conn *c)
{
	while (!is_sent(c))
	{
		bool from_file = c->out_start == c->out_end;
		off_t at = c->file_at;
		ssize_t n = from_file ? sendfile(c->fd, run->batches.fd, &at, (size_t) c->file_left)
							  : send(c->fd, c->out + c->out_start, c->out_end - c->out_start,
									 MSG_NOSIGNAL | MSG_DONTWAIT | (c->file_left > 0 ? MSG_MORE : 0));

		if (n < 0 && errno == EAGAIN)
			return false;
		if (n <= 0)
			die("the connection to the broker broke: %s", strerror(errno));
		if (from_file)
		{
			c->file_at += n;
			c->file_left -= (int32_t) n;
		}
		else
			c->out_start += (size_t) n;
	}
	c->out_start = c->out_end = 0;
	if (run->acks == 0)
		for (int64_t now = clock_ns(); c->answered < c->begun;)
			note_answer(run, c, now);
	return true;
}

static void
want_room(const Run *run, Conn *c, bool wants)
{
	struct epoll_event event = {.events = EPOLLIN | (wants ? (unsigned) EPOLLOUT : 0U), .data.ptr = c};

	if (c->wants_room != wants && epoll_ctl(run->epoll, EPOLL_CTL_MOD, c->fd, &event) != 0)
		die("epoll: %s", strerror(errno));
	c->wants_room = wants;
}

/* Begin and send what may be, until the window or the socket is full. */
static void
push(Run *run, Conn *c)
{
	int64_t due;
	bool room = flush_conn(run, c);

	while (room)
	{
		int64_t now = clock_ns();
		bool any = false;

		while (may_begin(run, c, now, &due))
		{
			begin_request(run, c, due);
			any = true;
		}
		if (!any)
			break;
		room = flush_conn(run, c);
	}
	want_room(run, c, !room);
}

static void
read_answer(Run *run, Conn *c, const uint8_t *frame, size_t len, int64_t now)
{
	ProduceResponse response;
	WireReader body;
	int32_t correlation;
	int16_t error;

	arena_reset(&run->arena);
	if (wire_response_header_decode(frame, len, wire_api(API_PRODUCE), VERSION, &correlation, &body) != 0 ||
		wire_decode(&ProduceResponse_desc, VERSION, &body, &run->arena, &response) != 0 ||
		response.n_responses != 1 || response.responses[0].n_partition_responses != 1 ||
		correlation != (int32_t) c->answered || c->answered == c->begun)
		die("an answer to Produce cannot be read or belongs to no request");
	error = response.responses[0].partition_responses[0].error_code;
	if (error != 0)
		die("partition %d of topic %s refuses a batch: %s",
			response.responses[0].partition_responses[0].index, run->settings->topic, kerr_name(error));
	note_answer(run, c, now);
}

static void
pull(Run *run, Conn *c)
{
	size_t used = 0;
	int64_t now;
	ssize_t n = recv(c->fd, c->in + c->in_len, IN_SIZE - c->in_len, MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		die("the connection to the broker broke: %s", n == 0 ? "it was closed" : strerror(errno));
	now = clock_ns();
	c->in_len += (size_t) n;
	while (c->in_len - used >= 4)
	{
		size_t len = get_be32(c->in + used);

		if (len > IN_SIZE - 4)
			die("an answer to Produce of %zu bytes", len);
		if (c->in_len - used - 4 < len)
			break;
		read_answer(run, c, c->in + used + 4, len, now);
		used += 4 + len;
	}
	memmove(c->in, c->in + used, c->in_len - used);
	c->in_len -= used;
}

static void
open_conns(Run *run, const Cluster *cluster, const Share *shares)
{
	run->epoll = epoll_create1(EPOLL_CLOEXEC);
	run->conns = calloc((size_t) run->n, sizeof(*run->conns));
	if (run->epoll < 0 || run->conns == NULL)
		die("no memory for %d connections", run->n);
	for (int i = 0; i < run->n; i++)
	{
		Conn *c = &run->conns[i];
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};

		c->index = i;
		c->share = &shares[i];
		c->batch = (int) ((int64_t) run->batches.n * i / run->n);
		c->pending = calloc((size_t) run->settings->window, sizeof(*c->pending));
		c->out = malloc(OUT_SIZE);
		c->in = malloc(IN_SIZE);
		if (c->pending == NULL || c->out == NULL || c->in == NULL)
			die("no memory for %d connections", run->n);
		c->fd = dial_host(cluster->partitions[c->share->partitions[0]].host,
						  cluster->partitions[c->share->partitions[0]].port);
		fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
		if (epoll_ctl(run->epoll, EPOLL_CTL_ADD, c->fd, &event) != 0)
			die("epoll: %s", strerror(errno));
	}
}

static bool
all_answered(const Run *run)
{
	for (int i = 0; i < run->n; i++)
		if (run->conns[i].answered < run->conns[i].begun)
			return false;
	return true;
}

/* When there is something to do without an event: the next request's moment, or the end. */
static int64_t
next_wake(const Run *run, int64_t now)
{
	int64_t wake = now + 100 * 1000000;

	if (run->meter.end > now && run->meter.end < wake)
		wake = run->meter.end;
	for (int i = 0; run->sending && run->settings->rate > 0 && i < run->n; i++)
	{
		const Conn *c = &run->conns[i];
		int64_t due = next_due(run, c);

		if (c->begun - c->answered < run->settings->window && !c->wants_room && due < wake &&
			due < run->meter.end)
			wake = due;
	}
	return wake > now ? wake : now;
}

static void
turn(Run *run)
{
	struct epoll_event events[EVENTS];
	int64_t now = clock_ns();
	int64_t wait = next_wake(run, now) - now;
	struct timespec ts = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
	int n = epoll_pwait2(run->epoll, events, EVENTS, &ts, NULL);

	if (n < 0 && errno != EINTR)
		die("epoll: %s", strerror(errno));
	for (int i = 0; i < n; i++)
	{
		Conn *c = events[i].data.ptr;

		if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
			pull(run, c);
		push(run, c);
	}
	/* Those whose moment has come have no event of their own. */
	for (int i = 0; run->settings->rate > 0 && i < run->n; i++)
		if (!run->conns[i].wants_room)
			push(run, &run->conns[i]);
}

/*
 * A closed loop ends when it is time; an open one when all that was due by then has begun, since times without
 * those that waited longest would be too good.
 */
static bool
has_begun_all(const Run *run, int64_t now)
{
	if (run->sent_bytes >= run->limit || meter_stopped())
		return true;
	if (run->settings->rate == 0 || now < run->meter.end)
		return now >= run->meter.end;
	for (int i = 0; i < run->n; i++)
		if (next_due(run, &run->conns[i]) < run->meter.end)
			return false;
	return true;
}

/* Due by the end, and never begun: the broker was too slow for the rate. */
static int64_t
count_unsent(const Run *run)
{
	int64_t unsent = 0;

	for (int i = 0; run->settings->rate > 0 && run->limit == INT64_MAX && i < run->n; i++)
	{
		int64_t late = run->meter.end - next_due(run, &run->conns[i]);

		if (late > 0)
			unsent += (int64_t) ((double) late / 1e9 * run->settings->rate / run->n) + 1;
	}
	return unsent;
}

static void
measure(Run *run)
{
	Meter *m = &run->meter;
	bool closed = false;
	int64_t give_up = INT64_MAX;

	run->sending = true;
	for (int i = 0; i < run->n; i++)
		push(run, &run->conns[i]);
	for (;;)
	{
		int64_t now = clock_ns();

		if (!m->opened && (now >= m->begin || meter_stopped()))
			meter_open(m);
		if (run->sending && has_begun_all(run, now))
			run->sending = false;
		if (give_up == INT64_MAX && (now >= m->end || !run->sending))
			give_up = now + (int64_t) DRAIN_SECONDS * 1000000000;
		if (!closed && (now >= m->end || meter_stopped()))
		{
			meter_close(m, m->end < now ? m->end : now);
			closed = true;
		}
		if ((!run->sending && all_answered(run)) || now > give_up || meter_stopped())
			break;
		turn(run);
	}
	if (!closed)
		meter_close(m, run->last > 0 ? run->last : clock_ns());
}

static void
free_run(Run *run)
{
	for (int i = 0; i < run->n; i++)
	{
		run->unanswered += run->conns[i].begun - run->conns[i].answered;
		dial_close(run->conns[i].fd);
		free(run->conns[i].pending);
		free(run->conns[i].out);
		free(run->conns[i].in);
	}
	dial_close(run->epoll);
	free(run->conns);
	free(run->head);
	arena_free(&run->arena);
	batches_free(&run->batches);
}

static int
read_acks(const char *text)
{
	if (strcmp(text, "all") == 0 || strcmp(text, "-1") == 0)
		return -1;
	if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
		die_usage("--acks is 0, 1 or all, not \"%s\"", text);
	return text[0] - '0';
}

static void
print_produced(const Replay *replay, Run *run, int64_t unsent)
{
	Meter *m = &run->meter;
	Result r;

	replay_begin_result(&r, replay);
	result_rates(&r, m, run->records, run->bytes);
	result_requests(&r, m, run->requests, run->records);
	result_int(&r, "batches", run->batches.n);
	result_int(&r, "errors", m->interrupted ? 0 : run->unanswered);
	result_int(&r, "unsent", unsent);
	result_costs(&r, m);
	result_latency(&r, "latency_us", &run->latency);
	result_end(&r);
}

int
replay_produce(const Replay *replay)
{
	const Settings *s = &replay->settings;
	Run *run = calloc(1, sizeof(*run));
	Cluster cluster;
	Share *shares;
	int64_t unsent;
	int code = 0;

	if (run == NULL)
		die("no memory");
	run->settings = s;
	run->n = (int) s->connections;
	run->acks = read_acks(s->acks);
	run->limit = s->megabytes > 0 ? (int64_t) (s->megabytes * 1e6) : INT64_MAX;
	meter_init(&run->meter, s->watch);
	arena_init(&run->arena, 4096);
	batches_load(&run->batches, s->file, BATCHES_MOST);
	cluster_load(&cluster, s->bootstrap, s->topic);
	shares = spread(&cluster, run->n, s->partition);
	make_head(run, s->topic);
	open_conns(run, &cluster, shares);
	meter_start(&run->meter, s->warmup, s->megabytes > 0 ? 0 : s->seconds);
	measure(run);
	unsent = count_unsent(run);
	free_run(run);
	print_produced(replay, run, unsent);
	if (meter_stopped())
		code = 130;
	else if (run->unanswered > 0)
	{
		fprintf(stderr, "replay: %lld requests were not answered within %d s\n", (long long) run->unanswered,
				DRAIN_SECONDS);
		code = 1;
	}
	spread_free(shares, run->n);
	cluster_free(&cluster);
	free(run);
	return code;
}
