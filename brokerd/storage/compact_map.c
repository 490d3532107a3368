#include "brokerd/storage/compact_map.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS ((size_t) 4096)

typedef struct Slot
{
	CompactKey key;
	int64_t next; /* the offset + 1; 0: free */
} Slot;

struct CompactMap
{
	Slot *slots;
	size_t nslots; /* a power of two; 0: none yet */
	size_t max_slots;
	int64_t count;
	EVP_MD *sha256;
	EVP_MD_CTX *ctx;
};

CompactMap *
compact_map_new(size_t max_bytes)
{
	CompactMap *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	if (max_bytes == 0)
		max_bytes = COMPACT_MAP_BYTES;
	m->max_slots = 16;
	while (m->max_slots * 2 * sizeof(Slot) <= max_bytes)
		m->max_slots *= 2;
	m->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	m->ctx = EVP_MD_CTX_new();
	if (m->sha256 != NULL && m->ctx != NULL && EVP_DigestInit_ex(m->ctx, m->sha256, NULL) == 1)
		return m;
	compact_map_free(m);
	return NULL;
}

void
compact_map_free(CompactMap *m)
{
	if (m == NULL)
		return;
	EVP_MD_CTX_free(m->ctx);
	EVP_MD_free(m->sha256);
	free(m->slots);
	free(m);
}

bool
compact_map_hash(CompactMap *m, const void *key, int32_t len, CompactKey *out)
{
	uint8_t digest[EVP_MAX_MD_SIZE];

	if (EVP_DigestInit_ex(m->ctx, NULL, NULL) != 1 ||
		(len > 0 && EVP_DigestUpdate(m->ctx, key, (size_t) len) != 1) ||
		EVP_DigestFinal_ex(m->ctx, digest, NULL) != 1)
		return false;
	memcpy(out->h, digest, sizeof(out->h));
	return true;
}

/* Where the key is, or would be. */
static Slot *
slot_of(Slot *slots, size_t nslots, const CompactKey *key)
{
	size_t i = key->h[0] & (nslots - 1);

	while (slots[i].next != 0 && (slots[i].key.h[0] != key->h[0] || slots[i].key.h[1] != key->h[1]))
		i = (i + 1) & (nslots - 1);
	return &slots[i];
}

static bool
grow(CompactMap *m, size_t nslots)
{
	Slot *slots = calloc(nslots, sizeof(*slots));

	if (slots == NULL)
		return false;
	for (size_t i = 0; i < m->nslots; i++)
		if (m->slots[i].next != 0)
			*slot_of(slots, nslots, &m->slots[i].key) = m->slots[i];
	free(m->slots);
	m->slots = slots;
	m->nslots = nslots;
	return true;
}

static bool
fits(size_t nslots, int64_t keys)
{
	return (uint64_t) keys <= nslots / 4 * 3;
}

bool
compact_map_reserve(CompactMap *m, int64_t keys)
{
	size_t nslots = m->nslots == 0 ? FIRST_SLOTS < m->max_slots ? FIRST_SLOTS : m->max_slots : m->nslots;

	if (keys < 0 || keys > INT32_MAX)
		return false;
	while (!fits(nslots, m->count + keys))
	{
		if (nslots >= m->max_slots && m->count > 0)
			return false;
		nslots *= 2;
	}
	return nslots == m->nslots || grow(m, nslots);
}

void
compact_map_put(CompactMap *m, const CompactKey *key, int64_t offset)
{
	Slot *s = slot_of(m->slots, m->nslots, key);

	if (s->next == 0)
	{
		s->key = *key;
		m->count++;
	}
	if (offset >= s->next)
		s->next = offset + 1;
}

int64_t
compact_map_get(const CompactMap *m, const CompactKey *key)
{
	return m->nslots == 0 ? -1 : slot_of(m->slots, m->nslots, key)->next - 1;
}

int64_t
compact_map_count(const CompactMap *m)
{
	return m->count;
}

size_t
compact_map_bytes(const CompactMap *m)
{
	return m->nslots * sizeof(Slot);
}
