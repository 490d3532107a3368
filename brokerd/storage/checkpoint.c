#include "brokerd/storage/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/errors.h"

#define CHECKPOINT_MAX ((size_t) 256 * 1024 * 1024)

void
checkpoint_begin(TextBuf *t, int rows)
{
	text_add(t, "0\n%d\n", rows);
}

void
checkpoint_add(TextBuf *t, const char *topic, int32_t partition, int64_t offset)
{
	text_add(t, "%s %" PRId32 " %" PRId64 "\n", topic, partition, offset);
}

void
checkpoint_epochs(TextBuf *t, const EpochCache *c)
{
	checkpoint_begin(t, c->n);
	for (int i = 0; i < c->n; i++)
		text_add(t, "%" PRId32 " %" PRId64 "\n", c->e[i].epoch, c->e[i].start_offset);
}

typedef struct Lines
{
	char *text;
	char *next;
	int expected;
	int seen;
} Lines;

static char *
next_line(Lines *l)
{
	char *line = l->next, *end;

	if (line == NULL || *line == '\0')
		return NULL;
	end = strchr(line, '\n');
	if (end != NULL)
		*end = '\0';
	l->next = end == NULL ? NULL : end + 1;
	return line;
}

/* False with `err` untouched and text NULL: no such file. */
static bool
lines_open(Lines *l, const char *path, Err *err)
{
	size_t len;
	char *line, extra;

	*l = (Lines){0};
	l->text = file_read(path, CHECKPOINT_MAX, &len);
	if (l->text == NULL)
		return errno == ENOENT ? true
							   : err_set(err, KERR_KAFKA_STORAGE_ERROR, errno, "%s cannot be read: %s", path,
										 strerror(errno));
	l->next = l->text;
	if ((line = next_line(l)) == NULL)
		return true;
	if (strcmp(line, "0") != 0)
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, 0,
					   "%s has version \"%.20s\"; this broker reads version 0 only", path, line);
	if ((line = next_line(l)) == NULL)
		return true;
	if (sscanf(line, "%d%c", &l->expected, &extra) != 1 || l->expected < 0)
		return err_set(err, KERR_KAFKA_STORAGE_ERROR, 0, "%s is damaged: line 2 is no count", path);
	return true;
}

static bool
lines_close(Lines *l, const char *path, bool ok, Err *err)
{
	if (ok && l->seen != l->expected)
		ok = err_set(err, KERR_KAFKA_STORAGE_ERROR, 0, "%s is damaged: it has %d lines instead of %d", path,
					 l->seen, l->expected);
	free(l->text);
	return ok;
}

bool
checkpoint_read(const char *path, CheckpointRowFn row, void *ctx, Err *err)
{
	Lines l;
	char *line;
	bool ok = lines_open(&l, path, err);

	while (ok && (line = next_line(&l)) != NULL)
	{
		char topic[256], extra;
		int32_t partition;
		int64_t offset;

		if (sscanf(line, "%255s %" SCNd32 " %" SCNd64 " %c", topic, &partition, &offset, &extra) != 3)
			ok = err_set(err, KERR_KAFKA_STORAGE_ERROR, 0, "%s is damaged: \"%.80s\" is no row", path, line);
		else
			row(ctx, topic, partition, offset);
		l.seen++;
	}
	return lines_close(&l, path, ok, err);
}

bool
checkpoint_read_epochs(const char *path, EpochCache *c, Err *err)
{
	Lines l;
	char *line;
	bool ok = lines_open(&l, path, err);

	while (ok && (line = next_line(&l)) != NULL)
	{
		char extra;
		int32_t epoch;
		int64_t offset;

		if (sscanf(line, "%" SCNd32 " %" SCNd64 " %c", &epoch, &offset, &extra) != 2)
			ok = err_set(err, KERR_KAFKA_STORAGE_ERROR, 0, "%s is damaged: \"%.80s\" is no row", path, line);
		else
			epoch_cache_assign(c, epoch, offset);
		l.seen++;
	}
	return lines_close(&l, path, ok, err);
}
