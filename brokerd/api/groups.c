/* The coordinator's slots, their loading, and time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/api/groups_internal.h"
#include "brokerd/group/protocol_pack.h"

int64_t
groups_now(void)
{
	return clock_boot_ms();
}

GroupSet *
groups_set(Groups *groups)
{
	return groups->set;
}

int32_t
groups_coordinator(const Groups *groups, WStr id)
{
	return groups->coordinators[group_slot(id)];
}

void
groups_slot_text(const Groups *groups, WStr group_id, GroupsSlotText *out)
{
	int32_t slot = group_slot(group_id);

	snprintf(out->slot, sizeof(out->slot), "%d", slot);
	snprintf(out->epoch, sizeof(out->epoch), "%lld", (long long) groups->epochs[slot]);
}

/* ---- actions and time ---- */

void
groups_settle(Groups *groups)
{
	const GroupAction *action;
	int64_t next;

	/* What an answer or a save leads to comes later, from the loop: the list of actions is not disturbed. */
	if (groups->settling)
		return;
	groups->settling = true;
	while ((action = group_next_action(groups->set)) != NULL)
	{
		if (action->kind == GROUP_SAVE)
			groups_save(groups, action);
		else if (action->kind == GROUP_NOTE_STATE)
			groups_note_state(groups, action->group_id, action->state);
		else
			groups_answer(groups, action);
	}
	groups->settling = false;
	groups_send_batch(groups);
	groups_release_saves(groups);
	next = group_next_deadline(groups->set);
	ev_timer_stop(groups->broker->loop, &groups->timer);
	if (next != INT64_MAX && !groups->stopped)
	{
		double wait = (double) (next - groups_now()) / 1000.;

		ev_timer_set(&groups->timer, wait > 0. ? wait : 0., 0.);
		ev_timer_start(groups->broker->loop, &groups->timer);
	}
}

static void
on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
	Groups *groups = timer->data;

	(void) loop;
	(void) revents;
	group_on_time(groups->set, groups_now());
	groups_settle(groups);
}

/* ---- loading ---- */

typedef struct RowReader
{
	const MetaResult *result;
	int at;
} RowReader;

static WStr
text_at(const MetaResult *r, int row, int column)
{
	if (meta_result_is_null(r, row, column))
		return WSTR_NULL;
	return (WStr){meta_result_text(r, row, column), meta_result_length(r, row, column)};
}

static WBytes
bytes_at(const MetaResult *r, int row, int column)
{
	return (WBytes){(const uint8_t *) meta_result_text(r, row, column), meta_result_length(r, row, column)};
}

/* One group: its rows are together.  Returns the row behind them. */
static int
load_group(Groups *groups, const MetaResult *r, int first, int rows)
{
	static const int max_protocols = 256;
	GroupRow group = {
		.group_id = text_at(r, first, 0),
		.generation = (int32_t) meta_result_int(r, first, 1),
		.protocol_type = text_at(r, first, 2),
		.protocol_name = text_at(r, first, 3),
		.leader = text_at(r, first, 4),
		.fenced = meta_result_bool(r, first, 14),
	};
	int end = first;
	GroupMemberRow *members;
	GroupProtocol *protocols;
	int64_t now = groups_now();

	while (end < rows && wstr_eq(text_at(r, end, 0), group.group_id))
		end++;
	members = calloc((size_t) (end - first) + 1, sizeof(*members));
	protocols = calloc((size_t) (end - first) * (size_t) max_protocols + 1, sizeof(*protocols));
	for (int i = first; i < end && members != NULL && protocols != NULL; i++)
	{
		GroupMemberRow *m = &members[group.member_count];
		GroupProtocol *own = protocols + (size_t) (i - first) * (size_t) max_protocols;

		if (meta_result_is_null(r, i, 5))
			continue;
		m->member_id = text_at(r, i, 5);
		m->instance_id = text_at(r, i, 6);
		m->client_id = text_at(r, i, 7);
		m->client_host = text_at(r, i, 8);
		m->session_timeout_ms = (int32_t) meta_result_int(r, i, 9);
		m->rebalance_timeout_ms = (int32_t) meta_result_int(r, i, 10);
		m->protocols = own;
		m->protocol_count = protocol_unpack(bytes_at(r, i, 11), own, max_protocols);
		m->assignment = bytes_at(r, i, 12);
		m->joined_ms = now - meta_result_int(r, i, 13);
		if (m->protocol_count < 0)
			m->protocol_count = 0;
		group.member_count++;
	}
	group.members = members;
	if (!group_load(groups->set, now, &group))
		log_msg(LOG_WARNING, "group", "group \"%.*s\" in PostgreSQL does not make sense and starts afresh",
				group.group_id.len, group.group_id.s);
	free(members);
	free(protocols);
	return end;
}

