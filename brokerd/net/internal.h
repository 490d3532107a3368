/* internal.h: what the files of net/ share.  Nobody else includes it. */
#ifndef BROKERD_NET_INTERNAL_H
#define BROKERD_NET_INTERNAL_H

#include <utlist.h>
#include <uthash.h>

#include "brokerd/net/net.h"

typedef struct Listener
{
	struct Listener *next;
	NetServer *server;
	ev_io io;
	int fd;
	char name[64];
} Listener;

/* Connections of one address, for max.connections.per.ip. */
typedef struct PeerCount
{
	char host[INET6_ADDRSTRLEN];
	int count;
	UT_hash_handle hh;
} PeerCount;

struct Conn
{
	NetServer *server;
	Listener *listener;
	PeerCount *peer_count;
	int fd;
	ev_io reader;
	ev_io writer;
	ev_timer throttle;

	NetBuf *buf; /* NULL: nothing unread */
	Request *head, *tail;
	int in_flight;     /* requests from `head` to `tail` */
	size_t unsent;     /* bytes of their answers, what is in files left out */
	size_t sent;       /* bytes of the head's response, holes included */
	bool want_flush;   /* on server->flushing */
	size_t wanted;     /* bytes of the buffer that it waits for */
	bool wants_memory; /* on server->hungry */
	bool holding;      /* a request with `hold` is pending */
	bool reading;      /* the reader is started */
	bool ready;        /* on server->ready */
	bool dead;         /* freed at the end of the turn */

	int64_t last_active_ms;
	Conn *prev, *next;               /* server->conns, least recently active first */
	Conn *flush_prev, *flush_next;   /* server->flushing */
	Conn *hungry_prev, *hungry_next; /* server->hungry */
	Conn *ready_prev, *ready_next;   /* server->ready */
	Conn *dead_next;                 /* server->dead */
	void *user;
	char host[INET6_ADDRSTRLEN];
	char peer[INET6_ADDRSTRLEN + 8];
};

struct NetServer
{
	NetOptions opt;
	NetPool pool;
	Listener *listeners;
	Conn *conns;
	Conn *flushing;
	Conn *hungry; /* wait for buffer memory: small buffers first, then first come first served */
	Conn *ready;  /* have whole frames read, and room for them again */
	Conn *dead;
	PeerCount *peers;
	Request *free_requests;
	int n_free_requests;
	int n_pending; /* requests not answered yet */
	int spare_fd;  /* given up for a moment to refuse a connection when descriptors run out */
	bool quiesced;
	ev_prepare prepare;
	ev_idle again; /* active while `ready` is not empty: the loop does not wait */
	ev_timer idle_timer;
	NetStats stats;
};

/* conn.c */
Conn *conn_new(NetServer *s, Listener *l, int fd, const struct sockaddr_storage *addr);
void conn_close(Conn *conn, const char *why); /* why NULL: the peer went, nothing to tell */
void conn_update(Conn *conn);                 /* read or not, by the connection's state */
bool conn_has_room(const Conn *conn);         /* for the buffer that it waits for */
void conn_take_frames(Conn *conn);
void conn_free(Conn *conn);

/* send.c */
void conn_want_flush(Conn *conn);
void conn_flush(Conn *conn);

/* request.c */
Request *request_new(NetServer *s);
void request_free(Request *req);
void request_release_pieces(Request *req);

#endif
