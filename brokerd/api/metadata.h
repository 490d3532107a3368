/* metadata.h: parts of the Metadata answer that the Describe APIs give too. */
#ifndef BROKERD_API_METADATA_H
#define BROKERD_API_METADATA_H

#include "brokerd/api/api.h"

void metadata_fill_brokers(ApiCall *call, MetadataResponse *response);
/* The controller as clients are told: one they can connect to, this broker when in doubt. */
int32_t metadata_controller(const ApiCall *call);
/* Replicas on brokers that do not serve; in the arena. */
int32_t *metadata_offline_replicas(ApiCall *call, const MetaPartition *p, int32_t *n);

#endif
