/*
 * config_internal.h: what the files of config share.  config_file.c reads lines, config_value.c knows types
 * and bounds, config_listeners.c addresses, config.c puts them together, config_show.c prints.
 */
#ifndef BROKERD_BASE_CONFIG_INTERNAL_H
#define BROKERD_BASE_CONFIG_INTERNAL_H

#include "brokerd/base/config.h"

/* ---- config_file.c ---- */

/* One setting of a properties file.  `name` and `value` live until the callback returns. */
typedef struct ConfigLine
{
	const char *name;
	const char *value;
	int line; /* 0: not from a file */
} ConfigLine;
/* Returns false to stop. */
typedef bool (*ConfigLineFn)(void *ctx, const ConfigLine *line);

/* Java's properties syntax: comments # and !, separators =, : or blanks, a trailing backslash goes on in the
 * next line, backslash escapes.  Values lose blanks at both ends, as Kafka does it. */
bool config_file_read(const char *path, ConfigLineFn fn, void *ctx, Err *err)
	__attribute__((warn_unused_result));
/* The same for text in memory (tests). */
bool config_text_read(const char *text, ConfigLineFn fn, void *ctx, Err *err)
	__attribute__((warn_unused_result));

/* ---- config_value.c ---- */

/* Checks `value` and, with `config`, stores it. */
bool config_value_set(BrokerConfig *config, const ConfigOption *option, const char *value, Err *err)
	__attribute__((warn_unused_result));
void config_value_free(BrokerConfig *config, const ConfigOption *option);
/* A bound as text: whole numbers without exponent. */
void config_bound_text(double bound, char *buf, size_t size);

/* ---- config_names.c ---- */

typedef enum ConfigNameKind
{
	CONFIG_NAME_OPTION,
	CONFIG_NAME_IGNORED,
	CONFIG_NAME_REFUSED,
	CONFIG_NAME_UNKNOWN
} ConfigNameKind;
/* `why` gets the reason of an ignored or refused one. */
ConfigNameKind config_name_kind(const char *name, const char **why);
/* The option whose name takes the fewest changed letters; NULL when none is near. */
const char *config_nearest_name(const char *name);

typedef struct ConfigKnownName
{
	const char *name;
	bool refused;
	const char *why;
} ConfigKnownName;
const ConfigKnownName *config_known_names(int *n);

/* ---- config_listeners.c ---- */

/* listeners, advertised.listeners, the protocol map and the inter-broker name → bound, advertised, ... */
bool config_listeners_resolve(BrokerConfig *config, Err *err) __attribute__((warn_unused_result));
void config_listeners_free(BrokerConfig *config);

/* ---- config.c ---- */

/* Collects problems: config_check prints them all, config_load stops at the first. */
typedef struct ConfigReader
{
	BrokerConfig *config;
	const char *path;               /* for messages; NULL: none */
	int lines[CONFIG_OPTION_COUNT]; /* where each was set */
	/* Return false to stop reading. */
	bool (*on_problem)(void *ctx, int line, const char *text);
	void *ctx;
} ConfigReader;
/* False when on_problem stopped it or the file cannot be read (reported to on_problem too). */
bool config_read_all(ConfigReader *r, const char *const *overrides, int n_overrides)
	__attribute__((warn_unused_result));
void config_warn(BrokerConfig *config, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- memory ---- */

/* Out of memory at start ends the process with a line. */
void *config_alloc(size_t size);
char *config_strndup(const char *s, size_t len);

#endif
