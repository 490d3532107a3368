/*
 * pgbroker.h: libpgbroker, a client of Apache Kafka and of pg_broker.
 *
 *     pgb_conf *conf = pgb_conf_new();
 *     pgb_error err;
 *
 *     if (pgb_conf_set(conf, "bootstrap.servers", "127.0.0.1:9092", &err) != 0) ...
 *     pgb_producer *p = pgb_producer_new(conf, &err);
 *
 *     pgb_message m = PGB_MESSAGE("orders");
 *     m.value = pgb_text("hello");
 *     while (pgb_produce(p, &m, &err) != 0 && err.code == PGB_QUEUE_FULL)
 *         pgb_producer_work(p, 100);
 *     pgb_flush(p, 10000, &err);
 *     pgb_producer_close(p, 0);
 *
 * One handle belongs to one thread at a time; two handles have nothing in common.  The library has no threads, no
 * global state, prints nothing and installs no signal handler.  What blocks says so and has a timeout; everything
 * else returns at once, but that a broker's name is looked up (getaddrinfo) when it is connected to.
 *
 * In an event loop: wait until pgb_producer_fd() is readable or pgb_producer_timeout() milliseconds went by, then
 * call pgb_producer_work(p, 0).  Ask for the timeout anew after each call into the library.  The file descriptor
 * stays the same.  A consumer has the same three, and its work is also done by pgb_poll(c, records, n, 0, &err).
 *
 * Functions that return int give 0 or more for success and -1 for failure, which is then in *err.  `err` may be NULL.
 * Callbacks run inside of a call of yours, never otherwise; from them everything may be called that does not close the
 * handle or ask for its work (pgb_producer_work, pgb_flush, pgb_poll).  Times are milliseconds.
 */
