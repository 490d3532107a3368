/* groups.c: what groups there are, who reads what, and how far behind. */
#include <stdlib.h>

#include "client/ctl/ctl.h"

#define BAR 20 /* characters of the longest bar */

static int
group_outcome(const char *group, int16_t code, const char *done)
{
	pgb_error err;

	if (code != 0)
	{
		error_kafka(&err, code, "group %s", group);
		return ctl_error(&err);
	}
	(void) printf("group %s %s\n", group, done);
	return CTL_OK;
}

int
groups_list(Ctl *ctl)
{
	static const char *const columns[] = {"group", "state", "protocol", "#coordinator", NULL};
	MetadataRequest all;
	MetadataResponse *brokers;
	ListGroupsRequest req;
	int code = CTL_OK;
	Table t;

	WIRE_INIT(MetadataRequest, &all);
	WIRE_INIT(ListGroupsRequest, &req);
	if (ctl_handle(ctl, NULL) == NULL ||
		(brokers = ctl_call(ctl, CLIENT_NO_NODE, API_METADATA, 12, &all, &code)) == NULL)
		return code == CTL_OK ? CTL_FAILED : code;
	table_begin(&t, ctl, columns);
	for (int32_t i = 0; i < brokers->n_brokers; i++)
	{
		Client *c = &ctl->handle->c;
		ListGroupsResponse *resp;

		(void) client_add_node(c, brokers->brokers[i].node_id, brokers->brokers[i].host,
							   brokers->brokers[i].port);
		resp = ctl_call(ctl, brokers->brokers[i].node_id, API_LIST_GROUPS, 4, &req, &code);
		for (int32_t k = 0; resp != NULL && k < resp->n_groups; k++)
		{
			table_text(&t, resp->groups[k].group_id);
			table_text(&t, resp->groups[k].group_state);
			table_text(&t, resp->groups[k].protocol_type);
			table_cell(&t, "%d", brokers->brokers[i].node_id);
		}
	}
	table_end(&t);
	return code;
}

/* The coordinator of the handle's group; CLIENT_NO_NODE: it has been said why. */
static int32_t
coordinator(Ctl *ctl, const char *group, int *code)
{
	pgb_consumer *c = ctl->handle;
	int64_t until = client_clock() + ctl->timeout;
	Node *node;

	while ((node = group_coordinator(c)) == NULL && client_clock() < until && !ctl_stopped())
		client_run(&c->c, until);
	if (node == NULL)
		*code = ctl_fail(CTL_NO_BROKER, "the coordinator of group %s was not found in time; %s", group,
						 c->c.last_error.text);
	return node == NULL ? CLIENT_NO_NODE : node->id;
}

/* The member that an assignment gives a partition to. */
static const DescribeGroupsResponseGroupsMembers *
reader_of(const DescribeGroupsResponseGroups *g, WStr topic, int32_t partition)
{
	for (int32_t i = 0; i < g->n_members; i++)
	{
		ConsumerProtocolAssignment as;
		WireEachPart each = {.m = &ConsumerProtocolAssignment_desc, .message = &as};
		bool found = false;
		Arena a;

		arena_init(&a, 1024);
		if (wire_unpack(&ConsumerProtocolAssignment_desc, g->members[i].member_assignment, &a, &as) == 0)
			while (!found && wire_by_topic_next(&each) != NULL)
				found = wstr_eq(*each.topic, topic) && each.index == partition;
		arena_free(&a);
		if (found)
			return &g->members[i];
	}
	return NULL;
}

static int64_t
end_of(Ctl *ctl, WStr topic, int32_t partition)
{
	char *name = strndup(topic.s, (size_t) topic.len);
	pgb_place place = {name, partition, PGB_LATEST, 0};
	int64_t end = PGB_UNKNOWN;

	if (name != NULL && pgb_offsets(ctl->handle, &place, 1, (int) ctl->timeout, NULL) == 0)
		end = place.offset;
	free(name);
	return end;
}

static void
lag_cells(const Ctl *ctl, Table *t, int64_t lag, int64_t most)
{
	char bar[BAR * 3 + 1] = "";
	size_t len = 0;

	if (lag < 0)
		table_cell(t, "?");
	else
		table_cell(t, "%lld", (long long) lag);
	if (ctl->json)
		return;
	for (int64_t i = 0; lag > 0 && i < 1 + lag * (BAR - 1) / most; i++)
	{
		memcpy(bar + len, "\xe2\x96\x88", 4); /* a full block */
		len += 3;
	}
	table_cell(t, "%s", bar);
}

