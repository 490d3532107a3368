/*
 * refresh.c: reads what changed since the image's version, page by page:
 *
 *     brokers_1(since) ─▶ configs_1(since) ─▶ topics_1(since, after) ... last page ─▶ version := target ─▶ operations_1
 *
 * The target is a version that was heard of before the first read.  Versions are stamped under one row, in the
 * order of commits, so everything up to it is visible to each read; what changes meanwhile has a higher version
 * and comes with the next refresh (it may come twice).  Pages are read one call at a time, so that other calls
 * and the loop get their turn between them.
 */
#include "brokerd/meta/meta_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"

#define PACKED_LEAST 32 /* bytes of a packed partition without members */

static void read_page(Meta *m);
static void refresh_begin(Meta *m);

static void
call(Meta *m, MetaStatement statement, const char *const *params, int n, MetaCallDone done)
{
	session_call(m->sessions[META_SESSION_CONTROL], statement, params, n,
				 clock_boot_ms() + m->o.call_timeout_ms, done, m);
}

/* The next heartbeat starts it again. */
static bool
read_failed(Meta *m, const MetaResult *r)
{
	if (meta_result_status(r) == META_OK && !m->stopped)
		return false;
	m->refresh.running = m->refresh.again = false;
	if (meta_result_status(r) == META_ERROR)
		log_msg(LOG_WARNING, "meta", "reading metadata failed: %s", meta_result_message(r));
	return true;
}

/* A row that cannot be used is left out and said; it must not stop the rest. */
static void
check_row(bool taken, const Err *err)
{
	if (!taken)
		log_msg(LOG_ERROR, "meta", "%s", err->text);
}

static void
publish(Meta *m)
{
	const MetaImageChanges *changes = meta_image_pending(m->image);

	if ((changes->n_topics > 0 || changes->brokers_changed || changes->configs_changed ||
		 changes->complete) &&
		m->o.callbacks.on_image_changed != NULL)
		m->o.callbacks.on_image_changed(m->o.callbacks.ctx, m->image, changes);
	/* Whoever waits in SQL for the brokers to act on it (broker.wait) learns of it now. */
	if (changes->complete && changes->n_topics + changes->brokers_changed + changes->configs_changed > 0)
		registration_heartbeat_now(m);
	meta_image_forget_changes(m->image);
}

/* ---- operations ---- */

static void
on_operations(void *ctx, const MetaResult *r)
{
	Meta *m = ctx;
	int n = meta_result_rows(r);
	MetaOperation *operations;

	if (m->stopped || meta_result_status(r) != META_OK || m->o.callbacks.on_operations == NULL)
		return;
	operations = meta_alloc((size_t) (n + 1) * sizeof(*operations));
	for (int i = 0; i < n; i++)
		operations[i] = (MetaOperation){.id = meta_result_int(r, i, 0),
										.kind = meta_result_text(r, i, 1),
										.topic = meta_result_text(r, i, 2),
										.topic_id = meta_result_uuid(r, i, 3),
										.partition = (int32_t) meta_result_int(r, i, 4),
										.args_json = meta_result_text(r, i, 5),
										.before_offset = meta_result_int(r, i, 6)};
	m->o.callbacks.on_operations(m->o.callbacks.ctx, operations, n);
	free(operations);
}

/* What a person asked for does not always move the metadata version. */
void
refresh_operations(Meta *m)
{
	const char *params[2] = {NULL, NULL};

	if (!m->stopped)
		call(m, META_OPERATIONS, params, 2, on_operations);
}

/* ---- the end of a refresh ---- */

static void
refresh_done(Meta *m)
{
	if (m->refresh.full)
	{
		meta_image_full_end(m->image);
		m->refresh.need_full = false;
	}
	meta_image_set_version(m->image, m->refresh.target);
	m->refresh.running = false;
	m->refreshes++;
	publish(m);
	refresh_operations(m);
	if (m->refresh.again)
	{
		m->refresh.again = false;
		refresh_begin(m);
	}
}

/* ---- topics ---- */

static void
take_topic(Meta *m, const MetaResult *r, int row)
{
	MetaTopicRow t = {.name = meta_result_text(r, row, 0),
					  .name_len = meta_result_length(r, row, 0),
					  .id = meta_result_uuid(r, row, 1),
					  .deleted = meta_result_bool(r, row, 2),
					  .config_json = meta_result_is_null(r, row, 3) ? NULL : meta_result_text(r, row, 3),
					  .version = meta_result_int(r, row, 4)};
	Err err;

	if (!meta_result_is_null(r, row, 5))
	{
		t.partitions = (const uint8_t *) meta_result_text(r, row, 5);
		t.partitions_len = (size_t) meta_result_length(r, row, 5);
	}
	check_row(meta_image_apply_topic(m->image, &t, &err), &err);
}

