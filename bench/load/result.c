/* result.c: see result.h. */
#include "bench/load/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void
put_text(const char *text)
{
	putchar('"');
	for (; *text != '\0'; text++)
	{
		unsigned char c = (unsigned char) *text;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void
put_name(Result *r, const char *name)
{
	if (r->inner)
		putchar(',');
	r->inner = true;
	put_text(name);
	putchar(':');
}

void
result_begin(Result *r, const Mode *mode)
{
	r->inner = false;
	putchar('{');
	result_text(r, "mode", mode->name);
}

void
result_int(Result *r, const char *name, int64_t v)
{
	put_name(r, name);
	printf("%" PRId64, v);
}

void
result_real(Result *r, const char *name, double v, int decimals)
{
	put_name(r, name);
	printf("%.*f", decimals, v);
}

void
result_text(Result *r, const char *name, const char *text)
{
	put_name(r, name);
	if (text == NULL)
		fputs("null", stdout);
	else
		put_text(text);
}

static void
put_pairs(Result *r, const char *name, const Pairs *pairs)
{
	put_name(r, name);
	putchar('[');
	for (int i = 0; i < pairs->n; i++)
	{
		if (i > 0)
			putchar(',');
		put_text(pairs->text[i]);
	}
	putchar(']');
}

static void
put_setting(Result *r, const Option *o, const char *at)
{
	switch (o->kind)
	{
		case OPTION_TEXT:
			result_text(r, o->name, *(const char *const *) (const void *) at);
			break;
		case OPTION_NUMBER:
		case OPTION_FLAG:
			result_int(r, o->name, *(const int64_t *) (const void *) at);
			break;
		case OPTION_REAL:
			result_real(r, o->name, *(const double *) (const void *) at, 3);
			break;
		case OPTION_PAIRS:
			put_pairs(r, o->name, (const Pairs *) (const void *) at);
			break;
	}
}

void
result_settings(Result *r, const Usage *u, const Mode *mode, const void *settings)
{
	put_name(r, "settings");
	putchar('{');
	r->inner = false;
	for (int i = 0; i < u->n_options; i++)
		if (strchr(u->options[i].modes, mode->letter) != NULL)
			put_setting(r, &u->options[i], (const char *) settings + u->options[i].offset);
	putchar('}');
	r->inner = true;
}

void
result_latency(Result *r, const char *name, const Hist *h)
{
	static const struct
	{
		const char *name;
		double share;
	} quantiles[] = {{"p50", .5}, {"p90", .9}, {"p99", .99}, {"p999", .999}};

	put_name(r, name);
	putchar('{');
	r->inner = false;
	for (size_t i = 0; i < sizeof(quantiles) / sizeof(*quantiles); i++)
		result_real(r, quantiles[i].name, (double) hist_quantile(h, quantiles[i].share) / 1e3, 1);
	result_real(r, "max", (double) h->max / 1e3, 1);
	result_real(r, "mean", hist_mean(h) / 1e3, 1);
	result_int(r, "count", h->count);
	putchar('}');
	r->inner = true;
}

void
result_rates(Result *r, const Meter *m, int64_t messages, int64_t bytes)
{
	double seconds = m->seconds > 0 ? m->seconds : 1e-9;

	result_real(r, "seconds", m->seconds, 3);
	result_int(r, "messages", messages);
	result_int(r, "bytes", bytes);
	result_real(r, "msgs_per_s", (double) messages / seconds, 1);
	result_real(r, "mb_per_s", (double) bytes / 1e6 / seconds, 3);
}

void
result_requests(Result *r, const Meter *m, int64_t requests, int64_t records)
{
	double seconds = m->seconds > 0 ? m->seconds : 1;

	result_int(r, "requests", requests);
	result_real(r, "requests_per_s", (double) requests / seconds, 1);
	result_real(r, "records_per_s", (double) records / seconds, 1);
}

void
result_costs(Result *r, const Meter *m)
{
	result_real(r, "client_cpu_s", m->cpu, 3);
	result_int(r, "client_rss_kb", m->rss_kb);
	if (m->n_watched > 0)
	{
		result_real(r, "watched_cpu_s", m->watched_cpu, 2);
		result_int(r, "watched_rss_kb", m->watched_rss_kb);
	}
	put_name(r, "interrupted");
	fputs(m->interrupted ? "true" : "false", stdout);
}

void
result_end(Result *r)
{
	r->inner = false;
	puts("}");
	fflush(stdout);
}
