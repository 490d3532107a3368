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

#include "wire/bytes.h"

#define FRAME_START ((size_t) 64 * 1024)
#define MOST_IOV    64

Frame *
frame_ref(Frame *f)
{
	f->refs++;
	return f;
}

void
frame_unref(Frame *f)
{
	if (f != NULL && --f->refs == 0)
		free(f);
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
	call->done(c, call, err, response);
	arena_reset(&c->arena);
	wire_writer_free(&call->out);
	frame_unref(call->frame);
}

void
call_keep(Client *c, Call *call, Kept *kept)
{
	kept_free(kept);
	*kept = (Kept){frame_ref(call->frame), c->arena};
	arena_init(&c->arena, 4096);
}

void
kept_free(Kept *kept)
{
	frame_unref(kept->frame);
	arena_free(&kept->arena);
	*kept = (Kept){0};
}

static void
watch(Client *c, Conn *conn, bool want_write, int op)
{
	struct epoll_event ev = {.events = EPOLLIN | (want_write ? (uint32_t) EPOLLOUT : 0),
							 .data = {.ptr = conn}};

	conn->want_write = want_write;
	if (epoll_ctl(c->epfd, op, conn->fd, &ev) != 0)
		conn->broken = errno;
}

void
conn_close(Client *c, Conn *conn, const pgb_error *why)
{
	Call *calls = conn->calls, *call, *next;

	if (conn->fd >= 0)
		(void) close(conn->fd);
	frame_unref(conn->in);
	*conn = (Conn){.node = conn->node, .fd = -1, .retry = conn->retry};
	conn->node->tries++;
	retry_later(c, &conn->retry);
	c->last_error = *why;
	DL_FOREACH_SAFE (calls, call, next)
	{
		call_end(c, call, why, NULL);
		free(call);
	}
	client_wake_at(c, c->now);
}

/* The connection is of no use any more.  False, for who says whether there still is one. */
__attribute__((format(printf, 4, 5))) static bool
fail(Client *c, Conn *conn, int code, const char *fmt, ...)
{
	pgb_error err;
	char why[160];
	va_list ap;

	va_start(ap, fmt);
	(void) vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	error_set(&err, code, code != PGB_NO_MEMORY, "%s:%d: %s", conn->node->host, conn->node->port, why);
	conn_close(c, conn, &err);
	return false;
}

/* ---- connecting ---- */

bool
conn_open(Client *c, Conn *conn)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
	struct addrinfo *list, *a;
	char port[16];
	int rc, one = 1;

	(void) snprintf(port, sizeof(port), "%d", conn->node->port);
	rc = getaddrinfo(conn->node->host, port, &hints, &list);
	if (rc != 0 || list == NULL)
		return fail(c, conn, PGB_TRANSPORT, "the name cannot be looked up: %s", gai_strerror(rc));
	a = list;
	for (int skip = conn->node->tries % 16; skip > 0; skip--)
		a = a->ai_next != NULL ? a->ai_next : list;
	conn->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	rc = conn->fd < 0 ? -1 : connect(conn->fd, a->ai_addr, a->ai_addrlen);
	freeaddrinfo(list);
	if (rc != 0 && (conn->fd < 0 || errno != EINPROGRESS))
		return fail(c, conn, PGB_TRANSPORT, "%s", strerror(errno)); /* NOLINT(concurrency-mt-unsafe) */
	(void) setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	conn->state = CONN_CONNECTING;
	conn->since = c->now;
	watch(c, conn, true, EPOLL_CTL_ADD);
	return true;
}

static void
versions_done(Client *c, Call *call, const pgb_error *err, void *response)
{
	Conn *conn = call->arg;
	ApiVersionsResponse *resp = response;

	/* That our version is not known is said in one that lists those that are. */
	if (err != NULL && err->code != KERR_UNSUPPORTED_VERSION)
	{
		conn->broken = conn->fd < 0 ? 0 : resp == NULL ? ENOMEM : EPROTO;
		client_wake_at(c, c->now);
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

static bool
connected(Client *c, Conn *conn)
{
	ApiVersionsRequest req = {WSTR_LIT("pgbroker"), WSTR_LIT(PGB_VERSION_TEXT)};
	socklen_t len = sizeof(int);
	int e = 0;

	if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &e, &len) != 0)
		e = errno;
	if (e != 0)
		return fail(c, conn, PGB_TRANSPORT, "%s", strerror(e)); /* NOLINT(concurrency-mt-unsafe) */
	conn->state = CONN_VERSIONS;
	conn->node->min[API_API_VERSIONS] = conn->node->max[API_API_VERSIONS] = 3;
	client_send(c, conn, API_API_VERSIONS, 3, &req, versions_done, conn, c->conf.connect_timeout, NULL);
	return true;
}

/* ---- writing ---- */

/* What is left of a request behind `skip` bytes: its own bytes, and those of its holes in between. */
static int
call_iov(const Call *call, size_t skip, struct iovec *iov)
{
	const WireWriter *w = &call->out;
	size_t from = 0;
	int n = 0;

	for (int h = 0; h <= w->n_holes && n + 2 <= MOST_IOV; h++)
	{
		size_t to = h < w->n_holes ? w->holes[h].pos : w->len;
		struct iovec pieces[2] = {{w->buf + from, to - from}, {NULL, 0}};

		if (h < w->n_holes)
			pieces[1] = (struct iovec){w->holes[h].user, (size_t) w->holes[h].len};
		for (int i = 0; i < 2; i++)
		{
			size_t gone = skip < pieces[i].iov_len ? skip : pieces[i].iov_len;

			skip -= gone;
			if (pieces[i].iov_len > gone)
				iov[n++] = (struct iovec){(char *) pieces[i].iov_base + gone, pieces[i].iov_len - gone};
		}
		from = to;
	}
	return n;
}

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
	while (conn->unsent != NULL && conn->broken == 0)
	{
		Call *call = conn->unsent;
		struct iovec iov[MOST_IOV];
		struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t) call_iov(call, conn->sent, iov)};
		ssize_t n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN && errno != EINTR)
		{
			conn->broken = errno;
			client_wake_at(c, c->now);
		}
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
	if (conn->want_write != (conn->unsent != NULL) && conn->broken == 0)
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

