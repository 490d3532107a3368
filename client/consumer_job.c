/*
 * consumer_job.c: what is asked of partitions and is not about reading them: offsets that the application wants to know,
 * and commits.  A job asks for its places as if it were to read them (consumer_ask.c), and has one answer of each.
 */
#include "client/consumer.h"

#include <stdlib.h>

/* It is at its end.  on_commit hears of those that nobody waits for, and of automatic ones that failed. */
static void
job_end(pgb_consumer *c, Job *job)
{
	while (job->parts != NULL)
		consumer_remove(c, &job->parts, job->parts);
	DL_DELETE(c->jobs, job);
	if (job->automatic ? job->err.code != 0 : job->once)
	{
		DL_APPEND(c->results, job);
		return;
	}
	places_clear(&job->places);
	free(job);
}

/* NULL: *err. */
static Job *
job_new(pgb_consumer *c, FromState state, pgb_place *places, size_t n, pgb_error *err)
{
	bool none = state != ASK_TIME && c->c.conf.group_id[0] == '\0';
	Job *job = none ? NULL : calloc(1, sizeof(*job));

	if (none)
		error_set(err, PGB_STATE, false, "only a group has commits: set group.id");
	else if (job == NULL)
		error_memory(err);
	if (job == NULL)
		return NULL;
	DL_APPEND(c->jobs, job);
	for (size_t i = 0; i < n; i++)
	{
		/* Of two commits of a partition the later one counts. */
		FromPart *p =
			state != COMMITTING
				? NULL
				: consumer_find(job->parts, metadata_find(&c->c, wstr(places[i].topic)), places[i].partition);

		if (p == NULL && (p = consumer_add(c, &job->parts, places[i].topic, places[i].partition)) == NULL)
		{
			error_memory(err);
			job_end(c, job);
			return NULL;
		}
		p->state = state;
		p->when = places[i].offset;
		p->job = job;
		p->place = &places[i];
		p->place->code = 0;
		/* Names that stay. */
		if (state == COMMITTING)
			places[i].topic = p->ask.topic->name;
	}
	client_wake_at(&c->c, 0);
	return job;
}

bool
job_answered(FromPart *p, int64_t offset)
{
	if (p->job == NULL)
		return false;
	p->place->offset = offset >= 0 ? offset : PGB_UNKNOWN;
	return true;
}

void
job_step(pgb_consumer *c, FromPart *p, const pgb_error *err, bool of_all)
{
	Job *job = p->job;

	if (err != NULL)
	{
		c->c.last_error = *err;
		if (err->retriable && !job->once && err->code != KERR_REBALANCE_IN_PROGRESS)
		{
			retry_later(&c->c, &p->retry);
			return;
		}
		p->place->code = err->code;
		if (p->state != COMMITTING)
			p->place->offset = PGB_UNKNOWN;
		if ((of_all || p->state == COMMITTING) && job->err.code == 0)
			job->err = *err;
	}
	consumer_remove(c, &job->parts, p);
	if (job->once && job->parts == NULL)
		job_end(c, job);
}

/* Until each place has its answer.  job NULL: it could not begin, *err says why. */
static int
job_wait(pgb_consumer *c, Job *job, int64_t timeout, pgb_error *err)
{
	int64_t until = client_clock() + timeout;
	int rc;

	if (job == NULL)
		return -1;
	for (bool late = false; job->parts != NULL && !late; late = client_clock() >= until)
		client_run(&c->c, until);
	if (job->parts != NULL && job->err.code == 0)
		client_late(&c->c, &job->err, PGB_TIMED_OUT, "topic \"%s\", partition %d: no answer in %lld ms",
					job->parts->ask.topic->name, job->parts->ask.index, (long long) timeout);
	rc = job->err.code == 0 ? 0 : -1;
	if (rc != 0 && err != NULL)
		*err = job->err;
	job_end(c, job);
	return rc;
}

/* ---- commits ---- */

