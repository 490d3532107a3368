/* DeleteGroups (key 42), v0-2: empty groups with their offsets.  Each by itself; the answer goes when all are done. */
#include "brokerd/api/groups.h"
#include "brokerd/api/handlers.h"

typedef struct DeleteOp
{
	ApiCall *call;
	DeleteGroupsResponse response;
	int32_t waiting;
	bool gone; /* the client */
} DeleteOp;

typedef struct DeleteOne
{
	DeleteOp *op;
	DeleteGroupsResponseResults *out;
} DeleteOne;

static void
finish_one(DeleteOp *op)
{
	if (--op->waiting > 0)
		return;
	op->call->cancelled = NULL;
	if (op->gone)
		api_no_reply(op->call);
	else
		api_reply(op->call, &op->response);
}

static void
on_client_gone(ApiCall *call)
{
	((DeleteOp *) call->op)->gone = true;
}

static void
on_deleted(void *ctx, const MetaResult *r)
{
	DeleteOne *one = ctx;
	Groups *groups = one->op->call->broker->groups;

	switch (meta_result_status(r))
	{
		case META_OK:
			one->out->error_code = (int16_t) meta_result_int(r, 0, 0);
			/* A group that never committed nor finished a generation is not in SQL: gone as well. */
			if (one->out->error_code == KERR_GROUP_ID_NOT_FOUND)
				one->out->error_code = KERR_NONE;
			break;
		case META_ERROR:
			one->out->error_code = meta_result_kafka_code(r);
			break;
		default:
			one->out->error_code = KERR_COORDINATOR_NOT_AVAILABLE;
	}
	if (one->out->error_code == KERR_NONE)
	{
		group_deleted(groups_set(groups), groups_now(), one->out->group_id);
		groups_settle(groups);
	}
	finish_one(one->op);
}

static void
delete_one(DeleteOp *op, WStr group_id, DeleteGroupsResponseResults *out)
{
	ApiCall *call = op->call;
	Groups *groups = call->broker->groups;
	GroupsSlotText slot;
	const char *params[5] = {NULL};
	DeleteOne *one;

	out->group_id = group_id;
	out->error_code = group_check_delete(groups_set(groups), group_id);
	if (out->error_code != KERR_NONE)
		return;
	one = api_alloc(call, sizeof(*one));
	*one = (DeleteOne){op, out};
	groups_slot_text(groups, group_id, &slot);
	params[2] = slot.slot;
	params[3] = slot.epoch;
	params[4] = api_printf(call, "%.*s", group_id.len, group_id.s).s;
	op->waiting++;
	meta_call(call->broker->meta, META_GROUP_DELETE, params, 5, api_deadline(call, 5000), on_deleted, one);
}

void
delete_groups_handle(ApiCall *call)
{
	const DeleteGroupsRequest *request = call->body;
	DeleteOp *op = api_alloc(call, sizeof(*op));
	int32_t n = request->n_groups_names > 0 ? request->n_groups_names : 0;

	op->call = call;
	op->waiting = 1; /* this function */
	call->op = op;
	call->cancelled = on_client_gone;
	WIRE_INIT(DeleteGroupsResponse, &op->response);
	op->response.results = API_NEW(call, DeleteGroupsResponseResults, n);
	op->response.n_results = n;
	for (int32_t i = 0; i < n; i++)
		delete_one(op, request->groups_names[i], &op->response.results[i]);
	finish_one(op);
}
