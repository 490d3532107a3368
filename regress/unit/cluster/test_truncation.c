/*
 * test_truncation.c: where a follower cuts its log.  The header's examples, and random histories of a leader and a
 * follower with a shared beginning: round by round they come to exactly what both have.
 */
#include <stdlib.h>

#include "brokerd/cluster/truncation.h"
#include "brokerd/storage/epoch_cache.h"
#include "regress/unit/tap.h"

enum
{
	HISTORIES = 50000,
	END_MAX = 200
};

static void
test_table(void)
{
	static const struct
	{
		const char *name;
		TruncationInput in;
		int64_t want;
	} cases[] = {
		{"the epoch that both have ends earlier at the leader", {3, 40, 3, 50, 60}, 40},
		{"it ends earlier here", {3, 50, 3, 40, 60}, 40},
		{"the leader's epoch is not here: what is below it", {2, 20, 1, 30, 60}, 30},
		{"even where that is before the leader's end", {2, 45, 1, 30, 60}, 30},
		{"no epoch so old is here: the leader's end", {2, 20, -1, -1, 60}, 20},
		{"nothing of the leader's epoch: all goes", {0, 0, -1, -1, 60}, 0},
		{"the leader's end is beyond this log: nothing to cut", {3, 90, 3, 60, 60}, 60},
		{"an unknown epoch, and the leader's end is beyond", {5, 90, -1, -1, 60}, 60},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		is_int(truncation_point(&cases[i].in), cases[i].want, "%s", cases[i].name);
}

/* A log is its epoch cache and its end. */
typedef struct History
{
	EpochCache epochs;
	int64_t end;
} History;

static void
add_epoch(History *h, int32_t epoch)
{
	if (h->end >= END_MAX)
		return;
	epoch_cache_assign(&h->epochs, epoch, h->end);
	h->end += 1 + random() % 12;
}

/* Epochs are never given twice: what comes after the shared beginning is the one's or the other's. */
static int64_t
make_histories(History *leader, History *follower)
{
	int32_t epoch = 0;
	int shared = (int) (random() % 5), more = (int) (random() % 8);

	leader->epochs.n = follower->epochs.n = 0;
	leader->end = follower->end = 0;
	for (int i = 0; i < shared; i++)
	{
		epoch += 1 + (int32_t) (random() % 3);
		add_epoch(leader, epoch);
	}
	for (int i = 0; i < leader->epochs.n; i++)
		epoch_cache_assign(&follower->epochs, leader->epochs.e[i].epoch, leader->epochs.e[i].start_offset);
	follower->end = leader->end;
	/* One of the two may have less, or more, of the last epoch that they share. */
	if (shared > 0 && random() % 2 == 0)
		(random() % 2 == 0 ? leader : follower)->end += random() % 10;
	int64_t common = leader->end < follower->end ? leader->end : follower->end;
	for (int i = 0; i < more; i++)
	{
		epoch += 1 + (int32_t) (random() % 3);
		add_epoch(random() % 2 == 0 ? leader : follower, epoch);
	}
	return common;
}

/* As partition_divergence() and fetch_answer.c do it; returns how many rounds, -1 when it does not end. */
static int
converge(const History *leader, History *follower)
{
	for (int round = 0; round < 20; round++)
	{
		int32_t last = epoch_cache_latest(&follower->epochs);
		TruncationInput in = {.log_end = follower->end};

		if (last < 0)
			return round;
		epoch_cache_end(&leader->epochs, last, leader->end, &in.leader_epoch, &in.leader_end);
		/* Newer than all that the leader has: its latest one, to the end. */
		if (in.leader_epoch < 0 && leader->epochs.n > 0)
		{
			in.leader_epoch = epoch_cache_latest(&leader->epochs);
			in.leader_end = leader->end;
		}
		else if (in.leader_epoch < 0)
		{
			in.leader_epoch = last;
			in.leader_end = leader->end;
		}
		if (in.leader_epoch == last && in.leader_end >= follower->end)
			return round;
		epoch_cache_end(&follower->epochs, in.leader_epoch, follower->end, &in.own_epoch, &in.own_end);
		follower->end = truncation_point(&in);
		epoch_cache_truncate_end(&follower->epochs, follower->end);
	}
	return -1;
}

static void
test_random(void)
{
	History leader = {{0}, 0}, follower = {{0}, 0};
	int wrong = 0, endless = 0, most = 0, cut = 0;

	srandom(4711);
	for (int i = 0; i < HISTORIES; i++)
	{
		int64_t common = make_histories(&leader, &follower), before = follower.end;
		int rounds = converge(&leader, &follower);

		wrong += follower.end != common;
		endless += rounds < 0;
		most = rounds > most ? rounds : most;
		cut += follower.end < before;
	}
	is_int(endless, 0, "%d random histories of a leader and a follower come to an end", HISTORIES);
	is_int(wrong, 0, "at exactly what both have");
	ok(cut > HISTORIES / 4, "by cutting %d of them", cut);
	ok(most <= 8, "within as many rounds as there are epochs that differ, at most %d", most);
	epoch_cache_free(&leader.epochs);
	epoch_cache_free(&follower.epochs);
}

int
main(void)
{
	test_table();
	test_random();
	return tap_done();
}
