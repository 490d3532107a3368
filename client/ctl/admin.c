/* admin.c: topics, offsets, the cluster, configs. */
#include <limits.h>
#include <stdlib.h>

#include "client/ctl/ctl.h"

/* What a broker says about one of several things that it was asked to do. */
static int
outcome(const char *what, WStr name, int16_t error, WStr message, const char *done)
{
	pgb_error err;

	if (error == 0)
	{
		(void) printf("%s %.*s %s\n", what, (int) name.len, name.s, done);
		return CTL_OK;
	}
	error_kafka(&err, error, "%s %.*s", what, (int) name.len, name.s);
	if (message.len > 0)
		error_set(&err, error, false, "%s %.*s: %.*s", what, (int) name.len, name.s, (int) message.len,
				  message.s);
	return ctl_error(&err);
}

static int
worse(int a, int b)
{
	return a != CTL_OK ? a : b;
}

/* All topics, or those named; the response is kept. */
static MetadataResponse *
metadata(Ctl *ctl, int *code)
{
	MetadataRequestTopics *topics = calloc((size_t) ctl->n_args + 1, sizeof(*topics));
	MetadataRequest req;
	MetadataResponse *resp = NULL;

	WIRE_INIT(MetadataRequest, &req);
	req.allow_auto_topic_creation = false;
	for (int i = 0; topics != NULL && i < ctl->n_args; i++)
		topics[i].name = wstr(ctl->args[i]);
	req.topics = ctl->n_args == 0 ? NULL : topics;
	req.n_topics = ctl->n_args == 0 ? -1 : ctl->n_args;
	if (topics != NULL && ctl_handle(ctl, NULL) != NULL)
		resp = ctl_call(ctl, CLIENT_NO_NODE, API_METADATA, 12, &req, code);
	else
		*code = CTL_FAILED;
	if (resp != NULL)
		free(topics);
	return resp;
}

static int
compare_topics(const void *a, const void *b)
{
	const MetadataResponseTopics *x = a, *y = b;
	int32_t n = x->name.len < y->name.len ? x->name.len : y->name.len;
	int c = n > 0 ? memcmp(x->name.s, y->name.s, (size_t) n) : 0;

	return c != 0 ? c : x->name.len - y->name.len;
}

int
topics_list(Ctl *ctl)
{
	static const char *const columns[] = {"topic",       "#partitions",       "#replicas",
										  "#leaderless", "#under-replicated", NULL};
	int code = CTL_OK;
	MetadataResponse *resp = metadata(ctl, &code);
	Table t;

	if (resp == NULL)
		return code;
	qsort(resp->topics, (size_t) resp->n_topics, sizeof(*resp->topics), compare_topics);
	table_begin(&t, ctl, columns);
	for (int32_t i = 0; i < resp->n_topics; i++)
	{
		const MetadataResponseTopics *m = &resp->topics[i];
		int leaderless = 0, under = 0;

		if (m->is_internal && ctl->opt['a'] == NULL)
			continue;
		for (int32_t k = 0; k < m->n_partitions; k++)
		{
			leaderless += m->partitions[k].leader_id < 0;
			under += m->partitions[k].n_isr_nodes < m->partitions[k].n_replica_nodes;
		}
		table_text(&t, m->name);
		table_cell(&t, "%d", m->n_partitions);
		table_cell(&t, "%d", m->n_partitions > 0 ? m->partitions[0].n_replica_nodes : 0);
		table_cell(&t, "%d", leaderless);
		table_cell(&t, "%d", under);
	}
	table_end(&t);
	return CTL_OK;
}

