/*
 * Metadata (key 3), v0-13: brokers, topics, and who leads each partition, from the image; PostgreSQL is not asked.
 *
 * v0: an empty list means all topics; v1+: null means all.  v4 says whether topics may be made; v7 leader epochs;
 * v8 authorized operations; v9 flexible; v10 topic ids; v12 topics by id; v13 an error for the whole.
 * An unknown topic that may be made is made, and the answer waits for it: the client need not ask again.
 */
#include "brokerd/api/admin.h"
#include "brokerd/api/metadata.h"
#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"

enum
{
	AUTO_CREATE_TIMEOUT_MS = 5000,
	LISTED_AFTER_LEAVING_MS = 2000
};

/*
 * A broker that has just gone is listed a little longer.  librdkafka (2.12 to 2.15 at least) gives up a broker that is not
 * listed and with it what the same answer says of its partitions' new leaders, if they were its own until then: their
 * messages wait for its next look, a second.  So leaders move first and the broker goes with a later answer.
 */
static bool
is_listed(const MetaBroker *broker, int64_t now)
{
	return meta_broker_is_serving(broker) ||
		   (broker->left_ms > 0 && now - broker->left_ms < LISTED_AFTER_LEAVING_MS &&
			broker->state != META_BROKER_UNREGISTERED);
}

void
metadata_fill_brokers(ApiCall *call, MetadataResponse *response)
{
	int64_t now = clock_boot_ms();
	int n;
	MetaBroker *const *brokers = meta_image_brokers(meta_image(call->broker->meta), &n);

	response->brokers = API_NEW(call, MetadataResponseBrokers, n);
	response->n_brokers = 0;
	if (call->req->conn == NULL) /* nobody is left to tell */
		return;
	for (int i = 0; i < n; i++)
	{
		const MetaEndpoint *end = meta_broker_endpoint(brokers[i], conn_listener(call->req->conn));

		if (end != NULL && is_listed(brokers[i], now))
			response->brokers[response->n_brokers++] =
				(MetadataResponseBrokers){.node_id = brokers[i]->id,
										  .host = wstr(end->host),
										  .port = end->port,
										  .rack = wstr(brokers[i]->rack)};
	}
}

int32_t *
metadata_offline_replicas(ApiCall *call, const MetaPartition *p, int32_t *n)
{
	const int32_t *replicas = meta_partition_replicas(p);
	int32_t *offline = NULL;

	*n = 0;
	for (int i = 0; i < p->n_replicas; i++)
	{
		const MetaBroker *broker = meta_image_broker(meta_image(call->broker->meta), replicas[i]);

		if (broker != NULL && meta_broker_is_serving(broker))
			continue;
		if (offline == NULL)
			offline = api_alloc(call, sizeof(*offline) * p->n_replicas);
		offline[(*n)++] = replicas[i];
	}
	return offline;
}

static void
fill_partition(ApiCall *call, const MetaPartition *p, int32_t index, MetadataResponseTopicsPartitions *out)
{
	out->partition_index = index;
	out->leader_id = p->leader;
	out->leader_epoch = p->leader_epoch;
	/* The image outlives the answer, which is encoded before the loop goes on. */
	out->replica_nodes = (int32_t *) (uintptr_t) meta_partition_replicas(p);
	out->n_replica_nodes = p->n_replicas;
	out->isr_nodes = (int32_t *) (uintptr_t) meta_partition_isr(p);
	out->n_isr_nodes = p->n_isr;
	out->offline_replicas = metadata_offline_replicas(call, p, &out->n_offline_replicas);
	if (p->leader < 0)
		out->error_code = KERR_LEADER_NOT_AVAILABLE;
	else if (common_endpoint(call, p->leader) == NULL)
	{
		out->error_code = KERR_LEADER_NOT_AVAILABLE;
		out->leader_id = -1;
	}
}

static void
fill_topic(ApiCall *call, const MetaTopic *topic, MetadataResponseTopics *out)
{
	const MetadataRequest *request = call->body;

	out->name = (WStr){topic->name, topic->name_len};
	out->topic_id = topic->id;
	out->partitions = API_NEW(call, MetadataResponseTopicsPartitions, topic->n_partitions);
	out->n_partitions = 0;
	for (int32_t i = 0; i < topic->n_partitions; i++)
	{
		const MetaPartition *p = meta_topic_partition(topic, i);

		if (p != NULL && p->partition_epoch >= 0)
			fill_partition(call, p, i, &out->partitions[out->n_partitions++]);
	}
	if (request->include_topic_authorized_operations)
		out->topic_authorized_operations = TOPIC_OPERATIONS;
}

static void
fill_asked(ApiCall *call, const MetadataRequestTopics *in, MetadataResponseTopics *out)
{
	MetaImage *image = meta_image(call->broker->meta);
	bool by_id = !wuuid_is_zero(&in->topic_id);
	const MetaTopic *topic = by_id              ? meta_image_topic_by_id(image, &in->topic_id)
							 : in->name.len > 0 ? meta_image_topic(image, in->name.s, in->name.len)
												: NULL;

	if (topic != NULL)
	{
		fill_topic(call, topic, out);
		return;
	}
	out->name = by_id ? WSTR_NULL : in->name;
	out->topic_id = in->topic_id;
	out->n_partitions = 0;
	if (by_id)
		out->error_code = KERR_UNKNOWN_TOPIC_ID;
	else
		out->error_code = topic_name_fault(in->name) != NULL ? KERR_INVALID_TOPIC_EXCEPTION
															 : KERR_UNKNOWN_TOPIC_OR_PARTITION;
}

