/*
 * tap.h: unit tests print TAP (Test Anything Protocol, version 12), so that `prove` and regress/run read
 * them.  A test program calls ok()/is_*() and ends with `return tap_done();`.
 */
#ifndef REGRESS_UNIT_TAP_H
#define REGRESS_UNIT_TAP_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int tap_count;
static int tap_failed;

#define ok(cond, ...) tap_ok((cond), __FILE__, __LINE__, __VA_ARGS__)
#define is_int(got, want, ...)                                                                               \
	do                                                                                                       \
	{                                                                                                        \
		int64_t tap_got = (int64_t) (got), tap_want = (int64_t) (want);                                      \
		if (!ok(tap_got == tap_want, __VA_ARGS__))                                                           \
			printf("#      got: %" PRId64 "\n# expected: %" PRId64 "\n", tap_got, tap_want);                 \
	} while (0)
#define is_str(got, want, ...)                                                                               \
	do                                                                                                       \
	{                                                                                                        \
		const char *tap_got = (got), *tap_want = (want);                                                     \
		if (!ok(tap_got && tap_want && strcmp(tap_got, tap_want) == 0, __VA_ARGS__))                         \
			printf("#      got: %s\n# expected: %s\n", tap_got ? tap_got : "(null)",                         \
				   tap_want ? tap_want : "(null)");                                                          \
	} while (0)

__attribute__((format(printf, 4, 5), unused)) static bool
tap_ok(bool cond, const char *file, int line, const char *fmt, ...)
{
	char name[256];
	__builtin_va_list ap;

	__builtin_va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	__builtin_va_end(ap);
	printf("%sok %d - %s\n", cond ? "" : "not ", ++tap_count, name);
	if (!cond)
	{
		tap_failed++;
		printf("#   failed at %s:%d\n", file, line);
	}
	fflush(stdout);
	return cond;
}

__attribute__((unused)) static int
tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed == 0 ? 0 : 1;
}

#endif