/* First and last offsets of all partitions of a topic, two places each; NULL: it has been said why. */
static pgb_place *
ends_of(Ctl *ctl, const char *topic, int32_t n, int64_t third, int *code)
{
	int kinds = third == PGB_UNKNOWN ? 2 : 3;
	pgb_place *places = calloc((size_t) (n * kinds) + 1, sizeof(*places));
	pgb_error err;

	for (int32_t i = 0; places != NULL && i < n; i++)
	{
		places[i] = (pgb_place){topic, i, PGB_EARLIEST, 0};
		places[n + i] = (pgb_place){topic, i, PGB_LATEST, 0};
		if (kinds == 3)
			places[2 * n + i] = (pgb_place){topic, i, third, 0};
	}
	/* A request has one place a partition. */
	for (int k = 0; places != NULL && k < kinds; k++)
		if (pgb_offsets(ctl->handle, places + k * n, (size_t) n, (int) ctl->timeout, &err) != 0)
		{
			*code = ctl_error(&err);
			free(places);
			return NULL;
		}
	return places;
}

static void
ids_cell(Table *t, const int32_t *ids, int32_t n)
{
	char text[256];
	size_t len = 0;

	text[0] = '\0';
	for (int32_t i = 0; i < n && len + 12 < sizeof(text); i++)
		len += (size_t) snprintf(text + len, sizeof(text) - len, "%s%d", i > 0 ? "," : "", ids[i]);
	table_cell(t, "%s", text);
}

static void
offset_cell(Table *t, const pgb_place *p)
{
	if (p == NULL || p->offset < 0)
		table_cell(t, "?");
	else
		table_cell(t, "%lld", (long long) p->offset);
}

static int
describe(Ctl *ctl, Table *t, const MetadataResponseTopics *m)
{
	int code = CTL_OK;
	char *name = strndup(m->name.s, (size_t) m->name.len);
	bool leaders = true;
	pgb_place *ends = NULL;

	for (int32_t k = 0; k < m->n_partitions; k++)
		leaders = leaders && m->partitions[k].leader_id >= 0;
	if (name != NULL && leaders)
		ends = ends_of(ctl, name, m->n_partitions, PGB_UNKNOWN, &code);
	for (int32_t i = 0; i < m->n_partitions; i++)
		for (int32_t k = 0; k < m->n_partitions; k++)
		{
			const MetadataResponseTopicsPartitions *p = &m->partitions[k];

			if (p->partition_index != i)
				continue;
			table_text(t, m->name);
			table_cell(t, "%d", i);
			table_cell(t, "%d", p->leader_id);
			table_cell(t, "%d", p->leader_epoch);
			ids_cell(t, p->replica_nodes, p->n_replica_nodes);
			ids_cell(t, p->isr_nodes, p->n_isr_nodes);
			offset_cell(t, ends == NULL ? NULL : &ends[i]);
			offset_cell(t, ends == NULL ? NULL : &ends[m->n_partitions + i]);
		}
	free(ends);
	free(name);
	return code;
}

int
topics_describe(Ctl *ctl)
{
	static const char *const columns[] = {"topic",   "#partition", "#leader", "#epoch", "replicas",
										  "in-sync", "#first",     "#end",    NULL};
	int code = CTL_OK;
	MetadataResponse *resp = metadata(ctl, &code);
	Table t;

	if (resp == NULL)
		return code;
	table_begin(&t, ctl, columns);
	for (int32_t i = 0; i < resp->n_topics; i++)
		code = worse(code,
					 resp->topics[i].error_code != 0
						 ? outcome("topic", resp->topics[i].name, resp->topics[i].error_code, WSTR_NULL, "")
						 : describe(ctl, &t, &resp->topics[i]));
	table_end(&t);
	return code;
}

