/*
 * partitioner.h: which partition a key belongs to.  The hashes are those of other clients, so that all of them put a
 * key into the same partition:
 *
 *     partition_murmur2("21", 2, n)   Kafka's Java client:  (murmur2(key) & 0x7fffffff) % n
 *     partition_crc32("21", 2, n)     librdkafka's consistent:  crc32(key) % n
 */
#ifndef CLIENT_PARTITIONER_H
#define CLIENT_PARTITIONER_H

#include <stddef.h>
#include <stdint.h>

int32_t partition_murmur2(const void *key, size_t len, int32_t n);
int32_t partition_crc32(const void *key, size_t len, int32_t n);

#endif
