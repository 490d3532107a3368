/*
 * conn.c: one connection, from getaddrinfo to whole frames.  Reads go straight into the frame that is being
 * received, which grows with what came: a length that lies costs no memory.
 */
#include "client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define FRAME_FIRST ((size_t) 64 * 1024)
#define MOST_IOV    64

void
ask_drop(Ask *ask)
{
	if (ask->call != NULL)
		DL_DELETE(ask->call->asks, ask);
	ask->call = NULL;
}

/* To each partition what is said of it: mostly in the order in which they were asked for. */
static void
answer_asks(Client *c, Call *call, const pgb_error *err, const void *response)
{
	WireEachPart each = {.m = call->api->response, .message = response};
	const void *part;
	pgb_error missing;
	Ask *ask;

	while (err == NULL && call->asks != NULL && !call->no_reply && (part = wire_by_topic_next(&each)) != NULL)
	{
		for (ask = call->asks; ask != NULL; ask = ask->next)
			if (ask->index == each.index && wstr_eq(wstr(ask->topic->name), *each.topic))
				break;
		if (ask == NULL)
			continue;
		ask_drop(ask);
		call->answer(c, ask, NULL, part);
	}
	error_set(&missing, PGB_PROTOCOL, true, "the answer to %s leaves out a partition", call->api->name);
	while ((ask = call->asks) != NULL)
	{
		ask_drop(ask);
		call->answer(c, ask, err != NULL || call->no_reply ? err : &missing, NULL);
	}
}

void
call_end(Client *c, Call *call, const pgb_error *err, void *response)
{
	const int16_t *code = response == NULL ? NULL : wire_field(call->api->response, response, "error_code");
	pgb_error why;

	if (code != NULL && *code != 0)
	{
		error_kafka(&why, *code, "the answer to %s", call->api->name);
		err = &why;
	}
	if (call->retry != NULL)
		call->retry->open = false;
	if (call->retry != NULL && err != NULL)
		retry_later(c, call->retry);
	if (call->done != NULL)
		call->done(c, call, err, response);
	else
		answer_asks(c, call, err, response);
	arena_reset(&c->arena);
	wire_writer_free(&call->out);
	frame_unref(c->frame);
	c->frame = NULL;
}

void
call_keep(Client *c, Kept *kept)
{
	kept_free(kept);
	frame_ref(c->frame);
	*kept = (Kept){c->frame, c->arena};
	arena_init(&c->arena, 4096);
}

void
kept_free(Kept *kept)
{
	frame_unref(kept->frame);
	arena_free(&kept->arena);
	*kept = (Kept){0};
}

/* As errno says; 0: the broker ended it.  The turn closes it. */
static void
lost(Client *c, Conn *conn, int e)
{
	error_set(&conn->broken, PGB_TRANSPORT, true, "%s", /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
			  e != 0 ? strerror(e) : "the broker closed the connection");
	client_wake_at(c, c->now);
}

static void
watch(Client *c, Conn *conn, bool want_write, int op)
{
	struct epoll_event ev = {.events = EPOLLIN | (want_write ? (uint32_t) EPOLLOUT : 0),
							 .data = {.ptr = conn}};

	conn->want_write = want_write;
	if (epoll_ctl(c->epfd, op, conn->fd, &ev) != 0)
		lost(c, conn, errno);
}

void
conn_close(Client *c, Conn *conn, const pgb_error *why)
{
	Call *calls = conn->calls, *call, *next;
	pgb_error err;

	error_set(&err, why->code, why->retriable, "%s:%d: %s%s", conn->node->host, conn->node->port, why->text,
			  conn->state == CONN_VERSIONS
				  ? " before it said which requests it knows: is it a Kafka listener without TLS?"
				  : "");
	if (conn->fd >= 0)
		(void) close(conn->fd);
	frame_in_free(&conn->in);
	c->last_error = err;
	*conn = (Conn){.node = conn->node, .fd = -1, .retry = conn->retry};
	conn->node->tries++;
	retry_later(c, &conn->retry);
	DL_FOREACH_SAFE (calls, call, next)
	{
		call_end(c, call, &err, NULL);
		free(call);
	}
	client_wake_at(c, c->now);
}

/* ---- connecting ---- */

void
conn_open(Client *c, Conn *conn)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
	struct addrinfo *list, *a;
	char port[16];
	int rc, one = 1;

	(void) snprintf(port, sizeof(port), "%d", conn->node->port);
	rc = getaddrinfo(conn->node->host, port, &hints, &list);
	if (rc != 0 || list == NULL)
	{
		error_set(&conn->broken, PGB_TRANSPORT, true, "the name cannot be looked up: %s", gai_strerror(rc));
		client_wake_at(c, c->now);
		return;
	}
	a = list;
	for (int skip = conn->node->tries % 16; skip > 0; skip--)
		a = a->ai_next != NULL ? a->ai_next : list;
	conn->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	conn->state = CONN_CONNECTING;
	conn->since = c->now;
	frame_in_init(&conn->in, (size_t) c->conf.receive_max, FRAME_FIRST);
	if (conn->fd < 0 || (connect(conn->fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS))
		lost(c, conn, errno);
	else
	{
		(void) setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		watch(c, conn, true, EPOLL_CTL_ADD);
	}
	freeaddrinfo(list);
}

