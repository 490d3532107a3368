/* Subscriptions and assignments: bytes of clients, read with care. */
#include <stdlib.h>

#include "brokerd/group/consumer_protocol.h"
#include "brokerd/group/slot.h"
#include "regress/unit/tap.h"

static char seen[256];

static void
on_topic(void *arg, WStr topic)
{
	(void) arg;
	snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%.*s ", topic.len, topic.s);
}

static void
on_partition(void *arg, WStr topic, int32_t partition)
{
	(void) arg;
	snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%.*s-%d ", topic.len, topic.s, partition);
}

/* Each prefix in memory of its own, so that the address sanitizer sees a byte too many. */
static int
prefixes_accepted(const uint8_t *p, int len, bool assignment)
{
	int n = 0;

	for (int i = 1; i < len; i++)
	{
		uint8_t *copy = malloc((size_t) i);
		WBytes b = {copy, i};

		memcpy(copy, p, (size_t) i);
		n += assignment ? consumer_assignment_partitions(b, on_partition, NULL)
						: consumer_subscription_topics(b, on_topic, NULL);
		free(copy);
		seen[0] = '\0';
	}
	return n;
}

int
main(void)
{
	static const uint8_t sub[] = {0, 3,   0,   0,    0,    2,    0,    1, 'a', 0,
								  2, 'b', 'c', 0xff, 0xff, 0xff, 0xff, 1, 2,   3};
	static const uint8_t assign[] = {0, 0, 0, 0, 0, 2,   0, 1, 'a', 0, 0, 0, 2, 0, 0,    0,    0,    0,
									 0, 0, 7, 0, 1, '"', 0, 0, 0,   1, 0, 0, 0, 3, 0xff, 0xff, 0xff, 0xff};
	static const uint8_t huge[] = {0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 1, 'a'};
	static const uint8_t negative[] = {0, 0, 0, 0, 0, 1, 0xff, 0xfe, 'a', 'a'};
	static const uint8_t control[] = {0, 0, 0, 0, 0, 1, 0, 2, 1, 0xc3, 0, 0, 0, 0};
	static const uint8_t newline[] = {0, 0, 0, 0, 0, 1, 0, 1, '\n', 0, 0, 0, 1, 0x80, 0, 0, 0};
	char json[256];

	ok(consumer_subscription_topics((WBytes){sub, sizeof(sub)}, on_topic, NULL),
	   "a subscription of a later version");
	is_str(seen, "a bc ", "its topics");
	seen[0] = '\0';
	ok(consumer_assignment_partitions((WBytes){assign, sizeof(assign)}, on_partition, NULL), "an assignment");
	is_str(seen, "a-0 a-7 \"-3 ", "its partitions");
	seen[0] = '\0';
	is_int(consumer_assignment_json((WBytes){assign, sizeof(assign)}, json, sizeof(json)), 24, "as JSON");
	is_str(json, "{\"a\": [0, 7], \"\\\"\": [3]}", "as JSON");
	is_int(consumer_assignment_json((WBytes){assign, sizeof(assign)}, json, 24), -1,
		   "a buffer that is too small");
	is_int(consumer_assignment_json(WBYTES_NULL, json, sizeof(json)), 2, "no bytes are no partitions");
	is_str(json, "{}", "no bytes are no partitions");
	is_int(consumer_assignment_json((WBytes){control, sizeof(control)}, json, sizeof(json)), -1,
		   "a name that is no UTF-8");
	is_int(consumer_assignment_json((WBytes){newline, sizeof(newline)}, json, sizeof(json)), 25,
		   "a control character");
	is_str(json, "{\"\\u000a\": [-2147483648]}", "is escaped");
	ok(consumer_assignment_json_size((WBytes){newline, sizeof(newline)}) > 25,
	   "and fits the size that is asked for");

	is_int(prefixes_accepted(sub, 13, false), 0, "no prefix of a subscription is one");
	is_int(prefixes_accepted(assign, 32, true), 0, "no prefix of an assignment is one");
	ok(!consumer_subscription_topics((WBytes){huge, sizeof(huge)}, on_topic, NULL),
	   "a count beyond the bytes");
	ok(!consumer_assignment_partitions((WBytes){huge, sizeof(huge)}, on_partition, NULL),
	   "a count beyond the bytes");
	ok(!consumer_subscription_topics((WBytes){negative, sizeof(negative)}, on_topic, NULL),
	   "a negative length");
	ok(!consumer_subscription_topics(WBYTES_NULL, on_topic, NULL), "no bytes are no subscription");
	ok(!consumer_subscription_topics((WBytes){(const uint8_t *) "\xff\xff\0\0\0\0", 6}, on_topic, NULL),
	   "a negative version");

	is_int(group_slot(WSTR_LIT("")), 197, "slot of an empty id");
	is_int(group_slot(WSTR_LIT("a")), 44, "slot of a");
	is_int(group_slot(WSTR_LIT("billing")), 220, "slot of billing");
	return tap_done();
}
