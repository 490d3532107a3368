/* Placement: what must hold for any number of brokers, racks, partitions and replicas. */
#include "extension/placement.h"
#include "regress/unit/tap.h"

#include <stdlib.h>

#define MOST 2000

static PlacementBroker brokers[64];
static int32_t out[MOST * 8];

static void
make(int n, int racks)
{
	int i;

	for (i = 0; i < n; i++)
		brokers[i] = (PlacementBroker){.id = 100 + i, .rack = racks > 0 ? i % racks : i};
}

static int
rack_of(int32_t id, int racks)
{
	return racks > 0 ? (id - 100) % racks : id - 100;
}

/* NULL: all that must hold does. */
static const char *
broken(int n, int racks, int partitions, int factor)
{
	int leaders[64] = {0}, replicas[64] = {0};
	int p, r, s, low = MOST, high = 0, rep_low = MOST * 8, rep_high = 0,
				 distinct = racks > 0 && racks < n ? racks : n;

	for (p = 0; p < partitions; p++)
	{
		int seen_racks = 0;

		for (r = 0; r < factor; r++)
		{
			int32_t id = out[p * factor + r];
			bool new_rack = true;

			if (id < 100 || id >= 100 + n)
				return "a broker that is not there";
			for (s = 0; s < r; s++)
			{
				if (out[p * factor + s] == id)
					return "a broker twice";
				if (rack_of(out[p * factor + s], racks) == rack_of(id, racks))
					new_rack = false;
			}
			seen_racks += new_rack;
			replicas[id - 100]++;
		}
		if (seen_racks != (factor < distinct ? factor : distinct))
			return "a rack twice while another was left";
		leaders[out[p * factor] - 100]++;
	}
	for (p = 0; p < n; p++)
	{
		low = leaders[p] < low ? leaders[p] : low;
		high = leaders[p] > high ? leaders[p] : high;
		rep_low = replicas[p] < rep_low ? replicas[p] : rep_low;
		rep_high = replicas[p] > rep_high ? replicas[p] : rep_high;
	}
	if (high - low > 1)
		return "uneven leaders";
	if ((racks == 0 || n % racks == 0) && partitions % n == 0 && rep_high - rep_low > 2 * factor)
		return "uneven replicas";
	return NULL;
}

int
main(void)
{
	int i, follows[64] = {0};
	const char *why = NULL;

	make(2, 0);
	ok(!placement_spread(brokers, 2, 1, 3, 0, out), "more replicas than brokers");
	ok(!placement_spread(brokers, 2, 1, 0, 0, out), "no replicas");

	srand(3);
	for (i = 0; i < 3000 && why == NULL; i++)
	{
		int n = rand() % 30 + 1, racks = rand() % 2 ? 0 : rand() % n + 1,
			factor = rand() % (n < 6 ? n : 6) + 1, partitions = rand() % 200 + 1;

		make(n, racks);
		if (!placement_spread(brokers, n, partitions, factor, (uint32_t) rand(), out))
			why = "refused";
		else
			why = broken(n, racks, partitions, factor);
		if (why != NULL)
			printf("# %s: %d brokers, %d racks, %d partitions, %d replicas\n", why, n, racks, partitions,
				   factor);
	}
	ok(why == NULL, "3,000 random placements are sound");

	make(3, 0);
	for (i = 0; i < 3; i++)
		ok(placement_spread(brokers, 3, 1, 1, (uint32_t) i, out) && out[0] == 100 + i,
		   "single partitions go round: %d", out[0]);

	make(10, 0);
	ok(placement_spread(brokers, 10, 90, 3, 0, out), "90 partitions on 10 brokers");
	for (i = 0; i < 90; i++)
		if (out[i * 3] == 100)
			follows[out[i * 3 + 1] - 100]++;
	for (i = 1; i < 10; i++)
		is_int(follows[i], 1, "the followers of one leader are spread");
	return tap_done();
}
