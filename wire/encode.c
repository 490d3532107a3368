/*
 * encode.c: the writing half of the engine (contract in codec.h).
 */
#include "wire/codec.h"

#include "wire/bytes.h"

#include <stdlib.h>
#include <string.h>

void
wire_writer_init(WireWriter *w)
{
	memset(w, 0, sizeof(*w));
}

void
wire_writer_reset(WireWriter *w)
{
	w->len = 0;
	w->n_holes = 0;
	w->hole_bytes = 0;
	w->failed = false;
}

void
wire_writer_free(WireWriter *w)
{
	free(w->buf);
	free(w->holes);
	wire_writer_init(w);
}

int
wire_writer_iov(const WireWriter *w, size_t skip, struct iovec *iov, int most)
{
	size_t from = 0;
	int n = 0;

	for (int h = 0; h <= w->n_holes && n + 2 <= most; h++)
	{
		size_t to = h < w->n_holes ? w->holes[h].pos : w->len;
		struct iovec pieces[2] = {{w->buf + from, to - from}, {NULL, 0}};

		if (h < w->n_holes)
			pieces[1] = (struct iovec){w->holes[h].user, (size_t) w->holes[h].len};
		for (int i = 0; i < 2; i++)
		{
			size_t gone = skip < pieces[i].iov_len ? skip : pieces[i].iov_len;

			skip -= gone;
			if (pieces[i].iov_len > gone)
				iov[n++] = (struct iovec){(char *) pieces[i].iov_base + gone, pieces[i].iov_len - gone};
		}
		from = to;
	}
	return n;
}

uint8_t *
wire_put_room(WireWriter *w, size_t n)
{
	size_t cap = w->cap;
	uint8_t *p;

	if (w->failed)
		return NULL;
	/* Room for nothing is an address, too: NULL says failure. */
	if (n > cap - w->len || w->buf == NULL)
	{
		if (n > (size_t) INT32_MAX || w->len > (size_t) INT32_MAX - n)
		{
			w->failed = true;
			return NULL;
		}
		if (cap == 0)
			cap = 256;
		while (cap - w->len < n)
			cap *= 2;
		p = realloc(w->buf, cap);
		if (p == NULL)
		{
			w->failed = true;
			return NULL;
		}
		w->buf = p;
		w->cap = cap;
	}
	p = w->buf + w->len;
	w->len += n;
	return p;
}

void
wire_put_bytes(WireWriter *w, const void *src, size_t len)
{
	uint8_t *p = wire_put_room(w, len);

	if (p != NULL && len > 0)
		memcpy(p, src, len);
}

static void
put_uvarint(WireWriter *w, uint32_t v)
{
	uint8_t *p = wire_put_room(w, (size_t) uvarint_size(v));

	if (p != NULL)
		uvarint_put(p, v);
}

static void
put8(WireWriter *w, uint8_t v)
{
	uint8_t *p = wire_put_room(w, 1);

	if (p != NULL)
		*p = v;
}

static void
put16(WireWriter *w, uint16_t v)
{
	uint8_t *p = wire_put_room(w, 2);

	if (p != NULL)
		put_be16(p, v);
}

static void
put32(WireWriter *w, uint32_t v)
{
	uint8_t *p = wire_put_room(w, 4);

	if (p != NULL)
		put_be32(p, v);
}

static void
put64(WireWriter *w, uint64_t v)
{
	uint8_t *p = wire_put_room(w, 8);

	if (p != NULL)
		put_be64(p, v);
}

/* A length or count, < 0 is null: null becomes 0 where the version has none. */
static void
put_length(WireWriter *w, int32_t len, bool compact, bool narrow, bool nullable)
{
	if (len < 0)
		len = nullable ? -1 : 0;
	if (compact)
		put_uvarint(w, (uint32_t) len + 1);
	else if (!narrow)
		put32(w, (uint32_t) len);
	else if (len <= INT16_MAX)
		put16(w, (uint16_t) len);
	else
		w->failed = true;
}

