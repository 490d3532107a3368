/* Generations on their way to PostgreSQL. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/api/groups_internal.h"
#include "brokerd/group/consumer_protocol.h"
#include "brokerd/group/protocol_pack.h"

enum
{
	P_SLOT,
	P_SLOT_EPOCH,
	P_GROUP,
	P_EXPECTED,
	P_GENERATION,
	P_TYPE,
	P_ASSIGNOR,
	P_LEADER,
	P_MEMBERS,
	P_HISTORY,
	P_COUNT
};

static void
put_hex(MetaText *t, const uint8_t *p, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	char buf[512];
	size_t n = 0;

	meta_text_puts(t, "\"");
	for (size_t i = 0; i < len; i++)
	{
		buf[n++] = digits[p[i] >> 4];
		buf[n++] = digits[p[i] & 15];
		if (n == sizeof(buf))
		{
			meta_text_put(t, buf, n);
			n = 0;
		}
	}
	meta_text_put(t, buf, n);
	meta_text_puts(t, "\"");
}

static void
put_key(MetaText *t, const char *key, WStr value)
{
	meta_text_printf(t, "\"%s\":", key);
	meta_text_json(t, value.s, value.len);
	meta_text_puts(t, ",");
}

/* The partitions for people; null when the leader speaks another protocol than "consumer". */
static void
put_partitions(MetaText *t, WStr type, WBytes assignment)
{
	size_t size = consumer_assignment_json_size(assignment);
	char *json = wstr_eq(type, WSTR_LIT("consumer")) ? malloc(size) : NULL;

	meta_text_puts(t, "\"partitions\":");
	if (json != NULL && consumer_assignment_json(assignment, json, size) >= 0)
		meta_text_puts(t, json);
	else
		meta_text_puts(t, "null");
	free(json);
}

static void
put_member(MetaText *t, const GroupMemberRow *m, WStr type, int64_t now)
{
	size_t size = protocol_pack_size(m->protocols, m->protocol_count);
	uint8_t *packed = malloc(size);

	if (packed == NULL)
		abort();
	protocol_pack(m->protocols, m->protocol_count, packed);
	meta_text_puts(t, "{");
	put_key(t, "id", m->member_id);
	put_key(t, "instance", m->instance_id);
	put_key(t, "client", m->client_id);
	put_key(t, "host", m->client_host);
	meta_text_printf(t,
					 "\"session\":%d,\"rebalance\":%d,\"age_ms\":%lld,\"protocols\":", m->session_timeout_ms,
					 m->rebalance_timeout_ms, (long long) (now > m->joined_ms ? now - m->joined_ms : 0));
	put_hex(t, packed, size);
	meta_text_puts(t, ",\"assignment\":");
	put_hex(t, m->assignment.p, m->assignment.len > 0 ? (size_t) m->assignment.len : 0);
	meta_text_puts(t, ",");
	put_partitions(t, type, m->assignment);
	meta_text_puts(t, "}");
	free(packed);
}

static char *
members_json(const GroupRow *row)
{
	MetaText t = {0};
	int64_t now = groups_now();

	meta_text_puts(&t, "[");
	for (int32_t i = 0; i < row->member_count; i++)
	{
		if (i > 0)
			meta_text_puts(&t, ",");
		put_member(&t, &row->members[i], row->protocol_type, now);
	}
	meta_text_puts(&t, "]");
	return t.s;
}

static char *
history_json(const GroupHistory *h)
{
	MetaText t = {0};

	if (!h->present)
		return NULL;
	meta_text_puts(&t, "{");
	put_key(&t, "reason", h->reason);
	put_key(&t, "member", h->member);
	meta_text_printf(&t, "\"before\":%d,\"after\":%d,\"duration_ms\":%lld}", h->members_before,
					 h->members_after, (long long) h->duration_ms);
	return t.s;
}

static char *
text_of(WStr s)
{
	return s.len < 0 ? NULL : strndup(s.s, (size_t) s.len);
}

static char *
number(int64_t n)
{
	MetaText t = {0};

	meta_text_printf(&t, "%lld", (long long) n);
	return t.s;
}

static void
free_job(SaveJob *job)
{
	ev_timer_stop(job->groups->broker->loop, &job->retry);
	for (int i = 0; i < P_COUNT; i++)
		free(job->params[i]);
	free(job->group_id);
	free(job);
}

/* ---- the call ---- */

static void send_job(SaveJob *job);

static void
unlink_job(SaveJob *job)
{
	SaveJob **p = &job->groups->jobs;

	while (*p != NULL && *p != job)
		p = &(*p)->next;
	if (*p != NULL)
		*p = job->next;
}

static void
on_retry(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void) loop;
	(void) revents;
	send_job(timer->data);
}

static void
retry_later(SaveJob *job)
{
	ev_timer_set(&job->retry, GROUPS_RETRY_MS / 1000., 0.);
	ev_timer_start(job->groups->broker->loop, &job->retry);
}