static void
versions_done(Client *c, Call *call, const pgb_error *err, void *response)
{
	Conn *conn = call->arg;
	ApiVersionsResponse *resp = response;

	(void) c;
	/* That our version is not known is said in one that lists those that are. */
	if (err != NULL && err->code != KERR_UNSUPPORTED_VERSION)
	{
		conn->broken = conn->fd >= 0 ? *err : conn->broken;
		return;
	}
	for (int i = 0; i < CLIENT_APIS; i++)
		conn->node->min[i] = conn->node->max[i] = -1;
	for (int32_t i = 0; i < resp->n_api_keys; i++)
	{
		ApiVersionsResponseApiKeys *k = &resp->api_keys[i];

		if (k->api_key >= 0 && k->api_key < CLIENT_APIS)
		{
			conn->node->min[k->api_key] = k->min_version;
			conn->node->max[k->api_key] = k->max_version;
		}
	}
	conn->state = CONN_READY;
	conn->retry = (Retry){0};
}

/* ---- writing ---- */

static void
take_call(Conn *conn, Call *call)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): what is in the list has a neighbour or is its head */
	DL_DELETE(conn->calls, call);
	conn->n_calls--;
}

static void
flush(Client *c, Conn *conn)
{
	while (conn->unsent != NULL && conn->broken.code == 0)
	{
		Call *call = conn->unsent;
		struct iovec iov[MOST_IOV];
		struct msghdr msg = {.msg_iov = iov,
							 .msg_iovlen = (size_t) wire_writer_iov(&call->out, conn->sent, iov, MOST_IOV)};
		ssize_t n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN && errno != EINTR)
			lost(c, conn, errno);
		if (n < 0)
			break;
		conn->sent += (size_t) n;
		if (conn->sent < call->out.len + call->out.hole_bytes)
			continue;
		conn->unsent = call->next;
		conn->sent = 0;
		if (call->no_reply)
		{
			take_call(conn, call);
			call_end(c, call, NULL, NULL);
			free(call);
		}
	}
	if (conn->want_write != (conn->unsent != NULL) && conn->broken.code == 0)
		watch(c, conn, conn->unsent != NULL, EPOLL_CTL_MOD);
}

void
conn_push(Client *c, Conn *conn, Call *call)
{
	DL_APPEND(conn->calls, call);
	if (conn->unsent == NULL)
		conn->unsent = call;
	conn->n_calls++;
	if (!conn->want_write)
		flush(c, conn);
}

/* ---- reading ---- */

static void
answered(Client *c, Conn *conn, Frame *frame)
{
	Call *call = conn->calls;
	const char *wrong = "no memory";
	void *response;

	if (call == NULL || call == conn->unsent)
	{
		error_set(&conn->broken, PGB_PROTOCOL, true, "sent an answer without a question");
		frame_unref(frame);
		return;
	}
	response = arena_alloc(&c->arena, call->api->response->size);
	if (response != NULL)
		wrong = wire_response_decode(frame->data, frame->len, call->api, call->version, call->correlation_id,
									 &c->arena, response);
	if (wrong != NULL)
	{
		arena_reset(&c->arena);
		frame_unref(frame);
		error_set(&conn->broken, PGB_PROTOCOL, true, "the answer to %s cannot be read (%s)", call->api->name,
				  wrong);
		return;
	}
	c->frame = frame;
	take_call(conn, call);
	call_end(c, call, NULL, response);
	free(call);
}

/* False: there is no more now. */
static bool
receive_some(Client *c, Conn *conn)
{
	struct iovec iov[2];
	const char *wrong;
	Frame *frame;
	ssize_t n;

	frame_in_room(&conn->in, iov);
	n = readv(conn->fd, iov, 2);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		lost(c, conn, n == 0 ? 0 : errno);
	if (n <= 0)
		return false;
	wrong = frame_in_took(&conn->in, (size_t) n, &frame);
	if (frame != NULL)
		answered(c, conn, frame);
	if (wrong != NULL)
		error_set(&conn->broken, PGB_PROTOCOL, true,
				  "an answer of %zu bytes %s: is it a Kafka listener without TLS, and "
				  "receive.message.max.bytes large enough?",
				  conn->in.size, wrong);
	return conn->broken.code == 0 && (size_t) n == iov[0].iov_len + iov[1].iov_len;
}

void
conn_event(Client *c, Conn *conn)
{
	ApiVersionsRequest req = {WSTR_LIT("pgbroker"), WSTR_LIT(PGB_VERSION_TEXT)};
	socklen_t len = sizeof(int);
	int e = 0;

	if (conn->state == CONN_CONNECTING)
	{
		if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &e, &len) != 0 || e != 0)
		{
			lost(c, conn, e != 0 ? e : errno);
			return;
		}
		conn->state = CONN_VERSIONS;
		conn->node->min[API_API_VERSIONS] = conn->node->max[API_API_VERSIONS] = 3;
		client_send(c, conn, API_API_VERSIONS, 3, &req,
					(Call){.done = versions_done, .arg = conn, .timeout = c->conf.connect_timeout});
	}
	else if (conn->fd >= 0)
	{
		flush(c, conn);
		for (int turns = 0; turns < 64 && receive_some(c, conn); turns++)
			;
	}
}

void
conn_check(Client *c, Conn *conn)
{
	int64_t late = conn->state == CONN_CONNECTING ? conn->since + c->conf.connect_timeout
				   : conn->calls != NULL          ? conn->calls->deadline
												  : CLIENT_NEVER;

	if (c->now >= late && conn->state == CONN_CONNECTING)
		error_set(&conn->broken, PGB_TRANSPORT, true, "no connection within %lld ms",
				  (long long) c->conf.connect_timeout);
	else if (c->now >= late && conn->calls != NULL)
		error_set(&conn->broken, PGB_TIMED_OUT, true, "no answer to %s in time", conn->calls->api->name);
	if (conn->broken.code != 0)
		conn_close(c, conn, &conn->broken);
	else
		client_wake_at(c, late);
}
