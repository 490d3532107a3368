/* produce.c: lines and files become messages; how many were not delivered is what it ends with.  And bench produce. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "client/ctl/ctl.h"

#define MOST_HEADERS 64

typedef struct Producing
{
	Ctl *ctl;
	pgb_producer *p;
	pgb_message m; /* what all messages have */
	pgb_header headers[MOST_HEADERS];
	Progress progress;
	int64_t taken, failed;
	int64_t line;
	char why[256]; /* the first failure */
} Producing;

static void
on_delivery(const pgb_report *r, void *arg)
{
	Producing *x = arg;

	if (r->error == NULL)
	{
		x->progress.messages++;
		return;
	}
	if (x->failed++ == 0)
		(void) snprintf(x->why, sizeof(x->why), "%s", r->error->text);
}

static void
refused(Producing *x, const char *why)
{
	x->failed++;
	if (x->failed <= 10)
		(void) ctl_fail(CTL_FAILED, "line %lld was not sent: %s", (long long) x->line, why);
}

static void
send_one(Producing *x, const pgb_message *m)
{
	pgb_error err;

	while (pgb_produce(x->p, m, &err) != 0)
	{
		if (err.code != PGB_QUEUE_FULL || ctl_stopped())
		{
			refused(x, err.text);
			return;
		}
		(void) pgb_producer_work(x->p, 100);
		progress_show(&x->progress, false);
	}
	x->taken++;
	x->progress.bytes += (int64_t) (m->value.len + m->key.len);
	/* Reports are given here, so the memory of what was delivered comes back. */
	if (x->taken % 256 == 0)
		(void) pgb_producer_work(x->p, 0);
	progress_show(&x->progress, false);
}

static void
send_line(Producing *x, char *line, size_t len)
{
	pgb_message m = x->m;
	pgb_header headers[MOST_HEADERS];
	const char *sep = x->ctl->opt['K'];
	const char *why;

	if (x->ctl->opt['J'] != NULL)
	{
		why = strlen(line) == len ? json_message(line, &m, headers, MOST_HEADERS) : "it has a zero byte";
		if (why != NULL)
			refused(x, why);
		else
			send_one(x, &m);
		return;
	}
	if (sep != NULL)
	{
		char *at = memmem(line, len, sep, strlen(sep));

		if (at == NULL)
		{
			refused(x, "it has no key separator");
			return;
		}
		m.key = (pgb_bytes){line, (size_t) (at - line)};
		len -= (size_t) (at - line) + strlen(sep);
		line = at + strlen(sep);
	}
	m.value = (pgb_bytes){line, len};
	send_one(x, &m);
}

static void
send_lines(Producing *x, FILE *from)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t len;

	while (!ctl_stopped() && (len = getline(&line, &cap, from)) >= 0)
	{
		x->line++;
		if (len > 0 && line[len - 1] == '\n')
			line[--len] = '\0';
		if (len > 0 || x->ctl->opt['J'] == NULL)
			send_line(x, line, (size_t) len);
	}
	free(line);
}

static int
send_whole(Producing *x, FILE *from, const char *name)
{
	char *data = NULL;
	size_t len = 0, cap = 0, n = 1;

	while (n > 0)
	{
		if (cap - len < 65536)
		{
			char *more = realloc(data, cap = cap * 2 + 131072);

			if (more == NULL)
			{
				free(data);
				return ctl_fail(CTL_FAILED, "%s: no memory", name);
			}
			data = more;
		}
		n = fread(data + len, 1, cap - len, from);
		len += n;
	}
	x->line++;
	x->m.value = (pgb_bytes){data, len};
	send_one(x, &x->m);
	free(data);
	return CTL_OK;
}

