/*
 * clean_marker.h: DIR/.kafka_cleanshutdown, JSON as Kafka 4 writes it: {"version":0,"brokerEpoch":7}.  Ours
 * has one more member, which Kafka ignores: the CRC of the manifest that belongs to it, so that a manifest
 * from before a run of Kafka in the same directory is never believed.
 */
#ifndef BROKERD_STORAGE_CLEAN_MARKER_H
#define BROKERD_STORAGE_CLEAN_MARKER_H

#include <stdbool.h>
#include <stdint.h>

#define CLEAN_MARKER  ".kafka_cleanshutdown"
#define MANIFEST_FILE ".pg_broker-manifest"

typedef struct CleanMarker
{
	int64_t broker_epoch; /* -1: not said */
	bool has_manifest;
	uint32_t manifest_crc;
} CleanMarker;

bool clean_marker_read(const char *dir, CleanMarker *cm); /* false: there is none */
bool clean_marker_write(const char *dir, const CleanMarker *cm);

#endif
