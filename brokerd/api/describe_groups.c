/*
 * DescribeGroups (key 15), v0-6.  v3: authorized operations; v4: instance ids; v6: a group that does not exist is an
 * error, before it was one in state Dead.
 */
#include "brokerd/api/common.h"
#include "brokerd/api/groups.h"
#include "brokerd/api/handlers.h"

enum
{
	GROUP_OPERATIONS = 0x0D48 /* read, delete, describe, describe and alter configs */
};

static void
copy_members(ApiCall *call, const GroupDescription *d, DescribeGroupsResponseGroups *out)
{
	out->members = API_NEW(call, DescribeGroupsResponseGroupsMembers, d->member_count);
	out->n_members = d->member_count;
	for (int32_t i = 0; i < d->member_count; i++)
	{
		const GroupDescribedMember *m = &d->members[i];

		out->members[i].member_id = m->member_id;
		out->members[i].group_instance_id = m->instance_id;
		out->members[i].client_id = m->client_id;
		out->members[i].client_host = m->client_host;
		out->members[i].member_metadata = m->metadata;
		out->members[i].member_assignment = m->assignment;
	}
}

/* The description lives until the next one: its bytes are copied. */
static WStr
keep(ApiCall *call, WStr s)
{
	char *copy;

	if (s.len <= 0)
		return s;
	copy = api_alloc(call, (size_t) s.len);
	memcpy(copy, s.s, (size_t) s.len);
	return (WStr){copy, s.len};
}

static WBytes
keep_bytes(ApiCall *call, WBytes b)
{
	WStr s = keep(call, (WStr){(const char *) b.p, b.len});

	return (WBytes){(const uint8_t *) s.s, s.len};
}

static void
describe(ApiCall *call, WStr group_id, bool operations, DescribeGroupsResponseGroups *out)
{
	GroupSet *set = groups_set(call->broker->groups);
	GroupDescription d;

	out->group_id = group_id;
	out->authorized_operations = operations ? GROUP_OPERATIONS : OPERATIONS_NOT_ASKED;
	out->error_code = group_slot_check(set, group_id);
	if (out->error_code != KERR_NONE)
		return;
	group_describe(set, group_id, &d);
	if (d.state == GROUP_DEAD && call->version >= 6)
	{
		out->error_code = KERR_GROUP_ID_NOT_FOUND;
		out->authorized_operations = OPERATIONS_NOT_ASKED;
		out->error_message = api_printf(call, "Group %.*s not found.", group_id.len, group_id.s);
	}
	out->group_state = wstr(group_state_name(d.state));
	out->protocol_type = keep(call, d.protocol_type);
	out->protocol_data = keep(call, d.protocol_name);
	copy_members(call, &d, out);
	for (int32_t i = 0; i < out->n_members; i++)
	{
		DescribeGroupsResponseGroupsMembers *m = &out->members[i];

		m->member_id = keep(call, m->member_id);
		m->group_instance_id = keep(call, m->group_instance_id);
		m->client_id = keep(call, m->client_id);
		m->client_host = keep(call, m->client_host);
		m->member_metadata = keep_bytes(call, m->member_metadata);
		m->member_assignment = keep_bytes(call, m->member_assignment);
	}
}

void
describe_groups_handle(ApiCall *call)
{
	const DescribeGroupsRequest *request = call->body;
	DescribeGroupsResponse response;
	int32_t n = request->n_groups > 0 ? request->n_groups : 0;

	WIRE_INIT(DescribeGroupsResponse, &response);
	response.groups = API_NEW(call, DescribeGroupsResponseGroups, n);
	response.n_groups = n;
	for (int32_t i = 0; i < n; i++)
		describe(call, request->groups[i], request->include_authorized_operations, &response.groups[i]);
	api_reply(call, &response);
}
