/* The table of configuration keys, and what is a valid value. */
#include "extension/config_keys.h"
#include "regress/unit/tap.h"

#include <stdlib.h>

static char kept[CONFIG_VALUE_MAX];
static ConfigFault fault;

static bool
check(const char *name, int scope, const char *value, bool strict)
{
	const ConfigKey *key = config_key_require(name, scope, &fault);

	kept[0] = '\0';
	return key != NULL && config_value_check(key, value, strict, kept, &fault);
}

static void
accepts(const char *name, const char *value, const char *want)
{
	ok(check(name, CFG_TOPIC, value, false), "%s accepts \"%s\"", name, value);
	is_str(kept, want, "and keeps it in Kafka's form");
}

static void
refuses(const char *name, const char *value, const char *words)
{
	ok(!check(name, CFG_TOPIC, value, false), "%s refuses \"%s\"", name, value);
	ok(strstr(fault.message, words) != NULL, "and says \"%s\": %s", words, fault.message);
	ok(fault.detail[0] != '\0', "with the bounds: %s", fault.detail);
}

static void
table(void)
{
	int i, topic_keys = 0;

	for (i = 0; i < config_keys_count; i++)
	{
		const ConfigKey *k = &config_keys[i];
		int s;

		topic_keys += (k->scopes & CFG_TOPIC) != 0;
		ok(config_value_check(k, k->def, true, kept, &fault), "the default of %s is valid", k->name);
		is_str(kept, k->def, "and is kept as it is");
		ok(k->doc[0] != '\0' && k->doc[strlen(k->doc) - 1] == '.', "%s has a sentence", k->name);
		if (k->synonym != NULL && k->scopes == CFG_TOPIC)
		{
			const ConfigKey *b = config_key_find(k->synonym, CFG_CLUSTER);

			ok(b != NULL, "the synonym %s is a key of brokers", k->synonym);
			if (b != NULL)
				ok(b->type == k->type && b->unit == k->unit && strcmp(b->def, k->def) == 0 &&
					   b->min == k->min && b->used == k->used,
				   "and has the same type, unit, default, bounds and use");
		}
		for (s = 1; s <= CFG_GROUP; s <<= 1)
			if ((k->scopes & s) != 0)
				ok(config_key_find(k->name, s) == k, "%s is there once in scope %s", k->name,
				   config_scope_name(s));
	}
	ok(topic_keys >= 33, "%d keys of topics", topic_keys);
}

static void
numbers(void)
{
	accepts("retention.ms", "604800000", "604800000");
	accepts("retention.ms", " 7 days ", "604800000");
	accepts("retention.ms", "-1", "-1");
	accepts("retention.ms", "90min", "5400000");
	accepts("retention.bytes", "1 GB", "1073741824");
	accepts("retention.bytes", "-1", "-1");
	accepts("compression.gzip.level", "-1", "-1");
	accepts("compression.gzip.level", "9", "9");
	accepts("max.message.bytes", "2147483647", "2147483647");
	accepts("min.cleanable.dirty.ratio", "0.75", "0.75");
	refuses("retention.ms", "-2", "out of bounds");
	refuses("retention.ms", "1 month", "no fixed length");
	refuses("retention.ms", "soon", "not a number");
	refuses("retention.ms", "", "not a number");
	refuses("retention.ms", "1.5", "not a number");
	refuses("retention.ms", "9223372036854775808", "not a number");
	refuses("retention.ms", "1 GB", "not a number");
	refuses("retention.bytes", "7 days", "not a number");
	refuses("max.message.bytes", "2147483648", "out of bounds");
	refuses("segment.bytes", "1000", "out of bounds");
	refuses("min.insync.replicas", "0", "out of bounds");
	refuses("min.insync.replicas", "2 GB", "not a number");
	refuses("compression.gzip.level", "0", "out of bounds");
	refuses("min.cleanable.dirty.ratio", "1.01", "out of bounds");
	refuses("min.cleanable.dirty.ratio", "nan", "not a number");
	ok(!check("retention.ms", CFG_TOPIC, "7 days", true), "the wire sends numbers only");
	ok(check("retention.ms", CFG_TOPIC, "+5", true), "Java reads a plus sign");
	is_str(kept, "5", "and it is not kept");
}

