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
 * c->frame until done returns; call_keep and frame_ref keep it.  A request may be made in the arena: client_send empties it.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <uthash.h>
#include <utlist.h>

#include "client/conf.h"
#include "wire/by_topic.h"
#include "wire/errors.h"
#include "wire/frame_in.h"
#include "wire/messages.h"

#define CLIENT_APIS    96 /* keys that versions are kept of */
#define CLIENT_NEVER   (INT64_MAX / 2)
#define CLIENT_NO_NODE (-1)

typedef struct Client Client;
typedef struct Node Node;
typedef struct Conn Conn;
typedef struct Call Call;
typedef struct Topic Topic;

/* The memory of a response that is wanted beyond done. */
typedef struct Kept
{
	Frame *frame;
	Arena arena;
} Kept;

void call_keep(Client *c, Kept *kept); /* the one that was kept before goes */
void kept_free(Kept *kept);

/* Something that is asked for, again and again after failures: between them is a backoff that grows. */
typedef struct Retry
{
	bool wanted;  /* by somebody who has no time for it (retry_want) */
	bool open;    /* asked, not answered */
	int failures; /* one after another */
	int64_t at;   /* not before */
} Retry;

/*
 * err NULL: `response` is decoded, as call->version describes it.  An answer that as a whole says what is wrong is an
 * error with Kafka's code, and the response is there, too.
 */
typedef void (*CallDone)(Client *c, Call *call, const pgb_error *err, void *response);

/*
 * What is asked of one partition, by one call at a time.  The call's answer is given to each of its partitions, and to those
 * that it leaves out, or in front of which it fails, an error without a `part`.  ask_drop makes a partition forget its call:
 * what was revoked, given again or moved never sees what belongs to its former life.
 */
typedef struct Ask
{
	struct Ask *prev, *next;
	Call *call; /* NULL: none is on its way */
	Topic *topic;
	int32_t index, none; /* `none`: topic and index are a key without a hole */
} Ask;

typedef void (*AskDone)(Client *c, Ask *ask, const pgb_error *err, const void *part);

void ask_drop(Ask *ask);

struct Call
{
	/* Of who sends it: */
	CallDone done; /* may be NULL; or answer, for each of asks */
	void *arg;
	AskDone answer;
	Ask *asks;
	int64_t timeout; /* 0: request.timeout.ms */
	Retry *retry;    /* may be NULL; is open until it ends, and knows how when done is called */

	Call *prev, *next;
	const WireApi *api;
	int16_t version;
	bool no_reply; /* done is called, with a NULL response, when it is on its way */
	int32_t correlation_id;
	int64_t deadline;
	WireWriter out; /* holes are filled from their `user`, which lives until done */
	Node *node;
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
	bool want_write;  /* epoll watches for room */
	int64_t since;    /* of CONNECTING */
	Retry retry;      /* DOWN */
	pgb_error broken; /* code 0: it is not; closed by client_run */
	Call *calls;      /* without an answer, in order */
	Call *unsent;     /* the first that is not wholly sent */
	size_t sent;      /* bytes of it */
	int n_calls;
	FrameIn in;
};

struct Node
{
	Node *next;
	int32_t id;     /* below 0: of bootstrap.servers */
	char host[256]; /* as long as names may be */
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

struct Topic
{
	UT_hash_handle hh;
	char *name;
	WUuid id;
	int32_t n; /* 0: not known */
	Part *parts;
	int16_t code;          /* of the last answer */
	int64_t unknown_since; /* 0: known */
	bool subscribed;       /* by pgb_subscribe */
	int32_t place;         /* scratch: in the list of a group that is assigned */
};

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
	size_t topic_size; /* of which a Topic is the beginning */
	Node *asked;       /* of the last client_any */
	Arena arena;
	Frame *frame; /* of the answer that is being given, NULL: of none; who refers to it keeps it */
	void (*step)(void *handle);
	bool interrupted;
	pgb_error last_error; /* of a connection */
	Retry meta;           /* an error that newer metadata may heal wants them */
	uint32_t meta_version;
	int64_t meta_fresh; /* until */
};

/* ---- client.c ---- */

/* A handle: `size` bytes, zero behind the Client that they begin with; the same of each Topic.  NULL: *err. */
void *client_new(size_t size, size_t topic_size, const Conf *conf, void (*step)(void *handle),
				 pgb_error *err);
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
void retry_want(Client *c, Retry *r);  /* from now on its step sees to it */

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
 * Sends a request in the highest version up to `most` that both sides know.  `call` says what becomes of the answer: `done`
 * is called once, before this returns when there is no such version or no memory.
 */
void client_send(Client *c, Conn *conn, int16_t key, int16_t most, const void *request, Call call);

/* ---- conn.c ---- */

void call_end(Client *c, Call *call, const pgb_error *err, void *response); /* done, and frees it */
void conn_open(Client *c, Conn *conn);
void conn_event(Client *c, Conn *conn); /* there is something to read, or room to write */
void conn_check(Client *c, Conn *conn); /* broken, late */
void conn_push(Client *c, Conn *conn, Call *call);
void conn_close(Client *c, Conn *conn, const pgb_error *why);

/* ---- metadata.c ---- */

Topic *metadata_find(const Client *c, WStr name); /* NULL: nobody has asked for it */
Topic *metadata_topic(Client *c, WStr name);      /* asked for from now on; NULL: no memory */
void metadata_step(Client *c);

/* The leader's node, or NULL; then metadata are asked for. */
Node *metadata_leader(Client *c, const Topic *t, int32_t partition);

/* Has the topic been refused, or unknown for too long or at `until`?  -1 and *err, else 0. */
int metadata_failed(Client *c, const Topic *t, int64_t until, pgb_error *err);

#endif
