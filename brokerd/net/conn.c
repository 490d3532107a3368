/* conn.c: one connection: its state, and the way in from socket to Request. */
#include "brokerd/net/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"

enum
{
	READ_TURN = 256 << 10, /* bytes from one connection before the others get their turn */
	FRAME_PREFIX = 4,
	READ_AHEAD = 16 << 10, /* bytes of frames that have to wait */
	FRAME_FIRST = 4 << 20  /* a large frame's buffer, once its first 64 KiB have really come */
};

static void on_readable(struct ev_loop *loop, ev_io *io, int revents);
static void on_writable(struct ev_loop *loop, ev_io *io, int revents);
static void on_throttle_over(struct ev_loop *loop, ev_timer *timer, int revents);

static void
format_peer(Conn *conn, const struct sockaddr_storage *addr)
{
	int port = 0;

	if (addr->ss_family == AF_INET)
	{
		const struct sockaddr_in *in = (const struct sockaddr_in *) addr;

		inet_ntop(AF_INET, &in->sin_addr, conn->host, sizeof(conn->host));
		port = ntohs(in->sin_port);
	}
	else if (addr->ss_family == AF_INET6)
	{
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *) addr;

		if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
			inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], conn->host, sizeof(conn->host));
		else
			inet_ntop(AF_INET6, &in6->sin6_addr, conn->host, sizeof(conn->host));
		port = ntohs(in6->sin6_port);
	}
	snprintf(conn->peer, sizeof(conn->peer), "%s:%d", conn->host, port);
}

Conn *
conn_new(NetServer *s, Listener *l, int fd, const struct sockaddr_storage *addr)
{
	Conn *conn = calloc(1, sizeof(*conn));

	if (conn == NULL)
		return NULL;
	conn->server = s;
	conn->listener = l;
	conn->fd = fd;
	format_peer(conn, addr);
	ev_io_init(&conn->reader, on_readable, fd, EV_READ);
	ev_io_init(&conn->writer, on_writable, fd, EV_WRITE);
	ev_timer_init(&conn->throttle, on_throttle_over, 0., 0.);
	conn->reader.data = conn->writer.data = conn->throttle.data = conn;
	conn->last_active_ms = clock_boot_ms();
	DL_APPEND(s->conns, conn);
	s->stats.connections++;
	conn_update(conn);
	return conn;
}

void
conn_close(Conn *conn, const char *why)
{
	NetServer *s = conn->server;

	if (conn->dead)
		return;
	conn->dead = true;
	if (why != NULL)
		log_msg(LOG_WARNING, "net", "connection from %s closed: %s", conn->peer, why);
	if (s->opt.on_close != NULL)
		s->opt.on_close(s->opt.ctx, conn);
	ev_io_stop(s->opt.loop, &conn->reader);
	ev_io_stop(s->opt.loop, &conn->writer);
	ev_timer_stop(s->opt.loop, &conn->throttle);
	close(conn->fd);
	DL_DELETE(s->conns, conn);
	if (conn->want_flush)
		DL_DELETE2(s->flushing, conn, flush_prev, flush_next);
	if (conn->ready)
		DL_DELETE2(s->ready, conn, ready_prev, ready_next);
	if (conn->wants_memory)
		DL_DELETE2(s->hungry, conn, hungry_prev, hungry_next);
	s->stats.connections--;
	if (conn->peer_count != NULL)
		conn->peer_count->count--;

	while (conn->head != NULL)
	{
		Request *req = conn->head;

		conn->head = req->next;
		req->next = NULL;
		req->conn = NULL;
		if (req->answered)
			net_request_unref(req);
		else if (req->on_cancel != NULL)
			req->on_cancel(req);
	}
	conn->tail = NULL;
	if (conn->buf != NULL)
		net_buf_unref(conn->buf);
	conn->buf = NULL;
	/* Callers up the stack may still hold it: freed before the loop waits again. */
	conn->dead_next = s->dead;
	s->dead = conn;
}

void
conn_free(Conn *conn)
{
	free(conn);
}

/* May the next frame become a request? */
static bool
may_take(const Conn *conn)
{
	return !conn->dead && !conn->holding && conn->in_flight < NET_IN_FLIGHT &&
		   conn->unsent < NET_UNSENT_MAX && !ev_is_active(&conn->throttle) && !conn->server->quiesced;
}

