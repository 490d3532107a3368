/* DescribeCluster (key 60), v0-2: the brokers and the controller (KIP-700); v1 endpoint types, v2 fenced brokers. */
#include "brokerd/api/common.h"
#include "brokerd/api/handlers.h"
#include "brokerd/api/metadata.h"

enum
{
	ENDPOINT_BROKERS = 1
};

void
describe_cluster_handle(ApiCall *call)
{
	const DescribeClusterRequest *request = call->body;
	MetaImage *image = meta_image(call->broker->meta);
	DescribeClusterResponse response;
	int n;
	MetaBroker *const *brokers = meta_image_brokers(image, &n);

	WIRE_INIT(DescribeClusterResponse, &response);
	if (call->version >= 1 && request->endpoint_type != ENDPOINT_BROKERS)
	{
		response.error_code =
			request->endpoint_type == 2 ? KERR_MISMATCHED_ENDPOINT_TYPE : KERR_UNSUPPORTED_ENDPOINT_TYPE;
		response.error_message = wstr("this listener is for brokers (endpoint type 1)");
		response.cluster_id = WSTR_LIT("");
		api_reply(call, &response);
		return;
	}
	response.cluster_id = wstr(meta_cluster_id(call->broker->meta));
	response.controller_id = metadata_controller(call);
	response.brokers = API_NEW(call, DescribeClusterResponseBrokers, n);
	response.n_brokers = 0;
	for (int i = 0; i < n; i++)
	{
		bool serving = meta_broker_is_serving(brokers[i]);
		const MetaEndpoint *end = meta_broker_endpoint(brokers[i], conn_listener(call->req->conn));

		if (end == NULL || (!serving && !request->include_fenced_brokers) ||
			brokers[i]->state == META_BROKER_UNREGISTERED)
			continue;
		response.brokers[response.n_brokers++] =
			(DescribeClusterResponseBrokers){.broker_id = brokers[i]->id,
											 .host = wstr(end->host),
											 .port = end->port,
											 .rack = wstr(brokers[i]->rack),
											 .is_fenced = !serving};
	}
	if (request->include_cluster_authorized_operations)
		response.cluster_authorized_operations = CLUSTER_OPERATIONS;
	api_reply(call, &response);
}
