/* Intervals and sizes: read, written, read back. */
#include "extension/config_units.h"
#include "regress/unit/tap.h"

#include <stdlib.h>

static void
ms(const char *text, int64_t want)
{
	int64_t got = -1;

	ok(units_parse_ms(text, &got) == UNIT_OK, "\"%s\" is an interval", text);
	is_int(got, want, "of %" PRId64 " ms", want);
}

static void
bytes(const char *text, int64_t want)
{
	int64_t got = -1;

	ok(units_parse_bytes(text, &got) == UNIT_OK, "\"%s\" is a size", text);
	is_int(got, want, "of %" PRId64 " bytes", want);
}

int
main(void)
{
	static const char *const not_times[] = {
		"",       "7",           "days",   "7 days 3", "-1 day", "1..5 h", "1:60",
		"1:2:60", "12:00 12:00", "1 day:", "7 daysx",  "1:",     "1. h"};
	int64_t n;
	size_t i;
	char out[64];

	ms("7 days", INT64_C(604800000));
	ms("90min", 5400000);
	ms("1 day 12:30:15.5", 86400000 + 45015500);
	ms("12:00", 43200000);
	ms("1.5 h", 5400000);
	ms("2 Weeks", INT64_C(1209600000));
	ms("250ms", 250);
	ms("0 s", 0);
	bytes("1 GB", INT64_C(1073741824));
	bytes("64k", 65536);
	bytes("10 MiB", 10485760);
	bytes("1.5 kB", 1536);
	bytes("17 bytes", 17);
	for (i = 0; i < sizeof(not_times) / sizeof(not_times[0]); i++)
		ok(units_parse_ms(not_times[i], &n) == UNIT_INVALID, "\"%s\" is no interval", not_times[i]);
	ok(units_parse_ms("1 month", &n) == UNIT_NO_LENGTH, "a month has no length");
	ok(units_parse_ms("2 years 1 day", &n) == UNIT_NO_LENGTH, "nor has a year");
	ok(units_parse_ms("300000000 years", &n) != UNIT_OK, "nor many");
	ok(units_parse_ms("999999999999999 days", &n) == UNIT_TOO_LARGE, "more than 64 bits");
	ok(units_parse_ms("9999999999999999999 ms", &n) == UNIT_INVALID, "more than 18 digits");
	ok(units_parse_ms("0.0001 s", &n) == UNIT_TOO_LARGE, "less than a millisecond");
	ok(units_parse_bytes("8192 PB", &n) == UNIT_TOO_LARGE, "more than 64 bits of bytes");
	ok(units_parse_bytes("1 MB 2 kB", &n) == UNIT_INVALID, "a size has one part");

	srand(7);
	for (i = 0; i < 2000; i++)
	{
		int64_t want = (int64_t) rand() * (rand() % 2000 + 1) + 1, got = -1;

		if (units_parse_ms(units_format_ms(want, out, sizeof(out)), &got) != UNIT_OK || got != want)
			break;
		if (units_parse_bytes(units_format_bytes(want, out, sizeof(out)), &got) != UNIT_OK || got != want)
			break;
	}
	is_int(i, 2000, "what is written is read back");
	return tap_done();
}