static void load_page(Groups *groups);

static void
finish_loading(Groups *groups)
{
	int64_t now = groups_now();
	GroupCounts counts;

	groups->loading_pages = false;
	for (int32_t i = 0; i < GROUP_SLOTS; i++)
	{
		if (!groups->loading[i])
			continue;
		groups->loading[i] = false;
		if (!groups->ours[i])
			continue;
		group_slot_ready(groups->set, now, i);
		groups_settle(groups);
	}
	group_counts(groups->set, &counts);
	log_msg(LOG_INFO, "group", "coordinates %d groups with %d members", counts.groups, counts.members);
	if (groups->slots_wanted)
		groups_refresh_slots(groups);
}

static void
on_page(void *ctx, const MetaResult *r)
{
	Groups *groups = ctx;
	int rows;
	int distinct = 0;

	if (groups->stopped)
		return;
	if (meta_result_status(r) != META_OK)
	{
		/* Again with the next look at the slots. */
		if (meta_result_status(r) == META_ERROR)
			log_msg(LOG_WARNING, "group", "groups cannot be loaded: %s", meta_result_message(r));
		groups->loading_pages = false;
		groups->slots_wanted = true;
		return;
	}
	rows = meta_result_rows(r);
	for (int i = 0; i < rows; distinct++)
		i = load_group(groups, r, i, rows);
	free(groups->after_group);
	groups->after_group = rows > 0 ? strdup(meta_result_text(r, rows - 1, 0)) : NULL;
	if (distinct >= GROUPS_PAGE)
		load_page(groups);
	else
		finish_loading(groups);
}

static void
load_page(Groups *groups)
{
	MetaText slots = {0};
	char page[16];
	const char *params[5] = {NULL};
	bool first = true;

	meta_text_puts(&slots, "{");
	for (int32_t i = 0; i < GROUP_SLOTS; i++)
	{
		if (!groups->loading[i])
			continue;
		meta_text_printf(&slots, "%s%d", first ? "" : ",", i);
		first = false;
	}
	meta_text_puts(&slots, "}");
	snprintf(page, sizeof(page), "%d", GROUPS_PAGE);
	params[2] = meta_text_cstr(&slots);
	params[3] = groups->after_group;
	params[4] = page;
	meta_call(groups->broker->meta, META_GROUP_LOAD, params, 5, groups_now() + GROUPS_CALL_MS, on_page,
			  groups);
	meta_text_free(&slots);
}

/* ---- slots ---- */

void
groups_slot_gone(Groups *groups, int32_t slot)
{
	groups->ours[slot] = false;
	groups->loading[slot] = false;
	group_slot_lost(groups->set, slot);
	groups_settle(groups);
	commit_queue_drop_slot(groups->commits, slot, KERR_NOT_COORDINATOR);
	groups_drop_saves(groups, slot);
}

