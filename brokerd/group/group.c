/* The set of groups: finding, making and dropping them; slots; loading; time. */
#include "brokerd/group/group.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/group/internal.h"

enum
{
	SLOT_NOT_OURS,
	SLOT_LOADING,
	SLOT_OURS
};

#define CONTAINER_OF(ptr, type, member) ((type *) (void *) ((char *) (ptr) -offsetof(type, member)))

static const struct
{
	const char *kafka;
	const char *sql;
} state_names[] = {
	[GROUP_EMPTY] = {"Empty", "empty"},
	[GROUP_PREPARING_REBALANCE] = {"PreparingRebalance", "preparing_rebalance"},
	[GROUP_COMPLETING_REBALANCE] = {"CompletingRebalance", "completing_rebalance"},
	[GROUP_STABLE] = {"Stable", "stable"},
	[GROUP_DEAD] = {"Dead", "dead"},
};

const char *
group_state_name(GroupState state)
{
	return state_names[state].kafka;
}

const char *
group_state_sql_name(GroupState state)
{
	return state_names[state].sql;
}

void
group_config_defaults(GroupConfig *config)
{
	*config = (GroupConfig){
		.initial_rebalance_delay_ms = 3000,
		.min_session_timeout_ms = 6000,
		.max_session_timeout_ms = 1800000,
		.max_size = INT32_MAX,
		.new_member_join_timeout_ms = 300000,
		.save_wait_ms = 20000,
		.away_answer_ms = 1000,
	};
}

GroupSet *
group_set_new(const GroupConfig *config)
{
	GroupSet *set = group_alloc(sizeof(*set));

	set->config = *config;
	arena_init(&set->arena, 16384);
	return set;
}

void
group_set_config(GroupSet *set, const GroupConfig *config)
{
	set->config = *config;
}

void
group_set_free(GroupSet *set)
{
	if (set == NULL)
		return;
	while (set->first != NULL)
		group_drop(set->first);
	id_table_free(&set->groups);
	id_table_free(&set->members);
	id_table_free(&set->instances);
	deadline_heap_free(&set->deadlines);
	arena_free(&set->arena);
	free(set->actions);
	free(set);
}

/* ---- groups ---- */

Group *
group_find(const GroupSet *set, WStr id)
{
	for (IdNode *n = id_table_first(&set->groups, group_hash(id.s, id.len)); n != NULL; n = id_table_next(n))
	{
		Group *g = CONTAINER_OF(n, Group, by_id);

		if (wstr_eq(g->id, id))
			return g;
	}
	return NULL;
}

Group *
group_make(GroupSet *set, WStr id)
{
	Group *g = group_alloc(sizeof(*g));

	g->set = set;
	g->id = group_strdup(id);
	g->slot = group_slot(id);
	g->state = GROUP_EMPTY;
	g->previous = GROUP_DEAD;
	g->protocol_type = WSTR_NULL;
	g->protocol_name = WSTR_NULL;
	g->save_serial = (uint64_t) ++set->made << 32;
	deadline_init(&g->join_deadline, DEADLINE_JOIN);
	deadline_init(&g->sync_deadline, DEADLINE_SYNC);
	deadline_init(&g->save_deadline, DEADLINE_SAVE);
	id_table_add(&set->groups, &g->by_id, group_hash(id.s, id.len));
	g->prev = set->last;
	if (set->last != NULL)
		set->last->next = g;
	else
		set->first = g;
	set->last = g;
	set->group_count++;
	return g;
}

void
group_drop(Group *g)
{
	GroupSet *set = g->set;

	while (g->members.first != NULL)
		member_remove(g->members.first);
	while (g->pending.first != NULL)
		member_remove(g->pending.first);
	while (g->leave_waits != NULL)
	{
		LeaveWait *w = g->leave_waits;

		g->leave_waits = w->next;
		free(w);
	}
	deadline_clear(&set->deadlines, &g->join_deadline);
	deadline_clear(&set->deadlines, &g->sync_deadline);
	deadline_clear(&set->deadlines, &g->save_deadline);
	id_table_remove(&set->groups, &g->by_id);
	*(g->prev != NULL ? &g->prev->next : &set->first) = g->next;
	*(g->next != NULL ? &g->next->prev : &set->last) = g->prev;
	set->group_count--;
	free(g->protocols);
	free(g->cause);
	free((char *) g->protocol_type.s);
	free((char *) g->protocol_name.s);
	free((char *) g->id.s);
	free(g);
}

