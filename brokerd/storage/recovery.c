#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/file_io.h"
#include "brokerd/storage/index.h"
#include "brokerd/storage/load.h"
#include "brokerd/storage/manager.h"
#include "brokerd/storage/scan.h"
#include "wire/record.h"

#define CUT_KEPT_MAX (16 * 1024 * 1024)

/* What a batch says about its producer; the leader that wrote it has checked it. */
void
log_note_recovered_batch(Log *log, LogSegment *s, const uint8_t *b, int64_t now)
{
	TxnMarker marker;
	ProducerUndo undo;
	AbortedTxn aborted;
	ProducerAppend p = {.origin = PRODUCER_REPLICATION,
						.producer_id = batch_producer_id(b),
						.epoch = batch_producer_epoch(b),
						.base_sequence = batch_base_sequence(b),
						.delta = batch_last_offset_delta(b),
						.base_offset = batch_base_offset(b),
						.timestamp = batch_max_timestamp(b),
						.now_ms = now,
						.transactional = batch_is_transactional(b)};

	if (batch_is_control(b))
	{
		if (!batch_read_marker(b, &marker))
			return;
		p.marker = true;
		p.commit = marker.commit;
		p.coordinator_epoch = marker.coordinator_epoch;
		p.timestamp = marker.timestamp;
	}
	if (log->producers == NULL)
		log->producers = producer_state_new();
	if (!producer_state_apply(log->producers, &p, &undo, &aborted))
		return;
	/* Unless the transaction index has it already. */
	if (s->naborted > 0 && s->aborted[s->naborted - 1].last_offset >= aborted.last_offset)
		return;
	if (s->naborted == s->aborted_cap)
	{
		s->aborted_cap = s->aborted_cap ? s->aborted_cap * 2 : 4;
		s->aborted = realloc(s->aborted, sizeof(*s->aborted) * (size_t) s->aborted_cap);
	}
	s->aborted[s->naborted++] = aborted;
}

/* The bytes behind the last whole batch are kept for who wants to look: they were never acknowledged as
 * synced, but they may be all that is left of them (hazards A9). */
static void
keep_cut(LogSegment *s, int fd, int64_t from)
{
	int64_t len = s->size - from;
	char path[STORAGE_PATH_MAX];
	char *data;

	if (len > CUT_KEPT_MAX)
		len = CUT_KEPT_MAX;
	if ((data = malloc((size_t) len)) == NULL)
		return;
	if (file_pread_all(fd, data, (size_t) len, from) == len &&
		segment_path(s, ".log.cut", path, sizeof(path)) >= 0 &&
		!file_replace(path, data, (size_t) len, false))
		log_msg(LOG_WARNING, "storage", "%s cannot be written: %s", path, strerror(errno));
	free(data);
}

/* Is what follows `from` only the torn end of the last write?  Else the log must not be touched. */
static bool
is_torn_tail(Log *log, LogSegment *s, const BatchScan *sc, int fd, int64_t recovery_point)
{
	int64_t next;
	LogSegment *later = log_active(log);

	if (s->end_offset < recovery_point)
	{
		log_load_error(log, true,
					   "%020" PRId64 ".log is corrupt at byte %" PRId64 " (%s), offset %" PRId64
					   ", which had been synced (recovery point %" PRId64 ")",
					   s->base_offset, sc->pos, sc->why, s->end_offset, recovery_point);
		return false;
	}
	next = scan_find_valid(fd, sc->pos + 1, s->size, s->end_offset);
	if (next < 0 && later != s && later->size > 0)
		next = s->size;
	if (next < 0)
		return true;
	log_load_error(log, true,
				   "%020" PRId64 ".log is corrupt at byte %" PRId64 " (%s), offset %" PRId64
				   ", with whole batches behind it at byte %" PRId64,
				   s->base_offset, sc->pos, sc->why, s->end_offset, next);
	return false;
}

static bool
cut_tail(Log *log, LogSegment *s, const BatchScan *sc, int fd)
{
	log_msg(LOG_WARNING, "storage", "%s: %d bytes cut at offset %" PRId64 " of %020" PRId64 ".log: %s",
			log->name, s->size - (int32_t) sc->pos, s->end_offset, s->base_offset, sc->why);
	keep_cut(s, fd, sc->pos);
	if (ftruncate(fd, sc->pos) != 0)
	{
		log_load_error(log, false, "%020" PRId64 ".log cannot be cut: %s", s->base_offset, strerror(errno));
		return false;
	}
	log->size -= s->size - sc->pos;
	s->size = s->written_size = s->warm_from = (int32_t) sc->pos;
	return true;
}

static void
note_batch(Log *log, LogSegment *s, BatchScan *sc, const RecoverArgs *a, int64_t now)
{
	const uint8_t *b = sc->batch;
	int64_t base = batch_base_offset(b), last = batch_last_offset(b);

	if (sc->pos == 0)
		s->first_timestamp = batch_max_timestamp(b);
	if (!a->rebuild_index)
	{
		if (batch_time(b) > s->max_timestamp)
		{
			s->max_timestamp = batch_time(b);
			s->max_timestamp_offset = last;
		}
		s->bytes_since_index += (int32_t) sc->size;
	}
	else
		index_note_batch(s, log->config.index_interval_bytes, (int32_t) sc->pos, (int32_t) sc->size, last,
						 batch_time(b));
	if (a->check_crc && batch_leader_epoch(b) > epoch_cache_latest(&log->epochs) &&
		epoch_cache_assign(&log->epochs, batch_leader_epoch(b), base))
		log->epochs_dirty = true;
	if (batch_has_producer(b) && base >= a->producers_from && (!batch_is_control(b) || scan_body(sc)))
		log_note_recovered_batch(log, s, sc->batch, now);
}

