/*
 * config_keys.h: the table of configuration keys, and what is a valid value.
 *
 * Pure C, no PostgreSQL: the extension and brokerd both include it.  Nothing here allocates; messages are
 * written into the caller's ConfigFault, values into the caller's buffer.  Any thread may call it.
 *
 * A value is kept as Kafka prints it: milliseconds, bytes, true/false, items joined by commas.
 *
 *     given                     scope      kept          strict (from the wire)
 *     7 days                    retention.ms   604800000   refused: not a number
 *     1 GB                      retention.bytes 1073741824 refused: not a number
 *     delete, compact           cleanup.policy  delete,compact
 */
#ifndef EXTENSION_CONFIG_KEYS_H
#define EXTENSION_CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CFG_TOPIC   1
#define CFG_CLUSTER 2
#define CFG_BROKER  4
#define CFG_GROUP   8

#define CFG_NO_MIN INT64_MIN
#define CFG_NO_MAX INT64_MAX

typedef enum ConfigType
{
	CFG_BOOL,
	CFG_INT,
	CFG_LONG,
	CFG_DOUBLE,
	CFG_STRING,
	CFG_LIST
} ConfigType;

typedef enum ConfigUnit
{
	CFG_NONE,
	CFG_MS,
	CFG_BYTES
} ConfigUnit;

typedef struct ConfigKey
{
	const char *name;
	int scopes;
	ConfigType type;
	ConfigUnit unit;
	const char *def;
	int64_t min, max;
	const char *allowed; /* NULL: see config_keys.def */
	const char *synonym; /* NULL: none */
	bool used;
	bool restart;
	const char *doc;
} ConfigKey;

#define CONFIG_VALUE_MAX 4096 /* longest value that is kept, with its NUL */

/* Why a key or a value is refused, as SQL shows it: what, the numbers, what to type next. */
typedef struct ConfigFault
{
	char message[512];
	char detail[512]; /* "" = none */
	char hint[512];   /* "" = none */
} ConfigFault;

extern const ConfigKey config_keys[];
extern const int config_keys_count;

/* The key of that name in any of `scopes`; NULL: none. */
const ConfigKey *config_key_find(const char *name, int scopes);
/* Likewise, and the fault names the nearest key. */
const ConfigKey *config_key_require(const char *name, int scopes, ConfigFault *fault);
/* The nearest name, NULL when none is near; for any list of names (options, functions). */
const char *config_nearest(const char *name, const char *(*next)(void *ctx, int i), void *ctx);

/*
 * Check `value` and write what is kept to `out` (CONFIG_VALUE_MAX bytes).  strict: numbers only, as Kafka
 * reads them; otherwise text with a unit ('7 days', '1 GB') is read too.
 */
bool config_value_check(const ConfigKey *key, const char *value, bool strict, char *out, ConfigFault *fault)
	__attribute__((warn_unused_result));
/* Why this value has no effect, or NULL; the default always has. */
const char *config_value_unused(const ConfigKey *key, const char *kept);
/* For people: 604800000 → "7 days".  Writes to out, returns it. */
const char *config_value_pretty(const ConfigKey *key, const char *kept, char *out, size_t size);
/* For people: "1 … 9, or -1". */
const char *config_key_allowed(const ConfigKey *key, char *out, size_t size);

const char *config_type_name(ConfigType type);
const char *config_unit_name(ConfigUnit unit); /* NULL: no unit */
/* "topic", "cluster", "broker" or "group" of one scope bit. */
const char *config_scope_name(int scope);

#endif
