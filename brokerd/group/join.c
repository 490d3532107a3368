/* JoinGroup. */
#include <stdlib.h>

#include "brokerd/group/internal.h"

static const char *const joined = "member joined";

/* What keeps a request from being looked at further, whatever group it names. */
static int16_t
check_request(const GroupSet *set, const GroupJoin *in)
{
	int16_t error;

	if (in->group_id.len <= 0)
		return KERR_INVALID_GROUP_ID;
	if (in->session_timeout_ms < set->config.min_session_timeout_ms ||
		in->session_timeout_ms > set->config.max_session_timeout_ms)
		return KERR_INVALID_SESSION_TIMEOUT;
	error = group_slot_check(set, in->group_id);
	if (error != KERR_NONE)
		return error;
	if (in->instance_id.len >= 0 && !group_text_ok(in->instance_id, GROUP_MAX_NAME))
		return KERR_INVALID_REQUEST;
	if (!group_text_ok(in->protocol_type, GROUP_MAX_NAME) || in->protocol_count > GROUP_MAX_PROTOCOLS)
		return KERR_INCONSISTENT_GROUP_PROTOCOL;
	for (int32_t i = 0; i < in->protocol_count; i++)
	{
		if (!group_text_ok(in->protocols[i].name, GROUP_MAX_NAME))
			return KERR_INCONSISTENT_GROUP_PROTOCOL;
	}
	return KERR_NONE;
}

/*
 * group.max.size.  During the join phase those who are waiting count, so that the last to rejoin stay out when
 * the limit was lowered; later the members do.
 */
static bool
has_room(const Group *g, const Member *m)
{
	int32_t max = g->set->config.max_size;

	switch (g->state)
	{
		case GROUP_PREPARING_REBALANCE:
			return (m != NULL && m->join_request != 0) || g->awaiting_join < max;
		case GROUP_COMPLETING_REBALANCE:
		case GROUP_STABLE:
			return m != NULL || g->members.count < max;
		default:
			return true;
	}
}

/* While PostgreSQL is away nothing starts that could not be finished: nobody who consumes is stopped. */
static bool
put_off(Group *g, const GroupJoin *in)
{
	GroupSet *set = g->set;

	if (!set->away || (g->state != GROUP_EMPTY && g->state != GROUP_STABLE))
		return false;
	answer_join_error(set, in->request, g->id, in->member_id, KERR_COORDINATOR_LOAD_IN_PROGRESS);
	set->actions[set->action_count - 1].delay_ms = set->config.away_answer_ms;
	return true;
}

static void
add_member(Group *g, int64_t now, WStr id, const GroupJoin *in)
{
	Member *m;

	if (put_off(g, in))
		return;
	m = member_add(g, now, id, in);
	m->is_new = true;
	if (g->state == GROUP_PREPARING_REBALANCE && g->previous == GROUP_EMPTY)
		g->new_member_added = true;
	member_park_join(g->set, m, in);

	/*
	 * The session cannot be kept alive before the client knows its id, and a client that went away with its
	 * JoinGroup parked does not show; if it is there after all, it asks again.
	 */
	deadline_set(&g->set->deadlines, &m->session, now + g->set->config.new_member_join_timeout_ms);
	rebalance_prepare_or_complete(g, now, &(Why){joined, in->reason, m});
}

static void
update_member(Group *g, int64_t now, Member *m, const GroupJoin *in, const char *what)
{
	if (put_off(g, in))
		return;
	member_update(m, in);
	member_park_join(g->set, m, in);
	rebalance_prepare_or_complete(g, now, &(Why){what, in->reason, m});
}

/* A static member's new process takes the place of the old one. */
static void
replace_static(Group *g, int64_t now, Member *m, WStr id, const GroupJoin *in)
{
	GroupSet *set = g->set;
	uint64_t join;
	WStr old;
	bool was_leader = g->leader == m;

	if (put_off(g, in))
		return;
	old = group_strdup(m->id);
	join = member_take_join(m);
	if (join != 0)
		answer_join_error(set, join, g->id, old, KERR_FENCED_INSTANCE_ID);
	if (m->sync_request != 0)
		answer_sync_error(set, m->sync_request, g->id, KERR_FENCED_INSTANCE_ID);
	m->sync_request = 0;
	m->untold = false;
	member_replace_id(m, id, in);
	member_update(m, in);
	member_keep_alive(m, now);
	member_park_join(set, m, in);

	if (g->state == GROUP_STABLE && wstr_eq(protocol_select(g), g->protocol_name))
	{
		/* Nothing changes for the others.  The new id is saved, then answered (save.c). */
		m->replace_serial = save_begin(g, now);
		if (was_leader && in->version < 9)
			m->replaced_leader = (char *) group_strdup(old).s;
		save_watch(g, now);
	}
	else if (g->state == GROUP_STABLE)
		rebalance_prepare(g, now, &(Why){"metadata changed: another protocol is chosen", in->reason, m});
	else if (g->state == GROUP_COMPLETING_REBALANCE)
		/* The leader may be assigning to the old id at this moment. */
		rebalance_prepare(g, now, &(Why){"static member replaced", in->reason, m});
	else
		rebalance_maybe_complete(g, now);
	free((char *) old.s);
}

