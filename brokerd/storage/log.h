/*
 * log.h: the partition logs of one data directory (Kafka: log manager, unified log).
 *
 * What it owns: every file under the data directory.  The layout and the formats are Kafka's own, so that
 * Kafka's tools read them and a directory can move in from Kafka:
 *
 *     DIR/meta.properties                 version=1, cluster.id, node.id, directory.id (+ broker.epoch, ours)
 *     DIR/.lock                           flock: one process a directory
 *     DIR/recovery-point-offset-checkpoint, replication-offset-checkpoint, log-start-offset-checkpoint,
 *         cleaner-offset-checkpoint
 *     DIR/.kafka_cleanshutdown            written last at a clean stop, deleted (and the directory synced)
 *                                         before the first append of the next start
 *     DIR/TOPIC-PARTITION/partition.metadata          version: 0, topic_id: BASE64
 *     DIR/TOPIC-PARTITION/leader-epoch-checkpoint
 *     DIR/TOPIC-PARTITION/00000000000000000000.log .index .timeindex .snapshot .txnindex
 *     DIR/TOPIC-PARTITION.UUID-delete     being deleted in the background
 *     DIR/TOPIC-PARTITION.UUID-corrupt    a log that could not be used any more, set aside: kept, never read
 *
 * Threads: every function here is called on the loop thread only and never waits for a disk, except where
 * it says "blocking" (start and stop).  Behind it run one writer thread, a few sync workers and a few cold
 * readers; what they finish is queued, the eventfd of log_manager_fd() becomes readable, and
 * log_manager_dispatch() runs the callbacks on the loop thread.  No lock guards a Log.
 *
 * Offsets: all are record offsets; an "end" is exclusive (the offset the next record will get).
 *
 *     log_start <= ... <= synced_end <= written_end <= appended_end
 *                          |             |              '- assigned on the loop, handed to the writer
 *                          |             '- in the file: readable, followers may fetch
 *                          '- survives a crash: counts for acks and for the high watermark
 *
 * With flush.messages / flush.ms set on a log (Kafka's trade) synced_end follows written_end at once,
 * and the real fdatasync comes when those settings say so.
 *
 * Errors: functions that answer a client return a Kafka error code (wire/errors.h), 0 = none.  A log whose
 * write or sync failed is *failed*: appends and reads beyond what is known good give KAFKA_STORAGE_ERROR.
 * A failed write for lack of space (ENOSPC, EDQUOT) before any sync heals by itself when a later probe
 * write succeeds; a failed fdatasync is final until restart (hazards A9).
 */
#ifndef BROKERD_STORAGE_LOG_H
#define BROKERD_STORAGE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "brokerd/base/err.h"
#include "wire/types.h"

typedef struct LogManager LogManager;
typedef struct Log Log;
typedef struct LogSegment LogSegment;

/* ---- the data directory ---- */

typedef struct LogManagerOptions
{
	const char *dir;        /* log.dirs; created when missing */
	const char *cluster_id; /* NULL: take what meta.properties says (first start: log_manager_bind) */
	int32_t node_id;
	int sync_workers;               /* 4 */
	int reader_threads;             /* 4 */
	int recovery_threads;           /* num.recovery.threads.per.data.dir */
	int64_t checkpoint_interval_ms; /* log.flush.offset.checkpoint.interval.ms: recovery points, 5 s here */
	int64_t
		retention_interval_ms; /* log.retention.check.interval.ms: how often a log is looked at; 0 at once */
	int64_t producer_expiration_ms; /* producer.id.expiration.ms */
	int64_t delete_delay_ms;        /* file.delete.delay.ms of the broker */
	int64_t compact_map_bytes;      /* what compaction may use for keys; 0: COMPACT_MAP_BYTES */
	/* Appended, written or synced end moved, log start moved, or the log failed or healed.  Called from
	 * log_manager_dispatch and log_manager_tick only (never from inside log_append). */
	void (*on_change)(void *ctx, Log *log);
	/* A fdatasync has been running for more than 10 s (true), or the directory is well again (false). */
	void (*on_stuck)(void *ctx, bool stuck);
	void *ctx;
} LogManagerOptions;

