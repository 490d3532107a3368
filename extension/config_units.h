/*
 * config_units.h: numbers with a unit, read and written.
 *
 *     '7 days', '90min', '1 day 12:00:00', '1.5 h'   → milliseconds
 *     '1 GB', '64k', '10 MiB', '1048588 bytes'       → bytes, k = 1024 as PostgreSQL has it
 *
 * Pure C, no allocation, any thread.  Months and years have no fixed length and are refused.
 */
#ifndef EXTENSION_CONFIG_UNITS_H
#define EXTENSION_CONFIG_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum UnitResult
{
	UNIT_OK,
	UNIT_INVALID,   /* not of that form */
	UNIT_NO_LENGTH, /* months, years */
	UNIT_TOO_LARGE  /* beyond 64 bits, or a fraction of the smallest unit */
} UnitResult;

UnitResult units_parse_ms(const char *text, int64_t *ms);
UnitResult units_parse_bytes(const char *text, int64_t *bytes);

/* What the parsers read back.  Write to out, return it. */
const char *units_format_ms(int64_t ms, char *out, size_t size);
const char *units_format_bytes(int64_t bytes, char *out, size_t size);

#endif
