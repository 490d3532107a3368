/* payload.c: see payload.h. */
#include "bench/load/payload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/load/options.h"

enum
{
	POOL_BYTES = 4 << 20,
	POOL_MOST = 4096
};

/* xorshift64*: quick, and the same on every machine. */
static uint64_t
next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(2685821657736338717);
}

static void
fill_random(uint8_t *to, size_t size, uint64_t *state)
{
	for (size_t i = 0; i < size; i += 8)
	{
		uint64_t v = next_random(state);

		memcpy(to + i, &v, size - i < 8 ? size - i : 8);
	}
}

static void
fill_json(uint8_t *to, size_t size, int64_t number, uint64_t *state)
{
	static const char *const events[] = {"view", "click", "search", "basket", "order", "return"};
	static const char *const words[] = {"blue",  "lamp", "winter", "table",   "sale", "garden",
										"paper", "cup",  "window", "bicycle", "soap", "travel"};
	char text[512];
	size_t n;

	n = (size_t) snprintf(text, sizeof(text),
						  "{\"id\":%" PRId64 ",\"time\":%" PRIu64
						  ",\"user\":\"u%06u\",\"event\":\"%s\",\"text\":\"",
						  number, UINT64_C(1764489600000) + (uint64_t) number * 37,
						  (unsigned) (next_random(state) % 1000000), events[next_random(state) % 6]);
	memcpy(to, text, n < size ? n : size);
	while (n < size)
	{
		const char *word = words[next_random(state) % 12];

		for (; *word != '\0' && n < size; word++)
			to[n++] = (uint8_t) *word;
		if (n < size)
			to[n++] = ' ';
	}
	if (size >= 2)
		memcpy(to + size - 2, "\"}", 2);
}

void
payload_init(Payload *p, const char *kind, size_t size)
{
	uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
	int64_t count = size == 0 ? 1 : POOL_BYTES / (int64_t) size;

	if (strcmp(kind, "json") != 0 && strcmp(kind, "random") != 0 && strcmp(kind, "zero") != 0)
		die_usage("--payload is json, random or zero, not \"%s\"", kind);
	p->size = size;
	p->count = count < 2 ? 2 : count > POOL_MOST ? POOL_MOST : count;
	p->bytes = calloc((size_t) p->count, size == 0 ? 1 : size);
	if (p->bytes == NULL)
		die("no memory for values of %zu bytes", size);
	for (int64_t i = 0; i < p->count && kind[0] != 'z'; i++)
		if (kind[0] == 'r')
			fill_random(payload_at(p, i), size, &state);
		else
			fill_json(payload_at(p, i), size, i, &state);
}

void
payload_free(Payload *p)
{
	free(p->bytes);
}
