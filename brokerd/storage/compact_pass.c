#include "brokerd/storage/compact_pass.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/compact_run.h"
#include "brokerd/storage/retire.h"
#include "brokerd/storage/schedule.h"
#include "brokerd/storage/tail_ring.h"

#define CANCELLED_RETRY_MS 1000
#define FIRST_RETRY_MS     ((int64_t) 60 * 1000)
#define MAX_RETRY_MS       ((int64_t) 3600 * 1000)

void
compact_pass_cancel(CompactJob *j)
{
	atomic_store(&j->cancel, true);
}

/* ---- the end ---- */

static void
release_sources(CompactJob *j, int first, int n)
{
	for (int i = first; i < first + n; i++)
	{
		if (j->sources[i].segment == NULL)
			continue;
		segment_note_fd(j->sources[i].segment);
		segment_unref(j->sources[i].segment);
		j->sources[i].segment = NULL;
	}
}

static void
free_job(CompactJob *j)
{
	release_sources(j, 0, j->nsources);
	compact_map_free(j->filter.map);
	compact_filter_free(&j->filter);
	if (j->made != NULL)
		segment_free_unused(j->made);
	free(j->sources);
	free(j->segments);
	free(j->last_offsets);
	free(j->aborted);
	free(j);
}

/* When the log is looked at again. */
static void
leave(CompactJob *j, int64_t due_ms)
{
	Log *log = j->log;
	LogManager *m = log->m;
	LogCompaction *c = log->compaction;

	c->job = NULL;
	c->swapping = false;
	c->due_ms = due_ms;
	m->compacting = false;
	log->jobs--;
	free_job(j);
	if (!log->deleted)
	{
		if (!log->config.cleanup_compact)
			compaction_free(log);
		schedule_update(log);
	}
	retire_log_if_done(log);
	compaction_start_next(m);
}

static void
say_failed(CompactJob *j)
{
	LogCompaction *c = j->log->compaction;

	if (c->told)
		return;
	c->told = true;
	log_msg(LOG_WARNING, "storage", "%s cannot be compacted, and stays as it is: %s", j->log->name,
			j->result == COMPACT_DAMAGED ? j->why : strerror(j->error));
}

static void
fail(CompactJob *j)
{
	Log *log = j->log;
	LogCompaction *c = log->compaction;
	int64_t now = clock_wall_ms();

	if (log->deleted || log->m->closing || (j->result == COMPACT_FAILED && j->error == ECANCELED))
	{
		leave(j, now + CANCELLED_RETRY_MS);
		return;
	}
	say_failed(j);
	if (j->result == COMPACT_DAMAGED)
	{
		c->damaged = j->sources[j->at].content;
		leave(j, INT64_MAX);
		return;
	}
	c->retry_ms = c->retry_ms == 0                 ? FIRST_RETRY_MS
				  : c->retry_ms < MAX_RETRY_MS / 2 ? c->retry_ms * 2
												   : MAX_RETRY_MS;
	leave(j, now + c->retry_ms);
}

static void
cancel_now(CompactJob *j)
{
	compact_fail(j, ECANCELED);
	fail(j);
}

static void
finish(CompactJob *j)
{
	Log *log = j->log;
	LogManager *m = log->m;
	LogCompaction *c = log->compaction;
	const CompactFilter *f = &j->filter;

	if (f->map_end > log->cleaned_end)
		log->cleaned_end = f->map_end;
	c->tombstones_go_ms = f->horizon_ms;
	c->told = false;
	c->retry_ms = 0;
	m->cleaned_dirty = m->checkpoint_dirty = true;
	log_msg(LOG_INFO, "storage",
			"%s is compacted to offset %" PRId64 " (%s): %" PRId64 " of %" PRId64 " records stay, %" PRId64
			" bytes became %" PRId64 ", %" PRId64 " keys in %zu KiB, %" PRId64 " ms%s",
			log->name, f->map_end, j->reason, f->kept, f->records, j->old_bytes, j->new_bytes,
			compact_map_count(f->map), compact_map_bytes(f->map) / 1024,
			(clock_boot_us() - j->started_us) / 1000,
			f->keyless > 0 ? "; records without a key are gone" : "");
	log_changed(log);
	leave(j, 0);
}

/* ---- between the steps ---- */

static void write_done(Job *job);
static void swap_done(Job *job);
static void drop_done(Job *job);
static void failed_done(Job *job);

