/* LeaveGroup (key 13), v0-5.  v3: several members at once, by id or instance id; v5: reason (KIP-800). */
#include "brokerd/api/groups.h"
#include "brokerd/api/handlers.h"

void
leave_group_handle(ApiCall *call)
{
	Groups *groups = call->broker->groups;
	const LeaveGroupRequest *request = call->body;
	GroupsLeave *leave = api_alloc(call, sizeof(*leave));
	int32_t n = call->version < 3 ? 1 : request->n_members > 0 ? request->n_members : 0;

	leave->count = n;
	leave->leavers = api_alloc(call, sizeof(*leave->leavers) * (size_t) n);
	for (int32_t i = 0; i < n; i++)
	{
		if (call->version < 3)
			leave->leavers[i] = (GroupLeaver){request->member_id, WSTR_NULL, WSTR_NULL, 0};
		else
			leave->leavers[i] =
				(GroupLeaver){request->members[i].member_id, request->members[i].group_instance_id,
							  request->members[i].reason, 0};
	}
	call->op = leave;
	call->req->hold = true;
	group_leave(groups_set(groups), groups_now(), groups_park(groups, call), request->group_id,
				leave->leavers, n);
	groups_settle(groups);
}
