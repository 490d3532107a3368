/*
 * config_names.c: which names there are: our options, Kafka's that are ignored or refused, and the nearest
 * of ours to a mistyped one.
 */
#include "brokerd/base/config_internal.h"

#include <string.h>

#define NEAREST_MAX_LEN 96

static const ConfigKnownName known_names[] = {
#define CONFIG_IGNORED(name, why) {name, false, why},
#define CONFIG_REFUSED(name, why) {name, true, why},
#include "brokerd/base/config_ignored.def"
#undef CONFIG_IGNORED
#undef CONFIG_REFUSED
};

const ConfigKnownName *
config_known_names(int *n)
{
	*n = (int) (sizeof(known_names) / sizeof(known_names[0]));
	return known_names;
}

static bool
name_fits(const char *name, const char *row)
{
	size_t len = strlen(row);

	if (row[len - 1] == '.')
		return strncmp(name, row, len) == 0;
	return strcmp(name, row) == 0;
}

ConfigNameKind
config_name_kind(const char *name, const char **why)
{
	int n;
	const ConfigKnownName *rows = config_known_names(&n);

	/* Our options first: a row for "log.cleaner.io." must never hide one of them. */
	if (config_option_id(name) >= 0)
		return CONFIG_NAME_OPTION;
	for (int i = 0; i < n; i++)
	{
		if (!name_fits(name, rows[i].name))
			continue;
		if (why != NULL)
			*why = rows[i].why;
		return rows[i].refused ? CONFIG_NAME_REFUSED : CONFIG_NAME_IGNORED;
	}
	return CONFIG_NAME_UNKNOWN;
}

static int
min3(int a, int b, int c)
{
	int m = a < b ? a : b;

	return m < c ? m : c;
}

/* Edits between two names, a swap of neighbours counting as one ("retention.sm"). */
static int
edit_distance(const char *a, const char *b)
{
	int la = (int) strlen(a), lb = (int) strlen(b);
	int rows[3][NEAREST_MAX_LEN + 1];
	int *before = rows[0], *last = rows[1], *now = rows[2];

	if (la > NEAREST_MAX_LEN || lb > NEAREST_MAX_LEN)
		return NEAREST_MAX_LEN;
	for (int j = 0; j <= lb; j++)
		last[j] = j;
	for (int i = 1; i <= la; i++)
	{
		int *oldest = before;

		now[0] = i;
		for (int j = 1; j <= lb; j++)
		{
			now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < now[j])
				now[j] = before[j - 2] + 1;
		}
		before = last;
		last = now;
		now = oldest;
	}
	return last[lb];
}

const char *
config_nearest_name(const char *name)
{
	int n;
	const ConfigOption *options = config_options(&n);
	const char *nearest = NULL;
	int least = (int) strlen(name) / 3 + 1;

	for (int i = 0; i < n; i++)
	{
		int distance = edit_distance(name, options[i].name);

		if (distance <= least && (nearest == NULL || distance < least))
		{
			least = distance;
			nearest = options[i].name;
		}
	}
	return nearest;
}