/* Errors of the moment: a lock, a shutdown, resources, serialization; the fence of a broker that registers anew. */
static bool
is_passing(const char *sqlstate)
{
	static const char *const classes[] = {"08", "40", "53", "55", "57", "58", "25", "PB0"};

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
	{
		if (strncmp(sqlstate, classes[i], strlen(classes[i])) == 0)
			return true;
	}
	return false;
}

static GroupSaveResult
outcome(SaveJob *job, const MetaResult *r)
{
	if (meta_result_status(r) == META_ERROR)
	{
		log_msg(LOG_ERROR, "group", "group \"%s\" cannot be stored: %s", job->group_id,
				meta_result_message(r));
		return GROUP_SAVE_REFUSED;
	}
	switch (meta_result_int(r, 0, 0))
	{
		case 0:
			return GROUP_SAVE_OK;
		case 1:
			return GROUP_SAVE_FENCED;
		default:
			return GROUP_SAVE_MOVED;
	}
}

static void
on_saved(void *ctx, const MetaResult *r)
{
	SaveJob *job = ctx;
	Groups *groups = job->groups;
	MetaStatus status = meta_result_status(r);
	GroupSaveResult result;
	int32_t generation;

	job->calling = false;
	if (job->dropped)
	{
		free_job(job);
		return;
	}
	if (status == META_UNAVAILABLE || status == META_UNKNOWN ||
		(status == META_ERROR && is_passing(meta_result_sqlstate(r))) ||
		(status == META_OK && meta_result_rows(r) != 1))
	{
		retry_later(job);
		return;
	}
	result = outcome(job, r);
	generation = status == META_OK ? (int32_t) meta_result_int(r, 0, 1) : 0;
	unlink_job(job);
	if (result == GROUP_SAVE_FENCED)
	{
		groups_slot_gone(groups, job->slot);
		groups_refresh_slots(groups);
	}
	else
	{
		group_saved(groups->set, groups_now(), wstr(job->group_id), job->serial, result, generation);
		groups_settle(groups);
	}
	free_job(job);
}

static void
send_job(SaveJob *job)
{
	const char *params[2 + P_COUNT] = {NULL};

	for (int i = 0; i < P_COUNT; i++)
		params[2 + i] = job->params[i];
	job->calling = true;
	meta_call(job->groups->broker->meta, META_GROUP_SAVE, params, 2 + P_COUNT, groups_now() + GROUPS_CALL_MS,
			  on_saved, job);
}

/* ---- the door ---- */

void
groups_save(Groups *groups, const GroupAction *action)
{
	const GroupSave *save = &action->u.save;
	SaveJob *job = calloc(1, sizeof(*job));

	if (job == NULL)
		abort();
	job->groups = groups;
	job->group_id = text_of(action->group_id);
	job->slot = save->slot;
	job->slot_epoch = groups->epochs[save->slot];
	job->serial = save->serial;
	ev_timer_init(&job->retry, on_retry, 0., 0.);
	job->retry.data = job;
	job->params[P_SLOT] = number(save->slot);
	job->params[P_SLOT_EPOCH] = number(job->slot_epoch);
	job->params[P_GROUP] = text_of(action->group_id);
	job->params[P_EXPECTED] = number(save->expected_generation);
	job->params[P_GENERATION] = number(save->row.generation);
	job->params[P_TYPE] = text_of(save->row.protocol_type);
	job->params[P_ASSIGNOR] = text_of(save->row.protocol_name);
	job->params[P_LEADER] = text_of(save->row.leader);
	job->params[P_MEMBERS] = members_json(&save->row);
	job->params[P_HISTORY] = history_json(&save->history);
	job->next = groups->held;
	groups->held = job;
	/* A note that went behind it would hide what it writes. */
	groups_note_state(groups, action->group_id, GROUP_STABLE);
}

/* Saves whose group has no commit waiting go; the others wait for the next batch. */
void
groups_release_saves(Groups *groups)
{
	SaveJob **p = &groups->held;

	while (*p != NULL)
	{
		SaveJob *job = *p;

		if (commit_queue_has_group(groups->commits, wstr(job->group_id)))
		{
			p = &job->next;
			continue;
		}
		*p = job->next;
		job->next = groups->jobs;
		groups->jobs = job;
		send_job(job);
	}
}

/* A call that is out ends in on_saved. */
void
groups_drop_saves(Groups *groups, int32_t slot)
{
	SaveJob **lists[2] = {&groups->held, &groups->jobs};

	for (int i = 0; i < 2; i++)
	{
		SaveJob **p = lists[i];

		while (*p != NULL)
		{
			SaveJob *job = *p;

			if (slot >= 0 && job->slot != slot)
			{
				p = &job->next;
				continue;
			}
			*p = job->next;
			if (job->calling)
				job->dropped = true;
			else
				free_job(job);
		}
	}
}