static void
words(void)
{
	char *long_value = malloc(CONFIG_VALUE_MAX + 10);

	accepts("cleanup.policy", "compact , delete", "compact,delete");
	accepts("cleanup.policy", "", "");
	accepts("preallocate", "TRUE", "true");
	accepts("message.timestamp.type", "LogAppendTime", "LogAppendTime");
	accepts("follower.replication.throttled.replicas", "0:1,12:3", "0:1,12:3");
	accepts("follower.replication.throttled.replicas", "*", "*");
	refuses("cleanup.policy", "compact,drop", "\"drop\" is not allowed");
	refuses("cleanup.policy", "delete,delete", "there twice");
	refuses("cleanup.policy", ",", "is not allowed");
	refuses("preallocate", "yes", "expected true or false");
	refuses("message.timestamp.type", "logappendtime", "invalid value");
	refuses("follower.replication.throttled.replicas", "0:", "is not allowed");
	memset(long_value, ' ', CONFIG_VALUE_MAX + 9);
	memset(long_value, '1', CONFIG_VALUE_MAX);
	long_value[CONFIG_VALUE_MAX + 9] = '\0';
	refuses("retention.ms", long_value, "longer than");
	free(long_value);
}

static void
hints(void)
{
	const ConfigKey *policy = config_key_find("cleanup.policy", CFG_TOPIC);
	char out[64];

	ok(!check("retention.sm", CFG_TOPIC, "1", false), "an unknown key is refused");
	ok(strstr(fault.hint, "\"retention.ms\"") != NULL, "with the nearest: %s", fault.hint);
	ok(!check("retention.ms", CFG_CLUSTER, "1", false), "a topic's key is none of the cluster");
	ok(strstr(fault.hint, "\"log.retention.ms\"") == NULL || fault.hint[0] != '\0', "%s", fault.hint);
	ok(!check("zzz", CFG_TOPIC, "1", false) && strstr(fault.hint, "Perhaps") == NULL,
	   "nothing is near to zzz");
	ok(config_value_unused(policy, "compact") == NULL, "compact has an effect");
	ok(config_value_unused(policy, "delete") == NULL, "and delete");
	ok(config_value_unused(config_key_find("compression.type", CFG_TOPIC), "producer") == NULL,
	   "the default of an unused key is silent");
	ok(config_value_unused(config_key_find("compression.type", CFG_TOPIC), "gzip") != NULL,
	   "another value is not");
	is_str(config_value_pretty(config_key_find("retention.ms", CFG_TOPIC), "604800000", out, sizeof(out)),
		   "7 days", "604800000 ms are 7 days");
	is_str(config_value_pretty(config_key_find("retention.ms", CFG_TOPIC), "-1", out, sizeof(out)),
		   "no limit", "-1");
	is_str(
		config_value_pretty(config_key_find("flush.ms", CFG_TOPIC), "9223372036854775807", out, sizeof(out)),
		"no limit", "the largest long");
	is_str(config_value_pretty(config_key_find("retention.bytes", CFG_TOPIC), "1073741824", out, sizeof(out)),
		   "1 GB", "1073741824 bytes are 1 GB");
	is_str(config_key_allowed(config_key_find("compression.gzip.level", CFG_TOPIC), out, sizeof(out)),
		   "1 to 9, or -1", "bounds with an exception");
	is_str(config_key_allowed(policy, out, sizeof(out)), "compact, delete", "a list");
}

int
main(void)
{
	table();
	numbers();
	words();
	hints();
	return tap_done();
}
