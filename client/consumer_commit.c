/* consumer_commit.c: what the group is told about where a partition got to. */
#include "client/consumer.h"

#include <stdlib.h>

static void
commit_free(Commit *com)
{
	if (com != NULL)
		places_clear(&com->places);
	free(com);
}

/* What is asked for; or (places NULL) all that the group does not know: positions, automatic ones what is `stored`. */
static bool
gather(pgb_consumer *c, const pgb_place *places, size_t n, bool stored, PlaceList *list)
{
	for (size_t i = 0; places != NULL && i < n; i++)
	{
		/* Its name stays. */
		const Topic *t = metadata_topic(&c->c, wstr(places[i].topic));

		if (t == NULL || !places_add(list, t->name, places[i].partition, places[i].offset))
			return false;
	}
	for (const FromPart *p = places == NULL ? c->parts : NULL; p != NULL; p = p->hh.next)
	{
		int64_t offset = stored ? p->stored : p->position;

		if (offset >= 0 && offset != p->committed &&
			!places_add(list, p->key.topic->name, p->key.index, offset))
			return false;
	}
	return true;
}

/* places NULL: all.  NULL: *err. */
static Commit *
commit_new(pgb_consumer *c, const pgb_place *places, size_t n, bool automatic, pgb_error *err)
{
	Commit *com;

	if (c->c.conf.group_id[0] == '\0')
	{
		error_set(err, PGB_STATE, false, "only a group has commits: set group.id");
		return NULL;
	}
	com = calloc(1, sizeof(*com));
	if (com == NULL || !gather(c, places, n, automatic, &com->places))
	{
		error_memory(err);
		commit_free(com);
		return NULL;
	}
	com->c = c;
	com->quiet = automatic;
	return com;
}

/* ---- to the coordinator and back ---- */

/* The first error of a response; what was taken is noted. */
static void
commit_taken(pgb_consumer *c, Commit *com, const OffsetCommitResponse *resp)
{
	WireEachPart each = {.m = &OffsetCommitResponse_desc, .message = resp};
	const OffsetCommitResponseTopicsPartitions *part;
	int code = 0;

	while (code == 0 && (part = wire_by_topic_next(&each)) != NULL)
		code = part->error_code;
	for (size_t i = 0; i < com->places.n && code == 0; i++)
	{
		FromPart *p = consumer_named(c, com->places.at[i].topic, com->places.at[i].partition, NULL);

		if (p != NULL)
			p->committed = com->places.at[i].offset;
	}
	if (code == 0)
		return;
	(void) group_lost_coordinator(c, code);
	/* The group goes on without us: the next join tells us where it is. */
	if (code == KERR_ILLEGAL_GENERATION || code == KERR_UNKNOWN_MEMBER_ID ||
		code == KERR_REBALANCE_IN_PROGRESS)
		c->heartbeat_at = 0;
	error_kafka(&com->err, code, "a commit to group \"%s\"", c->c.conf.group_id);
}

static void
commit_done(Client *client, Call *call, const pgb_error *err, void *response)
{
	Commit *com = call->arg;
	pgb_consumer *c = com->c;

	c->commits_open--;
	com->open = false;
	if (err != NULL)
		com->err = *err;
	else
		commit_taken(c, com, response);
	if (!com->waited && com->quiet && com->err.code == 0)
		commit_free(com);
	else if (!com->waited)
		DL_APPEND(c->results, com);
	client_wake_at(client, client->now);
}

