/*
 * text.h: a growing text for parameters of SQL calls: JSON, and array literals of PostgreSQL.
 *
 *     MetaText t = {0};
 *     meta_text_printf(&t, "{\"partitions\":%d,\"name\":", 3);
 *     meta_text_json(&t, name, len);
 *     meta_text_puts(&t, "}");
 *     meta_create_topics(..., meta_text_cstr(&t), ...);
 *     meta_text_free(&t);
 *
 * Memory: malloc'd, doubled as needed; out of memory ends the process (as all of brokerd does off the hot
 * path).  Threads: none of its business.
 */
#ifndef BROKERD_META_TEXT_H
#define BROKERD_META_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/types.h"

typedef struct MetaText
{
	char *s;
	size_t len;
	size_t size;
} MetaText;

void meta_text_put(MetaText *t, const char *s, size_t len);
void meta_text_puts(MetaText *t, const char *s);
void meta_text_printf(MetaText *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void meta_text_int(MetaText *t, int64_t v); /* as printf's %lld, ten times as fast */
/* A JSON string with its quotes; len < 0 (Kafka's null) gives null.  Bytes that are no UTF-8, and NUL, which
 * jsonb cannot hold, become U+FFFD. */
void meta_text_json(MetaText *t, const char *s, int32_t len);
void meta_text_json_ints(MetaText *t, const int32_t *values, int n); /* [1,2,3] */
void meta_text_uuid(MetaText *t, const WUuid *id);                   /* 0d6f9a2e-5c1b-... */
/* An element of an array literal, quoted; s NULL gives NULL.  The caller writes {, commas and }. */
void meta_text_element(MetaText *t, const char *s);
void meta_text_element_of(MetaText *t, const char *s, size_t len);
const char *meta_text_cstr(MetaText *t); /* never NULL */
void meta_text_reset(MetaText *t);       /* empty, keeps its memory */
void meta_text_free(MetaText *t);

#define META_UUID_TEXT 37 /* with the NUL */
void meta_uuid_format(const WUuid *id, char out[META_UUID_TEXT]);
bool meta_uuid_parse(const char *text, WUuid *id) __attribute__((warn_unused_result));

#endif
