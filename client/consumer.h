/*
 * consumer.h: the consumer's insides.
 *
 *     consumer.c          the calls of pgbroker.h, the loop of pgb_poll
 *     consumer_ask.c      the questions of partitions: where to begin (OffsetFetch, ListOffsets), Fetch, and OffsetCommit
 *     consumer_read.c     records out of what was fetched
 *     consumer_job.c      commits, and what the application wants to know of partitions
 *     group.c             the coordinator, and our membership
 *     group_protocol.c    what members tell each other, and the leader's work
 *
 * A partition (FromPart) goes  ASK_COMMITTED -> ASK_TIME -> FETCHING;  a seek puts it back.  It forgets its call with each of
 * these steps.
 *
 * Callbacks of the application run from consumer_callbacks only, at the top of pgb_poll and pgb_consumer_work; state
 * machines note what is due.  What pgb_poll gave stays in `used` until its next call.
 */
#ifndef CLIENT_CONSUMER_H
#define CLIENT_CONSUMER_H

#include "client/client.h"
#include "wire/record.h"

/* Of the key of a set: topic and index, without a hole. */
#define KEY_SIZE (sizeof(Ask) - offsetof(Ask, topic))

/* What a partition asks for; an index of the table of questions. */
typedef enum FromState
{
	COMMITTING,    /* only in a job: the group's offset is to be `when` */
	ASK_COMMITTED, /* the group's offset; up to here the coordinator is asked, then the leader */
	ASK_TIME,      /* the offset of `when` */
	FETCHING,
	IDLE /* nothing: the application has been told why, and a seek helps */
} FromState;

typedef FetchResponseResponsesPartitionsAbortedTransactions Aborted;

/* Batches of one partition in a frame. */
typedef struct Chunk
{
	struct Chunk *prev, *next;
	Frame *frame;
	const uint8_t *at, *end;
	size_t size; /* of records, read or not */
	int32_t n_aborted;
	Aborted aborted[]; /* transactions whose marker is still to come */
} Chunk;

typedef struct Job Job;

typedef struct FromPart
{
	Ask ask;
	UT_hash_handle hh; /* by topic and index */
	FromState state;
	bool paused;
	bool stays; /* in what the group gave us next */
	Retry retry;
	int64_t when;     /* ASK_TIME: a time, PGB_EARLIEST, PGB_LATEST */
	int64_t position; /* of the next record to give; PGB_UNKNOWN */
	int64_t fetch_at; /* behind the last chunk */
	int64_t stored;   /* what an automatic commit says */
	int64_t committed;
	int64_t end; /* high watermark or last stable offset, PGB_UNKNOWN */
	Chunk *chunks;
	const uint8_t *batch; /* being read: `it` is in it */
	RecordIter it;
	Job *job;         /* all that is wanted is one answer */
	pgb_place *place; /* and here it belongs */
} FromPart;

typedef enum GroupState
{
	GROUP_NONE,
	GROUP_LEAVING_OLD, /* partitions go (revoked or lost) before the next join */
	GROUP_READY,       /* to join */
	GROUP_JOINING,
	GROUP_LEADING, /* joined as leader, metadata are missing */
	GROUP_SYNCING,
	GROUP_TAKING, /* an assignment is there, callbacks are due */
	GROUP_STABLE,
	GROUP_FENCED
} GroupState;

typedef struct PlaceList
{
	pgb_place *at; /* topics are names of Topic */
	size_t n;
} PlaceList;

/* Questions of the application, or a commit: places that are asked as partitions are, until each has its answer. */
struct Job
{
	Job *prev, *next;
	FromPart *parts;  /* hash: those without an answer */
	PlaceList places; /* of a commit */
	bool once;        /* not asked again, nobody waits for it, on_commit is told how it ended */
	bool automatic;   /* on_commit is told of failure only */
	pgb_error err;    /* the first; code 0 = none */
};

