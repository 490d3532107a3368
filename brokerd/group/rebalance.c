/*
 * From one generation to the next.
 *
 *     prepare          members are told to rejoin (their heartbeats get REBALANCE_IN_PROGRESS)
 *     complete_join    all did, or the time is over: the generation's number, protocol and leader; the parked
 *                      JoinGroups are answered
 *     (sync.c)         the leader's assignment comes, is saved, and goes to everybody
 *
 * The first rebalance of an empty group waits group.initial.rebalance.delay.ms, again for as long as others
 * join meanwhile, but no longer than the rebalance timeout in all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/group/internal.h"

/* A group of static members that are all away is looked at again no more often than this. */
#define LEAST_JOIN_PHASE_MS 100

int32_t
rebalance_timeout_ms(const Group *g)
{
	int32_t most = 0;

	for (const Member *m = g->members.first; m != NULL; m = m->next)
	{
		if (m->rebalance_timeout_ms > most)
			most = m->rebalance_timeout_ms;
	}
	return most;
}

static void
set_join_deadline(Group *g, int64_t now)
{
	int32_t wait = rebalance_timeout_ms(g);

	deadline_set(&g->set->deadlines, &g->join_deadline,
				 now + (wait > LEAST_JOIN_PHASE_MS ? wait : LEAST_JOIN_PHASE_MS));
}

static bool
all_joined(const Group *g)
{
	return g->members.count == g->awaiting_join && g->pending.count == 0;
}

/* Bytes of `s` that fit `room`, cut between characters. */
static int
fitting(WStr s, int room)
{
	int len = s.len < 0 ? 0 : s.len;

	if (len <= room)
		return len;
	len = room;
	while (len > 0 && ((uint8_t) s.s[len] & 0xc0) == 0x80)
		len--;
	return len;
}

void
rebalance_note_cause(Group *g, int64_t now, const Why *why)
{
	Cause *c = g->cause;
	int used;

	if (c == NULL)
		c = g->cause = group_alloc(sizeof(*c));
	if (c->present)
		return;
	c->present = true;
	c->since = now;
	c->members_before = g->settled_members;
	used = snprintf(c->reason, sizeof(c->reason), "%s", why->what);
	if (group_text_ok(why->detail, INT32_MAX) && why->detail.len > 0)
	{
		int room = (int) sizeof(c->reason) - used - 3;

		snprintf(c->reason + used, sizeof(c->reason) - (size_t) used, ": %.*s", fitting(why->detail, room),
				 why->detail.s);
	}
	c->member[0] = '\0';
	if (why->who != NULL)
	{
		const Member *m = why->who;
		WStr name = m->client_id.len > 0 ? m->client_id : m->id;
		WStr host = m->client_host;

		/* Kafka's clients are shown a host as Java prints it, with a slash before the address. */
		if (host.len > 0 && host.s[0] == '/')
			host = (WStr){host.s + 1, host.len - 1};

		snprintf(c->member, sizeof(c->member), "%.*s (%.*s)", fitting(name, 64), name.s, fitting(host, 56),
				 host.s);
	}
}

/* ---- the end of the join phase ---- */

/* JoinGroup's answer for a member of the current generation, from `member_take_join`. */
void
answer_joined(Group *g, Member *m, bool with_members)
{
	GroupSet *set = g->set;
	GroupAction *a;
	GroupJoinedMember *list = NULL;
	int32_t n = 0;
	uint64_t request = member_take_join(m);

	if (request == 0)
		return;
	if (with_members)
	{
		list = actions_alloc(set, (size_t) g->members.count * sizeof(*list));
		for (const Member *o = g->members.first; o != NULL; o = o->next)
		{
			list[n].member_id = actions_str(set, o->id);
			list[n].instance_id = actions_str(set, o->instance_id);
			list[n].metadata = actions_bytes(set, member_metadata(o, g->protocol_name));
			n++;
		}
	}
	a = actions_add(set, GROUP_ANSWER_JOIN, g->id);
	a->request = request;
	a->u.join.generation = g->generation;
	a->u.join.protocol_type = actions_str(set, g->protocol_type);
	a->u.join.protocol_name = actions_str(set, g->protocol_name);
	a->u.join.leader = actions_str(set, g->leader == NULL ? WSTR_LIT("") : g->leader->id);
	a->u.join.member_id = actions_str(set, m->id);
	a->u.join.members = list;
	a->u.join.member_count = n;
}

static void
drop_dynamic_not_joined(Group *g, int64_t now)
{
	Member *next;

	for (Member *m = g->members.first; m != NULL; m = next)
	{
		next = m->next;
		if (m->join_request != 0 || m->instance_id.len >= 0)
			continue;
		rebalance_note_cause(g, now, &(Why){"member left: did not rejoin in time", WSTR_NULL, m});
		member_remove(m);
	}
}

/* The leader stays if it is here; else the earliest who is. */
static bool
elect_leader(Group *g)
{
	if (g->leader != NULL && g->leader->join_request != 0)
		return true;
	for (Member *m = g->members.first; m != NULL; m = m->next)
	{
		if (m->join_request != 0)
		{
			g->leader = m;
			return true;
		}
	}
	return false;
}

static void
set_protocol(Group *g, WStr name)
{
	WStr copy = group_strdup(name);

	free((char *) g->protocol_name.s);
	g->protocol_name = copy;
}