static int
open_producer(Producing *x, Ctl *ctl)
{
	long long partition = ctl_number(ctl, 'p', -1);
	pgb_error err;

	*x = (Producing){.ctl = ctl, .m = PGB_MESSAGE(ctl->args[0])};
	if (partition == LLONG_MIN)
		return CTL_USAGE;
	x->m.partition = (int32_t) partition;
	if (ctl->opt['k'] != NULL)
		x->m.key = pgb_text(ctl->opt['k']);
	for (int i = 0; i < ctl->n_multi[2]; i++)
	{
		char *eq = strchr(ctl->multi[2][i], '=');

		x->headers[i].name = (pgb_bytes){ctl->multi[2][i], (size_t) (eq - ctl->multi[2][i])};
		x->headers[i].value = pgb_text(eq + 1);
	}
	x->m.headers = x->headers;
	x->m.n_headers = (size_t) ctl->n_multi[2];
	pgb_conf_on_delivery(ctl->conf, on_delivery, x);
	x->p = pgb_producer_new(ctl->conf, &err);
	progress_begin(&x->progress);
	return x->p == NULL ? ctl_error(&err) : CTL_OK;
}

/* Ends when all have their reports, or at the second Ctrl-C. */
static void
finish(Producing *x)
{
	pgb_error err;

	while (pgb_pending(x->p) > 0)
	{
		(void) pgb_flush(x->p, 200, &err);
		progress_show(&x->progress, false);
		/* A Ctrl-C is no reason to lose what was taken, but no reason to wait for ever. */
		if (ctl_stopped() && client_clock() > x->progress.start + x->ctl->timeout)
			break;
	}
	(void) pgb_producer_close(x->p, 0);
	progress_end(&x->progress);
}

int
produce(Ctl *ctl)
{
	Producing x;
	int code = open_producer(&x, ctl);

	if (code != CTL_OK)
		return code;
	for (int i = 1; i < ctl->n_args && !ctl_stopped(); i++)
	{
		FILE *from = fopen(ctl->args[i], "re");

		x.line = 0;
		if (from == NULL)
			code = ctl_fail(CTL_FAILED, "%s: %s", ctl->args[i],
							strerror(errno)); /* NOLINT(concurrency-mt-unsafe) */
		else if (ctl->opt['w'] != NULL)
			code = send_whole(&x, from, ctl->args[i]);
		else
			send_lines(&x, from);
		if (from != NULL)
			(void) fclose(from);
	}
	if (ctl->n_args == 1 && ctl->opt['w'] != NULL)
		code = send_whole(&x, stdin, "standard input");
	else if (ctl->n_args == 1)
		send_lines(&x, stdin);
	finish(&x);
	if (x.failed > 0)
		return ctl_fail(CTL_FAILED, "%lld messages were not delivered%s%s", (long long) x.failed,
						x.why[0] != '\0' ? ": " : "", x.why);
	return code;
}

int
bench_produce(Ctl *ctl)
{
	long long count = ctl_number(ctl, 'n', 1000000), size = ctl_number(ctl, 's', 100);
	Producing x;
	char *value;
	double seconds;
	int code;

	if (count < 0 || size < 0)
		return CTL_USAGE;
	code = open_producer(&x, ctl);
	value = malloc((size_t) size + 1);
	if (code != CTL_OK || value == NULL)
	{
		free(value);
		return code;
	}
	for (long long i = 0; i < size; i++)
		value[i] = (char) ('a' + (int) (i * 7919 % 26));
	x.m.value = (pgb_bytes){value, (size_t) size};
	x.progress.left = count;
	for (long long i = 0; i < count && !ctl_stopped(); i++)
	{
		send_one(&x, &x.m);
		x.progress.left = count - x.progress.messages;
	}
	finish(&x);
	free(value);
	seconds = (double) (client_clock() - x.progress.start) / 1000;
	(void) printf("{\"messages\":%lld,\"bytes\":%lld,\"seconds\":%.3f,\"failed\":%lld}\n",
				  (long long) x.progress.messages, (long long) x.progress.messages * size, seconds,
				  (long long) x.failed);
	return x.failed > 0
			   ? ctl_fail(CTL_FAILED, "%lld messages were not delivered: %s", (long long) x.failed, x.why)
			   : CTL_OK;
}
