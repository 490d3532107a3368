/*
 * client.h: what a producer, a consumer and brokerctl stand on: connections to brokers, requests, metadata.
 *
 * A Client belongs to one thread.  Nothing waits but client_run.  Its owner is a set of state machines that look, in
 * `step`, at what they can do now: a request needs a connection that is ready (client_ready gives one or begins to
 * make it), and whoever has to look again later says when (client_wake_at).  So nothing is queued that would have to
 * be taken back.
 *
 *     client_run(c, until)   epoll_wait -> replies (Call.done) -> broken and late connections -> metadata -> step
 *
 * Done functions may send and free what is theirs; they do not close connections.  A response lives in the client's
 * arena and in call->frame until done returns; frame_ref keeps the frame.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <uthash.h>

#include "client/conf.h"
#include "wire/errors.h"
#include "wire/messages.h"

#define CLIENT_APIS     96 /* keys that versions are kept of */
#define CLIENT_NEVER    (INT64_MAX / 2)
#define CLIENT_NO_NODE  (-1)
#define CLIENT_SOFTWARE WSTR_LIT("pgbroker")

typedef struct Client Client;
typedef struct Node Node;
typedef struct Conn Conn;
typedef struct Call Call;

/* What came from a broker in one piece, without its length. */
typedef struct Frame
{
	int refs;
	size_t len;
	uint8_t data[];
} Frame;

Frame *frame_ref(Frame *f);
void frame_unref(Frame *f);

/* err NULL: `response` is decoded, as call->version describes it. */
typedef void (*CallDone)(Client *c, Call *call, const pgb_error *err, void *response);

struct Call
{
	Call *next;
	const WireApi *api;
	int16_t version;
	bool no_reply; /* done is called, with a NULL response, when it is on its way */
	int32_t correlation_id;
	int64_t deadline;
	WireWriter out; /* holes are filled from their `user`, which lives until done */
	Frame *frame;
	Node *node;
	CallDone done;
	void *arg;
};

/* A broker answers one connection's requests in order, so what may wait long has one of its own. */
typedef enum ConnUse
{
	USE_DATA,    /* Produce, Fetch */
	USE_CONTROL, /* metadata, offsets, ids */
	USE_GROUP,   /* JoinGroup and SyncGroup park it */
	USE_COUNT
} ConnUse;

typedef enum ConnState
{
	CONN_DOWN,
	CONN_CONNECTING,
	CONN_VERSIONS,
	CONN_READY
} ConnState;

struct Conn
{
	Node *node;
	int fd;
	ConnState state;
	bool want_write;         /* epoll watches for room */
	int64_t since, deadline; /* of CONNECTING */
	int64_t retry_at;        /* DOWN */
	int failures;
	int broken; /* errno of a failed write; looked at by client_run */
	Call *first, *last;
	Call *unsent; /* the first that is not wholly sent */
	size_t sent;  /* bytes of it */
	int n_calls;
	uint8_t head[4];
	size_t head_got;
	Frame *in;
	size_t in_size, in_cap;
};

struct Node
{
	Node *next;
	int32_t id; /* below 0: of bootstrap.servers */
	char *host;
	int port;
	char rack[64];
	bool gone;         /* not in the last metadata */
	bool wanted, full; /* scratch of one fetch_step */
	int tries;         /* which of the name's addresses is next */
	int16_t min[CLIENT_APIS], max[CLIENT_APIS];
	Conn conns[USE_COUNT];
};

typedef struct Part
{
	int32_t leader; /* CLIENT_NO_NODE */
	int32_t epoch;
	int16_t code;
} Part;

typedef struct Topic
{
	UT_hash_handle hh;
	char *name;
	WUuid id;
	int32_t n; /* 0: not known */
	Part *parts;
	int16_t code;          /* of the last answer */
	int64_t unknown_since; /* 0: known */
	void *owner;           /* the producer's side of it */
} Topic;

struct Client
{
	Conf conf;
	int epfd;
	int wakefd; /* pgb_interrupt */
	int64_t now;
	int64_t wake;
	uint64_t random;
	int32_t correlation_id;
	Node *nodes;
	Topic *topics;
	Arena arena;
	Arena
		ask; /* requests for client_call, which takes turns before it sends: they would lose what is in `arena` */
	Arena kept; /* of the last client_call */
	Frame *kept_frame;
	void (*step)(Client *c);
	void *owner;
	bool interrupted;
	pgb_error last_error; /* of a connection */
	char cluster_id[64];
	int32_t controller;
	bool meta_wanted, meta_asked, create_topics;
	int meta_failures;
	uint32_t meta_version;
	int64_t meta_at;    /* not before */
	int64_t meta_fresh; /* until */
	Node *meta_node;
};

/* ---- client.c ---- */

int client_init(Client *c, const Conf *conf, pgb_error *err);
void client_free_nodes(Client *c); /* every call comes to its end, with an error */
void client_free(Client *c);
int64_t client_clock(void); /* monotonic */
int64_t client_time(void);  /* since 1970 */

/* One turn; waits until `until` at most (0 = not at all), less when something is to be done. */
void client_run(Client *c, int64_t until);
void client_wake_at(Client *c, int64_t when);
int client_timeout(const Client *c); /* milliseconds until client_run has to be called */
uint64_t client_random(Client *c);

/* Before the n-th retry (1, 2, ...): doubled, bounded, a fifth more or less. */
int64_t client_backoff(Client *c, int n);

Node *client_node(Client *c, int32_t id); /* NULL: unknown */
Node *client_add_node(Client *c, int32_t id, const char *host, size_t len, int port);

/* A connection that is ready, or NULL: then it is being made, or waits for its next try. */
Conn *client_ready(Client *c, Node *node, ConnUse use);
int16_t client_version(const Node *node, int16_t key, int16_t most); /* -1: not in common */

/*
 * Sends a request in the highest version up to `most` that both sides know.  -1, and nothing is called, when there is
 * no such version or no memory.
 */
int client_send(Client *c, Conn *conn, int16_t key, int16_t most, const void *request, CallDone done,
				void *arg, int64_t timeout, pgb_error *err) __attribute__((warn_unused_result));

/*
 * The same, waiting for the response, which lives until the next call of anything here.  `id`: a broker, or
 * CLIENT_NO_NODE for whichever is there.  NULL: *err.
 */
void *client_call(Client *c, int32_t id, int16_t key, int16_t most, const void *request, int64_t timeout,
				  pgb_error *err);

/* ---- conn.c ---- */

void conn_open(Client *c, Conn *conn);
void conn_event(Client *c, Conn *conn, bool readable, bool writable);
void conn_check(Client *c, Conn *conn); /* broken, late */
void conn_push(Client *c, Conn *conn, Call *call);
void conn_close(Client *c, Conn *conn, const pgb_error *why);

/* ---- metadata.c ---- */

Topic *metadata_topic(Client *c, const char *name, size_t len); /* known from now on; NULL: no memory */
void metadata_want(Client *c);
void metadata_step(Client *c);
void metadata_free(Client *c);

/* The leader's node, or NULL; then metadata are asked for. */
Node *metadata_leader(Client *c, const Topic *t, int32_t partition);

/* Has the topic been unknown or refused for too long? -1 and *err, else 0. */
int metadata_failed(Client *c, const Topic *t, pgb_error *err);

static inline WStr
wstr_n(const char *s, size_t len)
{
	return (WStr){s, (int32_t) len};
}

#endif
