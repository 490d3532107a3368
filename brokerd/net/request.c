#include "brokerd/net/internal.h"

#include <stdlib.h>

enum
{
	FREE_REQUESTS_MAX = 64, /* each may keep an arena of ARENA_KEEP_MAX: 16 MiB at most */
	WRITER_KEEP = 64 << 10, /* bytes: a larger answer's memory is not kept */
	ARENA_FIRST = 4 << 10   /* bytes: what one ordinary request needs, so that a warm one allocates nothing */
};

Request *
request_new(NetServer *s)
{
	Request *req = s->free_requests;

	if (req != NULL)
	{
		Arena arena = req->arena;
		WireWriter writer = req->writer;

		s->free_requests = req->next;
		s->n_free_requests--;
		memset(req, 0, sizeof(*req));
		req->arena = arena;
		req->writer = writer;
	}
	else
	{
		req = calloc(1, sizeof(*req));
		if (req == NULL)
			return NULL;
		arena_init(&req->arena, ARENA_FIRST);
		wire_writer_init(&req->writer);
	}
	req->server = s;
	req->refs = 1;
	return req;
}

void
request_free(Request *req)
{
	arena_free(&req->arena);
	wire_writer_free(&req->writer);
	free(req);
}

void
request_release_pieces(Request *req)
{
	for (int i = 0; i < req->n_holes; i++)
	{
		NetPiece *piece = req->holes[i].piece;

		if (piece != NULL && piece->release != NULL)
			piece->release(piece);
		req->holes[i].piece = NULL;
	}
	req->n_holes = 0;
}

void
net_request_ref(Request *req)
{
	req->refs++;
}

void
net_request_unref(Request *req)
{
	NetServer *s = req->server;

	if (--req->refs > 0)
		return;
	request_release_pieces(req);
	if (req->buf != NULL)
		net_buf_unref(req->buf);
	if (s->n_free_requests < FREE_REQUESTS_MAX && req->writer.cap <= WRITER_KEEP)
	{
		arena_reset(&req->arena);
		req->buf = NULL;
		req->next = s->free_requests;
		s->free_requests = req;
		s->n_free_requests++;
		return;
	}
	request_free(req);
}

/* The request leaves the pending ones; false: its connection is gone, and so is the request. */
static bool
request_answered(Request *req)
{
	req->server->n_pending--;
	req->on_cancel = NULL;
	if (req->conn == NULL)
	{
		net_request_unref(req);
		return false;
	}
	req->answered = true;
	if (req->hold)
		req->conn->holding = false;
	return true;
}

void
net_respond(Request *req, const uint8_t *out, size_t out_len, NetHole *holes, int n_holes)
{
	req->out = out;
	req->out_len = out_len;
	req->holes = holes;
	req->n_holes = n_holes;
	if (request_answered(req))
	{
		req->conn->unsent += out_len;
		conn_want_flush(req->conn);
	}
}

void
net_drop(Request *req)
{
	net_respond(req, NULL, 0, NULL, 0);
}

void
net_abort(Request *req)
{
	req->close_after = true;
	net_drop(req);
}
