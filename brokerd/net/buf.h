/*
 * buf.h: read buffers that are shared by the requests cut out of them.
 *
 *     NetBuf.data   |<-- frame 1 -->|<-- frame 2 -->|<-- part of frame 3 -->|   free   |
 *                                                   ^start                  ^end       ^cap
 *
 * A connection reads into one NetBuf; each whole frame becomes a request that holds a reference, so nothing
 * is copied, and record batches may be changed in place and handed to storage, which keeps the request (and
 * so the reference) until its write is done.  A frame that does not fit into what is left moves to a buffer
 * of its own, which grows as its bytes come: a length that a peer merely claims costs nothing.
 *
 * NetPool counts what all buffers hold against queued.max.request.bytes.  Loop thread only.
 */
#ifndef BROKERD_NET_BUF_H
#define BROKERD_NET_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum
{
	NET_BUF_SMALL = 64 << 10, /* bytes; the size that is pooled, and what a silent peer can make us hold */
	NET_BUF_FREE_MAX = 64     /* small buffers kept for reuse */
};

typedef struct NetPool NetPool;

typedef struct NetBuf
{
	NetPool *pool;
	struct NetBuf *next_free;
	int refs;
	size_t cap;
	size_t start; /* first byte that is in no request yet */
	size_t end;   /* behind the last byte read */
	uint8_t *data;
} NetBuf;

struct NetPool
{
	size_t limit; /* queued.max.request.bytes */
	size_t used;  /* bytes of all live buffers */
	size_t peak;
	NetBuf *free_small;
	int n_free_small;
	NetBuf *free_large; /* one buffer of the last large size: a producer of large batches reuses it */
	int n_free_large;
};

void net_pool_init(NetPool *pool, size_t limit);
void net_pool_destroy(NetPool *pool);

/*
 * Whether a buffer of `cap` bytes fits beside what is used, `returned` bytes of which come back for it.  Large
 * buffers leave a quarter of the limit to small ones: half-sent large requests stop large requests only.
 */
bool net_pool_has_room(const NetPool *pool, size_t cap, size_t returned);

/* NULL: the pool is at its limit (or memory is out); wait until something is given back. */
NetBuf *net_buf_get(NetPool *pool, size_t cap);
void net_buf_ref(NetBuf *buf);
void net_buf_unref(NetBuf *buf);

/*
 * A buffer of at least `cap` bytes that begins with the unread bytes of `buf`; the caller's reference on
 * `buf` moves to it.  NULL: no memory now, `buf` is unchanged.
 */
NetBuf *net_buf_move(NetBuf *buf, size_t cap);

#endif
