/*
 * work_queue.h: jobs that helper threads run and the loop takes back.
 *
 * A Job is the first member of a struct that carries its data.  `run` is called on a helper thread and may
 * touch only what the job carries; `done` is called later on the loop thread and frees the job.  Jobs of a
 * queue with one thread run in order.
 */
#ifndef BROKERD_STORAGE_WORK_QUEUE_H
#define BROKERD_STORAGE_WORK_QUEUE_H

#include <pthread.h>
#include <stdbool.h>

typedef struct Completions Completions;

typedef struct Job Job;
struct Job
{
	Job *next;
	void (*run)(Job *job);
	void (*done)(Job *job);
};

#define WORK_QUEUE_THREADS 32

typedef struct WorkQueue
{
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	Job *first, *last;
	bool stopping;
	int nthreads;
	pthread_t threads[WORK_QUEUE_THREADS];
	Completions *completions;
} WorkQueue;

bool work_queue_start(WorkQueue *q, int nthreads, const char *name, Completions *completions);
void work_queue_push(WorkQueue *q, Job *job);
void work_queue_stop(WorkQueue *q); /* runs what is queued, then joins */

/* A thread with all signals blocked and a small stack. */
bool storage_thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *arg);

#endif
