/*
 * meta_properties.h: DIR/meta.properties, which ties a data directory to a cluster and a broker.
 *
 *     version=1
 *     cluster.id=...
 *     node.id=1
 *     directory.id=BASE64            22 characters, URL alphabet, no padding
 *     pg_broker.broker.epoch=123     ours: the epoch this disk was last registered with (hazards A3)
 *
 * Keys of others are kept as they are.
 */
#ifndef BROKERD_STORAGE_META_PROPERTIES_H
#define BROKERD_STORAGE_META_PROPERTIES_H

#include "brokerd/base/err.h"
#include "wire/types.h"

typedef struct MetaProperties
{
	bool exists;
	char cluster_id[128]; /* "": not bound */
	int32_t node_id;
	WUuid directory_id;
	int64_t broker_epoch; /* -1: none */
	char *others;         /* lines with keys that are not ours; owned */
} MetaProperties;

/* A missing file is no error: `exists` is false. */
bool meta_properties_read(const char *dir, MetaProperties *mp, Err *err);
bool meta_properties_write(const char *dir, const MetaProperties *mp, Err *err);

/* Kafka's text form of a UUID; `out` has 23 bytes. */
void uuid_to_text(const WUuid *u, char *out);
bool uuid_from_text(const char *text, int len, WUuid *u);
void uuid_random(WUuid *u); /* version 4, never one that begins with '-' in text */

#endif
