/*
 * IncrementalAlterConfigs (key 44), v0-1, and the older AlterConfigs (key 33), v0-2, which replaces all that is set.
 * The extension judges keys and values, with the sentences that SQL gives.
 */
#include "brokerd/api/admin.h"

enum
{
	RESOURCE_TOPIC = 2,
	RESOURCE_BROKER = 4,
	RESOURCE_BROKER_LOGGER = 8,
	RESOURCE_CLIENT_METRICS = 16,
	RESOURCE_GROUP = 32,
	OP_SET = 0,
	CONFIG_TIMEOUT_MS = 30000
};

/* What both requests come down to. */
typedef struct Resource
{
	int8_t type;
	WStr name;
	int16_t error;
	WStr message;
} Resource;

typedef struct AlterOp
{
	AdminOp admin;
	Resource *resources;
	int32_t n;
	uint64_t changes; /* of the image, when the call was made */
} AlterOp;

static void
reply(AlterOp *op)
{
	ApiCall *call = op->admin.call;

	/* The two responses differ in nothing but their name. */
	if (call->api->key == API_ALTER_CONFIGS)
	{
		AlterConfigsResponse response;

		WIRE_INIT(AlterConfigsResponse, &response);
		response.responses = API_NEW(call, AlterConfigsResponseResponses, op->n);
		response.n_responses = op->n;
		for (int32_t i = 0; i < op->n; i++)
			response.responses[i] =
				(AlterConfigsResponseResponses){op->resources[i].error, op->resources[i].message,
												op->resources[i].type, op->resources[i].name};
		api_reply(call, &response);
	}
	else
	{
		IncrementalAlterConfigsResponse response;

		WIRE_INIT(IncrementalAlterConfigsResponse, &response);
		response.responses = API_NEW(call, IncrementalAlterConfigsResponseResponses, op->n);
		response.n_responses = op->n;
		for (int32_t i = 0; i < op->n; i++)
			response.responses[i] =
				(IncrementalAlterConfigsResponseResponses){op->resources[i].error, op->resources[i].message,
														   op->resources[i].type, op->resources[i].name};
		api_reply(call, &response);
	}
}

static void
finish(AdminOp *admin)
{
	reply(admin->ctx);
}

static bool
image_moved(AdminOp *admin)
{
	const AlterOp *op = admin->ctx;

	return meta_image_changes(meta_image(admin->call->broker->meta)) != op->changes;
}

static void
on_result(void *ctx, const MetaResult *result)
{
	AlterOp *op = ctx;
	ApiCall *call = op->admin.call;
	bool any = false;

	for (int32_t i = 0; i < op->n; i++)
	{
		Resource *res = &op->resources[i];

		if (res->error != KERR_NONE)
			continue;
		if (meta_result_status(result) != META_OK)
			res->error = admin_failure(call, result, &res->message);
		for (int r = 0; meta_result_status(result) == META_OK && r < meta_result_rows(result); r++)
			if (meta_result_int(result, r, 0) == res->type &&
				wstr_eq(wstr(meta_result_text(result, r, 1)), res->name))
			{
				res->error = (int16_t) meta_result_int(result, r, 2);
				res->message = admin_text(call, result, r, 3);
			}
		any = any || res->error == KERR_NONE;
	}
	if (!any)
		op->admin.settled = NULL;
	admin_settle(&op->admin);
}

/* A resource that is named twice has no order of changes. */
static void
refuse_twice(AlterOp *op)
{
	for (int32_t i = 0; i < op->n; i++)
		for (int32_t j = 0; j < op->n; j++)
			if (i != j && op->resources[i].type == op->resources[j].type &&
				wstr_eq(op->resources[i].name, op->resources[j].name))
			{
				op->resources[i].error = KERR_INVALID_REQUEST;
				op->resources[i].message = WSTR_LIT("The resource is named more than once.");
			}
}

static void
refuse_kind(Resource *res)
{
	if (res->type == RESOURCE_TOPIC || res->type == RESOURCE_BROKER || res->type == RESOURCE_GROUP)
		return;
	res->error = KERR_INVALID_REQUEST;
	res->message =
		res->type == RESOURCE_BROKER_LOGGER
			? WSTR_LIT(
				  "Log levels are set by pg_broker.log.level in the properties file, not for each logger.")
			: WSTR_LIT("Configs of this kind of resource are not kept here.");
}

