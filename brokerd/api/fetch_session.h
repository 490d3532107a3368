/*
 * fetch_session.h: incremental fetch sessions (KIP-227).  A session remembers what a client fetches and what it
 * was last told, so that later requests name only changes and later responses only what changed.
 *
 *     request id 0, epoch 0     full; a new session if there is room, its id in the response
 *     request id n, epoch e     incremental: e must be the next expected; partitions are added, changed, forgotten
 *     request epoch -1          full without a session; ends session n
 *
 * A bounded number is kept (max.incremental.fetch.session.cache.slots); a full cache drops the least recently used
 * one once it was idle for EVICT_MS, else the client gets no session, which is always right.  Loop thread only.
 */
#ifndef BROKERD_API_FETCH_SESSION_H
#define BROKERD_API_FETCH_SESSION_H

#include <uthash.h>

#include "brokerd/api/api.h"

typedef struct FetchSessions FetchSessions;
typedef struct FetchSession FetchSession;

/* By topic id, or by name where the client's version has no ids (id zero). */
typedef struct FetchPartKey
{
	WUuid topic_id;
	int32_t partition;
	int32_t name_len;
	char name[META_TOPIC_NAME_MAX + 3];
} FetchPartKey;

typedef struct FetchSessionPart
{
	struct FetchSessionPart *prev, *next;
	/* what the client wants */
	int64_t fetch_offset;
	int64_t log_start_offset;
	int32_t max_bytes;
	int32_t current_leader_epoch;
	int32_t last_fetched_epoch;
	/* what it was last told; -1: must be told */
	int64_t told_high_watermark;
	int64_t told_log_start;
	UT_hash_handle hh;
	FetchPartKey key; /* last: allocated to the length of the name */
} FetchSessionPart;

struct FetchSession
{
	FetchSession *prev, *next; /* least recently used first */
	int32_t id;
	int32_t epoch; /* of the next request */
	bool uses_ids;
	int64_t last_used_ms;
	FetchSessionPart *by_key;
	FetchSessionPart *order; /* those that had records go to the end, so that all get their turn */
	UT_hash_handle hh;
};

FetchSessions *fetch_sessions_new(int slots);
void fetch_sessions_free(FetchSessions *s);
int fetch_sessions_count(const FetchSessions *s);

/* NULL: no room. */
FetchSession *fetch_session_create(FetchSessions *s, bool uses_ids);
FetchSession *fetch_session_find(FetchSessions *s, int32_t id);
void fetch_session_touch(FetchSessions *s, FetchSession *session);
void fetch_session_close(FetchSessions *s, FetchSession *session);

FetchSessionPart *fetch_session_put(FetchSession *session, WStr name, const WUuid *topic_id,
									const FetchRequestTopicsPartitions *want);
void fetch_session_forget(FetchSession *session, WStr name, const WUuid *topic_id, int32_t partition);
FetchSessionPart *fetch_session_part(FetchSession *session, WStr name, const WUuid *topic_id,
									 int32_t partition);
/* It had records: others first next time. */
void fetch_session_rotate(FetchSession *session, FetchSessionPart *part);

#endif
