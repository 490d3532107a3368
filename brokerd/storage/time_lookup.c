/*
 * ListOffsets by time: the record, not the batch, so the one batch in question is read and decompressed.
 * The segment is chosen on the loop, by its greatest timestamp; the rest happens on a reader thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/base/logging.h"
#include "brokerd/storage/read.h"
#include "brokerd/storage/retire.h"
#include "brokerd/storage/scan.h"
#include "wire/errors.h"
#include "wire/record.h"

#define DECOMPRESS_MAX ((size_t) 256 * 1024 * 1024)

typedef struct TimeJob
{
	Job job;
	Log *log;
	SegmentView view;
	int64_t timestamp;
	int64_t start_offset;
	int64_t limit_offset;
	uint32_t truncations;
	bool max; /* the record with exactly this timestamp, the segment's greatest */
	LogTimeDone done;
	void *ctx;
	/* result */
	int error;
	bool found;
	int64_t offset;
	int64_t found_timestamp;
	int32_t leader_epoch;
} TimeJob;

/* The first record of the batch that qualifies. */
static bool
look_inside(TimeJob *j, BatchScan *sc)
{
	WireWriter scratch;
	RecordIter it;
	Record r;
	int32_t epoch;

	if (!scan_body(sc))
	{
		j->error = errno != 0 ? errno : EIO;
		return false;
	}
	epoch = batch_leader_epoch(sc->batch);
	wire_writer_init(&scratch);
	if (batch_records(sc->batch, DECOMPRESS_MAX, &scratch, &it) != COMPRESS_OK)
		j->error = EBADMSG;
	else
		while (!j->found && record_next(&it, &r))
			if (r.timestamp >= j->timestamp && r.offset >= j->start_offset)
			{
				j->found = true;
				j->offset = r.offset;
				j->found_timestamp = r.timestamp;
				j->leader_epoch = epoch;
			}
	wire_writer_free(&scratch);
	return j->found;
}

static void
time_run(Job *job)
{
	TimeJob *j = (TimeJob *) job;
	int64_t from_offset = index_time_floor(&j->view.index, j->timestamp) + 1;
	int32_t from;
	BatchScan sc;
	ScanResult r;
	int fd;

	if (from_offset < j->start_offset)
		from_offset = j->start_offset;
	from = index_floor(&j->view.index, from_offset);
	fd = segment_fd(j->view.segment, false, NULL);
	if (fd < 0)
	{
		j->error = errno;
		return;
	}
	scan_init(&sc, fd, from < 0 ? 0 : from, j->view.size, SCAN_HEADERS);
	while (j->error == 0 && (r = scan_next(&sc)) != SCAN_END)
	{
		if (r != SCAN_BATCH)
			j->error = errno != 0 ? errno : EIO;
		else if (batch_max_timestamp(sc.batch) >= j->timestamp &&
				 batch_last_offset(sc.batch) >= from_offset && look_inside(j, &sc))
			break;
	}
	scan_free(&sc);
}

static LogSegment *
candidate(const Log *log, int64_t timestamp, int64_t after_base)
{
	for (int i = 0; i < log->nsegments; i++)
	{
		LogSegment *s = log->segments[i];

		if (s->base_offset > after_base && s->end_offset > log->start_offset &&
			s->max_timestamp >= timestamp && s->written_size > 0)
			return s;
	}
	return NULL;
}

static void time_done(Job *job);

static void
start(TimeJob *j, LogSegment *s)
{
	Log *log = j->log;

	j->job.run = time_run;
	j->job.done = time_done;
	j->start_offset = log->start_offset;
	j->truncations = log->truncations;
	if (s != NULL)
		segment_view_init(&j->view, s, true);
	log->jobs++;
	if (s != NULL)
		work_queue_push(&log->m->readers, &j->job);
	else
		completions_post_job(&log->m->completions, &j->job); /* the answer comes from dispatch all the same */
}

static void
time_done(Job *job)
{
	TimeJob *j = (TimeJob *) job;
	Log *log = j->log;
	LogSegment *next = NULL;
	int16_t error = KERR_NONE;

	log->jobs--;
	if (j->view.segment != NULL)
	{
		int64_t base = j->view.segment->base_offset;
		bool again = j->truncations != log->truncations || j->view.segment->retired;

		segment_view_done(&j->view);
		index_view_free(&j->view.index);
		j->view = (SegmentView){0};
		/* The segment went away or was cut meanwhile: the answer is looked for in what there is now. */
		if (again)
		{
			j->found = false;
			j->error = 0;
			base = -1;
		}
		if (!j->found && j->error == 0 && !log->deleted && (again || !j->max))
			next = candidate(log, j->timestamp, base);
	}
	if (next != NULL)
	{
		start(j, next);
		return;
	}
	if (j->error != 0)
	{
		log_msg(LOG_ERROR, "storage", "%s: the lookup of timestamp %lld failed: %s", log->name,
				(long long) j->timestamp, strerror(j->error));
		error = j->error == EBADMSG ? KERR_CORRUPT_MESSAGE : KERR_KAFKA_STORAGE_ERROR;
	}
	else if (log->deleted)
		error = KERR_UNKNOWN_TOPIC_OR_PARTITION;
	else if (log->state == LOG_STATE_OFFLINE)
		error = KERR_KAFKA_STORAGE_ERROR;
	if (!j->found || error != KERR_NONE || j->offset >= j->limit_offset)
	{
		j->offset = j->found_timestamp = -1;
		j->leader_epoch = -1;
	}
	if (!log->m->closing)
		j->done(j->ctx, error, j->offset, j->found_timestamp, j->leader_epoch);
	free(j);
	retire_log_if_done(log);
}

static TimeJob *
make_job(Log *log, int64_t timestamp, int64_t limit_offset, LogTimeDone done, void *ctx)
{
	TimeJob *j = calloc(1, sizeof(*j));

	j->log = log;
	j->timestamp = timestamp;
	j->limit_offset = limit_offset;
	j->done = done;
	j->ctx = ctx;
	return j;
}

void
log_find_time(Log *log, int64_t timestamp, int64_t limit_offset, LogTimeDone done, void *ctx)
{
	start(make_job(log, timestamp, limit_offset, done, ctx), candidate(log, timestamp, -1));
}

void
log_find_max_timestamp(Log *log, LogTimeDone done, void *ctx)
{
	LogSegment *best = NULL;
	TimeJob *j;

	for (int i = 0; i < log->nsegments; i++)
	{
		LogSegment *s = log->segments[i];

		if (s->end_offset > log->start_offset && s->max_timestamp >= 0 && s->written_size > 0 &&
			(best == NULL || s->max_timestamp > best->max_timestamp))
			best = s;
	}
	j = make_job(log, best == NULL ? 0 : best->max_timestamp, INT64_MAX, done, ctx);
	j->max = true;
	start(j, best);
}