/* Where a clean log's last segment has to be looked at: its last index entry, whose batch is there. */
static int64_t
scan_start(const LogSegment *s, const RecoverArgs *a)
{
	IndexView v = {0};
	int32_t pos;

	if (a->rebuild_index || a->producers_from < s->end_offset || s->index_entries == 0)
		return 0;
	index_view_init(&v, s, false);
	pos = index_floor(&v, INT64_MAX);
	index_view_free(&v);
	return pos < 0 ? 0 : pos;
}

/*
 * In place, and only what differs: after a crash of 10,000 logs most indexes are as they should be, and
 * replacing a file by a new one makes ext4 flush it.  A crash in between is no harm: the next start, unclean
 * too, builds it again.
 */
static bool
put_index(const LogSegment *s, const char *suffix, const void *data, size_t len)
{
	char path[STORAGE_PATH_MAX];
	size_t old_len = 0;
	char *old;
	bool same, ok;
	int fd;

	if (segment_path(s, suffix, path, sizeof(path)) < 0)
		return false;
	old = file_read(path, (size_t) 1 << 30, &old_len);
	/* Both files are there as soon as there is a batch: Kafka's tools want the one with the other. */
	same = old == NULL ? s->size == 0 : old_len == len && memcmp(old, data, len) == 0;
	free(old);
	if (same)
		return true;
	if ((fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644)) < 0)
		return false;
	ok = file_pwrite_all(fd, data, len, 0) && ftruncate(fd, (off_t) len) == 0;
	close(fd);
	return ok;
}

static bool
write_indexes(LogSegment *s)
{
	int n, ntimes;
	uint8_t *data = index_encode_all(s, &n, &ntimes);
	bool ok;

	ok = put_index(s, ".index", data, (size_t) n * 8) &&
		 put_index(s, ".timeindex", data + (size_t) n * 8, (size_t) ntimes * 12);
	free(data);
	if (ok)
		index_advance(s, n, ntimes);
	index_free_tail(s);
	return ok;
}

static void
read_first_timestamp(LogSegment *s, int fd)
{
	uint8_t b[BATCH_HEADER_SIZE];

	if (file_pread_all(fd, b, sizeof(b), 0) == (ssize_t) sizeof(b))
		s->first_timestamp = batch_max_timestamp(b);
}

bool
log_recover_segment(Log *log, LogSegment *s, const RecoverArgs *a)
{
	int fd = segment_fd(s, false, NULL);
	int64_t now = clock_wall_ms(), from = scan_start(s, a);
	int32_t aborted_before = s->naborted;
	BatchScan sc;
	ScanResult r;
	bool ok = true;

	if (fd < 0)
	{
		log_load_error(log, false, "%020" PRId64 ".log cannot be opened: %s", s->base_offset,
					   strerror(errno));
		return false;
	}
	if (a->rebuild_index)
	{
		s->index_entries = s->time_entries = 0;
		s->max_timestamp = s->max_timestamp_offset = -1;
		s->last_time = (TimeEntry){-1, s->base_offset};
	}
	if (a->check_crc && a->producers_from <= s->base_offset)
		s->naborted = 0; /* rebuilt with the producers */
	s->end_offset = s->base_offset;
	s->bytes_since_index = 0;
	scan_init(&sc, fd, from, s->size, a->check_crc ? SCAN_WHOLE : SCAN_HEADERS);
	while ((r = scan_next(&sc)) == SCAN_BATCH)
	{
		if (batch_base_offset(sc.batch) < s->end_offset ||
			batch_last_offset(sc.batch) - s->base_offset > INT32_MAX)
		{
			sc.why = "its offsets do not follow those before";
			r = SCAN_BAD;
			break;
		}
		note_batch(log, s, &sc, a, now);
		s->end_offset = batch_next_offset(sc.batch);
	}
	if (r == SCAN_ERROR)
		log_load_error(log, false, "%020" PRId64 ".log cannot be read: %s", s->base_offset, strerror(errno));
	else if (r == SCAN_BAD && !a->check_crc)
		log_load_error(log, true,
					   "%020" PRId64 ".log is corrupt at byte %" PRId64
					   " (%s), though the last stop was clean",
					   s->base_offset, sc.pos, sc.why);
	else if (r == SCAN_BAD && is_torn_tail(log, s, &sc, fd, a->recovery_point))
		ok = cut_tail(log, s, &sc, fd);
	ok = ok && log->state != LOG_STATE_OFFLINE;
	scan_free(&sc);
	if (ok && a->rebuild_index && !write_indexes(s))
	{
		log_load_error(log, false, "the indexes of %020" PRId64 ".log cannot be written: %s", s->base_offset,
					   strerror(errno));
		ok = false;
	}
	if (ok && from > 0)
		read_first_timestamp(s, fd);
	/* 10,000 logs would need as many descriptors; each opens again when it is used. */
	close(atomic_exchange(&s->fd, -1));
	s->written_end = s->flushed_end = s->end_offset;
	if (a->check_crc || a->rebuild_index)
		*a->recovered = true;
	if (s->naborted != aborted_before)
		s->aborted_queued = 0;
	return ok;
}
