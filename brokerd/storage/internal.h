/*
 * internal.h: the objects of a data directory and which thread may touch which part of them.
 *
 *     loop ──ops──▶ writer ──rounds──▶ sync workers        (write_queue.h, sync.h)
 *       │  ▲          │                    │
 *       │  └──────── completions ──────────┴── cold readers, janitor        (completion.h)
 *       └──jobs──▶ cold readers · janitor (checkpoints, snapshots) · deleter
 *
 * A Log and its segments belong to the loop, which decides everything: offsets, positions in files, when to
 * roll.  What another thread does is an op or a job that carries all it needs and comes back through the
 * completion queue.  The fields that are not the loop's are grouped in the structs below with their owner.
 *
 * A segment is kept by `refs` (loop only): one of the log's list, one for each op, slice, read or unsynced
 * state.  When the last goes the file descriptor is closed, and a retired segment's files go to the deleter.
 */
#ifndef BROKERD_STORAGE_INTERNAL_H
#define BROKERD_STORAGE_INTERNAL_H

#include <pthread.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <uthash.h>

#include "brokerd/storage/epoch_cache.h"
#include "brokerd/storage/log.h"
#include "brokerd/storage/producer_state.h"

#define STORAGE_PATH_MAX 4096
#define LOG_DIR_NAME_MAX 255

/* Recent batches, so that a fetch at the tail needs no system call to find where it begins and ends. */
#define TAIL_RING_MIN 16
#define TAIL_RING_MAX 256
typedef struct TailEntry
{
	int64_t base_offset;
	int32_t pos;
	int32_t last_offset_delta; /* the next batch may begin behind a gap */
} TailEntry;

typedef struct TailRing
{
	int first; /* oldest */
	int count;
	int cap;
	TailEntry *e;
} TailRing;

/* Index entries of the active segment that are not in the index files yet, oldest first. */
typedef struct IndexEntry
{
	int64_t offset; /* last offset of the batch at `pos` */
	int32_t pos;
} IndexEntry;

typedef struct TimeEntry
{
	int64_t timestamp; /* greatest so far in the segment */
	int64_t offset;    /* last offset of the batch that has it */
} TimeEntry;

typedef struct IndexTail
{
	IndexEntry *entries;
	int n;
	int cap;
	TimeEntry *times;
	int ntimes;
	int times_cap;
} IndexTail;

/* Owned by the writer thread (and by a worker while the segment is in a sync round). */
typedef struct SegmentSync
{
	bool dirty;      /* on the writer's dirty list */
	bool new_file;   /* its directory entry is not synced yet */
	int64_t end;     /* what a sync that starts now covers */
	int32_t pending; /* bytes written, and neither pushed out nor taken by a round */
	LogSegment *next;
	int64_t round_end; /* what the running round covers */
	LogSegment *round_next;
} SegmentSync;

struct LogSegment
{
	LogManager *m;
	Log *log; /* NULL once the log is gone */
	int32_t refs;
	_Atomic int fd;         /* -1 not open; opened by whoever needs it first, closed by the loop only */
	bool sealed;            /* rolled: no more appends */
	bool retired;           /* out of its log's list; `delete_path` says what is to be deleted */
	bool unsynced;          /* holds a reference: written or syncing, not flushed */
	bool index_synced;      /* index files of a sealed segment are on disk: the recovery point may pass */
	bool index_pending;     /* an OP_INDEX is under way */
	_Atomic uint64_t moved; /* compacted: its files are BASE.cN.SUFFIX.deleted, N is this; 0: BASE.SUFFIX */
	uint64_t content; /* a name for what the file holds: nobody else's, and another one once it was cut */
	int64_t base_offset;
	int64_t end_offset;  /* appended */
	int64_t written_end; /* in the file */
	int64_t flushed_end; /* fdatasynced */
	int32_t size;        /* appended bytes */
	int32_t written_size;
	int32_t warm_from; /* bytes from here on were written by this process */
	int32_t bytes_since_index;
	int64_t max_timestamp; /* -1 none */
	int64_t max_timestamp_offset;
	int64_t first_timestamp; /* of the first batch, -1 none: segment.ms counts from it */
	int64_t created_ms;
	int32_t index_entries; /* in the file, and counted on: what lies behind is garbage */
	int32_t time_entries;
	TimeEntry last_time; /* the newest time entry, in the file or the tail */
	IndexTail *tail;     /* active segment with entries; NULL otherwise */
	AbortedTxn *aborted; /* the transaction index, all of it: it is short */
	int naborted;
	int aborted_queued; /* in the file, or on the way to it */
	int aborted_cap;
	LogSegment *lru_prev, *lru_next; /* open and unused, oldest first */
	bool in_lru;
	char
		*delete_path; /* retired: path without suffix of the files to be deleted when the last user is gone */
	int64_t delete_due_ms;
	struct RetiredDir *retired_dir;
	SegmentSync sync;
	/* under the completion queue's mutex */
	LogSegment *done_next;
	bool done_queued;
	int64_t done_end;
	int done_error;
};

