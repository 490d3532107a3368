/*
 * fetch_op.h: one Fetch under way, shared by fetch.c (what to read, when to answer) and fetch_response.c (the
 * answer).  All of it lives in the call's arena.
 */
#ifndef BROKERD_API_FETCH_OP_H
#define BROKERD_API_FETCH_OP_H

#include "brokerd/api/common.h"
#include "brokerd/api/fetch_session.h"

typedef struct FetchOp FetchOp;

/* One partition of the fetch: what is wanted, and what the last look at it gave. */
typedef struct FetchPart
{
	FetchOp *op;
	WStr topic;
	WUuid topic_id;
	int32_t partition;
	FetchRequestTopicsPartitions want;
	PartitionWaiter waiter;
	/* result */
	int16_t error;
	Divergence divergence;
	int32_t leader; /* a hint with NOT_LEADER_OR_FOLLOWER; -1 none */
	int32_t leader_epoch;
	int32_t preferred; /* the replica to ask instead (nearest.h); -1 none */
	int64_t high_watermark;
	int64_t last_stable_offset;
	int64_t log_start_offset;
	LogSlice slice;
	NetPiece piece;
} FetchPart;

struct FetchOp
{
	ApiCall *call;
	const FetchRequest *request;
	int32_t session_id; /* in the response; 0 none */
	bool incremental;
	FetchPart *parts;
	int n_parts;
	/* one look at all partitions */
	int cursor;
	int64_t bytes; /* of records found so far */
	bool urgent;   /* an error or a divergence: answer at once */
	bool reading;  /* a cold reader is at parts[cursor] */
	/* waiting */
	bool parked;
	bool woken;
	bool cancelled;
	FetchOp *woken_next;
	FetchOp *prev, *next; /* broker->fetch_parked */
	ev_timer timer;
};

/* The slice's bytes fill the records of an answer; both live until it is sent.  Nothing for an empty one. */
void fetch_fill_records(LogSlice *slice, NetPiece *piece, WRecords *records);
/* Builds the response from the parts' results, tells the session what was told, and sends it. */
void fetch_answer(FetchOp *op);
void fetch_answer_error(ApiCall *call, int16_t error);

#endif
