/*
 * manager.h: the data directory as one object: its threads, its queues and what the loop keeps for all logs.
 */
#ifndef BROKERD_STORAGE_MANAGER_H
#define BROKERD_STORAGE_MANAGER_H

#include <semaphore.h>

#include "brokerd/storage/begun_epochs.h"
#include "brokerd/storage/clean_marker.h"
#include "brokerd/storage/completion.h"
#include "brokerd/storage/internal.h"
#include "brokerd/storage/meta_properties.h"
#include "brokerd/storage/read_cache.h"
#include "brokerd/storage/work_queue.h"

/* The writer thread: takes all queued ops at once, writes each log's together, then starts a sync round. */
typedef struct Writer
{
	pthread_t thread;
	bool running;
	pthread_mutex_t mutex;
	sem_t wake; /* posted once for each `waiting` that is taken back: what a condition variable does with
							* a system call more, as its mutex counts as contended after a wait */
	WriteOp *first, *last; /* from the loop */
	bool waiting;
	bool stopping;
	int round_left; /* files of the running sync round */
	/* the writer's own */
	LogSegment *dirty, *dirty_last;
	int ndirty;
	WriteOp *held, *held_last; /* written, and nobody asks before they are synced, too */
} Writer;

/* The sync workers: each takes one file of the round; or one of them does a syncfs for all. */
#define SYNC_WORKERS_MAX 16
#define STUCK_SYNC_US    ((int64_t) 10 * 1000 * 1000)
typedef struct Syncer
{
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	LogSegment *files; /* of the round, by sync.next */
	bool whole;        /* syncfs for all of them */
	bool stopping;
	int nthreads;
	int next_slot;
	pthread_t threads[SYNC_WORKERS_MAX];
	_Atomic int64_t started_us[SYNC_WORKERS_MAX + 1]; /* 0: idle; the last is the writer's own */
	_Atomic uint64_t syncs;
} Syncer;

typedef struct DeleteTask DeleteTask;
typedef struct Deleter
{
	pthread_t thread;
	bool running;
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	DeleteTask *tasks;
	bool stopping;
} Deleter;

struct LogManager
{
	LogManagerOptions opt;
	char *dir;
	int dir_fd;
	int lock_fd;
	MetaProperties meta;
	bool clean_start;
	CleanMarker marker; /* of the last stop, when it was clean */
	Log *logs;          /* by name */

	Completions completions;
	Writer writer;
	Syncer syncer;
	Deleter deleter;
	WorkQueue readers;
	WorkQueue janitor;
	WorkQueue compactor; /* one thread */
	BegunEpochs begun;
	pthread_rwlock_t path_lock; /* readers open files by path; the loop renames folders */
	pthread_mutex_t marker_mutex;
	_Atomic uint64_t contents; /* how many names segment_content() has given */
	_Atomic bool marker_gone;  /* the clean-shutdown marker is deleted: files may change */

	/* the loop's */
	WriteOp *free_ops;
	ProducerUndo *free_undos;
	Log *changed, *changed_last;
	Log *unsynced, *unsynced_last; /* oldest first */
	Log **due;                     /* binary heap by due_ms */
	int ndue;
	int due_cap;
	LogSegment *lru, *lru_last; /* oldest first */
	int nopen;
	int max_open;
	int64_t cold_bytes; /* in buffers of cold reads */
	struct ReadJob *cold_waiting, *cold_waiting_last;
	struct ReadJob *free_reads;
	int nfree_reads;
	ReadCache read_cache;
	int64_t wall_ms;
	int64_t last_checkpoint_ms;
	int64_t last_probe_ms;
	bool checkpoint_running;
	bool checkpoint_dirty;             /* some offset that a checkpoint keeps has moved */
	bool start_dirty;                  /* log-start-offset-checkpoint must be written at once */
	bool cleaned_dirty;                /* cleaner-offset-checkpoint is behind */
	Log *compact_first, *compact_last; /* logs that wait for the compaction thread */
	bool compacting;
	bool probe_running;
	int nfull; /* logs in LOG_STATE_NO_SPACE */
	bool stuck;
	bool closing;
};

/* ---- writer.c ---- */
bool writer_start(LogManager *m);
void writer_stop(LogManager *m); /* after everything queued is written and synced */
WriteOp *writer_op(LogManager *m, OpKind kind, Log *log, LogSegment *segment); /* loop: from the free list */
void writer_push(LogManager *m, WriteOp *op);
/* With the mutex, which is released: the writer looks again. */
void writer_wake_and_unlock(Writer *w);
/* Writer thread: what is held goes to the loop, without a sync. */
void writer_post_held(LogManager *m);
void writer_resume(Log *log); /* loop, nothing of the log in flight: writes are taken again */

/* ---- sync.c ---- */
bool syncer_start(LogManager *m);
void syncer_stop(LogManager *m);
/* Writer thread. */
void syncer_mark_dirty(LogManager *m, LogSegment *s);
void syncer_start_round(LogManager *m, bool queue_is_empty);
/* Any thread: microseconds the longest running sync has taken; 0 none. */
int64_t syncer_oldest_us(LogManager *m, int64_t now_us);

/* ---- dispatch.c ---- */
void dispatch_op(LogManager *m, WriteOp *op);
bool dispatch_take(LogManager *m); /* false: nothing had come back */
void log_changed_flush(LogManager *m);

/* One turn of the loop's work for a caller that cannot go on yet: completions are taken, on_change waits. */
void dispatch_wait(LogManager *m);

/* ---- directory.c ---- */
bool directory_lock(LogManager *m, Err *err);
/* Any thread, before anything under the directory changes. */
void directory_mark_unclean(LogManager *m);

#endif