static void
put_hole(WireWriter *w, int32_t len, void *user)
{
	if (w->failed || len <= 0)
		return;
	if (w->n_holes == w->cap_holes)
	{
		int cap = w->cap_holes == 0 ? 8 : w->cap_holes * 2;
		WireHole *holes = realloc(w->holes, (size_t) cap * sizeof(*holes));

		if (holes == NULL)
		{
			w->failed = true;
			return;
		}
		w->holes = holes;
		w->cap_holes = cap;
	}
	w->holes[w->n_holes++] = (WireHole){w->len, len, user};
	w->hole_bytes += (size_t) len;
}

static bool
may_be_null(const WireField *f, int16_t version)
{
	return version >= f->null_min && version <= f->null_max;
}

static void encode_struct(const WireMsg *m, int16_t version, WireWriter *w, const void *in);

/* Strings, bytes and records: a length, then as many bytes. */
static void
encode_slice(const WireField *f, bool compact, bool nullable, WireWriter *w, const void *in)
{
	const void *p;
	void *hole = NULL;
	int32_t len;

	if (f->type == WT_STRING)
	{
		p = ((const WStr *) in)->s;
		len = ((const WStr *) in)->len;
	}
	else if (f->type == WT_BYTES)
	{
		p = ((const WBytes *) in)->p;
		len = ((const WBytes *) in)->len;
	}
	else
	{
		p = ((const WRecords *) in)->p;
		len = ((const WRecords *) in)->len;
		hole = ((const WRecords *) in)->hole;
	}
	put_length(w, len, compact && (f->flags & WF_RIGID) == 0, f->type == WT_STRING, nullable);
	if (hole != NULL)
		put_hole(w, len, hole);
	else if (len > 0 && p != NULL)
		wire_put_bytes(w, p, (size_t) len);
	else if (len > 0)
		w->failed = true;
}

static void
encode_value(const WireField *f, int16_t version, bool compact, bool nullable, WireWriter *w, const void *in)
{
	switch ((WireType) f->type)
	{
		case WT_BOOL:
			put8(w, *(const bool *) in ? 1 : 0);
			break;
		case WT_INT8:
			put8(w, *(const uint8_t *) in);
			break;
		case WT_INT16:
		case WT_UINT16:
			put16(w, *(const uint16_t *) in);
			break;
		case WT_INT32:
			put32(w, *(const uint32_t *) in);
			break;
		case WT_INT64:
		case WT_FLOAT64:
			put64(w, *(const uint64_t *) in);
			break;
		case WT_UUID:
			wire_put_bytes(w, in, 16);
			break;
		case WT_STRING:
		case WT_BYTES:
		case WT_RECORDS:
			encode_slice(f, compact, nullable, w, in);
			break;
		case WT_STRUCT:
			encode_struct(f->sub, version, w, in);
			break;
	}
}

static size_t
element_size(const WireField *f)
{
	static const uint8_t size[] = {sizeof(bool),    1, 2, 2, 4, 8, 8, 16, sizeof(WStr), sizeof(WBytes),
								   sizeof(WRecords)};

	return f->type == WT_STRUCT ? f->sub->size : size[f->type];
}

static void
encode_field(const WireField *f, int16_t version, bool compact, WireWriter *w, const uint8_t *base)
{
	bool nullable = may_be_null(f, version);
	const void *p = base + f->offset;

	if ((f->flags & WF_ARRAY) != 0)
	{
		const uint8_t *items = *(const uint8_t *const *) p;
		int32_t n = *(const int32_t *) (base + f->n_offset);
		size_t step = element_size(f);

		put_length(w, n, compact, false, nullable);
		for (int32_t i = 0; i < n && !w->failed; i++)
			encode_value(f, version, compact, false, w, items + (size_t) i * step);
	}
	else if ((f->flags & WF_PTR) != 0)
	{
		const void *sub = *(const void *const *) p;

		if (nullable)
			put8(w, sub == NULL ? 0xff : 1);
		if (sub != NULL)
			encode_struct(f->sub, version, w, sub);
		else if (!nullable)
			w->failed = true;
	}
	else
		encode_value(f, version, compact, nullable, w, p);
}

static bool is_default(const WireField *f, const uint8_t *base, int16_t version);

static bool
struct_is_default(const WireMsg *m, const uint8_t *base, int16_t version)
{
	for (int i = 0; i < m->n_fields; i++)
		if (!is_default(&m->fields[i], base, version))
			return false;
	return true;
}

