#include "placement.h"

#include <stdlib.h>
#include <string.h>

static int
by_rack_then_id(const void *a, const void *b)
{
	const PlacementBroker *x = a, *y = b;

	if (x->rack != y->rack)
		return x->rack < y->rack ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* Racks in turn: a1 b1 c1 a2 b2 a3.  `brokers` is sorted by rack; a broker's turn is its place in its rack. */
static void
interleave_racks(PlacementBroker *brokers, int n, PlacementBroker *scratch)
{
	int turn, i, k, used = 0;

	for (turn = 0; used < n; turn++)
		for (i = 0, k = 0; i < n; i++)
		{
			k = i > 0 && brokers[i].rack == brokers[i - 1].rack ? k + 1 : 0;
			if (k == turn)
				scratch[used++] = brokers[i];
		}
	memcpy(brokers, scratch, (size_t) n * sizeof(*brokers));
}

static bool
has_broker(const int32_t *replicas, int n, int32_t id)
{
	int i;

	for (i = 0; i < n; i++)
		if (replicas[i] == id)
			return true;
	return false;
}

static bool
has_rack(const PlacementBroker *brokers, int n, const int32_t *replicas, int placed, int32_t rack)
{
	int i;

	for (i = 0; i < n; i++)
		if (brokers[i].rack == rack && has_broker(replicas, placed, brokers[i].id))
			return true;
	return false;
}

/* The first broker from `from` on that the partition does not have; a rack that it has only when it must be. */
static int32_t
next_replica(const PlacementBroker *brokers, int n, int from, const int32_t *replicas, int placed)
{
	int pass, i;

	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < n; i++)
		{
			const PlacementBroker *b = &brokers[(from + i) % n];

			if (!has_broker(replicas, placed, b->id) &&
				(pass == 1 || !has_rack(brokers, n, replicas, placed, b->rack)))
				return b->id;
		}
	return -1;
}

bool
placement_spread(PlacementBroker *brokers, int n, int32_t partitions, int32_t factor, uint32_t start,
				 int32_t *out)
{
	PlacementBroker *scratch;
	int32_t p, r;

	if (factor < 1 || factor > n)
		return false;
	scratch = malloc((size_t) n * sizeof(*scratch));
	if (scratch == NULL)
		return false;
	qsort(brokers, (size_t) n, sizeof(*brokers), by_rack_then_id);
	interleave_racks(brokers, n, scratch);
	free(scratch);

	for (p = 0; p < partitions; p++)
	{
		int32_t *replicas = out + (size_t) p * (size_t) factor;
		uint32_t at = start + (uint32_t) p;
		int first = (int) (at % (uint32_t) n);
		/* Each round over the brokers moves the followers one further from their leader. */
		int shift = n > 1 ? 1 + (int) (at / (uint32_t) n % (uint32_t) (n - 1)) : 0;

		replicas[0] = brokers[first].id;
		for (r = 1; r < factor; r++)
			replicas[r] = next_replica(brokers, n, first + shift + r - 1, replicas, r);
	}
	return true;
}