int
topics_create(Ctl *ctl)
{
	long long partitions = ctl_number(ctl, 'P', -1), replicas = ctl_number(ctl, 'r', -1);
	CreateTopicsRequestTopics *topics = calloc((size_t) ctl->n_args, sizeof(*topics));
	CreateTopicsRequestTopicsConfigs configs[64];
	CreateTopicsRequest req;
	CreateTopicsResponse *resp;
	int code = CTL_OK;

	if (topics == NULL || partitions < -1 || replicas < -1 || ctl_handle(ctl, NULL) == NULL)
	{
		free(topics);
		return CTL_USAGE;
	}
	WIRE_INIT(CreateTopicsRequest, &req);
	for (int i = 0; i < ctl->n_multi[1]; i++)
	{
		char *eq = strchr(ctl->multi[1][i], '=');

		configs[i].name = wstr_n(ctl->multi[1][i], (size_t) (eq - ctl->multi[1][i]));
		configs[i].value = wstr(eq + 1);
	}
	for (int i = 0; i < ctl->n_args; i++)
	{
		topics[i].name = wstr(ctl->args[i]);
		topics[i].num_partitions = (int32_t) partitions;
		topics[i].replication_factor = (int16_t) replicas;
		topics[i].configs = configs;
		topics[i].n_configs = ctl->n_multi[1];
	}
	req.topics = topics;
	req.n_topics = ctl->n_args;
	req.timeout_ms = (int32_t) ctl->timeout;
	resp = ctl_call(ctl, CLIENT_NO_NODE, API_CREATE_TOPICS, 7, &req, &code);
	for (int32_t i = 0; resp != NULL && i < resp->n_topics; i++)
		code = worse(code, outcome("topic", resp->topics[i].name, resp->topics[i].error_code,
								   resp->topics[i].error_message, "created"));
	free(topics);
	return code;
}

int
topics_delete(Ctl *ctl)
{
	WStr *names = calloc((size_t) ctl->n_args, sizeof(*names));
	DeleteTopicsRequest req;
	DeleteTopicsResponse *resp;
	int code = CTL_OK;

	if (names == NULL || ctl_handle(ctl, NULL) == NULL)
	{
		free(names);
		return CTL_FAILED;
	}
	WIRE_INIT(DeleteTopicsRequest, &req);
	for (int i = 0; i < ctl->n_args; i++)
		names[i] = wstr(ctl->args[i]);
	req.topic_names = names;
	req.n_topic_names = ctl->n_args;
	req.timeout_ms = (int32_t) ctl->timeout;
	resp = ctl_call(ctl, CLIENT_NO_NODE, API_DELETE_TOPICS, 5, &req, &code);
	for (int32_t i = 0; resp != NULL && i < resp->n_responses; i++)
		code = worse(code, outcome("topic", resp->responses[i].name, resp->responses[i].error_code,
								   resp->responses[i].error_message, "deleted"));
	free(names);
	return code;
}

int
topics_grow(Ctl *ctl)
{
	CreatePartitionsRequest req;
	CreatePartitionsRequestTopics topic;
	CreatePartitionsResponse *resp;
	char *end = NULL;
	int code = CTL_OK;

	if (ctl->n_args != 2 || strtol(ctl->args[1], &end, 10) < 1 || *end != '\0')
		return ctl_fail(CTL_USAGE, "topics grow takes a topic and how many partitions it gets in all");
	if (ctl_handle(ctl, NULL) == NULL)
		return CTL_FAILED;
	WIRE_INIT(CreatePartitionsRequest, &req);
	WIRE_INIT(CreatePartitionsRequestTopics, &topic);
	topic.name = wstr(ctl->args[0]);
	topic.count = (int32_t) strtol(ctl->args[1], NULL, 10);
	topic.n_assignments = -1;
	req.topics = &topic;
	req.n_topics = 1;
	req.timeout_ms = (int32_t) ctl->timeout;
	resp = ctl_call(ctl, CLIENT_NO_NODE, API_CREATE_PARTITIONS, 3, &req, &code);
	for (int32_t i = 0; resp != NULL && i < resp->n_results; i++)
		code = worse(code, outcome("topic", resp->results[i].name, resp->results[i].error_code,
								   resp->results[i].error_message, "has more partitions"));
	return code;
}

