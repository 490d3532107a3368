/*
 * consumer_protocol.h: what is read of the "consumer" protocol's opaque bytes (Kafka: ConsumerProtocol).
 *
 * The coordinator passes subscriptions and assignments on as they are; it looks into them to know which topics
 * a group uses (OffsetDelete, offset retention) and to show assignments in SQL.  Both start with a version,
 * and every later version only appends, so version 0 is read and the rest is left alone:
 *
 *     subscription  int16 version, int32 n, n * string topic, ...
 *     assignment    int16 version, int32 n, n * (string topic, int32 m, m * int32 partition), ...
 *
 * Bytes from the network: every count is checked against what is left before it is used.  Nothing is allocated.
 */
#ifndef BROKERD_GROUP_CONSUMER_PROTOCOL_H
#define BROKERD_GROUP_CONSUMER_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/types.h"

/* Calls `fn` for each topic; false when the bytes are not a subscription (fn may have been called before). */
typedef void (*ConsumerTopicFn)(void *arg, WStr topic);
bool consumer_subscription_topics(WBytes metadata, ConsumerTopicFn fn, void *arg);

/* Calls `fn` for each partition assigned; false as above.  Empty bytes are an empty assignment. */
typedef void (*ConsumerPartitionFn)(void *arg, WStr topic, int32_t partition);
bool consumer_assignment_partitions(WBytes assignment, ConsumerPartitionFn fn, void *arg);

/*
 * The assignment as JSON, {"orders": [0, 3]}, into `buf` (NUL-terminated); returns its length, or -1 when the
 * bytes are not an assignment, a topic's name is not text, or it needs more than `size`.  A buffer of
 * consumer_assignment_json_size() is always enough.
 */
ptrdiff_t consumer_assignment_json(WBytes assignment, char *buf, size_t size);
size_t consumer_assignment_json_size(WBytes assignment);

#endif