static void
on_page(void *ctx, const MetaResult *r)
{
	Meta *m = ctx;
	int n = meta_result_rows(r);
	int most = 0; /* partitions on this page at most */

	if (read_failed(m, r))
		return;
	if (n == 0)
	{
		refresh_done(m);
		return;
	}
	for (int i = 0; i < n; i++)
	{
		take_topic(m, r, i);
		most += 1 + meta_result_length(r, i, 5) / PACKED_LEAST;
	}
	/* A page ends when it has so many partitions, or with the last topic: one that cannot have them was the last. */
	if (most < m->o.page_partitions)
	{
		refresh_done(m);
		return;
	}
	m->refresh.after = meta_result_uuid(r, n - 1, 1);
	m->refresh.has_after = true;
	/* Elections are not kept waiting for the last page. */
	publish(m);
	read_page(m);
}

static void
read_page(Meta *m)
{
	char since[24], after[META_UUID_TEXT], limit[16];
	const char *params[] = {since, m->refresh.has_after ? after : NULL, limit};

	snprintf(since, sizeof(since), "%" PRId64, m->refresh.since);
	snprintf(limit, sizeof(limit), "%d", m->o.page_partitions);
	meta_uuid_format(&m->refresh.after, after);
	call(m, META_TOPICS, params, 3, on_page);
}

/* ---- configs, brokers ---- */

static void
on_configs(void *ctx, const MetaResult *r)
{
	Meta *m = ctx;
	int n = meta_result_rows(r);

	if (read_failed(m, r))
		return;
	/* Rows only when one of them changed, and then all; one without a key says "that is all there is". */
	if (n > 0)
		meta_image_configs_begin(m->image);
	for (int i = 0; i < n; i++)
		if (!meta_result_is_null(r, i, 2) && !meta_result_is_null(r, i, 3))
			meta_image_configs_add(m->image,
								   meta_result_is_null(r, i, 1) ? -1 : (int32_t) meta_result_int(r, i, 1),
								   meta_result_text(r, i, 2), meta_result_text(r, i, 3));
	if (n > 0)
		meta_image_configs_end(m->image);
	read_page(m);
}

static void
on_brokers(void *ctx, const MetaResult *r)
{
	Meta *m = ctx;
	char since[24];
	const char *params[] = {since};

	if (read_failed(m, r))
		return;
	for (int i = 0; i < meta_result_rows(r); i++)
	{
		MetaBrokerRow b = {.id = (int32_t) meta_result_int(r, i, 0),
						   .epoch = meta_result_int(r, i, 1),
						   .rack = meta_result_is_null(r, i, 3) ? NULL : meta_result_text(r, i, 3),
						   .endpoints_json = meta_result_is_null(r, i, 4) ? NULL : meta_result_text(r, i, 4),
						   .version = meta_result_int(r, i, 5)};
		Err err;

		if (meta_broker_state_parse(meta_result_text(r, i, 2), &b.state))
			check_row(meta_image_apply_broker(m->image, &b, &err), &err);
		else
			log_msg(LOG_ERROR, "meta", "broker %d has the unknown state \"%s\"", b.id,
					meta_result_text(r, i, 2));
	}
	snprintf(since, sizeof(since), "%" PRId64, m->refresh.since);
	call(m, META_CONFIGS, params, 1, on_configs);
}

/* ---- the beginning ---- */

static void
refresh_begin(Meta *m)
{
	MetaRefresh *f = &m->refresh;
	char since[24];
	const char *params[] = {since};

	f->running = true;
	f->full = f->need_full;
	f->target = m->version;
	f->since = f->full ? -1 : meta_image_version(m->image);
	f->has_after = false;
	if (f->full)
		meta_image_full_begin(m->image);
	snprintf(since, sizeof(since), "%" PRId64, f->since);
	call(m, META_BROKERS, params, 1, on_brokers);
}

void
refresh_to(Meta *m, int64_t version)
{
	if (version > m->version)
		m->version = version;
	if (m->stopped || (m->version <= meta_image_version(m->image) && !m->refresh.need_full))
		return;
	if (m->refresh.running)
		m->refresh.again =
			m->refresh.again || (m->refresh.need_full && !m->refresh.full) || m->version > m->refresh.target;
	else
		refresh_begin(m);
}

void
refresh_heard(Meta *m, int64_t version)
{
	/* Answers of one session come in order: a lower version than the last one is a PostgreSQL that was put back
	 * without another sign of it (hazards A1). */
	if (version < m->refresh.heard)
	{
		m->refresh.need_full = true;
		m->version = version;
	}
	m->refresh.heard = version;
	refresh_to(m, version);
}
