#include "brokerd/api/fetch_session.h"

#include <stdlib.h>
#include <sys/random.h>
#include <utlist.h>

#include "brokerd/base/clock.h"

enum
{
	EVICT_MS = 120 * 1000 /* Kafka: min.incremental.fetch.session.eviction.ms */
};

struct FetchSessions
{
	int slots;
	FetchSession *by_id;
	FetchSession *lru;
};

FetchSessions *
fetch_sessions_new(int slots)
{
	FetchSessions *s = calloc(1, sizeof(*s));

	if (s != NULL)
		s->slots = slots;
	return s;
}

void
fetch_sessions_free(FetchSessions *s)
{
	if (s == NULL)
		return;
	while (s->lru != NULL)
		fetch_session_close(s, s->lru);
	free(s);
}

int
fetch_sessions_count(const FetchSessions *s)
{
	return (int) HASH_COUNT(s->by_id);
}

/* Ids are random, so that a client that comes back to a restarted broker does not meet a stranger's session. */
static int32_t
new_id(FetchSessions *s)
{
	for (;;)
	{
		int32_t id = 0;

		if (getrandom(&id, sizeof(id), 0) != (ssize_t) sizeof(id))
			return 0;
		id &= INT32_MAX;
		if (id != 0 && fetch_session_find(s, id) == NULL)
			return id;
	}
}

FetchSession *
fetch_session_create(FetchSessions *s, bool uses_ids)
{
	FetchSession *session;
	int64_t now = clock_boot_ms();

	if (fetch_sessions_count(s) >= s->slots)
	{
		if (s->lru == NULL || now - s->lru->last_used_ms < EVICT_MS)
			return NULL;
		fetch_session_close(s, s->lru);
	}
	session = calloc(1, sizeof(*session));
	if (session == NULL)
		return NULL;
	session->id = new_id(s);
	if (session->id == 0)
	{
		free(session);
		return NULL;
	}
	session->epoch = 1;
	session->uses_ids = uses_ids;
	session->last_used_ms = now;
	HASH_ADD_INT(s->by_id, id, session);
	DL_APPEND(s->lru, session);
	return session;
}

FetchSession *
fetch_session_find(FetchSessions *s, int32_t id)
{
	FetchSession *session;

	HASH_FIND_INT(s->by_id, &id, session);
	return session;
}

void
fetch_session_touch(FetchSessions *s, FetchSession *session)
{
	session->last_used_ms = clock_boot_ms();
	DL_DELETE(s->lru, session);
	DL_APPEND(s->lru, session);
}

static void
drop_part(FetchSession *session, FetchSessionPart *part)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a part is in both, or it is not */
	HASH_DEL(session->by_key, part);
	DL_DELETE(session->order, part);
	free(part);
}

void
fetch_session_close(FetchSessions *s, FetchSession *session)
{
	while (session->order != NULL)
		drop_part(session, session->order);
	HASH_DEL(s->by_id, session);
	DL_DELETE(s->lru, session);
	free(session);
}

/* The used length of a key; its name is empty when the session goes by ids. */
static size_t
make_key(FetchPartKey *key, const FetchSession *session, WStr name, const WUuid *topic_id, int32_t partition)
{
	memset(key, 0, offsetof(FetchPartKey, name));
	key->partition = partition;
	if (session->uses_ids)
		key->topic_id = *topic_id;
	else
	{
		/* A longer name is no topic's; it is cut, and unknown either way. */
		key->name_len = name.len > META_TOPIC_NAME_MAX + 1 ? META_TOPIC_NAME_MAX + 1
						: name.len > 0                     ? name.len
														   : 0;
		if (key->name_len > 0)
			memcpy(key->name, name.s, (size_t) key->name_len);
	}
	return offsetof(FetchPartKey, name) + (size_t) key->name_len;
}

FetchSessionPart *
fetch_session_part(FetchSession *session, WStr name, const WUuid *topic_id, int32_t partition)
{
	FetchPartKey key;
	size_t len = make_key(&key, session, name, topic_id, partition);
	FetchSessionPart *part;

	HASH_FIND(hh, session->by_key, &key, len, part);
	return part;
}

FetchSessionPart *
fetch_session_put(FetchSession *session, WStr name, const WUuid *topic_id,
				  const FetchRequestTopicsPartitions *want)
{
	FetchSessionPart *part = fetch_session_part(session, name, topic_id, want->partition);

	if (part == NULL)
	{
		FetchPartKey key;
		size_t len = make_key(&key, session, name, topic_id, want->partition);

		part = calloc(1, offsetof(FetchSessionPart, key) + len + 1);
		if (part == NULL)
			return NULL;
		memcpy(&part->key, &key, len);
		part->told_high_watermark = part->told_log_start = -1;
		HASH_ADD_KEYPTR(hh, session->by_key, &part->key, len, part);
		DL_APPEND(session->order, part);
	}
	part->fetch_offset = want->fetch_offset;
	part->log_start_offset = want->log_start_offset;
	part->max_bytes = want->partition_max_bytes;
	part->current_leader_epoch = want->current_leader_epoch;
	part->last_fetched_epoch = want->last_fetched_epoch;
	return part;
}

void
fetch_session_forget(FetchSession *session, WStr name, const WUuid *topic_id, int32_t partition)
{
	FetchSessionPart *part = fetch_session_part(session, name, topic_id, partition);

	if (part != NULL)
		drop_part(session, part);
}

void
fetch_session_rotate(FetchSession *session, FetchSessionPart *part)
{
	DL_DELETE(session->order, part);
	DL_APPEND(session->order, part);
}
