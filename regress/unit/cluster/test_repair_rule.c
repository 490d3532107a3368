/* When a broken log may be given up, and when it is what everybody else needs (hazards A9, A13, A26). */
#include "brokerd/cluster/repair_rule.h"

#include "regress/unit/tap.h"

/* A follower out of the ISR whose log is broken, two others in sync, the minimum is two. */
static const RepairInput broken = {.is_broken = true,
								   .is_replica = true,
								   .is_leader_serving = true,
								   .n_replicas = 3,
								   .isr_size = 2,
								   .min_isr = 2,
								   .leader_epoch = 5,
								   .since_last_ms = -1};

static void
check(const char *what, RepairInput in, bool resigns, bool set_aside)
{
	is_int(repair_should_resign(&in), resigns, "%s: %s", what,
		   resigns ? "PostgreSQL is asked" : "nothing is asked");
	is_int(repair_may_set_aside(&in), set_aside, "%s: %s", what, set_aside ? "it is set aside" : "it stays");
}

static void
test_follower(void)
{
	RepairInput in = broken;

	check("out of the ISR", in, true, false);
	in.out_epoch = 5;
	check("PostgreSQL said so, the image agrees", in, false, true);
	in.out_epoch = 6;
	check("PostgreSQL said so, the image is behind", in, false, false);
	in.out_epoch = 4;
	check("it said so in an epoch that is over", in, true, false);
	in = broken;
	in.is_broken = false;
	in.out_epoch = 5;
	check("the log is well, or heals by itself", in, false, false);
	in.is_stuck = true;
	check("a follower on a disk that hangs", in, false, false);
	in = broken;
	in.is_replica = false;
	in.out_epoch = 5;
	check("no replica any more", in, false, false);
	in = broken;
	in.is_leader_serving = false;
	in.out_epoch = 5;
	check("nobody leads, or its leader is dead", in, false, false);
}

/* Who may be elected clean must not come up empty. */
static void
test_last_copies(void)
{
	RepairInput in = broken;

	in.out_epoch = 5;
	in.isr_size = 1;
	check("the ISR is below the minimum: it may be eligible", in, false, false);
	in.isr_size = 2;
	in.in_isr = true;
	check("in the ISR, and needed for the minimum", in, false, false);
	in.isr_size = 3;
	check("in the ISR by the image, whatever was said", in, false, false);
	in.out_epoch = 0;
	check("in the ISR, with enough others", in, true, false);
	in = broken;
	in.n_replicas = in.isr_size = in.min_isr = 1;
	in.in_isr = in.is_leading = true;
	in.is_leader_serving = false;
	in.out_epoch = 5;
	check("the only replica", in, false, false);
}

static void
test_leader(void)
{
	RepairInput in = broken;

	in.in_isr = in.is_leading = true;
	in.is_leader_serving = false;
	in.isr_size = 3;
	check("a leader", in, true, false);
	in.out_epoch = 5;
	check("a leader, whatever was said", in, true, false);
	in.isr_size = 1;
	check("a leader alone in the ISR: another may be eligible", in, true, false);
	in.is_broken = false;
	in.isr_size = 3;
	check("a leader whose log is well", in, false, false);
	in.is_stuck = true;
	check("a leader whose disk hangs", in, true, false);
}

/* A disk that breaks each log anew. */
static void
test_pause(void)
{
	RepairInput in = broken;

	in.out_epoch = 5;
	in.set_aside = 1;
	in.since_last_ms = REPAIR_PAUSE_FIRST_MS - 1;
	check("once before, just now", in, false, false);
	in.since_last_ms++;
	check("once before, a minute ago", in, false, true);
	in.set_aside = 2;
	check("twice before, a minute ago", in, false, false);
	in.since_last_ms *= 2;
	check("twice before, two minutes ago", in, false, true);
	in.set_aside = 1000;
	in.since_last_ms = REPAIR_PAUSE_MOST_MS - 1;
	check("a thousand times, just under an hour ago", in, false, false);
	in.since_last_ms = REPAIR_PAUSE_MOST_MS;
	check("a thousand times, an hour ago", in, false, true);
	in.is_leading = in.in_isr = true;
	in.since_last_ms = 0;
	check("a leadership is given up at once all the same", in, true, false);
}

int
main(void)
{
	test_follower();
	test_last_copies();
	test_leader();
	test_pause();
	return tap_done();
}
