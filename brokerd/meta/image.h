/*
 * image.h: this broker's copy of the cluster's metadata: topics with their partitions, brokers, dynamic
 * configs.  Produce, fetch and Metadata are answered from it, also while PostgreSQL is away.
 *
 * It owns all it points to and knows no libpq: rows come in as plain values (meta_image_apply_*), and the
 * result says what changed.  Loop thread only; no locks.
 *
 * Order: rows of different reads can arrive in any order (a reply races with a NOTIFY's read, hazards A2), so
 * a partition is taken only when it is not older than what is held: a higher leader epoch, or the same one
 * and a partition epoch that is not lower.
 *
 * Pointers (MetaTopic, MetaBroker) stay valid until the topic or broker leaves the image; who keeps one
 * listens to on_image_changed (meta.h), where a topic that goes is named for the last time.
 *
 * Size: 40 bytes a partition with up to six broker ids in its four lists (3 replicas in sync), so 100,000
 * partitions are 4 MB; longer lists are allocated apart.
 */
#ifndef BROKERD_META_IMAGE_H
#define BROKERD_META_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uthash.h>

#include "brokerd/base/err.h"
#include "wire/types.h"

#define META_INLINE_IDS     6
#define META_TOPIC_NAME_MAX 249
#define META_MAX_LIST       255 /* replicas of a partition */

/*
 * Five lists of broker ids in one run:
 *
 *     ids: | replicas ... | isr ... | adding ... | removing ... | eligible leader replicas (KIP-966) ... |
 */
typedef struct MetaPartition
{
	int32_t leader; /* -1: none */
	int32_t leader_epoch;
	int32_t partition_epoch; /* -1: this partition is not known yet (a hole; skip it) */
	uint8_t n_replicas;
	uint8_t n_isr;
	uint8_t n_adding;
	uint8_t n_removing;
	uint8_t n_elr;
	union
	{
		int32_t in[META_INLINE_IDS];
		int32_t *out; /* when the five counts are together more than META_INLINE_IDS */
	} ids;
} MetaPartition;

typedef struct MetaConfig
{
	char *key;
	char *value;
} MetaConfig;

typedef struct MetaTopic
{
	WUuid id;
	char *name;
	int32_t name_len;
	int32_t n_partitions;
	MetaPartition *partitions; /* by partition number */
	MetaConfig *configs;       /* overrides, sorted by key */
	int32_t n_configs;
	int64_t version; /* metadata version of its last change */
	void *user;      /* the layer above hangs what it wants here */
	bool seen;       /* by the full read under way */
	UT_hash_handle hh_id;
	UT_hash_handle hh_name;
} MetaTopic;

typedef enum MetaBrokerState
{
	META_BROKER_ALIVE,
	META_BROKER_DRAINING,
	META_BROKER_FENCED,
	META_BROKER_DEAD,
	META_BROKER_UNREGISTERED /* forgotten; it leaves the image with the next full read */
} MetaBrokerState;

typedef struct MetaEndpoint
{
	char *name; /* listener name */
	char *host;
	int32_t port;
	char *protocol;
} MetaEndpoint;

typedef struct MetaBroker
{
	int32_t id;
	MetaBrokerState state;
	int64_t epoch;
	char *rack; /* NULL: none */
	MetaEndpoint *endpoints;
	int32_t n_endpoints;
	int64_t version;
	int64_t left_ms; /* clock_boot_ms() of when it was last seen to stop serving; 0: never */
	void *user;
	bool seen; /* by the full read under way */
} MetaBroker;

typedef struct MetaImage MetaImage;

/* ---- reading ---- */

MetaTopic *meta_image_topic(const MetaImage *image, const char *name, int name_len);
MetaTopic *meta_image_topic_by_id(const MetaImage *image, const WUuid *id);
/* All topics, by time of their coming: NULL starts, NULL ends. */
MetaTopic *meta_image_next_topic(const MetaImage *image, const MetaTopic *after);
/* A tombstone was read for this id: its logs may be deleted (hazards A7).  Absence alone says nothing. */
bool meta_image_is_deleted(const MetaImage *image, const WUuid *id);
int meta_image_topic_count(const MetaImage *image);
int64_t meta_image_partition_count(const MetaImage *image);

/* NULL when the topic has no such partition. */
const MetaPartition *meta_topic_partition(const MetaTopic *topic, int32_t partition);
const char *meta_topic_config(const MetaTopic *topic, const char *key); /* NULL: no override */

/* Of all lists together. */
static inline int
meta_partition_n_ids(const MetaPartition *p)
{
	return p->n_replicas + p->n_isr + p->n_adding + p->n_removing + p->n_elr;
}

static inline const int32_t *
meta_partition_replicas(const MetaPartition *p)
{
	return meta_partition_n_ids(p) <= META_INLINE_IDS ? p->ids.in : p->ids.out;
}

static inline const int32_t *
meta_partition_isr(const MetaPartition *p)
{
	return meta_partition_replicas(p) + p->n_replicas;
}

