/* consume.c: prints messages, and waits for more; ends where it is told to.  And bench consume. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/ctl/ctl.h"

typedef struct Consuming
{
	Ctl *ctl;
	pgb_consumer *c;
	pgb_place *ends; /* --end: what is to be reached; offset -1 = done with */
	size_t n_ends, n_open;
	int64_t until;
	int64_t left; /* --count */
	Progress progress;
	const char *format;
} Consuming;

/* ---- printing ---- */

static void
print_json_bytes(pgb_bytes b)
{
	if (b.data == NULL)
		(void) fputs("null", stdout);
	else
		json_text(stdout, b.data, b.len);
}

static void
print_json(const pgb_record *r)
{
	const char *comma = "";
	pgb_header h;

	(void) printf("{\"topic\":\"%s\",\"partition\":%d,\"offset\":%lld,\"timestamp\":%lld,\"key\":", r->topic,
				  r->partition, (long long) r->offset, (long long) r->timestamp);
	print_json_bytes(r->key);
	(void) fputs(",\"value\":", stdout);
	print_json_bytes(r->value);
	(void) fputs(",\"headers\":{", stdout);
	for (const void *at = NULL; pgb_header_next(r, &at, &h); comma = ",")
	{
		(void) fputs(comma, stdout);
		json_text(stdout, h.name.data, h.name.len);
		(void) fputc(':', stdout);
		print_json_bytes(h.value);
	}
	(void) fputs("}}\n", stdout);
}

static void
print_headers(const pgb_record *r)
{
	const char *comma = "";
	pgb_header h;

	for (const void *at = NULL; pgb_header_next(r, &at, &h); comma = ",")
	{
		(void) fputs(comma, stdout);
		(void) fwrite(h.name.data, 1, h.name.len, stdout);
		(void) fputc('=', stdout);
		if (h.value.data != NULL)
			(void) fwrite(h.value.data, 1, h.value.len, stdout);
	}
}

static void
print_field(char what, const pgb_record *r)
{
	switch (what)
	{
		case 't':
			(void) fputs(r->topic, stdout);
			break;
		case 'p':
			(void) printf("%d", r->partition);
			break;
		case 'o':
			(void) printf("%lld", (long long) r->offset);
			break;
		case 'T':
			(void) printf("%lld", (long long) r->timestamp);
			break;
		case 'k':
			(void) fwrite(r->key.data == NULL ? "" : r->key.data, 1, r->key.len, stdout);
			break;
		case 's':
			(void) fwrite(r->value.data == NULL ? "" : r->value.data, 1, r->value.len, stdout);
			break;
		case 'h':
			print_headers(r);
			break;
		case 'K':
			(void) printf("%lld", r->key.data == NULL ? -1LL : (long long) r->key.len);
			break;
		case 'S':
			(void) printf("%lld", r->value.data == NULL ? -1LL : (long long) r->value.len);
			break;
		default:
			(void) fputc(what, stdout);
			break;
	}
}

static void
print_record(const Consuming *x, const pgb_record *r)
{
	if (x->ctl->opt['J'] != NULL || x->ctl->json)
	{
		print_json(r);
		return;
	}
	for (const char *f = x->format; *f != '\0'; f++)
		if (*f == '%' && f[1] != '\0')
			print_field(*++f, r);
		else if (*f == '\\' && (f[1] == 'n' || f[1] == 't' || f[1] == '0'))
		{
			f++;
			(void) fputc(*f == 'n' ? '\n' : *f == 't' ? '\t' : '\0', stdout);
		}
		else
			(void) fputc(*f, stdout);
}

/* ---- where to begin ---- */

typedef struct Start
{
	int64_t offset, time;
	int64_t last; /* the last N */
} Start;

static int
parse_start(const char *where, Start *s)
{
	char *end;
	long long n;

	*s = (Start){PGB_LATEST, -1, -1};
	if (where == NULL || strcmp(where, "latest") == 0)
		return CTL_OK;
	n = strtoll(where, &end, 10);
	if (strcmp(where, "earliest") == 0)
		s->offset = PGB_EARLIEST;
	else if (*end == '\0' && end != where && n < 0)
		s->last = -n;
	else if (*end == '\0' && end != where)
		s->offset = n;
	else if ((s->time = ctl_time(where)) < 0)
		return ctl_fail(CTL_USAGE, "\"%s\" is no place to begin: earliest, latest, an offset, -N, or a time",
						where);
	return CTL_OK;
}

