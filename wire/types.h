/*
 * types.h: the scalar types of Kafka's protocol as C values.  They own nothing: on decode they point into
 * the frame or the arena that the decoder was given, on encode into whatever the caller keeps alive until
 * the response is written.
 */
#ifndef WIRE_TYPES_H
#define WIRE_TYPES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A string: UTF-8, not NUL-terminated.  len < 0 is Kafka's null. */
typedef struct WStr
{
	const char *s;
	int32_t len;
} WStr;

/* Bytes; len < 0 is null. */
typedef struct WBytes
{
	const uint8_t *p;
	int32_t len;
} WBytes;

typedef struct WUuid
{
	uint8_t b[16];
} WUuid;

/*
 * Record data.  Decoded: a slice of the frame.  Encoded: when `hole` is NULL `p` is copied; otherwise only
 * the length is written and the writer notes a hole of `len` bytes at this place, which the sender fills
 * (iovec or sendfile).  len < 0 is null.
 */
typedef struct WRecords
{
	const uint8_t *p;
	int32_t len;
	void *hole;
} WRecords;

#define WSTR_NULL     ((WStr){NULL, -1})
#define WSTR_LIT(lit) ((WStr){"" lit, (int32_t) sizeof(lit) - 1})
#define WBYTES_NULL   ((WBytes){NULL, -1})
#define WRECORDS_NULL ((WRecords){NULL, -1, NULL})

static inline WStr
wstr(const char *s)
{
	return s == NULL ? WSTR_NULL : (WStr){s, (int32_t) strlen(s)};
}

static inline bool
wstr_eq(WStr a, WStr b)
{
	return a.len == b.len && (a.len <= 0 || memcmp(a.s, b.s, (size_t) a.len) == 0);
}

static inline bool
wuuid_is_zero(const WUuid *u)
{
	static const WUuid zero;

	return memcmp(u, &zero, sizeof(zero)) == 0;
}

static inline bool
wuuid_eq(const WUuid *a, const WUuid *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

#endif
