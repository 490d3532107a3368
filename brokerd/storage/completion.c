#include "brokerd/storage/completion.h"

#include <sys/eventfd.h>
#include <unistd.h>

bool
completions_init(Completions *c)
{
	*c = (Completions){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	pthread_mutex_init(&c->mutex, NULL);
	return c->fd >= 0;
}

void
completions_free(Completions *c)
{
	if (c->fd >= 0)
		close(c->fd);
	pthread_mutex_destroy(&c->mutex);
}

/* Called with the mutex held; it is released. */
static void
signal_and_unlock(Completions *c)
{
	bool first = !c->signalled;

	c->signalled = true;
	pthread_mutex_unlock(&c->mutex);
	if (first)
	{
		uint64_t one = 1;

		while (write(c->fd, &one, sizeof(one)) < 0)
			; /* EINTR only: the counter cannot be full */
	}
}

/* Called with the mutex held. */
static void
add_ops(Completions *c, WriteOp *first, WriteOp *last)
{
	if (c->ops_last != NULL)
		c->ops_last->next = first;
	else
		c->ops = first;
	c->ops_last = last;
	last->next = NULL;
}

void
completions_post_ops(Completions *c, WriteOp *first, WriteOp *last)
{
	pthread_mutex_lock(&c->mutex);
	add_ops(c, first, last);
	signal_and_unlock(c);
}

void
completions_post_segment(Completions *c, LogSegment *s, int64_t end, int error, WriteOp *first, WriteOp *last)
{
	pthread_mutex_lock(&c->mutex);
	if (first != NULL)
		add_ops(c, first, last);
	if (end > s->done_end)
		s->done_end = end;
	if (error != 0)
		s->done_error = error;
	if (!s->done_queued)
	{
		s->done_queued = true;
		s->done_next = NULL;
		if (c->segments_last != NULL)
			c->segments_last->done_next = s;
		else
			c->segments = s;
		c->segments_last = s;
	}
	signal_and_unlock(c);
}

void
completions_post_job(Completions *c, Job *job)
{
	pthread_mutex_lock(&c->mutex);
	job->next = NULL;
	if (c->jobs_last != NULL)
		c->jobs_last->next = job;
	else
		c->jobs = job;
	c->jobs_last = job;
	signal_and_unlock(c);
}

bool
completions_take(Completions *c, Completed *out)
{
	pthread_mutex_lock(&c->mutex);
	*out = (Completed){.ops = c->ops, .segments = c->segments, .jobs = c->jobs};
	c->ops = c->ops_last = NULL;
	c->segments = c->segments_last = NULL;
	c->jobs = c->jobs_last = NULL;
	if (c->signalled)
	{
		uint64_t n;

		c->signalled = false;
		if (read(c->fd, &n, sizeof(n)) < 0)
			n = 0; /* the poster has not written yet: its write makes one empty turn */
	}
	pthread_mutex_unlock(&c->mutex);
	return out->ops != NULL || out->segments != NULL || out->jobs != NULL;
}

void
completions_segment(Completions *c, LogSegment *s, int64_t *end, int *error)
{
	pthread_mutex_lock(&c->mutex);
	*end = s->done_end;
	*error = s->done_error;
	s->done_queued = false;
	pthread_mutex_unlock(&c->mutex);
}