/*
 * Blocking: lock the directory, check meta.properties (another cluster or broker id, or a directory in use:
 * Err says which), open or recover every log.  Logs that cannot be opened are kept, offline, with a
 * sentence in log_error().
 */
LogManager *log_manager_open(const LogManagerOptions *opt, Err *err);

/* Tie a new directory to its cluster (meta.properties, fsynced), and record the broker epoch that this
 * disk was last registered with (hazards A3).  Blocking, at registration only. */
bool log_manager_bind(LogManager *m, const char *cluster_id, int64_t broker_epoch, Err *err)
	__attribute__((warn_unused_result));

const char *log_manager_cluster_id(const LogManager *m); /* NULL: not bound yet */
WUuid log_manager_directory_id(const LogManager *m);
int64_t log_manager_broker_epoch(const LogManager *m); /* -1: none recorded */
bool log_manager_clean_start(const LogManager *m);     /* the last stop was clean */

int log_manager_fd(const LogManager *m); /* readable: call log_manager_dispatch */
void log_manager_dispatch(LogManager *m);
/* About every 100 ms: roll by time, retention, flush.ms, checkpoints, producer expiry, probes of full disks. */
void log_manager_tick(LogManager *m, int64_t wall_ms);
/* No slice may be held any more; reads that are under way get no answer.
 * Blocking: finish what is queued, sync, snapshot, write checkpoints and the clean marker, free all. */
void log_manager_close(LogManager *m);

typedef struct LogDirStats
{
	int64_t total_bytes; /* of the file system; -1 unknown */
	int64_t free_bytes;
	uint64_t syncs;
	int64_t oldest_unsynced_ms; /* age of the oldest byte that waits for a sync; 0 none */
	bool stuck;
} LogDirStats;
void log_manager_stats(const LogManager *m, LogDirStats *out);

/* ---- one log ---- */

typedef struct LogConfig
{
	int32_t segment_bytes; /* segment.bytes */
	int64_t segment_ms;    /* segment.ms */
	int64_t segment_jitter_ms;
	int32_t segment_index_bytes; /* segment.index.bytes */
	int32_t index_interval_bytes;
	int64_t retention_ms;    /* -1: no limit */
	int64_t retention_bytes; /* -1: no limit */
	bool cleanup_delete;     /* cleanup.policy contains delete */
	bool cleanup_compact;    /* ... contains compact */
	double min_dirty_ratio;  /* min.cleanable.dirty.ratio */
	int64_t min_compaction_lag_ms;
	int64_t max_compaction_lag_ms;
	int64_t delete_retention_ms;
	int32_t max_message_bytes;
	int64_t flush_messages; /* INT64_MAX: not set = fsync before ack */
	int64_t flush_ms;       /* INT64_MAX: not set */
	int64_t file_delete_delay_ms;
	bool log_append_time; /* message.timestamp.type = LogAppendTime */
	int64_t timestamp_before_max_ms;
	int64_t timestamp_after_max_ms;
} LogConfig;
void log_config_default(LogConfig *c); /* Kafka's defaults */

/* NULL: no such log.  `topic` need not be NUL-terminated. */
Log *log_manager_find(LogManager *m, const char *topic, int topic_len, int32_t partition);
/* Creates folder, partition.metadata and the first segment.  Small and done in place. */
Log *log_manager_create(LogManager *m, const char *topic, int topic_len, int32_t partition,
						const WUuid *topic_id, const LogConfig *config, Err *err);
/* Rename to TOPIC-PARTITION.UUID-delete now; shrink and unlink in steps after the delay.  `log` is gone
 * for the caller; slices that still read from it stay valid. */
void log_manager_delete(LogManager *m, Log *log);
/*
 * For a log in which nobody may believe any more: rename to TOPIC-PARTITION.UUID-corrupt, which nobody here reads or
 * deletes; `path` is that folder's.  What is queued of the log is dropped and its buffers come back; `log` is gone for
 * the caller, slices that still read from it stay valid, and another log can get its name at once.  False: the folder
 * could not be renamed, and the log is as it was.
 */
