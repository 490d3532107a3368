/*
 * What is saved of a group, and who waits for it.
 *
 * One save of a group is out at a time.  What has to be saved meanwhile is saved when that one is back, from
 * the state as it is then; who waits for it waits for that serial:
 *
 *     save_begin -> serial 1, out        save_begin -> serial 2, promised
 *     group_saved(1): who waits for 1 is answered; serial 2 goes out
 */
#include <stdlib.h>

#include "brokerd/group/internal.h"

static const GroupMemberRow *
member_rows(Group *g)
{
	GroupSet *set = g->set;
	GroupMemberRow *rows = actions_alloc(set, (size_t) g->members.count * sizeof(*rows));
	GroupMemberRow *r = rows;

	for (const Member *m = g->members.first; m != NULL; m = m->next, r++)
	{
		GroupProtocol *protocols = actions_alloc(set, (size_t) m->protocol_count * sizeof(*protocols));

		for (int32_t i = 0; i < m->protocol_count; i++)
		{
			protocols[i].name = actions_str(set, m->protocols[i].name);
			protocols[i].metadata = actions_bytes(set, m->protocols[i].metadata);
		}
		*r = (GroupMemberRow){
			.member_id = actions_str(set, m->id),
			.instance_id = actions_str(set, m->instance_id),
			.client_id = actions_str(set, m->client_id),
			.client_host = actions_str(set, m->client_host),
			.session_timeout_ms = m->session_timeout_ms,
			.rebalance_timeout_ms = m->rebalance_timeout_ms,
			.protocols = protocols,
			.protocol_count = m->protocol_count,
			.assignment = actions_bytes(set, m->assignment),
			.joined_ms = m->joined_ms,
		};
	}
	return rows;
}

static void
fill_history(Group *g, int64_t now, GroupHistory *h)
{
	Cause *c = g->cause;

	if (c == NULL || !c->present)
		return;
	h->present = true;
	h->duration_ms = now > c->since ? now - c->since : 0;
	h->reason = actions_str(g->set, wstr(c->reason));
	h->member = c->member[0] == '\0' ? WSTR_NULL : actions_str(g->set, wstr(c->member));
	h->members_before = c->members_before;
	h->members_after = g->members.count;
	free(c);
	g->cause = NULL;
}

static void
send_save(Group *g, int64_t now)
{
	GroupSet *set = g->set;
	GroupAction *a = actions_add(set, GROUP_SAVE, g->id);
	GroupSave *s = &a->u.save;

	g->save_out = true;
	g->save_generation = g->generation;
	g->stored = true;
	s->serial = ++g->save_serial;
	s->slot = g->slot;
	s->expected_generation = g->saved_generation;
	s->row = (GroupRow){
		.group_id = a->group_id,
		.generation = g->generation,
		.protocol_type = actions_str(set, g->protocol_type),
		.protocol_name = actions_str(set, g->protocol_name),
		.leader = g->leader == NULL ? WSTR_NULL : actions_str(set, g->leader->id),
		.members = member_rows(g),
		.member_count = g->members.count,
	};
	/* A static member's new id ends no rebalance, nor one that is put off. */
	if (g->state != GROUP_STABLE)
		fill_history(g, now, &s->history);
}

uint64_t
save_begin(Group *g, int64_t now)
{
	if (g->save_out)
	{
		g->save_again = true;
		return g->save_serial + 1;
	}
	send_save(g, now);
	return g->save_serial;
}

void
save_watch(Group *g, int64_t now)
{
	if (!deadline_is_set(&g->save_deadline))
		deadline_set(&g->set->deadlines, &g->save_deadline, now + g->set->config.save_wait_ms);
}

/* Is what a group has now to be kept?  While it rebalances the last generation is what SQL has. */
static bool
is_settled(const Group *g)
{
	return g->state == GROUP_STABLE || g->state == GROUP_EMPTY ||
		   (g->state == GROUP_COMPLETING_REBALANCE && g->leader_synced);
}

static void
answer_leaves(Group *g, uint64_t serial)
{
	LeaveWait **p = &g->leave_waits;

	while (*p != NULL)
	{
		LeaveWait *w = *p;

		if (w->serial > serial)
		{
			p = &w->next;
			continue;
		}
		answer_leave(g->set, w->request, g->id, KERR_NONE);
		*p = w->next;
		free(w);
	}
}