/* A client that asked for a member id and went away leaves nothing behind. */
void
group_forget_if_nothing(Group *g)
{
	if (g->state == GROUP_EMPTY && !g->stored && !g->save_out && g->pending.count == 0 &&
		g->leave_waits == NULL)
		group_drop(g);
}

void
group_set_state(Group *g, GroupState state)
{
	g->previous = g->state;
	g->state = state;
	actions_add(g->set, GROUP_NOTE_STATE, g->id)->state = state;
}

/* ---- slots ---- */

int16_t
group_slot_check(const GroupSet *set, WStr group_id)
{
	if (!group_text_ok(group_id, GROUP_MAX_ID))
		return KERR_INVALID_GROUP_ID;
	switch (set->slot_state[group_slot(group_id)])
	{
		case SLOT_OURS:
			return KERR_NONE;
		case SLOT_LOADING:
			return KERR_COORDINATOR_LOAD_IN_PROGRESS;
		default:
			return KERR_NOT_COORDINATOR;
	}
}

void
group_slot_loading(GroupSet *set, int32_t slot)
{
	group_slot_lost(set, slot);
	set->slot_state[slot] = SLOT_LOADING;
}

/* Whoever waits for an answer of this group gets `error`. */
static void
answer_all_parked(Group *g, int16_t error)
{
	for (Member *m = g->members.first; m != NULL; m = m->next)
	{
		uint64_t join = member_take_join(m);

		if (join != 0)
			answer_join_error(g->set, join, g->id, m->id, error);
		if (m->sync_request != 0)
			answer_sync_error(g->set, m->sync_request, g->id, error);
		m->sync_request = 0;
	}
	for (LeaveWait *w = g->leave_waits; w != NULL; w = w->next)
		answer_leave(g->set, w->request, g->id, error);
}

void
group_slot_lost(GroupSet *set, int32_t slot)
{
	Group *next;

	actions_begin(set);
	set->slot_state[slot] = SLOT_NOT_OURS;
	for (Group *g = set->first; g != NULL; g = next)
	{
		next = g->next;
		if (g->slot != slot)
			continue;
		answer_all_parked(g, KERR_NOT_COORDINATOR);
		group_drop(g);
	}
}

static bool
row_makes_sense(const GroupRow *row)
{
	bool has_leader = false;

	if (!group_text_ok(row->group_id, GROUP_MAX_ID) || row->generation < 0)
		return false;
	if (row->member_count == 0)
		return true;
	if (row->protocol_type.len < 0 || row->protocol_name.len < 0)
		return false;
	for (int32_t i = 0; i < row->member_count; i++)
	{
		const GroupMemberRow *m = &row->members[i];
		bool has_protocol = false;

		if (m->member_id.len <= 0)
			return false;
		has_leader |= wstr_eq(m->member_id, row->leader);
		for (int32_t k = 0; k < m->protocol_count; k++)
			has_protocol |= wstr_eq(m->protocols[k].name, row->protocol_name);
		if (!has_protocol)
			return false;
	}
	return has_leader;
}

bool
group_load(GroupSet *set, int64_t now, const GroupRow *row)
{
	Group *g;

	if (!row_makes_sense(row) || group_find(set, row->group_id) != NULL)
		return false;
	g = group_make(set, row->group_id);
	g->generation = row->generation;
	g->saved_generation = row->generation;
	g->stored = true;
	g->protocol_type = group_strdup(row->protocol_type);
	g->protocol_name = row->member_count > 0 ? group_strdup(row->protocol_name) : WSTR_NULL;
	for (int32_t i = 0; i < row->member_count; i++)
	{
		Member *m = member_load(g, &row->members[i]);

		if (m == NULL)
		{
			group_drop(g);
			return false;
		}
		if (wstr_eq(m->id, row->leader))
			g->leader = m;
		member_keep_alive(m, now);
	}
	g->state = g->members.count > 0 ? GROUP_STABLE : GROUP_EMPTY;
	g->generation_fresh = row->fenced && g->members.count > 0;
	g->settled_members = g->members.count;
	return true;
}

