/*
 * What administrators asked for in SQL, what the clock asks for (offsets that nobody needs any more), and notes for
 * people of groups that rebalance.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "brokerd/api/groups_internal.h"

typedef struct GroupRequest
{
	struct GroupRequest *next;
	Groups *groups;
	char id[24];
	char *kind;
	char *group_id;
	char *topic;     /* delete_offsets */
	char *topic_ids; /* the array literals of delete_offsets_1 */
	char *partitions;
	char *member_id; /* kick: one of the two */
	char *instance_id;
	char *reason;
	bool force;
} GroupRequest;

/* The last state of a group that is not written with a generation anyway; at most one call each half second. */
typedef struct StateNote
{
	UT_hash_handle hh;
	GroupState state;
	int32_t len;
	char group_id[];
} StateNote;

static void run_next(Groups *groups);

static void
free_request(GroupRequest *r)
{
	free(r->kind);
	free(r->group_id);
	free(r->topic);
	free(r->topic_ids);
	free(r->partitions);
	free(r->member_id);
	free(r->instance_id);
	free(r->reason);
	free(r);
}

/* The one in hand is done with for now: it may come again. */
static void
leave_request(GroupRequest *r)
{
	Groups *groups = r->groups;

	LL_DELETE(groups->requests, r);
	free_request(r);
	run_next(groups);
}

static void
on_finished(void *ctx, const MetaResult *result)
{
	(void) result; /* not told: it comes again, and is done at once then */
	leave_request(ctx);
}

/* `failure` NULL: it is done. */
static void
finish_request(GroupRequest *r, const char *failure)
{
	const char *params[4] = {NULL, NULL, r->id, failure};

	meta_call(r->groups->broker->meta, META_GROUP_FINISH, params, 4, groups_now() + GROUPS_CALL_MS,
			  on_finished, r);
}

static void
finish_with_code(GroupRequest *r, int16_t error)
{
	finish_request(r, error == KERR_NONE ? NULL : kerr_message(error));
}

/* ---- one member leaves ---- */

static void
kick(GroupRequest *r)
{
	Groups *groups = r->groups;
	int16_t error = group_kick(groups->set, groups_now(), wstr(r->group_id), wstr(r->member_id),
							   wstr(r->instance_id), wstr(r->reason));

	groups_settle(groups);
	finish_with_code(r, error);
}

/* ---- a group goes ---- */

static void
on_group_deleted(void *ctx, const MetaResult *result)
{
	GroupRequest *r = ctx;
	int64_t error;

	if (r->groups->stopped || meta_result_status(result) != META_OK)
	{
		leave_request(r);
		return;
	}
	error = meta_result_int(result, 0, 0);
	if (error == KERR_NONE || error == KERR_GROUP_ID_NOT_FOUND)
	{
		group_deleted(r->groups->set, groups_now(), wstr(r->group_id));
		groups_settle(r->groups);
		finish_request(r, NULL);
	}
	else
		finish_with_code(r, (int16_t) error);
}

/* All of its members; they are gone at once, and SQL has an empty group a moment later. */
static void
kick_everybody(GroupRequest *r)
{
	Groups *groups = r->groups;
	GroupDescription d;

	for (;;)
	{
		WStr id;

		group_describe(groups->set, wstr(r->group_id), &d);
		if (d.member_count == 0)
			break;
		id = d.members[0].member_id;
		id.s = strndup(id.s, (size_t) id.len);
		(void) group_kick(groups->set, groups_now(), wstr(r->group_id), id, WSTR_NULL, wstr(r->reason));
		free((char *) id.s);
		groups_settle(groups);
	}
}

static void
delete_group(GroupRequest *r)
{
	Groups *groups = r->groups;
	int16_t error = group_check_delete(groups->set, wstr(r->group_id));
	GroupsSlotText slot;
	const char *params[5] = {NULL, NULL, slot.slot, slot.epoch, r->group_id};

	if (error == KERR_NON_EMPTY_GROUP && r->force)
	{
		kick_everybody(r);
		leave_request(r); /* the next look finds it empty */
		return;
	}
	if (error != KERR_NONE && error != KERR_GROUP_ID_NOT_FOUND)
	{
		finish_with_code(r, error);
		return;
	}
	groups_slot_text(groups, wstr(r->group_id), &slot);
	meta_call(groups->broker->meta, META_GROUP_DELETE, params, 5, groups_now() + GROUPS_CALL_MS,
			  on_group_deleted, r);
}

/* ---- offsets of a topic go ---- */

static void
on_offsets_deleted(void *ctx, const MetaResult *result)
{
	GroupRequest *r = ctx;

	if (r->groups->stopped || meta_result_status(result) != META_OK ||
		meta_result_int(result, 0, 0) != KERR_NONE)
		leave_request(r);
	else
		finish_request(r, NULL);
}