#ifndef PGBROKER_H
#define PGBROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C"
{
#endif

#define PGB_VERSION_MAJOR 0
#define PGB_VERSION_MINOR 1
#define PGB_VERSION_TEXT  "0.1.0"

	/* The version of the library that runs, as "0.1.0". */
	const char *pgb_version(void);

	/* ---- errors ---- */

	/*
 * What went wrong: Kafka's own codes as they are (3 is UNKNOWN_TOPIC_OR_PARTITION), ours from -100 down.  `retriable`:
 * the same call may succeed later.  `text` is a sentence without the final stop, with what to do where we know it.
 */
	typedef struct pgb_error
	{
		int code;
		bool retriable;
		char text[256];
	} pgb_error;

	enum
	{
		PGB_OK = 0,
		PGB_TIMED_OUT = -100,       /* not done in the time given; it may still be done later */
		PGB_QUEUE_FULL = -101,      /* buffer.memory is used up: call pgb_producer_work and try again */
		PGB_TRANSPORT = -102,       /* a connection could not be made, or broke */
		PGB_NO_BROKER = -103,       /* none of the brokers can be reached */
		PGB_PROTOCOL = -104,        /* a broker sent what is not Kafka's protocol */
		PGB_INVALID = -105,         /* an argument or a setting makes no sense */
		PGB_NO_MEMORY = -106,       /* malloc refused */
		PGB_STATE = -107,           /* not now: no group, not assigned, closed */
		PGB_NO_PARTITION = -108,    /* the topic has no partition of this number */
		PGB_TOO_LARGE = -109,       /* larger than max.request.size */
		PGB_NO_OFFSET = -110,       /* nothing committed or out of range, and auto.offset.reset is none */
		PGB_UNSUPPORTED = -111,     /* the broker does not know the request */
		PGB_FENCED = -112,          /* another member took over our group.instance.id */
		PGB_POLL_INTERRUPTED = -113 /* pgb_interrupt was called */
	};

	/* "UNKNOWN_TOPIC_OR_PARTITION", "QUEUE_FULL"; static. */
	const char *pgb_error_name(int code);

	/* ---- configuration ---- */

	typedef struct pgb_conf pgb_conf;
	typedef struct pgb_producer pgb_producer;
	typedef struct pgb_consumer pgb_consumer;

	/*
 * Settings have Kafka's names and are given as text.  docs/client.md lists all; pgb_conf_each gives them one by one.  A handle
 * takes a copy, so one conf serves many handles and may be changed and freed at any time.
 */
	pgb_conf *pgb_conf_new(void);
	int pgb_conf_set(pgb_conf *conf, const char *name, const char *value, pgb_error *err);
	void pgb_conf_free(pgb_conf *conf);

	/* The i-th setting: name, default, sentence; false behind the last. */
	bool pgb_conf_each(int i, const char **name, const char **value, const char **text);

	/* ---- messages ---- */

	/* Bytes that are somebody else's.  data NULL is Kafka's null, whatever len says. */
	typedef struct pgb_bytes
	{
		const void *data;
		size_t len;
	} pgb_bytes;

	pgb_bytes pgb_text(const char *s);

	typedef struct pgb_header
	{
		pgb_bytes name; /* never null */
		pgb_bytes value;
	} pgb_header;

#define PGB_ANY_PARTITION (-1)
#define PGB_NOW           (-1)

	/* ---- producer ---- */

	typedef struct pgb_message
	{
		const char *topic;
		int32_t partition; /* or PGB_ANY_PARTITION: by `partitioner` */
		int64_t timestamp; /* milliseconds since 1970, or PGB_NOW */
		pgb_bytes key;
		pgb_bytes value;
		const pgb_header *headers;
		size_t n_headers;
		void *opaque; /* comes back in the report */
	} pgb_message;

/* pgb_message m = PGB_MESSAGE("topic"); nothing else set. */
#define PGB_MESSAGE(topic)                                                                                   \
	{                                                                                                        \
		topic, PGB_ANY_PARTITION, PGB_NOW, {0, 0}, {0, 0}, 0, 0, 0                                           \
	}

	/* What became of one message.  Everything in it lives as long as the callback. */
	typedef struct pgb_report
	{
		const char *topic;
		int32_t partition;      /* -1: it was given none */
		int64_t offset;         /* -1: failed, acks=0, or a duplicate of what the broker already had */
		const pgb_error *error; /* NULL: delivered as `acks` asks */
		void *opaque;
	} pgb_report;

	/* Called once for each message, from pgb_producer_work, pgb_flush and pgb_producer_close. */
	typedef void (*pgb_on_delivery)(const pgb_report *report, void *arg);
	void pgb_conf_on_delivery(pgb_conf *conf, pgb_on_delivery callback, void *arg);

	pgb_producer *pgb_producer_new(const pgb_conf *conf, pgb_error *err);

	/*
 * Takes the message (a copy: yours may go at once), or not: QUEUE_FULL when buffer.memory is used up, TOO_LARGE,
 * NO_PARTITION, INVALID.  What was taken gets exactly one report within delivery.timeout.ms.  Messages of a partition
 * keep their order; with enable.idempotence (the default) none is written twice by a retry.
 */
	int pgb_produce(pgb_producer *p, const pgb_message *message, pgb_error *err);

	/* Sends and receives, waiting up to timeout_ms for something to do; gives reports, and returns how many. */
	int pgb_producer_work(pgb_producer *p, int timeout_ms);

	/* Sends all without lingering and waits until each has its report; -1 and TIMED_OUT when some have none yet. */
	int pgb_flush(pgb_producer *p, int timeout_ms, pgb_error *err);

	/* Messages taken that have no report yet. */
	int64_t pgb_pending(const pgb_producer *p);

	int pgb_producer_fd(const pgb_producer *p);
	int pgb_producer_timeout(const pgb_producer *p);

	/*
 * pgb_flush, then the end of the handle.  What is still undelivered gets a report with TIMED_OUT, and is the
 * result: 0 is all well.
 */
	int64_t pgb_producer_close(pgb_producer *p, int timeout_ms);

	/* ---- consumer ---- */

	/* A place in a partition.  Offsets count from 0; PGB_EARLIEST and PGB_LATEST where a place may be named. */
	typedef struct pgb_place
	{
		const char *topic;
		int32_t partition;
		int64_t offset;
		int32_t code; /* of pgb_committed, pgb_offsets: what is wrong with this one; 0 = nothing */
	} pgb_place;

#define PGB_LATEST    (-1)
#define PGB_EARLIEST  (-2)
#define PGB_COMMITTED (-1000) /* the group's offset, else auto.offset.reset */
#define PGB_UNKNOWN   (-1001)

	/* One record; it points into what was fetched and is good until the next pgb_poll or pgb_consumer_close. */
	typedef struct pgb_record
	{
		const char *topic;
		int32_t partition;
		int32_t n_headers;
		int64_t offset;
		int64_t timestamp;
		pgb_bytes key;
		pgb_bytes value;
		const void *headers; /* for pgb_header_next */
		const void *end;
	} pgb_record;

	/* `*at` starts as NULL: for (const void *at = NULL; pgb_header_next(r, &at, &h);) ... */
	bool pgb_header_next(const pgb_record *record, const void **at, pgb_header *header);

	/*
 * The group gave partitions to us, or takes them.
 *
 *   REVOKED   they go to somebody else once this callback returns: the place to commit what was read
 *   LOST      they are somebody else's already (the group had given us up): a commit would be refused
 *   GIVEN     ours from now on; pgb_seek may place them before the first record comes
 *
 * Eager assignors revoke all before they give all; cooperative ones move only what must move.
 */
	typedef enum pgb_rebalance
	{
		PGB_GIVEN,
		PGB_REVOKED,
		PGB_LOST
	} pgb_rebalance;

	typedef void (*pgb_on_rebalance)(pgb_consumer *c, pgb_rebalance what, const pgb_place *places, size_t n,
									 void *arg);
	void pgb_conf_on_rebalance(pgb_conf *conf, pgb_on_rebalance callback, void *arg);

	/* The end of each pgb_commit_async and of each automatic commit that failed; err is NULL for success. */
	typedef void (*pgb_on_commit)(pgb_consumer *c, const pgb_place *places, size_t n, const pgb_error *err,
								  void *arg);
	void pgb_conf_on_commit(pgb_conf *conf, pgb_on_commit callback, void *arg);

	pgb_consumer *pgb_consumer_new(const pgb_conf *conf, pgb_error *err);

	/* In a group (group.id): partitions of these topics, shared with the other members.  n 0 leaves the group. */
	int pgb_subscribe(pgb_consumer *c, const char *const *topics, size_t n, pgb_error *err);

	/* Without sharing: exactly these, from these offsets (or EARLIEST, LATEST, COMMITTED). */
	int pgb_assign(pgb_consumer *c, const pgb_place *places, size_t n, pgb_error *err);

	/*
 * Up to `max` records, of which each partition's are in order; 0 when none came in timeout_ms.  Failure is something that an
 * application should see (not allowed, fenced, an offset out of range with auto.offset.reset=none, a damaged batch);
 * brokers that are away, leaders that move are waited for.
 *
 * Heartbeats of the group are sent by this call and by pgb_consumer_work: one of them must be called more often than
 * session.timeout.ms.  enable.auto.commit commits, each auto.commit.interval.ms, what earlier calls gave.
 */
	int pgb_poll(pgb_consumer *c, pgb_record *records, int max, int timeout_ms, pgb_error *err);

	/* Keeps connections and the group alive, and fetches ahead, without taking records. */
	int pgb_consumer_work(pgb_consumer *c, int timeout_ms, pgb_error *err);

	/* Makes a pgb_poll that waits return at once (POLL_INTERRUPTED), or the next one.  For signal handlers and other threads. */
	void pgb_interrupt(pgb_consumer *c);

	int pgb_seek(pgb_consumer *c, const char *topic, int32_t partition, int64_t offset, pgb_error *err);

	/* To the first record at or after a time; to the end when there is none. */
	int pgb_seek_time(pgb_consumer *c, const char *topic, int32_t partition, int64_t timestamp,
					  pgb_error *err);
	int pgb_pause(pgb_consumer *c, const char *topic, int32_t partition, pgb_error *err);
	int pgb_resume(pgb_consumer *c, const char *topic, int32_t partition, pgb_error *err);

	/* The offset after the last record that pgb_poll gave; PGB_UNKNOWN before it is known, or when it is not ours. */
	int64_t pgb_position(const pgb_consumer *c, const char *topic, int32_t partition);

	/* Records that are still to come, as far as the last fetch tells; PGB_UNKNOWN before the first. */
	int64_t pgb_lag(const pgb_consumer *c, const char *topic, int32_t partition);

	/* What is assigned, with positions: at most `max` into `places`; returns how many there are. */
	size_t pgb_assignment(const pgb_consumer *c, pgb_place *places, size_t max);

	/*
 * Commits these offsets (of the next record to read); places NULL: all positions, of what pgb_poll gave so far.
 * The first waits up to timeout_ms, the second reports to on_commit.
 */
	int pgb_commit(pgb_consumer *c, const pgb_place *places, size_t n, int timeout_ms, pgb_error *err);
	int pgb_commit_async(pgb_consumer *c, const pgb_place *places, size_t n, pgb_error *err);

	/* Fills in .offset with what the group committed, PGB_UNKNOWN for nothing. */
	int pgb_committed(pgb_consumer *c, pgb_place *places, size_t n, int timeout_ms, pgb_error *err);

	/* .offset is a time in milliseconds, EARLIEST or LATEST, and becomes the offset of it; PGB_UNKNOWN: none so late. */
	int pgb_offsets(pgb_consumer *c, pgb_place *places, size_t n, int timeout_ms, pgb_error *err);

	/* How many partitions a topic has; waits for an answer. */
	int pgb_partitions(pgb_consumer *c, const char *topic, int timeout_ms, pgb_error *err);

	int pgb_consumer_fd(const pgb_consumer *c);
	int pgb_consumer_timeout(const pgb_consumer *c);

	/* Commits (enable.auto.commit), leaves the group, and ends the handle. */
	void pgb_consumer_close(pgb_consumer *c, int timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
