#include "brokerd/net/resolve.h"

#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum
{
	RUNNING,
	DONE,     /* the loop joins and frees */
	CANCELLED /* the thread frees */
};

struct Resolve
{
	struct ev_loop *loop;
	ev_async done;
	pthread_t thread;
	atomic_int state;
	char host[256];
	char port[8];
	ResolveDone callback;
	void *ctx;
	int error; /* of getaddrinfo */
	struct sockaddr_storage addr;
	socklen_t len;
};

static int
lookup(const char *host, const char *port, int flags, struct sockaddr_storage *addr, socklen_t *len)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV}, *found;
	int error = getaddrinfo(host, port, &hints, &found);

	if (error != 0)
		return error;
	memcpy(addr, found->ai_addr, found->ai_addrlen);
	*len = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

bool
resolve_numeric(const char *host, int port, struct sockaddr_storage *addr, socklen_t *len)
{
	char text[8];

	snprintf(text, sizeof(text), "%d", port & 0xffff);
	return lookup(host, text, AI_NUMERICHOST, addr, len) == 0;
}

static void *
resolve_main(void *arg)
{
	Resolve *r = arg;
	int running = RUNNING;

	r->error = lookup(r->host, r->port, 0, &r->addr, &r->len);
	if (atomic_compare_exchange_strong(&r->state, &running, DONE))
		/* The loop joins this thread before it frees, so the watcher still lives. */
		ev_async_send(r->loop, &r->done);
	else
		free(r);
	return NULL;
}

static void
on_done(struct ev_loop *loop, ev_async *w, int events)
{
	Resolve *r = w->data;

	(void) events;
	ev_async_stop(loop, w);
	pthread_join(r->thread, NULL);
	r->callback(r->ctx, r->error != 0 ? gai_strerror(r->error) : NULL, &r->addr, r->len);
	free(r);
}

Resolve *
resolve_start(struct ev_loop *loop, const char *host, int port, ResolveDone done, void *ctx)
{
	Resolve *r = calloc(1, sizeof(*r));
	pthread_attr_t attr;
	int error;

	if (r == NULL)
		return NULL;
	r->loop = loop;
	r->callback = done;
	r->ctx = ctx;
	snprintf(r->host, sizeof(r->host), "%s", host);
	snprintf(r->port, sizeof(r->port), "%d", port & 0xffff);
	ev_async_init(&r->done, on_done);
	r->done.data = r;
	ev_async_start(loop, &r->done);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 512 * 1024);
	error = pthread_create(&r->thread, &attr, resolve_main, r);
	pthread_attr_destroy(&attr);
	if (error == 0)
		return r;
	ev_async_stop(loop, &r->done);
	free(r);
	return NULL;
}

void
resolve_cancel(Resolve *r)
{
	int running = RUNNING;
	pthread_t thread;

	if (r == NULL)
		return;
	thread = r->thread; /* its own once it is told that it frees */
	ev_async_stop(r->loop, &r->done);
	if (atomic_compare_exchange_strong(&r->state, &running, CANCELLED))
		pthread_detach(thread);
	else
	{
		pthread_join(thread, NULL);
		free(r);
	}
}
