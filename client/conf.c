#include "client/conf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Row
{
	size_t offset;
	const char *name;
	const char *init;
	int64_t min, max;
	const char *words; /* NULL: a number, or (max 0) a text */
	const char *text;
} Row;

static const Row rows[] = {
#define SET_NUMBER(field, name, init, min, max, text)                                                        \
	{offsetof(Conf, field), name, #init, min, max, NULL, text},
#define SET_WORD(field, name, init, words, text) {offsetof(Conf, field), name, init, 0, 0, words, text},
#define SET_TEXT(field, name, init, text)        {offsetof(Conf, field), name, init, 0, 0, NULL, text},
#include "client/settings.def"
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

/* A row's text in a Conf; NULL: it is no text. */
static char **
text_of(const Conf *conf, const Row *row)
{
	return row->words == NULL && row->max == 0 ? (char **) ((uintptr_t) conf + row->offset) : NULL;
}

static int
set_row(Conf *conf, const Row *row, const char *value, pgb_error *err)
{
	char *copy, *end, **text = text_of(conf, row);
	size_t len = strlen(value), n;
	void *at = (char *) conf + row->offset;
	long long v = 0;

	if (text != NULL)
	{
		if ((copy = strdup(value)) == NULL)
			return error_memory(err);
		free(*text);
		*text = copy;
		return 0;
	}
	if (row->words != NULL)
	{
		for (const char *word = row->words; (n = strcspn(word, "|")) != len || strncmp(word, value, n) != 0;
			 v++)
		{
			if (word[n] == '\0')
				return error_set(err, PGB_INVALID, false, "%s is one of %s, not \"%s\"", row->name,
								 row->words, value);
			word += n + 1;
		}
		*(int *) at = (int) v;
		return 0;
	}
	errno = 0;
	/* Kafka's word for -1. */
	v = strtoll(at == &conf->acks && strcmp(value, "all") == 0 ? "-1" : value, &end, 10);
	if (len == 0 || *end != '\0' || errno != 0 || v < row->min || v > row->max)
		return error_set(err, PGB_INVALID, false, "%s is a number from %lld to %lld, not \"%s\"", row->name,
						 (long long) row->min, (long long) row->max, value);
	*(int64_t *) at = v;
	return 0;
}

pgb_conf *
pgb_conf_new(void)
{
	pgb_conf *conf = calloc(1, sizeof(*conf));

	for (size_t i = 0; conf != NULL && i < N_ROWS; i++)
		if (set_row(conf, &rows[i], rows[i].init, NULL) != 0)
		{
			pgb_conf_free(conf);
			return NULL;
		}
	return conf;
}

int
pgb_conf_set(pgb_conf *conf, const char *name, const char *value, pgb_error *err)
{
	if (conf == NULL || name == NULL || value == NULL)
		return error_set(err, PGB_INVALID, false, "a setting is a name and a value");
	for (size_t i = 0; i < N_ROWS; i++)
		if (strcmp(rows[i].name, name) == 0)
			return set_row(conf, &rows[i], value, err);
	return error_set(err, PGB_INVALID, false, "there is no setting \"%s\"; docs/client.md lists them", name);
}

bool
pgb_conf_each(int i, const char **name, const char **value, const char **text)
{
	if (i < 0 || (size_t) i >= N_ROWS)
		return false;
	*name = rows[i].name;
	*value = rows[i].init;
	*text = rows[i].text;
	return true;
}

void
pgb_conf_on_delivery(pgb_conf *conf, pgb_on_delivery callback, void *arg)
{
	conf->on_delivery = callback;
	conf->on_delivery_arg = arg;
}

void
pgb_conf_on_rebalance(pgb_conf *conf, pgb_on_rebalance callback, void *arg)
{
	conf->on_rebalance = callback;
	conf->on_rebalance_arg = arg;
}

void
pgb_conf_on_commit(pgb_conf *conf, pgb_on_commit callback, void *arg)
{
	conf->on_commit = callback;
	conf->on_commit_arg = arg;
}

bool
conf_copy(Conf *to, const Conf *from)
{
	char **text;
	bool done = true;

	*to = *from;
	for (size_t i = 0; i < N_ROWS; i++)
		if ((text = text_of(to, &rows[i])) != NULL && *text != NULL)
			done = (*text = strdup(*text)) != NULL && done;
	if (!done)
		conf_clear(to);
	return done;
}

void
conf_clear(Conf *conf)
{
	char **text;

	for (size_t i = 0; i < N_ROWS; i++)
		if ((text = text_of(conf, &rows[i])) != NULL)
			free(*text);
}

void
pgb_conf_free(pgb_conf *conf)
{
	if (conf != NULL)
		conf_clear(conf);
	free(conf);
}
