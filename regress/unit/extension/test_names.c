/* Topic names, as Kafka has them. */
#include "extension/topic_name.h"
#include "regress/unit/tap.h"

static char why[1024];

int
main(void)
{
	static const char *const good[] = {"a", "orders", "A.b_c-9", "...", "__consumer_offsets"};
	static const char *const bad[] = {"",         ".",   "..",  "a b", "a/b", "a'; DROP TABLE x; --",
									  "\xc3\xa4", "a\n", "a,b", "a:b"};
	char name[300], folded[300];
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ok(topic_name_check(good[i], why, sizeof(why)), "\"%s\" is a name", good[i]);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		ok(!topic_name_check(bad[i], why, sizeof(why)), "number %zu is none", i);
		ok(strncmp(why, "topic name is invalid", 21) == 0, "%s", i == 7 ? "it says so" : why);
	}
	memset(name, 'x', 250);
	name[249] = '\0';
	ok(topic_name_check(name, why, sizeof(why)), "249 characters are a name");
	name[249] = 'x';
	name[250] = '\0';
	ok(!topic_name_check(name, why, sizeof(why)), "250 are none: %s", why);
	topic_name_fold("a.b_c.d", folded);
	is_str(folded, "a_b_c_d", "'.' and '_' are one in metrics");
	return tap_done();
}