static void
delete_offsets(GroupRequest *r)
{
	Groups *groups = r->groups;
	GroupsSlotText slot;
	const char *params[7] = {NULL, NULL, slot.slot, slot.epoch, r->group_id, r->topic_ids, r->partitions};

	if (r->topic == NULL)
		finish_request(r, NULL); /* the topic is gone, and its offsets with it */
	else if (group_subscribed(groups->set, wstr(r->group_id), wstr(r->topic)))
		finish_with_code(r, KERR_GROUP_SUBSCRIBED_TO_TOPIC);
	else
	{
		groups_slot_text(groups, wstr(r->group_id), &slot);
		meta_call(groups->broker->meta, META_GROUP_DELETE_OFFSETS, params, 7, groups_now() + GROUPS_CALL_MS,
				  on_offsets_deleted, r);
	}
}

/* ---- a group is moved to other offsets ---- */

static void
on_reset(void *ctx, const MetaResult *result)
{
	GroupRequest *r = ctx;
	Groups *groups = r->groups;

	if (!groups->stopped && meta_result_status(result) == META_OK && !meta_result_is_null(result, 0, 0))
	{
		group_fence(groups->set, groups_now(), wstr(r->group_id), (int32_t) meta_result_int(result, 0, 0),
					wstr(r->reason));
		groups_settle(groups);
	}
	else if (meta_result_status(result) == META_ERROR)
		log_msg(LOG_WARNING, "group", "offsets of group \"%s\" cannot be reset: %s", r->group_id,
				meta_result_message(result));
	leave_request(r);
}

static void
reset(GroupRequest *r)
{
	Groups *groups = r->groups;
	GroupDescription d;
	GroupsSlotText slot;
	const char *params[6] = {NULL, NULL, slot.slot, slot.epoch, r->id, NULL};

	group_describe(groups->set, wstr(r->group_id), &d);
	params[5] = d.member_count > 0 ? "true" : "false";
	groups_slot_text(groups, wstr(r->group_id), &slot);
	meta_call(groups->broker->meta, META_GROUP_RESET, params, 6, groups_now() + GROUPS_CALL_MS, on_reset, r);
}

/* ---- taking them ---- */

static const struct
{
	const char *kind;
	void (*run)(GroupRequest *r);
} kinds[] = {
	{"group.kick", kick},
	{"group.delete", delete_group},
	{"group.delete_offsets", delete_offsets},
	{"group.reset", reset},
};

static void
run_next(Groups *groups)
{
	GroupRequest *r = groups->requests;

	if (r == NULL || groups->stopped)
		return;
	if (group_slot_check(groups->set, wstr(r->group_id)) == KERR_NONE)
	{
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		{
			if (strcmp(r->kind, kinds[i].kind) == 0)
			{
				kinds[i].run(r);
				return;
			}
		}
	}
	leave_request(r);
}

static char *
copy_text(const MetaResult *result, int row, int column)
{
	return meta_result_is_null(result, row, column) ? NULL : strdup(meta_result_text(result, row, column));
}

/* {id,id,...}, once for each of the partitions. */
static char *
repeat_id(const char *id, const char *partitions)
{
	MetaText t = {0};

	meta_text_puts(&t, "{");
	for (const char *p = partitions; *p != '\0' && partitions[1] != '}'; p++)
	{
		if (*p != ',' && *p != '}')
			continue;
		meta_text_printf(&t, "%s%s", t.len > 1 ? "," : "", id);
	}
	meta_text_puts(&t, "}");
	return t.s;
}

static void
on_requests(void *ctx, const MetaResult *result)
{
	Groups *groups = ctx;

	groups->requests_calling = false;
	if (groups->stopped || meta_result_status(result) != META_OK)
		return;
	for (int i = 0; i < meta_result_rows(result); i++)
	{
		GroupRequest *r = calloc(1, sizeof(*r));

		if (r == NULL)
			abort();
		r->groups = groups;
		snprintf(r->id, sizeof(r->id), "%lld", (long long) meta_result_int(result, i, 0));
		r->kind = copy_text(result, i, 1);
		r->group_id = copy_text(result, i, 2);
		r->topic = copy_text(result, i, 3);
		r->partitions = copy_text(result, i, 5);
		if (r->topic != NULL && r->partitions != NULL)
			r->topic_ids = repeat_id(meta_result_text(result, i, 4), r->partitions);
		r->member_id = copy_text(result, i, 6);
		r->instance_id = copy_text(result, i, 7);
		r->force = meta_result_bool(result, i, 8);
		r->reason = copy_text(result, i, 9);
		LL_APPEND(groups->requests, r);
	}
	run_next(groups);
}

