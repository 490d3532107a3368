/* test_nearest.c: which replica a consumer is told to read from, case by case, and what holds for random inputs. */
#include <stdlib.h>

#include "brokerd/api/nearest.h"
#include "regress/unit/tap.h"

/* Their logs begin at 10.  The leader, which is not among them, is broker 1. */
static const NearReplica two_in_b[] = {
	{2, "a", true, true, 10, 90, 500},
	{3, "b", true, true, 10, 80, 500},
	{4, "b", true, true, 10, 90, 500},
};
static const NearReplica tie[] = {
	{3, "b", true, true, 10, 90, 400},
	{4, "b", true, true, 10, 90, 500},
	{5, "b", true, true, 10, 90, 300},
};
static const NearReplica same[] = {
	{4, "b", true, true, 10, 90, 500},
	{3, "b", true, true, 10, 90, 500},
};
static const NearReplica out_of_sync[] = {{3, "b", false, true, 10, 90, 500}};
static const NearReplica gone[] = {{3, "b", true, false, 10, 90, 500}};
static const NearReplica unheard[] = {{3, "b", true, true, 0, -1, 500}};
static const NearReplica second_best[] = {
	{3, "b", true, false, 10, 90, 500},
	{4, "b", true, true, 10, 50, 100},
};
static const NearReplica nowhere[] = {{3, NULL, true, true, 10, 90, 500}};

#define REPLICAS(r) (r), (int) (sizeof(r) / sizeof(*(r)))

static void
test_table(void)
{
	static const struct
	{
		const char *name;
		const char *rack, *leader_rack;
		int64_t offset;
		const NearReplica *replicas;
		int n;
		int32_t want;
	} cases[] = {
		{"the one in its rack", "a", "c", 50, REPLICAS(two_in_b), 2},
		{"of two the one that has more", "b", "c", 50, REPLICAS(two_in_b), 4},
		{"of equals the one that was caught up last", "b", "c", 50, REPLICAS(tie), 4},
		{"of two that are alike always the same", "b", "c", 50, REPLICAS(same), 4},
		{"the leader, where it is in the rack", "b", "b", 50, REPLICAS(two_in_b), -1},
		{"no rack is like another", "x", "c", 50, REPLICAS(two_in_b), -1},
		{"a prefix is another rack", "bb", "c", 50, REPLICAS(two_in_b), -1},
		{"racks are told apart by case", "B", "c", 50, REPLICAS(two_in_b), -1},
		{"the client names none", "", "c", 50, REPLICAS(two_in_b), -1},
		{"the leader has none", "b", NULL, 50, REPLICAS(two_in_b), 4},
		{"a replica without one is in no rack", "b", "c", 50, REPLICAS(nowhere), -1},
		{"nor for a client without one", "", NULL, 50, REPLICAS(nowhere), -1},
		{"at the log start", "b", "c", 10, REPLICAS(two_in_b), 4},
		{"before it", "b", "c", 9, REPLICAS(two_in_b), -1},
		{"at its end it waits there", "b", "c", 90, REPLICAS(two_in_b), 4},
		{"beyond it", "b", "c", 91, REPLICAS(two_in_b), -1},
		{"out of sync", "b", "c", 50, REPLICAS(out_of_sync), -1},
		{"not reachable", "b", "c", 50, REPLICAS(gone), -1},
		{"not heard of yet", "b", "c", 0, REPLICAS(unheard), -1},
		{"another one than the one that is gone", "b", "c", 50, REPLICAS(second_best), 4},
		{"no followers", "b", "c", 50, NULL, 0, -1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		is_int(nearest_choose(wstr(cases[i].rack), cases[i].leader_rack, cases[i].offset, cases[i].replicas,
							  cases[i].n),
			   cases[i].want, "%s", cases[i].name);
	is_int(nearest_choose((WStr){NULL, -1}, NULL, 50, REPLICAS(nowhere)), -1, "a rack that is null");
}

static void
test_random(void)
{
	static const char *const racks[] = {NULL, "a", "b", "c"};
	bool fits = true, best = true, leader = true;

	srandom(4711);
	for (int i = 0; i < 100000; i++)
	{
		NearReplica r[3];
		const char *rack = racks[1 + random() % 3], *leader_rack = racks[random() % 4];
		int64_t offset = random() % 20;
		int32_t chosen;

		for (int k = 0; k < 3; k++)
			r[k] = (NearReplica){k + 2,         racks[random() % 4], random() % 4 != 0, random() % 4 != 0,
								 random() % 10, random() % 20 - 1,   random() % 5};
		chosen = nearest_choose(wstr(rack), leader_rack, offset, r, 3);
		leader = leader && (chosen < 0 || leader_rack == NULL || strcmp(leader_rack, rack) != 0);
		for (int k = 0; k < 3; k++)
		{
			const NearReplica *one = &r[k];
			bool can = one->rack != NULL && strcmp(one->rack, rack) == 0 && one->in_sync && one->reachable &&
					   one->log_start <= offset && one->end >= offset;

			fits = fits && (one->id != chosen || can);
			if (can && (leader_rack == NULL || strcmp(leader_rack, rack) != 0))
				best = best && chosen >= 2 && r[chosen - 2].end >= one->end;
		}
	}
	ok(fits, "of 100,000 random inputs none sends a consumer to a replica that cannot answer it");
	ok(best, "nor past one that has more");
	ok(leader, "nor away from a leader in the rack");
}

int
main(void)
{
	test_table();
	test_random();
	return tap_done();
}
