/* Heartbeat (key 12), v0-4.  v3: static members. */
#include "brokerd/api/groups.h"
#include "brokerd/api/handlers.h"

void
heartbeat_handle(ApiCall *call)
{
	Groups *groups = call->broker->groups;
	const HeartbeatRequest *request = call->body;
	HeartbeatResponse response;

	WIRE_INIT(HeartbeatResponse, &response);
	response.error_code =
		group_heartbeat(groups_set(groups), groups_now(), request->group_id, request->member_id,
						request->group_instance_id, request->generation_id);
	api_reply(call, &response);
}
