#include "brokerd/storage/schedule.h"

#include <stdlib.h>

#include "brokerd/base/clock.h"
#include "brokerd/storage/compaction.h"
#include "brokerd/storage/manager.h"
#include "brokerd/storage/retention.h"

static void
place(LogManager *m, int i, Log *log)
{
	m->due[i] = log;
	log->due_index = i;
}

static void
sift_up(LogManager *m, int i)
{
	Log *log = m->due[i];

	while (i > 0 && m->due[(i - 1) / 2]->due_ms > log->due_ms)
	{
		place(m, i, m->due[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	place(m, i, log);
}

static void
sift_down(LogManager *m, int i)
{
	Log *log = m->due[i];

	for (;;)
	{
		int child = 2 * i + 1;

		if (child >= m->ndue)
			break;
		if (child + 1 < m->ndue && m->due[child + 1]->due_ms < m->due[child]->due_ms)
			child++;
		if (m->due[child]->due_ms >= log->due_ms)
			break;
		place(m, i, m->due[child]);
		i = child;
	}
	place(m, i, log);
}

void
schedule_remove(Log *log)
{
	LogManager *m = log->m;
	int i = log->due_index;
	Log *last;

	if (i < 0)
		return;
	log->due_index = -1;
	last = m->due[--m->ndue];
	if (last == log)
		return;
	place(m, i, last);
	sift_up(m, i);
	sift_down(m, last->due_index);
}

static void
set_due(Log *log, int64_t due_ms)
{
	LogManager *m = log->m;

	if (log->due_index >= 0 && log->due_ms == due_ms)
		return;
	schedule_remove(log);
	log->due_ms = due_ms;
	if (due_ms == INT64_MAX || log->deleted)
		return;
	if (m->ndue == m->due_cap)
	{
		m->due_cap = m->due_cap ? m->due_cap * 2 : 64;
		m->due = realloc(m->due, sizeof(*m->due) * (size_t) m->due_cap);
	}
	place(m, m->ndue, log);
	m->ndue++;
	sift_up(m, m->ndue - 1);
}

static int64_t
least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t
log_next_due(const Log *log)
{
	int64_t due = least(log->flush_due_ms, log->producers_due_ms);

	if (log->state != LOG_STATE_OK)
		return INT64_MAX;
	due = least(due, compaction_due_ms(log));
	return least(due, least(roll_due_ms(log), retention_due_ms(log)));
}

void
schedule_update(Log *log)
{
	set_due(log, log_next_due(log));
}

void
schedule_at(Log *log, int64_t due_ms)
{
	if (log->due_index < 0 || log->due_ms > due_ms)
		set_due(log, due_ms);
}

void
schedule_after_append(Log *log, const LogSegment *s, int64_t now)
{
	/* The first batch of a segment starts its clocks; size is looked at when there is an old segment. */
	if (log->due_index < 0 || s->bytes_since_index == s->size)
		schedule_at(log, log_next_due(log));
	else if (log->config.retention_bytes >= 0 && log->nsegments > 1 &&
			 log->size - log->segments[0]->size >= log->config.retention_bytes)
		schedule_at(log, now + 1000);
}

Log *
schedule_due(LogManager *m, int64_t now)
{
	Log *log;

	if (m->ndue == 0 || m->due[0]->due_ms > now)
		return NULL;
	log = m->due[0];
	schedule_remove(log);
	return log;
}
