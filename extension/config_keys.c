/*
 * config_keys.c: the table as an array, and finding a key or the one that was meant.
 */
#include "config_keys.h"

#include <stdio.h>
#include <string.h>

const ConfigKey config_keys[] = {
#define CONFIG_KEY(name, scopes, type, unit, def, min, max, allowed, synonym, used, restart, doc)            \
	{name, scopes, type, unit, def, min, max, allowed, synonym, used, restart, doc},
#include "config_keys.def"
};

const int config_keys_count = (int) (sizeof(config_keys) / sizeof(config_keys[0]));

const char *
config_value_unused(const ConfigKey *key, const char *kept)
{
	return strcmp(kept, key->def) == 0 || key->used ? NULL : "brokerd does not act on it";
}

const ConfigKey *
config_key_find(const char *name, int scopes)
{
	int i;

	for (i = 0; i < config_keys_count; i++)
		if ((config_keys[i].scopes & scopes) != 0 && strcmp(config_keys[i].name, name) == 0)
			return &config_keys[i];
	return NULL;
}

/*
 * Edit distance with neighbours swapped counted once: "retention.sm" is one slip away from "retention.ms".
 * Names longer than the row are never near.
 */
#define NEAR_MAX 64

static int
edit_distance(const char *a, const char *b)
{
	int row[3][NEAR_MAX + 1];
	int la = (int) strlen(a), lb = (int) strlen(b);
	int i, j;

	if (la > NEAR_MAX || lb > NEAR_MAX)
		return NEAR_MAX;
	memset(row, 0, sizeof(row));
	for (j = 0; j <= lb; j++)
		row[0][j] = j;
	for (i = 1; i <= la; i++)
	{
		int *now = row[i % 3], *above = row[(i + 2) % 3], *above2 = row[(i + 1) % 3];

		now[0] = i;
		for (j = 1; j <= lb; j++)
		{
			int best = above[j - 1] + (a[i - 1] != b[j - 1]);

			if (above[j] + 1 < best)
				best = above[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && above2[j - 2] + 1 < best)
				best = above2[j - 2] + 1;
			now[j] = best;
		}
	}
	return row[la % 3][lb];
}

const char *
config_nearest(const char *name, const char *(*next)(void *ctx, int i), void *ctx)
{
	const char *best = NULL, *candidate;
	int best_distance = (int) strlen(name) / 3 + 2;
	int i;

	for (i = 0; (candidate = next(ctx, i)) != NULL; i++)
	{
		int d = candidate[0] == '\0' ? NEAR_MAX : edit_distance(name, candidate);

		if (d < best_distance)
		{
			best_distance = d;
			best = candidate;
		}
	}
	return best;
}

static const char *
next_key(void *ctx, int i)
{
	const int *scopes = ctx;

	if (i >= config_keys_count)
		return NULL;
	return (config_keys[i].scopes & *scopes) != 0 ? config_keys[i].name : "";
}

const char *
config_scope_name(int scope)
{
	switch (scope)
	{
		case CFG_TOPIC:
			return "topic";
		case CFG_CLUSTER:
			return "cluster";
		case CFG_BROKER:
			return "broker";
		case CFG_GROUP:
			return "group";
		default:
			return "unknown";
	}
}

const ConfigKey *
config_key_require(const char *name, int scopes, ConfigFault *fault)
{
	const ConfigKey *key = config_key_find(name, scopes);
	const char *near, *scope;

	if (key != NULL)
		return key;
	memset(fault, 0, sizeof(*fault));
	scope = config_scope_name(scopes & -scopes);
	snprintf(fault->message, sizeof(fault->message), "unknown %s configuration \"%.250s\"", scope, name);
	near = config_nearest(name, next_key, &scopes);
	if (near != NULL)
		snprintf(fault->hint, sizeof(fault->hint),
				 "Perhaps you meant \"%s\". The keys of a %s are in broker.config_keys.", near, scope);
	else
		snprintf(fault->hint, sizeof(fault->hint), "The keys of a %s are in broker.config_keys.", scope);
	return NULL;
}

const char *
config_type_name(ConfigType type)
{
	static const char *const names[] = {"boolean", "int", "long", "double", "string", "list"};

	return names[type];
}

const char *
config_unit_name(ConfigUnit unit)
{
	static const char *const names[] = {NULL, "ms", "bytes"};

	return names[unit];
}