static bool
take_slot(Groups *groups, int32_t slot, int32_t coordinator, int64_t epoch)
{
	bool mine = coordinator == groups->broker->config->node_id;
	bool same = groups->epochs[slot] == epoch && groups->ours[slot] == mine;

	groups->coordinators[slot] = coordinator;
	groups->epochs[slot] = epoch;
	if (same && !(mine && groups->loading[slot]))
		return false;
	if (groups->ours[slot])
		groups_slot_gone(groups, slot);
	groups->ours[slot] = mine;
	if (!mine)
		return false;
	group_slot_loading(groups->set, slot);
	groups_settle(groups);
	groups->loading[slot] = true;
	return true;
}

static void
on_slots(void *ctx, const MetaResult *r)
{
	Groups *groups = ctx;
	bool any = false;

	groups->slots_calling = false;
	if (groups->stopped)
		return;
	if (meta_result_status(r) != META_OK)
	{
		if (meta_result_status(r) == META_ERROR)
			log_msg(LOG_WARNING, "group", "slots cannot be read: %s", meta_result_message(r));
		groups->slots_wanted = true;
		return;
	}
	for (int i = 0; i < meta_result_rows(r); i++)
	{
		int32_t slot = (int32_t) meta_result_int(r, i, 0);
		int32_t coordinator = meta_result_is_null(r, i, 1) ? -1 : (int32_t) meta_result_int(r, i, 1);

		if (slot >= 0 && slot < GROUP_SLOTS)
			any |= take_slot(groups, slot, coordinator, meta_result_int(r, i, 2));
	}
	if (any)
	{
		groups->loading_pages = true;
		free(groups->after_group);
		groups->after_group = NULL;
		load_page(groups);
	}
}

void
groups_refresh_slots(Groups *groups)
{
	const char *params[2] = {NULL};

	groups->slots_wanted = true;
	if (groups->slots_calling || groups->loading_pages || groups->stopped ||
		meta_broker_epoch(groups->broker->meta) < 0)
		return;
	groups->slots_wanted = false;
	groups->slots_calling = true;
	groups->slots_version = meta_version(groups->broker->meta);
	meta_call(groups->broker->meta, META_GROUP_SLOTS, params, 2, groups_now() + GROUPS_CALL_MS, on_slots,
			  groups);
}

/* ---- from the lifecycle ---- */

void
groups_registered(Groups *groups)
{
	groups_refresh_slots(groups);
}

void
groups_fenced(Groups *groups)
{
	for (int32_t i = 0; i < GROUP_SLOTS; i++)
	{
		if (groups->ours[i])
			groups_slot_gone(groups, i);
		groups->coordinators[i] = -1;
	}
}

void
groups_image_changed(Groups *groups)
{
	groups_refresh_slots(groups);
}

void
groups_asked(Groups *groups)
{
	groups->look_until = groups_now() + GROUPS_LOOK_MS;
	groups_take_requests(groups);
}

void
groups_connection(Groups *groups, bool connected)
{
	group_control_plane(groups->set, groups_now(), connected);
	groups_settle(groups);
}

/*
 * No delay is shorter: consumers that a program starts together are to be in one generation, as tests of clients
 * expect and the time that Kafka takes makes likely.  librdkafka lets 50 ms pass between two connections, so
 * one of its consumers may come that much later than the other.
 */
#define LEAST_INITIAL_DELAY_MS 100

/* What the properties file or SQL says now; it counts for who joins from now on. */
static GroupConfig
configured(const Broker *broker)
{
	const MetaImage *image = meta_image(broker->meta);
	GroupConfig core;

	group_config_defaults(&core);
	core.initial_rebalance_delay_ms =
		(int32_t) broker_config_int(broker->configs, image, "group.initial.rebalance.delay.ms");
	if (core.initial_rebalance_delay_ms < LEAST_INITIAL_DELAY_MS)
		core.initial_rebalance_delay_ms = LEAST_INITIAL_DELAY_MS;
	core.min_session_timeout_ms =
		(int32_t) broker_config_int(broker->configs, image, "group.min.session.timeout.ms");
	core.max_session_timeout_ms =
		(int32_t) broker_config_int(broker->configs, image, "group.max.session.timeout.ms");
	core.max_size = (int32_t) broker_config_int(broker->configs, image, "group.max.size");
	/* SQL checks a key by itself; a range that nothing is in would keep everybody out. */
	if (core.max_session_timeout_ms < core.min_session_timeout_ms)
		core.max_session_timeout_ms = core.min_session_timeout_ms;
	return core;
}

