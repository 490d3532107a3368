/* Topics and their partitions in messages that are only known by their tables. */
#include "regress/unit/tap.h"
#include "wire/by_topic.h"
#include "wire/messages.h"

static void
test_structs(void)
{
	ListOffsetsRequestTopicsPartitions *part;
	ListOffsetsRequest req;
	WireEachPart each = {.m = &ListOffsetsRequest_desc, .message = &req};
	int n = 0, wrong = 0;
	Arena a;

	arena_init(&a, 1024);
	WIRE_INIT(ListOffsetsRequest, &req);
	ok(wire_by_topic_next(&each) == NULL, "a new message has no partitions");
	for (int32_t i = 0; i < 300; i++)
	{
		/* By turns, so that a topic is found again. */
		part = wire_by_topic_add(&ListOffsetsRequest_desc, &a, &req,
								 i % 3 == 0 ? WSTR_LIT("a") : WSTR_LIT("bb"), i);
		wrong += part == NULL || part->partition_index != i || part->current_leader_epoch != -1;
		if (part != NULL)
			part->timestamp = i * 2;
	}
	is_int(wrong, 0, "each has its number and the other defaults");
	is_int(req.n_topics, 2, "a topic is there once");
	is_int(req.topics[0].n_partitions, 100, "with the partitions of its own");
	each.t = each.p = 0;
	for (wrong = 0; (part = (void *) (uintptr_t) wire_by_topic_next(&each)) != NULL; n++)
		wrong += each.index != part->partition_index || part->timestamp != each.index * 2 ||
				 !wstr_eq(*each.topic, each.index % 3 == 0 ? WSTR_LIT("a") : WSTR_LIT("bb"));
	ok(n == 300 && wrong == 0, "all come back, under their topics");
	arena_free(&a);
}

static void
test_numbers(void)
{
	WStr names[] = {WSTR_LIT("t")};
	ConsumerProtocolSubscription sub;
	WireEachPart each = {.m = &ConsumerProtocolSubscription_desc, .message = &sub};
	Arena a;

	arena_init(&a, 1024);
	WIRE_INIT(ConsumerProtocolSubscription, &sub);
	sub.topics = names;
	sub.n_topics = 1;
	ok(wire_by_topic_add(&ConsumerProtocolSubscription_desc, &a, &sub, WSTR_LIT("empty"), 0) != NULL &&
		   wire_by_topic_add(&ConsumerProtocolSubscription_desc, &a, &sub, WSTR_LIT("u"), 7) != NULL,
	   "a list of names is no list of topics");
	sub.owned_partitions[0].n_partitions = 0;
	ok(wire_by_topic_next(&each) != NULL && each.index == 7 && wstr_eq(*each.topic, WSTR_LIT("u")),
	   "partitions that are mere numbers; a topic without any is passed over");
	ok(wire_by_topic_next(&each) == NULL && wire_by_topic_next(&each) == NULL, "the end stays the end");
	arena_free(&a);
}

static void
test_refused(void)
{
	OffsetCommitRequest req;
	Arena a;

	arena_init(&a, 1024);
	a.limit = 1;
	WIRE_INIT(OffsetCommitRequest, &req);
	ok(wire_by_topic_add(&OffsetCommitRequest_desc, &a, &req, WSTR_LIT("t"), 0) == NULL && req.n_topics == 0,
	   "without memory nothing is added");
	arena_free(&a);
}

static void
test_field(void)
{
	FetchResponse resp;

	WIRE_INIT(FetchResponse, &resp);
	ok(wire_field(&FetchResponse_desc, &resp, "error_code") == &resp.error_code, "a field by its name");
	ok(wire_field(&ProduceResponse_desc, &resp, "error_code") == NULL, "none of that name");
}

static void
test_unpack(void)
{
	static const uint8_t newer[] = {0, 9, 0, 0, 0, 1, 0, 1, 't', 255, 255, 255, 255,
									0, 0, 0, 0, 0, 0, 0, 5, 255, 255, 1,   2};
	ConsumerProtocolSubscription sub;
	WBytes packed;
	Arena a;

	arena_init(&a, 1024);
	ok(wire_unpack(&ConsumerProtocolSubscription_desc, (WBytes){newer, sizeof(newer)}, &a, &sub) == 0 &&
		   sub.n_topics == 1 && sub.generation_id == 5,
	   "of a version that is not known what is known of it");
	ok(wire_unpack(&ConsumerProtocolSubscription_desc, (WBytes){newer, 8}, &a, &sub) != 0 &&
		   sub.n_topics == 0 && sub.generation_id == -1,
	   "what cannot be read has the defaults");
	ok(wire_unpack(&ConsumerProtocolSubscription_desc, WBYTES_NULL, &a, &sub) != 0 && sub.n_topics == 0,
	   "so has nothing at all");
	ok(wire_unpack(&ConsumerProtocolSubscription_desc, (WBytes){(const uint8_t *) "\xff\xff\0\0\0\0", 6}, &a,
				   &sub) != 0,
	   "no version is below 0");
	sub.generation_id = 77;
	packed = wire_pack(&ConsumerProtocolSubscription_desc, 3, &a, &sub);
	ok(packed.len > 2 && packed.p[0] == 0 && packed.p[1] == 3, "packed behind its version");
	sub.generation_id = 0;
	ok(wire_unpack(&ConsumerProtocolSubscription_desc, packed, &a, &sub) == 0 && sub.generation_id == 77,
	   "and read again");
	a.limit = 1;
	is_int(wire_pack(&ConsumerProtocolSubscription_desc, 3, &a, &sub).len, -1, "no memory for it");
	arena_free(&a);
}

int
main(void)
{
	test_structs();
	test_numbers();
	test_refused();
	test_field();
	test_unpack();
	return tap_done();
}
