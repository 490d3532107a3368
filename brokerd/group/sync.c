/* SyncGroup and Heartbeat. */
#include "brokerd/group/internal.h"

static void
answer_sync(Group *g, Member *m)
{
	GroupSet *set = g->set;
	GroupAction *a;

	if (m->sync_request == 0)
		return;
	a = actions_add(set, GROUP_ANSWER_SYNC, g->id);
	a->request = m->sync_request;
	a->u.sync.protocol_type = actions_str(set, g->protocol_type);
	a->u.sync.protocol_name = actions_str(set, g->protocol_name);
	a->u.sync.assignment = actions_bytes(set, m->assignment);
	m->sync_request = 0;
}

/* Answer all who are parked: with their assignments, or with an error. */
void
sync_propagate(Group *g, int64_t now, int16_t error)
{
	for (Member *m = g->members.first; m != NULL; m = m->next)
	{
		if (m->sync_request == 0)
			continue;
		if (error == KERR_NONE)
			answer_sync(g, m);
		else
			answer_sync_error(g->set, m->sync_request, g->id, error);
		m->sync_request = 0;
		if (error == KERR_ILLEGAL_GENERATION)
			m->untold = false;
		/* A session that ended while its SyncGroup was parked was let pass and begins anew. */
		member_keep_alive(m, now);
	}
}

void
sync_reset(Group *g, int64_t now, int16_t error)
{
	for (Member *m = g->members.first; m != NULL; m = m->next)
		member_set_assignment(m, WBYTES_NULL);
	g->leader_synced = false;
	sync_propagate(g, now, error);
}

static bool
inconsistent(WStr given, WStr ours)
{
	return given.len >= 0 && !wstr_eq(given, ours);
}

static int16_t
check_sync(Group *g, const GroupSync *in, Member **m)
{
	int16_t error;

	if (g == NULL || g->state == GROUP_EMPTY)
		return KERR_UNKNOWN_MEMBER_ID;
	error = member_validate_generation(g, in->member_id, in->instance_id, in->generation, m);
	if (error != KERR_NONE)
		return error;
	if (inconsistent(in->protocol_type, g->protocol_type) ||
		inconsistent(in->protocol_name, g->protocol_name))
		return KERR_INCONSISTENT_GROUP_PROTOCOL;
	return g->state == GROUP_PREPARING_REBALANCE ? KERR_REBALANCE_IN_PROGRESS : KERR_NONE;
}

/* Who is not named gets nothing; who is named and not there (any more) is passed over. */
static void
take_assignments(Group *g, const GroupSync *in)
{
	for (Member *m = g->members.first; m != NULL; m = m->next)
		member_set_assignment(m, WBYTES_NULL);
	for (int32_t i = 0; i < in->assignment_count; i++)
	{
		Member *m = member_find(g, in->assignments[i].member_id);

		if (m != NULL)
			member_set_assignment(m, in->assignments[i].assignment);
	}
	g->leader_synced = true;
}

static void
synced(Group *g, Member *m)
{
	member_set_pending_sync(m, false);
	if (g->pending_sync == 0)
	{
		deadline_clear(&g->set->deadlines, &g->sync_deadline);
		g->sync_held = false;
	}
}

void
group_sync(GroupSet *set, int64_t now, const GroupSync *in)
{
	Group *g;
	Member *m = NULL;
	int16_t error;

	actions_begin(set);
	error = in->group_id.len <= 0 ? KERR_INVALID_GROUP_ID : group_slot_check(set, in->group_id);
	g = error == KERR_NONE ? group_find(set, in->group_id) : NULL;
	if (error == KERR_NONE)
		error = check_sync(g, in, &m);
	if (error != KERR_NONE)
	{
		answer_sync_error(set, in->request, in->group_id, error);
		return;
	}
	if (m->sync_request != 0)
		answer_sync_error(set, m->sync_request, g->id, KERR_REBALANCE_IN_PROGRESS);
	m->sync_request = in->request;
	synced(g, m);
	if (g->state == GROUP_STABLE)
	{
		answer_sync(g, m);
		return;
	}

	/*
	 * A second assignment of the same generation (the leader retries) is passed over: the first may be in
	 * SQL already, and there must not be two.
	 */
	if (m == g->leader && !g->leader_synced)
	{
		take_assignments(g, in);
		(void) save_begin(g, now);
	}
	if (g->leader_synced)
		save_watch(g, now);
}

int16_t
group_heartbeat(GroupSet *set, int64_t now, WStr group_id, WStr member_id, WStr instance_id,
				int32_t generation)
{
	int16_t error = group_id.len <= 0 ? KERR_INVALID_GROUP_ID : group_slot_check(set, group_id);
	Group *g;
	Member *m;

	if (error != KERR_NONE)
		return error;
	g = group_find(set, group_id);
	if (g == NULL)
		return KERR_UNKNOWN_MEMBER_ID;
	error = member_validate_generation(g, member_id, instance_id, generation, &m);
	if (error != KERR_NONE)
		return error;
	member_keep_alive(m, now);
	return g->state == GROUP_PREPARING_REBALANCE ? KERR_REBALANCE_IN_PROGRESS : KERR_NONE;
}
