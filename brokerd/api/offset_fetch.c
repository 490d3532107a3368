/*
 * OffsetFetch (key 9), v1-9.  v2: null topics = all, and an error of the whole; v5: leader epoch; v7: require_stable
 * (KIP-447); v8: several groups; v9: member and epoch, which classic groups do not have.
 *
 * Answered from PostgreSQL, from no cache: an offset may have been written by another door (hazards A10).  While an
 * administrator's reset is under way the place is about to move: a retriable error.
 */
#include <stdlib.h>

#include "brokerd/api/common.h"
#include "brokerd/api/groups.h"
#include "brokerd/api/handlers.h"
#include "brokerd/meta/text.h"

typedef OffsetFetchResponseGroupsTopics TopicOut;
typedef OffsetFetchResponseGroupsTopicsPartitions PartitionOut;

typedef struct FetchOp
{
	ApiCall *call;
	OffsetFetchResponseGroups *groups; /* in the form of v8, whatever the version */
	int32_t n_groups;
	int32_t waiting;
	bool gone; /* the client */
} FetchOp;

typedef struct FetchGroup
{
	FetchOp *op;
	OffsetFetchResponseGroups *out;
	bool all;
} FetchGroup;

/* ---- the answer ---- */

static void
reply_old(FetchOp *op)
{
	ApiCall *call = op->call;
	OffsetFetchResponseGroups *g = &op->groups[0];
	OffsetFetchResponse response;

	WIRE_INIT(OffsetFetchResponse, &response);
	response.error_code = g->error_code;
	response.topics = API_NEW(call, OffsetFetchResponseTopics, g->n_topics);
	response.n_topics = g->n_topics;
	for (int32_t i = 0; i < g->n_topics; i++)
	{
		OffsetFetchResponseTopics *t = &response.topics[i];

		t->name = g->topics[i].name;
		t->n_partitions = g->topics[i].n_partitions;
		t->partitions = API_NEW(call, OffsetFetchResponseTopicsPartitions, t->n_partitions);
		for (int32_t k = 0; k < t->n_partitions; k++)
		{
			const PartitionOut *p = &g->topics[i].partitions[k];

			t->partitions[k].partition_index = p->partition_index;
			t->partitions[k].committed_offset = p->committed_offset;
			t->partitions[k].committed_leader_epoch = p->committed_leader_epoch;
			t->partitions[k].metadata = p->metadata;
			/* v1 has no error of the whole. */
			t->partitions[k].error_code = call->version < 2 ? g->error_code : p->error_code;
		}
	}
	api_reply(call, &response);
}

static void
finish_one(FetchOp *op)
{
	OffsetFetchResponse response;

	if (--op->waiting > 0)
		return;
	op->call->cancelled = NULL;
	if (op->gone)
		api_no_reply(op->call);
	else if (op->call->version < 8)
		reply_old(op);
	else
	{
		WIRE_INIT(OffsetFetchResponse, &response);
		response.groups = op->groups;
		response.n_groups = op->n_groups;
		api_reply(op->call, &response);
	}
}

static void
on_client_gone(ApiCall *call)
{
	((FetchOp *) call->op)->gone = true;
}

/* ---- rows ---- */

