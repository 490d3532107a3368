#include "client/consumer.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- lists of places ---- */

bool
places_add(PlaceList *list, const char *topic, int32_t partition, int64_t offset)
{
	if (!array_room(&list->at, list->n, sizeof(*list->at)))
		return false;
	list->at[list->n++] = (pgb_place){topic, partition, offset, 0};
	return true;
}

void
places_clear(PlaceList *list)
{
	free(list->at);
	*list = (PlaceList){0};
}

/* ---- partitions ---- */

FromPart *
consumer_find(FromPart *set, const Topic *t, int32_t index)
{
	FromKey key = {(Topic *) (uintptr_t) t, index, 0};
	FromPart *p;

	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): FromKey has no padding */
	HASH_FIND(hh, set, &key, sizeof(key), p);
	return p;
}

FromPart *
consumer_named(const pgb_consumer *c, const char *topic, int32_t partition, pgb_error *err)
{
	FromPart *p = consumer_find(c->parts, metadata_find(&c->c, wstr(topic)), partition);

	if (p == NULL)
		error_set(err, PGB_STATE, false, "topic \"%s\", partition %d is not assigned to this consumer",
				  topic == NULL ? "" : topic, partition);
	return p;
}

FromPart *
consumer_add(pgb_consumer *c, FromPart **set, const char *topic, int32_t index)
{
	Topic *t = metadata_topic(&c->c, wstr(topic));
	FromPart *p = t == NULL ? NULL : calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->key = (FromKey){t, index, 0};
	p->state = IDLE;
	p->position = p->committed = p->end = p->stored = PGB_UNKNOWN;
	HASH_ADD(hh, *set, key, sizeof(p->key), p);
	return p;
}

void
consumer_place(pgb_consumer *c, FromPart *p, FromState state, int64_t when)
{
	read_drop(c, p);
	p->state = state;
	p->when = when;
	p->retry = (Retry){0};
	p->position = p->fetch_at = state == FETCHING ? when : PGB_UNKNOWN;
	client_wake_at(&c->c, 0);
}

void
consumer_remove(pgb_consumer *c, FromPart *p)
{
	read_drop(c, p);
	if (c->reading == p)
		c->reading = NULL;
	HASH_DEL(c->parts, p);
	free(p->aborting);
	free(p);
}

static bool
is_place(int64_t offset)
{
	return offset >= 0 || offset == PGB_EARLIEST || offset == PGB_LATEST || offset == PGB_COMMITTED;
}

static void
place_at(pgb_consumer *c, FromPart *p, int64_t offset)
{
	if (offset == PGB_COMMITTED && c->c.conf.group_id[0] == '\0')
		consumer_reset(c, p, "no group.id");
	else if (offset == PGB_COMMITTED)
		consumer_place(c, p, ASK_COMMITTED, 0);
	else if (offset == PGB_EARLIEST || offset == PGB_LATEST)
		consumer_place(c, p, ASK_TIME, offset);
	else
		consumer_place(c, p, FETCHING, offset);
}

pgb_error *
consumer_failure(pgb_consumer *c)
{
	return c->failure.code == 0 ? &c->failure : NULL;
}

void
consumer_fail(pgb_consumer *c, const pgb_error *err)
{
	if (c->failure.code == 0 && !err->retriable)
		c->failure = *err;
}

/* ---- the handle ---- */

static void
step(void *handle)
{
	pgb_consumer *c = handle;

	group_find_coordinator(c);
	group_step(c);
	consumer_ask(c);
	commit_step(c);
}

pgb_consumer *
pgb_consumer_new(const pgb_conf *conf, pgb_error *err)
{
	pgb_consumer *c = client_new(sizeof(*c), conf, step, err);

	if (c == NULL)
		return NULL;
	if (group_check_assignors(c->c.conf.assignors, &c->cooperative, err) != 0)
	{
		client_free(&c->c);
		return NULL;
	}
	c->generation = c->sticky_generation = -1;
	c->coordinator = CLIENT_NO_NODE;
	c->member = WSTR_LIT("");
	c->instance = c->c.conf.instance_id[0] == '\0' ? WSTR_NULL : wstr(c->c.conf.instance_id);
	wire_writer_init(&c->scratch);
	/* Reading a topic is no reason to make it. */
	c->c.conf.create_topics = false;
	c->commit_at = c->c.now + c->c.conf.commit_interval;
	return c;
}

