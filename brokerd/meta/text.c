/*
 * text.c: growing texts, JSON strings, uuids.
 */
#include "brokerd/meta/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
out_of_memory(void)
{
	fputs("brokerd: out of memory in meta\n", stderr);
	abort();
}

static void
reserve(MetaText *t, size_t more)
{
	size_t size = t->size == 0 ? 256 : t->size;
	char *grown;

	if (t->s != NULL && t->len + more + 1 <= t->size)
		return;
	while (size < t->len + more + 1)
		size *= 2;
	grown = realloc(t->s, size);
	if (grown == NULL)
		out_of_memory();
	t->s = grown;
	t->size = size;
}

void
meta_text_put(MetaText *t, const char *s, size_t len)
{
	reserve(t, len);
	memcpy(t->s + t->len, s, len);
	t->len += len;
	t->s[t->len] = '\0';
}

void
meta_text_puts(MetaText *t, const char *s)
{
	meta_text_put(t, s, strlen(s));
}

void
meta_text_printf(MetaText *t, const char *fmt, ...)
{
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (len < 0)
		return;
	reserve(t, (size_t) len);
	va_start(ap, fmt);
	vsnprintf(t->s + t->len, (size_t) len + 1, fmt, ap);
	va_end(ap);
	t->len += (size_t) len;
}

void
meta_text_int(MetaText *t, int64_t v)
{
	char digits[20];
	char *end = digits + sizeof(digits);
	char *p = end;
	uint64_t left = v < 0 ? 0 - (uint64_t) v : (uint64_t) v;

	do
		*--p = (char) ('0' + left % 10);
	while ((left /= 10) > 0);
	if (v < 0)
		*--p = '-';
	meta_text_put(t, p, (size_t) (end - p));
}

/* Length of the well-formed UTF-8 character at `p`, 0 when there is none. */
static int
utf8_length(const unsigned char *p, int32_t left)
{
	int len = p[0] < 0x80                   ? 1
			  : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
			  : (p[0] & 0xf0) == 0xe0       ? 3
			  : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
											: 0;

	if (len == 0 || len > left)
		return 0;
	for (int i = 1; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates, beyond U+10FFFF. */
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
		(p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return len;
}

void
meta_text_json(MetaText *t, const char *s, int32_t len)
{
	if (len < 0 || s == NULL)
	{
		meta_text_puts(t, "null");
		return;
	}
	meta_text_puts(t, "\"");
	for (int32_t i = 0; i < len;)
	{
		const unsigned char *p = (const unsigned char *) s + i;
		int n = utf8_length(p, len - i);

		if (n == 0 || *p == '\0')
		{
			meta_text_puts(t, "\xef\xbf\xbd");
			i++;
			continue;
		}
		if (*p == '"' || *p == '\\')
			meta_text_puts(t, "\\");
		if (*p < 0x20)
			meta_text_printf(t, "\\u%04x", *p);
		else
			meta_text_put(t, (const char *) p, (size_t) n);
		i += n;
	}
	meta_text_puts(t, "\"");
}

void
meta_text_json_ints(MetaText *t, const int32_t *values, int n)
{
	meta_text_puts(t, "[");
	for (int i = 0; i < n; i++)
		meta_text_printf(t, i == 0 ? "%d" : ",%d", values[i]);
	meta_text_puts(t, "]");
}

void
meta_text_uuid(MetaText *t, const WUuid *id)
{
	char text[META_UUID_TEXT];

	meta_uuid_format(id, text);
	meta_text_puts(t, text);
}

void
meta_text_element(MetaText *t, const char *s)
{
	if (s == NULL)
	{
		meta_text_puts(t, "NULL");
		return;
	}
	meta_text_element_of(t, s, strlen(s));
}

void
meta_text_element_of(MetaText *t, const char *s, size_t len)
{
	meta_text_put(t, "\"", 1);
	for (size_t i = 0; i < len; i++)
	{
		if (s[i] == '"' || s[i] == '\\')
			meta_text_put(t, "\\", 1);
		meta_text_put(t, s + i, 1);
	}
	meta_text_put(t, "\"", 1);
}

const char *
meta_text_cstr(MetaText *t)
{
	if (t->s == NULL)
		meta_text_put(t, "", 0);
	return t->s;
}

void
meta_text_reset(MetaText *t)
{
	t->len = 0;
	if (t->s != NULL)
		t->s[0] = '\0';
}

void
meta_text_free(MetaText *t)
{
	free(t->s);
	*t = (MetaText){0};
}

void
meta_uuid_format(const WUuid *id, char out[META_UUID_TEXT])
{
	static const char digits[] = "0123456789abcdef";
	char *w = out;

	for (int i = 0; i < 16; i++)
	{
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*w++ = '-';
		*w++ = digits[id->b[i] >> 4];
		*w++ = digits[id->b[i] & 15];
	}
	*w = '\0';
}

static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char) tolower((unsigned char) c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool
meta_uuid_parse(const char *text, WUuid *id)
{
	const char *p = text;

	for (int i = 0; i < 16; i++)
	{
		int high, low;

		if ((i == 4 || i == 6 || i == 8 || i == 10) && *p++ != '-')
			return false;
		high = hex_value(p[0]);
		low = high < 0 ? -1 : hex_value(p[1]);
		if (low < 0)
			return false;
		id->b[i] = (uint8_t) (high << 4 | low);
		p += 2;
	}
	return *p == '\0';
}
