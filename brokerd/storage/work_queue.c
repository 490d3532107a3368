#include "brokerd/storage/work_queue.h"

#include <signal.h>
#include <stddef.h>

#include "brokerd/storage/completion.h"

#define THREAD_STACK ((size_t) 256 * 1024)

bool
storage_thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(thread, &attr, main, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (rc == 0)
		pthread_setname_np(*thread, name);
	return rc == 0;
}

static void *
worker_main(void *arg)
{
	WorkQueue *q = arg;

	pthread_mutex_lock(&q->mutex);
	for (;;)
	{
		Job *job;

		while (q->first == NULL && !q->stopping)
			pthread_cond_wait(&q->wake, &q->mutex);
		if ((job = q->first) == NULL)
			break;
		q->first = job->next;
		if (q->first == NULL)
			q->last = NULL;
		pthread_mutex_unlock(&q->mutex);
		job->run(job);
		completions_post_job(q->completions, job);
		pthread_mutex_lock(&q->mutex);
	}
	pthread_mutex_unlock(&q->mutex);
	return NULL;
}

bool
work_queue_start(WorkQueue *q, int nthreads, const char *name, Completions *completions)
{
	if (nthreads < 1)
		nthreads = 1;
	if (nthreads > WORK_QUEUE_THREADS)
		nthreads = WORK_QUEUE_THREADS;
	pthread_mutex_init(&q->mutex, NULL);
	pthread_cond_init(&q->wake, NULL);
	q->first = q->last = NULL;
	q->stopping = false;
	q->completions = completions;
	for (q->nthreads = 0; q->nthreads < nthreads; q->nthreads++)
		if (!storage_thread_start(&q->threads[q->nthreads], name, worker_main, q))
			break;
	return q->nthreads > 0;
}

void
work_queue_push(WorkQueue *q, Job *job)
{
	job->next = NULL;
	/* The directory is being closed: what still comes is done in place. */
	if (q->nthreads == 0)
	{
		job->run(job);
		completions_post_job(q->completions, job);
		return;
	}
	pthread_mutex_lock(&q->mutex);
	if (q->last != NULL)
		q->last->next = job;
	else
		q->first = job;
	q->last = job;
	pthread_cond_signal(&q->wake);
	pthread_mutex_unlock(&q->mutex);
}

void
work_queue_stop(WorkQueue *q)
{
	pthread_mutex_lock(&q->mutex);
	q->stopping = true;
	pthread_cond_broadcast(&q->wake);
	pthread_mutex_unlock(&q->mutex);
	for (int i = 0; i < q->nthreads; i++)
		pthread_join(q->threads[i], NULL);
	q->nthreads = 0;
	pthread_mutex_destroy(&q->mutex);
	pthread_cond_destroy(&q->wake);
}
