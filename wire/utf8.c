#include "wire/utf8.h"

#include <string.h>

/* Bytes of the sequence at p (2 to 4) of which `left` are there, or 0. */
static size_t
multibyte(const uint8_t *p, size_t left)
{
	size_t n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	uint8_t low = 0x80, high = 0xbf;

	if (p[0] < 0xc2 || p[0] > 0xf4 || left < n)
		return 0;
	/* The second byte's range is what rules out overlong forms, surrogates and what is beyond U+10FFFF. */
	switch (p[0])
	{
		case 0xe0:
			low = 0xa0;
			break;
		case 0xed:
			high = 0x9f;
			break;
		case 0xf0:
			low = 0x90;
			break;
		case 0xf4:
			high = 0x8f;
			break;
		default:
			break;
	}
	if (p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

bool
utf8_valid(const uint8_t *p, size_t len)
{
	const uint8_t *end = p + len;

	while (p < end)
	{
		uint64_t w;
		size_t n;

		/* Names are ASCII nearly always: eight bytes at a time. */
		while ((size_t) (end - p) >= 8 && (memcpy(&w, p, 8), (w & UINT64_C(0x8080808080808080)) == 0))
			p += 8;
		if (p == end)
			break;
		n = *p < 0x80 ? 1 : multibyte(p, (size_t) (end - p));
		if (n == 0)
			return false;
		p += n;
	}
	return true;
}
