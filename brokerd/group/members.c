/* Who is in a group: adding, finding, replacing and removing members, and the two lists they are on. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/group/internal.h"

#define CONTAINER_OF(ptr, type, member) ((type *) (void *) ((char *) (ptr) -offsetof(type, member)))

/* Ids are unique in a group only, so the group is part of the key. */
static uint32_t
key_hash(const Group *g, WStr id)
{
	return group_hash(id.s, id.len) ^ (g->by_id.hash * 2654435761u);
}

static Member *
find_any(const Group *g, WStr id)
{
	if (id.len <= 0)
		return NULL;
	for (IdNode *n = id_table_first(&g->set->members, key_hash(g, id)); n != NULL; n = id_table_next(n))
	{
		Member *m = CONTAINER_OF(n, Member, by_id);

		if (m->group == g && wstr_eq(m->id, id))
			return m;
	}
	return NULL;
}

Member *
member_find(const Group *g, WStr id)
{
	Member *m = find_any(g, id);

	return m != NULL && !m->pending ? m : NULL;
}

Member *
member_find_pending(const Group *g, WStr id)
{
	Member *m = find_any(g, id);

	return m != NULL && m->pending ? m : NULL;
}

Member *
member_find_instance(const Group *g, WStr instance_id)
{
	if (instance_id.len < 0)
		return NULL;
	for (IdNode *n = id_table_first(&g->set->instances, key_hash(g, instance_id)); n != NULL;
		 n = id_table_next(n))
	{
		Member *m = CONTAINER_OF(n, Member, by_instance);

		if (m->group == g && wstr_eq(m->instance_id, instance_id))
			return m;
	}
	return NULL;
}

int16_t
member_validate(const Group *g, WStr id, WStr instance_id, Member **out)
{
	*out = NULL;
	if (instance_id.len >= 0)
	{
		const Member *owner = member_find_instance(g, instance_id);

		if (owner == NULL)
			return KERR_UNKNOWN_MEMBER_ID;
		if (!wstr_eq(owner->id, id))
			return KERR_FENCED_INSTANCE_ID;
	}
	*out = member_find(g, id);
	return *out == NULL ? KERR_UNKNOWN_MEMBER_ID : KERR_NONE;
}

int16_t
member_validate_generation(const Group *g, WStr id, WStr instance_id, int32_t generation, Member **out)
{
	int16_t error = member_validate(g, id, instance_id, out);

	if (error != KERR_NONE)
		return error;
	if (generation == g->generation && !g->generation_fresh)
		return KERR_NONE;
	(*out)->untold = false;
	return KERR_ILLEGAL_GENERATION;
}

/* ---- what a member holds ---- */

/* All four strings in one allocation, NUL-terminated each; the old one is freed. */
static void
set_strings(Member *m, WStr id, WStr instance_id, WStr client_id, WStr client_host)
{
	WStr in[4] = {id, instance_id, client_id.len < 0 ? WSTR_LIT("") : client_id,
				  client_host.len < 0 ? WSTR_LIT("") : client_host};
	WStr *out[4] = {&m->id, &m->instance_id, &m->client_id, &m->client_host};
	char *old = (char *) m->id.s;
	size_t size = 0;
	char *p;

	for (int i = 0; i < 4; i++)
		size += in[i].len < 0 ? 0 : (size_t) in[i].len + 1;
	p = group_alloc(size);
	for (int i = 0; i < 4; i++)
	{
		*out[i] = in[i].len < 0 ? WSTR_NULL : (WStr){p, in[i].len};
		if (in[i].len < 0)
			continue;
		if (in[i].len > 0)
			memcpy(p, in[i].s, (size_t) in[i].len);
		p += in[i].len + 1;
	}
	free(old);
}

static bool
named_before(const GroupProtocol *protocols, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
	{
		if (wstr_eq(protocols[i].name, protocols[n].name))
			return true;
	}
	return false;
}

