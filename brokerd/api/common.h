/* common.h: answers that several APIs give alike. */
#ifndef BROKERD_API_COMMON_H
#define BROKERD_API_COMMON_H

#include "brokerd/api/api.h"

enum
{
	/* Bits of authorized operations (KIP-430) while nobody is refused anything: all that Kafka knows for
	 * the kind of resource. */
	TOPIC_OPERATIONS = 0x0DF8,
	CLUSTER_OPERATIONS = 0x1FA0,
	OPERATIONS_NOT_ASKED = INT32_MIN,
	COMPRESSION_NONE = 0,
	COMPRESSION_ZSTD = 4
};

/* Where a client that came by this call's listener finds a broker; NULL: unknown or not serving. */
const MetaEndpoint *common_endpoint(const ApiCall *call, int32_t broker_id);

/* Brokers that were named as leaders in a response (KIP-951), each once. */
typedef struct LeaderHints
{
	int32_t *ids;
	int32_t n;
} LeaderHints;
/* Tells the client where that broker is; false: there is nothing to tell, as when it is this one. */
bool common_add_hint(ApiCall *call, LeaderHints *hints, int32_t broker_id);

/* A topic of a request: by id when the version has ids, else by name.  NULL and its error code. */
PartitionTopic *common_find_topic(ApiCall *call, WStr name, const WUuid *id, bool by_id, int16_t *error);

/* Kafka's rule for topic names; NULL when good, else Kafka's reason as a sentence. */
const char *topic_name_fault(WStr name);

#endif