int
pgb_subscribe(pgb_consumer *c, const char *const *topics, size_t n, pgb_error *err)
{
	Topic *t;

	if (n > 0 && c->c.conf.group_id[0] == '\0')
		return error_set(err, PGB_STATE, false,
						 "a subscription shares partitions in a group: set group.id, or use pgb_assign");
	if (n > 0 && c->group == GROUP_NONE && c->parts != NULL)
		return error_set(err, PGB_STATE, false,
						 "pgb_assign and pgb_subscribe exclude each other; pgb_assign nothing first");
	for (size_t i = 0; i < n; i++)
		if (metadata_topic(&c->c, wstr(topics[i])) == NULL)
			return error_memory(err);
	for (t = c->c.topics; t != NULL; t = t->hh.next)
		t->subscribed = false;
	for (size_t i = 0; i < n; i++)
		if ((t = metadata_find(&c->c, wstr(topics[i]))) != NULL)
			t->subscribed = true;
	if (n == 0)
		group_leave(c, 5000);
	else
		group_subscribe(c);
	return 0;
}

int
pgb_assign(pgb_consumer *c, const pgb_place *places, size_t n, pgb_error *err)
{
	if (c->group != GROUP_NONE)
		return error_set(err, PGB_STATE, false,
						 "pgb_assign and pgb_subscribe exclude each other; pgb_subscribe to nothing first");
	while (c->parts != NULL)
		consumer_remove(c, c->parts);
	for (size_t i = 0; i < n; i++)
	{
		const pgb_place *at = &places[i];
		FromPart *p = consumer_named(c, at->topic, at->partition, NULL);

		if (at->partition < 0 || !is_place(at->offset))
			return error_set(err, PGB_INVALID, false, "topic \"%s\": partition %d, offset %lld is no place",
							 at->topic, at->partition, (long long) at->offset);
		if (p == NULL && (p = consumer_add(c, &c->parts, at->topic, at->partition)) == NULL)
			return error_memory(err);
		place_at(c, p, at->offset);
	}
	return 0;
}

/* ---- polling ---- */

void
consumer_callbacks(pgb_consumer *c)
{
	if (c->in_callback)
		return;
	c->in_callback = true;
	commit_tell(c);
	group_revoke(c);
	c->in_callback = false;
}

/* A topic that nobody knows is told once, until it is known. */
static void
look_for_unknown(pgb_consumer *c)
{
	pgb_error err = {0};
	bool unknown = false;

	for (const Topic *t = c->c.topics; t != NULL && !unknown; t = t->hh.next)
		unknown = t->subscribed && metadata_failed(&c->c, t, CLIENT_NEVER, &err) != 0;
	for (const FromPart *p = c->parts; p != NULL && !unknown; p = p->hh.next)
	{
		const Topic *t = p->key.topic;

		unknown = metadata_failed(&c->c, t, CLIENT_NEVER, &err) != 0;
		if (!unknown && t->unknown_since == 0 && p->key.index >= t->n)
			unknown = error_set(&err, PGB_NO_PARTITION, false, "topic \"%s\" has partitions 0 to %d, not %d",
								t->name, t->n - 1, p->key.index) != 0;
	}
	if (unknown && !c->unknown_told && c->failure.code == 0)
		c->failure = err;
	c->unknown_told = unknown;
}

static int
check(pgb_consumer *c, pgb_error *err)
{
	consumer_callbacks(c);
	look_for_unknown(c);
	if (c->failure.code == 0 && c->c.interrupted)
	{
		c->c.interrupted = false;
		error_set(&c->failure, PGB_POLL_INTERRUPTED, true, "interrupted");
	}
	if (c->failure.code == 0)
		return 0;
	if (err != NULL)
		*err = c->failure;
	c->failure.code = 0;
	return -1;
}

/* What was given by now is what the next automatic commit says. */
static void
store_positions(pgb_consumer *c)
{
	for (FromPart *p = c->parts; p != NULL; p = p->hh.next)
		p->stored = p->position;
}

int
pgb_poll(pgb_consumer *c, pgb_record *records, int max, int timeout_ms, pgb_error *err)
{
	int64_t until = client_clock() + timeout_ms;

	read_free_used(c);
	store_positions(c);
	for (bool late = false;;)
	{
		int n;

		if (check(c, err) != 0)
			return -1;
		n = read_take(c, records, max);
		if (n == 0 && c->failure.code != 0)
			continue;
		/* Keeps the next answers coming while the application works. */
		if (n > 0 && (c->c.wake <= c->c.now || client_clock() >= c->c.wake))
			client_run(&c->c, 0);
		if (n > 0 || late)
			return n;
		late = client_clock() >= until;
		client_run(&c->c, late ? 0 : until);
	}
}