/* -N: so many before the end, but not before the beginning. */
static int
last_n(Consuming *x, pgb_place *places, size_t n, int64_t last)
{
	pgb_place *first = calloc(n, sizeof(*first));
	pgb_error err;
	int rc = -1;

	for (size_t i = 0; first != NULL && i < n; i++)
	{
		first[i] = places[i];
		first[i].offset = PGB_EARLIEST;
		places[i].offset = PGB_LATEST;
	}
	if (first != NULL && pgb_offsets(x->c, first, n, (int) x->ctl->timeout, &err) == 0)
		rc = pgb_offsets(x->c, places, n, (int) x->ctl->timeout, &err);
	for (size_t i = 0; rc == 0 && i < n; i++)
		places[i].offset =
			places[i].offset - last > first[i].offset ? places[i].offset - last : first[i].offset;
	free(first);
	return rc == 0 ? CTL_OK : ctl_error(&err);
}

static int
assign(Consuming *x, const Start *start, long long only)
{
	pgb_place *places = NULL;
	size_t n = 0;
	pgb_error err;
	int code = CTL_OK;

	for (int i = 0; i < x->ctl->n_args; i++)
	{
		int parts = pgb_partitions(x->c, x->ctl->args[i], (int) x->ctl->timeout, &err);
		pgb_place *more = parts < 0 ? NULL : realloc(places, sizeof(*places) * (n + (size_t) parts));

		if (more == NULL || only >= parts)
		{
			free(more == NULL ? places : more);
			return parts < 0
					   ? ctl_error(&err)
					   : ctl_fail(CTL_NOT_FOUND, "topic %s has no partition %lld", x->ctl->args[i], only);
		}
		places = more;
		for (int k = 0; k < parts; k++)
			if (only < 0 || only == k)
				places[n++] = (pgb_place){x->ctl->args[i], k, start->offset, 0};
	}
	if (start->last >= 0)
		code = last_n(x, places, n, start->last);
	if (code == CTL_OK && pgb_assign(x->c, places, n, &err) != 0)
		code = ctl_error(&err);
	for (size_t i = 0; code == CTL_OK && start->time >= 0 && i < n; i++)
		(void) pgb_seek_time(x->c, places[i].topic, places[i].partition, start->time, NULL);
	for (size_t i = 0; i < n; i++)
		places[i].offset = PGB_LATEST;
	if (code == CTL_OK && x->ctl->opt['e'] != NULL &&
		pgb_offsets(x->c, places, n, (int) x->ctl->timeout, &err) != 0)
		code = ctl_error(&err);
	x->ends = places;
	x->n_ends = x->n_open = n;
	return code;
}

/* ---- the loop ---- */

/* Partitions that have reached their end, or have nothing before it. */
static bool
all_ended(Consuming *x)
{
	int64_t left = 0;

	for (size_t i = 0; i < x->n_ends; i++)
	{
		int64_t at = pgb_position(x->c, x->ends[i].topic, x->ends[i].partition);

		if (x->ends[i].offset < 0)
			continue;
		if (at >= x->ends[i].offset)
		{
			x->ends[i].offset = -1;
			x->n_open--;
		}
		else
			left += x->ends[i].offset - (at < 0 ? 0 : at);
	}
	x->progress.left = left;
	return x->n_open == 0;
}

static bool
wanted(Consuming *x, const pgb_record *r)
{
	const char *key = x->ctl->opt['k'];

	if (key != NULL &&
		(r->key.len != strlen(key) || r->key.data == NULL || memcmp(r->key.data, key, r->key.len) != 0))
		return false;
	return x->until < 0 || r->timestamp < x->until;
}

