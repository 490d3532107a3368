/* server.c: listeners, the limits on connections, and the end of each loop turn. */
#include "brokerd/net/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"

enum
{
	ACCEPT_TURN = 64,
	STALLED_FRAME_MS = 30 * 1000 /* a half-sent frame without progress, while memory is short */
};

static void
flush_all(NetServer *s)
{
	Conn *conn;

	while ((conn = s->flushing) != NULL)
	{
		DL_DELETE2(s->flushing, conn, flush_prev, flush_next);
		conn->want_flush = false;
		conn_flush(conn);
	}
}

/*
 * Everything that was answered in this turn leaves, and frames that had to wait for it get their turn: each
 * connection once, so that one with many frames in its buffer does not keep the others waiting.
 */
static void
finish_turn(NetServer *s)
{
	Conn *conn;

	flush_all(s);
	while ((conn = s->ready) != NULL)
	{
		DL_DELETE2(s->ready, conn, ready_prev, ready_next);
		conn->ready = false;
		conn_take_frames(conn); /* as many as may run at once: only a flush makes room again */
	}
	flush_all(s);
	if (s->ready != NULL)
		ev_idle_start(s->opt.loop, &s->again);
	else
		ev_idle_stop(s->opt.loop, &s->again);
}

static void
on_again(struct ev_loop *loop, ev_idle *w, int revents)
{
	(void) loop;
	(void) w;
	(void) revents;
}

static void
free_dead(NetServer *s)
{
	while (s->dead != NULL)
	{
		Conn *conn = s->dead;

		s->dead = conn->dead_next;
		conn_free(conn);
	}
}

static void
on_prepare(struct ev_loop *loop, ev_prepare *w, int revents)
{
	NetServer *s = w->data;

	(void) loop;
	(void) revents;
	finish_turn(s);
	/* Memory came back: one connection a turn, so that it takes what it needs before the next is asked. */
	if (s->hungry != NULL && conn_has_room(s->hungry))
	{
		Conn *conn = s->hungry;

		DL_DELETE2(s->hungry, conn, hungry_prev, hungry_next);
		conn->wants_memory = false;
		conn_update(conn);
	}
	free_dead(s);
}

/* Who waits for memory is not read, so that its end shows only here. */
static bool
peer_went(const Conn *conn)
{
	struct pollfd p = {.fd = conn->fd, .events = POLLRDHUP};

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

static void
on_idle_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	NetServer *s = w->data;
	int64_t now = clock_boot_ms();
	Conn *conn, *next;

	(void) loop;
	(void) revents;
	DL_FOREACH_SAFE2(s->hungry, conn, next, hungry_next)
	if (peer_went(conn))
		conn_close(conn, NULL);
	DL_FOREACH_SAFE (s->conns, conn, next)
	{
		int64_t quiet = now - conn->last_active_ms;

		/* The longest silent first, and no more of them than the next in the queue needs. */
		if (s->hungry != NULL && conn->buf != NULL && quiet > STALLED_FRAME_MS && !conn_has_room(s->hungry))
			conn_close(conn, "a frame made no progress for 30 s while request memory was short");
		else if (quiet < s->opt.max_idle_ms)
		{
			if (s->hungry == NULL)
				break; /* the list is in order of last activity */
		}
		else if (conn->head == NULL)
			conn_close(conn, NULL);
	}
}

NetServer *
net_server_new(const NetOptions *opt)
{
	NetServer *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->opt = *opt;
	net_pool_init(&s->pool, opt->max_queued);
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ev_prepare_init(&s->prepare, on_prepare);
	s->prepare.data = s;
	ev_prepare_start(opt->loop, &s->prepare);
	ev_idle_init(&s->again, on_again);
	ev_timer_init(&s->idle_timer, on_idle_timer, 1., 1.);
	s->idle_timer.data = s;
	ev_timer_start(opt->loop, &s->idle_timer);
	return s;
}

/* Too many from one address, or in all: the connection is closed at once, as Kafka does. */
static bool
admit(NetServer *s, Conn *conn)
{
	PeerCount *pc;

	HASH_FIND_STR(s->peers, conn->host, pc);
	if (pc == NULL)
	{
		pc = calloc(1, sizeof(*pc));
		if (pc == NULL)
			return false;
		memcpy(pc->host, conn->host, sizeof(pc->host));
		HASH_ADD_STR(s->peers, host, pc);
	}
	pc->count++;
	conn->peer_count = pc;
	return s->stats.connections <= s->opt.max_connections && pc->count <= s->opt.max_per_ip;
}

/* Descriptors ran out: free one, take the connection, close it, so that the client learns of it. */
static void
refuse_without_descriptors(NetServer *s, int listen_fd)
{
	int fd;

	close(s->spare_fd);
	fd = accept(listen_fd, NULL, NULL);
	if (fd >= 0)
		close(fd);
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	s->stats.refused++;
	log_msg(LOG_ERROR, "net",
			"a connection was refused: no file descriptors left; raise LimitNOFILE (ulimit -n)");
}