static void
set_resource(AlterOp *op, int32_t i, int8_t type, WStr name)
{
	op->resources[i] = (Resource){.type = type, .name = name, .message = WSTR_NULL};
	refuse_kind(&op->resources[i]);
}

static void
begin_resource(MetaText *json, const Resource *res, int n)
{
	meta_text_printf(json, "%s{\"type\":%d,\"name\":", n > 0 ? "," : "", res->type);
	meta_text_json(json, res->name.s, res->name.len);
	meta_text_puts(json, ",\"ops\":[");
}

static void
write_op(MetaText *json, WStr key, int op, WStr value, bool first)
{
	meta_text_puts(json, first ? "{\"key\":" : ",{\"key\":");
	meta_text_json(json, key.s, key.len);
	meta_text_printf(json, ",\"op\":%d,\"value\":", op);
	meta_text_json(json, value.s, value.len);
	meta_text_puts(json, "}");
}

static AlterOp *
new_op(ApiCall *call, int32_t n)
{
	AlterOp *op = api_alloc(call, sizeof(*op));

	op->admin.call = call;
	op->admin.settled = image_moved;
	op->admin.finish = finish;
	op->admin.ctx = op;
	op->n = n > 0 ? n : 0;
	op->resources = api_alloc(call, sizeof(*op->resources) * (size_t) op->n);
	op->changes = meta_image_changes(meta_image(call->broker->meta));
	return op;
}

static void
send_call(AlterOp *op, MetaText *json, bool validate_only, bool replace)
{
	ApiCall *call = op->admin.call;
	MetaRequester who;

	api_requester(call, &who);
	if (validate_only)
		op->admin.settled = NULL;
	meta_alter_configs(call->broker->meta, &who, meta_text_cstr(json), validate_only, replace,
					   api_deadline(call, CONFIG_TIMEOUT_MS), on_result, op);
}

static void
alter(ApiCall *call, const IncrementalAlterConfigsRequest *request, bool replace)
{
	AlterOp *op = new_op(call, request->n_resources);
	MetaText json = {0};
	int n = 0;

	for (int32_t i = 0; i < op->n; i++)
		set_resource(op, i, request->resources[i].resource_type, request->resources[i].resource_name);
	refuse_twice(op);
	meta_text_puts(&json, "[");
	for (int32_t i = 0; i < op->n; i++)
	{
		const IncrementalAlterConfigsRequestResources *in = &request->resources[i];

		if (op->resources[i].error != KERR_NONE)
			continue;
		begin_resource(&json, &op->resources[i], n++);
		for (int32_t j = 0; j < in->n_configs; j++)
			write_op(&json, in->configs[j].name, in->configs[j].config_operation, in->configs[j].value,
					 j == 0);
		meta_text_puts(&json, "]}");
	}
	meta_text_puts(&json, "]");
	if (n == 0)
		reply(op);
	else
		send_call(op, &json, request->validate_only, replace);
	meta_text_free(&json);
}

void
incremental_alter_configs_handle(ApiCall *call)
{
	alter(call, call->body, false);
}

/* The older request sets each key that it names, and by that replaces all that was set. */
void
alter_configs_handle(ApiCall *call)
{
	const AlterConfigsRequest *old = call->body;
	int32_t n = old->n_resources > 0 ? old->n_resources : 0;
	IncrementalAlterConfigsRequest request = {
		.resources = API_NEW(call, IncrementalAlterConfigsRequestResources, n),
		.n_resources = n,
		.validate_only = old->validate_only,
	};

	for (int32_t i = 0; i < n; i++)
	{
		const AlterConfigsRequestResources *in = &old->resources[i];
		IncrementalAlterConfigsRequestResources *out = &request.resources[i];

		out->resource_type = in->resource_type;
		out->resource_name = in->resource_name;
		out->n_configs = in->n_configs;
		out->configs = API_NEW(call, IncrementalAlterConfigsRequestResourcesConfigs, in->n_configs);
		for (int32_t j = 0; j < in->n_configs; j++)
			out->configs[j] = (IncrementalAlterConfigsRequestResourcesConfigs){
				.name = in->configs[j].name, .config_operation = OP_SET, .value = in->configs[j].value};
	}
	alter(call, &request, true);
}
