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
consumer_find(FromPart *set, Topic *t, int32_t index)
{
	Ask key = {.topic = t, .index = index};
	FromPart *p;

	HASH_FIND(hh, set, &key.topic, KEY_SIZE, p);
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
	p->ask.topic = t;
	p->ask.index = index;
	p->state = IDLE;
	p->position = p->committed = p->end = p->stored = PGB_UNKNOWN;
	HASH_ADD(hh, *set, ask.topic, KEY_SIZE, p);
	return p;
}

void
consumer_place(pgb_consumer *c, FromPart *p, FromState state, int64_t when)
{
	ask_drop(&p->ask);
	read_drop(c, p);
	p->state = state;
	p->when = when;
	p->retry = (Retry){0};
	p->position = p->fetch_at = state == FETCHING ? when : PGB_UNKNOWN;
	client_wake_at(&c->c, 0);
}

void
consumer_remove(pgb_consumer *c, FromPart **set, FromPart *p)
{
	ask_drop(&p->ask);
	read_drop(c, p);
	if (c->reading == p)
		c->reading = NULL;
	HASH_DEL(*set, p);
	free(p);
}

/* -1: there is no such place. */
static int
place_at(pgb_consumer *c, FromPart *p, int64_t offset, pgb_error *err)
{
	if (offset >= 0)
		consumer_place(c, p, FETCHING, offset);
	else if (offset == PGB_EARLIEST || offset == PGB_LATEST)
		consumer_place(c, p, ASK_TIME, offset);
	else if (offset != PGB_COMMITTED)
		return error_set(err, PGB_INVALID, false, "topic \"%s\", partition %d: %lld is no offset",
						 p->ask.topic->name, p->ask.index, (long long) offset);
	else if (c->c.conf.group_id[0] == '\0')
		consumer_reset(c, p, "no group.id");
	else
		consumer_place(c, p, ASK_COMMITTED, 0);
	return 0;
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
	commit_step(c);
	consumer_ask(c);
}

pgb_consumer *
pgb_consumer_new(const pgb_conf *conf, pgb_error *err)
{
	pgb_consumer *c = client_new(sizeof(*c), sizeof(Topic), conf, step, err);

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
	for (t = c->c.topics; t != NULL; t = t->hh.next)
		t->subscribed = false;
	for (size_t i = 0; i < n; i++)
	{
		if ((t = metadata_topic(&c->c, wstr(topics[i]))) == NULL)
			return error_memory(err);
		t->subscribed = true;
	}
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
		consumer_remove(c, &c->parts, c->parts);
	for (size_t i = 0; i < n; i++)
	{
		const pgb_place *at = &places[i];
		FromPart *p = consumer_named(c, at->topic, at->partition, NULL);

		if (at->partition < 0)
			return error_set(err, PGB_INVALID, false, "topic \"%s\": %d is no partition", at->topic,
							 at->partition);
		if (p == NULL && (p = consumer_add(c, &c->parts, at->topic, at->partition)) == NULL)
			return error_memory(err);
		if (place_at(c, p, at->offset, err) != 0)
			return -1;
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

/* What an application should see; a topic that nobody knows is told once, until it is known. */
static int
check(pgb_consumer *c, pgb_error *err)
{
	pgb_error why = {0};

	consumer_callbacks(c);
	for (const Topic *t = c->c.topics; t != NULL && why.code == 0; t = t->hh.next)
		if (t->subscribed)
			(void) metadata_failed(&c->c, t, CLIENT_NEVER, &why);
	for (const FromPart *p = c->parts; p != NULL && why.code == 0; p = p->hh.next)
	{
		const Topic *t = p->ask.topic;

		if (metadata_failed(&c->c, t, CLIENT_NEVER, &why) == 0 && t->unknown_since == 0 &&
			p->ask.index >= t->n)
			error_set(&why, PGB_NO_PARTITION, false, "topic \"%s\" has partitions 0 to %d, not %d", t->name,
					  t->n - 1, p->ask.index);
	}
	if (c->failure.code == 0 && !c->unknown_told)
		c->failure = why;
	c->unknown_told = why.code != 0;
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

	return p == NULL ? -1 : place_at(c, p, offset, err);
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
			places[n] = (pgb_place){p->ask.topic->name, p->ask.index, p->position, 0};
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
	jobs_free(c);
	while (c->parts != NULL)
		consumer_remove(c, &c->parts, c->parts);
	read_free_used(c);
	kept_free(&c->kept);
	places_clear(&c->next_given);
	places_clear(&c->last_given);
	wire_writer_free(&c->scratch);
	client_free(&c->c);
}
