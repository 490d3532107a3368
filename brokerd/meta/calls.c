/*
 * calls.c: the typed calls of the contract, and meta_call itself.
 */
#include "brokerd/meta/meta_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"

void
meta_call(Meta *m, MetaStatement statement, const char *const *params, int n_params, int64_t deadline,
		  MetaCallDone done, void *ctx)
{
	if (deadline == 0)
		deadline = clock_boot_ms() + m->o.call_timeout_ms;
	session_call(m->sessions[meta_statement_row(statement)->session], statement, params, n_params, deadline,
				 done, ctx);
}

/* For calls whose outcome nobody waits for. */
static void
log_failure(void *ctx, const MetaResult *r)
{
	(void) ctx;
	if (meta_result_status(r) == META_ERROR)
		log_msg(LOG_WARNING, "meta", "PostgreSQL refused a report: %s", meta_result_message(r));
}

static const char *
bool_text(bool b)
{
	return b ? "true" : "false";
}

/* ---- arrays ---- */

static void
begin_array(MetaText *t)
{
	meta_text_puts(t, "{");
}

static void
comma(MetaText *t)
{
	if (t->s[t->len - 1] != '{')
		meta_text_puts(t, ",");
}

static void
add_int(MetaText *t, int64_t v)
{
	comma(t);
	if (v == META_FIGURE_UNKNOWN)
		meta_text_puts(t, "NULL");
	else
		meta_text_printf(t, "%" PRId64, v);
}

static void
add_uuid(MetaText *t, const WUuid *id)
{
	comma(t);
	meta_text_uuid(t, id);
}

static const char *
end_array(MetaText *t)
{
	meta_text_puts(t, "}");
	return meta_text_cstr(t);
}

/* ---- what clients ask for ---- */

void
meta_create_topics(Meta *m, const MetaRequester *who, const char *topics_json, bool validate_only,
				   int64_t deadline, MetaCallDone done, void *ctx)
{
	const char *params[] = {who->principal, who->address, topics_json, bool_text(validate_only)};

	meta_call(m, META_CREATE_TOPICS, params, 4, deadline, done, ctx);
}

void
meta_delete_topics(Meta *m, const MetaRequester *who, const char *const *names, const WUuid *ids, int n,
				   int64_t deadline, MetaCallDone done, void *ctx)
{
	MetaText by_name = {0}, by_id = {0};
	const char *params[] = {who->principal, who->address, NULL, NULL};

	begin_array(&by_name);
	begin_array(&by_id);
	for (int i = 0; i < n; i++)
	{
		if (names != NULL && names[i] != NULL)
		{
			comma(&by_name);
			meta_text_element(&by_name, names[i]);
		}
		else
			add_uuid(&by_id, &ids[i]);
	}
	params[2] = end_array(&by_name);
	params[3] = end_array(&by_id);
	meta_call(m, META_DELETE_TOPICS, params, 4, deadline, done, ctx);
	meta_text_free(&by_name);
	meta_text_free(&by_id);
}

void
meta_create_partitions(Meta *m, const MetaRequester *who, const char *topics_json, bool validate_only,
					   int64_t deadline, MetaCallDone done, void *ctx)
{
	const char *params[] = {who->principal, who->address, topics_json, bool_text(validate_only)};

	meta_call(m, META_CREATE_PARTITIONS, params, 4, deadline, done, ctx);
}

void
meta_alter_configs(Meta *m, const MetaRequester *who, const char *resources_json, bool validate_only,
				   bool replace, int64_t deadline, MetaCallDone done, void *ctx)
{
	const char *params[] = {who->principal, who->address, resources_json, bool_text(validate_only),
							bool_text(replace)};

	meta_call(m, META_ALTER_CONFIGS, params, 5, deadline, done, ctx);
}

void
meta_elect_leaders(Meta *m, const MetaRequester *who, int election_type, const char *topics_json,
				   int64_t deadline, MetaCallDone done, void *ctx)
{
	char type[16];
	const char *params[] = {who->principal, who->address, type, topics_json};

	snprintf(type, sizeof(type), "%d", election_type);
	meta_call(m, META_ELECT_LEADERS, params, 4, deadline, done, ctx);
}

void
meta_alter_reassignments(Meta *m, const MetaRequester *who, bool allow_factor_change, const char *topics_json,
						 int64_t deadline, MetaCallDone done, void *ctx)
{
	const char *params[] = {who->principal, who->address, bool_text(allow_factor_change), topics_json};

	meta_call(m, META_ALTER_REASSIGNMENTS, params, 4, deadline, done, ctx);
}

void
meta_list_reassignments(Meta *m, const char *topics_json, int64_t deadline, MetaCallDone done, void *ctx)
{
	const char *params[] = {topics_json};

	meta_call(m, META_LIST_REASSIGNMENTS, params, 1, deadline, done, ctx);
}

