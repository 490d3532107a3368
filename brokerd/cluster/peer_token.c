#include "brokerd/cluster/peer_token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

static const char purpose[] = "pg_broker replica";

static uint8_t *
put(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--)
		*p++ = (uint8_t) (v >> (8 * i));
	return p;
}

bool
peer_token_make(const PeerSecret *secret, int32_t from, int64_t from_epoch, int32_t to,
				uint8_t out[PEER_TOKEN_SIZE])
{
	uint8_t text[sizeof(purpose) + 16], *p = text;
	unsigned int len = PEER_TOKEN_SIZE;

	if (secret->len == 0)
		return false;
	memcpy(p, purpose, sizeof(purpose) - 1);
	p = put(p + sizeof(purpose) - 1, (uint32_t) from, 4);
	p = put(p, (uint64_t) from_epoch, 8);
	p = put(p, (uint32_t) to, 4);
	return HMAC(EVP_sha256(), secret->bytes, (int) secret->len, text, (size_t) (p - text), out, &len) !=
			   NULL &&
		   len == PEER_TOKEN_SIZE;
}

bool
peer_token_is_valid(const PeerSecret *secret, int32_t from, int64_t from_epoch, int32_t to,
					const uint8_t *token, size_t len)
{
	uint8_t expected[PEER_TOKEN_SIZE];

	return len == PEER_TOKEN_SIZE && peer_token_make(secret, from, from_epoch, to, expected) &&
		   CRYPTO_memcmp(expected, token, PEER_TOKEN_SIZE) == 0;
}