static inline const int32_t *
meta_partition_adding(const MetaPartition *p)
{
	return meta_partition_isr(p) + p->n_isr;
}

static inline const int32_t *
meta_partition_removing(const MetaPartition *p)
{
	return meta_partition_adding(p) + p->n_adding;
}

static inline const int32_t *
meta_partition_elr(const MetaPartition *p)
{
	return meta_partition_removing(p) + p->n_removing;
}

bool meta_partition_has_replica(const MetaPartition *p, int32_t broker);
bool meta_partition_in_isr(const MetaPartition *p, int32_t broker);

MetaBroker *meta_image_broker(const MetaImage *image, int32_t id);
MetaBroker *const *meta_image_brokers(const MetaImage *image, int *n); /* sorted by id, dead ones too */
/* Alive or draining: what Metadata shows. */
bool meta_broker_is_serving(const MetaBroker *broker);
const MetaEndpoint *meta_broker_endpoint(const MetaBroker *broker, const char *listener); /* NULL: none */

const char *meta_image_cluster_config(const MetaImage *image, const char *key); /* NULL: not set */
const char *meta_image_broker_config(const MetaImage *image, int32_t broker, const char *key);
/* broker -1: those of the cluster. */
const MetaConfig *meta_image_configs(const MetaImage *image, int32_t broker, int *n);

/* The metadata version up to which the image is complete; -1: nothing read yet. */
int64_t meta_image_version(const MetaImage *image);
/* Counts up with every change that came in: answers encoded from the image are cached under it. */
uint64_t meta_image_changes(const MetaImage *image);
size_t meta_image_memory(const MetaImage *image); /* bytes, about */

/* ---- what changed ---- */

typedef enum MetaTopicChangeKind
{
	META_TOPIC_NEW,
	META_TOPIC_CHANGED, /* partitions or configs */
	META_TOPIC_DELETED, /* a tombstone: the logs are to be deleted */
	META_TOPIC_GONE     /* PostgreSQL does not know it any more (an older backup): the logs are stray, kept */
} MetaTopicChangeKind;

typedef struct MetaTopicChange
{
	MetaTopicChangeKind kind;
	MetaTopic *topic; /* DELETED and GONE: for the last time, freed after the callback */
	bool configs_changed;
	const int32_t *partitions; /* those that changed (NEW: all) */
	int32_t n_partitions;
} MetaTopicChange;

typedef struct MetaImageChanges
{
	const MetaTopicChange *topics;
	int n_topics;
	bool brokers_changed;
	bool configs_changed; /* cluster or broker configs */
	bool complete;        /* the image now stands at meta_image_version(); else more pages follow */
} MetaImageChanges;

/* ---- filling it (the refresher, and tests) ---- */

MetaImage *meta_image_new(void);
void meta_image_free(MetaImage *image);

typedef struct MetaTopicRow
{
	const char *name;
	int32_t name_len;
	WUuid id;
	bool deleted;
	const char *config_json; /* {"retention.ms":"1",...}; NULL = none */
	int64_t version;
	/* Packed as topics_1 says: big-endian int32 partition, leader, leader_epoch, partition_epoch, then four
	 * lists (replicas, isr, adding, removing), each its count and its broker ids. */
	const uint8_t *partitions;
	size_t partitions_len;
} MetaTopicRow;

/*
 * One row of topics_1.  A malformed row changes nothing and fails with a sentence.  What changed is added to
 * the image's change list.
 */
bool meta_image_apply_topic(MetaImage *image, const MetaTopicRow *row, Err *err)
	__attribute__((warn_unused_result));

typedef struct MetaBrokerRow
{
	int32_t id;
	int64_t epoch;
	MetaBrokerState state;
	const char *rack;           /* NULL: none */
	const char *endpoints_json; /* [{"name":"PLAINTEXT","host":"h","port":9092,"protocol":"PLAINTEXT"}] */
	int64_t version;
} MetaBrokerRow;
bool meta_image_apply_broker(MetaImage *image, const MetaBrokerRow *row, Err *err)
	__attribute__((warn_unused_result));
/* "alive" and so on; false: no such state. */
bool meta_broker_state_parse(const char *text, MetaBrokerState *state);

/* configs_1 gives all or nothing: begin, one call a row (broker -1 = cluster), end. */
void meta_image_configs_begin(MetaImage *image);
void meta_image_configs_add(MetaImage *image, int32_t broker, const char *key, const char *value);
void meta_image_configs_end(MetaImage *image);

/* A read of everything: what it does not show is gone when it ends (META_TOPIC_GONE). */
void meta_image_full_begin(MetaImage *image);
void meta_image_full_end(MetaImage *image);

/* The image is complete up to `version`. */
void meta_image_set_version(MetaImage *image, int64_t version);
/* The changes since the last meta_image_forget_changes; valid until then. */
const MetaImageChanges *meta_image_pending(MetaImage *image);
/* Empties the change list and frees the topics that went. */
void meta_image_forget_changes(MetaImage *image);

#endif