int
pgb_consumer_work(pgb_consumer *c, int timeout_ms, pgb_error *err)
{
	client_run(&c->c, client_clock() + timeout_ms);
	return check(c, err);
}

void
pgb_interrupt(pgb_consumer *c)
{
	uint64_t one = 1;

	(void) !write(c->c.wakefd, &one, sizeof(one));
}

/* ---- places ---- */

int
pgb_seek(pgb_consumer *c, const char *topic, int32_t partition, int64_t offset, pgb_error *err)
{
	FromPart *p = consumer_named(c, topic, partition, err);

	if (p == NULL)
		return -1;
	if (!is_place(offset))
		return error_set(err, PGB_INVALID, false, "%lld is no offset", (long long) offset);
	place_at(c, p, offset);
	return 0;
}

int
pgb_seek_time(pgb_consumer *c, const char *topic, int32_t partition, int64_t timestamp, pgb_error *err)
{
	FromPart *p = consumer_named(c, topic, partition, err);

	if (p == NULL)
		return -1;
	if (timestamp < 0)
		return error_set(err, PGB_INVALID, false, "%lld is no time", (long long) timestamp);
	consumer_place(c, p, ASK_TIME, timestamp);
	return 0;
}

static int
set_paused(pgb_consumer *c, const char *topic, int32_t partition, bool paused, pgb_error *err)
{
	FromPart *p = consumer_named(c, topic, partition, err);

	if (p == NULL)
		return -1;
	p->paused = paused;
	client_wake_at(&c->c, 0);
	return 0;
}

int
pgb_pause(pgb_consumer *c, const char *topic, int32_t partition, pgb_error *err)
{
	return set_paused(c, topic, partition, true, err);
}

int
pgb_resume(pgb_consumer *c, const char *topic, int32_t partition, pgb_error *err)
{
	return set_paused(c, topic, partition, false, err);
}

int64_t
pgb_position(const pgb_consumer *c, const char *topic, int32_t partition)
{
	FromPart *p = consumer_named(c, topic, partition, NULL);

	return p == NULL ? PGB_UNKNOWN : p->position;
}

int64_t
pgb_lag(const pgb_consumer *c, const char *topic, int32_t partition)
{
	FromPart *p = consumer_named(c, topic, partition, NULL);

	if (p == NULL || p->position == PGB_UNKNOWN || p->end == PGB_UNKNOWN)
		return PGB_UNKNOWN;
	return p->end > p->position ? p->end - p->position : 0;
}

size_t
pgb_assignment(const pgb_consumer *c, pgb_place *places, size_t max)
{
	size_t n = 0;

	for (const FromPart *p = c->parts; p != NULL; p = p->hh.next, n++)
		if (n < max)
			places[n] = (pgb_place){p->key.topic->name, p->key.index, p->position, 0};
	return n;
}

int
pgb_partitions(pgb_consumer *c, const char *topic, int timeout_ms, pgb_error *err)
{
	int64_t until = client_clock() + timeout_ms;
	Topic *t = metadata_topic(&c->c, wstr(topic));

	if (t == NULL)
		return error_memory(err);
	while (t->unknown_since != 0)
	{
		if (metadata_failed(&c->c, t, until, err) != 0)
			return -1;
		client_run(&c->c, until);
	}
	return t->n;
}

int
pgb_consumer_fd(const pgb_consumer *c)
{
	return c->c.epfd;
}

int
pgb_consumer_timeout(const pgb_consumer *c)
{
	if (c->failure.code != 0 || c->results != NULL || c->group == GROUP_LEAVING_OLD ||
		c->group == GROUP_TAKING || read_waiting(c))
		return 0;
	return client_timeout(&c->c);
}

void
pgb_consumer_close(pgb_consumer *c, int timeout_ms)
{
	if (c == NULL)
		return;
	store_positions(c);
	if (c->group == GROUP_NONE)
		commit_before_loss(c, timeout_ms);
	group_leave(c, timeout_ms);
	consumer_callbacks(c);
	c->c.step = NULL;
	client_free_nodes(&c->c);
	commit_tell(c);
	while (c->parts != NULL)
		consumer_remove(c, c->parts);
	read_free_used(c);
	group_clear(c);
	wire_writer_free(&c->scratch);
	client_free(&c->c);
}
