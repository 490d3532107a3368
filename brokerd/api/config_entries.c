#include "brokerd/api/config_entries.h"

ConfigEntry *
config_entries_of_topic(ApiCall *call, WStr topic, int32_t *n)
{
	const TopicConfigs *configs = call->broker->configs;
	MetaImage *image = meta_image(call->broker->meta);
	const MetaTopic *meta = topic.len > 0 ? meta_image_topic(image, topic.s, topic.len) : NULL;
	int count = topic_config_keys(configs, CFG_TOPIC, NULL, 0);
	const ConfigKey **keys = api_alloc(call, sizeof(*keys) * (size_t) count);
	ConfigEntry *entries = api_alloc(call, sizeof(*entries) * (size_t) count);

	topic_config_keys(configs, CFG_TOPIC, keys, count);
	for (int i = 0; i < count; i++)
	{
		ConfigSource source = CONFIG_SOURCE_DEFAULT;
		const char *value = topic_config_text(configs, image, meta, keys[i]->name, &source);

		entries[i].name = wstr(keys[i]->name);
		entries[i].value = api_copy(call, value);
		entries[i].source = (int8_t) source;
		entries[i].key = keys[i];
	}
	*n = count;
	return entries;
}
