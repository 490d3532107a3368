/* test_isr.c: who belongs in the ISR, case by case, and what holds for random inputs. */
#include <stdlib.h>

#include "brokerd/cluster/isr.h"
#include "regress/unit/tap.h"

/* The leader's log ends at 100, 80 of it are committed, its epoch began at 60; followers have 10 s. */
static const IsrInput leader = {
	.high_watermark = 80, .epoch_start = 60, .leader_end = 100, .now_ms = 50000, .lag_max_ms = 10000};
/* It has not committed anything of its own yet: what was committed before may be anywhere below 90. */
static const IsrInput new_leader = {
	.high_watermark = 80, .epoch_start = 90, .leader_end = 100, .now_ms = 50000, .lag_max_ms = 10000};
/* Nobody writes. */
static const IsrInput silent = {
	.high_watermark = 100, .epoch_start = 60, .leader_end = 100, .now_ms = 9000000, .lag_max_ms = 10000};

static void
test_table(void)
{
	static const struct
	{
		const char *name;
		const IsrInput *in;
		IsrFollower f;
		bool want;
	} cases[] = {
		{"joins at the high watermark", &leader, {false, true, 80, 50000, 0}, true},
		{"joins beyond it", &leader, {false, true, 95, 50000, 0}, true},
		{"does not join one short of it", &leader, {false, true, 79, 50000, 50000}, false},
		{"a new leader: not at the high watermark", &new_leader, {false, true, 80, 50000, 50000}, false},
		{"a new leader: not one short of the epoch's start",
		 &new_leader,
		 {false, true, 89, 50000, 50000},
		 false},
		{"a new leader: at the epoch's start", &new_leader, {false, true, 90, 50000, 0}, true},
		{"a fenced one, or another process by now, does not join",
		 &leader,
		 {false, false, 100, 50000, 50000},
		 false},
		{"one that was not heard of does not join", &leader, {false, true, -1, -1, 50000}, false},

		{"one that fetched just within the lag", &leader, {false, true, 80, 40000, 0}, true},
		{"one that does not fetch any more does not join", &leader, {false, true, 80, 39999, 0}, false},

		{"a member at the end stays, however long nobody wrote", &silent, {true, true, 100, 50000, 0}, true},
		{"a member behind a moving end stays for the lag", &leader, {true, true, 85, 50000, 40000}, true},
		{"and leaves a millisecond later", &leader, {true, true, 85, 50000, 39999}, false},
		{"a member below the high watermark has the lag, too", &leader, {true, true, 10, 50000, 45000}, true},
		{"a member that was not heard of has the lag from the leadership's start",
		 &leader,
		 {true, true, -1, -1, 40000},
		 true},
		{"and then leaves", &leader, {true, true, -1, -1, 39999}, false},
		/* That it is dead is PostgreSQL's to say, and takes it out of the row. */
		{"a member is not taken out for being fenced", &leader, {true, false, 100, 50000, 0}, true},
	};
	static const IsrInput empty = {.now_ms = 5, .lag_max_ms = 10000};
	IsrFollower unheard = {false, true, -1, -1, 0}, at_start = {false, true, 0, 5, 0};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		is_int(isr_belongs(cases[i].in, &cases[i].f), cases[i].want, "%s", cases[i].name);
	ok(!isr_belongs(&empty, &unheard), "an empty log: not before it fetched");
	ok(isr_belongs(&empty, &at_start), "an empty log: as soon as it did");
}

static void
test_random(void)
{
	bool safe = true, patient = true;

	srandom(4711);
	for (int i = 0; i < 100000; i++)
	{
		IsrInput in = {.high_watermark = random() % 50,
					   .epoch_start = random() % 60,
					   .now_ms = random() % 1000,
					   .lag_max_ms = random() % 1000};
		IsrFollower f = {random() % 2 == 0, random() % 2 == 0, random() % 80 - 1, random() % 1000,
						 random() % 1000};
		bool belongs;

		in.leader_end =
			(in.high_watermark > in.epoch_start ? in.high_watermark : in.epoch_start) + random() % 20;
		belongs = isr_belongs(&in, &f);
		if (!f.in_isr && belongs)
			safe = safe && f.is_live && f.synced_end >= in.high_watermark && f.synced_end >= in.epoch_start &&
				   in.now_ms - f.fetched_ms <= in.lag_max_ms;
		if (f.in_isr && !belongs)
			patient = patient && f.synced_end < in.leader_end && in.now_ms - f.caught_up_ms > in.lag_max_ms;
	}
	ok(safe, "of 100,000 random inputs nobody joins who may lack a committed record");
	ok(patient, "and nobody leaves within replica.lag.time.max.ms");
}

int
main(void)
{
	test_table();
	test_random();
	return tap_done();
}
