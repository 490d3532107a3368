/* DescribeLogDirs (key 35), v1-4: the size of each partition in the data directory; v4 the disk's space. */
#include "brokerd/api/common.h"
#include "brokerd/api/handlers.h"

static void
fill_partition(const Partition *p, DescribeLogDirsResponseResultsTopicsPartitions *out)
{
	int64_t behind = p->high_watermark - log_appended_end(p->log);

	out->partition_index = p->index;
	out->partition_size = log_size_bytes(p->log);
	out->offset_lag = behind > 0 ? behind : 0;
}

static void
fill_topic(ApiCall *call, PartitionTopic *topic, const DescribeLogDirsRequestTopics *asked,
		   DescribeLogDirsResponseResults *result)
{
	DescribeLogDirsResponseResultsTopics *out = &result->topics[result->n_topics];
	int32_t n = asked != NULL ? asked->n_partitions : topic->n_partitions;

	out->name = (WStr){topic->name, topic->name_len};
	out->partitions = API_NEW(call, DescribeLogDirsResponseResultsTopicsPartitions, n);
	out->n_partitions = 0;
	for (int32_t i = 0; i < n; i++)
	{
		int32_t index = asked != NULL ? asked->partitions[i] : i;

		if (index >= 0 && index < topic->n_partitions && topic->partitions[index]->log != NULL)
			fill_partition(topic->partitions[index], &out->partitions[out->n_partitions++]);
	}
	if (out->n_partitions > 0)
		result->n_topics++;
}

void
describe_log_dirs_handle(ApiCall *call)
{
	const DescribeLogDirsRequest *request = call->body;
	PartitionTable *t = call->broker->partitions;
	DescribeLogDirsResponse response;
	DescribeLogDirsResponseResults *result = API_NEW(call, DescribeLogDirsResponseResults, 1);
	LogDirStats stats;

	WIRE_INIT(DescribeLogDirsResponse, &response);
	response.results = result;
	response.n_results = 1;
	log_manager_stats(call->broker->logs, &stats);
	result->log_dir = wstr(call->broker->log_dir);
	result->total_bytes = stats.total_bytes;
	result->usable_bytes = stats.free_bytes;
	result->n_topics = 0;
	result->topics = API_NEW(call, DescribeLogDirsResponseResultsTopics,
							 request->n_topics < 0 ? partitions_topic_count(t) : request->n_topics);
	if (request->n_topics < 0)
		for (PartitionTopic *topic = partitions_next(t, NULL); topic != NULL;
			 topic = partitions_next(t, topic))
			fill_topic(call, topic, NULL, result);
	for (int32_t i = 0; i < request->n_topics; i++)
	{
		PartitionTopic *topic = partitions_topic(t, request->topics[i].topic);

		if (topic != NULL)
			fill_topic(call, topic, &request->topics[i], result);
	}
	api_reply(call, &response);
}
