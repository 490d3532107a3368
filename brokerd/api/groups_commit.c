/* Offsets on their way to PostgreSQL: one batch at a time, see commit_queue.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/api/groups_internal.h"

/* ---- in ---- */

static int16_t
queue_commit(Groups *groups, ApiCall *call, GroupsCommit *commit)
{
	int32_t saved;
	int64_t now = groups_now();
	int16_t error = group_check_commit(groups->set, now, &commit->check, &saved);
	CommitRequest in;

	if (error != KERR_NONE)
		return error;
	in = (CommitRequest){
		.group_id = commit->check.group_id,
		.slot = group_slot(commit->check.group_id),
		.generation = saved,
		.rows = commit->rows,
		.row_count = commit->row_count,
	};
	in.slot_epoch = groups->epochs[in.slot];
	in.request = groups_park(groups, call);
	commit_queue_add(groups->commits, now, &in);
	return KERR_NONE;
}

void
groups_commit(Groups *groups, ApiCall *call, GroupsCommit *commit)
{
	int16_t error;

	call->op = commit;
	call->req->hold = true; /* a later OffsetFetch of this connection sees this commit */
	error = queue_commit(groups, call, commit);
	if (error != KERR_NONE)
		commit->done(call, error);
	else
		groups_settle(groups);
}

/*
 * SQL may refuse a commit for a generation that the group had left or not yet reached in SQL when it was queued:
 * if the coordinator still takes it, it goes again with the generation of now.
 */
void
groups_commit_answer(void *arg, uint64_t request, int16_t error)
{
	Groups *groups = arg;
	ApiCall *call = groups_unpark(groups, request);
	GroupsCommit *commit;

	if (call == NULL)
		return;
	commit = call->op;
	if (error == KERR_ILLEGAL_GENERATION && commit->tries++ < GROUPS_COMMIT_TRIES)
	{
		error = queue_commit(groups, call, commit);
		if (error == KERR_NONE)
			return;
	}
	commit->done(call, error);
}

/* ---- out ---- */

static void
put_item(MetaText *t, const char *sep)
{
	if (t->len > 1)
		meta_text_puts(t, sep);
}

static void
put_metadata(MetaText *t, WStr s)
{
	static const char digits[] = "0123456789abcdef";

	if (s.len <= 0)
	{
		meta_text_put(t, "\"\"", 2);
		return;
	}
	/* A backslash in a quoted element of an array literal is written twice. */
	meta_text_puts(t, "\"\\\\x");
	for (int32_t i = 0; i < s.len; i++)
	{
		char two[2] = {digits[(uint8_t) s.s[i] >> 4], digits[(uint8_t) s.s[i] & 15]};

		meta_text_put(t, two, 2);
	}
	meta_text_puts(t, "\"");
}

#define BATCH_TEXTS     (sizeof(BatchText) / sizeof(MetaText))
#define BATCH_TEXT_KEEP ((size_t) 256 * 1024) /* what a larger one took is given back */

static void
put_entry(BatchText *t, const CommitOut *row)
{
	put_item(&t->groups, ",");
	meta_text_element_of(&t->groups, row->group_id.s, (size_t) row->group_id.len);
	put_item(&t->slots, ",");
	meta_text_int(&t->slots, row->slot);
	put_item(&t->epochs, ",");
	meta_text_int(&t->epochs, row->slot_epoch);
	put_item(&t->generations, ",");
	meta_text_int(&t->generations, row->generation);
	put_item(&t->topics, ",");
	meta_text_uuid(&t->topics, &row->row->topic_id);
}

static void
put_row(BatchText *t, const CommitOut *out, int32_t entry)
{
	put_item(&t->entries, ",");
	meta_text_int(&t->entries, entry);
	put_item(&t->partitions, ",");
	meta_text_int(&t->partitions, out->row->partition);
	put_item(&t->offsets, ",");
	meta_text_int(&t->offsets, out->row->offset);
	put_item(&t->leader_epochs, ",");
	meta_text_int(&t->leader_epochs, out->row->leader_epoch);
	put_item(&t->metadata, ",");
	put_metadata(&t->metadata, out->row->metadata);
}

/* An entry is a (group, generation, topic). */
static bool
same_entry(const CommitOut *a, const CommitOut *b)
{
	return a->generation == b->generation && a->slot_epoch == b->slot_epoch &&
		   memcmp(a->row->topic_id.b, b->row->topic_id.b, sizeof(a->row->topic_id.b)) == 0 &&
		   wstr_eq(a->group_id, b->group_id);
}