int
offsets(Ctl *ctl)
{
	static const char *const columns[] = {"topic", "#partition", "#first", "#end", "#messages", "#at", NULL};
	int64_t at = ctl->opt['o'] == NULL ? PGB_UNKNOWN : ctl_time(ctl->opt['o']);
	long long only = ctl_number(ctl, 'p', -1);
	int code = CTL_OK;
	Table t;

	if (at == -1)
		return ctl_fail(CTL_USAGE, "\"%s\" is no time", ctl->opt['o']);
	if (only < -1 || ctl_handle(ctl, NULL) == NULL)
		return CTL_FAILED;
	table_begin(&t, ctl, columns);
	for (int i = 0; i < ctl->n_args; i++)
	{
		pgb_error err;
		int n = pgb_partitions(ctl->handle, ctl->args[i], (int) ctl->timeout, &err);
		pgb_place *ends;

		if (n < 0)
			code = worse(code, ctl_error(&err));
		ends = n < 0 ? NULL : ends_of(ctl, ctl->args[i], n, at, &code);
		for (int k = 0; ends != NULL && k < n; k++)
		{
			if (only >= 0 && only != k)
				continue;
			table_cell(&t, "%s", ctl->args[i]);
			table_cell(&t, "%d", k);
			offset_cell(&t, &ends[k]);
			offset_cell(&t, &ends[n + k]);
			table_cell(&t, "%lld", (long long) (ends[n + k].offset - ends[k].offset));
			offset_cell(&t, at == PGB_UNKNOWN ? NULL : &ends[2 * n + k]);
		}
		free(ends);
	}
	table_end(&t);
	return code;
}

int
cluster(Ctl *ctl)
{
	static const char *const columns[] = {"#broker", "host", "#port", "rack", "controller", "cluster", NULL};
	MetadataRequest req;
	MetadataResponse *resp;
	int code = CTL_OK;
	Table t;

	WIRE_INIT(MetadataRequest, &req);
	req.allow_auto_topic_creation = false;
	if (ctl_handle(ctl, NULL) == NULL ||
		(resp = ctl_call(ctl, CLIENT_NO_NODE, API_METADATA, 12, &req, &code)) == NULL)
		return worse(code, CTL_FAILED);
	table_begin(&t, ctl, columns);
	for (int32_t i = 0; i < resp->n_brokers; i++)
	{
		table_cell(&t, "%d", resp->brokers[i].node_id);
		table_text(&t, resp->brokers[i].host);
		table_cell(&t, "%d", resp->brokers[i].port);
		table_text(&t, resp->brokers[i].rack);
		table_cell(&t, "%s", resp->brokers[i].node_id == resp->controller_id ? "yes" : "");
		table_text(&t, resp->cluster_id);
	}
	table_end(&t);
	return CTL_OK;
}

/* ---- configs ---- */

/* topic|broker|group as the protocol numbers them; -1: it has been said that it is none. */
static int8_t
resource(const Ctl *ctl)
{
	static const char *const words[] = {"topic", "broker", "group"};
	static const int8_t types[] = {2, 4, 32};

	for (int i = 0; ctl->n_args == 2 && i < 3; i++)
		if (strcmp(ctl->args[0], words[i]) == 0)
			return types[i];
	(void) ctl_fail(CTL_USAGE, "configs are of a topic, a broker or a group: configs show topic NAME");
	return -1;
}

/* A broker is asked itself; everything else, anybody. */
static int32_t
resource_node(Ctl *ctl, int8_t type)
{
	MetadataRequest req;
	int code = CTL_OK;

	WIRE_INIT(MetadataRequest, &req);
	if (type != 4 || ctl->args[1][0] == '\0')
		return CLIENT_NO_NODE;
	/* So that the brokers are known. */
	if (ctl_call(ctl, CLIENT_NO_NODE, API_METADATA, 12, &req, &code) == NULL)
		return CLIENT_NO_NODE;
	for (int turns = 0; client_node(&ctl->handle->c, atoi(ctl->args[1])) == NULL && turns < 20; turns++)
		client_run(&ctl->handle->c, client_clock() + 100);
	return client_node(&ctl->handle->c, atoi(ctl->args[1])) != NULL ? atoi(ctl->args[1]) : CLIENT_NO_NODE;
}

