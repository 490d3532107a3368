/* SyncGroup (key 14), v0-5.  v3: static members; v5: protocol type and name have to be given (KIP-559). */
#include "brokerd/api/groups.h"
#include "brokerd/api/handlers.h"

void
sync_group_handle(ApiCall *call)
{
	Groups *groups = call->broker->groups;
	const SyncGroupRequest *request = call->body;
	int32_t n = request->n_assignments > 0 ? request->n_assignments : 0;
	GroupAssignment *assignments = api_alloc(call, sizeof(*assignments) * (size_t) n);
	GroupSync in = {
		.group_id = request->group_id,
		.member_id = request->member_id,
		.instance_id = request->group_instance_id,
		.generation = request->generation_id,
		.protocol_type = request->protocol_type,
		.protocol_name = request->protocol_name,
		.assignments = assignments,
		.assignment_count = n,
	};

	if (call->version >= 5 && (request->protocol_type.len < 0 || request->protocol_name.len < 0))
	{
		SyncGroupResponse response;

		WIRE_INIT(SyncGroupResponse, &response);
		response.error_code = KERR_INCONSISTENT_GROUP_PROTOCOL;
		response.assignment = (WBytes){(const uint8_t *) "", 0};
		api_reply(call, &response);
		return;
	}
	for (int32_t i = 0; i < n; i++)
		assignments[i] =
			(GroupAssignment){request->assignments[i].member_id, request->assignments[i].assignment};
	call->req->hold = true;
	in.request = groups_park(groups, call);
	group_sync(groups_set(groups), groups_now(), &in);
	groups_settle(groups);
}