/* Of what is asked for; or (places NULL) of all that the group does not know: positions, automatic ones what is `stored`. */
static Job *
commit_new(pgb_consumer *c, const pgb_place *places, size_t n, bool automatic, pgb_error *err)
{
	PlaceList list = {0};
	bool good = true;
	Job *job = NULL;

	for (size_t i = 0; places != NULL && i < n; i++)
		good = good && places_add(&list, places[i].topic, places[i].partition, places[i].offset);
	for (const FromPart *p = places == NULL ? c->parts : NULL; p != NULL; p = p->hh.next)
	{
		int64_t offset = automatic ? p->stored : p->position;

		if (offset >= 0 && offset != p->committed)
			good = good && places_add(&list, p->ask.topic->name, p->ask.index, offset);
	}
	if (!good)
		error_memory(err);
	else
		job = job_new(c, COMMITTING, list.at, list.n, err);
	if (job == NULL)
	{
		places_clear(&list);
		return NULL;
	}
	job->places = list;
	job->automatic = automatic;
	return job;
}

/* Sent now, once. */
static int
commit_start(pgb_consumer *c, const pgb_place *places, size_t n, bool automatic, pgb_error *err)
{
	Job *job = commit_new(c, places, n, automatic, err);
	int rc = job == NULL ? -1 : 0;

	if (job != NULL && job->parts != NULL && group_ready(c, USE_CONTROL) == NULL)
		rc = client_late(&c->c, err, PGB_STATE, "the coordinator of group \"%s\" is not known yet",
						 c->c.conf.group_id);
	if (job != NULL && (job->parts == NULL || rc != 0))
		job_end(c, job);
	else if (job != NULL)
	{
		job->once = true;
		consumer_ask(c);
	}
	return rc;
}

int
pgb_commit_async(pgb_consumer *c, const pgb_place *places, size_t n, pgb_error *err)
{
	return commit_start(c, places, n, false, err);
}

int
pgb_commit(pgb_consumer *c, const pgb_place *places, size_t n, int timeout_ms, pgb_error *err)
{
	return job_wait(c, commit_new(c, places, n, false, err), timeout_ms, err);
}

void
commit_before_loss(pgb_consumer *c, int64_t timeout)
{
	if (c->c.conf.auto_commit)
		(void) job_wait(c, commit_new(c, NULL, 0, true, NULL), timeout, NULL);
}

/* Automatic commits, from time to time. */
void
commit_step(pgb_consumer *c)
{
	if (!c->c.conf.auto_commit || c->c.conf.group_id[0] == '\0')
		return;
	if (c->c.now >= c->commit_at && c->jobs == NULL && !c->in_callback)
	{
		(void) commit_start(c, NULL, 0, true, NULL);
		c->commit_at = c->c.now + c->c.conf.commit_interval;
	}
	client_wake_at(&c->c, c->commit_at);
}

void
commit_tell(pgb_consumer *c)
{
	for (Job *job; (job = c->results) != NULL;)
	{
		DL_DELETE(c->results, job);
		if (c->c.conf.on_commit != NULL)
			c->c.conf.on_commit(c, job->places.at, job->places.n, job->err.code == 0 ? NULL : &job->err,
								c->c.conf.on_commit_arg);
		places_clear(&job->places);
		free(job);
	}
}

void
jobs_free(pgb_consumer *c)
{
	while (c->jobs != NULL)
		job_end(c, c->jobs);
	commit_tell(c);
}

/* ---- what the application wants to know ---- */

int
pgb_committed(pgb_consumer *c, pgb_place *places, size_t n, int timeout_ms, pgb_error *err)
{
	return job_wait(c, job_new(c, ASK_COMMITTED, places, n, err), timeout_ms, err);
}

int
pgb_offsets(pgb_consumer *c, pgb_place *places, size_t n, int timeout_ms, pgb_error *err)
{
	for (size_t i = 0; i < n; i++)
	{
		int parts = pgb_partitions(c, places[i].topic, timeout_ms, err);

		if (parts < 0)
			return -1;
		if (places[i].partition < 0 || places[i].partition >= parts)
			return error_set(err, PGB_NO_PARTITION, false, "topic \"%s\" has partitions 0 to %d, not %d",
							 places[i].topic, parts - 1, places[i].partition);
	}
	return job_wait(c, job_new(c, ASK_TIME, places, n, err), timeout_ms, err);
}