/*
 * May the socket be read?  While requests are under way a little is read ahead, because the end of a connection
 * shows only there: a client that vanishes behind a parked request is noticed at once.
 */
static bool
may_read(const Conn *conn)
{
	if (conn->dead || conn->wants_memory || conn->server->quiesced)
		return false;
	return (may_take(conn) && !conn->ready) || conn->buf == NULL ||
		   conn->buf->end - conn->buf->start < READ_AHEAD;
}

static bool
whole_frame_waits(const Conn *conn)
{
	uint32_t len;

	if (conn->buf == NULL || conn->buf->end - conn->buf->start < FRAME_PREFIX)
		return false;
	memcpy(&len, conn->buf->data + conn->buf->start, sizeof(len));
	len = ntohl(len);
	return conn->buf->end - conn->buf->start >= (size_t) len + FRAME_PREFIX;
}

void
conn_update(Conn *conn)
{
	struct ev_loop *loop = conn->server->opt.loop;
	bool read = may_read(conn);

	/* Answers made room: frames that were read before come first, at the end of this turn. */
	if (!conn->ready && may_take(conn) && whole_frame_waits(conn))
	{
		conn->ready = true;
		DL_APPEND2(conn->server->ready, conn, ready_prev, ready_next);
	}
	if (read && !conn->reading)
		ev_io_start(loop, &conn->reader);
	else if (!read && conn->reading)
		ev_io_stop(loop, &conn->reader);
	conn->reading = read;
}

static void
want_memory(Conn *conn)
{
	if (conn->wants_memory)
		return;
	conn->wants_memory = true;
	if (conn->wanted <= NET_BUF_SMALL)
		DL_PREPEND2(conn->server->hungry, conn, hungry_prev, hungry_next);
	else
		DL_APPEND2(conn->server->hungry, conn, hungry_prev, hungry_next);
	conn_update(conn);
}

bool
conn_has_room(const Conn *conn)
{
	return net_pool_has_room(&conn->server->pool, conn->wanted,
							 conn->buf != NULL && conn->buf->refs == 1 ? conn->buf->cap : 0);
}

/* Room to read into; the rest of a frame that does not fit where it is moves to a larger buffer. */
static bool
make_room(Conn *conn)
{
	NetBuf *buf = conn->buf;
	size_t have, want;
	uint32_t frame;

	conn->wanted = NET_BUF_SMALL;
	if (buf == NULL)
	{
		conn->buf = net_buf_get(&conn->server->pool, NET_BUF_SMALL);
		return conn->buf != NULL;
	}
	have = buf->end - buf->start;
	if (have == 0 && buf->refs == 1)
	{
		buf->start = buf->end = 0;
		return true;
	}
	if (have < FRAME_PREFIX)
	{
		if (buf->cap - buf->end >= NET_BUF_SMALL / 16)
			return true;
		want = NET_BUF_SMALL;
	}
	else
	{
		memcpy(&frame, buf->data + buf->start, sizeof(frame));
		want = (size_t) ntohl(frame) + FRAME_PREFIX;
		if (buf->start + want <= buf->cap && buf->end < buf->cap)
			return true;
		/* Whole frames that have to wait fill the buffer: what is read ahead goes on in another. */
		if (have >= want)
			want = NET_BUF_SMALL;
		/* Buffers grow as bytes come, so that a claimed length alone costs nothing. */
		if (have < NET_BUF_SMALL / 2)
			want = want < NET_BUF_SMALL ? want : NET_BUF_SMALL;
		else
		{
			size_t grown = have * 2 > FRAME_FIRST ? have * 2 : FRAME_FIRST;

			want = want < grown ? want : grown;
		}
		if (buf->end < buf->cap && buf->start + want <= buf->cap)
			return true;
	}
	conn->wanted = want;
	buf = net_buf_move(buf, want);
	if (buf == NULL)
		return false;
	conn->buf = buf;
	return true;
}

/* An idle connection holds no buffer. */
static void
drop_empty_buffer(Conn *conn)
{
	if (conn->buf != NULL && conn->buf->start == conn->buf->end)
	{
		net_buf_unref(conn->buf);
		conn->buf = NULL;
	}
}

