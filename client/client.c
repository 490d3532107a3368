#include "client/client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
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

bool
retry_due(Client *c, const Retry *r)
{
	if (c->now < r->at)
		client_wake_at(c, r->at);
	return !r->open && c->now >= r->at;
}

/* Doubled for each failure, bounded, a fifth more or less. */
void
retry_later(Client *c, Retry *r)
{
	int64_t ms = c->conf.backoff << (r->failures < 20 ? r->failures : 20);

	ms = ms < c->conf.backoff_max ? ms : c->conf.backoff_max;
	r->failures++;
	r->at = c->now + ms * (int64_t) (80 + client_random(c) % 41) / 100;
	r->open = false;
	client_wake_at(c, r->at);
}

void
retry_want(Client *c, Retry *r)
{
	if (!r->wanted)
		client_wake_at(c, r->at);
	r->wanted = true;
}

bool
array_room(void *array, size_t n, size_t size)
{
	void **at = array;
	void *more;

	if (n < 8 ? *at != NULL : (n & (n - 1)) != 0)
		return true;
	more = realloc(*at, size * (n < 8 ? 8 : n * 2));
	if (more != NULL)
		*at = more;
	return more != NULL;
}

int
client_late(const Client *c, pgb_error *err, int code, const char *fmt, ...)
{
	char what[160];
	va_list ap;

	va_start(ap, fmt);
	(void) vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return error_set(err, code, true, "%s%s%s", what, c->last_error.text[0] != '\0' ? "; " : "",
					 c->last_error.text);
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
client_add_node(Client *c, int32_t id, WStr host, int port)
{
	Node *n = client_node(c, id);

	if (n != NULL && n->port == port && wstr_eq(wstr(n->host), host))
		return n;
	if (n == NULL && (n = calloc(1, sizeof(*n))) == NULL)
		return NULL;
	if (n->conns[0].node == NULL)
		LL_PREPEND(c->nodes, n);
	/* This may be called for an answer of one of them, so they are closed in the turn's next part. */
	for (Conn *conn = n->conns; conn < n->conns + USE_COUNT; conn++)
		if (conn->node == NULL)
			*conn = (Conn){.node = n, .fd = -1};
		else if (conn->fd >= 0)
			error_set(&conn->broken, PGB_TRANSPORT, true, "the broker has another address now");
	(void) snprintf(n->host, sizeof(n->host), "%.*s", host.len > 0 ? (int) host.len : 0, host.s);
	n->id = id;
	n->port = port;
	return n;
}

/* "host:port,[::1]:port": a node each, with an id below 0. */
static int
add_bootstrap(Client *c, pgb_error *err)
{
	const char *at = c->conf.bootstrap;
	int32_t id = -2;

	for (size_t len; *(at += strspn(at, ", ")) != '\0'; at += len)
	{
		char text[300], *host = text, *rest;
		long port = 9092;

		len = strcspn(at, ", ");
		(void) snprintf(text, sizeof(text), "%.*s", (int) len, at);
		rest = text + strcspn(text, text[0] == '[' ? "]" : ":");
		if (text[0] == '[' && *rest == ']')
		{
			host++;
			*rest++ = '\0';
		}
		if (*rest == ':')
		{
			*rest++ = '\0';
			port = strtol(rest, &rest, 10);
		}
		if (*rest != '\0' || *host == '\0' || port < 1 || port > 65535)
			return error_set(err, PGB_INVALID, false, "bootstrap.servers is host:port,..., not \"%s\"", at);
		if (client_add_node(c, id--, wstr(host), (int) port) == NULL)
			return error_memory(err);
	}
	return c->nodes != NULL ? 0 : error_set(err, PGB_INVALID, false, "bootstrap.servers names no broker");
}

Conn *
client_ready(Client *c, Node *node, ConnUse use)
{
	Conn *conn = &node->conns[use];

	if (conn->state == CONN_DOWN && conn->broken.code == 0 && retry_due(c, &conn->retry))
		conn_open(c, conn);
	return conn->state == CONN_READY && conn->broken.code == 0 ? conn : NULL;
}

#define PATIENCE 1000 /* a broker that is not connected by then is no reason not to ask the next */

Conn *
client_any(Client *c)
{
	Node *n = c->asked != NULL ? c->asked : c->nodes;

	for (Node *tried = NULL; n != tried; n = n->next != NULL ? n->next : c->nodes)
	{
		Conn *conn = &n->conns[USE_CONTROL], *ready = n->gone ? NULL : client_ready(c, n, USE_CONTROL);
		bool begun = !n->gone && conn->state != CONN_DOWN && c->now < conn->since + PATIENCE;

		if (ready != NULL || begun)
		{
			client_wake_at(c, ready != NULL ? CLIENT_NEVER : conn->since + PATIENCE);
			c->asked = n;
			return ready;
		}
		if (tried == NULL)
			tried = n;
	}
	return NULL;
}

void
client_send(Client *c, Conn *conn, int16_t key, int16_t most, const void *request, Call call)
{
	const WireApi *api = call.api = wire_api(key);
	Node *node = call.node = conn->node;
	Call *kept = malloc(sizeof(call)), *it = kept != NULL ? kept : &call;
	pgb_error err = {0};

	wire_writer_init(&call.out);
	call.version = most < api->known_max ? most : api->known_max;
	if (node->max[key] < call.version)
		call.version = node->max[key];
	call.no_reply = key == API_PRODUCE && ((const ProduceRequest *) request)->acks == 0;
	call.correlation_id = c->correlation_id;
	call.deadline = c->now + (call.timeout != 0 ? call.timeout : c->conf.request_timeout);
	c->correlation_id = (c->correlation_id + 1) & INT32_MAX;
	if (call.retry != NULL)
		call.retry->open = true;
	if (call.version < api->known_min || call.version < node->min[key])
		error_set(&err, PGB_UNSUPPORTED, false, "%s:%d knows no version of %s that we know", node->host,
				  node->port, api->name);
	else
		wire_request_put(&call.out, api, call.version, call.correlation_id, wstr(c->conf.client_id), request);
	if (call.out.failed || kept == NULL)
		error_set(&err, PGB_NO_MEMORY, true, "no memory, or more than a request can hold");
	arena_reset(&c->arena);
	client_wake_at(c, call.deadline);
	*it = call;
	for (Ask *ask = call.asks; ask != NULL; ask = ask->next)
		ask->call = it;
	if (err.code == 0)
		conn_push(c, conn, it);
	else
	{
		call_end(c, it, &err, NULL);
		free(kept);
	}
}

/* ---- the turn ---- */

void *
client_new(size_t size, size_t topic_size, const Conf *conf, void (*step)(void *handle), pgb_error *err)
{
	struct epoll_event ev = {.events = EPOLLIN, .data = {.ptr = NULL}};
	Client *c = calloc(1, size);

	if (c == NULL || conf == NULL || !conf_copy(&c->conf, conf))
	{
		free(c);
		error_set(err, PGB_INVALID, false, "no configuration, or no memory for it");
		return NULL;
	}
	arena_init(&c->arena, 4096);
	c->step = step;
	c->topic_size = topic_size;
	c->now = client_clock();
	c->epfd = epoll_create1(EPOLL_CLOEXEC);
	c->wakefd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (getrandom(&c->random, sizeof(c->random), 0) != (ssize_t) sizeof(c->random) || c->random == 0)
		c->random = (uint64_t) client_time() * 2654435761U + 1;
	if (c->epfd < 0 || c->wakefd < 0 || epoll_ctl(c->epfd, EPOLL_CTL_ADD, c->wakefd, &ev) != 0)
		error_set(err, PGB_NO_MEMORY, true, "no file descriptors");
	else if (add_bootstrap(c, err) == 0)
		return c;
	client_free(c);
	return NULL;
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
		free(n);
	}
}

void
client_free(Client *c)
{
	Topic *t, *next;

	client_free_nodes(c);
	HASH_ITER (hh, c->topics, t, next)
	{
		HASH_DEL(c->topics, t);
		free(t->parts);
		free(t);
	}
	arena_free(&c->arena);
	if (c->epfd >= 0)
		(void) close(c->epfd);
	if (c->wakefd >= 0)
		(void) close(c->wakefd);
	conf_clear(&c->conf);
	free(c);
}

void
client_run(Client *c, int64_t until)
{
	struct epoll_event events[32];
	eventfd_t woken;
	int n;

	client_wake_at(c, until);
	n = epoll_wait(c->epfd, events, 32, client_timeout(c));
	c->now = client_clock();
	c->wake = CLIENT_NEVER;
	for (int i = 0; i < n; i++)
		if (events[i].data.ptr == NULL)
			c->interrupted = eventfd_read(c->wakefd, &woken) == 0 || c->interrupted;
		else
			conn_event(c, events[i].data.ptr);
	for (Node *node = c->nodes; node != NULL; node = node->next)
		for (int i = 0; i < USE_COUNT; i++)
			conn_check(c, &node->conns[i]);
	metadata_step(c);
	if (c->step != NULL)
		c->step(c);
}
