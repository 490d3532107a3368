/*
 * peer_token.h: how one broker knows another (hazards A23).  The cluster's secret comes from PostgreSQL with the
 * registration; what goes over the wire is a token of it, bound to who asks whom in which broker epoch:
 *
 *     token = HMAC-SHA256(secret, "pg_broker replica" || from || epoch of from || to)     ids and epoch big-endian
 *
 * It is as secret as the network between the brokers: whoever can read that can use it until the epoch ends.
 */
#ifndef BROKERD_CLUSTER_PEER_TOKEN_H
#define BROKERD_CLUSTER_PEER_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum
{
	PEER_TOKEN_SIZE = 32,
	PEER_SECRET_MAX = 256
};

typedef struct PeerSecret
{
	uint8_t bytes[PEER_SECRET_MAX];
	size_t len; /* 0: not registered yet */
} PeerSecret;

bool peer_token_make(const PeerSecret *secret, int32_t from, int64_t from_epoch, int32_t to,
					 uint8_t out[PEER_TOKEN_SIZE]) __attribute__((warn_unused_result));
/* Takes the same time whatever is wrong. */
bool peer_token_is_valid(const PeerSecret *secret, int32_t from, int64_t from_epoch, int32_t to,
						 const uint8_t *token, size_t len);

#endif
