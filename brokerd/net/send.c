/*
 * send.c: the way out.  Answers are collected during a turn of the loop and leave just before the loop
 * waits again, so that many small ones share a system call.
 */
#include "brokerd/net/internal.h"

#include <errno.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum
{
	SEND_TURN = 1 << 20, /* bytes to one connection before the others get their turn */
	SEND_IOVECS = 64
};

void
conn_want_flush(Conn *conn)
{
	if (conn->want_flush || conn->dead)
		return;
	conn->want_flush = true;
	DL_APPEND2(conn->server->flushing, conn, flush_prev, flush_next);
}

static size_t
response_size(const Request *req)
{
	size_t size = req->out_len;

	for (int i = 0; i < req->n_holes; i++)
		size += req->holes[i].piece->len;
	return size;
}

/* One stretch of a response: memory, or a file. */
typedef struct Stretch
{
	const uint8_t *data; /* NULL: from fd */
	int fd;
	int64_t pos;
	size_t len;
} Stretch;

/*
 * What stands at byte `at` of the response (holes filled):
 *
 *     out[0..h0.at) piece0 out[h0.at..h1.at) piece1 ... out[hn.at..out_len)
 */
static Stretch
stretch_at(const Request *req, size_t at)
{
	size_t out_pos = 0;

	for (int i = 0; i <= req->n_holes; i++)
	{
		size_t out_end = i < req->n_holes ? req->holes[i].at : req->out_len;
		const NetPiece *piece;

		if (at < out_end - out_pos)
			return (Stretch){req->out + out_pos + at, -1, 0, out_end - out_pos - at};
		at -= out_end - out_pos;
		out_pos = out_end;
		if (i == req->n_holes)
			break;
		piece = req->holes[i].piece;
		if (at < piece->len)
		{
			if (piece->data != NULL)
				return (Stretch){piece->data + at, -1, 0, piece->len - at};
			return (Stretch){NULL, piece->fd, piece->pos + (int64_t) at, piece->len - at};
		}
		at -= piece->len;
	}
	return (Stretch){NULL, -1, 0, 0};
}

/* Memory stretches from here on, over several answered requests, until a file, a pending request, or the
 * end.  `*file_next`: a file comes right behind, so the kernel may wait for it (MSG_MORE). */
static int
gather(const Conn *conn, struct iovec *iov, bool *file_next)
{
	size_t at = conn->sent;
	int n = 0;

	*file_next = false;
	for (const Request *req = conn->head; req != NULL && req->answered; req = req->next)
	{
		for (;;)
		{
			Stretch st = stretch_at(req, at);

			if (st.len == 0)
				break;
			if (st.data == NULL)
			{
				*file_next = true;
				return n;
			}
			if (n == SEND_IOVECS)
				return n;
			iov[n].iov_base = (void *) (uintptr_t) st.data;
			iov[n++].iov_len = st.len;
			at += st.len;
		}
		at = 0;
		if (req->close_after)
			break;
	}
	return n;
}

/* Take `n` sent bytes off the front; requests that are wholly sent go.  False: the connection is closed. */
static bool
advance(Conn *conn, size_t n)
{
	conn->sent += n;
	while (conn->head != NULL && conn->head->answered)
	{
		Request *req = conn->head;
		size_t size = response_size(req);
		bool close_after = req->close_after;

		if (conn->sent < size)
			break;
		conn->sent -= size;
		conn->unsent -= req->out_len;
		conn->in_flight--;
		conn->head = req->next;
		if (conn->head == NULL)
			conn->tail = NULL;
		req->next = NULL;
		net_request_unref(req);
		if (close_after)
		{
			conn_close(conn, NULL);
			return false;
		}
	}
	return true;
}

static ssize_t
send_some(Conn *conn, size_t most)
{
	struct iovec iov[SEND_IOVECS];
	bool file_next;
	int n = gather(conn, iov, &file_next);

	if (n > 0)
	{
		struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t) n};

		return sendmsg(conn->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT | (file_next ? MSG_MORE : 0));
	}
	if (file_next)
	{
		Stretch st = stretch_at(conn->head, conn->sent);
		off_t pos = st.pos;
		ssize_t sent = sendfile(conn->fd, st.fd, &pos, st.len < most ? st.len : most);

		if (sent == 0)
		{
			errno = EIO; /* the file is shorter than what we announced: nothing right can follow */
			return -1;
		}
		return sent;
	}
	return 0;
}

void
conn_flush(Conn *conn)
{
	size_t left = SEND_TURN;

	if (!advance(conn, 0)) /* requests without a response go at once */
		return;
	while (conn->head != NULL && conn->head->answered)
	{
		ssize_t n;

		if (left == 0)
		{
			ev_io_start(conn->server->opt.loop, &conn->writer); /* the others first */
			conn_update(conn);
			return;
		}
		n = send_some(conn, left);
		if (n < 0)
		{
			if (errno == EINTR)
				continue;
			if (errno == EAGAIN || errno == EWOULDBLOCK)
			{
				ev_io_start(conn->server->opt.loop, &conn->writer);
				conn_update(conn);
				return;
			}
			conn_close(conn, errno == EPIPE || errno == ECONNRESET ? NULL : strerror(errno));
			return;
		}
		conn->server->stats.bytes_out += (uint64_t) n;
		left -= (size_t) n < left ? (size_t) n : left;
		if (!advance(conn, (size_t) n))
			return;
	}
	ev_io_stop(conn->server->opt.loop, &conn->writer);
	conn_update(conn);
}
