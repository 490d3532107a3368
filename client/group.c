/*
 * group.c: membership in a classic group.
 *
 *     READY -> JOINING -> (LEADING) -> SYNCING -> TAKING -> STABLE -> (LEAVING_OLD) -> READY ...
 *
 * Requests are sent and answers read here, in the step; partitions are given and taken only by group_revoke, which the
 * application's own calls run.  What a heartbeat says while a callback runs is noted (rejoin, lost) and acted upon after.
 */
#include "client/consumer.h"

#include <stdio.h>
#include <stdlib.h>

#define JOIN_EXTRA 5000 /* a rebalance takes max.poll.interval.ms, its answer a little longer */

/* ---- what goes wrong ---- */

static void
group_error(pgb_consumer *c, const pgb_error *err)
{
	bool fenced = err->code == KERR_FENCED_INSTANCE_ID, unknown = err->code == KERR_UNKNOWN_MEMBER_ID;
	pgb_error why = *err;

	if (err->code > 0)
		error_kafka(&why, err->code, "group \"%s\"", c->c.conf.group_id);
	if (group_lost_coordinator(c, err->code) || err->code == KERR_COORDINATOR_LOAD_IN_PROGRESS)
		c->c.last_error = why;
	else if (fenced || unknown || err->code == KERR_ILLEGAL_GENERATION)
	{
		/* We are no member any more; partitions go as lost. */
		if (fenced || unknown)
			c->member = WSTR_LIT("");
		c->generation = -1;
		c->lost = c->rejoin = true;
		c->fenced = c->fenced || fenced;
	}
	else if (err->code != KERR_REBALANCE_IN_PROGRESS)
		consumer_fail(c, &why);
	if (fenced)
	{
		why.code = PGB_FENCED;
		consumer_fail(c, &why);
	}
}

/* ---- the coordinator ---- */

Node *
group_coordinator(pgb_consumer *c)
{
	Node *n = client_node(&c->c, c->coordinator);

	if (n == NULL)
		retry_want(&c->c, &c->find);
	return n;
}

Conn *
group_ready(pgb_consumer *c, ConnUse use)
{
	Node *n = group_coordinator(c);

	return n == NULL ? NULL : client_ready(&c->c, n, use);
}

bool
group_lost_coordinator(pgb_consumer *c, int code)
{
	if (code != KERR_NOT_COORDINATOR && code != KERR_COORDINATOR_NOT_AVAILABLE && code != PGB_TRANSPORT &&
		code != PGB_TIMED_OUT && code != PGB_PROTOCOL)
		return false;
	c->coordinator = CLIENT_NO_NODE;
	return true;
}

static void
coordinator_done(Client *client, Call *call, const pgb_error *err, void *response)
{
	pgb_consumer *c = call->arg;
	FindCoordinatorResponse *r = response;
	Node *n;

	if (err != NULL)
	{
		group_error(c, err);
		return;
	}
	n = client_add_node(client, r->node_id, r->host, r->port);
	c->coordinator = n == NULL ? CLIENT_NO_NODE : n->id;
	c->find.wanted = false;
	c->find.failures = 0;
	client_wake_at(client, client->now);
}

void
group_find_coordinator(pgb_consumer *c)
{
	FindCoordinatorRequest req;
	Node *n = client_node(&c->c, c->coordinator);
	Conn *conn;

	/* A coordinator that cannot be reached may be one no more. */
	if (n != NULL && n->conns[USE_CONTROL].retry.failures + n->conns[USE_GROUP].retry.failures > 1)
	{
		c->coordinator = CLIENT_NO_NODE;
		n->conns[USE_CONTROL].retry.failures = n->conns[USE_GROUP].retry.failures = 0;
	}
	if (!c->find.wanted || c->c.conf.group_id[0] == '\0' || !retry_due(&c->c, &c->find) ||
		(conn = client_any(&c->c)) == NULL)
		return;
	WIRE_INIT(FindCoordinatorRequest, &req);
	req.key = wstr(c->c.conf.group_id);
	client_send(&c->c, conn, API_FIND_COORDINATOR, 3, &req,
				(Call){.done = coordinator_done, .arg = c, .retry = &c->find});
}

