/*
 * test_text.c: JSON and array texts written and read, uuids.
 */
#include <stdlib.h>

#include "brokerd/meta/json.h"
#include "brokerd/meta/text.h"
#include "regress/unit/tap.h"

static void
test_write(void)
{
	static const int64_t numbers[] = {0, -1, 10, INT64_MAX, INT64_MIN};
	MetaText t = {0};
	WUuid id, same;

	is_str(meta_text_cstr(&t), "", "an empty text");
	meta_text_json(&t, "a\"b\\c\n\x01\xc3\xa4", 9);
	is_str(meta_text_cstr(&t), "\"a\\\"b\\\\c\\u000a\\u0001\xc3\xa4\"", "a JSON string");
	meta_text_reset(&t);
	meta_text_json(&t, "\xff\x00\xc3", 3);
	is_str(meta_text_cstr(&t), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"",
		   "what jsonb cannot hold is replaced");
	meta_text_reset(&t);
	meta_text_json(&t, NULL, -1);
	meta_text_puts(&t, "{");
	meta_text_element(&t, "a,\"}\\");
	meta_text_puts(&t, ",");
	meta_text_element(&t, NULL);
	is_str(meta_text_cstr(&t), "null{\"a,\\\"}\\\\\",NULL", "elements of an array");
	meta_text_reset(&t);
	meta_text_element_of(&t, "a\"\\bcd", 4);
	is_str(meta_text_cstr(&t), "\"a\\\"\\\\b\"", "so many bytes of a string");
	meta_text_reset(&t);
	for (int i = 0; i < 1000; i++)
		meta_text_printf(&t, "%d,", i);
	is_int(t.len, 3890, "it grows");
	meta_text_reset(&t);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
	{
		meta_text_int(&t, numbers[i]);
		meta_text_puts(&t, " ");
	}
	is_str(meta_text_cstr(&t), "0 -1 10 9223372036854775807 -9223372036854775808 ", "numbers of all sizes");
	meta_text_free(&t);
	ok(meta_uuid_parse("0d6f9a2e-5c1b-4e0e-9d53-7a1f6f0c2b11", &id), "a uuid is read");
	meta_text_uuid(&t, &id);
	is_str(meta_text_cstr(&t), "0d6f9a2e-5c1b-4e0e-9d53-7a1f6f0c2b11", "... and written");
	ok(!meta_uuid_parse("0d6f9a2e-5c1b-4e0e-9d53-7a1f6f0c2b1", &same) &&
		   !meta_uuid_parse("0d6f9a2e05c1b-4e0e-9d53-7a1f6f0c2b11", &same) &&
		   !meta_uuid_parse("0d6f9a2e-5c1b-4e0e-9d53-7a1f6f0c2b111", &same) && !meta_uuid_parse("", &same),
	   "what is none is refused");
	meta_text_free(&t);
}

/* The text of the scalar under `key` of an object. */
static char *
find(const char *json, const char *key, bool *whole)
{
	MetaJson j = {.p = json};
	char *found = NULL, *k;

	if (meta_json_begin(&j, '{'))
		while ((k = meta_json_key(&j)) != NULL)
		{
			if (strcmp(k, key) == 0)
				found = meta_json_scalar(&j);
			else
				meta_json_skip(&j);
			free(k);
		}
	*whole = meta_json_end(&j);
	return found;
}

static void
test_read(void)
{
	static const char *const broken[] = {"",
										 "{",
										 "{\"a\"",
										 "{\"a\":",
										 "{\"a\":1",
										 "{\"a\":1,}",
										 "{\"a\" 1}",
										 "{\"a\":\"\\x\"}",
										 "{\"a\":\"\\u12\"}",
										 "{\"a\":\"\\ud800\"}",
										 "{a:1}",
										 "{\"a\":1}x",
										 "{\"a\":[1,]}",
										 "[",
										 "{\"a\":[[[}",
										 "{\"a\":\"x}"};
	bool whole;
	char *text =
		find("{\"b\": [1, {\"x\": []}, \"]\"], \"a\": \"x\\n\\u00e4\\ud83d\\ude00\\/\", \"c\": null}", "a",
			 &whole);
	bool refused = true;
	char deep[200];
	MetaJson j = {.p = deep};

	is_str(text, "x\n\xc3\xa4\xf0\x9f\x98\x80/", "a string behind nested values");
	ok(whole, "... of a whole object");
	free(text);
	text = find("{\"c\": null, \"n\": -1.5e3}", "c", &whole);
	ok(text == NULL && whole, "null");
	text = find("{\"c\": null, \"n\": -1.5e3}", "n", &whole);
	is_str(text, "-1.5e3", "a number");
	free(text);
	for (int i = 0; i < (int) (sizeof(broken) / sizeof(broken[0])); i++)
	{
		free(find(broken[i], "a", &whole));
		if (whole)
			printf("# taken: %s\n", broken[i]);
		refused = refused && !whole;
	}
	ok(refused, "broken texts are refused");
	memset(deep, '[', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	meta_json_skip(&j);
	ok(!meta_json_end(&j), "too deep");
}

int
main(void)
{
	test_write();
	test_read();
	return tap_done();
}
