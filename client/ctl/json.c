/*
 * json.c: one line of `produce --json-lines`:
 *
 *     {"key": "k", "value": "v" or {...}, "partition": 1, "timestamp": 1700000000000, "headers": {"name": "value"}}
 *
 * Strings lose their escapes in place.  A value that is no string is sent as it is written; null is Kafka's null.
 */
#include <stdlib.h>

#include "client/ctl/ctl.h"

static char *
skip_space(char *p)
{
	return p + strspn(p, " \t\r\n");
}

static char *
put_utf8(char *to, unsigned c)
{
	if (c < 0x80)
		*to++ = (char) c;
	else if (c < 0x800)
	{
		*to++ = (char) (0xc0 | c >> 6);
		*to++ = (char) (0x80 | (c & 0x3f));
	}
	else if (c < 0x10000)
	{
		*to++ = (char) (0xe0 | c >> 12);
		*to++ = (char) (0x80 | (c >> 6 & 0x3f));
		*to++ = (char) (0x80 | (c & 0x3f));
	}
	else
	{
		*to++ = (char) (0xf0 | c >> 18);
		*to++ = (char) (0x80 | (c >> 12 & 0x3f));
		*to++ = (char) (0x80 | (c >> 6 & 0x3f));
		*to++ = (char) (0x80 | (c & 0x3f));
	}
	return to;
}

static bool
hex4(const char *p, unsigned *out)
{
	*out = 0;
	for (int i = 0; i < 4; i++)
	{
		const char *digits = "0123456789abcdef";
		const char *d = p[i] == '\0' ? NULL : strchr(digits, p[i] | 0x20);

		if (d == NULL)
			return false;
		*out = *out * 16 + (unsigned) (d - digits);
	}
	return true;
}

/* One escape behind a backslash; NULL: none. */
static char *
take_escape(char *p, char **to)
{
	static const char letters[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
	const char *l = *p == '\0' ? NULL : strchr(letters, *p);
	unsigned c, low;

	if (l != NULL)
	{
		*(*to)++ = bytes[l - letters];
		return p + 1;
	}
	if (*p != 'u' || !hex4(p + 1, &c))
		return NULL;
	p += 5;
	if (c >= 0xd800 && c < 0xdc00 && p[0] == '\\' && p[1] == 'u' && hex4(p + 2, &low) && low >= 0xdc00 &&
		low < 0xe000)
	{
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		p += 6;
	}
	*to = put_utf8(*to, c);
	return p;
}

/* A string at its opening quote; what follows it, or NULL. */
static char *
take_string(char *p, pgb_bytes *out)
{
	char *start = ++p, *to = p;

	while (*p != '"')
	{
		if (*p == '\0' || (unsigned char) *p < 0x20)
			return NULL;
		if (*p != '\\')
			*to++ = *p++;
		else if ((p = take_escape(p + 1, &to)) == NULL)
			return NULL;
	}
	*out = (pgb_bytes){start, (size_t) (to - start)};
	return p + 1;
}

/* The end of any value, which is left as it is. */
static char *
skip_value(char *p, int depth)
{
	if (depth > 100)
		return NULL;
	if (*p == '"')
	{
		for (p++; *p != '"'; p++)
			if (*p == '\0' || (*p == '\\' && *++p == '\0'))
				return NULL;
		return p + 1;
	}
	if (*p != '{' && *p != '[')
	{
		size_t n = strspn(p, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");

		return n == 0 ? NULL : p + n;
	}
	char close = *p == '{' ? '}' : ']';

	for (p = skip_space(p + 1); *p != close;)
	{
		p = skip_value(p, depth + 1);
		if (p == NULL)
			return NULL;
		p = skip_space(p);
		if (*p == ':' || *p == ',')
			p = skip_space(p + 1);
		else if (*p != close)
			return NULL;
	}
	return p + 1;
}

static char *
take_value(char *p, pgb_bytes *out)
{
	char *end;

	if (*p == '"')
		return take_string(p, out);
	end = skip_value(p, 0);
	if (end != NULL && !(end - p == 4 && memcmp(p, "null", 4) == 0))
		*out = (pgb_bytes){p, (size_t) (end - p)};
	return end;
}

static char *
take_headers(char *p, pgb_message *m, pgb_header *headers, size_t most)
{
	if (*p != '{')
		return NULL;
	m->headers = headers;
	for (p = skip_space(p + 1); *p != '}';)
	{
		if (m->n_headers == most || *p != '"' || (p = take_string(p, &headers[m->n_headers].name)) == NULL)
			return NULL;
		p = skip_space(p);
		if (*p != ':' || (p = take_value(skip_space(p + 1), &headers[m->n_headers].value)) == NULL)
			return NULL;
		m->n_headers++;
		p = skip_space(p);
		if (*p == ',')
			p = skip_space(p + 1);
		else if (*p != '}')
			return NULL;
	}
	return p + 1;
}

static char *
take_member(char *p, pgb_bytes name, pgb_message *m, pgb_header *headers, size_t most, const char **why)
{
	char *end;

#define IS(word) (name.len == sizeof(word) - 1 && memcmp(name.data, word, name.len) == 0)
	if (IS("key"))
		return take_value(p, &m->key);
	if (IS("value"))
		return take_value(p, &m->value);
	if (IS("headers"))
		return take_headers(p, m, headers, most);
	if (IS("partition") || IS("timestamp"))
	{
		long long v = strtoll(p, &end, 10);

		if (IS("partition"))
			m->partition = (int32_t) v;
		else
			m->timestamp = v;
		return end == p ? NULL : end;
	}
	/* What consume --json-lines prints besides. */
	if (IS("topic") || IS("offset"))
		return skip_value(p, 0);
#undef IS
	*why = "it has a member besides key, value, partition, timestamp, headers";
	return NULL;
}

const char *
json_message(char *line, pgb_message *m, pgb_header *headers, size_t most_headers)
{
	const char *why = "it is no JSON";
	char *p = skip_space(line);

	memset(headers, 0, sizeof(*headers) * most_headers);
	if (*p != '{')
		return "it is no JSON object";
	for (p = skip_space(p + 1); *p != '}';)
	{
		pgb_bytes name;

		if (*p != '"' || (p = take_string(p, &name)) == NULL)
			return why;
		p = skip_space(p);
		if (*p != ':' || (p = take_member(skip_space(p + 1), name, m, headers, most_headers, &why)) == NULL)
			return why;
		p = skip_space(p);
		if (*p == ',')
			p = skip_space(p + 1);
		else if (*p != '}')
			return why;
	}
	return *skip_space(p + 1) == '\0' ? NULL : why;
}