typedef enum LogState
{
	LOG_STATE_OK,
	LOG_STATE_NO_SPACE, /* heals when a probe write succeeds */
	LOG_STATE_FAILED,   /* a sync or a write failed: final until restart */
	LOG_STATE_OFFLINE   /* could not be opened */
} LogState;

typedef enum OpKind
{
	OP_WRITE,     /* append bytes to a segment */
	OP_INDEX,     /* append entries to the index files; `final` also for rolling */
	OP_TXN_INDEX, /* append aborted transactions to .txnindex */
	OP_FLUSH,     /* the segment joins the next sync round */
	OP_RETIRE,    /* rename a segment's files to .deleted and forget it */
	OP_CLOSE      /* nothing of the log is in the writer or a round any more */
} OpKind;

typedef struct WriteOp WriteOp;
struct WriteOp
{
	WriteOp *next;                /* writer's queue, then completion queue, then free list */
	WriteOp *log_prev, *log_next; /* writes of the log in flight, oldest first; loop only */
	WriteOp *batch_next;          /* writer: the same log's ops of this turn */
	OpKind kind;
	Log *log;
	LogSegment *segment;
	const uint8_t *buf;
	int32_t len;
	int32_t pos;
	int64_t base_offset;
	int64_t end_offset;
	int64_t start_us; /* when it was queued */
	bool sync;        /* acks wait for the disk */
	bool followed;    /* of the log, when it was queued */
	bool final;
	int error; /* errno; ECANCELED: an earlier op of the log failed */
	void (*release)(void *owner);
	void *owner;
	ProducerUndo *undo; /* newest first */
	int32_t records;    /* OP_WRITE: offsets it takes */
	int nentries;       /* OP_INDEX: payload = entries, then times */
	int ntimes;
	int32_t at_entry;
	int32_t at_time;
	void *payload;
	/* what the append changed in the segment, to be taken back when it fails */
	int64_t prev_end_offset;
	int32_t prev_bytes_since_index;
	int64_t prev_max_timestamp;
	int64_t prev_max_timestamp_offset;
	int64_t prev_first_timestamp;
	TimeEntry prev_last_time;
	int32_t prev_entries; /* in file and tail */
	int32_t prev_times;
	void *snapshot; /* OP_INDEX of a roll: producers at that offset, for the janitor */
	size_t snapshot_len;
};

/* Owned by the writer thread. */
typedef struct LogWriter
{
	WriteOp *first, *last; /* ops of this turn */
	Log *next_touched;
	bool failed; /* drop what comes until the loop has seen it and resumes */
} LogWriter;