static void
on_acceptable(struct ev_loop *loop, ev_io *io, int revents)
{
	Listener *l = io->data;
	NetServer *s = l->server;

	(void) loop;
	(void) revents;
	for (int i = 0; i < ACCEPT_TURN; i++)
	{
		struct sockaddr_storage addr;
		socklen_t addr_len = sizeof(addr);
		int fd = accept4(l->fd, (struct sockaddr *) &addr, &addr_len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		int on = 1;
		Conn *conn;

		if (fd < 0)
		{
			if (errno == EMFILE || errno == ENFILE)
				refuse_without_descriptors(s, l->fd);
			return;
		}
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
		conn = conn_new(s, l, fd, &addr);
		if (conn == NULL)
		{
			close(fd);
			return;
		}
		s->stats.accepted++;
		if (!admit(s, conn))
		{
			s->stats.refused++;
			conn_close(conn, "too many connections (max.connections, max.connections.per.ip)");
		}
	}
}

static int
open_listener(const struct addrinfo *ai, const NetOptions *opt)
{
	int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int on = 1, off = 0, size;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (ai->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	/* Buffers are inherited by accepted sockets; the window is agreed before accept, so they are set here. */
	if (opt->receive_buffer > 0)
	{
		size = (int) opt->receive_buffer;
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	}
	if (opt->send_buffer > 0)
	{
		size = (int) opt->send_buffer;
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	}
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, opt->backlog) < 0)
	{
		int saved = errno;

		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

bool
net_server_listen(NetServer *s, const char *host, int port, const char *listener_name, int *bound_port,
				  Err *err)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *list, *ai;
	struct sockaddr_storage addr = {0};
	socklen_t addr_len = sizeof(addr);
	char service[16];
	Listener *l;
	int rc, fd = -1, saved = 0;

	snprintf(service, sizeof(service), "%d", port);
	rc = getaddrinfo(host[0] != '\0' ? host : NULL, service, &hints, &list);
	if (rc != 0)
		return err_set(err, 0, 0, "listener %s: cannot resolve host \"%s\": %s", listener_name, host,
					   gai_strerror(rc));
	/* All addresses: prefer IPv6, which takes IPv4 too. */
	for (int want6 = host[0] == '\0'; fd < 0 && want6 >= 0; want6--)
		for (ai = list; ai != NULL && fd < 0; ai = ai->ai_next)
			if (host[0] != '\0' || (ai->ai_family == AF_INET6) == want6)
			{
				fd = open_listener(ai, &s->opt);
				saved = errno;
			}
	freeaddrinfo(list);
	if (fd < 0)
		return err_set(err, 0, saved, "listener %s: cannot listen on %s:%d: %s%s", listener_name, host, port,
					   strerror(saved),
					   saved == EADDRINUSE ? "; another process has the port, choose another in \"listeners\""
										   : "");

	l = calloc(1, sizeof(*l));
	if (l == NULL)
	{
		close(fd);
		return err_set(err, 0, ENOMEM, "listener %s: out of memory", listener_name);
	}
	l->server = s;
	l->fd = fd;
	snprintf(l->name, sizeof(l->name), "%s", listener_name);
	LL_PREPEND(s->listeners, l);
	ev_io_init(&l->io, on_acceptable, fd, EV_READ);
	l->io.data = l;
	if (bound_port != NULL && getsockname(fd, (struct sockaddr *) &addr, &addr_len) == 0)
		/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): getsockname filled it */
		*bound_port = ntohs(addr.ss_family == AF_INET6 ? ((struct sockaddr_in6 *) &addr)->sin6_port
													   : ((struct sockaddr_in *) &addr)->sin_port);
	return true;
}

void
net_server_start(NetServer *s)
{
	Listener *l;

	LL_FOREACH (s->listeners, l)
		ev_io_start(s->opt.loop, &l->io);
}

static void
close_listeners(NetServer *s)
{
	while (s->listeners != NULL)
	{
		Listener *l = s->listeners;

		LL_DELETE(s->listeners, l);
		ev_io_stop(s->opt.loop, &l->io);
		if (l->fd >= 0)
			close(l->fd);
		free(l);
	}
}

void
net_server_quiesce(NetServer *s)
{
	Conn *conn;
	Listener *l;

	if (s->quiesced)
		return;
	s->quiesced = true;
	LL_FOREACH (s->listeners, l)
	{
		ev_io_stop(s->opt.loop, &l->io);
		close(l->fd);
		l->fd = -1;
	}
	DL_FOREACH (s->conns, conn)
		conn_update(conn);
}

bool
net_server_idle(const NetServer *s)
{
	const Conn *conn;

	if (s->n_pending > 0)
		return false;
	DL_FOREACH (s->conns, conn)
		if (conn->head != NULL)
			return false;
	return true;
}

void
net_server_close_connections(NetServer *s)
{
	net_server_quiesce(s);
	while (s->conns != NULL)
		conn_close(s->conns, NULL);
	free_dead(s);
}

void
net_server_free(NetServer *s)
{
	PeerCount *pc, *tmp;

	net_server_close_connections(s);
	close_listeners(s);
	ev_prepare_stop(s->opt.loop, &s->prepare);
	ev_idle_stop(s->opt.loop, &s->again);
	ev_timer_stop(s->opt.loop, &s->idle_timer);
	while (s->free_requests != NULL)
	{
		Request *req = s->free_requests;

		s->free_requests = req->next;
		request_free(req);
	}
	HASH_ITER (hh, s->peers, pc, tmp)
	{
		HASH_DEL(s->peers, pc);
		free(pc);
	}
	net_pool_destroy(&s->pool);
	if (s->spare_fd >= 0)
		close(s->spare_fd);
	free(s);
}

void
net_server_stats(const NetServer *s, NetStats *out)
{
	*out = s->stats;
	out->buffer_bytes = s->pool.used;
	out->buffer_peak = s->pool.peak;
}
