/*
 * options.h: command lines of the load tools, from one table.
 *
 *     static const Option table[] = {
 *         {"size", OPTION_NUMBER, "B", "bytes of a value", offsetof(Settings, size), "p", 0, 1 << 30},
 *         ...
 *     };
 *
 * A row names the modes that know the option (a letter each, of the program's Mode table), so that what a
 * mode would ignore is refused.  `--name value` and `--name=value` are read, `-X key=value` as often as one
 * likes.  Errors end the program with one sentence on standard error and exit code 2.
 */
#ifndef BENCH_LOAD_OPTIONS_H
#define BENCH_LOAD_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

typedef enum OptionKind
{
	OPTION_TEXT,   /* const char * */
	OPTION_NUMBER, /* int64_t, from min to max */
	OPTION_REAL,   /* double, from min to max */
	OPTION_FLAG,   /* int64_t 1, without a value */
	OPTION_PAIRS   /* Pairs, key=value; may be repeated */
} OptionKind;

typedef struct Option
{
	const char *name; /* "X" is written -X */
	OptionKind kind;
	const char *value; /* what --help calls it */
	const char *help;
	size_t offset; /* in the settings */
	const char *modes;
	double min, max;
} Option;

typedef struct Mode
{
	const char *name;
	char letter;
	const char *help;
} Mode;

/* A row of such a table, of a field of the program's `Settings`. */
#define OPT(name, kind, value, help, field, modes, min, max)                                                 \
	{                                                                                                        \
		name, OPTION_##kind, value, help, offsetof(Settings, field), modes, min, max                         \
	}

#define PAIRS_MAX 64

typedef struct Pairs
{
	int n;
	const char *text[PAIRS_MAX]; /* "key=value" */
} Pairs;

typedef struct Usage
{
	const char *program;
	const char *head; /* the first lines of --help */
	const char *tail;
	const Mode *modes;
	int n_modes;
	const Option *options;
	int n_options;
} Usage;

/* Fill `settings`, which holds the defaults.  Prints the help and ends with 0 when asked for it. */
const Mode *options_parse(const Usage *u, int argc, char **argv, void *settings);

/* "program: text" on standard error, exit code 1 (2 for what is wrong with the command line). */
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void die_usage(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
