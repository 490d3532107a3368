/* UnregisterBroker (key 64), v0: forget a broker that will not come back (KIP-500).  PostgreSQL decides. */
#include "brokerd/api/admin.h"

enum
{
	DEADLINE_MS = 60000 /* the request has none of its own; Kafka's tools wait as long */
};

/* Does the image show that it is gone? */
static bool
is_gone(AdminOp *op)
{
	const UnregisterBrokerRequest *request = op->call->body;
	const UnregisterBrokerResponse *response = op->response;

	return response->error_code != KERR_NONE ||
		   meta_image_broker(meta_image(op->call->broker->meta), request->broker_id) == NULL;
}

static void
finish(AdminOp *op)
{
	api_reply(op->call, op->response);
}

static void
on_result(void *ctx, const MetaResult *result)
{
	AdminOp *op = ctx;
	UnregisterBrokerResponse *response = op->response;

	if (meta_result_status(result) != META_OK)
		response->error_code = admin_failure(op->call, result, &response->error_message);
	else
	{
		response->error_code = (int16_t) meta_result_int(result, 0, 0);
		response->error_message = admin_text(op->call, result, 0, 1);
	}
	admin_settle(op);
}

void
unregister_broker_handle(ApiCall *call)
{
	const UnregisterBrokerRequest *request = call->body;
	AdminOp *op = api_alloc(call, sizeof(*op));
	MetaRequester who;

	op->call = call;
	op->response = API_NEW(call, UnregisterBrokerResponse, 1);
	op->settled = is_gone;
	op->finish = finish;
	api_requester(call, &who);
	meta_unregister_broker(call->broker->meta, &who, request->broker_id, api_deadline(call, DEADLINE_MS),
						   on_result, op);
}
