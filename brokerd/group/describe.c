/* What is shown of groups. */
#include "brokerd/group/internal.h"

static WStr
or_empty(WStr s)
{
	return s.len < 0 ? WSTR_LIT("") : s;
}

void
group_list(const GroupSet *set, GroupListFn fn, void *arg)
{
	for (const Group *g = set->first; g != NULL; g = g->next)
	{
		GroupListed listed = {g->id, or_empty(g->protocol_type), g->state};

		if (set->slot_state[g->slot] != 0)
			fn(arg, &listed);
	}
}

void
group_describe(GroupSet *set, WStr group_id, GroupDescription *out)
{
	Group *g;
	GroupDescribedMember *rows;
	bool stable;

	actions_begin(set);
	*out =
		(GroupDescription){.state = GROUP_DEAD, .protocol_type = WSTR_LIT(""), .protocol_name = WSTR_LIT("")};
	g = group_find(set, group_id);
	if (g == NULL)
		return;
	stable = g->state == GROUP_STABLE;
	out->state = g->state;
	out->generation = g->generation;
	out->protocol_type = actions_str(set, or_empty(g->protocol_type));
	if (stable)
		out->protocol_name = actions_str(set, or_empty(g->protocol_name));
	rows = actions_alloc(set, (size_t) g->members.count * sizeof(*rows));
	out->members = rows;
	for (const Member *m = g->members.first; m != NULL; m = m->next)
	{
		rows[out->member_count++] = (GroupDescribedMember){
			.member_id = actions_str(set, m->id),
			.instance_id = actions_str(set, m->instance_id),
			.client_id = actions_str(set, m->client_id),
			.client_host = actions_str(set, m->client_host),
			.metadata = actions_bytes(set, stable ? member_metadata(m, g->protocol_name) : WBYTES_NULL),
			.assignment = actions_bytes(set, m->assignment),
		};
	}
}

/* Without malloc's own overhead. */
static int64_t
member_bytes(const Member *m)
{
	int64_t bytes = (int64_t) sizeof(*m) + m->id.len + m->client_id.len + m->client_host.len +
					m->assignment.len + (m->instance_id.len > 0 ? m->instance_id.len : 0) + 4;

	for (int32_t i = 0; i < m->protocol_count; i++)
		bytes += (int64_t) sizeof(*m->protocols) + m->protocols[i].name.len + m->protocols[i].metadata.len;
	return bytes;
}

void
group_counts(const GroupSet *set, GroupCounts *out)
{
	*out = (GroupCounts){.groups = set->group_count};
	for (const Group *g = set->first; g != NULL; g = g->next)
	{
		out->by_state[g->state]++;
		out->members += g->members.count;
		out->bytes +=
			(int64_t) sizeof(*g) + g->id.len + (int64_t) g->protocol_count * (int64_t) sizeof(ProtocolCount);
		for (const Member *m = g->members.first; m != NULL; m = m->next)
			out->bytes += member_bytes(m);
		for (const Member *m = g->pending.first; m != NULL; m = m->next)
			out->bytes += member_bytes(m);
	}
	out->bytes += (int64_t) (set->groups.size + set->members.size + set->instances.size +
							 (uint32_t) set->deadlines.cap) *
				  (int64_t) sizeof(void *);
}