/* A name given twice counts once, the first time. */
static void
set_protocols(Member *m, const GroupProtocol *in, int32_t count)
{
	size_t size = (size_t) count * sizeof(*in);
	GroupProtocol *out;
	char *p;

	for (int32_t i = 0; i < count; i++)
		size += (size_t) in[i].name.len + (size_t) (in[i].metadata.len > 0 ? in[i].metadata.len : 0);
	out = group_alloc(size > 0 ? size : 1);
	p = (char *) (out + count);
	free(m->protocols);
	m->protocols = out;
	m->protocol_count = 0;
	for (int32_t i = 0; i < count; i++)
	{
		GroupProtocol *o = &out[m->protocol_count];
		int32_t bytes = in[i].metadata.len > 0 ? in[i].metadata.len : 0;

		if (named_before(in, i))
			continue;
		o->name = (WStr){p, in[i].name.len};
		if (in[i].name.len > 0)
			memcpy(p, in[i].name.s, (size_t) in[i].name.len);
		p += in[i].name.len;
		o->metadata = (WBytes){(const uint8_t *) p, bytes};
		if (bytes > 0)
			memcpy(p, in[i].metadata.p, (size_t) bytes);
		p += bytes;
		m->protocol_count++;
	}
}

void
member_set_assignment(Member *m, WBytes assignment)
{
	uint8_t *copy = NULL;

	if (assignment.len > 0)
	{
		copy = group_alloc((size_t) assignment.len);
		memcpy(copy, assignment.p, (size_t) assignment.len);
	}
	free((uint8_t *) m->assignment.p);
	m->assignment = (WBytes){copy, assignment.len > 0 ? assignment.len : 0};
}

WBytes
member_metadata(const Member *m, WStr protocol)
{
	for (int32_t i = 0; i < m->protocol_count; i++)
	{
		if (wstr_eq(m->protocols[i].name, protocol))
			return m->protocols[i].metadata;
	}
	return WBYTES_NULL;
}

/* ---- lists ---- */

static void
list_add(MemberList *list, Member *m)
{
	m->next = NULL;
	m->prev = list->last;
	*(list->last != NULL ? &list->last->next : &list->first) = m;
	list->last = m;
	list->count++;
}

static void
list_remove(MemberList *list, Member *m)
{
	*(m->prev != NULL ? &m->prev->next : &list->first) = m->next;
	*(m->next != NULL ? &m->next->prev : &list->last) = m->prev;
	m->prev = m->next = NULL;
	list->count--;
}

static void
index_in(Member *m)
{
	id_table_add(&m->group->set->members, &m->by_id, key_hash(m->group, m->id));
	if (m->instance_id.len >= 0)
		id_table_add(&m->group->set->instances, &m->by_instance, key_hash(m->group, m->instance_id));
}

static void
index_out(Member *m)
{
	id_table_remove(&m->group->set->members, &m->by_id);
	if (m->instance_id.len >= 0)
		id_table_remove(&m->group->set->instances, &m->by_instance);
}

static Member *
make(Group *g)
{
	Member *m = group_alloc(sizeof(*m));

	m->group = g;
	deadline_init(&m->session, DEADLINE_SESSION);
	g->set->member_count++;
	return m;
}

/* ---- coming ---- */

/*
 * Kafka's form: the client id or the instance id, and something random.  A client id may be 32 KB long; the
 * member's has to fit a key of PostgreSQL, so it gets the first 200 bytes, cut between characters.
 */
WStr
member_new_id(GroupSet *set, const GroupJoin *in)
{
	static const char hex[] = "0123456789abcdef";
	WStr head = in->instance_id.len >= 0 ? in->instance_id : in->client_id;
	int32_t len = head.len < 0 ? 0 : head.len;
	char *s;
	char *p;

	if (in->instance_id.len < 0 && len > 200)
	{
		len = 200;
		while (len > 0 && ((uint8_t) head.s[len] & 0xc0) == 0x80)
			len--;
	}
	s = p = actions_alloc(set, (size_t) len + 38);
	if (len > 0)
		memcpy(p, head.s, (size_t) len);
	for (int32_t i = 0; i < len; i++)
	{
		if (p[i] == 0)
			p[i] = '?';
	}
	p += len;
	for (int i = 0; i < 16; i++)
	{
		if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10)
			*p++ = '-';
		*p++ = hex[in->fresh_id.b[i] >> 4];
		*p++ = hex[in->fresh_id.b[i] & 15];
	}
	return (WStr){s, (int32_t) (p - s)};
}

Member *
member_add_pending(Group *g, WStr id, const GroupJoin *in)
{
	Member *m = make(g);

	m->pending = true;
	m->session_timeout_ms = in->session_timeout_ms;
	set_strings(m, id, WSTR_NULL, WSTR_LIT(""), WSTR_LIT(""));
	list_add(&g->pending, m);
	index_in(m);
	return m;
}

static void
join_group(Group *g, Member *m)
{
	list_add(&g->members, m);
	index_in(m);
	protocols_count_in(g, m);
	if (g->leader == NULL)
		g->leader = m;
}

