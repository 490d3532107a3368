/*
 * config_file.c: the syntax of a properties file, as java.util.Properties reads it.
 */
#include "brokerd/base/config_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX_BYTES (1024 * 1024)

typedef struct Scanner
{
	const char *p;
	int line;
	char *out; /* name NUL value NUL, as long as the text at most */
} Scanner;

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\f';
}

static bool
is_line_end(char c)
{
	return c == '\n' || c == '\r' || c == '\0';
}

static void
skip_line_end(Scanner *s)
{
	if (*s->p == '\r' && s->p[1] == '\n')
		s->p++;
	if (*s->p != '\0')
		s->p++;
	s->line++;
}

static char *
put_utf8(char *w, unsigned c)
{
	if (c < 0x80)
		*w++ = (char) c;
	else if (c < 0x800)
	{
		*w++ = (char) (0xc0 | c >> 6);
		*w++ = (char) (0x80 | (c & 0x3f));
	}
	else
	{
		*w++ = (char) (0xe0 | c >> 12);
		*w++ = (char) (0x80 | (c >> 6 & 0x3f));
		*w++ = (char) (0x80 | (c & 0x3f));
	}
	return w;
}

/* Behind a backslash: the escaped character goes to `w`, a line end joins the next line. */
static char *
scan_escape(Scanner *s, char *w)
{
	char c = *s->p;

	if (c == '\0')
		return w;
	if (is_line_end(c))
	{
		skip_line_end(s);
		while (is_blank(*s->p))
			s->p++;
		return w;
	}
	s->p++;
	if (c == 'u')
	{
		char hex[5] = {0};

		for (int i = 0; i < 4 && isxdigit((unsigned char) s->p[i]); i++)
			hex[i] = s->p[i];
		if (strlen(hex) == 4)
		{
			s->p += 4;
			/* \u0000 would cut the value. */
			return put_utf8(w, (unsigned) strtoul(hex, NULL, 16) == 0 ? 0xfffd
																	  : (unsigned) strtoul(hex, NULL, 16));
		}
	}
	*w++ = c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c == 'f' ? '\f' : c;
	return w;
}

static char *
scan_name(Scanner *s, char *w)
{
	while (!is_line_end(*s->p) && !is_blank(*s->p) && *s->p != '=' && *s->p != ':')
	{
		if (*s->p == '\\')
		{
			s->p++;
			w = scan_escape(s, w);
		}
		else
			*w++ = *s->p++;
	}
	*w++ = '\0';
	while (is_blank(*s->p))
		s->p++;
	if (*s->p == '=' || *s->p == ':')
		s->p++;
	while (is_blank(*s->p))
		s->p++;
	return w;
}

static char *
scan_value(Scanner *s, char *w)
{
	char *start = w;

	while (!is_line_end(*s->p))
	{
		if (*s->p == '\\')
		{
			s->p++;
			w = scan_escape(s, w);
		}
		else
			*w++ = *s->p++;
	}
	while (w > start && isspace((unsigned char) w[-1]))
		w--;
	*w++ = '\0';
	return w;
}

bool
config_text_read(const char *text, ConfigLineFn fn, void *ctx, Err *err)
{
	Scanner s = {.p = text, .line = 1, .out = config_alloc(strlen(text) + 3)};
	bool going = true;

	(void) err;
	while (going && *s.p != '\0')
	{
		ConfigLine line;

		while (is_blank(*s.p))
			s.p++;
		if (*s.p == '#' || *s.p == '!')
			s.p += strcspn(s.p, "\r\n");
		if (!is_line_end(*s.p))
		{
			char *value;

			line.line = s.line;
			value = scan_name(&s, s.out);
			scan_value(&s, value);
			line.name = s.out;
			line.value = value;
			going = fn(ctx, &line);
		}
		if (*s.p != '\0')
			skip_line_end(&s);
	}
	free(s.out);
	return going;
}

bool
config_file_read(const char *path, ConfigLineFn fn, void *ctx, Err *err)
{
	FILE *file = fopen(path, "re");
	char *text;
	size_t len;
	bool done;

	if (file == NULL)
		return err_set(err, 0, errno, "cannot open the configuration file \"%s\": %s", path, strerror(errno));
	text = config_alloc(FILE_MAX_BYTES + 1);
	errno = 0;
	len = fread(text, 1, FILE_MAX_BYTES + 1, file);
	if (ferror(file))
	{
		err_set(err, 0, errno, "cannot read the configuration file \"%s\": %s", path, strerror(errno));
		fclose(file);
		free(text);
		return false;
	}
	fclose(file);
	if (len > FILE_MAX_BYTES || memchr(text, '\0', len) != NULL)
	{
		free(text);
		return err_set(err, 0, 0, "\"%s\" is no properties file: it %s", path,
					   len > FILE_MAX_BYTES ? "is larger than 1 MB" : "has bytes of value 0");
	}
	text[len] = '\0';
	done = config_text_read(text, fn, ctx, err);
	free(text);
	return done;
}
