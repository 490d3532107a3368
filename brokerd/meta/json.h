/*
 * json.h: reads the small JSON that PostgreSQL sends (jsonb as text): configs, endpoints, arguments.
 *
 *     MetaJson j = {.p = text};
 *     if (meta_json_begin(&j, '{'))
 *         while ((key = meta_json_key(&j)) != NULL)      // freed by the caller
 *             value = meta_json_scalar(&j);              // or meta_json_begin, meta_json_skip
 *     ok = meta_json_end(&j);
 *
 * A reader with a sticky failure: after the first fault everything returns NULL or false, and
 * meta_json_end says whether the whole text was well-formed.  Texts are malloc'd.
 */
#ifndef BROKERD_META_JSON_H
#define BROKERD_META_JSON_H

#include <stdbool.h>

#define META_JSON_DEPTH 32

typedef struct MetaJson
{
	const char *p; /* NUL-terminated */
	bool failed;
	int depth;
	bool first[META_JSON_DEPTH]; /* no element of this object or array was read yet */
} MetaJson;

/* Enter an object '{' or an array '['. */
bool meta_json_begin(MetaJson *j, char bracket);
/* The next key; NULL: the object ended (and was left). */
char *meta_json_key(MetaJson *j);
/* True: a value follows; false: the array ended (and was left). */
bool meta_json_element(MetaJson *j);
/* A string, number, true or false as text; NULL for null (or a fault: j->failed). */
char *meta_json_scalar(MetaJson *j);
/* Any value. */
void meta_json_skip(MetaJson *j);
/* Nothing but blanks is left and nothing failed. */
bool meta_json_end(MetaJson *j);

#endif