static int
compare_partitions(const void *a, const void *b)
{
	return ((const OffsetFetchResponseTopicsPartitions *) a)->partition_index -
		   ((const OffsetFetchResponseTopicsPartitions *) b)->partition_index;
}

static void
describe(Ctl *ctl, const char *group, const DescribeGroupsResponseGroups *g, const OffsetFetchResponse *off)
{
	static const char *const people[] = {"topic",  "#partition", "#committed", "#end", "#lag",
										 "behind", "member",     "host",       NULL};
	static const char *const json[] = {"group", "state", "topic",  "#partition", "#committed",
									   "#end",  "#lag",  "member", "host",       NULL};
	int64_t *ends, most = 1;
	size_t n = 0, at = 0;
	Table t;

	for (int32_t i = 0; i < off->n_topics; i++)
	{
		qsort(off->topics[i].partitions, (size_t) off->topics[i].n_partitions,
			  sizeof(off->topics[i].partitions[0]), compare_partitions);
		n += (size_t) off->topics[i].n_partitions;
	}
	ends = calloc(n + 1, sizeof(*ends));
	if (ends == NULL)
		return;
	for (int32_t i = 0; i < off->n_topics; i++)
		for (int32_t k = 0; k < off->topics[i].n_partitions; k++, at++)
		{
			ends[at] = end_of(ctl, off->topics[i].name, off->topics[i].partitions[k].partition_index);
			if (ends[at] - off->topics[i].partitions[k].committed_offset > most)
				most = ends[at] - off->topics[i].partitions[k].committed_offset;
		}
	if (!ctl->json)
		(void) printf("group %s is %.*s, %d members, assignor %.*s\n", group, (int) g->group_state.len,
					  g->group_state.s, g->n_members,
					  g->protocol_data.len < 0 ? 0 : (int) g->protocol_data.len, g->protocol_data.s);
	table_begin(&t, ctl, ctl->json ? json : people);
	at = 0;
	for (int32_t i = 0; i < off->n_topics; i++)
		for (int32_t k = 0; k < off->topics[i].n_partitions; k++, at++)
		{
			const OffsetFetchResponseTopicsPartitions *p = &off->topics[i].partitions[k];
			const DescribeGroupsResponseGroupsMembers *m =
				reader_of(g, off->topics[i].name, p->partition_index);
			int64_t lag = ends[at] < 0 || p->committed_offset < 0 ? -1 : ends[at] - p->committed_offset;

			if (ctl->json)
			{
				table_cell(&t, "%s", group);
				table_text(&t, g->group_state);
			}
			table_text(&t, off->topics[i].name);
			table_cell(&t, "%d", p->partition_index);
			table_cell(&t, "%lld", (long long) p->committed_offset);
			table_cell(&t, ends[at] < 0 ? "?" : "%lld", (long long) ends[at]);
			lag_cells(ctl, &t, lag, most);
			table_text(&t, m == NULL ? WSTR_NULL : m->member_id);
			table_text(&t, m == NULL ? WSTR_NULL : m->client_host);
		}
	table_end(&t);
	free(ends);
}

static int
describe_one(Ctl *ctl, const char *group)
{
	DescribeGroupsRequest req;
	DescribeGroupsResponse *resp;
	OffsetFetchRequest fetch;
	OffsetFetchResponse *off;
	WStr name = wstr(group);
	int code = CTL_OK;
	int32_t node;

	if (ctl_handle(ctl, group) == NULL)
		return CTL_FAILED;
	node = coordinator(ctl, group, &code);
	WIRE_INIT(DescribeGroupsRequest, &req);
	WIRE_INIT(OffsetFetchRequest, &fetch);
	req.groups = &name;
	req.n_groups = 1;
	fetch.group_id = name;
	fetch.n_topics = -1;
	if (node < 0 || (resp = ctl_call(ctl, node, API_DESCRIBE_GROUPS, 5, &req, &code)) == NULL)
		return code;
	off = ctl_call(ctl, node, API_OFFSET_FETCH, 7, &fetch, &code);
	if (off == NULL || resp->n_groups < 1)
		return code == CTL_OK ? CTL_FAILED : code;
	if (resp->groups[0].error_code != 0)
		return group_outcome(group, resp->groups[0].error_code, "");
	if (wstr_eq(resp->groups[0].group_state, WSTR_LIT("Dead")) && off->n_topics == 0)
		return group_outcome(group, KERR_GROUP_ID_NOT_FOUND, "");
	describe(ctl, group, &resp->groups[0], off);
	return CTL_OK;
}

