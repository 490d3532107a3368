/* fetch_answer.c: what a leader says of one partition becomes the follower's log. */
#include <inttypes.h>
#include <stdio.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/cluster/fetch_lane.h"
#include "brokerd/cluster/internal.h"
#include "brokerd/cluster/truncation.h"
#include "wire/batch.h"
#include "wire/errors.h"

static void
release_frame(void *owner)
{
	frame_unref(owner);
}

/* The high watermark is never beyond the end of the log. */
static void
limit_high_watermark(Partition *p)
{
	int64_t end = log_appended_end(p->log);

	if (p->high_watermark > end)
		p->high_watermark = end;
}

/* Below the own high watermark something may go that a consumer has seen: history for people. */
static void
tell_truncation(const FetchLane *lane, const Partition *p, int64_t from, int64_t to)
{
	char more[160];

	log_msg(LOG_INFO, "cluster",
			"%s-%d is cut from %" PRId64 " to %" PRId64 ", where it parts from leader %d", p->topic->name,
			p->index, from, to, lane->leader);
	if (to >= p->high_watermark)
		return;
	snprintf(more, sizeof(more),
			 ",\"from\":%" PRId64 ",\"to\":%" PRId64 ",\"high_watermark\":%" PRId64 ",\"leader\":%d", from,
			 to, p->high_watermark, lane->leader);
	partition_event(lane->r->opt.meta, p, "log.truncated", more);
}

/* What is here may go: consumers ask the leader until it has found the logs to agree. */
static void
stop_readers(Follow *follow)
{
	follow->agreed = false;
	partition_wake_fetches(follow->partition);
}

static void
storage_trouble(Follow *follow, const Partition *p, const char *what)
{
	if (follow->failures == 0)
		log_msg(LOG_ERROR, "cluster", "%s-%d cannot follow its leader: %s", p->topic->name, p->index, what);
	fetch_lane_delay(follow);
}

static void
truncate_to(FetchLane *lane, Follow *follow, int64_t offset)
{
	Partition *p = follow->partition;
	int64_t from = log_appended_end(p->log);
	Err err;

	stop_readers(follow);
	if (offset < from)
		tell_truncation(lane, p, from, offset);
	if (!log_truncate(p->log, offset, &err))
	{
		storage_trouble(follow, p, err.text);
		return;
	}
	limit_high_watermark(p);
	fetch_lane_list(follow);
}

static void
take_divergence(FetchLane *lane, Follow *follow, int32_t epoch, int64_t end)
{
	const Log *log = follow->partition->log;
	TruncationInput in = {.leader_epoch = epoch, .leader_end = end, .log_end = log_appended_end(log)};

	log_epoch_end(log, epoch, &in.own_epoch, &in.own_end);
	truncate_to(lane, follow, truncation_point(&in));
}

/* The leader's log begins behind the end of this one: what was between is gone there, too. */
static void
start_anew(FetchLane *lane, Follow *follow, int64_t leader_start)
{
	Partition *p = follow->partition;
	Err err;

	stop_readers(follow);
	log_msg(LOG_WARNING, "cluster",
			"%s-%d starts anew at %" PRId64
			": the log of leader %d begins there, behind its own end %" PRId64,
			p->topic->name, p->index, leader_start, lane->leader, log_appended_end(p->log));
	if (!log_truncate_fully(p->log, leader_start, &err))
	{
		storage_trouble(follow, p, err.text);
		return;
	}
	p->high_watermark = leader_start;
	fetch_lane_list(follow);
}

static void
take_error(FetchLane *lane, Follow *follow, const FetchResponseResponsesPartitions *part)
{
	Partition *p = follow->partition;

	stop_readers(follow);
	switch (part->error_code)
	{
		case KERR_OFFSET_OUT_OF_RANGE:
			if (part->log_start_offset > log_appended_end(p->log))
			{
				start_anew(lane, follow, part->log_start_offset);
				return;
			}
			break;
		case KERR_NOT_LEADER_OR_FOLLOWER:
		case KERR_FENCED_LEADER_EPOCH:
		case KERR_UNKNOWN_LEADER_EPOCH:
		case KERR_UNKNOWN_TOPIC_ID:
		case KERR_UNKNOWN_TOPIC_OR_PARTITION:
			/* One of the two has not heard yet who leads; the metadata will say. */
			break;
		default:
			if (follow->failures == 0)
				log_msg(LOG_WARNING, "cluster", "%s-%d: leader %d answers its fetch with error %d",
						p->topic->name, p->index, lane->leader, part->error_code);
	}
	fetch_lane_delay(follow);
}

