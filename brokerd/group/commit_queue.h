/*
 * commit_queue.h: offset commits on their way to PostgreSQL.
 *
 * There is one batch out at a time.  What arrives meanwhile forms the next one:
 *
 *     add  add  add          add  add               add
 *      '----+----'            '----+--- waits        '--- waits
 *        batch 1  ---- SQL ---->  done
 *                                 batch 2 (all that waited, up to max_rows) ---- SQL ----> ...
 *
 * Inside a batch the last commit of a key (group, generation, topic, partition) is the one that is sent;
 * the earlier ones are answered with it.  The generation belongs to the key, because SQL decides by it: of two
 * generations of a group at most one is accepted.
 *
 * Outcomes of a batch:
 *   COMMIT_DONE     it is committed, but for the (group, generation) pairs that SQL refused.
 *   COMMIT_UNKNOWN  the connection broke, or PostgreSQL is away: the same batch is sent again, before anything
 *                   newer.  Whether it had landed does not matter: the same values are written.
 *   COMMIT_FAILED   something in it cannot be written (hazards A20): it is sent again by halves, until the one
 *                   request is found that is answered with UNKNOWN_SERVER_ERROR.
 *
 * Pure: no clock, no socket, no SQL.  A request's rows are copied.  Threads: the loop thread only.
 */
#ifndef BROKERD_GROUP_COMMIT_QUEUE_H
#define BROKERD_GROUP_COMMIT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/types.h"

typedef struct CommitQueue CommitQueue;

typedef struct CommitRow
{
	WUuid topic_id;
	int32_t partition;
	int64_t offset;
	int32_t leader_epoch; /* -1: none */
	WStr metadata;        /* bytes of the client's choice, up to offset.metadata.max.bytes */
} CommitRow;

typedef struct CommitRequest
{
	uint64_t request;
	WStr group_id;
	int32_t slot;
	int64_t slot_epoch; /* as held when the commit was accepted */
	int32_t generation; /* what SQL must have (group_check_commit), or -1: only while empty */
	const CommitRow *rows;
	int32_t row_count;
} CommitRequest;

/* A row of a batch, ready to be sent. */
typedef struct CommitOut
{
	WStr group_id;
	int32_t slot;
	int64_t slot_epoch;
	int32_t generation;
	const CommitRow *row;
} CommitOut;

typedef struct CommitBatch
{
	const CommitOut *rows; /* no key twice; sorted by key, so that two batches lock in one order */
	int32_t row_count;
	int32_t request_count;
} CommitBatch;

typedef enum CommitOutcome
{
	COMMIT_DONE,
	COMMIT_UNKNOWN,
	COMMIT_FAILED
} CommitOutcome;

/* What SQL refused. */
typedef struct CommitRefused
{
	WStr group_id;
	int32_t generation;
	int16_t error; /* NOT_COORDINATOR, ILLEGAL_GENERATION, ... */
} CommitRefused;

typedef void (*CommitAnswerFn)(void *arg, uint64_t request, int16_t error);

/* `max_rows`: a batch takes no further request once it has that many (one request may have more). */
CommitQueue *commit_queue_new(int32_t max_rows, CommitAnswerFn answer, void *arg);
void commit_queue_free(CommitQueue *q); /* answers nobody */

/* `now` only dates it, for commit_queue_expire. */
void commit_queue_add(CommitQueue *q, int64_t now, const CommitRequest *in);

/* The next batch to send, or NULL when nothing waits or one is out.  It lives until commit_queue_done. */
const CommitBatch *commit_queue_next(CommitQueue *q);

/* The batch that is out has come to this. */
void commit_queue_done(CommitQueue *q, CommitOutcome outcome, const CommitRefused *refused,
					   int32_t refused_count);

/* Answer what is older than `before` with `error`; what is not out is dropped, what is out will not be resent. */
void commit_queue_expire(CommitQueue *q, int64_t before, int16_t error);

/* Answer and drop all commits of a slot that was lost; those that are out land or are refused by SQL's fence. */
void commit_queue_drop_slot(CommitQueue *q, int32_t slot, int16_t error);

/* Is a commit of this group waiting (not out)?  Then a save of the group goes after the next batch. */
bool commit_queue_has_group(const CommitQueue *q, WStr group_id);

int64_t commit_queue_oldest(const CommitQueue *q);  /* when the oldest was added, INT64_MAX if none */
int32_t commit_queue_waiting(const CommitQueue *q); /* requests not answered yet */

#endif
