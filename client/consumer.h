/*
 * consumer.h: the consumer's insides.
 *
 *     consumer.c          the calls of pgbroker.h, the loop of pgb_poll
 *     consumer_fetch.c    Fetch, and records out of what came
 *     consumer_offsets.c  where to begin (OffsetFetch, ListOffsets)
 *     consumer_commit.c   commits
 *     group.c             the coordinator, and our membership
 *     group_protocol.c    what members tell each other, and the leader's work
 *
 * A partition (FromPart) goes  START_COMMITTED -> START_TIME -> FETCHING;  a seek puts it back.  Each of these steps has
 * a new `serial`: an answer to a question that was asked under another one is dropped, so a partition that was
 * revoked, given again or moved never sees what belongs to its former life.
 *
 * Callbacks of the application run from consumer_callbacks only, at the top of pgb_poll and pgb_consumer_work; state
 * machines note what is due.  What pgb_poll gave stays in `used` until its next call.
 */
#ifndef CLIENT_CONSUMER_H
#define CLIENT_CONSUMER_H

#include "client/client.h"
#include "wire/record.h"

#define CHUNKS_AHEAD 2 /* answers that wait for pgb_poll in a partition */

typedef enum FromState
{
	START_COMMITTED, /* the group's offset is asked for */
	START_TIME,      /* the offset of `when` is asked for */
	START_FAILED,    /* the application has been told; a seek helps */
	FETCHING
} FromState;

/* Batches of one partition in a frame. */
typedef struct Chunk
{
	struct Chunk *next;
	Frame *frame;
	const uint8_t *at, *end;
	size_t size; /* of records, read or not */
	int32_t n_aborted, next_aborted;
	int64_t (*aborted)[2]; /* producer id, first offset; by rising offset */
} Chunk;

typedef struct FromKey
{
	Topic *topic;
	int64_t index;
} FromKey;

typedef struct FromPart
{
	UT_hash_handle hh;
	FromKey key;
	FromState state;
	bool paused;
	bool asked; /* a question or a fetch is on its way */
	uint32_t serial;
	int64_t when; /* START_TIME: a time, PGB_EARLIEST, PGB_LATEST */
	int64_t retry_at;
	int failures;
	int64_t position; /* of the next record to give; PGB_UNKNOWN */
	int64_t fetch_at; /* behind the last chunk */
	int64_t stored;   /* what an automatic commit says */
	int64_t committed;
	int64_t end; /* high watermark or last stable offset, PGB_UNKNOWN */
	Chunk *first, *last;
	int n_chunks;
	const uint8_t *batch; /* being read: `it` is in it */
	RecordIter it;
	int64_t *aborting; /* producers whose records are skipped now */
	int32_t n_aborting, cap_aborting;
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
	size_t n, cap;
} PlaceList;

/* A member as the leader sees it. */
typedef struct GroupMember
{
	WStr id, instance;
	WBytes metadata;
} GroupMember;

typedef struct CommitResult
{
	struct CommitResult *next;
	PlaceList places;
	pgb_error err;
} CommitResult;

struct pgb_consumer
{
	Client c;
	FromPart *parts; /* hash */
	uint32_t serial;
	int32_t coordinator; /* node id, CLIENT_NO_NODE */
	bool coordinator_wanted, coordinator_asked;
	int coordinator_failures;
	int64_t coordinator_at;
	/* records */
	FromPart *reading;
	Chunk *used;
	size_t unread;      /* bytes of the chunks of all partitions */
	WireWriter scratch; /* the decompressed batch of scratch_for */
	const uint8_t *scratch_for;
	pgb_error failure; /* for the next pgb_poll; code 0 = none */
	uint64_t turn;
	int32_t guess; /* which partition an answer likely is of */
	/* commits */
	int64_t commit_at;
	int commits_open;
	CommitResult *results_first, *results_last;
	/* group */
	GroupState group;
	bool in_callback;
	bool lost;      /* LEAVING_OLD: not ours any more */
	bool rejoin;    /* as soon as possible */
	bool fenced;    /* not again */
	bool call_open; /* a Join, Sync or Heartbeat is on its way */
	bool cooperative;
	int64_t group_at; /* the next join, not before */
	int group_failures;
	int64_t heartbeat_at;
	char **topics;
	size_t n_topics;
	char *member_id;
	int32_t generation;
	int32_t sticky_generation; /* of last_given */
	char protocol[64];
	bool leader, skip_assignment;
	GroupMember *members;
	int32_t n_members;
	Frame *members_frame;
	uint64_t counts; /* partitions of the topics when we assigned: changes when there are more */
	uint32_t counts_version;
	PlaceList next_given; /* TAKING */
	PlaceList last_given;
	bool unknown_told;
};

/* consumer.c */
FromPart *consumer_find(const pgb_consumer *c, const Topic *t, int32_t index);
FromPart *consumer_add(pgb_consumer *c, Topic *t, int32_t index);
void consumer_remove(pgb_consumer *c, FromPart *p);
void consumer_place(pgb_consumer *c, FromPart *p, FromState state, int64_t when); /* a new serial */
void consumer_fail(pgb_consumer *c, const pgb_error *err);
void consumer_callbacks(pgb_consumer *c);
bool places_add(PlaceList *list, const char *topic, int32_t partition, int64_t offset);
void places_clear(PlaceList *list);
bool places_have(const PlaceList *list, const char *topic, int32_t partition);

/* consumer_fetch.c */
void fetch_step(pgb_consumer *c);
void fetch_drop(pgb_consumer *c, FromPart *p); /* chunks go to `used` */
void fetch_free_used(pgb_consumer *c);
bool fetch_waiting(const pgb_consumer *c); /* are there records to take? */
int fetch_take(pgb_consumer *c, pgb_record *records, int max);

/* consumer_offsets.c */
void offsets_step(pgb_consumer *c);
void offsets_reset(pgb_consumer *c, FromPart *p, const char *why);

/* consumer_commit.c */
Node *offsets_wait_coordinator(pgb_consumer *c, int64_t until, pgb_error *err); /* NULL: not found in time */
int offsets_commit_async(pgb_consumer *c, const PlaceList *places, bool quiet, pgb_error *err);
int offsets_positions(pgb_consumer *c, PlaceList *list, bool stored); /* what a commit of all would say */
void offsets_auto_commit(pgb_consumer *c, int64_t timeout);           /* before partitions go */

/* group.c */
void group_step(pgb_consumer *c);
void group_find_coordinator(pgb_consumer *c);
Node *group_coordinator(pgb_consumer *c); /* NULL: it is being looked for */
bool group_lost_coordinator(pgb_consumer *c, int code);
void group_subscribe(pgb_consumer *c);
void group_leave(pgb_consumer *c, int64_t timeout);
void group_revoke(pgb_consumer *c); /* callbacks that are due */
void group_clear(pgb_consumer *c);

/* group_protocol.c */
int group_check_assignors(const char *list, bool *cooperative, pgb_error *err);
int group_put_protocols(pgb_consumer *c, JoinGroupRequest *req, WireWriter *bytes);
bool group_topics_known(pgb_consumer *c);
int group_assign(pgb_consumer *c, SyncGroupRequest *req, WireWriter *bytes);
int group_read_assignment(pgb_consumer *c, WBytes assignment);
uint64_t group_counts(pgb_consumer *c);

#endif
