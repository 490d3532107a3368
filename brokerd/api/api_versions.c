/*
 * ApiVersions (key 18), v0-4.  The response has header v0 in every version, so that a client of any age can
 * read it (KIP-511).
 */
#include "brokerd/api/handlers.h"

static void
list_apis(ApiCall *call, ApiVersionsResponse *response)
{
	int n = wire_api_count();

	response->api_keys = API_NEW(call, ApiVersionsResponseApiKeys, n);
	response->n_api_keys = 0;
	for (int i = 0; i < n; i++)
	{
		const WireApi *api = wire_api_at(i);

		if (!api_is_served(api->key))
			continue;
		response->api_keys[response->n_api_keys++] = (ApiVersionsResponseApiKeys){
			.api_key = api->key, .min_version = api->adv_min, .max_version = api->adv_max};
	}
}

/* Client software names and versions are shown to people: letters, digits, '.' and '-' (KIP-511). */
static bool
is_software_name(WStr s)
{
	if (s.len <= 0)
		return false;
	for (int32_t i = 0; i < s.len; i++)
	{
		char c = s.s[i];
		bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

		if (!alnum && (i == 0 || i == s.len - 1 || (c != '-' && c != '.')))
			return false;
	}
	return true;
}

void
api_versions_handle(ApiCall *call)
{
	const ApiVersionsRequest *request = call->body;
	/* A client asks with each connection, and the answer never changes. */
	ReadyAnswer *ready =
		call->version < API_VERSIONS_READY ? &call->broker->api_versions[call->version] : NULL;
	bool refused = call->version >= 3 && (!is_software_name(request->client_software_name) ||
										  !is_software_name(request->client_software_version));
	ApiVersionsResponse response;

	if (!refused && ready != NULL && api_reply_ready(call, ready))
		return;
	WIRE_INIT(ApiVersionsResponse, &response);
	if (refused)
		response.error_code = KERR_INVALID_REQUEST;
	else
		list_apis(call, &response);
	if (refused || ready == NULL)
		api_reply(call, &response);
	else
		api_reply_and_keep(call, &response, ready);
}

void
api_versions_downgrade(ApiCall *call)
{
	ApiVersionsResponse response;
	const WireApi *api = wire_api(API_API_VERSIONS);

	WIRE_INIT(ApiVersionsResponse, &response);
	call->api = api;
	call->version = 0;
	response.error_code = KERR_UNSUPPORTED_VERSION;
	response.api_keys = API_NEW(call, ApiVersionsResponseApiKeys, 1);
	response.n_api_keys = 1;
	response.api_keys[0] = (ApiVersionsResponseApiKeys){
		.api_key = api->key, .min_version = api->adv_min, .max_version = api->adv_max};
	api_reply(call, &response);
}
