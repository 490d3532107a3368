#include "brokerd/api/admin.h"

#include <utlist.h>

static void
leave(AdminOp *op)
{
	Broker *broker = op->call->broker;

	DL_DELETE(broker->admin_waiting, op);
	ev_timer_stop(broker->loop, &op->timer);
	op->finish(op);
}

static void
on_settle_timeout(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void) loop;
	(void) revents;
	leave(timer->data);
}

void
admin_settle(AdminOp *op)
{
	Broker *broker = op->call->broker;

	if (op->settled == NULL || op->settled(op))
	{
		op->finish(op);
		return;
	}
	DL_APPEND(broker->admin_waiting, op);
	ev_timer_init(&op->timer, on_settle_timeout, ADMIN_SETTLE_MS / 1000., 0.);
	op->timer.data = op;
	ev_timer_start(broker->loop, &op->timer);
	meta_refresh(broker->meta);
}

void
admin_image_changed(Broker *broker)
{
	AdminOp *op, *next;

	DL_FOREACH_SAFE (broker->admin_waiting, op, next)
		if (op->settled(op))
			leave(op);
}

int16_t
admin_failure(ApiCall *call, const MetaResult *result, WStr *message)
{
	*message = api_copy(call, meta_result_message(result));
	return meta_result_kafka_code(result);
}

WStr
admin_text(ApiCall *call, const MetaResult *result, int r, int c)
{
	return meta_result_is_null(result, r, c) ? WSTR_NULL : api_copy(call, meta_result_text(result, r, c));
}

void
admin_write_partitions(MetaText *json, WStr topic, const int32_t *partitions, int32_t n)
{
	meta_text_puts(json, "{\"name\":");
	meta_text_json(json, topic.s, topic.len);
	meta_text_puts(json, ",\"partitions\":");
	meta_text_json_ints(json, partitions, n);
	meta_text_puts(json, "}");
}

int
admin_rows_alike(const MetaResult *result, int r)
{
	WStr first = wstr(meta_result_text(result, r, 0));
	int n = 1;

	while (r + n < meta_result_rows(result) && wstr_eq(wstr(meta_result_text(result, r + n, 0)), first))
		n++;
	return n;
}
