/*
 * config_value.c: is a value allowed, how is it kept, how is it shown.
 */
#include "config_keys.h"
#include "config_units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

__attribute__((format(printf, 3, 4))) static bool
refuse(const ConfigKey *key, ConfigFault *fault, const char *fmt, ...)
{
	char allowed[256];
	va_list ap;

	memset(fault, 0, sizeof(*fault));
	va_start(ap, fmt);
	vsnprintf(fault->message, sizeof(fault->message), fmt, ap);
	va_end(ap);
	snprintf(fault->detail, sizeof(fault->detail), "Type %s%s%s%s, allowed %s, default %s.",
			 config_type_name(key->type), key->unit != CFG_NONE ? " (" : "",
			 key->unit == CFG_MS ? "milliseconds" : (key->unit == CFG_BYTES ? "bytes" : ""),
			 key->unit != CFG_NONE ? ")" : "", config_key_allowed(key, allowed, sizeof(allowed)),
			 key->def[0] != '\0' ? key->def : "empty");
	return false;
}

static void
number_hint(const ConfigKey *key, ConfigFault *fault)
{
	if (key->unit == CFG_MS)
		snprintf(fault->hint, sizeof(fault->hint),
				 "In SQL write a number of milliseconds, or an interval such as '7 days' or '90 min'.");
	else if (key->unit == CFG_BYTES)
		snprintf(fault->hint, sizeof(fault->hint),
				 "In SQL write a number of bytes, or a size such as '64 kB' or '1 GB'.");
}

static void
type_bounds(const ConfigKey *key, int64_t *min, int64_t *max)
{
	*min = key->min;
	*max = key->max;
	if (key->type == CFG_INT && *min == CFG_NO_MIN)
		*min = INT32_MIN;
	if (key->type == CFG_INT && *max == CFG_NO_MAX)
		*max = INT32_MAX;
}

/* A whole number as Kafka reads it: sign and digits. */
static bool
read_integer(const char *text, int64_t *out)
{
	char *end;

	if (!isdigit((unsigned char) text[text[0] == '-' || text[0] == '+' ? 1 : 0]))
		return false;
	errno = 0;
	*out = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0';
}

static bool
check_number(const ConfigKey *key, const char *text, bool strict, char *out, ConfigFault *fault)
{
	int64_t min, max, n;
	UnitResult unit = UNIT_INVALID;

	if (read_integer(text, &n))
		unit = UNIT_OK;
	else if (!strict && key->unit == CFG_MS)
		unit = units_parse_ms(text, &n);
	else if (!strict && key->unit == CFG_BYTES)
		unit = units_parse_bytes(text, &n);

	if (unit == UNIT_NO_LENGTH)
	{
		refuse(key, fault, "invalid value \"%.200s\" for \"%s\": months and years have no fixed length", text,
			   key->name);
		snprintf(fault->hint, sizeof(fault->hint), "Write days, such as '30 days'.");
		return false;
	}
	if (unit != UNIT_OK)
	{
		refuse(key, fault, "invalid value \"%.200s\" for \"%s\": not a number of type %s", text, key->name,
			   config_type_name(key->type));
		number_hint(key, fault);
		return false;
	}
	type_bounds(key, &min, &max);
	snprintf(out, CONFIG_VALUE_MAX, "%" PRId64, n);
	if ((n < min || n > max) && (key->allowed == NULL || strcmp(key->allowed, out) != 0))
		return refuse(key, fault, "invalid value \"%.200s\" for \"%s\": out of bounds", text, key->name);
	return true;
}

static bool
check_double(const ConfigKey *key, const char *text, char *out, ConfigFault *fault)
{
	char *end;
	double d;

	errno = 0;
	d = strtod(text, &end);
	if (errno != 0 || end == text || *end != '\0' || d != d)
		return refuse(key, fault, "invalid value \"%.200s\" for \"%s\": not a number of type double", text,
					  key->name);
	if ((key->min != CFG_NO_MIN && d < (double) key->min) ||
		(key->max != CFG_NO_MAX && d > (double) key->max))
		return refuse(key, fault, "invalid value \"%.200s\" for \"%s\": out of bounds", text, key->name);
	snprintf(out, CONFIG_VALUE_MAX, "%.200s", text);
	return true;
}

/* Is `word` (len bytes) one of the words of a list with commas? */
static bool
word_in(const char *list, const char *word, size_t len)
{
	const char *p = list;

	for (;;)
	{
		size_t n = strcspn(p, ",");

		if (n == len && strncmp(p, word, len) == 0)
			return true;
		if (p[n] == '\0')
			return false;
		p += n + 1;
	}
}

/* "*", or partition:broker */
static bool
is_throttled_replica(const char *p, size_t len)
{
	size_t n = 0;

	if (len == 1 && *p == '*')
		return true;
	while (n < len && isdigit((unsigned char) p[n]))
		n++;
	if (n == 0 || n == len || p[n] != ':')
		return false;
	for (n++; n < len; n++)
		if (!isdigit((unsigned char) p[n]))
			return false;
	return p[len - 1] != ':';
}