static void
on_readable(struct ev_loop *loop, ev_io *io, int revents)
{
	Conn *conn = io->data;
	size_t left = READ_TURN;

	(void) loop;
	(void) revents;
	if (conn->dead)
		return;
	while (left > 0 && may_read(conn))
	{
		size_t room;
		ssize_t n;

		if (!make_room(conn))
		{
			want_memory(conn);
			return;
		}
		room = conn->buf->cap - conn->buf->end;
		n = recv(conn->fd, conn->buf->data + conn->buf->end, room, MSG_DONTWAIT);
		if (n < 0)
		{
			if (errno == EINTR)
				continue;
			if (errno != EAGAIN && errno != EWOULDBLOCK)
			{
				conn_close(conn, errno == ECONNRESET ? NULL : strerror(errno));
				return;
			}
			break;
		}
		if (n == 0)
		{
			conn_close(conn, NULL);
			return;
		}
		conn->buf->end += (size_t) n;
		conn->server->stats.bytes_in += (uint64_t) n;
		conn->last_active_ms = clock_boot_ms();
		DL_DELETE(conn->server->conns, conn);
		DL_APPEND(conn->server->conns, conn);
		conn_take_frames(conn);
		if (conn->dead)
			return;
		left -= (size_t) n < left ? (size_t) n : left;
		if ((size_t) n < room)
			break;
	}
	drop_empty_buffer(conn);
}

static void
append_request(Conn *conn, Request *req)
{
	if (conn->tail != NULL)
		conn->tail->next = req;
	else
		conn->head = req;
	conn->tail = req;
	conn->in_flight++;
	conn->server->n_pending++;
	conn->server->stats.requests++;
}

void
conn_take_frames(Conn *conn)
{
	NetServer *s = conn->server;

	while (may_take(conn) && conn->buf != NULL && conn->buf->end - conn->buf->start >= FRAME_PREFIX)
	{
		NetBuf *buf = conn->buf;
		Request *req;
		uint32_t prefix;
		int32_t len;

		memcpy(&prefix, buf->data + buf->start, sizeof(prefix));
		len = (int32_t) ntohl(prefix);
		if (len < 0 || (size_t) len > s->opt.max_frame)
		{
			char why[128];

			snprintf(why, sizeof(why), "frame of %d bytes, socket.request.max.bytes is %zu", len,
					 s->opt.max_frame);
			conn_close(conn, why);
			return;
		}
		if (buf->end - buf->start < (size_t) len + FRAME_PREFIX)
			break;
		req = request_new(s);
		if (req == NULL)
		{
			conn_close(conn, "out of memory");
			return;
		}
		req->conn = conn;
		req->buf = buf;
		net_buf_ref(buf);
		req->frame = buf->data + buf->start + FRAME_PREFIX;
		req->len = (size_t) len;
		req->received_us = clock_boot_us();
		buf->start += (size_t) len + FRAME_PREFIX;
		append_request(conn, req);
		s->opt.on_request(s->opt.ctx, req);
		if (conn->dead)
			return;
		if (conn->tail == req && !req->answered && req->hold)
			conn->holding = true;
	}
	drop_empty_buffer(conn);
	conn_update(conn);
}

static void
on_writable(struct ev_loop *loop, ev_io *io, int revents)
{
	Conn *conn = io->data;

	(void) loop;
	(void) revents;
	if (!conn->dead)
		conn_flush(conn);
}

static void
on_throttle_over(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void) loop;
	(void) revents;
	conn_update(timer->data);
}

void
conn_throttle(Conn *conn, int64_t ms)
{
	if (conn->dead || ms <= 0)
		return;
	ev_timer_stop(conn->server->opt.loop, &conn->throttle);
	ev_timer_set(&conn->throttle, (double) ms / 1000., 0.);
	ev_timer_start(conn->server->opt.loop, &conn->throttle);
	conn_update(conn);
}

const char *
conn_peer(const Conn *conn)
{
	return conn->peer;
}

const char *
conn_peer_host(const Conn *conn)
{
	return conn->host;
}

const char *
conn_listener(const Conn *conn)
{
	return conn->listener->name;
}

void *
conn_user(const Conn *conn)
{
	return conn->user;
}

void
conn_set_user(Conn *conn, void *user)
{
	conn->user = user;
}
