/*
 * decode.c: the reading half of the engine (contract in codec.h).
 */
#include "wire/codec.h"

#include "wire/bytes.h"
#include "wire/utf8.h"

void
wire_reader_init(WireReader *r, const void *data, size_t len)
{
	r->p = data;
	r->end = len == 0 ? r->p : r->p + len; /* data may be NULL then */
	r->budget = WIRE_BUDGET(len);
	r->why = NULL;
}

static bool
fail(WireReader *r, const char *why)
{
	if (r->why == NULL)
		r->why = why;
	r->p = r->end;
	return false;
}

/* The next `n` bytes, or NULL. */
static const uint8_t *
take(WireReader *r, size_t n)
{
	const uint8_t *p = r->p;

	if (n > wire_reader_left(r))
	{
		fail(r, "it ends in the middle of a field");
		return NULL;
	}
	r->p += n;
	return p;
}

static bool
read_uvarint(WireReader *r, uint32_t *out)
{
	uint64_t v;
	int n = uvarint_get(r->p, r->end, 32, &v);

	if (n == 0)
		return fail(r, "a varint does not end");
	r->p += n;
	*out = (uint32_t) v;
	return true;
}

/* A length or count; -1 is null.  `narrow`: 16 bits outside of flexible versions. */
static bool
read_length(WireReader *r, bool compact, bool narrow, int32_t *out)
{
	const uint8_t *p;
	uint32_t v;

	if (compact)
	{
		if (!read_uvarint(r, &v))
			return false;
		/* v - 1 wraps to -1 for null, and to a negative number for what no int32 can hold. */
		*out = (int32_t) (v - 1);
		return *out >= -1 || fail(r, "a length is out of range");
	}
	p = take(r, narrow ? 2 : 4);
	if (p == NULL)
		return false;
	*out = narrow ? (int16_t) get_be16(p) : (int32_t) get_be32(p);
	return *out >= -1 || fail(r, "a length is negative");
}

static bool
may_be_null(const WireField *f, int16_t version)
{
	return version >= f->null_min && version <= f->null_max;
}

/* What comes behind a length: `*p` is NULL for null. */
static bool
read_slice(WireReader *r, const WireField *f, bool compact, bool nullable, const uint8_t **p, int32_t *len)
{
	if (!read_length(r, compact && (f->flags & WF_RIGID) == 0, f->type == WT_STRING, len))
		return false;
	*p = NULL;
	if (*len < 0)
		return nullable || fail(r, "null where none is allowed");
	*p = take(r, (size_t) *len);
	return *p != NULL;
}

static bool decode_struct(const WireMsg *m, int16_t version, WireReader *r, Arena *a, void *out);

/* One value that is no array. */
static bool
decode_value(const WireField *f, int16_t version, bool compact, bool nullable, WireReader *r, Arena *a,
			 void *out)
{
	const uint8_t *p;
	int32_t len;

	switch ((WireType) f->type)
	{
		case WT_BOOL:
			if ((p = take(r, 1)) == NULL)
				return false;
			*(bool *) out = *p != 0;
			return true;
		case WT_INT8:
			if ((p = take(r, 1)) == NULL)
				return false;
			*(int8_t *) out = (int8_t) *p;
			return true;
		case WT_INT16:
		case WT_UINT16:
			if ((p = take(r, 2)) == NULL)
				return false;
			*(uint16_t *) out = get_be16(p);
			return true;
		case WT_INT32:
			if ((p = take(r, 4)) == NULL)
				return false;
			*(int32_t *) out = (int32_t) get_be32(p);
			return true;
		case WT_INT64:
		case WT_FLOAT64: /* the bits of an IEEE double */
			if ((p = take(r, 8)) == NULL)
				return false;
			*(uint64_t *) out = get_be64(p);
			return true;
		case WT_UUID:
			if ((p = take(r, 16)) == NULL)
				return false;
			memcpy(out, p, 16);
			return true;
		case WT_STRING:
			if (!read_slice(r, f, compact, nullable, &p, &len))
				return false;
			/* A client id is only a label, and old clients write it in Latin-1: taken as it is. */
			if (len > 0 && (f->flags & WF_RIGID) == 0 && !utf8_valid(p, (size_t) len))
				return fail(r, "a string is not UTF-8");
			*(WStr *) out = (WStr){(const char *) p, len};
			return true;
		case WT_BYTES:
			if (!read_slice(r, f, compact, nullable, &p, &len))
				return false;
			*(WBytes *) out = (WBytes){p, len};
			return true;
		case WT_RECORDS:
			if (!read_slice(r, f, compact, nullable, &p, &len))
				return false;
			*(WRecords *) out = (WRecords){p, len, NULL};
			return true;
		case WT_STRUCT:
			return decode_struct(f->sub, version, r, a, out);
	}
	return fail(r, "the schema has an unknown type");
}

/* Bytes that a value takes in memory, and at least on the wire. */
static void
element_size(const WireField *f, int16_t version, bool compact, size_t *memory, size_t *wire)
{
	static const uint8_t mem[] = {sizeof(bool),    1, 2, 2, 4, 8, 8, 16, sizeof(WStr), sizeof(WBytes),
								  sizeof(WRecords)};
	static const uint8_t min[] = {1, 1, 2, 2, 4, 8, 8, 16, 2, 4, 4};

	if (f->type == WT_STRUCT)
	{
		*memory = f->sub->size;
		*wire = f->sub->min_size[version - f->sub->min];
	}
	else
	{
		*memory = mem[f->type];
		*wire = compact && f->type >= WT_STRING ? 1 : min[f->type];
	}
}