/* ---- join and sync ---- */

/* What an answer to JoinGroup or SyncGroup says; false: it is an error, or nobody waits for it any more. */
static bool
accepted(pgb_consumer *c, GroupState waits, const pgb_error *err)
{
	if (c->group != waits)
		return false;
	client_wake_at(&c->c, c->c.now);
	if (err == NULL)
		return true;
	c->group = GROUP_READY;
	/* Now that we have one nothing has to be waited for. */
	if (err->code == KERR_MEMBER_ID_REQUIRED)
		c->joining = (Retry){0};
	else
		group_error(c, err);
	return false;
}

/* This round at least. */
static void
give_up(pgb_consumer *c, const char *why)
{
	error_set(consumer_failure(c), PGB_PROTOCOL, true, "group \"%s\": %s", c->c.conf.group_id, why);
	c->group = GROUP_READY;
	retry_later(&c->c, &c->joining);
}

static void
join_done(Client *client, Call *call, const pgb_error *err, void *response)
{
	pgb_consumer *c = call->arg;
	JoinGroupResponse *r = response;

	/* Our id is in one that says who we are. */
	if (c->group == GROUP_JOINING && (err == NULL || err->code == KERR_MEMBER_ID_REQUIRED))
	{
		call_keep(client, &c->kept);
		c->joined = r;
		c->member = r->member_id;
		c->subscriptions = NULL;
	}
	if (!accepted(c, GROUP_JOINING, err))
		return;
	c->joining.failures = 0;
	c->rejoin = c->lost = false;
	c->generation = r->generation_id;
	c->group = GROUP_LEADING;
	if (!wstr_eq(r->leader, c->member))
		return;
	c->subscriptions = arena_alloc(&c->kept.arena, sizeof(*c->subscriptions) * ((size_t) r->n_members + 1));
	for (int32_t i = 0; c->subscriptions != NULL && i < r->n_members; i++)
		(void) !wire_unpack(&ConsumerProtocolSubscription_desc, r->members[i].metadata, &c->kept.arena,
							&c->subscriptions[i]);
	if (c->subscriptions == NULL)
		give_up(c, "no memory");
}

static void
group_send(pgb_consumer *c, Conn *conn, int16_t key, int16_t most, const void *request, CallDone done)
{
	client_send(&c->c, conn, key, most, request,
				(Call){.done = done,
					   .arg = c,
					   .timeout = c->c.conf.rebalance_timeout + JOIN_EXTRA,
					   .retry = &c->joining});
}

static void
join(pgb_consumer *c, Conn *conn)
{
	JoinGroupRequest req;

	WIRE_INIT(JoinGroupRequest, &req);
	req.group_id = wstr(c->c.conf.group_id);
	req.session_timeout_ms = (int32_t) c->c.conf.session_timeout;
	req.rebalance_timeout_ms = (int32_t) c->c.conf.rebalance_timeout;
	req.member_id = c->member;
	req.group_instance_id = c->instance;
	req.protocol_type = WSTR_LIT("consumer");
	c->group = GROUP_JOINING;
	if (group_put_protocols(c, &req) == 0)
		group_send(c, conn, API_JOIN_GROUP, 9, &req, join_done);
	else
		give_up(c, "no memory");
}

static void
sync_done(Client *client, Call *call, const pgb_error *err, void *response)
{
	pgb_consumer *c = call->arg;
	SyncGroupResponse *r = response;

	if (!accepted(c, GROUP_SYNCING, err))
		return;
	if (group_read_assignment(c, r->assignment) != 0)
	{
		give_up(c, "the assignment that its leader made cannot be read");
		return;
	}
	c->group = GROUP_TAKING;
	c->heartbeat_at = client->now + client->conf.heartbeat;
}

static void
sync_group(pgb_consumer *c, Conn *conn)
{
	SyncGroupRequest req;

	WIRE_INIT(SyncGroupRequest, &req);
	req.group_id = wstr(c->c.conf.group_id);
	req.generation_id = c->generation;
	req.member_id = c->member;
	req.group_instance_id = c->instance;
	req.protocol_type = WSTR_LIT("consumer");
	req.protocol_name = c->joined->protocol_name;
	c->group = GROUP_SYNCING;
	(void) group_topics_known(c, &c->counts);
	c->counts_version = c->c.meta_version;
	if (c->subscriptions == NULL || c->joined->skip_assignment || group_assign(c, &req) == 0)
		group_send(c, conn, API_SYNC_GROUP, 5, &req, sync_done);
	else
		give_up(c, "no memory, or no assignor of the name that the group chose");
}