void
meta_unregister_broker(Meta *m, const MetaRequester *who, int32_t broker_id, int64_t deadline,
					   MetaCallDone done, void *ctx)
{
	char id[16];
	const char *params[] = {who->principal, who->address, id};

	snprintf(id, sizeof(id), "%d", broker_id);
	meta_call(m, META_UNREGISTER_BROKER, params, 3, deadline, done, ctx);
}

/* ---- what the broker itself asks for ---- */

static void
add_isr(MetaText *t, const MetaIsrChange *change)
{
	meta_text_puts(t, t->len == 1 ? "[" : ",[");
	for (int i = 0; i < change->n_isr; i++)
		meta_text_printf(t, "%s{\"id\":%d,\"epoch\":%" PRId64 "}", i == 0 ? "" : ",", change->isr[i],
						 change->epochs == NULL ? -1 : change->epochs[i]);
	meta_text_puts(t, "]");
}

void
meta_alter_isr(Meta *m, const MetaIsrChange *changes, int n, int64_t deadline, MetaCallDone done, void *ctx)
{
	MetaText topics = {0}, partitions = {0}, leaders = {0}, epochs = {0}, isrs = {0};
	const char *params[7] = {NULL};

	begin_array(&topics);
	begin_array(&partitions);
	begin_array(&leaders);
	begin_array(&epochs);
	meta_text_puts(&isrs, "[");
	for (int i = 0; i < n; i++)
	{
		add_uuid(&topics, &changes[i].topic_id);
		add_int(&partitions, changes[i].partition);
		add_int(&leaders, changes[i].leader_epoch);
		add_int(&epochs, changes[i].partition_epoch);
		add_isr(&isrs, &changes[i]);
	}
	meta_text_puts(&isrs, "]");
	params[2] = end_array(&topics);
	params[3] = end_array(&partitions);
	params[4] = end_array(&leaders);
	params[5] = end_array(&epochs);
	params[6] = meta_text_cstr(&isrs);
	meta_call(m, META_ALTER_ISR, params, 7, deadline, done, ctx);
	meta_text_free(&topics);
	meta_text_free(&partitions);
	meta_text_free(&leaders);
	meta_text_free(&epochs);
	meta_text_free(&isrs);
}

void
meta_finish_operation(Meta *m, int64_t operation_id, int32_t partition, int64_t result, int16_t error_code,
					  const char *error_message, MetaCallDone done, void *ctx)
{
	char id[24], part[16], value[24], code[16];
	const char *params[] = {NULL, NULL, id, part, value, code, error_message};

	snprintf(id, sizeof(id), "%" PRId64, operation_id);
	snprintf(part, sizeof(part), "%d", partition);
	snprintf(value, sizeof(value), "%" PRId64, result);
	snprintf(code, sizeof(code), "%d", error_code);
	meta_call(m, META_FINISH_OPERATION, params, 7, 0, done != NULL ? done : log_failure, ctx);
}

void
meta_logs_deleted(Meta *m, const WUuid *topic_ids, int n, MetaCallDone done, void *ctx)
{
	MetaText topics = {0};
	const char *params[] = {NULL, NULL, NULL};

	begin_array(&topics);
	for (int i = 0; i < n; i++)
		add_uuid(&topics, &topic_ids[i]);
	params[2] = end_array(&topics);
	meta_call(m, META_LOGS_DELETED, params, 3, 0, done != NULL ? done : log_failure, ctx);
	meta_text_free(&topics);
}

/* ---- replicas ---- */

void
meta_dropped_replicas(Meta *m, MetaCallDone done, void *ctx)
{
	const char *params[] = {NULL, NULL};

	meta_call(m, META_DROPPED_REPLICAS, params, 2, 0, done, ctx);
}

void
meta_replicas_dropped(Meta *m, const MetaReplica *replicas, int n)
{
	MetaText topics = {0}, partitions = {0}, epochs = {0};
	const char *params[5] = {NULL};

	begin_array(&topics);
	begin_array(&partitions);
	begin_array(&epochs);
	for (int i = 0; i < n; i++)
	{
		add_uuid(&topics, &replicas[i].topic_id);
		add_int(&partitions, replicas[i].partition);
		add_int(&epochs, replicas[i].partition_epoch);
	}
	params[2] = end_array(&topics);
	params[3] = end_array(&partitions);
	params[4] = end_array(&epochs);
	meta_call(m, META_REPLICAS_DROPPED, params, 5, 0, log_failure, NULL);
	meta_text_free(&topics);
	meta_text_free(&partitions);
	meta_text_free(&epochs);
}

static void
add_ids(MetaText *json, const int32_t *ids, int n)
{
	if (json->len > 1)
		meta_text_puts(json, ",");
	meta_text_json_ints(json, ids, n);
}

