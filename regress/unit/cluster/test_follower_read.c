/* test_follower_read.c: when a follower answers consumers, and which offsets. */
#include "brokerd/cluster/follower_read.h"
#include "regress/unit/tap.h"
#include "wire/errors.h"

static void
test_serving(void)
{
	static const struct
	{
		const char *name;
		FollowerReadInput in;
		int16_t want;
	} cases[] = {
		{"in sync, and the leader has just answered", {true, true, true, 5000, 5000, 1000}, KERR_NONE},
		{"silent for as long as a member may lag", {true, true, true, 6000, 5000, 1000}, KERR_NONE},
		{"silent for longer", {true, true, true, 6001, 5000, 1000}, KERR_NOT_LEADER_OR_FOLLOWER},
		{"out of the ISR", {true, false, true, 5000, 5000, 1000}, KERR_NOT_LEADER_OR_FOLLOWER},
		{"fenced, or not registered", {false, true, true, 5000, 5000, 1000}, KERR_NOT_LEADER_OR_FOLLOWER},
		{"a new leader has not compared the logs yet",
		 {true, true, false, 5000, 5000, 1000},
		 KERR_OFFSET_NOT_AVAILABLE},
		{"nor will it, since this one is out",
		 {true, false, false, 5000, 5000, 1000},
		 KERR_NOT_LEADER_OR_FOLLOWER},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		is_int(follower_may_serve(&cases[i].in), cases[i].want, "%s", cases[i].name);
}

static void
test_offsets(void)
{
	static const FollowerOffsets behind = {10, 50, 60}, caught_up = {10, 50, 50}, ahead = {10, 50, 45},
								 empty = {0, 0, 0};
	static const struct
	{
		const char *name;
		const FollowerOffsets *at;
		int64_t offset;
		int16_t want;
	} cases[] = {
		{"before the log start (KIP-392, case 3)", &caught_up, 9, KERR_OFFSET_OUT_OF_RANGE},
		{"at the log start", &caught_up, 10, KERR_NONE},
		{"at the end", &caught_up, 50, KERR_NONE},
		{"beyond all that is known (case 4)", &caught_up, 51, KERR_OFFSET_OUT_OF_RANGE},
		{"not here, but committed (case 2)", &behind, 51, KERR_OFFSET_NOT_AVAILABLE},
		{"at the leader's high watermark", &behind, 60, KERR_OFFSET_NOT_AVAILABLE},
		{"beyond that", &behind, 61, KERR_OFFSET_OUT_OF_RANGE},
		{"here and not committed yet (case 1): it waits, as Kafka does", &ahead, 48, KERR_NONE},
		{"an empty log, at its end", &empty, 0, KERR_NONE},
		{"an empty log, beyond", &empty, 1, KERR_OFFSET_OUT_OF_RANGE},
		{"a negative offset", &empty, -1, KERR_OFFSET_OUT_OF_RANGE},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		is_int(follower_check_offset(cases[i].at, cases[i].offset), cases[i].want, "%s", cases[i].name);
}

int
main(void)
{
	test_serving();
	test_offsets();
	return tap_done();
}
