#include "brokerd/net/buf.h"

#include <stdlib.h>
#include <string.h>

enum
{
	FREE_LARGE_MAX = 16,
	FREE_LARGE_BYTES = 2 << 20 /* a larger buffer goes back to malloc at once */
};

void
net_pool_init(NetPool *pool, size_t limit)
{
	memset(pool, 0, sizeof(*pool));
	pool->limit = limit;
}

static void
free_list(NetBuf *buf)
{
	while (buf != NULL)
	{
		NetBuf *next = buf->next_free;

		free(buf->data);
		free(buf);
		buf = next;
	}
}

void
net_pool_destroy(NetPool *pool)
{
	free_list(pool->free_small);
	free_list(pool->free_large);
	memset(pool, 0, sizeof(*pool));
}

/* The first of the kept buffers that is large enough; sizes differ little, since clients batch alike. */
static NetBuf *
take_large(NetPool *pool, size_t cap)
{
	for (NetBuf **link = &pool->free_large; *link != NULL; link = &(*link)->next_free)
	{
		NetBuf *buf = *link;

		if (buf->cap >= cap && buf->cap <= 2 * cap)
		{
			*link = buf->next_free;
			pool->n_free_large--;
			return buf;
		}
	}
	return NULL;
}

bool
net_pool_has_room(const NetPool *pool, size_t cap, size_t returned)
{
	size_t used = pool->used - returned;
	size_t limit = cap > NET_BUF_SMALL ? pool->limit - pool->limit / 4 : pool->limit;

	/* A single buffer may always exist, or one frame above the limit could never be read. */
	return used == 0 || (used <= limit && cap <= limit - used);
}

static NetBuf *
get_buffer(NetPool *pool, size_t cap, size_t returned)
{
	NetBuf *buf = NULL;

	if (cap < NET_BUF_SMALL)
		cap = NET_BUF_SMALL;
	if (!net_pool_has_room(pool, cap, returned))
		return NULL;

	if (cap == NET_BUF_SMALL && pool->free_small != NULL)
	{
		buf = pool->free_small;
		pool->free_small = buf->next_free;
		pool->n_free_small--;
	}
	else if (cap > NET_BUF_SMALL)
		buf = take_large(pool, cap);
	if (buf == NULL)
	{
		buf = malloc(sizeof(*buf));
		if (buf == NULL)
			return NULL;
		buf->data = malloc(cap);
		if (buf->data == NULL)
		{
			free(buf);
			return NULL;
		}
		buf->pool = pool;
		buf->cap = cap;
	}
	buf->next_free = NULL;
	buf->refs = 1;
	buf->start = buf->end = 0;
	pool->used += buf->cap;
	if (pool->used > pool->peak)
		pool->peak = pool->used;
	return buf;
}

NetBuf *
net_buf_get(NetPool *pool, size_t cap)
{
	return get_buffer(pool, cap, 0);
}

void
net_buf_ref(NetBuf *buf)
{
	buf->refs++;
}

void
net_buf_unref(NetBuf *buf)
{
	NetPool *pool = buf->pool;

	if (--buf->refs > 0)
		return;
	pool->used -= buf->cap;
	if (buf->cap == NET_BUF_SMALL && pool->n_free_small < NET_BUF_FREE_MAX)
	{
		buf->next_free = pool->free_small;
		pool->free_small = buf;
		pool->n_free_small++;
	}
	else if (buf->cap > NET_BUF_SMALL && buf->cap <= FREE_LARGE_BYTES && pool->n_free_large < FREE_LARGE_MAX)
	{
		buf->next_free = pool->free_large;
		pool->free_large = buf;
		pool->n_free_large++;
	}
	else
	{
		free(buf->data);
		free(buf);
	}
}

NetBuf *
net_buf_move(NetBuf *buf, size_t cap)
{
	size_t have = buf->end - buf->start;
	NetBuf *to = get_buffer(buf->pool, cap, buf->refs == 1 ? buf->cap : 0);

	if (to == NULL)
		return NULL;
	memcpy(to->data, buf->data + buf->start, have);
	to->end = have;
	net_buf_unref(buf);
	return to;
}
