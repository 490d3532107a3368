/*
 * group_protocol.c: subscriptions and assignments as members write them, and the leader's work.  What other members
 * wrote is somebody else's bytes: whatever cannot be read is a member that had nothing.
 */
#include "client/assign.h"
#include "client/consumer.h"

#include <stdlib.h>

#include "wire/bytes.h"

#define SUBSCRIPTION_VERSION 3
#define ASSIGNMENT_VERSION   0 /* every client reads it, and later ones add nothing */

/* The next word of a list separated by commas; false at its end. */
static bool
next_word(const char **at, WStr *word)
{
	*at += strspn(*at, ", ");
	word->s = *at;
	word->len = (int32_t) strcspn(*at, ", ");
	*at += word->len;
	return word->len > 0;
}

int
group_check_assignors(const char *list, bool *cooperative, pgb_error *err)
{
	const Assignor *a;
	WStr word;

	if (list[strspn(list, ", ")] == '\0')
		return error_set(err, PGB_INVALID, false, "partition.assignment.strategy names no assignor");
	/* Only where all of them can. */
	for (*cooperative = true; next_word(&list, &word); *cooperative = *cooperative && a->cooperative)
		if ((a = assign_find(word)) == NULL)
			return error_set(err, PGB_INVALID, false,
							 "partition.assignment.strategy knows range, roundrobin, sticky, "
							 "cooperative-sticky, not \"%.*s\"",
							 (int) word.len, word.s);
	return 0;
}

/* ---- what we say ---- */

static WBytes
subscription(pgb_consumer *c, WStr assignor)
{
	ConsumerProtocolSubscription sub;
	StickyAssignorUserData had;
	Arena *a = &c->c.arena;
	uint8_t generation[4];
	WBytes packed;

	WIRE_INIT(ConsumerProtocolSubscription, &sub);
	WIRE_INIT(StickyAssignorUserData, &had);
	sub.topics = arena_alloc(a, sizeof(WStr) * (HASH_COUNT(c->c.topics) + 1));
	for (const Topic *t = c->c.topics; sub.topics != NULL && t != NULL; t = t->hh.next)
		if (t->subscribed)
			sub.topics[sub.n_topics++] = wstr(t->name);
	for (const FromPart *p = c->parts; p != NULL; p = p->hh.next)
		(void) wire_by_topic_add(&ConsumerProtocolSubscription_desc, a, &sub, wstr(p->ask.topic->name),
								 p->ask.index);
	for (size_t i = 0; i < c->last_given.n; i++)
		(void) wire_by_topic_add(&StickyAssignorUserData_desc, a, &had, wstr(c->last_given.at[i].topic),
								 c->last_given.at[i].partition);
	sub.generation_id = c->generation;
	had.generation = c->sticky_generation;
	put_be32(generation, (uint32_t) c->sticky_generation);
	if (wstr_eq(assignor, WSTR_LIT("cooperative-sticky")))
		sub.user_data = (WBytes){generation, sizeof(generation)};
	else if (wstr_eq(assignor, WSTR_LIT("sticky")) && c->sticky_generation >= 0)
	{
		/* Nothing says its version. */
		packed = wire_pack(&StickyAssignorUserData_desc, 1, a, &had);
		sub.user_data = packed.len < 2 ? packed : (WBytes){packed.p + 2, packed.len - 2};
	}
	return wire_pack(&ConsumerProtocolSubscription_desc, SUBSCRIPTION_VERSION, a, &sub);
}

int
group_put_protocols(pgb_consumer *c, JoinGroupRequest *req)
{
	const char *at = c->c.conf.assignors;
	WStr word;

	req->protocols = WIRE_NEW(JoinGroupRequestProtocols, &c->c.arena, (int32_t) strlen(at) / 2 + 1);
	while (req->protocols != NULL && next_word(&at, &word))
	{
		JoinGroupRequestProtocols *p = &req->protocols[req->n_protocols++];

		p->name = word;
		p->metadata = subscription(c, word);
		if (p->metadata.len < 0)
			return -1;
	}
	return req->protocols == NULL ? -1 : 0;
}

/* ---- the leader's work ---- */

bool
group_topics_known(pgb_consumer *c, uint64_t *counts)
{
	bool known = true;

	*counts = 1;
	for (int32_t i = 0; c->subscriptions != NULL && i < c->joined->n_members; i++)
		for (int32_t k = 0; k < c->subscriptions[i].n_topics; k++)
		{
			Topic *t = metadata_topic(&c->c, c->subscriptions[i].topics[k]);

			known = known && (t == NULL || t->unknown_since == 0 || t->code != 0);
			*counts = *counts * 31 + (uint64_t) (t != NULL && t->unknown_since == 0 ? t->n : 0);
		}
	return known;
}

static int
by_name(const Topic *a, const Topic *b)
{
	return assign_compare(wstr(a->name), wstr(b->name));
}

/* Those that somebody subscribes to, by name; group_topics_known made all of them known. */
static bool
gather_topics(pgb_consumer *c, AssignGroup *g, Arena *a)
{
	g->topics = arena_alloc(a, sizeof(*g->topics) * ((size_t) HASH_COUNT(c->c.topics) + 1));
	for (Topic *t = c->c.topics; t != NULL; t = t->hh.next)
		t->place = -1;
	for (int32_t i = 0; i < g->n_members; i++)
		for (int32_t k = 0; k < c->subscriptions[i].n_topics; k++)
		{
			Topic *t = metadata_find(&c->c, c->subscriptions[i].topics[k]);

			if (t == NULL)
				return false;
			t->place = 0;
		}
	HASH_SORT(c->c.topics, by_name);
	for (Topic *t = g->topics == NULL ? NULL : c->c.topics; t != NULL; t = t->hh.next)
	{
		if (t->place < 0)
			continue;
		t->place = g->n_topics++;
		g->topics[t->place] = (AssignTopic){wstr(t->name), t->unknown_since != 0 ? 0 : t->n, g->n_parts};
		g->n_parts += g->topics[t->place].n;
	}
	g->owner = arena_alloc(a, sizeof(int32_t) * ((size_t) g->n_parts + 1));
	return g->topics != NULL && g->owner != NULL;
}

