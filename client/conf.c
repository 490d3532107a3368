#include "client/conf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef enum RowKind
{
	ROW_NUMBER,
	ROW_WORD,
	ROW_TEXT
} RowKind;

typedef struct Row
{
	RowKind kind;
	size_t offset;
	const char *name;
	const char *init;
	int64_t min, max;
	const char *words;
	const char *text;
} Row;

static const Row rows[] = {
#define SET_NUMBER(field, name, init, min, max, text)                                                        \
	{ROW_NUMBER, offsetof(Conf, field), name, #init, min, max, NULL, text},
#define SET_WORD(field, name, init, words, text)                                                             \
	{ROW_WORD, offsetof(Conf, field), name, init, 0, 0, words, text},
#define SET_TEXT(field, name, init, text) {ROW_TEXT, offsetof(Conf, field), name, init, 0, 0, NULL, text},
#include "client/settings.def"
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static void *
field(const Conf *conf, const Row *row)
{
	return (char *) (uintptr_t) conf + row->offset;
}

/* The place of a word in "a|b|c", -1 when it is not there. */
static int
word_index(const char *words, const char *word)
{
	size_t len = strlen(word);

	for (int i = 0;; i++)
	{
		size_t n = strcspn(words, "|");

		if (n == len && strncmp(words, word, n) == 0)
			return i;
		if (words[n] == '\0')
			return -1;
		words += n + 1;
	}
}

static int
set_row(Conf *conf, const Row *row, const char *value, pgb_error *err)
{
	void *at = field(conf, row);

	if (row->kind == ROW_TEXT)
	{
		char *copy = strdup(value);

		if (copy == NULL)
			return error_memory(err);
		free(*(char **) at);
		*(char **) at = copy;
	}
	else if (row->kind == ROW_WORD)
	{
		int word = word_index(row->words, value);

		if (word < 0)
			return error_set(err, PGB_INVALID, false, "%s is one of %s, not \"%s\"", row->name, row->words,
							 value);
		*(int *) at = word;
	}
	else
	{
		bool is_all = strcmp(row->name, "acks") == 0 && strcmp(value, "all") == 0; /* Kafka's word for -1 */
		long long v;
		char *end;

		errno = 0;
		v = strtoll(is_all ? "-1" : value, &end, 10);
		if (*value == '\0' || *end != '\0' || errno != 0 || v < row->min || v > row->max)
			return error_set(err, PGB_INVALID, false, "%s is a number from %lld to %lld, not \"%s\"",
							 row->name, (long long) row->min, (long long) row->max, value);
		*(int64_t *) at = v;
	}
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
	bool done = true;

	*to = *from;
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].kind == ROW_TEXT)
		{
			char **text = field(to, &rows[i]);

			*text = *text == NULL ? NULL : strdup(*text);
			done = done && *text != NULL;
		}
	return done;
}

void
conf_clear(Conf *conf)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].kind == ROW_TEXT)
			free(*(char **) field(conf, &rows[i]));
}

void
pgb_conf_free(pgb_conf *conf)
{
	if (conf != NULL)
		conf_clear(conf);
	free(conf);
}
