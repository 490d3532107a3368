/*
 * control.c: the controller's poll, the tick, and telling the others.
 *
 * The controller only saves the others work: a tick is one SQL function that decides under the cluster row,
 * whoever calls it, so a paused controller does no harm and a silent one is replaced by any heartbeat.
 */
#include "brokerd/meta/meta_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "wire/errors.h"

#define CONTROL_INTERVAL_S 0.25 /* of the tick; PostgreSQL calls it overdue after a second */
#define POLL_INTERVAL_MS   500
#define FIRST_IMAGE_MS     1000

static bool
may_control(const Meta *m)
{
	return !m->stopped && m->identity.broker_epoch >= 0 && session_is_up(m->sessions[META_SESSION_CONTROL]);
}

/*
 * Before the first image is there nobody is served, and a tick takes longer than reading a small one: it waits.
 * Others tick meanwhile, and a broker whose image does not come ticks all the same.
 */
static bool
image_goes_first(const Meta *m)
{
	return meta_image_version(m->image) < 0 && clock_boot_ms() - m->first_registered_ms < FIRST_IMAGE_MS;
}

static int64_t
deadline(const Meta *m)
{
	return clock_boot_ms() + m->o.call_timeout_ms;
}

/* ---- telling the others ---- */

static void
on_notify_done(void *ctx, const MetaResult *r)
{
	(void) ctx;
	(void) r;
}

/*
 * In a transaction of its own and without a write: a commit that waits for a standby would hold the lock of
 * NOTIFY, which is the whole instance's (hazards A21).
 */
void
control_changed(Meta *m)
{
	if (m->stopped)
		return;
	registration_heartbeat_now(m);
	if (m->notify_queued)
		return;
	m->notify_queued = true;
	session_call(m->sessions[META_SESSION_CONTROL], META_NOTIFY, NULL, 0, deadline(m), on_notify_done, m);
}

void
control_on_notify(Meta *m)
{
	registration_heartbeat_now(m);
	/* With an image it asks for them anyway, and nothing is carried out without one. */
	if (meta_image_version(m->image) >= 0)
		refresh_operations(m);
	if (m->is_controller)
		control_tick_now(m);
}

/* ---- the tick ---- */

static void
on_tick_done(void *ctx, const MetaResult *r)
{
	Meta *m = ctx;
	bool again = m->tick_again;

	m->ticking = m->tick_again = false;
	if (m->stopped)
		return;
	if (meta_result_status(r) == META_OK && meta_result_rows(r) == 1)
	{
		if (meta_result_bool(r, 0, 0))
		{
			refresh_to(m, meta_result_int(r, 0, 1));
			control_changed(m);
			again = true;
		}
	}
	else if (meta_result_status(r) == META_ERROR)
	{
		if (meta_result_kafka_code(r) != KERR_STALE_BROKER_EPOCH)
			log_msg(LOG_WARNING, "meta", "tick failed: %s", meta_result_message(r));
		again = false;
	}
	if (again && may_control(m))
		control_tick_now(m);
}

static void
refused_array(const Meta *m, MetaText *out)
{
	meta_text_puts(out, "{");
	for (int i = 0; i < m->n_refused; i++)
		meta_text_printf(out, i == 0 ? "%d" : ",%d", m->refused[i]);
	meta_text_puts(out, "}");
}

void
control_tick_now(Meta *m)
{
	MetaText refused = {0};
	const char *params[3] = {NULL, NULL, NULL};

	if (!may_control(m) || image_goes_first(m))
		return;
	if (m->ticking)
	{
		m->tick_again = true;
		return;
	}
	m->ticking = true;
	refused_array(m, &refused);
	params[2] = meta_text_cstr(&refused);
	session_call(m->sessions[META_SESSION_CONTROL], META_TICK, params, 3, deadline(m), on_tick_done, m);
	meta_text_free(&refused);
}

void
meta_set_refused(Meta *m, int32_t broker, bool refused)
{
	for (int i = 0; i < m->n_refused; i++)
	{
		if (m->refused[i] != broker)
			continue;
		if (!refused)
			m->refused[i] = m->refused[--m->n_refused];
		return;
	}
	if (!refused)
		return;
	m->refused = meta_realloc(m->refused, (size_t) (m->n_refused + 1) * sizeof(*m->refused));
	m->refused[m->n_refused++] = broker;
	if (m->is_controller)
		control_tick_now(m);
}

/* ---- the poll ---- */

static void
on_poll_done(void *ctx, const MetaResult *r)
{
	Meta *m = ctx;
	bool was = m->is_controller;

	m->polling = false;
	if (m->stopped || meta_result_status(r) != META_OK || meta_result_rows(r) != 1)
		return;
	m->is_controller = meta_result_bool(r, 0, 0);
	m->controller_id = meta_result_is_null(r, 0, 1) ? -1 : (int32_t) meta_result_int(r, 0, 1);
	if (m->is_controller && !was)
	{
		log_msg(LOG_INFO, "meta", "broker %d is the controller, epoch %" PRId64, m->o.node_id,
				meta_result_int(r, 0, 2));
		control_changed(m);
		control_tick_now(m);
	}
}

static void
on_control_timer(struct ev_loop *loop, ev_timer *w, int events)
{
	Meta *m = w->data;
	int64_t now = clock_boot_ms();
	const char *params[2] = {NULL, NULL};

	(void) loop;
	(void) events;
	if (!may_control(m) || image_goes_first(m))
		return;
	if (m->is_controller)
	{
		if (!m->ticking)
			control_tick_now(m);
	}
	else if (!m->polling && now >= m->next_poll_ms)
	{
		m->polling = true;
		m->next_poll_ms = now + POLL_INTERVAL_MS;
		session_call(m->sessions[META_SESSION_CONTROL], META_TRY_CONTROLLER, params, 2, deadline(m),
					 on_poll_done, m);
	}
}

/* The advisory lock that names the controller was this session's. */
void
control_session_lost(Meta *m)
{
	m->is_controller = false;
	m->next_poll_ms = 0;
}

void
control_init(Meta *m)
{
	m->controller_id = -1;
	ev_timer_init(&m->control_timer, on_control_timer, CONTROL_INTERVAL_S, CONTROL_INTERVAL_S);
	m->control_timer.data = m;
	ev_timer_start(m->o.loop, &m->control_timer);
}

void
control_stop(Meta *m)
{
	ev_timer_stop(m->o.loop, &m->control_timer);
	free(m->refused);
	m->refused = NULL;
	m->n_refused = 0;
}