static void *
take_memory(WireReader *r, Arena *a, size_t size)
{
	/* What the arena hands out is rounded up: many arrays of one byte would not be as small as they look. */
	size_t taken = (size + 15) & ~(size_t) 15;
	void *p;

	if (taken > r->budget)
	{
		fail(r, "it would take too much memory");
		return NULL;
	}
	r->budget -= taken;
	p = arena_alloc(a, size);
	if (p == NULL)
		fail(r, "no memory");
	return p;
}

static bool
decode_array(const WireField *f, int16_t version, bool compact, WireReader *r, Arena *a, uint8_t *base)
{
	void **items = (void **) (base + f->offset);
	int32_t *n = (int32_t *) (base + f->n_offset);
	size_t memory, wire;
	int32_t count;
	uint8_t *p;

	if (!read_length(r, compact, false, &count))
		return false;
	*items = NULL;
	*n = 0;
	if (count < 0)
	{
		*n = -1;
		return may_be_null(f, version) || fail(r, "null where none is allowed");
	}
	if (count == 0)
		return true;
	element_size(f, version, compact, &memory, &wire);
	if ((size_t) count > wire_reader_left(r) / (wire == 0 ? 1 : wire))
		return fail(r, "a count is larger than what is left");
	p = take_memory(r, a, (size_t) count * memory);
	if (p == NULL)
		return false;
	for (int32_t i = 0; i < count; i++)
		if (!decode_value(f, version, compact, false, r, a, p + (size_t) i * memory))
			return false;
	*items = p;
	*n = count;
	return true;
}

static bool
decode_field(const WireField *f, int16_t version, bool compact, WireReader *r, Arena *a, uint8_t *base)
{
	const uint8_t *p;
	void *sub;

	if ((f->flags & WF_ARRAY) != 0)
		return decode_array(f, version, compact, r, a, base);
	if ((f->flags & WF_PTR) == 0)
		return decode_value(f, version, compact, may_be_null(f, version), r, a, base + f->offset);

	/* A nullable struct has a byte before it: -1 null, 1 present.  Where it can't be null there is none. */
	*(void **) (base + f->offset) = NULL;
	if (may_be_null(f, version))
	{
		if ((p = take(r, 1)) == NULL)
			return false;
		if ((int8_t) *p < 0)
			return true;
	}
	sub = take_memory(r, a, f->sub->size);
	if (sub == NULL || !decode_struct(f->sub, version, r, a, sub))
		return false;
	*(void **) (base + f->offset) = sub;
	return true;
}

static const WireField *
find_tag(const WireMsg *m, int16_t version, uint32_t tag)
{
	for (int i = m->n_fields - m->n_tagged; i < m->n_fields; i++)
	{
		const WireField *f = &m->fields[i];

		if ((uint32_t) f->tag == tag && version >= f->min && version <= f->max)
			return f;
	}
	return NULL;
}

static bool
decode_tagged(const WireMsg *m, int16_t version, WireReader *r, Arena *a, uint8_t *base)
{
	uint32_t count = 0, tag = 0, size = 0;

	if (!read_uvarint(r, &count))
		return false;
	while (count-- > 0)
	{
		const uint8_t *start, *end = r->end;
		const WireField *f;

		if (!read_uvarint(r, &tag) || !read_uvarint(r, &size))
			return false;
		start = take(r, size);
		if (start == NULL)
			return false;
		f = find_tag(m, version, tag);
		if (f == NULL)
			continue;
		r->p = start;
		r->end = start + size;
		if (!decode_field(f, version, true, r, a, base) || r->p != r->end)
		{
			r->end = end;
			return fail(r, "a tagged field is not as long as it says");
		}
		r->end = end;
	}
	return true;
}

static bool
decode_struct(const WireMsg *m, int16_t version, WireReader *r, Arena *a, void *out)
{
	bool compact = version >= m->flexible;
	const WireField *f = m->fields;
	int ordinary = m->n_fields - m->n_tagged;

	wire_init(m, out);
	for (int i = 0; i < ordinary; i++, f++)
		if (version >= f->min && version <= f->max && !decode_field(f, version, compact, r, a, out))
			return false;
	return !compact || decode_tagged(m, version, r, a, out);
}

int
wire_decode(const WireMsg *m, int16_t version, WireReader *r, Arena *a, void *out)
{
	if (version < m->min || version > m->max)
		fail(r, "a version that the schema does not have");
	if (r->why != NULL)
	{
		wire_init(m, out);
		return -1;
	}
	return decode_struct(m, version, r, a, out) ? 0 : -1;
}

int
wire_unpack(const WireMsg *m, WBytes bytes, Arena *a, void *out)
{
	int16_t version = bytes.len < 2 ? -1 : (int16_t) get_be16(bytes.p);
	WireReader r;

	if (version >= 0)
	{
		wire_reader_init(&r, bytes.p + 2, (size_t) bytes.len - 2);
		if (wire_decode(m, version > m->max ? m->max : version, &r, a, out) == 0)
			return 0;
	}
	wire_init(m, out);
	return -1;
}