bool log_manager_set_aside(LogManager *m, Log *log, char *path, size_t cap, Err *err)
	__attribute__((warn_unused_result));
Log *log_manager_next(LogManager *m, Log *after); /* iterate; NULL starts */
int log_manager_count(const LogManager *m);

void log_set_config(Log *log, const LogConfig *config);
/* Followers read it up to the written end (so it is at first).  Otherwise the loop need not hear of a write before its
 * sync: written_end and the release of buffers may then come with synced_end. */
void log_set_followed(Log *log, bool followed);
void log_set_user(Log *log, void *user); /* the layer above hangs its partition here */
void *log_user(const Log *log);
const char *log_topic(const Log *log);
int32_t log_partition(const Log *log);
WUuid log_topic_id(const Log *log);    /* zero: none recorded */
const char *log_error(const Log *log); /* NULL: the log is well; else why it is offline */
bool log_is_broken(const Log *log); /* in error, and only a restart or another log can help: no full disk */
bool log_is_open(const Log *log);   /* false: it could not be opened at start, and nothing of it is known */

int64_t log_start_offset(const Log *log);
int64_t log_appended_end(const Log *log);
int64_t log_written_end(const Log *log);
int64_t log_synced_end(const Log *log);
int64_t log_high_watermark(const Log *log);
void log_set_high_watermark(Log *log, int64_t hw); /* kept in replication-offset-checkpoint */
int64_t log_last_stable_offset(const Log *log);    /* <= high watermark; first open transaction below it */
int64_t log_size_bytes(const Log *log);
int64_t log_last_append_ms(const Log *log); /* wall; -1: never since start */

/* ---- appending ---- */

typedef struct LogAppend
{
	/* in: whole record batches (magic 2), in a buffer that storage may change in place (base offset,
	 * leader epoch, log append time) and that stays until `release` is called on the loop thread. */
	uint8_t *records;
	int32_t len;
	int32_t leader_epoch;
	bool transaction_verified;
	bool marker; /* a control batch of this broker (WriteTxnMarkers): no client checks, no sequence */
	void (*release)(void *owner);
	void *owner;
	/* NULL, or told of each record that made the batch be refused (KIP-467); `index` is its place in the batch. */
	void (*record_error)(void *ctx, int32_t index, const char *message);
	void *record_error_ctx;
	/* out */
	int64_t base_offset;        /* of the first record; for a duplicate, the original's */
	int64_t end_offset;         /* acked when log_synced_end() >= end_offset */
	int64_t log_append_time_ms; /* -1 with CreateTime */
	int64_t log_start_offset;
	bool duplicate;      /* nothing was appended; wait for end_offset all the same (hazards A6) */
	const char *message; /* a sentence with the error, or NULL; static */
} LogAppend;

/*
 * As leader: exactly one batch, checked (magic, size, CRC32C, counts, codec, timestamps, keyless records of
 * a compacted topic, producer epoch and sequence), stamped and handed to the writer.  On an error code
 * nothing was appended and `release` is NOT called: the caller still owns the buffer.  For a duplicate
 * `release` is called before this returns.
 * As a follower: batches as the leader has them, offsets kept, contiguous with appended_end.
 */
int16_t log_append_as_leader(Log *log, LogAppend *a) __attribute__((warn_unused_result));
int16_t log_append_as_follower(Log *log, LogAppend *a) __attribute__((warn_unused_result));

/* ---- reading ---- */

/* A run of whole batches in a segment file.  Holds a reference on the segment until released. */
typedef struct LogSlice
{
	LogSegment *segment;
	int fd;               /* for sendfile; -1 when `data` is set */
	int64_t pos;          /* byte position in fd */
	int32_t len;          /* 0: nothing at this offset (yet) */
	uint8_t *data;        /* set when a cold reader brought the bytes; freed by log_slice_release */
	int64_t first_offset; /* base offset of the first batch, or in a gap before it */
	int64_t next_offset;  /* just behind the last batch */
} LogSlice;

/* `slice` belongs to the callee's caller afterwards; `error` is a Kafka code. */
typedef void (*LogReadDone)(void *ctx, int16_t error, LogSlice *slice);

