/*
 * err.h: how a brokerd module says that something failed.
 *
 * A function that can fail in a way a person must read takes an `Err *` as its last argument, returns
 * false (or NULL) and fills it; one that answers a client returns a Kafka error code (wire/errors.h).
 * `text` is one sentence: what happened, to what, and what to do.  An Err owns no memory.
 */
#ifndef BROKERD_BASE_ERR_H
#define BROKERD_BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct Err
{
	int16_t code; /* Kafka error code, wire/errors.h; 0 = none given */
	int sys;      /* errno, or 0 */
	char text[512];
} Err;

/* Fill `err` (may be NULL) and return false, so that `return err_set(...)` reads well. */
bool err_set(Err *err, int16_t code, int sys, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
