/*
 * config_value.c: the values of options: types, bounds, and how they are shown.
 */
#include "brokerd/base/config_internal.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void
config_bound_text(double bound, char *buf, size_t size)
{
	if (bound >= 9223372036854775807.0)
		snprintf(buf, size, "%" PRId64, INT64_MAX);
	else if (bound == floor(bound))
		snprintf(buf, size, "%" PRId64, (int64_t) bound);
	else
		snprintf(buf, size, "%g", bound);
}

static bool
refuse_bounds(const ConfigOption *o, const char *value, Err *err)
{
	char min[32], max[32];

	config_bound_text(o->min, min, sizeof(min));
	config_bound_text(o->max, max, sizeof(max));
	return err_set(err, 0, 0, "%s must be %s from %s to %s%s%s, not \"%.100s\"", o->name,
				   o->type == OPTION_DOUBLE ? "a number" : "a whole number", min, max, o->unit ? " " : "",
				   o->unit ? o->unit : "", value);
}

static bool
parse_int(const ConfigOption *o, const char *value, int64_t *out, Err *err)
{
	char *end;
	const char *digits = value + (*value == '-' || *value == '+');

	errno = 0;
	*out = strtoll(value, &end, 10);
	if (!isdigit((unsigned char) *digits) || *end != '\0' || errno != 0)
		return refuse_bounds(o, value, err);
	/* A double holds every bound in the table exactly, but not every int64: compare there with care. */
	if ((double) *out < o->min || (o->max < 9223372036854775807.0 && (double) *out > o->max))
		return refuse_bounds(o, value, err);
	return true;
}

static bool
parse_double(const ConfigOption *o, const char *value, double *out, Err *err)
{
	char *end;

	errno = 0;
	*out = strtod(value, &end);
	if (end == value || *end != '\0' || errno != 0 || !isfinite(*out) || *out < o->min || *out > o->max)
		return refuse_bounds(o, value, err);
	return true;
}

static bool
parse_bool(const ConfigOption *o, const char *value, bool *out, Err *err)
{
	*out = strcasecmp(value, "true") == 0;
	if (!*out && strcasecmp(value, "false") != 0)
		return err_set(err, 0, 0, "%s must be true or false, not \"%.100s\"", o->name, value);
	return true;
}

static bool
is_allowed(const char *allowed, const char *word, size_t len)
{
	for (const char *p = allowed; *p != '\0';)
	{
		size_t n = strcspn(p, "|");

		if (n == len && strncmp(p, word, n) == 0)
			return true;
		p += n + (p[n] == '|');
	}
	return false;
}

/* Spaces around the elements go; empty elements go too. */
static char *
normalise_list(const char *value)
{
	char *out = config_alloc(strlen(value) + 1), *w = out;

	for (const char *p = value; *p != '\0';)
	{
		size_t len = strcspn(p, ",");
		const char *start = p, *end = p + len;

		while (start < end && isspace((unsigned char) *start))
			start++;
		while (end > start && isspace((unsigned char) end[-1]))
			end--;
		if (end > start)
		{
			if (w > out)
				*w++ = ',';
			memcpy(w, start, (size_t) (end - start));
			w += end - start;
		}
		p += len + (p[len] == ',');
	}
	*w = '\0';
	return out;
}

static bool
refuse_word(const ConfigOption *o, const char *value, Err *err)
{
	char allowed[256];
	size_t n = 0;

	for (const char *p = o->allowed; *p != '\0' && n + 3 < sizeof(allowed); p++)
	{
		allowed[n++] = *p == '|' ? ',' : *p;
		if (*p == '|')
			allowed[n++] = ' ';
	}
	allowed[n] = '\0';
	return err_set(err, 0, 0, "%s must be one of %s%s, not \"%.100s\"", o->name, allowed,
				   o->type == OPTION_LIST ? " (or several, with commas)" : "", value);
}

static bool
check_words(const ConfigOption *o, const char *value, Err *err)
{
	/* What has no default may be given as empty, which is "not set". */
	if (o->allowed == NULL || (*value == '\0' && o->default_text == NULL))
		return true;
	for (const char *p = value;;)
	{
		size_t len = o->type == OPTION_LIST ? strcspn(p, ",") : strlen(p);

		if (!is_allowed(o->allowed, p, len))
			return refuse_word(o, value, err);
		if (p[len] == '\0')
			return true;
		p += len + 1;
	}
}

static bool
set_text(BrokerConfig *config, const ConfigOption *o, const char *value, Err *err)
{
	char *text = o->type == OPTION_LIST ? normalise_list(value) : config_strndup(value, strlen(value));
	char **field;

	if (!check_words(o, text, err))
	{
		free(text);
		return false;
	}
	if (config == NULL)
	{
		free(text);
		return true;
	}
	field = (char **) (void *) ((char *) config + o->offset);
	free(*field);
	/* An empty text is "not set", as in Kafka's files. */
	*field = text[0] == '\0' ? (free(text), NULL) : text;
	return true;
}

bool
config_value_set(BrokerConfig *config, const ConfigOption *o, const char *value, Err *err)
{
	char *field = config == NULL ? NULL : (char *) config + o->offset;
	int64_t whole;
	double number;
	bool flag;

	switch (o->type)
	{
		case OPTION_INT:
		case OPTION_LONG:
			if (!parse_int(o, value, &whole, err))
				return false;
			if (field != NULL && o->type == OPTION_INT)
				*(int32_t *) (void *) field = (int32_t) whole;
			else if (field != NULL)
				*(int64_t *) (void *) field = whole;
			return true;
		case OPTION_DOUBLE:
			if (!parse_double(o, value, &number, err))
				return false;
			if (field != NULL)
				*(double *) (void *) field = number;
			return true;
		case OPTION_BOOL:
			if (!parse_bool(o, value, &flag, err))
				return false;
			if (field != NULL)
				*(bool *) (void *) field = flag;
			return true;
		case OPTION_STRING:
		case OPTION_LIST:
		case OPTION_SECRET:
			return set_text(config, o, value, err);
	}
	return false;
}

bool
config_check_value(const ConfigOption *option, const char *value, Err *err)
{
	return config_value_set(NULL, option, value, err);
}

void
config_value_free(BrokerConfig *config, const ConfigOption *o)
{
	char **field = (char **) (void *) ((char *) config + o->offset);

	if (o->type != OPTION_STRING && o->type != OPTION_LIST && o->type != OPTION_SECRET)
		return;
	free(*field);
	*field = NULL;
}

const char *
config_value_text(const BrokerConfig *config, int option, char *buf, size_t size)
{
	const ConfigOption *o = &config_options(&(int){0})[option];
	const char *field = (const char *) config + o->offset;
	int64_t whole;

	switch (o->type)
	{
		case OPTION_INT:
			whole = *(const int32_t *) (const void *) field;
			if (whole == CONFIG_UNSET_INT)
				return NULL;
			snprintf(buf, size, "%" PRId64, whole);
			return buf;
		case OPTION_LONG:
			whole = *(const int64_t *) (const void *) field;
			if (whole == CONFIG_UNSET)
				return NULL;
			snprintf(buf, size, "%" PRId64, whole);
			return buf;
		case OPTION_DOUBLE:
			snprintf(buf, size, "%g", *(const double *) (const void *) field);
			return buf;
		case OPTION_BOOL:
			return *(const bool *) (const void *) field ? "true" : "false";
		case OPTION_STRING:
		case OPTION_LIST:
			return *(char *const *) (const void *) field;
		case OPTION_SECRET:
			return NULL;
	}
	return NULL;
}
