/* stable.h: decode a message; what is accepted is encoded, decoded and encoded again to the same bytes. */
#ifndef REGRESS_FUZZ_STABLE_H
#define REGRESS_FUZZ_STABLE_H

#include "wire/messages.h"

#include <stdlib.h>

static void
stable_message(const WireMsg *m, int16_t version, const uint8_t *data, size_t len)
{
	uint64_t out[512];
	WireWriter first, second;
	WireReader r;
	Arena a;

	if (m->size > sizeof(out))
		abort();
	wire_writer_init(&first);
	wire_writer_init(&second);
	arena_init(&a, 0);
	wire_reader_init(&r, data, len);
	if (wire_decode(m, version, &r, &a, out) == 0)
	{
		if (a.used > WIRE_BUDGET(len))
			abort();
		if (wire_encode(m, version, &first, out) != 0)
			abort();
		/* Defaults that were written out are left out the second time, so it is never larger. */
		if (first.len > len)
			abort();
		arena_reset(&a);
		wire_reader_init(&r, first.buf, first.len);
		r.budget = SIZE_MAX;
		if (wire_decode(m, version, &r, &a, out) != 0 || wire_reader_left(&r) != 0)
			abort();
		if (wire_encode(m, version, &second, out) != 0 || first.len != second.len ||
			(first.len > 0 && memcmp(first.buf, second.buf, first.len) != 0))
			abort();
	}
	arena_free(&a);
	wire_writer_free(&first);
	wire_writer_free(&second);
}

#endif