static void
join_as_new(Group *g, int64_t now, const GroupJoin *in)
{
	GroupSet *set = g->set;
	WStr id = member_new_id(set, in);
	Member *m;

	if (in->instance_id.len >= 0)
	{
		m = member_find_instance(g, in->instance_id);
		if (m != NULL)
			replace_static(g, now, m, id, in);
		else
			add_member(g, now, id, in);
		return;
	}
	if (in->version < 4)
	{
		add_member(g, now, id, in);
		return;
	}
	/* KIP-394: a client that never sees its answer leaves no member behind. */
	m = member_add_pending(g, id, in);
	member_keep_alive(m, now);
	answer_join_error(set, in->request, g->id, id, KERR_MEMBER_ID_REQUIRED);
}

/* The answer is the generation as it is: the client may not have seen the first one. */
static void
answer_again(Group *g, int64_t now, Member *m, const GroupJoin *in, bool with_members)
{
	member_park_join(g->set, m, in);
	answer_joined(g, m, with_members);
	member_keep_alive(m, now);
}

static void
join_again(Group *g, int64_t now, const GroupJoin *in)
{
	GroupSet *set = g->set;
	Member *m;
	bool same;
	int16_t error;

	if (member_find_pending(g, in->member_id) != NULL)
	{
		/* Ids that wait are those of dynamic members. */
		if (in->instance_id.len >= 0)
			answer_join_error(set, in->request, g->id, in->member_id, KERR_UNKNOWN_SERVER_ERROR);
		else
			add_member(g, now, in->member_id, in);
		return;
	}
	error = member_validate(g, in->member_id, in->instance_id, &m);
	if (error == KERR_NONE && m->untold)
	{
		/* It would go on from positions that an administrator has moved: it has to start anew. */
		error = KERR_UNKNOWN_MEMBER_ID;
		m->untold = false;
		if (m->instance_id.len < 0)
		{
			member_dismiss(m);
			rebalance_maybe_complete(g, now);
		}
	}
	if (error != KERR_NONE)
	{
		answer_join_error(set, in->request, g->id, in->member_id, error);
		return;
	}
	same = protocols_match(m, in->protocols, in->protocol_count);
	switch (g->state)
	{
		case GROUP_PREPARING_REBALANCE:
			update_member(g, now, m, in, joined);
			break;
		case GROUP_COMPLETING_REBALANCE:
			if (same)
				answer_again(g, now, m, in, m == g->leader);
			else
				update_member(g, now, m, in, "metadata changed");
			break;
		case GROUP_STABLE:
			if (m == g->leader)
				/* It saw something that members' metadata does not show, such as a new partition. */
				update_member(g, now, m, in, same ? "leader rejoined" : "metadata changed");
			else if (!same)
				update_member(g, now, m, in, "metadata changed");
			else
				answer_again(g, now, m, in, false);
			break;
		default:
			answer_join_error(set, in->request, g->id, in->member_id, KERR_UNKNOWN_MEMBER_ID);
	}
}

void
group_join(GroupSet *set, int64_t now, const GroupJoin *in)
{
	bool is_new = in->member_id.len <= 0;
	int16_t error;
	Group *g;
	Member *m;

	actions_begin(set);
	error = check_request(set, in);
	if (error != KERR_NONE)
	{
		answer_join_error(set, in->request, in->group_id, in->member_id, error);
		return;
	}
	g = group_find(set, in->group_id);
	if (g == NULL && !is_new)
	{
		answer_join_error(set, in->request, in->group_id, in->member_id, KERR_UNKNOWN_MEMBER_ID);
		return;
	}
	if (g == NULL)
		g = group_make(set, in->group_id);

	m = member_find(g, in->member_id);
	if (!has_room(g, m))
	{
		if (m == NULL)
			m = member_find_pending(g, in->member_id);
		if (m != NULL)
			member_remove(m);
		answer_join_error(set, in->request, g->id, WSTR_LIT(""), KERR_GROUP_MAX_SIZE_REACHED);
		rebalance_maybe_complete(g, now);
	}
	else if (!protocols_supported(g, in->protocol_type, in->protocols, in->protocol_count))
		answer_join_error(set, in->request, g->id, in->member_id, KERR_INCONSISTENT_GROUP_PROTOCOL);
	else if (is_new)
		join_as_new(g, now, in);
	else
		join_again(g, now, in);
	group_forget_if_nothing(g);
}