/* What it says it had; a partition that is not there any more is none. */
static bool
gather_owned(pgb_consumer *c, const AssignGroup *g, AssignMember *m, const WireMsg *desc, const void *message)
{
	WireEachPart each = {.m = desc, .message = message}, all = each;
	size_t n = 0;

	while (wire_by_topic_next(&all) != NULL)
		n++;
	m->owned = arena_alloc(&c->c.arena, sizeof(int32_t) * (n + 1));
	while (m->owned != NULL && wire_by_topic_next(&each) != NULL)
	{
		const Topic *t = metadata_find(&c->c, *each.topic);

		if (t != NULL && t->place >= 0 && each.index >= 0 && each.index < g->topics[t->place].n)
			m->owned[m->n_owned++] = g->topics[t->place].first + each.index;
	}
	return m->owned != NULL;
}

static bool
gather_member(pgb_consumer *c, const AssignGroup *g, AssignMember *m, const ConsumerProtocolSubscription *sub)
{
	const WireMsg *sticky = &StickyAssignorUserData_desc;
	Arena *a = &c->c.arena;
	StickyAssignorUserData had;
	WireReader r;

	m->takes = arena_alloc(a, (size_t) g->n_topics + 1);
	for (int32_t i = 0; m->takes != NULL && i < sub->n_topics; i++)
		m->takes[metadata_find(&c->c, sub->topics[i])->place] = true;
	m->sub_generation = m->generation = sub->generation_id;
	if (m->takes != NULL && wstr_eq(c->joined->protocol_name, WSTR_LIT("sticky")))
	{
		/* The oldest form has no generation; what cannot be read is nothing. */
		for (int16_t version = 1; version >= 0; version--)
		{
			wire_reader_init(&r, sub->user_data.p, sub->user_data.len < 0 ? 0 : (size_t) sub->user_data.len);
			if (wire_decode(sticky, version, &r, a, &had) == 0)
				break;
			WIRE_INIT(StickyAssignorUserData, &had);
		}
		m->generation = had.generation;
		return gather_owned(c, g, m, sticky, &had);
	}
	/* Before subscriptions had a generation it stood in the user data. */
	if (sub->generation_id < 0 && sub->user_data.len >= 4)
		m->generation = (int32_t) get_be32(sub->user_data.p);
	return m->takes != NULL && gather_owned(c, g, m, &ConsumerProtocolSubscription_desc, sub);
}

int
group_assign(pgb_consumer *c, SyncGroupRequest *req)
{
	const JoinGroupResponseMembers *members = c->joined->members;
	AssignGroup g = {.n_members = c->joined->n_members};
	ConsumerProtocolAssignment as;
	Arena *a = &c->c.arena;

	g.members = arena_alloc(a, sizeof(*g.members) * ((size_t) g.n_members + 1));
	req->assignments = WIRE_NEW(SyncGroupRequestAssignments, a, g.n_members);
	if (g.members == NULL || req->assignments == NULL || !gather_topics(c, &g, a))
		return -1;
	for (int32_t i = 0; i < g.n_members; i++)
	{
		g.members[i] = (AssignMember){.id = members[i].member_id, .instance = members[i].group_instance_id};
		if (!gather_member(c, &g, &g.members[i], &c->subscriptions[i]))
			return -1;
	}
	if (assign_by_name(c->joined->protocol_name, &g) != 0)
		return -1;
	for (; req->n_assignments < g.n_members; req->n_assignments++)
	{
		SyncGroupRequestAssignments *to = &req->assignments[req->n_assignments];

		to->member_id = members[req->n_assignments].member_id;
		WIRE_INIT(ConsumerProtocolAssignment, &as);
		for (int32_t t = 0; t < g.n_topics; t++)
			for (int32_t k = 0; k < g.topics[t].n; k++)
				if (g.owner[g.topics[t].first + k] == req->n_assignments)
					(void) wire_by_topic_add(&ConsumerProtocolAssignment_desc, a, &as, g.topics[t].name, k);
		to->assignment = wire_pack(&ConsumerProtocolAssignment_desc, ASSIGNMENT_VERSION, a, &as);
		if (to->assignment.len < 0)
			return -1;
	}
	return 0;
}

/* ---- what the leader gave us ---- */

int
group_read_assignment(pgb_consumer *c, WBytes bytes)
{
	ConsumerProtocolAssignment as;
	WireEachPart each = {.m = &ConsumerProtocolAssignment_desc, .message = &as};

	places_clear(&c->next_given);
	if (bytes.len > 0 && wire_unpack(&ConsumerProtocolAssignment_desc, bytes, &c->c.arena, &as) != 0)
		return -1;
	while (bytes.len > 0 && wire_by_topic_next(&each) != NULL)
	{
		const Topic *t = metadata_topic(&c->c, *each.topic);

		if (t != NULL && each.index >= 0 && !places_add(&c->next_given, t->name, each.index, PGB_COMMITTED))
			return -1;
	}
	return 0;
}
