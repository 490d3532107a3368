/* test_peer_token.c: a token holds for who asks whom in which broker epoch, and for nobody else (hazards A23). */
#include "brokerd/cluster/peer_token.h"
#include "regress/unit/tap.h"

/* HMAC-SHA256 of key "0123456789abcdef0123456789abcdef", "pg_broker replica", 00000002 0000000000000007 00000001,
 * by another implementation (Python's hmac). */
static const uint8_t known[PEER_TOKEN_SIZE] = {
	0x5a, 0xfc, 0xb6, 0x4f, 0x30, 0xab, 0xd0, 0x97, 0x42, 0x0c, 0x78, 0xd3, 0xef, 0x3d, 0x2e, 0x6e,
	0x42, 0x84, 0xb9, 0x07, 0x84, 0x20, 0x1a, 0x8a, 0x6d, 0x50, 0x01, 0x88, 0x48, 0x78, 0xfd, 0x0b};

static PeerSecret
secret_of(const char *text)
{
	PeerSecret s = {.len = strlen(text)};

	memcpy(s.bytes, text, s.len);
	return s;
}

int
main(void)
{
	PeerSecret secret = secret_of("0123456789abcdef0123456789abcdef");
	PeerSecret other = secret_of("0123456789abcdef0123456789abcdeg"), none = {.len = 0};
	uint8_t token[PEER_TOKEN_SIZE + 1] = {0};

	ok(peer_token_make(&secret, 2, 7, 1, token), "a token is made");
	ok(memcmp(token, known, PEER_TOKEN_SIZE) == 0, "of these bytes and no others");
	ok(peer_token_is_valid(&secret, 2, 7, 1, token, PEER_TOKEN_SIZE), "and it is valid");
	ok(!peer_token_is_valid(&other, 2, 7, 1, token, PEER_TOKEN_SIZE), "not with another secret");
	ok(!peer_token_is_valid(&secret, 3, 7, 1, token, PEER_TOKEN_SIZE), "not from another broker");
	ok(!peer_token_is_valid(&secret, 2, 8, 1, token, PEER_TOKEN_SIZE), "not in another epoch");
	ok(!peer_token_is_valid(&secret, 2, 7, 3, token, PEER_TOKEN_SIZE), "not to another broker");
	ok(!peer_token_is_valid(&secret, 1, 7, 2, token, PEER_TOKEN_SIZE), "not the other way");
	ok(!peer_token_is_valid(&secret, 2, 7, 1, token, PEER_TOKEN_SIZE - 1), "not when it is shorter");
	ok(!peer_token_is_valid(&secret, 2, 7, 1, token, PEER_TOKEN_SIZE + 1), "not when it is longer");
	ok(!peer_token_is_valid(&secret, 2, 7, 1, token, 0), "not when it is empty");
	for (int i = 0, wrong = 0; i < PEER_TOKEN_SIZE * 8; i++)
	{
		token[i / 8] ^= (uint8_t) (1 << i % 8);
		wrong += peer_token_is_valid(&secret, 2, 7, 1, token, PEER_TOKEN_SIZE);
		token[i / 8] ^= (uint8_t) (1 << i % 8);
		if (i == PEER_TOKEN_SIZE * 8 - 1)
			is_int(wrong, 0, "not with any one bit turned");
	}
	ok(!peer_token_make(&none, 2, 7, 1, token), "before the secret is known there is no token");
	ok(!peer_token_is_valid(&none, 2, 7, 1, token, PEER_TOKEN_SIZE), "and none is valid");
	return tap_done();
}
