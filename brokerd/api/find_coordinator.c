/*
 * FindCoordinator (key 10), v0-6.  v1: kind of key; v4: several keys.  Groups and transactional ids share the slots.
 */
#include "brokerd/api/common.h"
#include "brokerd/api/groups.h"
#include "brokerd/api/handlers.h"

enum
{
	KEY_GROUP = 0,
	KEY_TRANSACTION = 1
};

static void
find(ApiCall *call, WStr key, int8_t kind, FindCoordinatorResponseCoordinators *out)
{
	int32_t id = groups_coordinator(call->broker->groups, key.len < 0 ? WSTR_LIT("") : key);
	const MetaEndpoint *at = id < 0 ? NULL : common_endpoint(call, id);

	out->key = key;
	out->node_id = -1;
	out->port = -1;
	out->host = WSTR_LIT("");
	if (kind != KEY_GROUP && kind != KEY_TRANSACTION)
		out->error_code = KERR_INVALID_REQUEST;
	else if (at == NULL)
		out->error_code = KERR_COORDINATOR_NOT_AVAILABLE;
	else
	{
		out->error_code = KERR_NONE;
		out->node_id = id;
		out->host = api_copy(call, at->host);
		out->port = at->port;
	}
	if (out->error_code != KERR_NONE)
		out->error_message = api_copy(call, kerr_message(out->error_code));
}

void
find_coordinator_handle(ApiCall *call)
{
	const FindCoordinatorRequest *request = call->body;
	FindCoordinatorResponse response;

	WIRE_INIT(FindCoordinatorResponse, &response);
	if (call->version < 4)
	{
		FindCoordinatorResponseCoordinators *one = API_NEW(call, FindCoordinatorResponseCoordinators, 1);

		find(call, request->key, call->version == 0 ? KEY_GROUP : request->key_type, one);
		response.error_code = one->error_code;
		response.error_message = one->error_message;
		response.node_id = one->node_id;
		response.host = one->host;
		response.port = one->port;
	}
	else
	{
		int32_t n = request->n_coordinator_keys > 0 ? request->n_coordinator_keys : 0;

		response.coordinators = API_NEW(call, FindCoordinatorResponseCoordinators, n);
		response.n_coordinators = n;
		for (int32_t i = 0; i < n; i++)
			find(call, request->coordinator_keys[i], request->key_type, &response.coordinators[i]);
	}
	api_reply(call, &response);
}
