/* config_entries.h: the configs of a topic as DescribeConfigs and CreateTopics list them. */
#ifndef BROKERD_API_CONFIG_ENTRIES_H
#define BROKERD_API_CONFIG_ENTRIES_H

#include "brokerd/api/api.h"

typedef struct ConfigEntry
{
	WStr name;
	WStr value;
	int8_t source; /* ConfigSource */
	const ConfigKey *key;
} ConfigEntry;

/* Every topic key with its effective value, sorted by name; for a topic that is not there, what it would inherit. */
ConfigEntry *config_entries_of_topic(ApiCall *call, WStr topic, int32_t *n);

#endif
