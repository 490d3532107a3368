#include "brokerd/storage/epoch_cache.h"

#include <stdlib.h>
#include <string.h>

void
epoch_cache_free(EpochCache *c)
{
	free(c->e);
	*c = (EpochCache){0};
}

int32_t
epoch_cache_latest(const EpochCache *c)
{
	return c->n == 0 ? -1 : c->e[c->n - 1].epoch;
}

bool
epoch_cache_assign(EpochCache *c, int32_t epoch, int64_t start)
{
	if (epoch < 0 || start < 0)
		return false;
	if (c->n > 0 && c->e[c->n - 1].epoch == epoch && start >= c->e[c->n - 1].start_offset)
		return false;
	while (c->n > 0 && (c->e[c->n - 1].epoch >= epoch || c->e[c->n - 1].start_offset >= start))
		c->n--;
	if (c->n == c->cap)
	{
		c->cap = c->cap ? c->cap * 2 : 2;
		c->e = realloc(c->e, sizeof(*c->e) * (size_t) c->cap);
	}
	c->e[c->n++] = (EpochEntry){epoch, start};
	return true;
}

int32_t
epoch_cache_at(const EpochCache *c, int64_t offset)
{
	for (int i = c->n - 1; i >= 0; i--)
		if (c->e[i].start_offset <= offset)
			return c->e[i].epoch;
	return -1;
}

void
epoch_cache_end(const EpochCache *c, int32_t epoch, int64_t log_end, int32_t *found, int64_t *end)
{
	int higher = c->n;

	*found = -1;
	*end = -1;
	if (epoch < 0 || c->n == 0)
		return;
	if (epoch == c->e[c->n - 1].epoch)
	{
		*found = epoch;
		*end = log_end;
		return;
	}
	while (higher > 0 && c->e[higher - 1].epoch > epoch)
		higher--;
	if (higher == c->n)
		return; /* newer than all that is known here */
	/* Older than all: its records are gone, and the follower goes on from the log's start. */
	*found = higher == 0 ? epoch : c->e[higher - 1].epoch;
	*end = c->e[higher].start_offset;
}

bool
epoch_cache_truncate_end(EpochCache *c, int64_t end)
{
	int n = c->n;

	while (c->n > 0 && c->e[c->n - 1].start_offset >= end)
		c->n--;
	return c->n != n;
}

bool
epoch_cache_truncate_start(EpochCache *c, int64_t start)
{
	int covering = -1;

	while (covering + 1 < c->n && c->e[covering + 1].start_offset <= start)
		covering++;
	if (covering < 0 || (covering == 0 && c->e[0].start_offset == start))
		return false;
	c->e[covering].start_offset = start;
	memmove(&c->e[0], &c->e[covering], sizeof(*c->e) * (size_t) (c->n - covering));
	c->n -= covering;
	return true;
}
