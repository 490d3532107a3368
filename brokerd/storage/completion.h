/*
 * completion.h: what the helper threads have finished, on its way back to the loop.
 *
 * Anybody posts; the eventfd is written only when the queue was empty, so a burst costs one system call.
 * The loop takes everything at once and looks at it without the lock.
 */
#ifndef BROKERD_STORAGE_COMPLETION_H
#define BROKERD_STORAGE_COMPLETION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "brokerd/storage/internal.h"
#include "brokerd/storage/work_queue.h"

struct Completions
{
	pthread_mutex_t mutex;
	int fd;
	bool signalled;
	WriteOp *ops, *ops_last;
	LogSegment *segments, *segments_last;
	Job *jobs, *jobs_last;
};

typedef struct Completed
{
	WriteOp *ops;
	LogSegment *segments; /* by done_next; read with completions_segment() */
	Job *jobs;
} Completed;

bool completions_init(Completions *c);
void completions_free(Completions *c);
void completions_post_ops(Completions *c, WriteOp *first, WriteOp *last);
/* A sync of the segment ended: up to `end` is on disk, or `error`.  With it come ops, if not NULL. */
void completions_post_segment(Completions *c, LogSegment *s, int64_t end, int error, WriteOp *first,
							  WriteOp *last);
void completions_post_job(Completions *c, Job *job);
/* False: there is nothing. */
bool completions_take(Completions *c, Completed *out);
/* One taken segment's result; it may be posted again from here on. */
void completions_segment(Completions *c, LogSegment *s, int64_t *end, int *error);

#endif
