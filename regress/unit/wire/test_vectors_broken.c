/*
 * Every golden vector cut at every byte and with a bit flipped in every byte: refused, or decoded to
 * something that is written and read again as the same bytes.  Run with sanitizers this also says that
 * nothing outside of the frame is touched.
 */
#include "regress/unit/tap.h"
#include "regress/unit/wire/vectors.h"

/* The thread sanitizer has nothing to find in one thread and takes ten times as long: a sample will do. */
#ifdef __SANITIZE_THREAD__
#define EACH 20
#else
#define EACH 1
#endif

typedef struct Totals
{
	int cut, cut_accepted;
	int flipped, unstable;
} Totals;

static uint64_t message[512];

static bool
try_decode(const Vector *v, const uint8_t *data, size_t len, Arena *a)
{
	WireReader r;

	arena_reset(a);
	wire_reader_init(&r, data, len);
	return wire_decode(v->msg, v->version, &r, a, message) == 0;
}

static void
cut(const Vector *v, Arena *a, Totals *t)
{
	for (size_t len = 0; len < v->len; len++)
	{
		uint8_t *copy = malloc(len + 1); /* ends where the frame ends */

		if (copy == NULL)
			abort();
		memcpy(copy + 1, v->data, len);
		t->cut++;
		t->cut_accepted += try_decode(v, copy + 1, len, a);
		free(copy);
	}
}

/* Encode what was decoded; then decode and encode that again. */
static bool
is_stable(const Vector *v, Arena *a, WireWriter *first, WireWriter *second)
{
	wire_writer_reset(first);
	wire_writer_reset(second);
	return wire_encode(v->msg, v->version, first, message) == 0 && try_decode(v, first->buf, first->len, a) &&
		   wire_encode(v->msg, v->version, second, message) == 0 && first->len == second->len &&
		   memcmp(first->buf, second->buf, first->len) == 0;
}

static void
flip(const Vector *v, Arena *a, WireWriter *first, WireWriter *second, Totals *t)
{
	uint8_t *copy = malloc(v->len + 1);

	if (copy == NULL)
		abort();
	memcpy(copy + 1, v->data, v->len);
	for (size_t i = 0; i < v->len; i++)
	{
		uint8_t bit = (uint8_t) (1u << ((i + v->len) % 8));

		copy[1 + i] ^= bit;
		t->flipped++;
		if (try_decode(v, copy + 1, v->len, a) && !is_stable(v, a, first, second) && t->unstable++ < 5)
			printf("# %s v%d %s, byte %zu\n", v->name, v->version, v->variant, i);
		copy[1 + i] ^= bit;
	}
	free(copy);
}

static void
break_file(const char *name)
{
	static Vector v;
	gzFile file = vector_open(name);
	WireWriter first, second;
	Totals t = {0};
	Arena a;

	if (!ok(file != NULL, "%s is there", name))
		return;
	arena_init(&a, 4096);
	wire_writer_init(&first);
	wire_writer_init(&second);
	for (int n = 0; vector_next(file, &v); n++)
	{
		/* Long strings only make it slow. */
		if (v.msg == NULL || strcmp(v.variant, "edge") == 0 || n % EACH != 0)
			continue;
		cut(&v, &a, &t);
		flip(&v, &a, &first, &second, &t);
	}
	gzclose(file);
	is_int(t.cut_accepted, 0, "%s: none of %d cut frames is taken", name, t.cut);
	is_int(t.unstable, 0, "%s: %d flipped frames are refused or stable", name, t.flipped);
	arena_free(&a);
	wire_writer_free(&first);
	wire_writer_free(&second);
}

int
main(void)
{
	break_file("java.txt.gz");
	break_file("go.txt.gz");
	return tap_done();
}