/* ---- heartbeats ---- */

static void
heartbeat_done(Client *client, Call *call, const pgb_error *err, void *response)
{
	pgb_consumer *c = call->arg;

	(void) response;
	if (c->group == GROUP_NONE || err == NULL)
		return;
	if (err->code == KERR_REBALANCE_IN_PROGRESS)
		c->rejoin = true;
	else
		group_error(c, err);
	client_wake_at(client, client->now);
}

static void
heartbeat(pgb_consumer *c)
{
	Conn *conn = c->joining.open ? NULL : group_ready(c, USE_GROUP);
	HeartbeatRequest req;

	if (c->c.now < c->heartbeat_at)
		client_wake_at(&c->c, c->heartbeat_at);
	if (conn == NULL || c->c.now < c->heartbeat_at || c->member.len == 0 || c->generation < 0)
		return;
	WIRE_INIT(HeartbeatRequest, &req);
	req.group_id = wstr(c->c.conf.group_id);
	req.generation_id = c->generation;
	req.member_id = c->member;
	req.group_instance_id = c->instance;
	c->heartbeat_at = c->c.now + c->c.conf.heartbeat;
	client_wake_at(&c->c, c->heartbeat_at);
	client_send(
		&c->c, conn, API_HEARTBEAT, 4, &req,
		(Call){.done = heartbeat_done, .arg = c, .timeout = c->c.conf.session_timeout, .retry = &c->joining});
}

/* ---- the step ---- */

void
group_step(pgb_consumer *c)
{
	uint64_t counts;
	Conn *conn;

	if (c->group == GROUP_NONE || c->group == GROUP_FENCED)
		return;
	/* New partitions, or a topic that was made: everybody must hear of it. */
	if (c->group == GROUP_STABLE && c->subscriptions != NULL && c->counts_version != c->c.meta_version)
	{
		c->counts_version = c->c.meta_version;
		(void) group_topics_known(c, &counts);
		c->rejoin = c->rejoin || counts != c->counts;
	}
	if (c->group == GROUP_STABLE && c->rejoin && !c->in_callback)
	{
		c->group = c->lost || !c->cooperative ? GROUP_LEAVING_OLD : GROUP_READY;
		c->joining.at = 0;
	}
	if (c->group == GROUP_STABLE || c->group == GROUP_TAKING || c->group == GROUP_LEAVING_OLD)
		heartbeat(c);
	if ((c->group != GROUP_READY && c->group != GROUP_LEADING) || c->in_callback ||
		!retry_due(&c->c, &c->joining))
		return;
	/* Partitions of a membership that is over go first. */
	if (c->group == GROUP_READY && c->lost && c->parts != NULL)
	{
		c->group = GROUP_LEAVING_OLD;
		return;
	}
	conn = group_ready(c, USE_GROUP);
	if (conn == NULL)
		return;
	if (c->group == GROUP_READY)
		join(c, conn);
	else if (c->joined->skip_assignment || group_topics_known(c, &counts))
		sync_group(c, conn);
}

/* ---- partitions come and go: called from the top ---- */

static void
tell(pgb_consumer *c, pgb_rebalance what, const PlaceList *list)
{
	if (c->c.conf.on_rebalance != NULL && list->n > 0)
		c->c.conf.on_rebalance(c, what, list->at, list->n, c->c.conf.on_rebalance_arg);
}

/* All partitions but those that stay. */
static void
take_away(pgb_consumer *c, pgb_rebalance what)
{
	PlaceList list = {0};
	FromPart *p, *next;

	for (p = c->parts; p != NULL; p = p->hh.next)
		if (!p->stays)
			(void) places_add(&list, p->ask.topic->name, p->ask.index, p->position);
	if (list.n > 0 && what == PGB_REVOKED)
		commit_before_loss(c, c->c.conf.request_timeout < 5000 ? c->c.conf.request_timeout : 5000);
	tell(c, what, &list);
	HASH_ITER (hh, c->parts, p, next)
	{
		if (!p->stays)
			consumer_remove(c, &c->parts, p);
		else
			p->stays = false;
	}
	places_clear(&list);
}

