/*
 * json.c: a reader of small JSON texts.
 */
#include "brokerd/meta/json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/meta/text.h"

static void
skip_blanks(MetaJson *j)
{
	while (*j->p == ' ' || *j->p == '\t' || *j->p == '\n' || *j->p == '\r')
		j->p++;
}

static bool
fail(MetaJson *j)
{
	j->failed = true;
	return false;
}

bool
meta_json_begin(MetaJson *j, char bracket)
{
	skip_blanks(j);
	if (j->failed || *j->p != bracket || j->depth == META_JSON_DEPTH)
		return fail(j);
	j->p++;
	j->first[j->depth++] = true;
	return true;
}

/* Before an element: the comma.  False: the closing bracket came. */
static bool
next_element(MetaJson *j, char closing)
{
	if (j->failed || j->depth == 0)
		return fail(j);
	skip_blanks(j);
	if (*j->p == closing)
	{
		j->p++;
		j->depth--;
		return false;
	}
	if (!j->first[j->depth - 1])
	{
		if (*j->p != ',')
			return fail(j);
		j->p++;
		skip_blanks(j);
	}
	j->first[j->depth - 1] = false;
	return true;
}

static int
hex4(const char *p)
{
	int v = 0;

	for (int i = 0; i < 4; i++)
	{
		int c = tolower((unsigned char) p[i]);

		if (!isxdigit(c))
			return -1;
		v = v * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return v;
}

static void
put_utf8(MetaText *t, unsigned c)
{
	char b[4];
	size_t n;

	if (c < 0x80)
	{
		b[0] = (char) c;
		n = 1;
	}
	else if (c < 0x800)
	{
		b[0] = (char) (0xc0 | c >> 6);
		b[1] = (char) (0x80 | (c & 0x3f));
		n = 2;
	}
	else if (c < 0x10000)
	{
		b[0] = (char) (0xe0 | c >> 12);
		b[1] = (char) (0x80 | (c >> 6 & 0x3f));
		b[2] = (char) (0x80 | (c & 0x3f));
		n = 3;
	}
	else
	{
		b[0] = (char) (0xf0 | c >> 18);
		b[1] = (char) (0x80 | (c >> 12 & 0x3f));
		b[2] = (char) (0x80 | (c >> 6 & 0x3f));
		b[3] = (char) (0x80 | (c & 0x3f));
		n = 4;
	}
	meta_text_put(t, b, n);
}

/* Behind the backslash. */
static bool
read_escape(MetaJson *j, MetaText *t)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at;
	int high, low;

	if (*j->p == 'u')
	{
		high = hex4(j->p + 1);
		if (high <= 0)
			return fail(j);
		j->p += 5;
		if (high >= 0xd800 && high < 0xdc00)
		{
			low = j->p[0] == '\\' && j->p[1] == 'u' ? hex4(j->p + 2) : -1;
			if (low < 0xdc00 || low > 0xdfff)
				return fail(j);
			j->p += 6;
			high = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
		}
		put_utf8(t, (unsigned) high);
		return true;
	}
	at = *j->p == '\0' ? NULL : strchr(from, *j->p);
	if (at == NULL)
		return fail(j);
	meta_text_put(t, &to[at - from], 1);
	j->p++;
	return true;
}

static char *
read_string(MetaJson *j)
{
	MetaText t = {0};

	if (*j->p != '"')
	{
		fail(j);
		return NULL;
	}
	j->p++;
	meta_text_put(&t, "", 0);
	while (*j->p != '"' && !j->failed)
	{
		size_t run = strcspn(j->p, "\"\\");

		meta_text_put(&t, j->p, run);
		j->p += run;
		if (*j->p == '\0')
			fail(j);
		else if (*j->p == '\\')
		{
			j->p++;
			read_escape(j, &t);
		}
	}
	if (j->failed)
	{
		meta_text_free(&t);
		return NULL;
	}
	j->p++;
	return t.s;
}

char *
meta_json_key(MetaJson *j)
{
	char *key;

	if (!next_element(j, '}'))
		return NULL;
	key = read_string(j);
	if (key == NULL)
		return NULL;
	skip_blanks(j);
	if (*j->p != ':')
	{
		fail(j);
		free(key);
		return NULL;
	}
	j->p++;
	return key;
}

bool
meta_json_element(MetaJson *j)
{
	return next_element(j, ']');
}

char *
meta_json_scalar(MetaJson *j)
{
	MetaText t = {0};
	size_t len;

	if (j->failed)
		return NULL;
	skip_blanks(j);
	if (*j->p == '"')
		return read_string(j);
	len = strspn(j->p, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
	if (len == 0)
	{
		fail(j);
		return NULL;
	}
	if (len == 4 && strncmp(j->p, "null", 4) == 0)
	{
		j->p += 4;
		return NULL;
	}
	meta_text_put(&t, j->p, len);
	j->p += len;
	return t.s;
}

void
meta_json_skip(MetaJson *j)
{
	char *key;

	skip_blanks(j);
	if (j->failed)
		return;
	if (*j->p == '{')
	{
		meta_json_begin(j, '{');
		while ((key = meta_json_key(j)) != NULL)
		{
			free(key);
			meta_json_skip(j);
		}
	}
	else if (*j->p == '[')
	{
		meta_json_begin(j, '[');
		while (meta_json_element(j))
			meta_json_skip(j);
	}
	else
		free(meta_json_scalar(j));
}

bool
meta_json_end(MetaJson *j)
{
	skip_blanks(j);
	return !j->failed && j->depth == 0 && *j->p == '\0';
}