typedef struct LogRead
{
	int64_t offset;       /* first wanted; inside a batch gives that batch, in a gap the next */
	int64_t limit_offset; /* exclusive: no batch that begins at or beyond it */
	int32_t max_bytes;
	bool at_least_one; /* the first batch even when larger than max_bytes */
} LogRead;

/*
 * LOG_READ_DONE: `*error` and `*slice` are filled.  LOG_READ_PENDING: the bytes are not in the page cache; a
 * cold reader brings them and `done` is called later from log_manager_dispatch.  Offsets outside
 * [log_start, written_end] give OFFSET_OUT_OF_RANGE.
 */
typedef enum LogReadState
{
	LOG_READ_DONE,
	LOG_READ_PENDING
} LogReadState;
LogReadState log_read(Log *log, const LogRead *r, LogSlice *slice, int16_t *error, LogReadDone done,
					  void *ctx);
void log_slice_release(LogSlice *slice);

/* First record at or after a timestamp (Kafka ListOffsets); offset -1: none.  Always answered later. */
typedef void (*LogTimeDone)(void *ctx, int16_t error, int64_t offset, int64_t timestamp,
							int32_t leader_epoch);
void log_find_time(Log *log, int64_t timestamp, int64_t limit_offset, LogTimeDone done, void *ctx);
/* The record with the greatest timestamp (ListOffsets -3). */
void log_find_max_timestamp(Log *log, LogTimeDone done, void *ctx);

/* ---- epochs, truncation, deletion ---- */

/* On taking office, before the first append: (epoch, appended end) into leader-epoch-checkpoint (A12). */
bool log_begin_epoch(Log *log, int32_t leader_epoch, Err *err) __attribute__((warn_unused_result));
/*
 * Is it on disk that this log was led in that epoch, with everything below `offset` in it?  A synced record of the
 * epoch says so; without one log_keep_epoch() writes it, up to the synced end, and on_change comes when it is there
 * (begun_epochs.h).
 */
bool log_epoch_is_kept(const Log *log, int32_t leader_epoch, int64_t offset);
void log_keep_epoch(Log *log, int32_t leader_epoch);
int32_t log_latest_epoch(const Log *log);             /* -1: none */
int32_t log_epoch_at(const Log *log, int64_t offset); /* -1: none */
/* OffsetForLeaderEpoch: the largest epoch <= `epoch` that is known and its end offset; -1/-1 unknown. */
void log_epoch_end(const Log *log, int32_t epoch, int32_t *found_epoch, int64_t *end_offset);

/* Follower only.  Cuts batches at or beyond `offset`, rolls producer state back; reports when below the HW.
 * Waits for this log's writes that are under way and reads headers of a segment; answers of reads may come
 * meanwhile, on_change does not. */
bool log_truncate(Log *log, int64_t offset, Err *err) __attribute__((warn_unused_result));
/* Follower only.  Empty, and the next offset is `start_offset`: the leader's log begins beyond our end. */
bool log_truncate_fully(Log *log, int64_t start_offset, Err *err) __attribute__((warn_unused_result));
/* Raise the log start (DeleteRecords); whole segments below go in the background.  Beyond the high
 * watermark: OFFSET_OUT_OF_RANGE.  Durable (log-start-offset-checkpoint) before on_change reports it. */
int16_t log_raise_start(Log *log, int64_t offset);

/* ---- producers and transactions, as far as the log knows them ---- */

typedef struct LogProducer
{
	int64_t producer_id;
	int16_t producer_epoch;
	int32_t last_sequence;
	int64_t last_timestamp_ms;
	int32_t coordinator_epoch;
	int64_t txn_start_offset; /* -1: none open */
} LogProducer;
/* Fills up to `max`, returns how many there are. */
int log_producers(const Log *log, LogProducer *out, int max);

typedef struct LogAbortedTxn
{
	int64_t producer_id;
	int64_t first_offset;
} LogAbortedTxn;
/* Aborted transactions that overlap [from, to), sorted by first offset; up to `max`, returns the number. */
int log_aborted_txns(Log *log, int64_t from, int64_t to, LogAbortedTxn *out, int max);

#endif
