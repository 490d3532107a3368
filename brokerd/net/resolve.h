/*
 * resolve.h: a host name becomes an address on a thread of its own.  Loop thread only; the callback comes from
 * the loop, and never after resolve_cancel().
 */
#ifndef BROKERD_NET_RESOLVE_H
#define BROKERD_NET_RESOLVE_H

#include <ev.h>
#include <stdbool.h>
#include <sys/socket.h>

typedef struct Resolve Resolve;

/* `error` NULL: `addr` is filled. */
typedef void (*ResolveDone)(void *ctx, const char *error, const struct sockaddr_storage *addr, socklen_t len);

/* An address in digits needs no thread: true, and `addr` is filled. */
bool resolve_numeric(const char *host, int port, struct sockaddr_storage *addr, socklen_t *len);
/* NULL: no memory or no thread. */
Resolve *resolve_start(struct ev_loop *loop, const char *host, int port, ResolveDone done, void *ctx);
void resolve_cancel(Resolve *r);

#endif