/* False: this partition has nothing more that is wanted. */
static void
passed_until(Consuming *x, const pgb_record *r)
{
	for (size_t i = 0; x->until >= 0 && r->timestamp >= x->until && i < x->n_ends; i++)
		if (x->ends[i].offset != -1 && x->ends[i].partition == r->partition &&
			strcmp(x->ends[i].topic, r->topic) == 0)
		{
			x->ends[i].offset = -1;
			x->n_open--;
			(void) pgb_pause(x->c, r->topic, r->partition, NULL);
		}
}

static int
loop(Consuming *x, bool print)
{
	bool to_end = x->ctl->opt['e'] != NULL;
	pgb_record records[500];
	pgb_error err;

	while (!ctl_stopped() && x->left != 0 && !(to_end && all_ended(x)) &&
		   !(x->until >= 0 && x->n_ends > 0 && x->n_open == 0))
	{
		int n = pgb_poll(x->c, records, x->left > 0 && x->left < 500 ? (int) x->left : 500, 200, &err);

		if (n < 0 && !err.retriable)
			return ctl_error(&err);
		if (n < 0)
			(void) ctl_error(&err);
		for (int i = 0; i < n; i++)
		{
			const pgb_record *r = &records[i];

			passed_until(x, r);
			if (!wanted(x, r))
				continue;
			if (print)
				print_record(x, r);
			x->progress.messages++;
			x->progress.bytes += (int64_t) (r->key.len + r->value.len);
			x->left -= x->left > 0;
		}
		if (print && n > 0 && (fflush(stdout) != 0 || ferror(stdout)))
			return CTL_FAILED;
		progress_show(&x->progress, false);
	}
	return CTL_OK;
}

static int
begin(Consuming *x, Ctl *ctl, const char *where)
{
	long long only = ctl_number(ctl, 'p', -1), count = ctl_number(ctl, 'n', -1);
	Start start;
	pgb_error err;

	*x = (Consuming){
		.ctl = ctl, .until = -1, .left = count, .format = ctl->opt['f'] != NULL ? ctl->opt['f'] : "%s\\n"};
	if (only == LLONG_MIN || count == LLONG_MIN || parse_start(where, &start) != CTL_OK)
		return CTL_USAGE;
	if (ctl->opt['u'] != NULL && (x->until = ctl_time(ctl->opt['u'])) < 0)
		return ctl_fail(CTL_USAGE, "\"%s\" is no time", ctl->opt['u']);
	if (ctl->opt['g'] != NULL && where != NULL &&
		pgb_conf_set(ctl->conf, "auto.offset.reset", start.offset == PGB_EARLIEST ? "earliest" : "latest",
					 &err) != 0)
		return ctl_error(&err);
	/* Members of a group end with it; there is no end that one of them alone could reach. */
	if (ctl->opt['g'] != NULL && ctl->opt['e'] != NULL)
		return ctl_fail(CTL_USAGE, "--end is not for groups");
	x->c = ctl_handle(ctl, ctl->opt['g']);
	if (x->c == NULL)
		return CTL_FAILED;
	progress_begin(&x->progress);
	x->progress.on = x->progress.on && !isatty(1);
	if (ctl->opt['g'] == NULL)
		return assign(x, &start, only);
	return pgb_subscribe(x->c, (const char *const *) ctl->args, (size_t) ctl->n_args, &err) != 0
			   ? ctl_error(&err)
			   : CTL_OK;
}

int
consume(Ctl *ctl)
{
	Consuming x;
	int code = begin(&x, ctl, ctl->opt['o']);

	if (code == CTL_OK)
	{
		code = loop(&x, true);
		progress_end(&x.progress);
	}
	free(x.ends);
	return code;
}

int
bench_consume(Ctl *ctl)
{
	Consuming x;
	int code;

	if (ctl->opt['n'] == NULL)
		ctl->opt['e'] = "";
	code = begin(&x, ctl, "earliest");
	if (code == CTL_OK)
	{
		code = loop(&x, false);
		progress_end(&x.progress);
		(void) printf("{\"messages\":%lld,\"bytes\":%lld,\"seconds\":%.3f,\"failed\":0}\n",
					  (long long) x.progress.messages, (long long) x.progress.bytes,
					  (double) (client_clock() - x.progress.start) / 1000);
	}
	free(x.ends);
	return code;
}