/* A static member's new id is saved: the answer depends on what the client's version can do (KIP-814). */
static void
answer_replaced(Group *g, int64_t now, Member *m)
{
	GroupSet *set = g->set;
	bool new_way = m->join_version >= 9;
	bool leads = new_way && m == g->leader;
	WStr old_leader = m->replaced_leader == NULL ? WSTR_NULL : actions_str(set, wstr(m->replaced_leader));
	GroupJoinAnswer *a;

	answer_joined(g, m, leads);
	member_keep_alive(m, now);
	a = &set->actions[set->action_count - 1].u.join;
	a->skip_assignment = leads;
	/* An old client must not assign anew in a generation that has its assignment: it is told it follows. */
	if (!new_way && old_leader.len >= 0)
		a->leader = old_leader;
}

static void
saved_ok(Group *g, int64_t now)
{
	g->saved_generation = g->save_generation;
	if (g->state == GROUP_COMPLETING_REBALANCE && g->leader_synced && g->generation == g->save_generation)
	{
		group_set_state(g, GROUP_STABLE);
		g->settled_members = g->members.count;
		sync_propagate(g, now, KERR_NONE);
	}
	if (g->state == GROUP_STABLE)
	{
		for (Member *m = g->members.first; m != NULL; m = m->next)
		{
			if (m->replace_serial != 0 && m->replace_serial <= g->save_serial)
				answer_replaced(g, now, m);
		}
	}
	answer_leaves(g, g->save_serial);
}

/* Kafka: a generation that could not be stored is given up, and its members join again. */
static void
saved_refused(Group *g, int64_t now)
{
	for (Member *m = g->members.first; m != NULL; m = m->next)
	{
		if (m->replace_serial == 0)
			continue;
		member_keep_alive(m, now);
		answer_join_error(g->set, member_take_join(m), g->id, WSTR_LIT(""), KERR_UNKNOWN_SERVER_ERROR);
	}
	if (g->state == GROUP_COMPLETING_REBALANCE && g->leader_synced)
	{
		sync_reset(g, now, KERR_UNKNOWN_SERVER_ERROR);
		rebalance_prepare(g, now, &(Why){"the generation could not be stored", WSTR_NULL, NULL});
	}
	answer_leaves(g, g->save_serial);
}

void
group_saved(GroupSet *set, int64_t now, WStr group_id, uint64_t serial, GroupSaveResult result,
			int32_t generation)
{
	Group *g;

	actions_begin(set);
	g = group_find(set, group_id);
	if (g == NULL || !g->save_out || g->save_serial != serial)
		return;
	if (result == GROUP_SAVE_FENCED)
	{
		group_slot_lost(set, g->slot);
		return;
	}
	g->save_out = false;
	deadline_clear(&set->deadlines, &g->save_deadline);
	if (result == GROUP_SAVE_OK)
		saved_ok(g, now);
	else if (result == GROUP_SAVE_REFUSED)
		saved_refused(g, now);
	else
	{
		fence_to(g, now, generation, WSTR_NULL);
		if (is_settled(g))
			g->save_again = true;
	}
	if (g->save_again && !g->save_out && is_settled(g))
	{
		send_save(g, now);
		if (g->state != GROUP_EMPTY)
			save_watch(g, now);
	}
	if (!g->save_out)
		answer_leaves(g, UINT64_MAX);
	g->save_again = false;
	group_forget_if_nothing(g);
}

/* PostgreSQL takes its time; clients are to ask again before they give up. */
void
save_on_deadline(Group *g, int64_t now)
{
	for (Member *m = g->members.first; m != NULL; m = m->next)
	{
		/* A session that ended while a request was parked was let pass. */
		if (m->sync_request != 0 || m->replace_serial != 0)
			member_keep_alive(m, now);
		if (m->sync_request != 0)
			answer_sync_error(g->set, m->sync_request, g->id, KERR_COORDINATOR_NOT_AVAILABLE);
		m->sync_request = 0;
		if (m->replace_serial != 0)
			answer_join_error(g->set, member_take_join(m), g->id, WSTR_LIT(""),
							  KERR_COORDINATOR_NOT_AVAILABLE);
	}
	answer_leaves(g, UINT64_MAX);
}
