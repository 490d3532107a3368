/*
 * producer_ids.c: producer ids from blocks (hazards A5: each block is given once).
 *
 * A block in hand and one behind it, so that a new producer need not wait for PostgreSQL, nor for its return.
 * A block whose answer is lost is lost; the numbers suffice.
 */
#include "brokerd/meta/meta_internal.h"

#include <stdlib.h>

#include <utlist.h>

#include "brokerd/base/clock.h"
#include "wire/errors.h"

#define RETRY_S 0.2

struct MetaProducerWaiter
{
	Meta *meta;
	MetaProducerIdDone done;
	void *ctx;
	ev_timer timer;
	MetaProducerWaiter *prev, *next;
};

static void ask_block(Meta *m);

static void
answer_waiter(MetaProducerWaiter *w, int16_t error, int64_t id)
{
	MetaProducerIds *ids = &w->meta->producer_ids;

	DL_DELETE(ids->waiters, w);
	ev_timer_stop(w->meta->o.loop, &w->timer);
	w->done(w->ctx, error, id);
	free(w);
}

/* Gives what is in hand to those who wait, in order. */
static void
serve(Meta *m)
{
	MetaProducerIds *ids = &m->producer_ids;

	while (ids->waiters != NULL)
	{
		if (ids->next == ids->end)
		{
			ids->next = ids->spare_next;
			ids->end = ids->spare_end;
			ids->spare_next = ids->spare_end = 0;
		}
		if (ids->next == ids->end)
			break;
		/* The head of the list is none that was freed: DL_DELETE took it out.
		 * NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
		answer_waiter(ids->waiters, 0, ids->next++);
	}
	if (ids->spare_next == ids->spare_end)
		ask_block(m);
}

static void
on_block(void *ctx, const MetaResult *r)
{
	Meta *m = ctx;
	MetaProducerIds *ids = &m->producer_ids;

	ids->asking = false;
	if (m->stopped)
		return;
	if (meta_result_status(r) == META_OK && meta_result_rows(r) == 1)
	{
		ids->spare_next = meta_result_int(r, 0, 0);
		ids->spare_end = ids->spare_next + meta_result_int(r, 0, 1);
		serve(m);
		return;
	}
	/* Who waits is asked for again, after a pause; when nobody waits, the next producer asks. */
	if (ids->waiters != NULL)
	{
		ev_timer_stop(m->o.loop, &ids->answer_now);
		ev_timer_set(&ids->answer_now, RETRY_S, 0.0);
		ev_timer_start(m->o.loop, &ids->answer_now);
	}
}

static void
ask_block(Meta *m)
{
	const char *params[2] = {NULL, NULL};

	if (m->producer_ids.asking || m->stopped)
		return;
	m->producer_ids.asking = true;
	session_call(m->sessions[META_SESSION_CONTROL], META_PRODUCER_IDS, params, 2,
				 clock_boot_ms() + m->o.call_timeout_ms, on_block, m);
}

static void
on_answer_now(struct ev_loop *loop, ev_timer *w, int events)
{
	(void) loop;
	(void) events;
	serve(w->data);
}

static void
on_waiter_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void) loop;
	(void) events;
	answer_waiter(timer->data, KERR_REQUEST_TIMED_OUT, -1);
}

void
meta_producer_id(Meta *m, int64_t deadline, MetaProducerIdDone done, void *ctx)
{
	MetaProducerWaiter *w = meta_alloc(sizeof(*w));
	int64_t left;

	if (deadline == 0)
		deadline = clock_boot_ms() + m->o.call_timeout_ms;
	left = deadline - clock_boot_ms();
	w->meta = m;
	w->done = done;
	w->ctx = ctx;
	ev_now_update(m->o.loop);
	ev_timer_init(&w->timer, on_waiter_deadline, left < 0 ? 0.0 : (double) left / 1000, 0.0);
	w->timer.data = w;
	ev_timer_start(m->o.loop, &w->timer);
	DL_APPEND(m->producer_ids.waiters, w);
	ev_feed_event(m->o.loop, &m->producer_ids.answer_now, EV_CUSTOM);
}

void
producer_ids_init(Meta *m)
{
	ev_init(&m->producer_ids.answer_now, on_answer_now);
	m->producer_ids.answer_now.data = m;
}

void
producer_ids_stop(Meta *m)
{
	ev_timer_stop(m->o.loop, &m->producer_ids.answer_now);
	while (m->producer_ids.waiters != NULL)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): likewise */
		answer_waiter(m->producer_ids.waiters, KERR_REQUEST_TIMED_OUT, -1);
}
