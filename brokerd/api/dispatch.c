/* dispatch.c: the APIs that are served, and the way of a request to its handler. */
#include "brokerd/api/api.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "brokerd/api/handlers.h"
#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "wire/bytes.h"
#include "wire/by_topic.h"
#include "wire/utf8.h"

/* By API key. */
static const ApiHandler handlers[] = {
#define API_HANDLER(key, handler) [key] = handler,
#include "brokerd/api/handlers.def"
#undef API_HANDLER
};

static ApiHandler
find_handler(int16_t key)
{
	return key >= 0 && key < (int) (sizeof(handlers) / sizeof(handlers[0])) ? handlers[key] : NULL;
}

bool
api_is_served(int16_t key)
{
	return find_handler(key) != NULL;
}

static void
refuse(Request *req, const WireRequestHeader *header, const char *why)
{
	log_msg(LOG_WARNING, "api", "connection from %s closed: %s (API key %d, version %d)",
			conn_peer(req->conn), why, header->key, header->version);
	net_abort(req);
}

static void
on_cancel(Request *req)
{
	ApiCall *call = req->op;

	if (call->cancelled != NULL)
		call->cancelled(call);
}

/* A client id is shown to people and kept in PostgreSQL: bytes that no UTF-8 text can hold become '?'. */
static WStr
printable_client_id(Arena *arena, WStr id)
{
	char *copy;

	if (id.len <= 0 ||
		(utf8_valid((const uint8_t *) id.s, (size_t) id.len) && memchr(id.s, 0, (size_t) id.len) == NULL))
		return id;
	copy = arena_copy(arena, id.s, (size_t) id.len);
	if (copy == NULL)
		return WSTR_NULL;
	for (int32_t i = 0; i < id.len; i++)
		if ((signed char) copy[i] <= 0)
			copy[i] = '?';
	return (WStr){copy, id.len};
}

void
api_request(void *ctx, Request *req)
{
	Broker *broker = ctx;
	WireRequestHeader header = {0};
	WireReader reader;
	WireHeaderResult result = wire_request_header_decode(req->frame, req->len, &header, &reader);
	ApiHandler handler;
	ApiCall *call;

	if (result == WIRE_HEADER_MALFORMED)
	{
		refuse(req, &header, "malformed request header");
		return;
	}
	handler = find_handler(header.key);
	call = arena_alloc(&req->arena, sizeof(*call));
	if (call == NULL)
	{
		refuse(req, &header, "out of memory");
		return;
	}
	call->broker = broker;
	call->req = req;
	call->api = header.api;
	call->version = header.version;
	call->correlation_id = header.correlation_id;
	call->client_id = printable_client_id(&req->arena, header.client_id);
	call->arena = &req->arena;
	req->op = call;
	req->on_cancel = on_cancel;
	if (result == WIRE_HEADER_UNSUPPORTED || handler == NULL)
	{
		if (header.key == API_API_VERSIONS)
			api_versions_downgrade(call);
		else
			refuse(req, &header, "API or version not served");
		return;
	}
	call->body = api_new(call, header.api->request, 1);
	if (wire_decode(header.api->request, header.version, &reader, call->arena, call->body) != 0)
	{
		refuse(req, &header, reader.why);
		return;
	}
	handler(call);
}

static void
encode(ApiCall *call, const void *response)
{
	WireWriter *w = &call->req->writer;
	size_t start;

	wire_writer_reset(w);
	start = wire_response_begin(w, call->api, call->version, call->correlation_id);
	if (wire_encode(call->api->response, call->version, w, response) == 0)
		wire_frame_end(w, start);
}

static void
send_encoded(ApiCall *call)
{
	Request *req = call->req;
	WireWriter *w = &req->writer;
	NetHole *holes = NULL;

	if (w->n_holes > 0)
		holes = api_alloc(call, sizeof(*holes) * (size_t) w->n_holes);
	for (int i = 0; i < w->n_holes; i++)
		holes[i] = (NetHole){w->holes[i].pos, w->holes[i].user};
	if (w->failed)
	{
		log_msg(LOG_ERROR, "api", "a response to %s could not be encoded (too large, or out of memory)",
				call->api->name);
		req->close_after = true;
		net_respond(req, NULL, 0, holes, 0);
		return;
	}
	net_respond(req, w->buf, w->len, holes, w->n_holes);
}

void
api_reply(ApiCall *call, const void *response)
{
	encode(call, response);
	send_encoded(call);
}

void
api_reply_and_keep(ApiCall *call, const void *response, ReadyAnswer *ready)
{
	const WireWriter *w = &call->req->writer;

	encode(call, response);
	if (!w->failed && w->n_holes == 0 && w->len <= sizeof(ready->bytes))
	{
		memcpy(ready->bytes, w->buf, w->len);
		ready->len = w->len;
	}
	send_encoded(call);
}

bool
api_reply_ready(ApiCall *call, const ReadyAnswer *ready)
{
	WireWriter *w = &call->req->writer;

	if (ready->len == 0)
		return false;
	wire_writer_reset(w);
	wire_put_bytes(w, ready->bytes, ready->len);
	/* In every response the correlation id is what follows the length. */
	if (!w->failed)
		put_be32(w->buf + 4, (uint32_t) call->correlation_id);
	send_encoded(call);
	return true;
}

void
api_no_reply(ApiCall *call)
{
	net_drop(call->req);
}

void
api_abort(ApiCall *call)
{
	net_abort(call->req);
}

static void *
not_null(void *p)
{
	if (p == NULL)
	{
		log_msg(LOG_FATAL, "api", "out of memory");
		abort();
	}
	return p;
}

void *
api_alloc(ApiCall *call, size_t size)
{
	return not_null(arena_alloc(call->arena, size > 0 ? size : 1));
}

void *
api_new(ApiCall *call, const WireMsg *desc, int32_t n)
{
	return not_null(wire_new(desc, call->arena, n > 0 ? n : 1));
}

void *
api_by_topic(ApiCall *call, const WireMsg *desc, void *response, WStr topic, int32_t index)
{
	return not_null(wire_by_topic_add(desc, call->arena, response, topic, index));
}

WStr
api_printf(ApiCall *call, const char *fmt, ...)
{
	va_list ap, again;
	int len;
	char *text;

	va_start(ap, fmt);
	va_copy(again, ap);
	len = vsnprintf(NULL, 0, fmt, ap);
	text = api_alloc(call, (size_t) len + 1);
	vsnprintf(text, (size_t) len + 1, fmt, again);
	va_end(again);
	va_end(ap);
	return (WStr){text, len};
}

WStr
api_copy(ApiCall *call, const char *s)
{
	size_t len;

	if (s == NULL)
		return WSTR_NULL;
	len = strlen(s);
	return (WStr){not_null(arena_strndup(call->arena, s, len)), (int32_t) len};
}

int64_t
api_deadline(const ApiCall *call, int32_t timeout_ms)
{
	(void) call;
	return clock_boot_ms() + (timeout_ms > 0 ? timeout_ms : 1);
}

void
api_requester(const ApiCall *call, MetaRequester *who)
{
	who->principal = "User:ANONYMOUS";
	who->address = call->req->conn != NULL ? conn_peer_host(call->req->conn) : NULL;
}
