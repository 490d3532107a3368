#include "brokerd/reporter.h"

#include <stdlib.h>

struct Reporter
{
	Broker *broker;
	ev_timer timer;
	bool in_flight;
	int n;
	MetaFigures figures[META_REPORT_MAX];
};

static void
on_reported(void *ctx, const MetaResult *result)
{
	Reporter *r = ctx;

	r->in_flight = false;
	if (meta_result_status(result) == META_OK)
		return;
	/* Not written: those partitions are due again. */
	for (int i = 0; i < r->n; i++)
	{
		Partition *p =
			partitions_find_by_id(r->broker->partitions, &r->figures[i].topic_id, r->figures[i].partition);

		if (p != NULL)
			partitions_report_again(r->broker->partitions, p);
	}
}

static void
take_figures(const Partition *p, MetaFigures *out)
{
	out->topic_id = p->topic->id;
	out->partition = p->index;
	out->log_start_offset = log_start_offset(p->log);
	out->high_watermark = p->high_watermark;
	out->last_stable_offset = partition_last_stable_offset(p);
	out->log_end_offset = log_appended_end(p->log);
	out->size_bytes = log_size_bytes(p->log);
	out->last_append_ms = log_last_append_ms(p->log) >= 0 ? log_last_append_ms(p->log) : META_FIGURE_UNKNOWN;
	out->is_online = log_error(p->log) == NULL;
}

static void
on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
	Reporter *r = timer->data;
	Broker *broker = r->broker;
	MetaBrokerStats stats;
	LogDirStats disk;
	NetStats net;
	Partition *p;

	(void) loop;
	(void) revents;
	if (r->in_flight || !broker->serving || !meta_is_connected(broker->meta))
		return;
	r->n = 0;
	while (r->n < META_REPORT_MAX && (p = partitions_pop_dirty(broker->partitions)) != NULL)
		if (p->log != NULL)
			take_figures(p, &r->figures[r->n++]);
	if (r->n == 0)
		return;
	log_manager_stats(broker->logs, &disk);
	net_server_stats(broker->net, &net);
	stats.disk_free_bytes = disk.free_bytes;
	stats.disk_total_bytes = disk.total_bytes;
	stats.connections = net.connections;
	stats.log_dir = broker->log_dir;
	r->in_flight = true;
	meta_report(broker->meta, &stats, r->figures, r->n, on_reported, r);
}

Reporter *
reporter_new(Broker *broker, int64_t interval_ms)
{
	Reporter *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->broker = broker;
	ev_timer_init(&r->timer, on_timer, (double) interval_ms / 1000., (double) interval_ms / 1000.);
	r->timer.data = r;
	ev_timer_start(broker->loop, &r->timer);
	return r;
}

void
reporter_free(Reporter *r)
{
	if (r == NULL)
		return;
	ev_timer_stop(r->broker->loop, &r->timer);
	free(r);
}
