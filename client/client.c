#include "client/client.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

int64_t
client_clock(void)
{
	struct timespec ts;

	(void) clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t
client_time(void)
{
	struct timespec ts;

	(void) clock_gettime(CLOCK_REALTIME_COARSE, &ts);
	return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void
client_wake_at(Client *c, int64_t when)
{
	if (when < c->wake)
		c->wake = when;
}

int
client_timeout(const Client *c)
{
	int64_t left = c->wake - client_clock();

	return left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int) left;
}

/* xorshift: jitter and where round-robins begin need no better one. */
uint64_t
client_random(Client *c)
{
	c->random ^= c->random << 13;
	c->random ^= c->random >> 7;
	c->random ^= c->random << 17;
	return c->random;
}

int64_t
client_backoff(Client *c, int n)
{
	int64_t ms = c->conf.backoff;

	while (--n > 0 && ms < c->conf.backoff_max)
		ms *= 2;
	if (ms > c->conf.backoff_max)
		ms = c->conf.backoff_max;
	return ms * (int64_t) (80 + client_random(c) % 41) / 100;
}

/* ---- nodes ---- */

Node *
client_node(Client *c, int32_t id)
{
	for (Node *n = c->nodes; n != NULL; n = n->next)
		if (n->id == id)
			return n;
	return NULL;
}

Node *
client_add_node(Client *c, int32_t id, const char *host, size_t len, int port)
{
	Node *n = calloc(1, sizeof(*n));

	if (n == NULL || (n->host = strndup(host, len)) == NULL)
	{
		free(n);
		return NULL;
	}
	n->id = id;
	n->port = port;
	for (int i = 0; i < USE_COUNT; i++)
	{
		n->conns[i].node = n;
		n->conns[i].fd = -1;
	}
	n->next = c->nodes;
	c->nodes = n;
	return n;
}

/* "host:port,[::1]:port": a node each, with an id below 0. */
static int
add_bootstrap(Client *c, pgb_error *err)
{
	const char *at = c->conf.bootstrap;
	int32_t id = -2;

	while (*at != '\0')
	{
		size_t len = strcspn(at, ",");
		size_t host = len;
		char *end;
		long port = 9092;

		while (len > 0 && *at == ' ')
			at++, len--, host--;
		for (size_t i = 0; i < len; i++)
			if (at[i] == ':' && (at[0] != '[' || (i > 0 && at[i - 1] == ']')))
			{
				host = i;
				port = strtol(at + i + 1, &end, 10);
				if (end != at + len || port < 1 || port > 65535)
					return error_set(err, PGB_INVALID, false,
									 "bootstrap.servers is host:port,..., not \"%s\"", at);
			}
		if (host > 2 && at[0] == '[' && at[host - 1] == ']')
		{
			if (client_add_node(c, id--, at + 1, host - 2, (int) port) == NULL)
				return error_set(err, PGB_NO_MEMORY, true, "no memory");
		}
		else if (host > 0 && client_add_node(c, id--, at, host, (int) port) == NULL)
			return error_set(err, PGB_NO_MEMORY, true, "no memory");
		at += len + (at[len] == ',');
	}
	if (c->nodes == NULL)
		return error_set(err, PGB_INVALID, false, "bootstrap.servers names no broker");
	return 0;
}

Conn *
client_ready(Client *c, Node *node, ConnUse use)
{
	Conn *conn = &node->conns[use];

	if (conn->state == CONN_READY && conn->broken == 0)
		return conn;
	if (conn->state == CONN_DOWN && c->now >= conn->retry_at)
		conn_open(c, conn);
	if (conn->state == CONN_DOWN)
		client_wake_at(c, conn->retry_at);
	return NULL;
}

int16_t
client_version(const Node *node, int16_t key, int16_t most)
{
	const WireApi *api = wire_api(key);
	int16_t v = most < api->known_max ? most : api->known_max;

	if (node->max[key] < v)
		v = node->max[key];
	return v >= api->known_min && v >= node->min[key] ? v : (int16_t) -1;
}

int
client_send(Client *c, Conn *conn, int16_t key, int16_t most, const void *request, CallDone done, void *arg,
			int64_t timeout, pgb_error *err)
{
	int16_t version = client_version(conn->node, key, most);
	const WireApi *api = wire_api(key);
	Call *call;
	size_t start;

	if (version < 0)
		return error_set(err, PGB_UNSUPPORTED, false, "%s:%d knows no version of %s that we know",
						 conn->node->host, conn->node->port, api->name);
	call = calloc(1, sizeof(*call));
	if (call == NULL)
		return error_set(err, PGB_NO_MEMORY, true, "no memory");
	call->api = api;
	call->version = version;
	call->correlation_id = c->correlation_id++ & INT32_MAX;
	call->deadline = c->now + timeout;
	call->node = conn->node;
	call->done = done;
	call->arg = arg;
	call->no_reply = key == API_PRODUCE && ((const ProduceRequest *) request)->acks == 0;
	wire_writer_init(&call->out);
	start = wire_request_begin(&call->out, api, version, call->correlation_id, wstr(c->conf.client_id));
	if (wire_encode(api->request, version, &call->out, request) == 0)
		wire_frame_end(&call->out, start);
	if (call->out.failed)
	{
		wire_writer_free(&call->out);
		free(call);
		return error_set(err, PGB_NO_MEMORY, true, "no memory, or more than a request can hold");
	}
	client_wake_at(c, call->deadline);
	conn_push(c, conn, call);
	return 0;
}

/* ---- the turn ---- */

int
client_init(Client *c, const Conf *conf, pgb_error *err)
{
	struct epoll_event ev = {.events = EPOLLIN, .data = {.ptr = NULL}};

	memset(c, 0, sizeof(*c));
	c->epfd = c->wakefd = -1;
	if (conf == NULL || !conf_copy(&c->conf, conf))
		return error_set(err, PGB_INVALID, false, "no configuration, or no memory for it");
	arena_init(&c->arena, 4096);
	arena_init(&c->ask, 0);
	c->controller = CLIENT_NO_NODE;
	c->create_topics = c->conf.create_topics != 0;
	c->epfd = epoll_create1(EPOLL_CLOEXEC);
	c->wakefd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (c->epfd < 0 || c->wakefd < 0 || epoll_ctl(c->epfd, EPOLL_CTL_ADD, c->wakefd, &ev) != 0)
		return error_set(err, PGB_NO_MEMORY, true, "no file descriptors");
	if (getrandom(&c->random, sizeof(c->random), 0) != (ssize_t) sizeof(c->random) || c->random == 0)
		c->random = (uint64_t) client_time() * 2654435761U + 1;
	c->now = client_clock();
	return add_bootstrap(c, err);
}

void
client_free_nodes(Client *c)
{
	pgb_error closed;

	error_set(&closed, PGB_STATE, false, "the handle was closed");
	while (c->nodes != NULL)
	{
		Node *n = c->nodes;

		for (int i = 0; i < USE_COUNT; i++)
			conn_close(c, &n->conns[i], &closed);
		c->nodes = n->next;
		free(n->host);
		free(n);
	}
}

void
client_free(Client *c)
{
	client_free_nodes(c);
	metadata_free(c);
	arena_free(&c->arena);
	arena_free(&c->ask);
	arena_free(&c->kept);
	frame_unref(c->kept_frame);
	if (c->epfd >= 0)
		(void) close(c->epfd);
	if (c->wakefd >= 0)
		(void) close(c->wakefd);
	conf_clear(&c->conf);
}

static void
drain_wake(Client *c)
{
	uint64_t n;

	if (read(c->wakefd, &n, sizeof(n)) == (ssize_t) sizeof(n))
		c->interrupted = true;
}

void
client_run(Client *c, int64_t until)
{
	struct epoll_event events[32];
	int64_t left = (until < c->wake ? until : c->wake) - (c->now = client_clock());
	int n = epoll_wait(c->epfd, events, 32, left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int) left);

	c->now = client_clock();
	c->wake = CLIENT_NEVER;
	for (int i = 0; i < n; i++)
		if (events[i].data.ptr == NULL)
			drain_wake(c);
		else
			conn_event(c, events[i].data.ptr, (events[i].events & ~(uint32_t) EPOLLOUT) != 0,
					   (events[i].events & EPOLLOUT) != 0);
	for (Node *node = c->nodes; node != NULL; node = node->next)
		for (int i = 0; i < USE_COUNT; i++)
			conn_check(c, &node->conns[i]);
	metadata_step(c);
	if (c->step != NULL)
		c->step(c);
}