static const char *
source_name(int8_t source)
{
	static const char *const names[] = {"",        "topic", "broker",  "cluster", "file",
										"default", "",      "metrics", "group"};

	return source >= 0 && source < 9 ? names[source] : "";
}

int
configs_show(Ctl *ctl)
{
	static const char *const columns[] = {"config", "value", "from", NULL};
	DescribeConfigsRequestResources what;
	DescribeConfigsRequest req;
	DescribeConfigsResponse *resp;
	int8_t type = resource(ctl);
	int code = CTL_OK;
	Table t;

	if (type < 0 || ctl_handle(ctl, NULL) == NULL)
		return CTL_USAGE;
	WIRE_INIT(DescribeConfigsRequest, &req);
	WIRE_INIT(DescribeConfigsRequestResources, &what);
	what.resource_type = type;
	what.resource_name = wstr(ctl->args[1]);
	what.n_configuration_keys = -1;
	req.resources = &what;
	req.n_resources = 1;
	resp = ctl_call(ctl, resource_node(ctl, type), API_DESCRIBE_CONFIGS, 4, &req, &code);
	if (resp == NULL || resp->n_results < 1)
		return worse(code, CTL_FAILED);
	if (resp->results[0].error_code != 0)
		return outcome(ctl->args[0], wstr(ctl->args[1]), resp->results[0].error_code,
					   resp->results[0].error_message, "");
	table_begin(&t, ctl, columns);
	for (int32_t i = 0; i < resp->results[0].n_configs; i++)
	{
		const DescribeConfigsResponseResultsConfigs *c = &resp->results[0].configs[i];

		if (c->config_source == 5 && ctl->opt['a'] == NULL)
			continue;
		table_text(&t, c->name);
		table_text(&t, c->is_sensitive ? WSTR_LIT("(hidden)") : c->value);
		table_cell(&t, "%s", source_name(c->config_source));
	}
	table_end(&t);
	return CTL_OK;
}

int
configs_set(Ctl *ctl)
{
	IncrementalAlterConfigsRequestResources what;
	IncrementalAlterConfigsRequestResourcesConfigs configs[64];
	IncrementalAlterConfigsRequest req;
	IncrementalAlterConfigsResponse *resp;
	int8_t type = resource(ctl);
	int code = CTL_OK;

	if (type < 0 || ctl->n_multi[1] == 0)
		return type < 0 ? CTL_USAGE : ctl_fail(CTL_USAGE, "-c NAME=VALUE says what to set");
	if (ctl_handle(ctl, NULL) == NULL)
		return CTL_FAILED;
	WIRE_INIT(IncrementalAlterConfigsRequest, &req);
	WIRE_INIT(IncrementalAlterConfigsRequestResources, &what);
	for (int i = 0; i < ctl->n_multi[1]; i++)
	{
		char *eq = strchr(ctl->multi[1][i], '=');

		configs[i].name = wstr_n(ctl->multi[1][i], (size_t) (eq - ctl->multi[1][i]));
		configs[i].config_operation = eq[1] == '\0';
		configs[i].value = eq[1] == '\0' ? WSTR_NULL : wstr(eq + 1);
	}
	what.resource_type = type;
	what.resource_name = wstr(ctl->args[1]);
	what.configs = configs;
	what.n_configs = ctl->n_multi[1];
	req.resources = &what;
	req.n_resources = 1;
	resp = ctl_call(ctl, resource_node(ctl, type), API_INCREMENTAL_ALTER_CONFIGS, 1, &req, &code);
	if (resp == NULL || resp->n_responses < 1)
		return worse(code, CTL_FAILED);
	return outcome(ctl->args[0], wstr(ctl->args[1]), resp->responses[0].error_code,
				   resp->responses[0].error_message, "changed");
}