static bool
wants_all(const ApiCall *call)
{
	const MetadataRequest *request = call->body;

	return request->n_topics < 0 || (call->version == 0 && request->n_topics == 0);
}

static void
answer(ApiCall *call)
{
	const MetadataRequest *request = call->body;
	Meta *meta = call->broker->meta;
	MetadataResponse response;

	WIRE_INIT(MetadataResponse, &response);
	metadata_fill_brokers(call, &response);
	response.cluster_id = wstr(meta_cluster_id(meta));
	response.controller_id = metadata_controller(call);
	if (wants_all(call))
	{
		response.topics = API_NEW(call, MetadataResponseTopics, meta_image_topic_count(meta_image(meta)));
		response.n_topics = 0;
		for (const MetaTopic *t = meta_image_next_topic(meta_image(meta), NULL); t != NULL;
			 t = meta_image_next_topic(meta_image(meta), t))
			fill_topic(call, t, &response.topics[response.n_topics++]);
	}
	else
	{
		response.topics = API_NEW(call, MetadataResponseTopics, request->n_topics);
		response.n_topics = request->n_topics;
		for (int32_t i = 0; i < request->n_topics; i++)
			fill_asked(call, &request->topics[i], &response.topics[i]);
	}
	if (request->include_cluster_authorized_operations)
		response.cluster_authorized_operations = CLUSTER_OPERATIONS;
	api_reply(call, &response);
}

int32_t
metadata_controller(const ApiCall *call)
{
	int32_t id = meta_controller_id(call->broker->meta);

	return id >= 0 && common_endpoint(call, id) != NULL ? id : call->broker->config->node_id;
}

/* ---- topics that are made because somebody asked for them ---- */

static bool
may_be_made(const ApiCall *call, const MetadataRequestTopics *in)
{
	return wuuid_is_zero(&in->topic_id) && in->name.len > 0 && topic_name_fault(in->name) == NULL &&
		   meta_image_topic(meta_image(call->broker->meta), in->name.s, in->name.len) == NULL;
}

static bool
all_made(AdminOp *op)
{
	const MetadataRequest *request = op->call->body;

	for (int32_t i = 0; i < request->n_topics; i++)
		if (may_be_made(op->call, &request->topics[i]))
			return false;
	return true;
}

static void
answer_op(AdminOp *op)
{
	answer(op->call);
}

static void
on_made(void *ctx, const MetaResult *result)
{
	AdminOp *op = ctx;
	bool made = false;

	if (meta_result_status(result) != META_OK)
		log_msg(LOG_WARNING, "api", "topics that a client asked for could not be made: %s",
				meta_result_message(result));
	for (int r = 0; meta_result_status(result) == META_OK && r < meta_result_rows(result); r++)
	{
		int64_t code = meta_result_int(result, r, 2);

		if (code == KERR_NONE || code == KERR_TOPIC_ALREADY_EXISTS)
			made = true;
		else
			log_msg(LOG_WARNING, "api", "topic %s that a client asked for could not be made: %s",
					meta_result_text(result, r, 0), meta_result_text(result, r, 3));
	}
	if (!made)
		op->settled = NULL;
	admin_settle(op);
}

static void
make_missing(ApiCall *call)
{
	const MetadataRequest *request = call->body;
	AdminOp *op = api_alloc(call, sizeof(*op));
	MetaText json = {0};
	MetaRequester who;
	const char *comma = "";

	op->call = call;
	op->settled = all_made;
	op->finish = answer_op;
	meta_text_puts(&json, "[");
	for (int32_t i = 0; i < request->n_topics; i++)
		if (may_be_made(call, &request->topics[i]))
		{
			meta_text_printf(&json, "%s{\"name\":", comma);
			meta_text_json(&json, request->topics[i].name.s, request->topics[i].name.len);
			meta_text_puts(&json, ",\"partitions\":-1,\"replication_factor\":-1}");
			comma = ",";
		}
	meta_text_puts(&json, "]");
	api_requester(call, &who);
	meta_create_topics(call->broker->meta, &who, meta_text_cstr(&json), false,
					   api_deadline(call, AUTO_CREATE_TIMEOUT_MS), on_made, op);
	meta_text_free(&json);
}

void
metadata_handle(ApiCall *call)
{
	const MetadataRequest *request = call->body;

	if (!wants_all(call) && (call->version < 4 || request->allow_auto_topic_creation) &&
		call->broker->config->auto_create_topics_enable && meta_is_connected(call->broker->meta))
		for (int32_t i = 0; i < request->n_topics; i++)
			if (may_be_made(call, &request->topics[i]))
			{
				make_missing(call);
				return;
			}
	answer(call);
}
