/* LeaveGroup, and what an administrator does to a group. */
#include <stdlib.h>

#include "brokerd/group/internal.h"

static void
remove_leaver(Group *g, int64_t now, Member *m, const char *what, WStr detail)
{
	if (!m->pending)
		rebalance_note_cause(g, now, &(Why){what, detail, m});
	member_dismiss(m);
}

/* Whom a leaver means: by instance id alone (an administrator's tool), a pending id, or id and instance id. */
static int16_t
find_leaver(Group *g, const GroupLeaver *leaver, Member **m)
{
	if (leaver->member_id.len <= 0)
	{
		*m = member_find_instance(g, leaver->instance_id);
		return *m == NULL ? KERR_UNKNOWN_MEMBER_ID : KERR_NONE;
	}
	*m = member_find_pending(g, leaver->member_id);
	if (*m != NULL)
		return KERR_NONE;
	return member_validate(g, leaver->member_id, leaver->instance_id, m);
}

static bool
remove_leavers(Group *g, int64_t now, GroupLeaver *leavers, int32_t count)
{
	bool any = false; /* of members: one that leaves before it joined takes nothing from the others */

	for (int32_t i = 0; i < count; i++)
	{
		Member *m;

		leavers[i].error = find_leaver(g, &leavers[i], &m);
		if (leavers[i].error != KERR_NONE)
			continue;
		any |= !m->pending;
		remove_leaver(g, now, m, "member left", leavers[i].reason);
	}
	return any;
}

void
group_leave(GroupSet *set, int64_t now, uint64_t request, WStr group_id, GroupLeaver *leavers, int32_t count)
{
	int16_t error = group_id.len <= 0 ? KERR_INVALID_GROUP_ID : KERR_NONE;
	Group *g = NULL;
	uint64_t before;

	actions_begin(set);
	if (error == KERR_NONE)
		error = group_slot_check(set, group_id);
	if (error == KERR_NONE)
	{
		g = group_find(set, group_id);
		error = g == NULL ? KERR_UNKNOWN_MEMBER_ID : KERR_NONE;
	}
	if (error != KERR_NONE)
	{
		for (int32_t i = 0; i < count; i++)
			leavers[i].error = error;
		answer_leave(set, request, group_id, error);
		return;
	}
	before = g->save_serial + (g->save_again ? 1 : 0);
	if (remove_leavers(g, now, leavers, count))
		rebalance_after_removal(g, now, &(Why){"member left", WSTR_NULL, NULL});
	else
		rebalance_maybe_complete(g, now);

	/* Who was the last is gone in SQL too when it hears so: the group can be deleted or reset then. */
	if (g->state == GROUP_EMPTY && g->save_out && g->save_serial + (g->save_again ? 1 : 0) > before)
	{
		LeaveWait *w = group_alloc(sizeof(*w));

		*w = (LeaveWait){g->leave_waits, request, g->save_serial + (g->save_again ? 1 : 0)};
		g->leave_waits = w;
		save_watch(g, now);
	}
	else
		answer_leave(set, request, g->id, KERR_NONE);
	group_forget_if_nothing(g);
}

int16_t
group_kick(GroupSet *set, int64_t now, WStr group_id, WStr member_id, WStr instance_id, WStr reason)
{
	GroupLeaver leaver = {.member_id = member_id, .instance_id = instance_id};
	int16_t error = group_slot_check(set, group_id);
	Group *g;
	Member *m;

	actions_begin(set);
	if (error != KERR_NONE)
		return error;
	g = group_find(set, group_id);
	if (g == NULL)
		return KERR_GROUP_ID_NOT_FOUND;
	if (member_id.len < 0)
		leaver.member_id = WSTR_LIT("");
	error = find_leaver(g, &leaver, &m);
	if (error != KERR_NONE)
		return error;
	if (m->pending)
	{
		member_remove(m);
		rebalance_maybe_complete(g, now);
	}
	else
	{
		remove_leaver(g, now, m, "by an administrator: member removed", reason);
		rebalance_after_removal(g, now, &(Why){"by an administrator: member removed", reason, NULL});
	}
	group_forget_if_nothing(g);
	return KERR_NONE;
}

/*
 * A member of a fenced generation has positions that must not be committed any more.  ILLEGAL_GENERATION and
 * UNKNOWN_MEMBER_ID make a client drop them; until it was told one of these it is `untold`, and a JoinGroup,
 * which carries no generation, would let it keep them.
 */
static void
tell_parked(Group *g, int64_t now)
{
	Member *next;

	for (Member *m = g->members.first; m != NULL; m = next)
	{
		next = m->next;
		if (m->is_new)
			continue; /* it has no positions yet */
		m->untold = true;
		if (m->join_request == 0)
			continue;
		answer_join_error(g->set, member_take_join(m), g->id, WSTR_LIT(""), KERR_UNKNOWN_MEMBER_ID);
		m->untold = false;
		if (m->instance_id.len < 0)
			member_remove(m);
		else
			member_keep_alive(m, now);
	}
}

/*
 * SQL has `generation`, and nobody is in it: that, or one that is higher than any the members were told, is what
 * their next generation will be called.  Until then they are in none, so nothing they still send is taken.
 */
void
fence_to(Group *g, int64_t now, int32_t generation, WStr reason)
{
	Why why = {"by an administrator", reason, NULL};

	g->saved_generation = generation;
	g->stored = true;
	if (generation > g->generation)
		g->generation = generation;
	else if (!g->generation_fresh && g->state != GROUP_EMPTY)
		g->generation = g->generation == INT32_MAX ? 0 : g->generation + 1;
	g->generation_fresh = g->state != GROUP_EMPTY;
	if (g->state == GROUP_EMPTY)
		return;
	rebalance_note_cause(g, now, &why);
	tell_parked(g, now);
	if (g->state == GROUP_COMPLETING_REBALANCE)
		sync_reset(g, now, KERR_ILLEGAL_GENERATION);
	rebalance_prepare_or_complete(g, now, &why);
}

void
group_fence(GroupSet *set, int64_t now, WStr group_id, int32_t generation, WStr reason)
{
	Group *g;

	actions_begin(set);
	if (group_slot_check(set, group_id) != KERR_NONE)
		return;
	g = group_find(set, group_id);
	if (g != NULL)
		fence_to(g, now, generation, reason);
}

void
group_deleted(GroupSet *set, int64_t now, WStr group_id)
{
	Group *g;

	(void) now;
	actions_begin(set);
	g = group_slot_check(set, group_id) == KERR_NONE ? group_find(set, group_id) : NULL;
	if (g == NULL)
		return;
	g->saved_generation = 0;
	g->stored = g->save_out;
	/* Who waits with an id from us, or has joined meanwhile, goes on in a new group of that name. */
	group_forget_if_nothing(g);
}