static void
take_config(Groups *groups)
{
	uint64_t changes = meta_image_changes(meta_image(groups->broker->meta));
	GroupConfig core;

	if (changes == groups->config_of)
		return;
	groups->config_of = changes;
	core = configured(groups->broker);
	group_set_config(groups->set, &core);
}

/* Twice a second: what was put off, and what is due. */
static void
on_housekeeping(struct ev_loop *loop, ev_timer *timer, int revents)
{
	Groups *groups = timer->data;
	const BrokerConfig *config = groups->broker->config;
	int64_t now = groups_now();

	(void) loop;
	(void) revents;
	take_config(groups);
	commit_queue_expire(groups->commits, now - config->offsets_commit_timeout_ms,
						KERR_COORDINATOR_NOT_AVAILABLE);
	if (groups->slots_wanted || meta_version(groups->broker->meta) > groups->slots_version)
		groups_refresh_slots(groups);
	if (now < groups->look_until || now >= groups->next_look)
	{
		groups->next_look = now + GROUPS_LOOK_MS;
		groups_take_requests(groups);
	}
	groups_send_notes(groups);
	if (now >= groups->next_expiry)
	{
		groups->next_expiry = now + config->offsets_retention_check_interval_ms;
		groups_expire_offsets(groups);
	}
	groups_settle(groups);
}

static void
on_batch_retry(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void) loop;
	(void) revents;
	groups_settle(timer->data);
}

Groups *
groups_new(Broker *broker)
{
	const BrokerConfig *config = broker->config;
	Groups *groups = calloc(1, sizeof(*groups));
	GroupConfig core;

	if (groups == NULL)
		return NULL;
	core = configured(broker);
	groups->config_of = meta_image_changes(meta_image(broker->meta));
	groups->broker = broker;
	groups->set = group_set_new(&core);
	groups->commits = commit_queue_new(GROUPS_BATCH_ROWS, groups_commit_answer, groups);
	groups->next_expiry = groups_now() + config->offsets_retention_check_interval_ms;
	for (int32_t i = 0; i < GROUP_SLOTS; i++)
	{
		groups->coordinators[i] = -1;
		groups->epochs[i] = -1;
	}
	ev_timer_init(&groups->timer, on_timer, 0., 0.);
	groups->timer.data = groups;
	ev_timer_init(&groups->batch_retry, on_batch_retry, GROUPS_RETRY_MS / 1000., 0.);
	groups->batch_retry.data = groups;
	ev_timer_init(&groups->housekeeping, on_housekeeping, 0.5, 0.5);
	groups->housekeeping.data = groups;
	ev_timer_start(broker->loop, &groups->housekeeping);
	return groups;
}

void
groups_stop(Groups *groups)
{
	for (int32_t i = 0; i < GROUP_SLOTS; i++)
	{
		if (groups->ours[i])
			groups_slot_gone(groups, i);
	}
	groups->stopped = true;
	ev_timer_stop(groups->broker->loop, &groups->timer);
	ev_timer_stop(groups->broker->loop, &groups->housekeeping);
	ev_timer_stop(groups->broker->loop, &groups->batch_retry);
}

void
groups_free(Groups *groups)
{
	if (groups == NULL)
		return;
	groups->stopped = true;
	ev_timer_stop(groups->broker->loop, &groups->timer);
	ev_timer_stop(groups->broker->loop, &groups->housekeeping);
	ev_timer_stop(groups->broker->loop, &groups->batch_retry);
	groups_free_parked(groups);
	groups_drop_saves(groups, -1);
	groups_drop_requests(groups);
	commit_queue_free(groups->commits);
	group_set_free(groups->set);
	groups_free_batch(groups);
	free(groups->after_group);
	free(groups);
}