static bool
check_list(const ConfigKey *key, const char *text, char *out, ConfigFault *fault)
{
	size_t used = 0;
	const char *p = text;

	out[0] = '\0';
	while (*p != '\0')
	{
		size_t n = strcspn(p, ","), len = n;
		const char *item = p;

		while (len > 0 && isspace((unsigned char) *item))
			item++, len--;
		while (len > 0 && isspace((unsigned char) item[len - 1]))
			len--;
		if (key->allowed != NULL ? !word_in(key->allowed, item, len) : !is_throttled_replica(item, len))
			return refuse(key, fault, "invalid value \"%.200s\" for \"%s\": \"%.*s\" is not allowed", text,
						  key->name, (int) len, item);
		if (used > 0 && word_in(out, item, len))
			return refuse(key, fault, "invalid value \"%.200s\" for \"%s\": \"%.*s\" is there twice", text,
						  key->name, (int) len, item);
		if (used + len + 2 > CONFIG_VALUE_MAX)
			return refuse(key, fault, "invalid value for \"%s\": longer than %d bytes", key->name,
						  CONFIG_VALUE_MAX - 1);
		used += (size_t) snprintf(out + used, CONFIG_VALUE_MAX - used, "%s%.*s", used > 0 ? "," : "",
								  (int) len, item);
		p += n + (p[n] == ',');
	}
	return true;
}

static bool
check_string(const ConfigKey *key, const char *text, char *out, ConfigFault *fault)
{
	if (key->allowed != NULL ? !word_in(key->allowed, text, strlen(text))
							 : !(strcmp(text, "latest") == 0 || strcmp(text, "earliest") == 0 ||
								 strncmp(text, "by_duration:P", 13) == 0))
		return refuse(key, fault, "invalid value \"%.200s\" for \"%s\"", text, key->name);
	snprintf(out, CONFIG_VALUE_MAX, "%s", text);
	return true;
}

bool
config_value_check(const ConfigKey *key, const char *value, bool strict, char *out, ConfigFault *fault)
{
	char text[CONFIG_VALUE_MAX];
	size_t len;

	while (isspace((unsigned char) *value))
		value++;
	len = strlen(value);
	while (len > 0 && isspace((unsigned char) value[len - 1]))
		len--;
	if (len >= sizeof(text))
		return refuse(key, fault, "invalid value for \"%s\": longer than %d bytes", key->name,
					  CONFIG_VALUE_MAX - 1);
	memcpy(text, value, len);
	text[len] = '\0';

	switch (key->type)
	{
		case CFG_BOOL:
			if (strcasecmp(text, "true") != 0 && strcasecmp(text, "false") != 0)
				return refuse(key, fault, "invalid value \"%.200s\" for \"%s\": expected true or false", text,
							  key->name);
			snprintf(out, CONFIG_VALUE_MAX, "%s", strcasecmp(text, "true") == 0 ? "true" : "false");
			return true;
		case CFG_INT:
		case CFG_LONG:
			return check_number(key, text, strict, out, fault);
		case CFG_DOUBLE:
			return check_double(key, text, out, fault);
		case CFG_LIST:
			return check_list(key, text, out, fault);
		case CFG_STRING:
			return check_string(key, text, out, fault);
	}
	return refuse(key, fault, "invalid value for \"%s\"", key->name);
}

const char *
config_value_pretty(const ConfigKey *key, const char *kept, char *out, size_t size)
{
	int64_t n;

	if (key->unit != CFG_NONE && read_integer(kept, &n))
	{
		if (n == INT64_MAX || n == -1)
			snprintf(out, size, "no limit");
		else if (n < 0)
			snprintf(out, size, "%s", kept);
		else if (key->unit == CFG_MS)
			units_format_ms(n, out, size);
		else
			units_format_bytes(n, out, size);
		return out;
	}
	snprintf(out, size, "%s", kept);
	return out;
}

const char *
config_key_allowed(const ConfigKey *key, char *out, size_t size)
{
	int64_t min, max;
	const char *sep = key->allowed != NULL ? ", or " : "", *extra = key->allowed != NULL ? key->allowed : "";
	size_t i, used;

	switch (key->type)
	{
		case CFG_BOOL:
			snprintf(out, size, "true, false");
			break;
		case CFG_INT:
		case CFG_LONG:
		case CFG_DOUBLE:
			type_bounds(key, &min, &max);
			if (key->max == CFG_NO_MAX && key->min == CFG_NO_MIN)
				snprintf(out, size, "any number");
			else if (key->max == CFG_NO_MAX)
				snprintf(out, size, "%" PRId64 " or more%s%s", min, sep, extra);
			else
				snprintf(out, size, "%" PRId64 " to %" PRId64 "%s%s", min, max, sep, extra);
			break;
		case CFG_STRING:
		case CFG_LIST:
			if (key->allowed == NULL)
			{
				snprintf(out, size, "%s",
						 key->type == CFG_LIST ? "*, or partition:broker pairs"
											   : "latest, earliest, by_duration:PERIOD");
				break;
			}
			for (i = used = 0; key->allowed[i] != '\0' && used + 3 < size; i++)
			{
				out[used++] = key->allowed[i];
				if (key->allowed[i] == ',')
					out[used++] = ' ';
			}
			out[used] = '\0';
			break;
	}
	return out;
}
