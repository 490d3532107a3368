/*
 * payload.h: values to send, made before the clock runs.
 *
 * A pool of values of one size, handed out in turn; they are never written to, so a client may send them
 * without a copy and from any thread.  The same kind, size and count are the same bytes in every run.
 *
 *     json     records of an event log, each another, about what a real topic holds: lz4 makes a third of it
 *     random   bytes that no codec makes smaller
 *     zero     zeros
 */
#ifndef BENCH_LOAD_PAYLOAD_H
#define BENCH_LOAD_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

typedef struct Payload
{
	uint8_t *bytes;
	size_t size;
	int64_t count;
} Payload;

/* Ends the program when there is no such kind. */
void payload_init(Payload *p, const char *kind, size_t size);
void payload_free(Payload *p);

static inline uint8_t *
payload_at(const Payload *p, int64_t i)
{
	return p->bytes + (size_t) (i % p->count) * p->size;
}

#endif
