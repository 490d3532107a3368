/*
 * image.c: reading the metadata image, and its life.  image_apply.c fills it.
 */
#include "brokerd/meta/image_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

void *
meta_realloc(void *p, size_t size)
{
	void *grown = realloc(p, size == 0 ? 1 : size);

	if (grown == NULL)
	{
		fputs("brokerd: out of memory in meta\n", stderr);
		abort();
	}
	return grown;
}

void *
meta_alloc(size_t size)
{
	void *p = meta_realloc(NULL, size);

	memset(p, 0, size);
	return p;
}

char *
meta_strndup(const char *s, size_t len)
{
	char *copy = meta_alloc(len + 1);

	memcpy(copy, s, len);
	return copy;
}

void
meta_configs_free(MetaConfig *configs, int n)
{
	for (int i = 0; i < n; i++)
	{
		free(configs[i].key);
		free(configs[i].value);
	}
	free(configs);
}

void
meta_config_sets_free(MetaConfigSets *sets)
{
	for (int i = 0; i < sets->n; i++)
		meta_configs_free(sets->sets[i].configs, sets->sets[i].n);
	free(sets->sets);
	*sets = (MetaConfigSets){0};
}

void
meta_topic_free(MetaImage *image, MetaTopic *topic)
{
	for (int i = 0; i < topic->n_partitions; i++)
		if (meta_partition_n_ids(&topic->partitions[i]) > META_INLINE_IDS)
		{
			image->list_bytes -= (size_t) meta_partition_n_ids(&topic->partitions[i]) * sizeof(int32_t);
			free(topic->partitions[i].ids.out);
		}
	free(topic->partitions);
	meta_configs_free(topic->configs, topic->n_configs);
	free(topic->name);
	free(topic);
}

void
meta_broker_free(MetaBroker *broker)
{
	for (int i = 0; i < broker->n_endpoints; i++)
	{
		free(broker->endpoints[i].name);
		free(broker->endpoints[i].host);
		free(broker->endpoints[i].protocol);
	}
	free(broker->endpoints);
	free(broker->rack);
	free(broker);
}

MetaImage *
meta_image_new(void)
{
	MetaImage *image = meta_alloc(sizeof(*image));

	image->version = -1;
	return image;
}

void
meta_image_free(MetaImage *image)
{
	MetaTopic *topic, *next;
	MetaTombstone *stone, *next_stone;

	if (image == NULL)
		return;
	meta_image_forget_changes(image);
	/* The tables go first; what was in them stays linked. */
	topic = image->by_id;
	stone = image->tombstones;
	HASH_CLEAR(hh_name, image->by_name);
	HASH_CLEAR(hh_id, image->by_id);
	HASH_CLEAR(hh, image->tombstones);
	for (; topic != NULL; topic = next)
	{
		next = topic->hh_id.next;
		meta_topic_free(image, topic);
	}
	for (; stone != NULL; stone = next_stone)
	{
		next_stone = stone->hh.next;
		free(stone);
	}
	for (int i = 0; i < image->n_brokers; i++)
		meta_broker_free(image->brokers[i]);
	free(image->brokers);
	meta_config_sets_free(&image->configs);
	meta_config_sets_free(&image->incoming);
	free(image->pending);
	free(image);
}

/* ---- topics ---- */

MetaTopic *
meta_image_topic(const MetaImage *image, const char *name, int name_len)
{
	MetaTopic *topic;

	if (name == NULL || name_len <= 0)
		return NULL;
	HASH_FIND(hh_name, image->by_name, name, (unsigned) name_len, topic);
	return topic;
}

MetaTopic *
meta_image_topic_by_id(const MetaImage *image, const WUuid *id)
{
	MetaTopic *topic;

	HASH_FIND(hh_id, image->by_id, id, sizeof(*id), topic);
	return topic;
}

MetaTopic *
meta_image_next_topic(const MetaImage *image, const MetaTopic *after)
{
	return after == NULL ? image->by_id : (MetaTopic *) after->hh_id.next;
}

bool
meta_image_is_deleted(const MetaImage *image, const WUuid *id)
{
	MetaTombstone *stone;

	HASH_FIND(hh, image->tombstones, id, sizeof(*id), stone);
	return stone != NULL;
}

int
meta_image_topic_count(const MetaImage *image)
{
	return (int) HASH_CNT(hh_id, image->by_id);
}

