/*
 * JoinGroup (key 11), v0-9.  v1: rebalance timeout of its own; v4: an id has to be asked for first (KIP-394);
 * v5: static members; v7: protocol type; v8: reason; v9: skip_assignment (KIP-814).
 */
#include <sys/random.h>

#include "brokerd/api/groups.h"
#include "brokerd/api/handlers.h"

void
join_group_handle(ApiCall *call)
{
	Groups *groups = call->broker->groups;
	const JoinGroupRequest *request = call->body;
	const char *host = call->req->conn != NULL ? conn_peer_host(call->req->conn) : "";
	int32_t n = request->n_protocols > 0 ? request->n_protocols : 0;
	GroupProtocol *protocols = api_alloc(call, sizeof(*protocols) * (size_t) n);
	GroupJoin in = {
		.version = call->version,
		.group_id = request->group_id,
		.member_id = request->member_id,
		.instance_id = request->group_instance_id,
		.client_id = call->client_id,
		/* As Kafka shows it: Java's InetAddress. */
		.client_host = api_printf(call, "/%s", host),
		.protocol_type = request->protocol_type,
		.reason = request->reason,
		.session_timeout_ms = request->session_timeout_ms,
		.rebalance_timeout_ms =
			call->version == 0 ? request->session_timeout_ms : request->rebalance_timeout_ms,
		.protocols = protocols,
		.protocol_count = n,
	};

	for (int32_t i = 0; i < n; i++)
		protocols[i] = (GroupProtocol){request->protocols[i].name, request->protocols[i].metadata};
	if (getrandom(in.fresh_id.b, sizeof(in.fresh_id.b), 0) != (ssize_t) sizeof(in.fresh_id.b))
	{
		api_abort(call);
		return;
	}
	/* A UUID of version 4. */
	in.fresh_id.b[6] = (uint8_t) ((in.fresh_id.b[6] & 0x0f) | 0x40);
	in.fresh_id.b[8] = (uint8_t) ((in.fresh_id.b[8] & 0x3f) | 0x80);
	call->req->hold = true;
	in.request = groups_park(groups, call);
	group_join(groups_set(groups), groups_now(), &in);
	groups_settle(groups);
}
