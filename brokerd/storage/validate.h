/*
 * validate.h: what a batch must be to be taken from a client.  Pure but for the decompression that the
 * rules about single records need; the order of the checks is Kafka's, as clients see the first error.
 */
#ifndef BROKERD_STORAGE_VALIDATE_H
#define BROKERD_STORAGE_VALIDATE_H

#include "brokerd/storage/log.h"

/* Exactly one whole, well-formed batch of magic 2 that is not too large and whose CRC is right. */
int16_t validate_frame(const uint8_t *b, int32_t len, const LogConfig *c, bool from_client,
					   const char **message);
/* Counts, flags, codec, timestamps, keys.  May look into the records; those that are at fault are told one by one
 * to a->record_error, and the first one's code is the batch's. */
int16_t validate_client_batch(const uint8_t *b, const LogConfig *c, int64_t now_ms, LogAppend *a);

#endif