void
group_slot_ready(GroupSet *set, int64_t now, int32_t slot)
{
	actions_begin(set);
	set->slot_state[slot] = SLOT_OURS;
	for (Group *g = set->first; g != NULL; g = g->next)
	{
		if (g->slot != slot)
			continue;
		/* Since the slot was given to us nobody could send a heartbeat. */
		for (Member *m = g->members.first; m != NULL; m = m->next)
			member_keep_alive(m, now);
		if (g->members.count > set->config.max_size)
			rebalance_prepare(g, now, &(Why){"group is above group.max.size", WSTR_NULL, NULL});
		else if (g->generation_fresh)
			fence_to(g, now, g->generation, WSTR_NULL);
	}
}

/* ---- time ---- */

/* The control plane is back: what came meanwhile gets its time anew, what was put off begins. */
static void
release_held(Group *g, int64_t now)
{
	GroupSet *set = g->set;

	for (Member *m = g->members.first; m != NULL; m = m->next)
	{
		if (m->expiry_held)
			member_keep_alive(m, now);
	}
	for (Member *m = g->pending.first; m != NULL; m = m->next)
	{
		if (m->expiry_held)
			member_keep_alive(m, now);
	}
	if (g->sync_held)
		deadline_set(&set->deadlines, &g->sync_deadline, now + rebalance_timeout_ms(g));
	g->sync_held = false;
	if (g->rebalance_held)
	{
		g->rebalance_held = false;
		if (g->state == GROUP_STABLE)
			rebalance_prepare(g, now, &(Why){"member left", WSTR_NULL, NULL});
	}
}

void
group_control_plane(GroupSet *set, int64_t now, bool available)
{
	actions_begin(set);
	if (set->away == !available)
		return;
	set->away = !available;
	if (!available)
		return;
	for (Group *g = set->first; g != NULL; g = g->next)
		release_held(g, now);
}

static void
on_session_deadline(Member *m, int64_t now)
{
	Group *g = m->group;
	char what[96];
	Why why = {what, WSTR_NULL, m};

	if (g->set->away)
	{
		m->expiry_held = true;
		return;
	}
	if (m->pending)
	{
		member_remove(m);
		rebalance_maybe_complete(g, now);
		group_forget_if_nothing(g);
		return;
	}
	/* A parked request is a sign of life, but for the first one: it may be that of a client that went away. */
	if (!m->is_new && (m->join_request != 0 || m->sync_request != 0))
		return;
	snprintf(what, sizeof(what), "member left: session timed out after %d s", m->session_timeout_ms / 1000);
	rebalance_note_cause(g, now, &why);
	why.who = NULL;
	member_dismiss(m);
	rebalance_after_removal(g, now, &why);
}

int64_t
group_next_deadline(const GroupSet *set)
{
	return deadline_heap_next(&set->deadlines);
}

void
group_on_time(GroupSet *set, int64_t now)
{
	Deadline *d;

	actions_begin(set);
	while ((d = deadline_heap_pop(&set->deadlines, now)) != NULL)
	{
		switch (d->kind)
		{
			case DEADLINE_SESSION:
				on_session_deadline(CONTAINER_OF(d, Member, session), now);
				break;
			case DEADLINE_JOIN:
				rebalance_on_join_deadline(CONTAINER_OF(d, Group, join_deadline), now);
				break;
			case DEADLINE_SYNC:
				rebalance_on_sync_deadline(CONTAINER_OF(d, Group, sync_deadline), now);
				break;
			case DEADLINE_SAVE:
				save_on_deadline(CONTAINER_OF(d, Group, save_deadline), now);
				break;
		}
	}
}
