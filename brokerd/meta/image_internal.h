/*
 * image_internal.h: the inside of a MetaImage, shared by image.c (reading) and image_apply.c (filling).
 */
#ifndef BROKERD_META_IMAGE_INTERNAL_H
#define BROKERD_META_IMAGE_INTERNAL_H

#include "brokerd/meta/image.h"

#define META_MAX_PARTITIONS 1000000 /* of a topic; a larger number is a malformed row */

typedef struct MetaTombstone
{
	WUuid id;
	UT_hash_handle hh;
} MetaTombstone;

/* Dynamic configs of the cluster (broker -1) or of one broker, sorted by key. */
typedef struct MetaConfigSet
{
	int32_t broker;
	MetaConfig *configs;
	int n;
} MetaConfigSet;

typedef struct MetaConfigSets
{
	MetaConfigSet *sets;
	int n;
} MetaConfigSets;

struct MetaImage
{
	MetaTopic *by_id;
	MetaTopic *by_name; /* the same topics; a name that was deleted and made again is the newer one's */
	MetaTombstone *tombstones;
	MetaBroker **brokers; /* sorted by id */
	int n_brokers;
	MetaConfigSets configs;
	MetaConfigSets incoming; /* between configs_begin and configs_end */
	int64_t version;
	uint64_t changes;
	int64_t n_partitions;
	size_t list_bytes; /* of id lists that are allocated apart */

	/* What changed since forget_changes. */
	MetaTopicChange *pending;
	int n_pending;
	int pending_size;
	MetaImageChanges view;
};

/* Out of memory ends the process with a line. */
void *meta_alloc(size_t size);
void *meta_realloc(void *p, size_t size);
char *meta_strndup(const char *s, size_t len);

void meta_topic_free(MetaImage *image, MetaTopic *topic);
void meta_broker_free(MetaBroker *broker);
void meta_configs_free(MetaConfig *configs, int n);
void meta_config_sets_free(MetaConfigSets *sets);

#endif
