/*
 * client.h: an outgoing connection with Kafka's framing: what a broker uses to talk to another one.  Loop thread
 * only; a host name is resolved on a short thread, so that no name server ever stops the loop.
 *
 *     net_client_open() ──▶ resolving ──▶ connecting ──▶ open ──▶ ended
 *                                             │            on_open, then on_frame for each frame that comes
 *                                             └─────────▶ on_end, once
 *
 * A frame belongs to who gets it until frame_unref(): record batches in it can be handed to storage as they
 * are.  After net_client_close() nothing is called any more.
 */
#ifndef BROKERD_NET_CLIENT_H
#define BROKERD_NET_CLIENT_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/frame_in.h"

typedef struct NetClient NetClient;

typedef enum NetEnd
{
	NET_END_CLOSED,  /* by the peer, a broken connection, a broken frame */
	NET_END_REFUSED, /* nobody listens there: no such process */
	NET_END_FAILED   /* no name, no route, no descriptor */
} NetEnd;

typedef struct NetClientOptions
{
	struct ev_loop *loop;
	const char *host; /* copied */
	int port;
	size_t max_frame; /* a longer one ends the connection */
	void (*on_open)(void *ctx);
	void (*on_frame)(void *ctx, Frame *frame); /* the callee's to unref */
	/* `why` is a sentence.  The client is still to be closed by its owner. */
	void (*on_end)(void *ctx, NetEnd end, const char *why);
	void *ctx;
} NetClientOptions;

/* NULL: out of memory. */
NetClient *net_client_open(const NetClientOptions *opt);
/* Copies; goes out in order, what the socket does not take now goes later.  Only when open. */
void net_client_send(NetClient *c, const void *data, size_t len);
bool net_client_is_open(const NetClient *c);
void net_client_close(NetClient *c); /* NULL is fine */

#endif
