/*
 * net.h: listeners, connections and the frames on them.  Loop thread only.
 *
 * A connection carries Kafka's framing: int32 length, then so many bytes.  Each whole frame becomes a
 * Request, is given to `on_request` in order of arrival, and is answered by net_respond() then or later;
 * responses leave in the order in which their requests came:
 *
 *     conn->head -> [answered] -> [answered] -> [pending] -> [answered] -> NULL     (oldest first)
 *                    \__ sent now ________/      '- nothing behind it leaves before it is answered
 *
 * At most NET_IN_FLIGHT requests of a connection are begun and not yet answered to the last byte, and none is
 * begun behind answers of NET_UNSENT_MAX bytes; then its socket is not read, so that a client that does not
 * take its answers stops itself.  A request with `hold` set keeps later frames unread
 * until it is answered.
 *
 * A response is bytes with holes: at a hole the bytes of a NetPiece go out, from memory or by sendfile.
 *
 * When a connection ends, requests that are still pending get `conn` = NULL and their `on_cancel` called;
 * whoever works on them still calls net_respond() (or net_drop()), which then only frees them.
 */
#ifndef BROKERD_NET_NET_H
#define BROKERD_NET_NET_H

#include <ev.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "brokerd/base/err.h"
#include "brokerd/net/buf.h"
#include "wire/arena.h"
#include "wire/codec.h"

enum
{
	NET_IN_FLIGHT = 64,
	NET_UNSENT_MAX = 256 << 10 /* bytes in memory; what is sent from files does not count */
};

typedef struct NetServer NetServer;
typedef struct Conn Conn;
typedef struct Request Request;

/* What fills a hole of a response. `release` is called once, when it is sent or the connection is gone. */
typedef struct NetPiece
{
	int fd; /* sendfile from here; -1: `data` */
	int64_t pos;
	const uint8_t *data;
	size_t len;
	void (*release)(struct NetPiece *piece);
	void *owner;
} NetPiece;

typedef struct NetHole
{
	size_t at; /* byte of the response before which the piece goes */
	NetPiece *piece;
} NetHole;

struct Request
{
	Request *next;
	NetServer *server;
	Conn *conn; /* NULL: the connection is gone */
	NetBuf *buf;
	uint8_t *frame; /* behind the length; may be changed in place */
	size_t len;
	int64_t received_us; /* boot clock */
	Arena arena;         /* lives as long as the request */
	WireWriter writer;   /* the answer's memory, kept warm from request to request */
	int refs;            /* the answer, and each net_request_ref() */

	bool answered;
	bool hold;        /* keep later frames of this connection unread until answered */
	bool close_after; /* close the connection once this is sent */
	void (*on_cancel)(Request *req);
	void *op; /* of whoever works on it */

	const uint8_t *out; /* the response with its length prefix */
	size_t out_len;
	NetHole *holes; /* sorted by `at` */
	int n_holes;
};

typedef struct NetOptions
{
	struct ev_loop *loop;
	size_t max_frame;      /* socket.request.max.bytes */
	size_t max_queued;     /* queued.max.request.bytes */
	int64_t max_idle_ms;   /* connections.max.idle.ms */
	int max_connections;   /* max.connections */
	int max_per_ip;        /* max.connections.per.ip */
	int backlog;           /* socket.listen.backlog.size */
	size_t send_buffer;    /* socket.send.buffer.bytes; 0 = the system's */
	size_t receive_buffer; /* socket.receive.buffer.bytes; 0 = the system's */
	void (*on_request)(void *ctx, Request *req);
	void (*on_close)(void *ctx, Conn *conn); /* before `conn` is freed */
	void *ctx;
} NetOptions;

NetServer *net_server_new(const NetOptions *opt);
/* Binds, and lets the kernel queue connections; none is taken before net_server_start().  host "" = all addresses;
 * port 0 = the system chooses; `bound_port` gets the real one. */
bool net_server_listen(NetServer *s, const char *host, int port, const char *listener_name, int *bound_port,
					   Err *err) __attribute__((warn_unused_result));
void net_server_start(NetServer *s);
/* Take no new connections and read no new frames; what is in flight is still answered. */
void net_server_quiesce(NetServer *s);
bool net_server_idle(const NetServer *s); /* nothing in flight, nothing unsent */
/* Pending requests are cancelled; those that storage or PostgreSQL still work on live until they are done. */
void net_server_close_connections(NetServer *s);
void net_server_free(NetServer *s);

typedef struct NetStats
{
	int connections;
	uint64_t accepted, refused, requests, bytes_in, bytes_out;
	size_t buffer_bytes, buffer_peak;
} NetStats;
void net_server_stats(const NetServer *s, NetStats *out);

/* Answer: `out` and what the holes point to live until the request is freed. */
void net_respond(Request *req, const uint8_t *out, size_t out_len, NetHole *holes, int n_holes);
/* No answer is due (acks=0). */
void net_drop(Request *req);
/* No answer, and the connection ends: the client broke the protocol, or acks=0 failed. */
void net_abort(Request *req);

/* Keep the request's frame and arena beyond its answer (storage still writes from the frame). */
void net_request_ref(Request *req);
void net_request_unref(Request *req);

const char *conn_peer(const Conn *conn);      /* "127.0.0.1:40123" */
const char *conn_peer_host(const Conn *conn); /* "127.0.0.1" */
const char *conn_listener(const Conn *conn);  /* the listener's name */
void *conn_user(const Conn *conn);
void conn_set_user(Conn *conn, void *user);
/* Stop reading for a while (client quotas); the answer that says so has been given. */
void conn_throttle(Conn *conn, int64_t ms);

#endif
