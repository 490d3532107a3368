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
 * Done functions free what is theirs; they do not close connections.  A response lives in the client's arena and in
 * call->frame until done returns; call_keep and frame_ref keep it.  A request may be made in the arena: client_send empties it.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <uthash.h>
#include <utlist.h>

#include "client/conf.h"
#include "wire/by_topic.h"
#include "wire/errors.h"
#include "wire/messages.h"

#define CLIENT_APIS    96 /* keys that versions are kept of */
#define CLIENT_NEVER   (INT64_MAX / 2)
#define CLIENT_NO_NODE (-1)
#define CLIENT_NO_CALL (-1)

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

/* The memory of a response that is wanted beyond done. */
typedef struct Kept
{
	Frame *frame;
	Arena arena;
} Kept;

void call_keep(Client *c, Call *call, Kept *kept); /* the one that was kept before goes */
void kept_free(Kept *kept);

/* Something that is asked for, again and again after failures: between them is a backoff that grows. */
typedef struct Retry
{
	bool open;    /* asked, not answered */
	int failures; /* one after another */
	int64_t at;   /* not before */
} Retry;

/*
 * err NULL: `response` is decoded, as call->version describes it.  An answer that as a whole says what is wrong is an
 * error with Kafka's code, and the response is there, too.
 */
typedef void (*CallDone)(Client *c, Call *call, const pgb_error *err, void *response);

struct Call
{
	Call *prev, *next;
	const WireApi *api;
	int16_t version;
	bool no_reply; /* done is called, with a NULL response, when it is on its way */
	int32_t correlation_id;
	int64_t deadline;
	WireWriter out; /* holes are filled from their `user`, which lives until done */
	Frame *frame;
	Node *node;
	Retry *retry; /* may be NULL; knows how the call ended when done is called */
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
	bool want_write; /* epoll watches for room */
	int64_t since;   /* of CONNECTING */
	Retry retry;     /* DOWN */
	int broken;      /* errno of a failed write; looked at by client_run */
	Call *calls;     /* without an answer, in order */
	Call *unsent;    /* the first that is not wholly sent */
	size_t sent;     /* bytes of it */
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
	bool gone;       /* not in the last metadata */
	bool full;       /* scratch of a consumer's step, as the next */
	unsigned wanted; /* bits of questions */
	int tries;       /* which of the name's addresses is next */
	int16_t min[CLIENT_APIS], max[CLIENT_APIS];
	Conn conns[USE_COUNT];
};

typedef struct Part
{
	int32_t leader; /* CLIENT_NO_NODE */
	int32_t epoch;
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
	bool subscribed;       /* by pgb_subscribe */
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
	Node *asked; /* of the last client_any */
	Arena arena;
	void (*step)(void *handle);
	bool interrupted;
	pgb_error last_error; /* of a connection */
	bool meta_wanted;
	Retry meta;
	uint32_t meta_version;
	int64_t meta_fresh; /* until */
};

/* ---- client.c ---- */

/* A handle: `size` bytes, zero behind the Client that they begin with.  NULL: *err. */
void *client_new(size_t size, const Conf *conf, void (*step)(void *handle), pgb_error *err);
void client_free_nodes(Client *c); /* every call comes to its end, with an error */
void client_free(Client *c);
int64_t client_clock(void); /* monotonic */
int64_t client_time(void);  /* since 1970 */

/* One turn; waits until `until` at most (0 = not at all), less when something is to be done. */
void client_run(Client *c, int64_t until);
void client_wake_at(Client *c, int64_t when);
int client_timeout(const Client *c); /* milliseconds until client_run has to be called */
uint64_t client_random(Client *c);

/* Is it to be asked for now? If its time has not come, the client wakes up then. */
bool retry_due(Client *c, const Retry *r);
void retry_later(Client *c, Retry *r); /* it failed */

/* Room for one more behind `n` items of `size` in *(void **) array, which doubles; false: no memory. */
bool array_room(void *array, size_t n, size_t size) __attribute__((warn_unused_result));

/* error_set, with what is wrong with the connections behind it. */
int client_late(const Client *c, pgb_error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

Node *client_node(Client *c, int32_t id); /* NULL: unknown */

/* Makes it known, or another address of it.  NULL: no memory. */
Node *client_add_node(Client *c, int32_t id, WStr host, int port);

/* A connection that is ready, or NULL: then it is being made, or waits for its next try. */
Conn *client_ready(Client *c, Node *node, ConnUse use);

/* To whichever broker is there (USE_CONTROL): that of last time, or while it is not to be had the next ones. */
Conn *client_any(Client *c);

/*
 * Sends a request in the highest version up to `most` that both sides know.  `done` is called once, with the
 * correlation id that c->correlation_id is now; before this returns when there is no such version or no memory.
 * `retry` is open until then, and after a failure has to wait.
 */
void client_send(Client *c, Conn *conn, int16_t key, int16_t most, const void *request, CallDone done,
				 void *arg, int64_t timeout, Retry *retry);

/* ---- conn.c ---- */

void call_end(Client *c, Call *call, const pgb_error *err, void *response); /* done, and frees it */
bool conn_open(Client *c, Conn *conn);                                      /* false: it is down again */
void conn_event(Client *c, Conn *conn, bool readable, bool writable);
void conn_check(Client *c, Conn *conn); /* broken, late */
void conn_push(Client *c, Conn *conn, Call *call);
void conn_close(Client *c, Conn *conn, const pgb_error *why);

/* ---- metadata.c ---- */

Topic *metadata_find(const Client *c, WStr name); /* NULL: nobody has asked for it */
Topic *metadata_topic(Client *c, WStr name);      /* asked for from now on; NULL: no memory */
void metadata_want(Client *c);
void metadata_step(Client *c);
void metadata_free(Client *c);

/* The leader's node, or NULL; then metadata are asked for. */
Node *metadata_leader(Client *c, const Topic *t, int32_t partition);

/* Has the topic been refused, or unknown for too long or at `until`?  -1 and *err, else 0. */
int metadata_failed(Client *c, const Topic *t, int64_t until, pgb_error *err);

#endif