/* Errors that another try of the same may get past; others are looked for by halves. */
static bool
is_passing(const char *sqlstate)
{
	return strncmp(sqlstate, "22", 2) != 0 && strncmp(sqlstate, "23", 2) != 0 &&
		   strncmp(sqlstate, "21", 2) != 0 && strncmp(sqlstate, "54", 2) != 0;
}

static void
finish_batch(Groups *groups, CommitOutcome outcome, const CommitRefused *refused, int32_t n)
{
	groups->batch = NULL;
	commit_queue_done(groups->commits, outcome, refused, n);
	if (outcome == COMMIT_UNKNOWN && !groups->stopped)
		ev_timer_again(groups->broker->loop, &groups->batch_retry);
	groups_settle(groups);
}

static void
done_batch(Groups *groups, const MetaResult *r)
{
	int rows = meta_result_rows(r);
	/* Mostly none is. */
	CommitRefused *refused = rows > 0 ? calloc((size_t) rows, sizeof(*refused)) : NULL;
	int32_t n = 0;

	if (rows > 0 && refused == NULL)
		abort();
	for (int i = 0; i < rows; i++)
	{
		int64_t entry = meta_result_int(r, i, 0);
		const CommitOut *row;

		if (entry < 1 || entry > groups->entry_count)
			continue;
		row = &groups->batch->rows[groups->entry_rows[entry - 1]];
		refused[n++] = (CommitRefused){row->group_id, row->generation, (int16_t) meta_result_int(r, i, 1)};
	}
	finish_batch(groups, COMMIT_DONE, refused, n);
	if (n > 0)
		groups_refresh_slots(groups);
	free(refused);
}

static void
on_batch(void *ctx, const MetaResult *r)
{
	Groups *groups = ctx;
	MetaStatus status = meta_result_status(r);

	groups->batch_calling = false;
	if (groups->stopped || groups->batch == NULL)
		return;
	if (status == META_OK)
		done_batch(groups, r);
	else if (status == META_ERROR && !is_passing(meta_result_sqlstate(r)))
	{
		log_msg(LOG_ERROR, "group", "%d offset commits failed together and are tried by halves: %s",
				groups->batch->request_count, meta_result_message(r));
		finish_batch(groups, COMMIT_FAILED, NULL, 0);
	}
	else
		finish_batch(groups, COMMIT_UNKNOWN, NULL, 0);
}

static void
reserve_entries(Groups *groups, int32_t rows)
{
	if (rows <= groups->entry_rows_cap)
		return;
	groups->entry_rows_cap = rows;
	groups->entry_rows = realloc(groups->entry_rows, (size_t) rows * sizeof(int32_t));
	if (groups->entry_rows == NULL)
		abort();
}

void
groups_free_batch(Groups *groups)
{
	MetaText *all = (MetaText *) &groups->batch_text;

	for (size_t i = 0; i < BATCH_TEXTS; i++)
		meta_text_free(&all[i]);
	free(groups->entry_rows);
}

static void
call_batch(Groups *groups)
{
	const CommitBatch *batch = groups->batch;
	BatchText *text = &groups->batch_text;
	MetaText *all = (MetaText *) text;
	const char *params[2 + BATCH_TEXTS] = {NULL};

	reserve_entries(groups, batch->row_count);
	groups->entry_count = 0;
	for (size_t i = 0; i < BATCH_TEXTS; i++)
	{
		meta_text_reset(&all[i]);
		meta_text_puts(&all[i], "{");
	}
	for (int32_t i = 0; i < batch->row_count; i++)
	{
		if (i == 0 || !same_entry(&batch->rows[i - 1], &batch->rows[i]))
		{
			groups->entry_rows[groups->entry_count++] = i;
			put_entry(text, &batch->rows[i]);
		}
		put_row(text, &batch->rows[i], groups->entry_count);
	}
	for (size_t i = 0; i < BATCH_TEXTS; i++)
	{
		meta_text_puts(&all[i], "}");
		params[2 + i] = meta_text_cstr(&all[i]);
	}
	groups->batch_calling = true;
	meta_call(groups->broker->meta, META_GROUP_COMMIT, params, 2 + BATCH_TEXTS, groups_now() + GROUPS_CALL_MS,
			  on_batch, groups);
	for (size_t i = 0; i < BATCH_TEXTS; i++)
		if (all[i].size > BATCH_TEXT_KEEP)
			meta_text_free(&all[i]);
}

void
groups_send_batch(Groups *groups)
{
	if (groups->batch != NULL || groups->stopped || ev_is_active(&groups->batch_retry))
		return;
	groups->batch = commit_queue_next(groups->commits);
	if (groups->batch == NULL)
		return;
	if (groups->batch->row_count == 0)
		finish_batch(groups, COMMIT_DONE, NULL, 0);
	else
		call_batch(groups);
}