struct pgb_consumer
{
	Client c;
	FromPart *parts; /* hash */
	Job *jobs;
	Job *results;        /* that are at their end, and to be told */
	int32_t coordinator; /* node id, CLIENT_NO_NODE */
	Retry find;          /* of the coordinator */
	/* records */
	FromPart *reading;
	Chunk *used;
	size_t unread;      /* scratch of a step: bytes of chunks, without those of paused partitions */
	WireWriter scratch; /* the decompressed batch of scratch_for */
	const uint8_t *scratch_for;
	pgb_error failure; /* for the next pgb_poll; code 0 = none */
	/* commits */
	int64_t commit_at;
	/* group */
	GroupState group;
	bool in_callback;
	bool lost;   /* LEAVING_OLD: not ours any more */
	bool rejoin; /* as soon as possible */
	bool fenced; /* not again */
	bool cooperative;
	Retry joining; /* open: a Join, Sync or Heartbeat is on its way */
	int64_t heartbeat_at;
	WStr member;   /* our id; empty: none yet */
	WStr instance; /* group.instance.id, or null */
	int32_t generation;
	int32_t sticky_generation;                   /* of last_given */
	const JoinGroupResponse *joined;             /* our last one */
	Kept kept;                                   /* its memory */
	ConsumerProtocolSubscription *subscriptions; /* of its members, when we lead; also in kept.arena */
	uint64_t counts; /* partitions of the topics when we assigned: changes when there are more */
	uint32_t counts_version;
	PlaceList next_given; /* TAKING */
	PlaceList last_given;
	bool unknown_told;
};

/* consumer.c */
FromPart *consumer_find(FromPart *set, Topic *t, int32_t index);
FromPart *consumer_named(const pgb_consumer *c, const char *topic, int32_t partition, pgb_error *err);

/* A new one; NULL: no memory. */
FromPart *consumer_add(pgb_consumer *c, FromPart **set, const char *topic, int32_t index);
void consumer_remove(pgb_consumer *c, FromPart **set, FromPart *p);
void consumer_place(pgb_consumer *c, FromPart *p, FromState state, int64_t when);

/* What the next pgb_poll fails with; NULL, and the new one is forgotten, while there is something already. */
pgb_error *consumer_failure(pgb_consumer *c);
void consumer_fail(pgb_consumer *c, const pgb_error *err); /* with this, unless it may be healed by itself */
void consumer_callbacks(pgb_consumer *c);
bool places_add(PlaceList *list, const char *topic, int32_t partition, int64_t offset);
void places_clear(PlaceList *list);

/* consumer_ask.c */
void consumer_ask(pgb_consumer *c);
void consumer_reset(pgb_consumer *c, FromPart *p, const char *why); /* as auto.offset.reset says */

/* consumer_read.c */
int read_fetched(pgb_consumer *c, FromPart *p, const FetchResponseResponsesPartitions *r);
void read_drop(pgb_consumer *c, FromPart *p); /* chunks go to `used` */
void read_free_used(pgb_consumer *c);
bool read_waiting(const pgb_consumer *c); /* are there records to take? */
int read_take(pgb_consumer *c, pgb_record *records, int max);

/* consumer_job.c */
bool job_answered(FromPart *p, int64_t offset); /* false: the partition is of none */
void job_step(pgb_consumer *c, FromPart *p, const pgb_error *err, bool of_all);
void jobs_free(pgb_consumer *c);
void commit_step(pgb_consumer *c);
void commit_before_loss(pgb_consumer *c, int64_t timeout); /* automatic ones, before partitions go */
void commit_tell(pgb_consumer *c);

/* group.c */
void group_step(pgb_consumer *c);
void group_find_coordinator(pgb_consumer *c);
Node *group_coordinator(pgb_consumer *c);        /* NULL: it is being looked for */
Conn *group_ready(pgb_consumer *c, ConnUse use); /* to it; NULL: not yet */
bool group_lost_coordinator(pgb_consumer *c, int code);
void group_subscribe(pgb_consumer *c);
void group_leave(pgb_consumer *c, int64_t timeout);
void group_revoke(pgb_consumer *c); /* callbacks that are due */

/* group_protocol.c */
int group_check_assignors(const char *list, bool *cooperative, pgb_error *err);
int group_put_protocols(pgb_consumer *c, JoinGroupRequest *req); /* in the arena, as group_assign */
int group_assign(pgb_consumer *c, SyncGroupRequest *req);
int group_read_assignment(pgb_consumer *c, WBytes bytes);

/*
 * Does metadata say of every topic in the group how many partitions it has, or that there is none of this name?  The numbers
 * of partitions as one that changes with any of them.
 */
bool group_topics_known(pgb_consumer *c, uint64_t *counts);

#endif