/* -1: not sent, the coordinator is not known or not connected yet, *err. */
static int
commit_send(pgb_consumer *c, Commit *com, int64_t timeout, pgb_error *err)
{
	Conn *conn = group_ready(c, USE_CONTROL);
	OffsetCommitRequest req;

	if (conn == NULL)
		return client_late(&c->c, err, PGB_STATE, "the coordinator of group \"%s\" is not known yet",
						   c->c.conf.group_id);
	WIRE_INIT(OffsetCommitRequest, &req);
	req.group_id = wstr(c->c.conf.group_id);
	if (c->member.len > 0)
	{
		req.generation_id_or_member_epoch = c->generation;
		req.member_id = c->member;
		req.group_instance_id = c->instance;
	}
	for (size_t i = 0; i < com->places.n; i++)
	{
		const pgb_place *at = &com->places.at[i];
		OffsetCommitRequestTopicsPartitions *p =
			wire_by_topic_add(&OffsetCommitRequest_desc, &c->c.arena, &req, wstr(at->topic), at->partition);

		if (p == NULL)
			return error_memory(err);
		p->committed_offset = at->offset;
		p->committed_metadata = WSTR_LIT("");
	}
	com->open = true;
	com->err.code = 0;
	c->commits_open++;
	client_send(&c->c, conn, API_OFFSET_COMMIT, 8, &req, commit_done, com, timeout, NULL);
	return 0;
}

/* Sends it, again where that may help; com->err says how it ended. */
static int
commit_wait(pgb_consumer *c, Commit *com, int64_t timeout)
{
	Client *client = &c->c;
	int64_t until = client_clock() + timeout;
	Retry retry = {0};

	com->waited = true;
	while (com->places.n > 0)
	{
		bool sent = retry_due(client, &retry) && commit_send(c, com, until - client_clock(), &com->err) == 0;

		while (com->open)
			client_run(client, CLIENT_NEVER);
		if (client_clock() >= until || (sent && (com->err.code == 0 || !com->err.retriable ||
												 com->err.code == KERR_REBALANCE_IN_PROGRESS)))
			break;
		if (sent)
			retry_later(client, &retry);
		client_run(client, until);
	}
	com->waited = false;
	if (com->err.code == PGB_STATE)
		com->err.code = PGB_TIMED_OUT;
	return com->err.code == 0 ? 0 : -1;
}

/* ---- the calls ---- */

static int
commit_start(pgb_consumer *c, const pgb_place *places, size_t n, bool automatic, pgb_error *err)
{
	Commit *com = commit_new(c, places, n, automatic, err);
	bool empty = com != NULL && com->places.n == 0;
	int rc = com == NULL ? -1 : empty ? 0 : commit_send(c, com, c->c.conf.request_timeout, err);

	if (rc != 0 || empty)
		commit_free(com);
	return rc;
}

int
pgb_commit_async(pgb_consumer *c, const pgb_place *places, size_t n, pgb_error *err)
{
	return commit_start(c, places, n, false, err);
}

int
pgb_commit(pgb_consumer *c, const pgb_place *places, size_t n, int timeout_ms, pgb_error *err)
{
	Commit *com = commit_new(c, places, n, false, err);
	int rc = com == NULL ? -1 : commit_wait(c, com, timeout_ms);

	if (com != NULL && rc != 0 && err != NULL)
		*err = com->err;
	commit_free(com);
	return rc;
}

void
commit_before_loss(pgb_consumer *c, int64_t timeout)
{
	Commit *com = c->c.conf.auto_commit ? commit_new(c, NULL, 0, true, NULL) : NULL;

	if (com == NULL || commit_wait(c, com, timeout) == 0)
		commit_free(com);
	else
		DL_APPEND(c->results, com);
}

/* Automatic commits, from time to time. */
void
commit_step(pgb_consumer *c)
{
	if (!c->c.conf.auto_commit || c->c.conf.group_id[0] == '\0')
		return;
	if (c->c.now >= c->commit_at && c->commits_open == 0 && !c->in_callback)
	{
		(void) commit_start(c, NULL, 0, true, NULL);
		c->commit_at = c->c.now + c->c.conf.commit_interval;
	}
	client_wake_at(&c->c, c->commit_at);
}

void
commit_tell(pgb_consumer *c)
{
	Commit *com;

	while ((com = c->results) != NULL)
	{
		DL_DELETE(c->results, com);
		if (c->c.conf.on_commit != NULL)
			c->c.conf.on_commit(c, com->places.at, com->places.n, com->err.code == 0 ? NULL : &com->err,
								c->c.conf.on_commit_arg);
		commit_free(com);
	}
}
