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

static void
init_field(const WireField *f, uint8_t *base)
{
	void *p = base + f->offset;

	/* The struct is zeroed already: only what is not zero needs doing. */
	if (f->type == WT_STRUCT && (f->flags & (WF_ARRAY | WF_PTR)) == 0)
	{
		wire_init(f->sub, p);
		return;
	}
	if (f->init == 0)
		return;
	if ((f->flags & WF_ARRAY) != 0)
	{
		*(int32_t *) (base + f->n_offset) = -1;
		return;
	}
	switch ((WireType) f->type)
	{
		case WT_BOOL:
			*(bool *) p = true;
			break;
		case WT_INT8:
			*(int8_t *) p = (int8_t) f->init;
			break;
		case WT_INT16:
		case WT_UINT16:
			*(int16_t *) p = (int16_t) f->init;
			break;
		case WT_INT32:
			*(int32_t *) p = (int32_t) f->init;
			break;
		case WT_INT64:
			*(int64_t *) p = f->init;
			break;
		case WT_FLOAT64:
			*(double *) p = (double) f->init;
			break;
		case WT_STRING:
			((WStr *) p)->len = -1;
			break;
		case WT_BYTES:
			((WBytes *) p)->len = -1;
			break;
		case WT_RECORDS:
			((WRecords *) p)->len = -1;
			break;
		case WT_UUID:
		case WT_STRUCT:
			break;
	}
}

void
wire_init(const WireMsg *m, void *out)
{
	memset(out, 0, m->size);
	for (int i = 0; i < m->n_fields; i++)
		init_field(&m->fields[i], out);
}

void *
wire_new(const WireMsg *m, Arena *a, int32_t n)
{
	uint8_t *p = n < 0 ? NULL : arena_alloc(a, (size_t) n * m->size);

	for (int32_t i = 0; p != NULL && i < n; i++)
		wire_init(m, p + (size_t) i * m->size);
	return p;
}
