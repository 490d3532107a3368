/*
 * config_units.c: the grammar of intervals and sizes.
 */
#include "config_units.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct Unit
{
	const char *name;
	int64_t size; /* 0: has no fixed length */
} Unit;

#define SECOND INT64_C(1000)
#define DAY    (86400 * SECOND)

static const Unit time_units[] = {
	{"ms", 1},
	{"msec", 1},
	{"msecs", 1},
	{"millisecond", 1},
	{"milliseconds", 1},
	{"s", SECOND},
	{"sec", SECOND},
	{"secs", SECOND},
	{"second", SECOND},
	{"seconds", SECOND},
	{"m", 60 * SECOND},
	{"min", 60 * SECOND},
	{"mins", 60 * SECOND},
	{"minute", 60 * SECOND},
	{"minutes", 60 * SECOND},
	{"h", 3600 * SECOND},
	{"hr", 3600 * SECOND},
	{"hrs", 3600 * SECOND},
	{"hour", 3600 * SECOND},
	{"hours", 3600 * SECOND},
	{"d", DAY},
	{"day", DAY},
	{"days", DAY},
	{"w", 7 * DAY},
	{"week", 7 * DAY},
	{"weeks", 7 * DAY},
	{"mon", 0},
	{"mons", 0},
	{"month", 0},
	{"months", 0},
	{"y", 0},
	{"yr", 0},
	{"yrs", 0},
	{"year", 0},
	{"years", 0},
	{NULL, 0},
};

#define KB INT64_C(1024)

static const Unit size_units[] = {
	{"b", 1},
	{"byte", 1},
	{"bytes", 1},
	{"k", KB},
	{"kb", KB},
	{"kib", KB},
	{"m", KB *KB},
	{"mb", KB *KB},
	{"mib", KB *KB},
	{"g", KB *KB *KB},
	{"gb", KB *KB *KB},
	{"gib", KB *KB *KB},
	{"t", KB *KB *KB *KB},
	{"tb", KB *KB *KB *KB},
	{"tib", KB *KB *KB *KB},
	{"p", KB *KB *KB *KB *KB},
	{"pb", KB *KB *KB *KB *KB},
	{"pib", KB *KB *KB *KB *KB},
	{NULL, 0},
};

static const Unit *
unit_find(const Unit *units, const char *word, size_t len)
{
	for (; units->name != NULL; units++)
		if (strlen(units->name) == len && strncasecmp(units->name, word, len) == 0)
			return units;
	return NULL;
}

static const char *
skip_space(const char *p)
{
	while (isspace((unsigned char) *p))
		p++;
	return p;
}

/* digits[.digits]; at most 18 digits before the point and 6 behind it. */
static const char *
read_number(const char *p, int64_t *whole, int64_t *millionths)
{
	int digits = 0, scale = 0;

	*whole = *millionths = 0;
	for (; isdigit((unsigned char) *p); p++)
	{
		if (++digits > 18)
			return NULL;
		*whole = *whole * 10 + (*p - '0');
	}
	if (digits == 0)
		return NULL;
	if (*p == '.')
	{
		for (p++; isdigit((unsigned char) *p); p++)
		{
			if (++scale > 6)
				return NULL;
			*millionths = *millionths * 10 + (*p - '0');
		}
		if (scale == 0)
			return NULL;
		for (; scale < 6; scale++)
			*millionths *= 10;
	}
	return p;
}

/* total += (whole + millionths / 10^6) * size; what remains must be whole. */
static UnitResult
add_part(int64_t *total, int64_t whole, int64_t millionths, int64_t size)
{
	int64_t part, fraction;

	if (__builtin_mul_overflow(whole, size, &part) || __builtin_mul_overflow(millionths, size, &fraction) ||
		fraction % 1000000 != 0 || __builtin_add_overflow(part, fraction / 1000000, &part) ||
		__builtin_add_overflow(*total, part, total))
		return UNIT_TOO_LARGE;
	return UNIT_OK;
}

/* HH:MM or HH:MM:SS[.fraction], `hours` read already. */
static const char *
read_clock(const char *p, int64_t hours, int64_t *total, UnitResult *result)
{
	int64_t minutes, seconds = 0, none, fraction = 0;

	p = read_number(p + 1, &minutes, &none);
	if (p == NULL || none != 0 || minutes > 59)
		return NULL;
	if (*p == ':')
	{
		p = read_number(p + 1, &seconds, &fraction);
		if (p == NULL || seconds > 59)
			return NULL;
	}
	*result = add_part(total, hours, 0, 3600 * SECOND);
	if (*result == UNIT_OK)
		*result = add_part(total, minutes * 60 + seconds, fraction, SECOND);
	return p;
}

static UnitResult
parse_parts(const char *text, const Unit *units, bool many, int64_t *out)
{
	const char *p = skip_space(text);
	int64_t total = 0;
	bool clock_seen = false;

	do
	{
		int64_t whole, millionths;
		const char *word;
		const Unit *unit;
		UnitResult result = UNIT_OK;

		p = read_number(p, &whole, &millionths);
		if (p == NULL)
			return UNIT_INVALID;
		if (many && *p == ':' && millionths == 0 && !clock_seen)
		{
			clock_seen = true;
			p = read_clock(p, whole, &total, &result);
			if (p == NULL)
				return UNIT_INVALID;
		}
		else
		{
			word = p = skip_space(p);
			while (isalpha((unsigned char) *p))
				p++;
			unit = unit_find(units, word, (size_t) (p - word));
			if (unit == NULL)
				return UNIT_INVALID;
			if (unit->size == 0)
				return UNIT_NO_LENGTH;
			result = add_part(&total, whole, millionths, unit->size);
		}
		if (result != UNIT_OK)
			return result;
		p = skip_space(p);
	} while (many && *p != '\0');

	if (*p != '\0')
		return UNIT_INVALID;
	*out = total;
	return UNIT_OK;
}

UnitResult
units_parse_ms(const char *text, int64_t *ms)
{
	return parse_parts(text, time_units, true, ms);
}

UnitResult
units_parse_bytes(const char *text, int64_t *bytes)
{
	return parse_parts(text, size_units, false, bytes);
}

const char *
units_format_ms(int64_t ms, char *out, size_t size)
{
	static const struct
	{
		int64_t ms;
		const char *one, *many;
	} parts[] = {
		{DAY, "day", "days"},
		{3600 * SECOND, "hour", "hours"},
		{60 * SECOND, "min", "min"},
		{SECOND, "s", "s"},
		{1, "ms", "ms"},
	};
	size_t used = 0, i;

	if (ms <= 0)
	{
		snprintf(out, size, "%" PRId64 " ms", ms);
		return out;
	}
	out[0] = '\0';
	for (i = 0; i < sizeof(parts) / sizeof(parts[0]) && used < size; i++)
	{
		int64_t n = ms / parts[i].ms;

		ms %= parts[i].ms;
		if (n > 0)
			used += (size_t) snprintf(out + used, size - used, "%s%" PRId64 " %s", used > 0 ? " " : "", n,
									  n == 1 ? parts[i].one : parts[i].many);
	}
	return out;
}

const char *
units_format_bytes(int64_t bytes, char *out, size_t size)
{
	static const char *const names[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
	size_t i = 0;

	while (i + 1 < sizeof(names) / sizeof(names[0]) && bytes != 0 && bytes % KB == 0)
	{
		bytes /= KB;
		i++;
	}
	snprintf(out, size, "%" PRId64 " %s", bytes, names[i]);
	return out;
}