struct Log
{
	UT_hash_handle hh; /* by name */
	LogManager *m;
	char *name; /* "orders-0": the folder */
	char *topic;
	int32_t partition;
	WUuid topic_id;
	void *user;
	char *error;
	LogState state;
	bool deleted;
	bool quarantined;
	bool followed; /* others read up to the written end: log_set_followed() */
	bool in_changed;
	bool in_unsynced;
	bool need_resume;    /* the writer dropped ops: tell it to go on once nothing is in flight */
	bool epochs_dirty;   /* leader-epoch-checkpoint is behind the cache */
	bool snapshot_dirty; /* producers changed since the last snapshot */
	bool touched;        /* files or names of it changed since the start: a clean stop puts them on disk */
	LogConfig config;
	int64_t start_offset;
	int64_t wanted_start;        /* raised, not yet durable */
	int64_t stop_snapshot;       /* offset of the last one that a stop has left, -1 none */
	int64_t kept_recovery_point; /* of a log that could not be opened */
	int64_t appended_end;
	int64_t written_end;
	int64_t synced_end;
	int64_t flushed_end;
	int64_t high_watermark;
	int64_t size;
	int64_t last_append_ms;
	int64_t unflushed_messages;
	int64_t flush_due_ms;      /* INT64_MAX: nothing to flush */
	int64_t producers_due_ms;  /* next expiry */
	int64_t retention_from_ms; /* before that its age and size are not looked at */
	int64_t unsynced_since_us;
	LogSegment **segments; /* segments[0..nsegments), oldest first; the last is active */
	int nsegments;
	int segments_cap;
	int sync_index; /* the first segment that is not wholly flushed */
	TailRing ring;
	EpochCache epochs;
	int32_t begun_epoch, begun_asked_epoch; /* begun_epochs.h: on disk, on its way; -1 none */
	int64_t begun_end, begun_asked_end;
	ProducerState *producers;
	WriteOp *inflight_first, *inflight_last;
	uint32_t truncations;             /* reads that were under way begin again */
	int ops;                          /* in the writer, of any kind */
	int jobs;                         /* with readers or the janitor */
	int64_t cleaned_end;              /* compacted below; kept in cleaner-offset-checkpoint */
	struct LogCompaction *compaction; /* NULL: the log is not compacted */
	int load_index;                   /* at start: which task loads it */
	int due_index;                    /* in the manager's heap, -1 not there */
	int64_t due_ms;
	Log *changed_next;
	Log *unsynced_prev, *unsynced_next;
	_Atomic bool new_dir; /* partition.metadata and the folder's entry are not synced yet */
	_Atomic bool dead;    /* deleted: what is still queued does nothing */
	LogWriter writer;
};

/* ---- log.c: small helpers on a Log ---- */

Log *log_new(LogManager *m, const char *name);
void log_free(Log *log); /* no op, job or slice may be left but slices on retired segments */
bool log_parse_name(const char *name, char *topic, size_t cap, int32_t *partition);
void log_changed(Log *log); /* on_change at the end of this dispatch (or the next) */
void log_set_error(Log *log, LogState state, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
LogSegment *log_active(const Log *log);
LogSegment *log_segment_for(const Log *log, int64_t offset); /* the last that begins at or below; NULL none */
bool log_is_relaxed(const Log *log);
void log_advance_synced(Log *log);
int64_t log_recovery_point(const Log *log);
void txn_index_push(LogSegment *s); /* entries that are not in the file yet: to the writer */
void txn_index_reset(LogSegment *s);
void log_note_unsynced(Log *log, int64_t since_us);
void log_flush(Log *log); /* every byte of it joins the next sync round */
void log_epochs_changed(Log *log);
void log_resume(Log *log); /* the full disk has space again, nothing of the log is in flight */
/* Any thread.  The log's folder, open; it stays the right one when the log is deleted and another gets its
 * name.  -1 with errno, ENOENT when the log is deleted. */
int log_open_dir(Log *log);
/* The files that a segment may have, by what their names end in: the records, their indexes, and the producers' snapshot at
 * its first offset, which is not part of it. */
enum
{
	SEGMENT_INDEXES = 1, /* from here on */
	SEGMENT_FILES = 4,
	SEGMENT_FILES_AND_SNAPSHOT = 5
};
extern const char *const segment_suffixes[SEGMENT_FILES_AND_SNAPSHOT];
void segment_file_name(const LogSegment *s, const char *suffix, char *out, size_t cap);
int log_path(const Log *log, const char *file, char *out, size_t cap); /* length, or -1 too long */

/* ---- segment.c ---- */

LogSegment *segment_new(Log *log, int64_t base_offset);
uint64_t segment_content(LogManager *m); /* any thread: a name that none had before */
void segment_push(Log *log, LogSegment *s);
void segment_ref(LogSegment *s);
void segment_unref(LogSegment *s);
void segment_free_unused(LogSegment *s);
/* Any thread.  The descriptor, opened when it is not yet; -1 with errno.  `*created`: the file is new. */
int segment_fd(LogSegment *s, bool create, bool *created);
/* The path of a file that holds while the path lock is held. */
int segment_path(const LogSegment *s, const char *suffix, char *out, size_t cap);
void segment_set_unsynced(LogSegment *s, bool unsynced);
void segment_touch(LogSegment *s); /* its descriptor was used: keep it, close the oldest ones */
void segment_note_fd(LogSegment *s);

#endif