static void
next_generation(Group *g)
{
	/* After the largest comes 0 again: what counts is that it is another one. */
	if (!g->generation_fresh)
		g->generation = g->generation == INT32_MAX ? 0 : g->generation + 1;
	g->generation_fresh = false;
	g->leader_synced = false;
	g->new_member_added = false;
}

static void
complete_join(Group *g, int64_t now)
{
	deadline_clear(&g->set->deadlines, &g->join_deadline);
	drop_dynamic_not_joined(g, now);
	if (!elect_leader(g) && g->members.count > 0)
	{
		/* Only static members that are away: until one comes or their sessions end. */
		set_join_deadline(g, now);
		return;
	}
	next_generation(g);
	if (g->members.count == 0)
	{
		set_protocol(g, WSTR_NULL);
		g->leader = NULL;
		group_set_state(g, GROUP_EMPTY);
		g->settled_members = 0;
		(void) save_begin(g, now);
		return;
	}
	set_protocol(g, protocol_select(g));
	group_set_state(g, GROUP_COMPLETING_REBALANCE);
	for (Member *m = g->members.first; m != NULL; m = m->next)
	{
		answer_joined(g, m, m == g->leader);
		member_keep_alive(m, now);
		m->is_new = false;
		member_set_pending_sync(m, true);
	}
	deadline_set(&g->set->deadlines, &g->sync_deadline, now + rebalance_timeout_ms(g));
}

void
rebalance_maybe_complete(Group *g, int64_t now)
{
	if (g->state == GROUP_PREPARING_REBALANCE && g->previous != GROUP_EMPTY && all_joined(g))
		complete_join(g, now);
}

/* ---- the beginning ---- */

void
rebalance_prepare(Group *g, int64_t now, const Why *why)
{
	GroupSet *set = g->set;
	bool initial = g->state == GROUP_EMPTY;

	rebalance_note_cause(g, now, why);
	if (g->state == GROUP_COMPLETING_REBALANCE)
		sync_reset(g, now, KERR_REBALANCE_IN_PROGRESS);
	for (Member *m = g->members.first; m != NULL; m = m->next)
	{
		member_set_pending_sync(m, false);
		m->replace_serial = 0; /* its parked JoinGroup counts for the new generation */
	}
	deadline_clear(&set->deadlines, &g->sync_deadline);
	g->sync_held = false;
	g->rebalance_held = false;
	g->new_member_added = false;
	group_set_state(g, GROUP_PREPARING_REBALANCE);
	if (initial)
	{
		int32_t delay = set->config.initial_rebalance_delay_ms;
		int32_t whole = rebalance_timeout_ms(g);

		g->initial_delay_ms = delay;
		g->initial_remaining_ms = whole > delay ? whole - delay : 0;
		deadline_set(&set->deadlines, &g->join_deadline, now + delay);
	}
	else if (all_joined(g))
		complete_join(g, now);
	else
		set_join_deadline(g, now);
}

void
rebalance_prepare_or_complete(Group *g, int64_t now, const Why *why)
{
	if (g->state == GROUP_PREPARING_REBALANCE)
	{
		rebalance_note_cause(g, now, why);
		rebalance_maybe_complete(g, now);
	}
	else
		rebalance_prepare(g, now, why);
}

/* A member has gone: the others share what it had, once PostgreSQL can keep the result. */
void
rebalance_after_removal(Group *g, int64_t now, const Why *why)
{
	if (g->state == GROUP_STABLE && g->set->away)
	{
		rebalance_note_cause(g, now, why);
		g->rebalance_held = true;
	}
	else if (g->state != GROUP_EMPTY)
		rebalance_prepare_or_complete(g, now, why);
}

/* ---- time ---- */

void
rebalance_on_join_deadline(Group *g, int64_t now)
{
	if (g->state != GROUP_PREPARING_REBALANCE)
		return;
	if (g->previous == GROUP_EMPTY && g->new_member_added && g->initial_remaining_ms > 0)
	{
		int32_t most = g->set->config.initial_rebalance_delay_ms;
		int32_t delay = most < g->initial_remaining_ms ? most : g->initial_remaining_ms;

		g->new_member_added = false;
		g->initial_remaining_ms -= g->initial_delay_ms;
		if (g->initial_remaining_ms < 0)
			g->initial_remaining_ms = 0;
		g->initial_delay_ms = delay;
		deadline_set(&g->set->deadlines, &g->join_deadline, now + delay);
		return;
	}
	complete_join(g, now);
}

/* Who got an answer to JoinGroup and never sent SyncGroup is not there any more. */
void
rebalance_on_sync_deadline(Group *g, int64_t now)
{
	Member *next;

	if ((g->state != GROUP_COMPLETING_REBALANCE && g->state != GROUP_STABLE) || g->pending_sync == 0)
		return;
	if (g->set->away)
	{
		g->sync_held = true;
		return;
	}
	for (Member *m = g->members.first; m != NULL; m = next)
	{
		next = m->next;
		if (!m->pending_sync)
			continue;
		rebalance_note_cause(g, now, &(Why){"member left: did not sync in time", WSTR_NULL, m});
		member_dismiss(m);
	}
	rebalance_prepare(g, now, &(Why){"member left: did not sync in time", WSTR_NULL, NULL});
}