int64_t
meta_image_partition_count(const MetaImage *image)
{
	return image->n_partitions;
}

const MetaPartition *
meta_topic_partition(const MetaTopic *topic, int32_t partition)
{
	if (partition < 0 || partition >= topic->n_partitions || topic->partitions[partition].partition_epoch < 0)
		return NULL;
	return &topic->partitions[partition];
}

static int
compare_key(const void *key, const void *config)
{
	return strcmp(key, ((const MetaConfig *) config)->key);
}

static const char *
find_config(const MetaConfig *configs, int n, const char *key)
{
	const MetaConfig *found =
		n == 0 ? NULL : bsearch(key, configs, (size_t) n, sizeof(*configs), compare_key);

	return found == NULL ? NULL : found->value;
}

const char *
meta_topic_config(const MetaTopic *topic, const char *key)
{
	return find_config(topic->configs, topic->n_configs, key);
}

static bool
contains(const int32_t *ids, int n, int32_t id)
{
	for (int i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

bool
meta_partition_has_replica(const MetaPartition *p, int32_t broker)
{
	return contains(meta_partition_replicas(p), p->n_replicas, broker);
}

bool
meta_partition_in_isr(const MetaPartition *p, int32_t broker)
{
	return contains(meta_partition_isr(p), p->n_isr, broker);
}

/* ---- brokers and configs ---- */

MetaBroker *
meta_image_broker(const MetaImage *image, int32_t id)
{
	int low = 0, high = image->n_brokers;

	while (low < high)
	{
		int middle = (low + high) / 2;

		if (image->brokers[middle]->id == id)
			return image->brokers[middle];
		if (image->brokers[middle]->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

MetaBroker *const *
meta_image_brokers(const MetaImage *image, int *n)
{
	*n = image->n_brokers;
	return image->brokers;
}

bool
meta_broker_is_serving(const MetaBroker *broker)
{
	return broker->state == META_BROKER_ALIVE || broker->state == META_BROKER_DRAINING;
}

const MetaEndpoint *
meta_broker_endpoint(const MetaBroker *broker, const char *listener)
{
	for (int i = 0; i < broker->n_endpoints; i++)
		if (strcmp(broker->endpoints[i].name, listener) == 0)
			return &broker->endpoints[i];
	return NULL;
}

bool
meta_broker_state_parse(const char *text, MetaBrokerState *state)
{
	static const char *const names[] = {"alive", "draining", "fenced", "dead", "unregistered"};

	for (int i = 0; i < (int) (sizeof(names) / sizeof(names[0])); i++)
		if (strcmp(text, names[i]) == 0)
		{
			*state = (MetaBrokerState) i;
			return true;
		}
	return false;
}

const MetaConfig *
meta_image_configs(const MetaImage *image, int32_t broker, int *n)
{
	for (int i = 0; i < image->configs.n; i++)
		if (image->configs.sets[i].broker == broker)
		{
			*n = image->configs.sets[i].n;
			return image->configs.sets[i].configs;
		}
	*n = 0;
	return NULL;
}

const char *
meta_image_broker_config(const MetaImage *image, int32_t broker, const char *key)
{
	int n;
	const MetaConfig *configs = meta_image_configs(image, broker, &n);

	return find_config(configs, n, key);
}

const char *
meta_image_cluster_config(const MetaImage *image, const char *key)
{
	return meta_image_broker_config(image, -1, key);
}

/* ---- where it stands ---- */

int64_t
meta_image_version(const MetaImage *image)
{
	return image->version;
}

uint64_t
meta_image_changes(const MetaImage *image)
{
	return image->changes;
}

size_t
meta_image_memory(const MetaImage *image)
{
	size_t bytes = sizeof(*image) + image->list_bytes;

	for (const MetaTopic *t = image->by_id; t != NULL; t = t->hh_id.next)
		bytes += sizeof(*t) + (size_t) t->n_partitions * sizeof(MetaPartition) + (size_t) t->name_len + 1 +
				 (size_t) t->n_configs * (sizeof(MetaConfig) + 48);
	bytes += HASH_OVERHEAD(hh_id, image->by_id) + HASH_OVERHEAD(hh_name, image->by_name);
	bytes += HASH_CNT(hh, image->tombstones) * sizeof(MetaTombstone);
	return bytes + (size_t) image->n_brokers * (sizeof(MetaBroker) + 128);
}