/* A whole frame is there. */
static bool
answered(Client *c, Conn *conn)
{
	Call *call = conn->calls;
	const char *wrong = "no memory";
	void *response;

	if (call == NULL || call == conn->unsent)
		return fail(c, conn, PGB_PROTOCOL, "sent an answer without a question");
	call->frame = conn->in;
	conn->in = NULL;
	response = arena_alloc(&c->arena, call->api->response->size);
	if (response != NULL)
		wrong = wire_response_decode(call->frame->data, call->frame->len, call->api, call->version,
									 call->correlation_id, &c->arena, response);
	if (wrong != NULL)
	{
		arena_reset(&c->arena);
		return fail(c, conn, PGB_PROTOCOL, "the answer to %s cannot be read (%s)", call->api->name, wrong);
	}
	take_call(conn, call);
	call_end(c, call, NULL, response);
	free(call);
	return conn->fd >= 0;
}

/* For a frame whose head is there, or to double what was taken for one, up to what it was said to need. */
static bool
make_room(Client *c, Conn *conn)
{
	size_t cap = conn->in == NULL ? FRAME_START : conn->in_cap * 2;
	Frame *in;

	if (conn->in == NULL)
		conn->in_size = get_be32(conn->head);
	if (conn->in_size < 4 || conn->in_size > (size_t) c->conf.receive_max)
		return fail(c, conn, PGB_PROTOCOL,
					"the answer would be of %zu bytes: no broker, a listener that wants TLS, or above "
					"receive.message.max.bytes",
					conn->in_size);
	conn->in_cap = cap < conn->in_size ? cap : conn->in_size;
	in = realloc(conn->in, sizeof(Frame) + conn->in_cap);
	if (in == NULL)
		return fail(c, conn, PGB_NO_MEMORY, "no memory for an answer of %zu bytes", conn->in_size);
	if (conn->in == NULL)
		*in = (Frame){.refs = 1};
	conn->in = in;
	conn->head_got = 0;
	return true;
}

static bool
closed(Client *c, Conn *conn, int e)
{
	const char *why =
		e != 0 ? strerror(e) : "the broker closed the connection"; /* NOLINT(concurrency-mt-unsafe) */

	return fail(c, conn, PGB_TRANSPORT, "%s%s", why,
				conn->state == CONN_VERSIONS
					? " before it said which requests it knows: is it a Kafka listener without TLS?"
					: "");
}

/* One read, into the frame and the head of the next one.  False: no more now, or the connection is gone. */
static bool
receive_some(Client *c, Conn *conn)
{
	size_t room = conn->in == NULL ? 0 : conn->in_cap - conn->in->len;
	bool to_end = conn->in == NULL || conn->in_cap == conn->in_size, full;
	struct iovec iov[2] = {{conn->in == NULL ? NULL : conn->in->data + conn->in->len, room},
						   {conn->head + conn->head_got, to_end ? sizeof(conn->head) - conn->head_got : 0}};
	ssize_t n = readv(conn->fd, iov, 2);
	size_t got, body;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0)
		return closed(c, conn, n == 0 ? 0 : errno);
	got = (size_t) n;
	body = got < room ? got : room;
	conn->head_got += got - body;
	if (conn->in != NULL)
		conn->in->len += body;
	if (conn->in != NULL && conn->in->len == conn->in_size && !answered(c, conn))
		return false;
	full = conn->in == NULL ? conn->head_got == sizeof(conn->head) : conn->in->len == conn->in_cap;
	if (full && !make_room(c, conn))
		return false;
	return conn->broken == 0 && got == room + iov[1].iov_len;
}

void
conn_event(Client *c, Conn *conn, bool readable, bool writable)
{
	if (conn->fd >= 0 && conn->state == CONN_CONNECTING)
	{
		if (writable || readable)
			(void) connected(c, conn);
		return;
	}
	if (conn->fd >= 0 && writable)
		flush(c, conn);
	if (conn->fd >= 0 && readable)
		for (int turns = 0; turns < 64 && receive_some(c, conn); turns++)
			;
}

void
conn_check(Client *c, Conn *conn)
{
	if (conn->fd >= 0 && conn->broken != 0)
		(void) closed(c, conn, conn->broken);
	else if (conn->state == CONN_CONNECTING && c->now >= conn->since + c->conf.connect_timeout)
		(void) fail(c, conn, PGB_TRANSPORT, "no connection within %lld ms",
					(long long) c->conf.connect_timeout);
	else if (conn->calls != NULL && c->now >= conn->calls->deadline)
		(void) fail(c, conn, PGB_TIMED_OUT, "no answer to %s in time", conn->calls->api->name);
	else
		client_wake_at(c, conn->state == CONN_CONNECTING ? conn->since + c->conf.connect_timeout
						  : conn->calls != NULL          ? conn->calls->deadline
														 : CLIENT_NEVER);
}