static void
push(CompactJob *j, void (*run)(Job *), void (*done)(Job *))
{
	j->job.run = run;
	j->job.done = done;
	work_queue_push(&j->log->m->compactor, &j->job);
}

static bool
may_go_on(const CompactJob *j)
{
	const Log *log = j->log;

	/* After a truncation records may be gone for which older ones were to go. */
	return !compact_cancelled(j) && !log->deleted && !log->m->closing && log->state == LOG_STATE_OK &&
		   j->truncations == log->truncations;
}

static int
index_of(const Log *log, const LogSegment *s)
{
	for (int i = 0; i < log->nsegments; i++)
		if (log->segments[i] == s)
			return i;
	return -1;
}

/* Are the group's segments in the log, one behind the other, and what they were?  The place of the first; -1 no. */
static int
group_place(const CompactJob *j)
{
	const Log *log = j->log;
	int at = index_of(log, j->sources[j->first].segment);

	if (at < 0 || at + j->n >= log->nsegments)
		return -1;
	for (int i = 0; i < j->n; i++)
	{
		const CompactSource *src = &j->sources[j->first + i];
		const LogSegment *s = src->segment;

		if (log->segments[at + i] != s || s->content != src->content || s->retired || !s->sealed ||
			!s->index_synced || s->unsynced || s->size != src->size || s->end_offset != src->end_offset)
			return -1;
	}
	return at;
}

static void
collect_aborted(CompactJob *j)
{
	int n = 0;

	for (int i = 0; i < j->n; i++)
		n += j->sources[j->first + i].segment->naborted;
	free(j->aborted);
	j->aborted = n == 0 ? NULL : malloc(sizeof(*j->aborted) * (size_t) n);
	j->naborted = 0;
	for (int i = 0; i < j->n; i++)
	{
		const LogSegment *s = j->sources[j->first + i].segment;

		for (int k = 0; k < s->naborted; k++)
			j->aborted[j->naborted++] = s->aborted[k];
	}
}

static void
next_group(CompactJob *j)
{
	int usable = j->nsources;

	if (!may_go_on(j))
	{
		cancel_now(j);
		return;
	}
	j->first += j->n;
	/* What the map does not reach stays as it is. */
	while (usable > j->first && j->segments[usable - 1].base_offset >= j->filter.map_end)
		usable--;
	if (j->first >= usable)
	{
		finish(j);
		return;
	}
	j->n = compact_group(j->segments, j->first, usable, j->segment_bytes, j->index_bytes);
	if (group_place(j) < 0)
	{
		cancel_now(j);
		return;
	}
	collect_aborted(j);
	push(j, compact_run_write, write_done);
}

static void
map_done(Job *job)
{
	CompactJob *j = (CompactJob *) job;

	if (j->result == COMPACT_DONE)
		next_group(j);
	else
		fail(j);
}

static void
write_done(Job *job)
{
	CompactJob *j = (CompactJob *) job;

	if (j->result == COMPACT_UNCHANGED)
		next_group(j);
	else if (j->result != COMPACT_DONE)
		fail(j);
	else if (!may_go_on(j) || group_place(j) < 0)
		push(j, compact_run_drop, drop_done);
	else
	{
		j->log->compaction->swapping = true;
		for (int i = j->first; i < j->first + j->n; i++)
			j->sources[i].moved = segment_content(j->log->m);
		push(j, compact_run_swap, swap_done);
	}
}

static void
drop_done(Job *job)
{
	cancel_now((CompactJob *) job);
}

static void
failed_done(Job *job)
{
	fail((CompactJob *) job);
}

/* ---- the new segment takes its place ---- */

static void
retire_source(CompactSource *src, int64_t now)
{
	LogSegment *s = src->segment;
	char path[STORAGE_PATH_MAX];
	const Log *log = s->log;

	s->retired = true;
	if (snprintf(path, sizeof(path), "%s/%s/%020" PRId64 ".c%" PRIu64, log->m->dir, log->name, s->base_offset,
				 src->moved) < (int) sizeof(path))
		s->delete_path = strdup(path);
	s->delete_due_ms = now + log->config.file_delete_delay_ms;
	segment_unref(s); /* the list's */
}