Member *
member_add(Group *g, int64_t now, WStr id, const GroupJoin *in)
{
	Member *pending = member_find_pending(g, id);
	Member *m = make(g);

	m->joined_ms = now;
	m->rebalance_timeout_ms = in->rebalance_timeout_ms;
	m->session_timeout_ms = in->session_timeout_ms;
	set_strings(m, id, in->instance_id, in->client_id, in->client_host);
	set_protocols(m, in->protocols, in->protocol_count);
	if (pending != NULL)
		member_remove(pending);
	if (g->members.count == 0)
	{
		free((char *) g->protocol_type.s);
		g->protocol_type = group_strdup(in->protocol_type);
	}
	join_group(g, m);
	return m;
}

Member *
member_load(Group *g, const GroupMemberRow *row)
{
	Member *m;

	if (member_find(g, row->member_id) != NULL || member_find_instance(g, row->instance_id) != NULL)
		return NULL;
	m = make(g);
	m->rebalance_timeout_ms = row->rebalance_timeout_ms;
	m->session_timeout_ms = row->session_timeout_ms;
	m->joined_ms = row->joined_ms;
	set_strings(m, row->member_id, row->instance_id, row->client_id, row->client_host);
	set_protocols(m, row->protocols, row->protocol_count);
	member_set_assignment(m, row->assignment);
	join_group(g, m);
	return m;
}

void
member_update(Member *m, const GroupJoin *in)
{
	protocols_count_out(m->group, m);
	set_protocols(m, in->protocols, in->protocol_count);
	protocols_count_in(m->group, m);
	m->rebalance_timeout_ms = in->rebalance_timeout_ms;
	m->session_timeout_ms = in->session_timeout_ms;
}

/* The same place in the group, its assignment kept, for another process. */
void
member_replace_id(Member *m, WStr id, const GroupJoin *in)
{
	Group *g = m->group;
	WStr instance = group_strdup(m->instance_id);

	if (member_find_pending(g, id) != NULL)
		member_remove(member_find_pending(g, id));
	index_out(m);
	set_strings(m, id, instance, in->client_id, in->client_host);
	free((char *) instance.s);
	index_in(m);
}

/* ---- going ---- */

void
member_remove(Member *m)
{
	Group *g = m->group;

	(void) member_take_join(m);
	member_set_pending_sync(m, false);
	deadline_clear(&g->set->deadlines, &m->session);
	index_out(m);
	if (m->pending)
		list_remove(&g->pending, m);
	else
	{
		protocols_count_out(g, m);
		list_remove(&g->members, m);
	}
	if (g->leader == m)
		g->leader = g->members.first;
	g->set->member_count--;
	free(m->protocols);
	free((uint8_t *) m->assignment.p);
	free((char *) m->id.s);
	free(m->replaced_leader);
	free(m);
}

void
member_dismiss(Member *m)
{
	Group *g = m->group;

	if (m->join_request != 0)
		answer_join_error(g->set, member_take_join(m), g->id, WSTR_LIT(""), KERR_UNKNOWN_MEMBER_ID);
	if (m->sync_request != 0)
		answer_sync_error(g->set, m->sync_request, g->id, KERR_UNKNOWN_MEMBER_ID);
	member_remove(m);
}

/* ---- states of a member ---- */

/*
 * A second JoinGroup of a member whose first one is parked takes its place.  The first one's connection is
 * gone, or two processes use one member id; either way it is answered.
 */
void
member_park_join(GroupSet *set, Member *m, const GroupJoin *in)
{
	uint64_t before = member_take_join(m);

	if (before != 0)
		answer_join_error(set, before, m->group->id, m->id, KERR_REBALANCE_IN_PROGRESS);
	m->join_request = in->request;
	m->join_version = in->version;
	m->group->awaiting_join++;
}

uint64_t
member_take_join(Member *m)
{
	uint64_t request = m->join_request;

	if (request != 0)
		m->group->awaiting_join--;
	m->join_request = 0;
	m->replace_serial = 0;
	free(m->replaced_leader);
	m->replaced_leader = NULL;
	return request;
}

void
member_keep_alive(Member *m, int64_t now)
{
	m->expiry_held = false;
	deadline_set(&m->group->set->deadlines, &m->session, now + m->session_timeout_ms);
}

void
member_set_pending_sync(Member *m, bool pending_sync)
{
	m->group->pending_sync += (int) pending_sync - (int) m->pending_sync;
	m->pending_sync = pending_sync;
}