/* ---- calls that wait ---- */

typedef struct Waiting
{
	bool done;
	pgb_error err;
	void *response;
	Frame *frame;
	Arena arena;
} Waiting;

/* Keeps the response beyond done: the arena is swapped for an empty one, the frame held. */
static void
waiting_done(Client *c, Call *call, const pgb_error *err, void *response)
{
	Waiting *w = call->arg;

	w->done = true;
	if (err != NULL)
		w->err = *err;
	else
	{
		Arena empty = w->arena;

		w->response = response;
		w->frame = frame_ref(call->frame);
		w->arena = c->arena;
		c->arena = empty;
	}
}

static Node *
any_node(Client *c)
{
	for (Node *n = c->nodes; n != NULL; n = n->next)
		if (!n->gone && client_ready(c, n, USE_CONTROL) != NULL)
			return n;
	return NULL;
}

void *
client_call(Client *c, int32_t id, int16_t key, int16_t most, const void *request, int64_t timeout,
			pgb_error *err)
{
	int64_t until = client_clock() + timeout;
	Waiting w = {0};
	bool sent = false;
	Conn *conn;
	Node *node;

	arena_init(&w.arena, 4096);
	while (!w.done)
	{
		node = id == CLIENT_NO_NODE ? any_node(c) : client_node(c, id);
		conn = sent || node == NULL ? NULL : client_ready(c, node, USE_CONTROL);
		if (conn != NULL)
		{
			if (client_send(c, conn, key, most, request, waiting_done, &w, until - c->now, err) != 0)
				return NULL;
			sent = true;
		}
		else if (!sent && client_clock() >= until)
		{
			error_set(err, PGB_NO_BROKER, true, "no broker could be reached in %lld ms; %s",
					  (long long) timeout, c->last_error.text);
			return NULL;
		}
		client_run(c, sent ? CLIENT_NEVER : until);
	}
	if (w.response == NULL)
	{
		if (err != NULL)
			*err = w.err;
		return NULL;
	}
	frame_unref(c->kept_frame);
	arena_free(&c->ask);
	arena_free(&c->kept);
	c->kept = w.arena;
	c->kept_frame = w.frame;
	return w.response;
}