void
groups_take_requests(Groups *groups)
{
	const char *params[2] = {NULL};
	bool any = false;

	for (int32_t i = 0; i < GROUP_SLOTS; i++)
		any |= groups->ours[i];
	if (!any || groups->requests_calling || groups->requests != NULL || groups->stopped)
		return;
	groups->requests_calling = true;
	meta_call(groups->broker->meta, META_GROUP_REQUESTS, params, 2, groups_now() + GROUPS_CALL_MS,
			  on_requests, groups);
}

void
groups_drop_requests(Groups *groups)
{
	GroupRequest *r, *next;

	StateNote *note, *next_note;

	LL_FOREACH_SAFE (groups->requests, r, next)
		free_request(r);
	groups->requests = NULL;
	HASH_ITER (hh, groups->notes, note, next_note)
	{
		HASH_DEL(groups->notes, note);
		free(note);
	}
}

/* ---- offsets that nobody needs ---- */

static void
on_expired(void *ctx, const MetaResult *result)
{
	Groups *groups = ctx;

	groups->expiring = false;
	if (groups->stopped || meta_result_status(result) != META_OK)
		return;
	for (int i = 0; i < meta_result_rows(result); i++)
	{
		group_deleted(groups->set, groups_now(),
					  (WStr){meta_result_text(result, i, 0), meta_result_length(result, i, 0)});
		groups_settle(groups);
	}
}

void
groups_expire_offsets(Groups *groups)
{
	MetaText slots = {0};
	char retention[24];
	const char *params[4] = {NULL};
	bool first = true;

	if (groups->expiring)
		return;
	meta_text_puts(&slots, "{");
	for (int32_t i = 0; i < GROUP_SLOTS; i++)
	{
		if (!groups->ours[i] || groups->loading[i])
			continue;
		meta_text_printf(&slots, "%s%d", first ? "" : ",", i);
		first = false;
	}
	meta_text_puts(&slots, "}");
	snprintf(retention, sizeof(retention), "%lld",
			 (long long) broker_config_int(groups->broker->configs, meta_image(groups->broker->meta),
										   "offsets.retention.minutes") *
				 60000);
	params[2] = meta_text_cstr(&slots);
	params[3] = retention;
	if (!first)
	{
		groups->expiring = true;
		meta_call(groups->broker->meta, META_GROUP_EXPIRE, params, 4, groups_now() + GROUPS_CALL_MS,
				  on_expired, groups);
	}
	meta_text_free(&slots);
}

/* ---- notes for people ---- */

void
groups_note_state(Groups *groups, WStr group_id, GroupState state)
{
	StateNote *note;

	HASH_FIND(hh, groups->notes, group_id.s, (size_t) group_id.len, note);
	if (state == GROUP_STABLE || state == GROUP_EMPTY)
	{
		/* save_group_1 says so. */
		if (note != NULL)
		{
			HASH_DEL(groups->notes, note);
			free(note);
		}
		return;
	}
	if (note == NULL)
	{
		note = calloc(1, sizeof(*note) + (size_t) group_id.len + 1);
		if (note == NULL)
			abort();
		note->len = group_id.len;
		memcpy(note->group_id, group_id.s, (size_t) group_id.len);
		HASH_ADD(hh, groups->notes, group_id, (size_t) group_id.len, note);
	}
	note->state = state;
}

static void
on_noted(void *ctx, const MetaResult *result)
{
	(void) result; /* a note that is lost is lost */
	((Groups *) ctx)->noting = false;
}

void
groups_send_notes(Groups *groups)
{
	MetaText ids = {0};
	MetaText states = {0};
	const char *params[4] = {NULL};
	StateNote *note, *next;

	if (groups->notes == NULL || groups->noting || !meta_is_connected(groups->broker->meta))
		return;
	meta_text_puts(&ids, "{");
	meta_text_puts(&states, "{");
	HASH_ITER (hh, groups->notes, note, next)
	{
		meta_text_puts(&ids, ids.len > 1 ? "," : "");
		meta_text_element(&ids, note->group_id);
		meta_text_printf(&states, "%s%s", states.len > 1 ? "," : "", group_state_sql_name(note->state));
		HASH_DEL(groups->notes, note);
		free(note);
	}
	meta_text_puts(&ids, "}");
	meta_text_puts(&states, "}");
	params[2] = meta_text_cstr(&ids);
	params[3] = meta_text_cstr(&states);
	groups->noting = true;
	meta_call(groups->broker->meta, META_GROUP_NOTE, params, 4, groups_now() + GROUPS_CALL_MS, on_noted,
			  groups);
	meta_text_free(&ids);
	meta_text_free(&states);
}