static bool
take_records(Follow *follow, const FetchResponseResponsesPartitions *part, Frame *frame)
{
	Partition *p = follow->partition;
	/* The frame is ours alone, so storage may write from it. */
	LogAppend append = {.records = frame->data + (part->records.p - frame->data),
						.len = part->records.len,
						.leader_epoch = follow->leader_epoch,
						.release = release_frame,
						.owner = frame};
	int16_t error;

	/* Also in sync, where it is not held up: the rate is for all that comes, as in Kafka. */
	if (p->throttled_as_follower)
		throttle_note(&follow->lane->r->fetching, append.len, clock_boot_ms());
	frame_ref(frame);
	error = log_append_as_follower(p->log, &append);
	if (error != KERR_NONE)
	{
		frame_unref(frame);
		storage_trouble(follow, p, append.message != NULL ? append.message : "its log refuses writes");
		return false;
	}
	follow->awaiting = append.end_offset;
	follow->lane->awaiting++;
	return true;
}

/* Whole batches only: the last one of an answer may be cut off. */
static int32_t
whole_batches(const WRecords *records)
{
	int32_t pos = 0;

	while (records->len - pos >= BATCH_HEADER_SIZE)
	{
		int64_t size = batch_size(records->p + pos);

		if (size < BATCH_HEADER_SIZE || size > records->len - pos)
			break;
		pos += (int32_t) size;
	}
	return pos;
}

static void
take_offsets(const FetchLane *lane, Partition *p, const FetchResponseResponsesPartitions *part)
{
	int64_t end = log_appended_end(p->log);
	int64_t hw = part->high_watermark < end ? part->high_watermark : end;

	if (hw > p->high_watermark)
	{
		p->high_watermark = hw;
		log_set_high_watermark(p->log, hw);
		partition_mark_dirty(lane->r->opt.table, p);
		partition_wake_fetches(p);
	}
	if (part->log_start_offset > log_start_offset(p->log) && part->log_start_offset <= p->high_watermark &&
		log_raise_start(p->log, part->log_start_offset) != KERR_NONE)
		log_msg(LOG_WARNING, "cluster", "%s-%d cannot move its log start to %" PRId64, p->topic->name,
				p->index, part->log_start_offset);
}

static Follow *
find_follow(const FetchLane *lane, const WUuid *topic_id, int32_t partition)
{
	Partition *p = partitions_find_by_id(lane->r->opt.table, topic_id, partition);

	return p != NULL && p->follow != NULL && p->follow->lane == lane && p->log != NULL ? p->follow : NULL;
}

void
fetch_lane_take(FetchLane *lane, const WUuid *topic_id, const FetchResponseResponsesPartitions *part,
				int32_t correlation_id, Frame *frame)
{
	Follow *follow = find_follow(lane, topic_id, part->partition_index);

	/* It was listed anew since, or is about to be: this answers what is no longer asked. */
	if (follow == NULL || !follow->listed || follow->changed || follow->awaiting >= 0 ||
		correlation_id < follow->listed_in)
		return;
	if (part->error_code != KERR_NONE)
	{
		take_error(lane, follow, part);
		return;
	}
	if (part->diverging_epoch.end_offset >= 0)
	{
		take_divergence(lane, follow, part->diverging_epoch.epoch, part->diverging_epoch.end_offset);
		return;
	}
	if (part->records.len > 0)
	{
		FetchResponseResponsesPartitions whole = *part;

		whole.records.len = whole_batches(&part->records);
		if (whole.records.len > 0 && !take_records(follow, &whole, frame))
			return;
	}
	follow->failures = 0;
	follow->agreed = true;
	follow->leader_high_watermark = part->high_watermark;
	follow->caught_up = log_appended_end(follow->partition->log) >= part->high_watermark;
	take_offsets(lane, follow->partition, part);
}
