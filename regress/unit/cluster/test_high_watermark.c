/* test_high_watermark.c: what the high watermark becomes, case by case and against random inputs. */
#include <stdlib.h>

#include "brokerd/cluster/high_watermark.h"
#include "regress/unit/tap.h"

static void
test_table(void)
{
	static const HwReplica both_at_80_90[] = {{true, 80}, {true, 90}};
	static const HwReplica one_left[] = {{true, 80}, {false, 10}};
	static const HwReplica silent[] = {{true, -1}};
	static const struct
	{
		const char *name;
		HwInput in;
		int64_t want;
	} cases[] = {
		{"alone: all that is synced", {10, 100, 1, 1, 1, NULL, 0}, 100},
		{"alone, min.insync.replicas above the replicas: counts as 1", {10, 100, 1, 2, 1, NULL, 0}, 100},
		{"the slowest member of the ISR counts", {10, 100, 3, 2, 3, both_at_80_90, 2}, 80},
		{"who is no member does not count", {10, 100, 2, 2, 3, one_left, 2}, 80},
		{"below min.insync.replicas it stands still (A13)", {10, 100, 1, 2, 3, NULL, 0}, 10},
		{"a member not heard of in this epoch holds it", {10, 100, 2, 1, 2, silent, 1}, 10},
		{"it never goes back", {90, 100, 3, 2, 3, both_at_80_90, 2}, 90},
		{"the leader's own synced end counts (A9f)", {10, 60, 3, 2, 3, both_at_80_90, 2}, 60},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		is_int(hw_next(&cases[i].in), cases[i].want, "%s", cases[i].name);
}

static void
test_random(void)
{
	bool never_back = true, never_beyond = true;

	srandom(4711);
	for (int i = 0; i < 100000; i++)
	{
		HwReplica f[4];
		HwInput in = {.current = random() % 100,
					  .leader_synced_end = random() % 200,
					  .isr_size = (int) (random() % 5) + 1,
					  .min_isr = (int) (random() % 4) + 1,
					  .n_assigned = 5,
					  .followers = f,
					  .n_followers = (int) (random() % 5)};
		int64_t hw;

		for (int j = 0; j < in.n_followers; j++)
			f[j] = (HwReplica){random() % 2 == 0, random() % 200 - 1};
		hw = hw_next(&in);
		never_back = never_back && hw >= in.current;
		for (int j = 0; j < in.n_followers; j++)
			if (f[j].counts && hw > in.current && hw > f[j].synced_end)
				never_beyond = false;
		if (hw > in.current && hw > in.leader_synced_end)
			never_beyond = false;
	}
	ok(never_back, "of 100,000 random inputs none moves it back");
	ok(never_beyond, "and none moves it beyond what a counted replica has synced");
}

int
main(void)
{
	test_table();
	test_random();
	return tap_done();
}