/* Null and empty are the same where the version knows no null. */
static bool
length_is_default(const WireField *f, int32_t len, int16_t version)
{
	int32_t init = (int32_t) f->init;

	if (!may_be_null(f, version))
		return len <= 0;
	return len < 0 ? init < 0 : len == init;
}

static bool
is_default(const WireField *f, const uint8_t *base, int16_t version)
{
	static const WUuid zero;
	const void *p = base + f->offset;

	if ((f->flags & WF_ARRAY) != 0)
		return length_is_default(f, *(const int32_t *) (base + f->n_offset), version);
	if ((f->flags & WF_PTR) != 0)
		return *(const void *const *) p == NULL;
	switch ((WireType) f->type)
	{
		case WT_BOOL:
			return *(const bool *) p == (f->init != 0);
		case WT_INT8:
			return *(const int8_t *) p == f->init;
		case WT_INT16:
			return *(const int16_t *) p == f->init;
		case WT_UINT16:
			return *(const uint16_t *) p == f->init;
		case WT_INT32:
			return *(const int32_t *) p == f->init;
		case WT_INT64:
			return *(const int64_t *) p == f->init;
		case WT_FLOAT64:
			return *(const double *) p == (double) f->init;
		case WT_UUID:
			return memcmp(p, &zero, sizeof(zero)) == 0;
		case WT_STRING:
			return length_is_default(f, ((const WStr *) p)->len, version);
		case WT_BYTES:
			return length_is_default(f, ((const WBytes *) p)->len, version);
		case WT_RECORDS:
			return length_is_default(f, ((const WRecords *) p)->len, version);
		case WT_STRUCT:
			return struct_is_default(f->sub, p, version);
	}
	return false;
}

/* A tagged field's size comes before it: write it behind one byte, and move it on when that is too few. */
static void
encode_tagged_field(const WireField *f, int16_t version, WireWriter *w, const uint8_t *base)
{
	size_t start, size;
	int more;

	put_uvarint(w, (uint32_t) f->tag);
	put8(w, 0);
	start = w->len;
	encode_field(f, version, true, w, base);
	size = w->len - start;
	more = uvarint_size(size) - 1;
	if (more > 0 && wire_put_room(w, (size_t) more) != NULL)
		memmove(w->buf + start + more, w->buf + start, size);
	if (!w->failed)
		uvarint_put(w->buf + start - 1, size);
}

static void
encode_tagged(const WireMsg *m, int16_t version, WireWriter *w, const uint8_t *base)
{
	const WireField *fields = m->fields + (m->n_fields - m->n_tagged);
	uint64_t present = 0;

	for (int i = 0; i < m->n_tagged; i++)
		if (version >= fields[i].min && version <= fields[i].max && !is_default(&fields[i], base, version))
			present |= UINT64_C(1) << i;
	put_uvarint(w, (uint32_t) __builtin_popcountll(present));
	for (int i = 0; i < m->n_tagged; i++)
		if ((present >> i & 1) != 0)
			encode_tagged_field(&fields[i], version, w, base);
}

static void
encode_struct(const WireMsg *m, int16_t version, WireWriter *w, const void *in)
{
	bool compact = version >= m->flexible;
	const WireField *f = m->fields;
	int ordinary = m->n_fields - m->n_tagged;

	for (int i = 0; i < ordinary; i++, f++)
		if (version >= f->min && version <= f->max)
			encode_field(f, version, compact, w, in);
	if (compact)
		encode_tagged(m, version, w, in);
}

int
wire_encode(const WireMsg *m, int16_t version, WireWriter *w, const void *in)
{
	if (version < m->min || version > m->max)
		w->failed = true;
	if (!w->failed)
		encode_struct(m, version, w, in);
	return w->failed ? -1 : 0;
}

WBytes
wire_pack(const WireMsg *m, int16_t version, Arena *a, const void *in)
{
	WBytes packed = WBYTES_NULL;
	WireWriter w;

	wire_writer_init(&w);
	put16(&w, (uint16_t) version);
	if (wire_encode(m, version, &w, in) == 0)
		packed.p = arena_copy(a, w.buf, w.len);
	if (packed.p != NULL && !a->failed)
		packed.len = (int32_t) w.len;
	wire_writer_free(&w);
	return packed;
}
