/*
 * DescribeTopicPartitions (key 75), v0: topics in name order, page by page (KIP-966).  No topics in the request means
 * all; a cursor says where the last page ended.
 */
#include <stdlib.h>

#include "brokerd/api/common.h"
#include "brokerd/api/handlers.h"
#include "brokerd/api/metadata.h"

enum
{
	PARTITIONS_MAX = 2000 /* Kafka: max.request.partition.size.limit */
};

static int
compare_names(const void *a, const void *b)
{
	const WStr *x = a, *y = b;
	int32_t shorter = x->len < y->len ? x->len : y->len;
	int c = shorter > 0 ? memcmp(x->s, y->s, (size_t) shorter) : 0;

	return c != 0 ? c : (x->len > y->len) - (x->len < y->len);
}

/* The names to describe, sorted, each once. */
static WStr *
list_names(ApiCall *call, int *n_names)
{
	const DescribeTopicPartitionsRequest *request = call->body;
	MetaImage *image = meta_image(call->broker->meta);
	bool all = request->n_topics <= 0;
	int n = all ? meta_image_topic_count(image) : request->n_topics;
	WStr *names = api_alloc(call, sizeof(*names) * (size_t) n);
	int used = 0;

	n = 0;
	if (all)
		for (const MetaTopic *t = meta_image_next_topic(image, NULL); t != NULL;
			 t = meta_image_next_topic(image, t))
			names[n++] = (WStr){t->name, t->name_len};
	else
		for (int32_t i = 0; i < request->n_topics; i++)
			names[n++] = request->topics[i].name;
	qsort(names, (size_t) n, sizeof(*names), compare_names);
	for (int i = 0; i < n; i++)
		if (used == 0 || !wstr_eq(names[used - 1], names[i]))
			names[used++] = names[i];
	*n_names = used;
	return names;
}

static void
fill_partition(ApiCall *call, const MetaPartition *p, int32_t index,
			   DescribeTopicPartitionsResponseTopicsPartitions *out)
{
	bool leader_there = p->leader >= 0 && common_endpoint(call, p->leader) != NULL;

	out->partition_index = index;
	out->error_code = leader_there ? KERR_NONE : KERR_LEADER_NOT_AVAILABLE;
	out->leader_id = leader_there ? p->leader : -1;
	out->leader_epoch = p->leader_epoch;
	out->replica_nodes = (int32_t *) (uintptr_t) meta_partition_replicas(p);
	out->n_replica_nodes = p->n_replicas;
	out->isr_nodes = (int32_t *) (uintptr_t) meta_partition_isr(p);
	out->n_isr_nodes = p->n_isr;
	out->eligible_leader_replicas = (int32_t *) (uintptr_t) meta_partition_elr(p);
	out->n_eligible_leader_replicas = p->n_elr;
	out->n_last_known_elr = 0; /* not kept: no election asks for them */
	out->offline_replicas = metadata_offline_replicas(call, p, &out->n_offline_replicas);
}

/* A cursor is the end of a page of this very list of topics. */
static bool
cursor_fits(const DescribeTopicPartitionsRequest *request)
{
	const DescribeTopicPartitionsRequestCursor *cursor = request->cursor;

	if (cursor == NULL)
		return true;
	for (int32_t i = 0; i < request->n_topics; i++)
		if (wstr_eq(request->topics[i].name, cursor->topic_name))
			return cursor->partition_index >= 0;
	return request->n_topics <= 0 && cursor->partition_index >= 0;
}

static void
refuse(ApiCall *call, const WStr *names, int n_names)
{
	DescribeTopicPartitionsResponse response;

	WIRE_INIT(DescribeTopicPartitionsResponse, &response);
	response.topics = API_NEW(call, DescribeTopicPartitionsResponseTopics, n_names);
	response.n_topics = n_names;
	for (int i = 0; i < n_names; i++)
	{
		response.topics[i].name = names[i];
		response.topics[i].error_code = KERR_INVALID_REQUEST;
		response.topics[i].topic_authorized_operations = OPERATIONS_NOT_ASKED;
		response.topics[i].n_partitions = 0;
	}
	api_reply(call, &response);
}

void
describe_topic_partitions_handle(ApiCall *call)
{
	const DescribeTopicPartitionsRequest *request = call->body;
	DescribeTopicPartitionsResponse response;
	int32_t room = request->response_partition_limit < PARTITIONS_MAX ? request->response_partition_limit
																	  : PARTITIONS_MAX;
	int n_names;
	WStr *names = list_names(call, &n_names);

	if (!cursor_fits(request))
	{
		refuse(call, names, n_names);
		return;
	}
	/* A page without a partition would make the client ask for it for ever. */
	if (room < 1)
		room = 1;
	WIRE_INIT(DescribeTopicPartitionsResponse, &response);
	response.topics = API_NEW(call, DescribeTopicPartitionsResponseTopics, n_names);
	response.n_topics = 0;
	for (int i = 0; i < n_names && response.next_cursor == NULL; i++)
	{
		int behind = request->cursor == NULL ? 1 : compare_names(&names[i], &request->cursor->topic_name);
		int32_t first = behind == 0 ? request->cursor->partition_index : 0;
		const MetaTopic *topic = meta_image_topic(meta_image(call->broker->meta), names[i].s, names[i].len);
		DescribeTopicPartitionsResponseTopics *out;

		if (behind < 0)
			continue;
		if (room <= 0)
		{
			response.next_cursor = API_NEW(call, DescribeTopicPartitionsResponseNextCursor, 1);
			response.next_cursor->topic_name = names[i];
			response.next_cursor->partition_index = 0;
			break;
		}
		out = &response.topics[response.n_topics++];
		out->name = names[i];
		out->topic_authorized_operations = names[i].len > 0 ? TOPIC_OPERATIONS : OPERATIONS_NOT_ASKED;
		out->n_partitions = 0;
		if (topic == NULL)
		{
			out->error_code = topic_name_fault(names[i]) != NULL ? KERR_INVALID_TOPIC_EXCEPTION
																 : KERR_UNKNOWN_TOPIC_OR_PARTITION;
			continue;
		}
		out->topic_id = topic->id;
		out->partitions = API_NEW(call, DescribeTopicPartitionsResponseTopicsPartitions,
								  topic->n_partitions < room ? topic->n_partitions : room);
		for (int32_t p = first > 0 ? first : 0; p < topic->n_partitions; p++)
		{
			if (room == 0)
			{
				response.next_cursor = API_NEW(call, DescribeTopicPartitionsResponseNextCursor, 1);
				response.next_cursor->topic_name = names[i];
				response.next_cursor->partition_index = p;
				break;
			}
			fill_partition(call, meta_topic_partition(topic, p), p, &out->partitions[out->n_partitions++]);
			room--;
		}
	}
	api_reply(call, &response);
}
