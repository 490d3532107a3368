/*
 * codec.c: what both halves of the engine share: the API table, defaults.
 */
#include "wire/codec.h"

#include "wire/tables.h"

#include <string.h>

const WireApi *
wire_api(int16_t key)
{
	int low = 0, high = wire_n_apis - 1;

	while (low <= high)
	{
		int mid = (low + high) / 2;

		if (wire_apis[mid].key == key)
			return &wire_apis[mid];
		if (wire_apis[mid].key < key)
			low = mid + 1;
		else
			high = mid - 1;
	}
	return NULL;
}

int
wire_api_count(void)
{
	return wire_n_apis;
}

const WireApi *
wire_api_at(int i)
{
	return &wire_apis[i];
}

const char *
wire_msg_name(const WireMsg *m)
{
	return m->name;
}

void
wire_init(const WireMsg *m, void *out)
{
	if (m->defaults == NULL)
		memset(out, 0, m->size);
	else
		memcpy(out, m->defaults, m->size);
}

void *
wire_new(const WireMsg *m, Arena *a, int32_t n)
{
	uint8_t *p = n < 0 ? NULL : arena_alloc(a, (size_t) n * m->size);

	for (int32_t i = 0; p != NULL && i < n; i++)
		wire_init(m, p + (size_t) i * m->size);
	return p;
}