void
meta_claim_partitions(Meta *m, const MetaClaim *claims, int n, MetaCallDone done, void *ctx)
{
	enum
	{
		TOPIC,
		PARTITION,
		LEADER,
		LEADER_EPOCH,
		PARTITION_EPOCH,
		ISR,
		LAST_EPOCH,
		LOG_END,
		COLUMNS
	};
	MetaText columns[COLUMNS] = {{0}};
	const char *params[2 + COLUMNS] = {NULL};

	for (int c = 0; c < COLUMNS; c++)
		if (c == ISR)
			meta_text_puts(&columns[c], "[");
		else
			begin_array(&columns[c]);
	for (int i = 0; i < n; i++)
	{
		add_uuid(&columns[TOPIC], &claims[i].topic_id);
		add_int(&columns[PARTITION], claims[i].partition);
		add_int(&columns[LEADER], claims[i].leader);
		add_int(&columns[LEADER_EPOCH], claims[i].leader_epoch);
		add_int(&columns[PARTITION_EPOCH], claims[i].partition_epoch);
		add_ids(&columns[ISR], claims[i].isr, claims[i].n_isr);
		add_int(&columns[LAST_EPOCH], claims[i].last_epoch);
		add_int(&columns[LOG_END], claims[i].log_end);
	}
	meta_text_puts(&columns[ISR], "]");
	for (int c = 0; c < COLUMNS; c++)
		params[2 + c] = c == ISR ? meta_text_cstr(&columns[c]) : end_array(&columns[c]);
	meta_call(m, META_CLAIM_PARTITIONS, params, 2 + COLUMNS, 0, done, ctx);
	for (int c = 0; c < COLUMNS; c++)
		meta_text_free(&columns[c]);
}

static void
add_stat(MetaText *t, const char *name, int64_t value)
{
	if (value < 0)
		return;
	meta_text_printf(t, "%s\"%s\":%" PRId64, t->len == 1 ? "" : ",", name, value);
}

void
meta_report(Meta *m, const MetaBrokerStats *stats, const MetaFigures *figures, int n, MetaCallDone done,
			void *ctx)
{
	MetaText json = {0}, topics = {0}, partitions = {0}, values = {0};
	const char *params[6] = {NULL};

	if (n > META_REPORT_MAX)
		n = META_REPORT_MAX;
	meta_text_puts(&json, "{");
	add_stat(&json, "disk_free_bytes", stats->disk_free_bytes);
	add_stat(&json, "disk_total_bytes", stats->disk_total_bytes);
	add_stat(&json, "connections", stats->connections);
	meta_text_puts(&json, json.len == 1 ? "\"log_dir\":" : ",\"log_dir\":");
	meta_text_json(&json, stats->log_dir, stats->log_dir == NULL ? -1 : (int32_t) strlen(stats->log_dir));
	meta_text_puts(&json, "}");
	begin_array(&topics);
	begin_array(&partitions);
	begin_array(&values);
	for (int i = 0; i < n; i++)
	{
		const MetaFigures *f = &figures[i];

		add_uuid(&topics, &f->topic_id);
		add_int(&partitions, f->partition);
		add_int(&values, f->log_start_offset);
		add_int(&values, f->high_watermark);
		add_int(&values, f->last_stable_offset);
		add_int(&values, f->log_end_offset);
		add_int(&values, f->size_bytes);
		add_int(&values, f->last_append_ms);
		add_int(&values, f->is_online);
	}
	params[2] = meta_text_cstr(&json);
	params[3] = end_array(&topics);
	params[4] = end_array(&partitions);
	params[5] = end_array(&values);
	meta_call(m, META_REPORT, params, 6, 0, done != NULL ? done : log_failure, ctx);
	meta_text_free(&json);
	meta_text_free(&topics);
	meta_text_free(&partitions);
	meta_text_free(&values);
}

void
meta_event(Meta *m, const char *kind, const char *object, const char *details_json)
{
	const char *params[] = {NULL, NULL, kind, object, details_json};

	meta_call(m, META_EVENT, params, 5, 0, log_failure, NULL);
}

void
meta_resign_partitions(Meta *m, const MetaResigned *partitions, int n, const char *why, int64_t deadline,
					   MetaCallDone done, void *ctx)
{
	MetaText topics = {0}, numbers = {0};
	const char *params[5] = {NULL};

	begin_array(&topics);
	begin_array(&numbers);
	for (int i = 0; i < n; i++)
	{
		add_uuid(&topics, &partitions[i].topic_id);
		add_int(&numbers, partitions[i].partition);
	}
	params[2] = end_array(&topics);
	params[3] = end_array(&numbers);
	params[4] = why;
	meta_call(m, META_RESIGN_PARTITIONS, params, 5, deadline, done, ctx);
	meta_text_free(&topics);
	meta_text_free(&numbers);
}

void
meta_stop_broker(Meta *m, int64_t deadline, MetaCallDone done, void *ctx)
{
	const char *params[] = {NULL, NULL};

	meta_call(m, META_STOP_BROKER, params, 2, deadline, done, ctx);
}
