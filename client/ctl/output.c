/* output.c: tables, JSON, progress. */
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/ctl/ctl.h"

void
table_begin(Table *t, const Ctl *ctl, const char *const *columns)
{
	*t = (Table){.columns = columns, .json = ctl->json};
	while (columns[t->n_columns] != NULL)
		t->n_columns++;
}

void
table_cell(Table *t, const char *fmt, ...)
{
	va_list ap;

	if (t->n == t->cap)
	{
		size_t cap = t->cap == 0 ? 64 : t->cap * 2;
		char **more = realloc(t->cells, sizeof(*more) * cap);

		if (more == NULL)
			return;
		t->cells = more;
		t->cap = cap;
	}
	va_start(ap, fmt);
	if (vasprintf(&t->cells[t->n], fmt, ap) >= 0)
		t->n++;
	va_end(ap);
}

void
table_text(Table *t, WStr text)
{
	table_cell(t, "%.*s", text.len < 0 ? 0 : (int) text.len, text.len < 0 ? "" : text.s);
}

void
json_text(FILE *to, const char *s, size_t len)
{
	(void) fputc('"', to);
	for (size_t i = 0; i < len; i++)
		if (s[i] == '"' || s[i] == '\\')
			(void) fprintf(to, "\\%c", s[i]);
		else if ((unsigned char) s[i] < 0x20)
			(void) fprintf(to, "\\u%04x", s[i]);
		else
			(void) fputc(s[i], to);
	(void) fputc('"', to);
}

/* Columns as wide as their widest cell, in characters; bytes that continue one do not count. */
static int
width(const char *s)
{
	int n = 0;

	for (; *s != '\0'; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

static void
print_aligned(const char *s, int w, bool right, bool last)
{
	int pad = w - width(s);

	if (right)
		(void) printf("%*s%s%s", pad, "", s, last ? "\n" : "  ");
	else if (last)
		(void) printf("%s\n", s);
	else
		(void) printf("%s%*s", s, pad + 2, "");
}

static void
print_people(const Table *t)
{
	int n = t->n_columns, *w = calloc((size_t) n, sizeof(*w));

	if (w == NULL)
		return;
	for (int i = 0; i < n; i++)
		w[i] = width(t->columns[i] + (t->columns[i][0] == '#'));
	for (size_t i = 0; i < t->n; i++)
		if (width(t->cells[i]) > w[i % (size_t) n])
			w[i % (size_t) n] = width(t->cells[i]);
	for (int i = 0; i < n; i++)
		print_aligned(t->columns[i] + (t->columns[i][0] == '#'), w[i], t->columns[i][0] == '#', i == n - 1);
	for (size_t i = 0; i < t->n; i++)
	{
		int k = (int) (i % (size_t) n);

		print_aligned(t->cells[i], w[k], t->columns[k][0] == '#', k == n - 1);
	}
	free(w);
}

static void
print_json(const Table *t)
{
	for (size_t i = 0; i < t->n; i++)
	{
		const char *column = t->columns[i % (size_t) t->n_columns];
		bool number = column[0] == '#';

		(void) fputs(i % (size_t) t->n_columns == 0 ? "{" : ",", stdout);
		json_text(stdout, column + number, strlen(column + number));
		(void) fputc(':', stdout);
		if (number)
			(void) fputs(t->cells[i][0] == '\0' || t->cells[i][0] == '?' ? "null" : t->cells[i], stdout);
		else
			json_text(stdout, t->cells[i], strlen(t->cells[i]));
		if ((i + 1) % (size_t) t->n_columns == 0)
			(void) fputs("}\n", stdout);
	}
}

void
table_end(Table *t)
{
	if (t->json)
		print_json(t);
	else if (t->n > 0)
		print_people(t);
	for (size_t i = 0; i < t->n; i++)
		free(t->cells[i]);
	free(t->cells);
}

void
print_bytes(FILE *to, double bytes)
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
	int u = 0;

	for (; bytes >= 1000 && u < 4; u++)
		bytes /= 1000;
	(void) fprintf(to, u == 0 ? "%.0f %s" : "%.1f %s", bytes, units[u]);
}

/* ---- progress ---- */

void
progress_begin(Progress *p)
{
	*p = (Progress){.on = isatty(STDERR_FILENO) != 0, .start = client_clock(), .left = -1};
	p->last = p->start;
}

void
progress_show(Progress *p, bool now)
{
	int64_t clock = p->on ? client_clock() : 0;
	double seconds = (double) (clock - p->start) / 1000;

	if (!p->on || seconds <= 0 || (!now && clock - p->last < 200))
		return;
	p->last = clock;
	(void) fprintf(stderr, "\r%lld messages, ", (long long) p->messages);
	print_bytes(stderr, (double) p->bytes);
	(void) fprintf(stderr, ", %.0f/s, ", (double) p->messages / seconds);
	print_bytes(stderr, (double) p->bytes / seconds);
	(void) fputs("/s", stderr);
	if (p->left >= 0)
		(void) fprintf(stderr, ", %lld to come", (long long) p->left);
	if (p->left > 0 && p->messages > 0)
		(void) fprintf(stderr, ", %.0f s left", (double) p->left * seconds / (double) p->messages);
	(void) fputs("\x1b[K", stderr);
}

void
progress_end(Progress *p)
{
	progress_show(p, true);
	if (p->on)
		(void) fputc('\n', stderr);
}