static void
put_in_place(CompactJob *j, int at)
{
	Log *log = j->log;
	LogSegment *made = j->made;
	int64_t now = clock_wall_ms();

	made->created_ms = log->segments[at + j->n - 1]->created_ms;
	made->written_end = made->flushed_end = made->end_offset;
	made->written_size = made->size;
	made->warm_from = INT32_MAX; /* what the tail ring knows are places in files that are gone */
	made->sealed = made->index_synced = true;
	made->aborted = j->aborted;
	made->naborted = made->aborted_queued = made->aborted_cap = j->naborted;
	j->aborted = NULL;
	j->made = NULL;
	for (int i = 0; i < j->n; i++)
	{
		j->old_bytes += j->sources[j->first + i].size;
		log->size -= j->sources[j->first + i].size;
		retire_source(&j->sources[j->first + i], now);
	}
	j->new_bytes += made->size;
	log->size += made->size;
	log->segments[at] = made;
	memmove(&log->segments[at + 1], &log->segments[at + j->n],
			sizeof(*log->segments) * (size_t) (log->nsegments - at - j->n));
	log->nsegments -= j->n - 1;
	if (log->sync_index >= at + j->n)
		log->sync_index -= j->n - 1;
	else if (log->sync_index > at)
		log->sync_index = at;
	tail_ring_drop_below(&log->ring, made->end_offset);
	release_sources(j, j->first, j->n);
}

static void
swap_done(Job *job)
{
	CompactJob *j = (CompactJob *) job;
	Log *log = j->log;
	int at;

	log->compaction->swapping = false;
	if (log->deleted)
	{
		cancel_now(j);
		return;
	}
	if (j->result == COMPACT_FAILED)
	{
		push(j, compact_run_drop, failed_done);
		return;
	}
	at = group_place(j);
	if (j->result == COMPACT_HALF_DONE || at < 0)
	{
		log_set_error(
			log, LOG_STATE_FAILED,
			"a compaction could not put its files in place (%s): the log is offline until it is fetched "
			"again or the broker restarts",
			strerror(j->result == COMPACT_HALF_DONE ? j->error : ESTALE));
		cancel_now(j);
		return;
	}
	put_in_place(j, at);
	next_group(j);
}

/* ---- the beginning ---- */

static int
compare_offsets(const void *a, const void *b)
{
	int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

	return x < y ? -1 : x > y;
}

static void
collect_producers(CompactJob *j)
{
	const Log *log = j->log;
	void *cursor = NULL;
	const ProducerEntry *e;
	int n = producer_state_count(log->producers);

	if (n == 0)
		return;
	j->last_offsets = malloc(sizeof(*j->last_offsets) * (size_t) n);
	while ((e = producer_state_next(log->producers, &cursor)) != NULL)
		if (e->nbatches > 0)
			j->last_offsets[j->nlast++] = e->batches[e->nbatches - 1].last_offset;
	qsort(j->last_offsets, (size_t) j->nlast, sizeof(*j->last_offsets), compare_offsets);
}

void
compact_pass_start(Log *log, const CompactSegment *segments, const CompactVerdict *v, int64_t now)
{
	LogManager *m = log->m;
	const LogConfig *config = &log->config;
	CompactJob *j = calloc(1, sizeof(*j));

	j->log = log;
	j->dirty_from = v->dirty_from;
	j->dirty_end = v->dirty_end;
	j->reason = v->reason;
	j->index_interval = config->index_interval_bytes;
	j->segment_bytes = config->segment_bytes;
	j->index_bytes = config->segment_index_bytes;
	j->map_bytes = (size_t) m->opt.compact_map_bytes;
	j->newest_epoch = -1;
	j->started_us = clock_boot_us();
	compact_filter_init(&j->filter);
	j->filter.now_ms = now;
	j->filter.delete_retention_ms = config->delete_retention_ms;
	j->truncations = log->truncations;
	j->nsources = v->n;
	j->sources = calloc((size_t) v->n, sizeof(*j->sources));
	j->segments = malloc(sizeof(*j->segments) * (size_t) v->n);
	memcpy(j->segments, segments, sizeof(*j->segments) * (size_t) v->n);
	for (int i = 0; i < v->n; i++)
	{
		LogSegment *s = log->segments[i];

		segment_ref(s);
		j->sources[i] = (CompactSource){
			.segment = s, .content = s->content, .end_offset = s->end_offset, .size = s->size};
	}
	collect_producers(j);
	log->compaction->job = j;
	m->compacting = true;
	log->jobs++;
	push(j, compact_run_map, map_done);
}
