/* The small parts: arena, UTF-8, varints, error codes. */
#include "regress/unit/tap.h"
#include "wire/arena.h"
#include "wire/bytes.h"
#include "wire/errors.h"
#include "wire/utf8.h"

static void
test_arena(void)
{
	Arena a;
	uint8_t *p, *q, *first;
	bool zero = true;

	arena_init(&a, 4096);
	first = p = arena_alloc(&a, 100);
	q = arena_alloc(&a, 1);
	ok(p != NULL && q != NULL && (uintptr_t) p % 16 == 0 && (uintptr_t) q % 16 == 0 && q - p == 112,
	   "aligned, one behind the other");
	memset(p, 0xff, 100);
	arena_reset(&a);
	p = arena_alloc(&a, 100);
	ok(p == first, "a reset keeps the block");
	for (int i = 0; p != NULL && i < 100; i++)
		zero = zero && p[i] == 0;
	ok(zero, "and gives zeros again");

	p = arena_alloc(&a, 1 << 20);
	ok(p != NULL && a.used == 112 + (1 << 20), "more than a block");
	arena_reset(&a);
	p = arena_alloc(&a, 60000);
	first = p;
	arena_reset(&a);
	p = arena_alloc(&a, 60000);
	ok(p != NULL && p == first, "what was needed once is one block from then on");

	arena_reset(&a);
	a.limit = 1000;
	ok(arena_alloc(&a, 900) != NULL && arena_alloc(&a, 200) == NULL && a.failed, "a limit");
	ok(arena_alloc(&a, 1) == NULL, "a failed arena stays failed");
	arena_reset(&a);
	ok(arena_alloc(&a, 900) != NULL, "until it is reset");
	a.limit = 0;
	ok(arena_alloc(&a, SIZE_MAX) == NULL, "a size that wraps");
	arena_reset(&a);
	ok(arena_alloc(&a, 0) != NULL, "no bytes have an address, too");
	is_str(arena_strndup(&a, "abcdef", 3), "abc", "a copy with a NUL");
	arena_free(&a);
	arena_free(&a);
	ok(true, "freed twice");
}

typedef struct Utf8Case
{
	const char *bytes;
	bool valid;
	const char *what;
} Utf8Case;

static void
test_utf8(void)
{
	static const Utf8Case cases[] = {
		{"", true, "nothing"},
		{"plain ascii, longer than eight bytes", true, "ASCII"},
		{"\xc3\xa9t\xc3\xa9", true, "two bytes"},
		{"\xe2\x82\xac", true, "three"},
		{"\xf0\x9f\x98\x80", true, "four"},
		{"\xf4\x8f\xbf\xbf", true, "the last character there is"},
		{"\xf4\x90\x80\x80", false, "the one behind it"},
		{"\xc0\xaf", false, "a slash in two bytes"},
		{"\xc1\xbf", false, "two bytes for what one says"},
		{"\xe0\x9f\xbf", false, "three bytes for what two say"},
		{"\xf0\x8f\xbf\xbf", false, "four bytes for what three say"},
		{"\xed\x9f\xbf", true, "the last before the surrogates"},
		{"\xed\xa0\x80", false, "a surrogate"},
		{"\xee\x80\x80", true, "the first behind them"},
		{"\x80", false, "a byte that continues nothing"},
		{"12345678\xff", false, "ff behind eight bytes"},
		{"1234567\xc3", false, "cut off"},
		{"\xe2\x82", false, "cut off in the third"},
		{"\xe2\x82z", false, "ended by a letter"},
		{"\xf8\x88\x80\x80\x80", false, "five bytes"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		is_int(utf8_valid((const uint8_t *) cases[i].bytes, strlen(cases[i].bytes)), cases[i].valid,
			   "UTF-8: %s", cases[i].what);
}

static void
test_varints(void)
{
	static const uint64_t values[] = {
		0, 1, 127, 128, 16383, 16384, UINT32_MAX, (uint64_t) UINT32_MAX + 1, UINT64_MAX};
	static const uint8_t padded[] = {0x80, 0x80, 0x00};
	static const uint8_t over[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
	uint64_t v;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
	{
		uint8_t buf[10];
		int n = uvarint_put(buf, values[i]);

		ok(n == uvarint_size(values[i]) && uvarint_get(buf, buf + n, 64, &v) == n && v == values[i],
		   "varint %" PRIu64, values[i]);
		is_int(uvarint_get(buf, buf + n - 1, 64, &v), 0, "cut off");
		is_int(uvarint_get(buf, buf + n, 32, &v), values[i] <= UINT32_MAX ? n : 0, "as 32 bits");
	}
	is_int(uvarint_get(NULL, NULL, 32, &v), 0, "nothing to read, not even an address");
	is_int(uvarint_get(padded, padded + 3, 32, &v), 3, "a form longer than needed is read");
	is_int(uvarint_get(over, over + 10, 64, &v), 0, "65 bits are too many");
	ok(zigzag(0) == 0 && zigzag(-1) == 1 && zigzag(1) == 2 && zigzag(INT64_MIN) == UINT64_MAX, "zigzag");
	ok(unzigzag(zigzag(INT64_MIN)) == INT64_MIN && unzigzag(zigzag(-77)) == -77, "and back");
}

static void
test_errors(void)
{
	bool complete = true;

	for (int code = -1; code <= KERR_LAST; code++)
		complete = complete && kerr_name((int16_t) code) != NULL && kerr_message((int16_t) code) != NULL;
	ok(complete, "no code is missing between -1 and the last");
	is_str(kerr_name(KERR_NONE), "NONE", "0");
	is_str(kerr_name(16), "NOT_COORDINATOR", "16");
	is_str(kerr_name(-1), "UNKNOWN_SERVER_ERROR", "-1");
	is_str(kerr_name(133), "SHARE_SESSION_LIMIT_REACHED", "the last");
	is_str(kerr_name(134), "UNKNOWN_ERROR_CODE", "the one behind it");
	is_str(kerr_name(-2), "UNKNOWN_ERROR_CODE", "-2");
	ok(kerr_retriable(KERR_NOT_LEADER_OR_FOLLOWER) && !kerr_retriable(KERR_MESSAGE_TOO_LARGE),
	   "retriable or not");
}

int
main(void)
{
	test_arena();
	test_utf8();
	test_varints();
	test_errors();
	return tap_done();
}