int
groups_describe(Ctl *ctl)
{
	int code = CTL_OK;

	for (int i = 0; i < ctl->n_args; i++)
	{
		int one = describe_one(ctl, ctl->args[i]);

		code = code != CTL_OK ? code : one;
		pgb_consumer_close(ctl->handle, 0);
		ctl->handle = NULL;
	}
	return code;
}

int
groups_delete(Ctl *ctl)
{
	int code = CTL_OK;

	for (int i = 0; i < ctl->n_args; i++)
	{
		DeleteGroupsRequest req;
		DeleteGroupsResponse *resp;
		WStr name = wstr(ctl->args[i]);
		int one = CTL_OK;
		int32_t node;

		if (ctl_handle(ctl, ctl->args[i]) == NULL)
			return CTL_FAILED;
		node = coordinator(ctl, ctl->args[i], &one);
		WIRE_INIT(DeleteGroupsRequest, &req);
		req.groups_names = &name;
		req.n_groups_names = 1;
		resp = node < 0 ? NULL : ctl_call(ctl, node, API_DELETE_GROUPS, 2, &req, &one);
		if (resp != NULL && resp->n_results > 0)
			one = group_outcome(ctl->args[i], resp->results[0].error_code, "deleted");
		code = code != CTL_OK ? code : one;
		pgb_consumer_close(ctl->handle, 0);
		ctl->handle = NULL;
	}
	return code;
}

/* The offsets that -o means, of all partitions of a topic. */
static int
resolve(Ctl *ctl, const char *where, pgb_place *places, int n)
{
	int64_t at = strcmp(where, "earliest") == 0 ? PGB_EARLIEST
				 : strcmp(where, "latest") == 0 ? PGB_LATEST
												: ctl_time(where);
	pgb_error err;
	char *end;
	long long number = strtoll(where, &end, 10);

	for (int i = 0; i < n; i++)
		places[i].offset = at != -1 || strcmp(where, "latest") == 0 ? at : number;
	if (at == -1 && strcmp(where, "latest") != 0)
		return *end == '\0' && number >= 0 ? CTL_OK
										   : ctl_fail(CTL_USAGE, "\"%s\" is no offset and no time", where);
	if (pgb_offsets(ctl->handle, places, (size_t) n, (int) ctl->timeout, &err) != 0)
		return ctl_error(&err);
	for (int i = 0; i < n; i++)
		if (places[i].offset == PGB_UNKNOWN)
		{
			/* Nothing so late: the end. */
			places[i].offset = PGB_LATEST;
			(void) pgb_offsets(ctl->handle, &places[i], 1, (int) ctl->timeout, NULL);
		}
	return CTL_OK;
}

int
groups_reset(Ctl *ctl)
{
	static const char *const columns[] = {"topic", "#partition", "#offset", NULL};
	const char *where = ctl->opt['o'];
	long long only = ctl_number(ctl, 'p', -1);
	int code = CTL_OK;
	pgb_error err;
	Table t;

	if (where == NULL || ctl->n_args < 2)
		return ctl_fail(CTL_USAGE, "groups reset takes a group, topics, and with -o where to");
	if (only < -1 || ctl_handle(ctl, ctl->args[0]) == NULL)
		return CTL_USAGE;
	table_begin(&t, ctl, columns);
	for (int i = 1; i < ctl->n_args && code == CTL_OK; i++)
	{
		int n = pgb_partitions(ctl->handle, ctl->args[i], (int) ctl->timeout, &err);
		pgb_place *places = n < 0 ? NULL : calloc((size_t) n, sizeof(*places));
		int first = only < 0 ? 0 : (int) only, last = only < 0 ? n : (int) only + 1;

		if (places == NULL || last > n)
		{
			code = n < 0 ? ctl_error(&err)
						 : ctl_fail(CTL_NOT_FOUND, "topic %s has no partition %lld", ctl->args[i], only);
			free(places);
			break;
		}
		for (int k = 0; k < n; k++)
			places[k] = (pgb_place){ctl->args[i], k, 0, 0};
		code = resolve(ctl, where, places + first, last - first);
		if (code == CTL_OK &&
			pgb_commit(ctl->handle, places + first, (size_t) (last - first), (int) ctl->timeout, &err) != 0)
			code = err.code == KERR_UNKNOWN_MEMBER_ID || err.code == KERR_ILLEGAL_GENERATION
					   ? ctl_fail(CTL_FAILED, "group %s has members: stop them first", ctl->args[0])
					   : ctl_error(&err);
		for (int k = first; code == CTL_OK && k < last; k++)
		{
			table_cell(&t, "%s", ctl->args[i]);
			table_cell(&t, "%d", k);
			table_cell(&t, "%lld", (long long) places[k].offset);
		}
		free(places);
	}
	table_end(&t);
	return code;
}
