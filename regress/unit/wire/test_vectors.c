/*
 * What two other implementations make of every message in every version, read and written by ours: the same
 * fields (names, order, values), the same defaults, the same bytes.
 */
#include "regress/unit/tap.h"
#include "regress/unit/wire/vectors.h"

typedef struct Counts
{
	int vectors;
	int failed;
} Counts;

static void
complain(const Vector *v, Counts *c, const char *what)
{
	if (c->failed++ < 5)
		printf("# %s v%d %s: %s\n", v->name, v->version, v->variant, what);
}

static bool
encodes_to(const WireMsg *m, int16_t version, const void *msg, const uint8_t *data, size_t len)
{
	WireWriter w;
	bool same;

	wire_writer_init(&w);
	same =
		wire_encode(m, version, &w, msg) == 0 && w.len == len && (len == 0 || memcmp(w.buf, data, len) == 0);
	wire_writer_free(&w);
	return same;
}

/* One default element in each array of structs, all the way down: the variant "elements". */
static void
add_elements(const WireMsg *m, int16_t version, Arena *a, uint8_t *base)
{
	for (int i = 0; i < m->n_fields; i++)
	{
		const WireField *f = &m->fields[i];
		void *item;

		/* Kafka constructs records as null; ours are empty, since that is what clients get with an error. */
		if (f->type == WT_RECORDS)
			((WRecords *) (base + f->offset))->len = -1;
		if (f->type != WT_STRUCT || (f->flags & WF_ARRAY) == 0 || version < f->min || version > f->max)
			continue;
		item = wire_new(f->sub, a, 1);
		if (item == NULL)
			abort();
		add_elements(f->sub, version, a, item);
		*(void **) (base + f->offset) = item;
		*(int32_t *) (base + f->n_offset) = 1;
	}
}

static void
check_defaults(const Vector *v, Arena *a, void *msg, Counts *c)
{
	wire_init(v->msg, msg);
	if (strcmp(v->variant, "elements") == 0)
		add_elements(v->msg, v->version, a, msg);
	if (!encodes_to(v->msg, v->version, msg, v->data, v->len))
		complain(v, c, "our defaults are others");
}

static void
check_vector(const Vector *v, const Vector *full, Arena *a, void *msg, Counts *c)
{
	WireReader r;
	bool unknown = strcmp(v->variant, "unknown") == 0;

	c->vectors++;
	if (v->msg == NULL)
	{
		complain(v, c, "not in the schema");
		return;
	}
	wire_reader_init(&r, v->data, v->len);
	if (wire_decode(v->msg, v->version, &r, a, msg) != 0 || wire_reader_left(&r) != 0)
	{
		complain(v, c, r.why == NULL ? "bytes are left over" : r.why);
		return;
	}
	if (v->json != NULL)
	{
		char *json = vector_json(v->msg, v->version, msg);

		if (json == NULL || strcmp(json, v->json) != 0)
		{
			complain(v, c, "the fields are others");
			printf("# ours   %s\n# theirs %s\n", json, v->json);
		}
		free(json);
	}
	/* Unknown tagged fields are dropped, which leaves the variant "full". */
	if (!encodes_to(v->msg, v->version, msg, unknown ? full->data : v->data, unknown ? full->len : v->len))
		complain(v, c, "written back as other bytes");
	if (strcmp(v->variant, "default") == 0 || strcmp(v->variant, "elements") == 0)
		check_defaults(v, a, msg, c);
}

/* How many vectors the file has for each message and version, to see that none is missing. */
typedef struct Seen
{
	const WireMsg *msg;
	int16_t version;
} Seen;

static bool
was_seen(const Seen *seen, int n, const WireMsg *m, int16_t version)
{
	for (int i = 0; i < n; i++)
		if (seen[i].msg == m && seen[i].version == version)
			return true;
	return false;
}

#define SEEN_MAX 2000

static int
check_file(const char *name, Seen *seen)
{
	static Vector v, full;
	static uint64_t msg[512]; /* larger than any message's own struct */
	gzFile file = vector_open(name);
	Counts c = {0};
	Arena a;
	int n_seen = 0;

	if (!ok(file != NULL, "%s is there", name))
		return 0;
	arena_init(&a, 4096);
	while (vector_next(file, &v))
	{
		arena_reset(&a);
		if (v.msg != NULL && v.msg->size > sizeof(msg))
			abort();
		if (strcmp(v.variant, "full") == 0)
		{
			full = v;
			full.data = full.bytes;
			if (n_seen < SEEN_MAX)
				seen[n_seen++] = (Seen){v.msg, v.version};
		}
		check_vector(&v, &full, &a, msg, &c);
	}
	gzclose(file);
	arena_free(&a);
	ok(c.vectors > 1000 && c.failed == 0, "%s: %d vectors, %d complaints", name, c.vectors, c.failed);
	return n_seen;
}

/* What an implementation does not have, and may not have. */
typedef struct Gap
{
	const char *file;
	const char *api;
	int16_t first, last;
} Gap;

static const Gap gaps[] = {
	{"java", "ListOffsets", 0, 0}, /* Kafka 4 dropped them */
	{"java", "OffsetCommit", 0, 1},
};

static bool
is_gap(const char *file, const WireApi *api, int16_t version)
{
	for (size_t i = 0; i < sizeof(gaps) / sizeof(gaps[0]); i++)
		if (strcmp(gaps[i].file, file) == 0 && strcmp(gaps[i].api, api->name) == 0 &&
			version >= gaps[i].first && version <= gaps[i].last)
			return true;
	return false;
}

static void
check_coverage(const char *file, const Seen *seen, int n_seen)
{
	int missing = 0;

	for (int i = 0; i < wire_api_count(); i++)
	{
		const WireApi *api = wire_api_at(i);

		for (int16_t version = api->min; version <= api->max; version++)
			if (!is_gap(file, api, version) && (!was_seen(seen, n_seen, api->request, version) ||
												!was_seen(seen, n_seen, api->response, version)))
			{
				printf("# %s v%d is missing\n", api->name, version);
				missing++;
			}
	}
	is_int(missing, 0, "%s: every version that we serve is there, request and response", file);
}

int
main(void)
{
	static Seen seen[SEEN_MAX];

	check_coverage("java", seen, check_file("java.txt.gz", seen));
	check_coverage("go", seen, check_file("go.txt.gz", seen));
	return tap_done();
}
