#include "brokerd/net/client.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "brokerd/net/resolve.h"

enum
{
	READ_TURN = 1 << 20 /* bytes before the loop's others get their turn */
};

struct NetClient
{
	NetClientOptions opt;
	char *host;
	Resolve *resolve;
	int fd; /* -1: none yet */
	bool open;
	bool ended;
	ev_io reader, writer;
	ev_timer start; /* what cannot be told from inside net_client_open() */
	NetEnd early_end;
	char early_why[128];
	FrameIn in;
	/* out: sent ... len */
	uint8_t *out;
	size_t out_sent, out_len, out_cap;
};

/* ---- the end ---- */

static void
stop_watchers(NetClient *c)
{
	ev_io_stop(c->opt.loop, &c->reader);
	ev_io_stop(c->opt.loop, &c->writer);
	ev_timer_stop(c->opt.loop, &c->start);
}

static void
end_with(NetClient *c, NetEnd end, const char *why)
{
	stop_watchers(c);
	c->open = false;
	c->ended = true;
	c->opt.on_end(c->opt.ctx, end, why);
}

static void
end_with_errno(NetClient *c, int error)
{
	end_with(c,
			 error == ECONNREFUSED ? NET_END_REFUSED
			 : c->open             ? NET_END_CLOSED
								   : NET_END_FAILED,
			 strerror(error));
}

void
net_client_close(NetClient *c)
{
	if (c == NULL)
		return;
	stop_watchers(c);
	resolve_cancel(c->resolve);
	if (c->fd >= 0)
		close(c->fd);
	frame_in_free(&c->in);
	free(c->out);
	free(c->host);
	free(c);
}

/* ---- in ---- */

/*
 * What belongs to the present frame or its head, and nothing behind: who is given a frame may close the client, and then
 * nothing may be left to be said.
 */
static void
on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	NetClient *c = io->data;
	ssize_t n, turn = 0;

	(void) loop;
	(void) events;
	for (; turn < READ_TURN; turn += n)
	{
		struct iovec iov[2];
		const char *wrong;
		Frame *frame;

		frame_in_room(&c->in, iov);
		n = recv(c->fd, iov[0].iov_base, iov[0].iov_len, 0);
		if (n < 0 && errno == EINTR)
		{
			n = 0;
			continue;
		}
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (n <= 0)
		{
			end_with(c, NET_END_CLOSED, n == 0 ? "the peer closed it" : strerror(errno));
			return;
		}
		wrong = frame_in_took(&c->in, (size_t) n, &frame);
		if (wrong != NULL)
		{
			char why[96];

			snprintf(why, sizeof(why), "a frame of %zu bytes %s", c->in.size, wrong);
			end_with(c, NET_END_CLOSED, why);
			return;
		}
		if (frame != NULL)
		{
			/* The owner may close the client in it: nothing of it is touched afterwards. */
			c->opt.on_frame(c->opt.ctx, frame);
			return;
		}
	}
}

/* ---- out ---- */

static void
flush(NetClient *c)
{
	while (c->out_sent < c->out_len)
	{
		ssize_t n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break; /* full, or broken: reading says so */
		c->out_sent += (size_t) n;
	}
	if (c->out_sent == c->out_len)
	{
		c->out_sent = c->out_len = 0;
		ev_io_stop(c->opt.loop, &c->writer);
	}
	else
		ev_io_start(c->opt.loop, &c->writer);
}

void
net_client_send(NetClient *c, const void *data, size_t len)
{
	if (c->out_cap - c->out_len < len)
	{
		size_t cap = c->out_cap > 0 ? c->out_cap : 512;
		uint8_t *grown;

		while (cap - c->out_len < len)
			cap *= 2;
		grown = realloc(c->out, cap);
		if (grown == NULL)
			return; /* no answer comes, and the owner's timeout ends it */
		c->out = grown;
		c->out_cap = cap;
	}
	memcpy(c->out + c->out_len, data, len);
	c->out_len += len;
	flush(c);
}

bool
net_client_is_open(const NetClient *c)
{
	return c->open;
}

/* ---- connecting ---- */

static void
on_writable(struct ev_loop *loop, ev_io *io, int events)
{
	NetClient *c = io->data;
	int error = 0;
	socklen_t len = sizeof(error);

	(void) loop;
	(void) events;
	if (c->open)
	{
		flush(c);
		return;
	}
	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error != 0)
	{
		end_with_errno(c, error);
		return;
	}
	c->open = true;
	ev_io_stop(c->opt.loop, &c->writer);
	ev_io_start(c->opt.loop, &c->reader);
	c->opt.on_open(c->opt.ctx);
}

/* 0, or an errno. */
static int
connect_to(NetClient *c, const struct sockaddr_storage *addr, socklen_t len)
{
	int on = 1;

	c->fd = socket(addr->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return errno;
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	if (connect(c->fd, (const struct sockaddr *) addr, len) != 0 && errno != EINPROGRESS)
		return errno;
	ev_io_set(&c->reader, c->fd, EV_READ);
	ev_io_set(&c->writer, c->fd, EV_WRITE);
	ev_io_start(c->opt.loop, &c->writer);
	return 0;
}

static void
on_resolved(void *ctx, const char *error, const struct sockaddr_storage *addr, socklen_t len)
{
	NetClient *c = ctx;
	int failed;

	c->resolve = NULL;
	if (error != NULL)
	{
		end_with(c, NET_END_FAILED, error);
		return;
	}
	failed = connect_to(c, addr, len);
	if (failed != 0)
		end_with_errno(c, failed);
}

static void
on_start(struct ev_loop *loop, ev_timer *w, int events)
{
	NetClient *c = w->data;

	(void) loop;
	(void) events;
	end_with(c, c->early_end, c->early_why);
}

static void
end_soon(NetClient *c, int error)
{
	c->early_end = error == ECONNREFUSED ? NET_END_REFUSED : NET_END_FAILED;
	snprintf(c->early_why, sizeof(c->early_why), "%s", strerror(error));
	ev_timer_start(c->opt.loop, &c->start);
}

NetClient *
net_client_open(const NetClientOptions *opt)
{
	NetClient *c = calloc(1, sizeof(*c));
	struct sockaddr_storage addr;
	socklen_t len;
	int error = 0;

	if (c == NULL)
		return NULL;
	c->opt = *opt;
	c->opt.host = c->host = strdup(opt->host);
	c->fd = -1;
	/* Peers are ours: what they claim comes. */
	frame_in_init(&c->in, opt->max_frame, opt->max_frame);
	ev_init(&c->reader, on_readable);
	ev_init(&c->writer, on_writable);
	ev_timer_init(&c->start, on_start, 0., 0.);
	c->reader.data = c->writer.data = c->start.data = c;
	if (c->host == NULL)
	{
		free(c);
		return NULL;
	}
	if (resolve_numeric(opt->host, opt->port, &addr, &len))
		error = connect_to(c, &addr, len);
	else
	{
		c->resolve = resolve_start(opt->loop, opt->host, opt->port, on_resolved, c);
		error = c->resolve == NULL ? EAGAIN : 0;
	}
	if (error != 0)
		end_soon(c, error);
	return c;
}
