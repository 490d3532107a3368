#include "brokerd/api/common.h"

#include "brokerd/cluster/replication.h"

const MetaEndpoint *
common_endpoint(const ApiCall *call, int32_t broker_id)
{
	const MetaBroker *broker = meta_image_broker(meta_image(call->broker->meta), broker_id);

	if (broker == NULL || !meta_broker_is_serving(broker) || call->req->conn == NULL)
		return NULL;
	/* Its process is gone, and PostgreSQL will say so in a moment: a client that is told "not available" asks again
	 * soon, one that is sent there does not. */
	if (call->broker->replication != NULL && replication_is_gone(call->broker->replication, broker_id))
		return NULL;
	return meta_broker_endpoint(broker, conn_listener(call->req->conn));
}

bool
common_add_hint(ApiCall *call, LeaderHints *hints, int32_t broker_id)
{
	if (broker_id < 0 || broker_id == call->broker->config->node_id ||
		common_endpoint(call, broker_id) == NULL)
		return false;
	for (int32_t i = 0; i < hints->n; i++)
		if (hints->ids[i] == broker_id)
			return true;
	/* Few brokers lead: grown by copying, in the arena. */
	if ((hints->n & (hints->n - 1)) == 0)
	{
		int32_t *ids = api_alloc(call, sizeof(*ids) * (size_t) (hints->n > 0 ? hints->n * 2 : 1));

		if (hints->n > 0)
			memcpy(ids, hints->ids, sizeof(*ids) * (size_t) hints->n);
		hints->ids = ids;
	}
	hints->ids[hints->n++] = broker_id;
	return true;
}

PartitionTopic *
common_find_topic(ApiCall *call, WStr name, const WUuid *id, bool by_id, int16_t *error)
{
	PartitionTable *t = call->broker->partitions;
	PartitionTopic *topic = by_id ? partitions_topic_by_id(t, id) : partitions_topic(t, name);

	*error = topic != NULL ? KERR_NONE : by_id ? KERR_UNKNOWN_TOPIC_ID : KERR_UNKNOWN_TOPIC_OR_PARTITION;
	return topic;
}

const char *
topic_name_fault(WStr name)
{
	if (name.len <= 0)
		return "the empty string is not allowed";
	if (name.len > META_TOPIC_NAME_MAX)
		return "the length is longer than the max allowed length 249";
	if ((name.len == 1 && name.s[0] == '.') || (name.len == 2 && name.s[0] == '.' && name.s[1] == '.'))
		return "'.' or '..' is not allowed";
	for (int32_t i = 0; i < name.len; i++)
	{
		char c = name.s[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
			  c == '_' || c == '-'))
			return "it contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'";
	}
	return NULL;
}