void
group_revoke(pgb_consumer *c)
{
	FromPart *p;

	if (c->group == GROUP_LEAVING_OLD)
	{
		take_away(c, c->lost ? PGB_LOST : PGB_REVOKED);
		c->lost = false;
		c->joining.at = 0;
		c->group = c->fenced ? GROUP_FENCED : GROUP_READY;
	}
	else if (c->group == GROUP_TAKING)
	{
		size_t before = HASH_COUNT(c->parts), left;
		PlaceList new = {0};

		for (size_t i = 0; i < c->next_given.n; i++)
		{
			const pgb_place *at = &c->next_given.at[i];

			if ((p = consumer_named(c, at->topic, at->partition, NULL)) != NULL)
				p->stays = true;
			else
				(void) places_add(&new, at->topic, at->partition, PGB_COMMITTED);
		}
		take_away(c, PGB_REVOKED);
		left = HASH_COUNT(c->parts);
		for (size_t i = 0; i < new.n; i++)
			if (consumer_named(c, new.at[i].topic, new.at[i].partition, NULL) == NULL &&
				(p = consumer_add(c, &c->parts, new.at[i].topic, new.at[i].partition)) != NULL)
				consumer_place(c, p, ASK_COMMITTED, 0);
		tell(c, PGB_GIVEN, &new);
		places_clear(&new);
		places_clear(&c->last_given);
		c->last_given = c->next_given;
		c->next_given = (PlaceList){0};
		c->sticky_generation = c->generation;
		c->group = GROUP_STABLE;
		/* What was let go can be given to others only in another round. */
		c->rejoin = c->rejoin || (c->cooperative && left < before);
	}
	else
		return;
	client_wake_at(&c->c, 0);
}

/* ---- beginning and end ---- */

void
group_subscribe(pgb_consumer *c)
{
	if (c->group == GROUP_NONE || c->group == GROUP_FENCED)
	{
		c->group = GROUP_READY;
		c->fenced = false;
		c->joining = (Retry){.open = c->joining.open};
	}
	else
		c->rejoin = true;
	client_wake_at(&c->c, 0);
}

/* Waits for the answer, so that who closes the connections next does not take it back. */
static void
say_goodbye(pgb_consumer *c, Node *node, int64_t timeout)
{
	int64_t until = client_clock() + timeout;
	LeaveGroupRequestMembers me;
	LeaveGroupRequest req;
	Retry leaving = {0};
	Conn *conn;

	WIRE_INIT(LeaveGroupRequest, &req);
	WIRE_INIT(LeaveGroupRequestMembers, &me);
	req.group_id = wstr(c->c.conf.group_id);
	req.member_id = me.member_id = c->member;
	me.reason = WSTR_LIT("the consumer is being closed");
	req.members = &me;
	req.n_members = 1;
	while ((conn = client_ready(&c->c, node, USE_CONTROL)) == NULL && client_clock() < until)
		client_run(&c->c, until);
	if (conn != NULL)
		client_send(&c->c, conn, API_LEAVE_GROUP, 5, &req, (Call){.timeout = timeout, .retry = &leaving});
	while (leaving.open)
		client_run(&c->c, CLIENT_NEVER);
}

void
group_leave(pgb_consumer *c, int64_t timeout)
{
	Node *node = client_node(&c->c, c->coordinator);
	bool was_in = c->in_callback;

	if (c->group == GROUP_NONE)
		return;
	c->in_callback = true;
	take_away(c, PGB_REVOKED);
	c->in_callback = was_in;
	c->group = GROUP_NONE;
	c->rejoin = c->lost = false;
	/* A static member that comes back in time finds its partitions where they were. */
	if (node != NULL && c->member.len > 0 && c->instance.len < 0)
		say_goodbye(c, node, timeout < 5000 ? timeout : 5000);
	c->member = WSTR_LIT("");
	c->generation = -1;
}