static int
hex(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* bytea as PostgreSQL prints it: \x0a1b. */
static WStr
read_bytes(ApiCall *call, const MetaResult *r, int row, int column)
{
	const char *text = meta_result_text(r, row, column);
	int len = meta_result_length(r, row, column);
	char *out;

	if (len < 4)
		return WSTR_LIT("");
	out = api_alloc(call, (size_t) len / 2);
	for (int i = 2; i + 1 < len; i += 2)
		out[i / 2 - 1] = (char) (hex(text[i]) * 16 + hex(text[i + 1]));
	return (WStr){out, len / 2 - 1};
}

static void
read_row(ApiCall *call, const MetaResult *r, int row, PartitionOut *out)
{
	out->partition_index = (int32_t) meta_result_int(r, row, 2);
	out->committed_offset = meta_result_int(r, row, 3);
	out->committed_leader_epoch = (int32_t) meta_result_int(r, row, 4);
	out->metadata = read_bytes(call, r, row, 5);
}

/* All offsets: the rows come by topic. */
static void
read_all(ApiCall *call, const MetaResult *r, OffsetFetchResponseGroups *out)
{
	int rows = meta_result_rows(r);

	out->topics = API_NEW(call, OffsetFetchResponseGroupsTopics, rows);
	for (int i = 0; i < rows;)
	{
		TopicOut *t = &out->topics[out->n_topics++];
		WUuid id = meta_result_uuid(r, i, 0);
		int end = i;

		while (end < rows)
		{
			WUuid other = meta_result_uuid(r, end, 0);

			if (!wuuid_eq(&id, &other))
				break;
			end++;
		}
		t->name = api_copy(call, meta_result_text(r, i, 1));
		t->topic_id = id;
		t->partitions = API_NEW(call, OffsetFetchResponseGroupsTopicsPartitions, end - i);
		for (; i < end; i++)
			read_row(call, r, i, &t->partitions[t->n_partitions++]);
	}
}

/* The partitions that were asked for stand in the answer already; a row finds its own. */
static void
read_asked(ApiCall *call, const MetaResult *r, OffsetFetchResponseGroups *out)
{
	for (int row = 0; row < meta_result_rows(r); row++)
	{
		WUuid id = meta_result_uuid(r, row, 0);
		int32_t index = (int32_t) meta_result_int(r, row, 2);

		for (int32_t i = 0; i < out->n_topics; i++)
		{
			if (!wuuid_eq(&out->topics[i].topic_id, &id))
				continue;
			for (int32_t k = 0; k < out->topics[i].n_partitions; k++)
			{
				if (out->topics[i].partitions[k].partition_index == index)
					read_row(call, r, row, &out->topics[i].partitions[k]);
			}
		}
	}
}

static void
fail_group(ApiCall *call, OffsetFetchResponseGroups *out, int16_t error)
{
	out->error_code = error;
	if (call->version >= 2)
		out->n_topics = 0;
}

static void
on_fetched(void *ctx, const MetaResult *r)
{
	FetchGroup *one = ctx;
	ApiCall *call = one->op->call;

	if (meta_result_status(r) == META_ERROR)
		fail_group(call, one->out, KERR_UNKNOWN_SERVER_ERROR);
	else if (meta_result_status(r) != META_OK)
		fail_group(call, one->out, KERR_COORDINATOR_NOT_AVAILABLE);
	else if (meta_result_rows(r) > 0 && meta_result_bool(r, 0, 6))
		fail_group(call, one->out, KERR_COORDINATOR_LOAD_IN_PROGRESS);
	else if (one->all)
		read_all(call, r, one->out);
	else
		read_asked(call, r, one->out);
	finish_one(one->op);
}

/* ---- the question ---- */

/* Room for what is asked, as if nothing were committed; the two array literals for SQL. */
static void
put_topics(FetchGroup *one, const OffsetFetchRequestGroupsTopics *topics, int32_t n, MetaText *ids,
		   MetaText *partitions)
{
	ApiCall *call = one->op->call;
	OffsetFetchResponseGroups *out = one->out;
	bool any = false;

	out->topics = API_NEW(call, OffsetFetchResponseGroupsTopics, n);
	out->n_topics = n;
	for (int32_t i = 0; i < n; i++)
	{
		const PartitionTopic *topic = partitions_topic(call->broker->partitions, topics[i].name);
		TopicOut *t = &out->topics[i];

		t->name = topics[i].name;
		if (topic != NULL)
			t->topic_id = topic->id;
		t->n_partitions = topics[i].n_partition_indexes > 0 ? topics[i].n_partition_indexes : 0;
		t->partitions = API_NEW(call, OffsetFetchResponseGroupsTopicsPartitions, t->n_partitions);
		for (int32_t k = 0; k < t->n_partitions; k++)
		{
			t->partitions[k].partition_index = topics[i].partition_indexes[k];
			t->partitions[k].committed_offset = -1;
			t->partitions[k].committed_leader_epoch = -1;
			t->partitions[k].metadata = WSTR_LIT("");
			if (topic == NULL)
				continue;
			meta_text_puts(ids, any ? "," : "");
			meta_text_uuid(ids, &topic->id);
			meta_text_printf(partitions, "%s%d", any ? "," : "", topics[i].partition_indexes[k]);
			any = true;
		}
	}
}

/* n < 0: all topics. */
static void
fetch_group(FetchOp *op, WStr group_id, const OffsetFetchRequestGroupsTopics *topics, int32_t n,
			OffsetFetchResponseGroups *out)
{
	ApiCall *call = op->call;
	FetchGroup *one = api_alloc(call, sizeof(*one));
	MetaText ids = {0};
	MetaText partitions = {0};
	const char *params[3] = {NULL};
	int16_t error;

	*one = (FetchGroup){op, out, n < 0};
	out->group_id = group_id;
	meta_text_puts(&ids, "{");
	meta_text_puts(&partitions, "{");
	if (n >= 0)
		put_topics(one, topics, n, &ids, &partitions);
	meta_text_puts(&ids, "}");
	meta_text_puts(&partitions, "}");
	error = group_slot_check(groups_set(call->broker->groups), group_id);
	if (error != KERR_NONE)
		fail_group(call, out, error);
	else if (n < 0 || ids.len > 2)
	{
		params[0] = api_printf(call, "%.*s", group_id.len, group_id.s).s;
		params[1] = n < 0 ? NULL : meta_text_cstr(&ids);
		params[2] = n < 0 ? NULL : meta_text_cstr(&partitions);
		op->waiting++;
		meta_call(call->broker->meta, META_GROUP_FETCH, params, 3, api_deadline(call, 10000), on_fetched,
				  one);
	}
	meta_text_free(&ids);
	meta_text_free(&partitions);
}

/* Below v8 one group, in fields of its own. */
static void
fetch_old(FetchOp *op, const OffsetFetchRequest *request)
{
	ApiCall *call = op->call;
	int32_t n = request->n_topics;
	OffsetFetchRequestGroupsTopics *topics = API_NEW(call, OffsetFetchRequestGroupsTopics, n);

	for (int32_t i = 0; i < n; i++)
	{
		topics[i].name = request->topics[i].name;
		topics[i].partition_indexes = request->topics[i].partition_indexes;
		topics[i].n_partition_indexes = request->topics[i].n_partition_indexes;
	}
	/* v1 knows no null: an empty list is none. */
	fetch_group(op, request->group_id, topics, call->version < 2 && n < 0 ? 0 : n, &op->groups[0]);
}

void
offset_fetch_handle(ApiCall *call)
{
	const OffsetFetchRequest *request = call->body;
	FetchOp *op = api_alloc(call, sizeof(*op));

	op->call = call;
	op->waiting = 1; /* this function */
	op->n_groups = call->version < 8 ? 1 : request->n_groups > 0 ? request->n_groups : 0;
	op->groups = API_NEW(call, OffsetFetchResponseGroups, op->n_groups);
	call->op = op;
	call->cancelled = on_client_gone;
	if (call->version < 8)
		fetch_old(op, request);
	else
	{
		for (int32_t i = 0; i < op->n_groups; i++)
			fetch_group(op, request->groups[i].group_id, request->groups[i].topics,
						request->groups[i].n_topics, &op->groups[i]);
	}
	finish_one(op);
}
