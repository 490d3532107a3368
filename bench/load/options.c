/* options.c: see options.h. */
#include "bench/load/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say_and_end(int code, const char *format, va_list args)
	__attribute__((format(printf, 2, 0), noreturn));

static void
say_and_end(int code, const char *format, va_list args)
{
	fflush(stdout);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	exit(code);
}

void
die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_and_end(1, format, args);
}

void
die_usage(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_and_end(2, format, args);
}

static void
print_help(const Usage *u)
{
	printf("%s\nModes:\n", u->head);
	for (int i = 0; i < u->n_modes; i++)
		printf("  %-14s %s\n", u->modes[i].name, u->modes[i].help);
	printf("\nOptions, and the modes that know them:\n");
	for (int i = 0; i < u->n_options; i++)
	{
		const Option *o = &u->options[i];
		char name[64];

		snprintf(name, sizeof(name), "%s%s %s", o->name[1] == '\0' ? "-" : "--", o->name, o->value);
		printf("  %-24s %s (", name, o->help);
		for (int m = 0, n = 0; m < u->n_modes; m++)
			if (strchr(o->modes, u->modes[m].letter) != NULL)
				printf("%s%s", n++ == 0 ? "" : ", ", u->modes[m].name);
		printf(")\n");
	}
	printf("\n%s", u->tail);
}

static const Option *
find_option(const Usage *u, const char *name, size_t len)
{
	for (int i = 0; i < u->n_options; i++)
		if (strlen(u->options[i].name) == len && memcmp(u->options[i].name, name, len) == 0)
			return &u->options[i];
	return NULL;
}

static double
number_of(const Option *o, const char *text)
{
	char *end;
	double v;

	errno = 0;
	v = strtod(text, &end);
	if (end == text || *end != '\0' || errno != 0)
		die_usage("--%s wants a number, not \"%s\"", o->name, text);
	if (v < o->min || v > o->max)
		die_usage("--%s must be from %.0f to %.0f, not %s", o->name, o->min, o->max, text);
	if (o->kind == OPTION_NUMBER && v != (double) (int64_t) v)
		die_usage("--%s wants a whole number, not \"%s\"", o->name, text);
	return v;
}

static void
add_pair(Pairs *pairs, const Option *o, const char *text)
{
	if (strchr(text, '=') == NULL || text[0] == '=')
		die_usage("%s wants key=value, not \"%s\"", o->name, text);
	if (pairs->n == PAIRS_MAX)
		die_usage("%s is given more than %d times", o->name, PAIRS_MAX);
	pairs->text[pairs->n++] = text;
}

static void
set_option(const Option *o, const char *text, char *at)
{
	switch (o->kind)
	{
		case OPTION_TEXT:
			*(const char **) (void *) at = text;
			break;
		case OPTION_NUMBER:
			*(int64_t *) (void *) at = (int64_t) number_of(o, text);
			break;
		case OPTION_REAL:
			*(double *) (void *) at = number_of(o, text);
			break;
		case OPTION_FLAG:
			*(int64_t *) (void *) at = 1;
			break;
		case OPTION_PAIRS:
			add_pair((Pairs *) (void *) at, o, text);
			break;
	}
}

static const Mode *
find_mode(const Usage *u, const char *name)
{
	for (int i = 0; i < u->n_modes; i++)
		if (strcmp(u->modes[i].name, name) == 0)
			return &u->modes[i];
	die_usage("there is no mode \"%s\"; --help lists them", name);
}

static const Option *
known_option(const Usage *u, const Mode *mode, const char *name, size_t len)
{
	const Option *o = find_option(u, name, len);

	if (o == NULL)
		die_usage("there is no option --%.*s; --help lists them", (int) len, name);
	if (strchr(o->modes, mode->letter) == NULL)
		die_usage("%s knows no option --%s", mode->name, o->name);
	return o;
}

const Mode *
options_parse(const Usage *u, int argc, char **argv, void *settings)
{
	const Mode *mode;

	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
		{
			print_help(u);
			exit(0);
		}
	if (argc < 2)
		die_usage("what shall it do? --help says what there is");
	mode = find_mode(u, argv[1]);
	for (int i = 2; i < argc; i++)
	{
		const char *name = argv[i];
		const char *equals = NULL;
		const char *text = "";
		const Option *o;

		if (name[0] != '-' || name[1] == '\0')
			die_usage("\"%s\" is no option", name);
		name += name[1] == '-' ? 2 : 1;
		if (argv[i][1] == '-')
			equals = strchr(name, '=');
		o = known_option(u, mode, name, equals == NULL ? strlen(name) : (size_t) (equals - name));
		if (equals != NULL)
			text = equals + 1;
		else if (o->kind != OPTION_FLAG)
		{
			if (i + 1 == argc)
				die_usage("--%s wants a value", o->name);
			text = argv[++i];
		}
		set_option(o, text, (char *) settings + o->offset);
	}
	return mode;
}
