/*
 * ctl.h: what the commands of brokerctl share.  commands.def lists commands and options; help, completion and the manual
 * page are made from it.  A command returns one of the exit codes; what went wrong is a line on standard error.
 */
#ifndef CLIENT_CTL_CTL_H
#define CLIENT_CTL_CTL_H

#include <stdio.h>

#include "client/consumer.h"

typedef enum CtlExit
{
	CTL_OK = 0,
	CTL_FAILED = 1,    /* a broker refused, or not all was done */
	CTL_USAGE = 2,     /* the command line makes no sense */
	CTL_NO_BROKER = 3, /* nobody answered */
	CTL_NOT_FOUND = 4, /* no such topic, partition, group */
	CTL_DAMAGED = 5    /* log dump found damage */
} CtlExit;

typedef struct Ctl
{
	int n_args;
	char **args; /* behind the command */
	const char *opt[128];
	char *multi[3][64]; /* -X, -c, -H: as often as given */
	int n_multi[3];
	pgb_conf *conf;
	pgb_consumer *handle; /* ctl_handle made it */
	int64_t timeout;
	bool json;
	struct Held *held;
} Ctl;

static inline WStr
wstr_n(const char *s, size_t len)
{
	return (WStr){s, (int32_t) len};
}

/* ---- main.c ---- */
int ctl_fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int ctl_error(const pgb_error *err);                   /* prints it, and gives the exit code */
bool ctl_stopped(void);                                /* Ctrl-C */
pgb_consumer *ctl_handle(Ctl *ctl, const char *group); /* NULL: it has been said why */
/* Asks a broker, or CLIENT_NO_NODE for whichever is there; the response lives to the end.  NULL: it has been said why. */
void *ctl_call(Ctl *ctl, int32_t id, int16_t key, int16_t most, const void *request, int *code);
long long ctl_number(const Ctl *ctl, char option, long long without); /* LLONG_MIN: it has been said why */

/* "2026-11-30T10:00:00", "@1700000000000", "10m" (ago) -> milliseconds since 1970; -1: none of these. */
int64_t ctl_time(const char *text);

/* ---- output.c ---- */

/* Rows for people (aligned) or, with --json, an object a line.  "#name" is a column of numbers. */
typedef struct Table
{
	const char *const *columns;
	int n_columns;
	bool json;
	char **cells;
	size_t n, cap;
} Table;

void table_begin(Table *t, const Ctl *ctl, const char *const *columns); /* ends with NULL */
void table_cell(Table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void table_text(Table *t, WStr text);
void table_end(Table *t);
void json_text(FILE *to, const char *s, size_t len);
void print_bytes(FILE *to, double bytes);

/* A line on standard error that is written over, on a terminal only. */
typedef struct Progress
{
	bool on;
	int64_t start, last;
	int64_t messages, bytes;
	int64_t left; /* still to come, -1 = not known */
} Progress;

void progress_begin(Progress *p);
void progress_show(Progress *p, bool now);
void progress_end(Progress *p);

/* ---- json.c ---- */

/* A line of `produce --json-lines`; parts point into `line`, which is written over.  NULL, or what is wrong. */
const char *json_message(char *line, pgb_message *m, pgb_header *headers, size_t most_headers);

/* ---- the commands ---- */
#define COMMAND(words, args, options, function, text) int function(Ctl *ctl);
#define OPTION(letter, name, arg, text)
#include "client/ctl/commands.def"
#undef COMMAND
#undef OPTION

#endif
