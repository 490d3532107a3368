/*
 * config.h: the static configuration of one brokerd: a properties file with Kafka's names.
 *
 *     node.id=1
 *     listeners=PLAINTEXT://0.0.0.0:9092
 *     log.dirs=/var/lib/pg_broker
 *     pg_broker.postgres=host=db1,db2 dbname=broker user=broker_daemon
 *
 * Every option is one row of config_options.def, which makes the fields of BrokerConfig, the parser, the
 * `--help` text and docs/configuration.md.  Options of Kafka that have no meaning here are rows of
 * config_ignored.def: accepted with a warning, so that a file of Kafka's can be taken over.
 *
 * Ownership: a BrokerConfig owns its strings and arrays; config_free() frees them.  It is read once at start
 * and never changes; what people change while brokers run are dynamic configs (meta/topic_config.h).
 * Threads: plain data, readable from any thread once loaded.
 * Units: what the name says (.ms, .bytes, .hours); an optional number that is not set is CONFIG_UNSET.
 */
#ifndef BROKERD_BASE_CONFIG_H
#define BROKERD_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "brokerd/base/err.h"

#define CONFIG_UNSET     INT64_MIN
#define CONFIG_UNSET_INT INT32_MIN

typedef enum OptionType
{
	OPTION_INT,    /* int32_t */
	OPTION_LONG,   /* int64_t */
	OPTION_DOUBLE, /* double */
	OPTION_BOOL,   /* bool */
	OPTION_STRING, /* char *, NULL when not set */
	OPTION_LIST,   /* char *, Kafka's comma separated list, spaces around its elements removed */
	OPTION_SECRET  /* char *, like OPTION_STRING but never shown, logged or sent to PostgreSQL */
} OptionType;

/* Ids of the options: OPT_node_id, OPT_log_retention_ms, ... */
typedef enum ConfigOptionId
{
#define CONFIG_OPTION(field, ctype, type, name, dflt, min, max, allowed, unit, restart, doc) OPT_##field,
#include "brokerd/base/config_options.def"
#undef CONFIG_OPTION
	CONFIG_OPTION_COUNT
} ConfigOptionId;

typedef struct ConfigOption
{
	const char *name;         /* Kafka's */
	const char *default_text; /* NULL: not set */
	double min;               /* bounds of numbers, inclusive */
	double max;
	const char *allowed; /* "a|b|c" for strings and elements of lists, or NULL */
	const char *unit;    /* "ms", "bytes", "minutes", "hours" or NULL */
	const char *doc;
	size_t offset; /* of the field in BrokerConfig */
	OptionType type;
	bool needs_restart; /* false: a dynamic config of the same name overrides it while the broker runs */
} ConfigOption;

/* One element of `listeners` or `advertised.listeners`. */
typedef struct ConfigListener
{
	char *name;     /* "PLAINTEXT" */
	char *protocol; /* by listener.security.protocol.map: "PLAINTEXT" */
	char *host;     /* "" = every address (listeners only) */
	int port;       /* 0 = any free one (listeners only) */
} ConfigListener;

/* In the order of the table, which is by subject. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
typedef struct BrokerConfig
{
	/* One field an option: int32_t node_id; char *log_dirs; ... */
#define CONFIG_OPTION(field, ctype, type, name, dflt, min, max, allowed, unit, restart, doc) ctype field;
#include "brokerd/base/config_options.def"
#undef CONFIG_OPTION

	/* Derived. */
	bool set[CONFIG_OPTION_COUNT]; /* given in the file (or an override), so its source is "static" */
	const char *log_dir_path;      /* log.dirs, or log.dir */
	ConfigListener *bound;         /* listeners */
	int n_bound;
	ConfigListener *advertised; /* advertised.listeners (or listeners, with the host name for 0.0.0.0); the
								 * same names in the same order as `bound`; port 0 until known */
	int n_advertised;
	int inter_broker; /* index of inter.broker.listener.name in both */

	char **warnings; /* sentences: ignored options, synonyms that contradict each other */
	int n_warnings;
} BrokerConfig;

/* Every default, nothing set. */
void config_init(BrokerConfig *config);

/*
 * Reads `path` (NULL: no file), then `overrides` ("name=value" each, as `brokerd --override`), which win.
 * On failure `err` holds the first problem with its line: an unknown option with the nearest name, a bad
 * value with its bounds.  `config` must be freed in both cases.
 */
bool config_load(BrokerConfig *config, const char *path, const char *const *overrides, int n_overrides,
				 Err *err) __attribute__((warn_unused_result));

/* `brokerd --check-config FILE`: prints every problem and warning of the file, one a line ("FILE:3: error:
 * ..."), and what clients will be told.  Returns the exit code: 0 when brokerd would start with it. */
int config_check(const char *path, const char *const *overrides, int n_overrides, FILE *out);

void config_print_help(FILE *out);     /* every option with its default, bounds and doc */
void config_print_markdown(FILE *out); /* docs/configuration.md's tables */
void config_free(BrokerConfig *config);

const ConfigOption *config_options(int *n);
/* NULL: no option of ours. */
const ConfigOption *config_find_option(const char *name);
/* -1: none. */
int config_option_id(const char *name);
/* The value as Kafka shows it, into `buf` when it is no string; NULL when not set and without default. */
const char *config_value_text(const BrokerConfig *config, int option, char *buf, size_t size);

/* What was set, as a JSON object of strings, secrets left out: registration sends it.  malloc'd. */
char *config_static_json(const BrokerConfig *config);
/* advertised listeners as register_broker_1 wants them:
 * [{"name":"PLAINTEXT","host":"h","port":9092,"protocol":"PLAINTEXT"}].  malloc'd. */
char *config_endpoints_json(const BrokerConfig *config);

/*
 * The value of a number, boolean or text checked against an option's row, as config_load does: false and a
 * sentence ("log.retention.hours must be at least -1, not -5") without line number.
 */
bool config_check_value(const ConfigOption *option, const char *value, Err *err)
	__attribute__((warn_unused_result));

#endif
