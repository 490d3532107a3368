/* replay_spread.c: see replay_spread.h. */
#include "bench/load/replay_spread.h"

#include <stdlib.h>

#include "bench/load/options.h"

static void
add_partition(Share *share, int32_t p)
{
	int32_t *more = realloc(share->partitions, sizeof(*more) * ((size_t) share->n + 1));

	if (more == NULL)
		die("no memory for the partitions");
	share->partitions = more;
	share->partitions[share->n++] = p;
}

/* The partitions that are their leader's first: as many as there are leaders. */
static Share
find_leaders(const Cluster *c)
{
	Share firsts = {0};

	for (int32_t p = 0; p < c->n; p++)
	{
		int i = 0;

		while (i < firsts.n && c->partitions[firsts.partitions[i]].leader != c->partitions[p].leader)
			i++;
		if (i == firsts.n)
			add_partition(&firsts, p);
	}
	return firsts;
}

/* The partitions of leader `l` of `leaders` go to connections l, l + leaders, l + 2 leaders … */
static void
deal(const Cluster *c, Share *shares, int connections, int l, int leaders, int leader)
{
	int mine = (connections - l + leaders - 1) / leaders;
	Share owned = {0};

	for (int32_t p = 0; p < c->n; p++)
		if (c->partitions[p].leader == leader)
			add_partition(&owned, p);
	for (int i = 0; i < mine || i < owned.n; i++)
		add_partition(&shares[l + (i % mine) * leaders], owned.partitions[i % owned.n]);
	free(owned.partitions);
}

Share *
spread(const Cluster *c, int connections, int64_t only)
{
	Share *shares = calloc((size_t) connections, sizeof(*shares));
	Share firsts;

	if (shares == NULL)
		die("no memory for %d connections", connections);
	if (only >= c->n)
		die("there is no partition %d: the topic has %d", (int) only, c->n);
	if (only >= 0)
	{
		for (int i = 0; i < connections; i++)
			add_partition(&shares[i], (int32_t) only);
		return shares;
	}
	firsts = find_leaders(c);
	for (int l = 0; l < firsts.n && l < connections; l++)
		deal(c, shares, connections, l, firsts.n, c->partitions[firsts.partitions[l]].leader);
	free(firsts.partitions);
	return shares;
}

void
spread_free(Share *shares, int connections)
{
	for (int i = 0; i < connections; i++)
		free(shares[i].partitions);
	free(shares);
}
