/* Which connection of the replayer gets which partitions. */
#include "bench/load/replay_spread.h"

#include <stdio.h>

#include "regress/unit/tap.h"

/* "0 4|1|2": the partitions of each connection. */
static const char *
shares_of(const int *leaders, int n, int connections, int64_t only, char *text, size_t size)
{
	ClusterPartition partitions[16] = {0};
	Cluster c = {.partitions = partitions, .n = n};
	size_t at = 0;
	Share *shares;

	for (int i = 0; i < n; i++)
		partitions[i].leader = leaders[i];
	shares = spread(&c, connections, only);
	text[0] = '\0';
	for (int i = 0; i < connections; i++)
		for (int p = 0; p < shares[i].n || p == 0; p++)
			at += (size_t) snprintf(text + at, size - at, p < shares[i].n ? "%s%d" : "%s-",
									p > 0   ? " "
									: i > 0 ? "|"
											: "",
									p < shares[i].n ? shares[i].partitions[p] : 0);
	spread_free(shares, connections);
	return text;
}

int
main(void)
{
	static const int one[] = {1, 1, 1};
	static const int two[] = {1, 2, 1, 1};
	static const int three[] = {3, 1, 2};
	char text[256];

	is_str(shares_of(one, 3, 1, -1, text, sizeof(text)), "0 1 2", "one connection has them all");
	is_str(shares_of(one, 3, 2, -1, text, sizeof(text)), "0 2|1", "two share them");
	is_str(shares_of(one, 3, 5, -1, text, sizeof(text)), "0|1|2|0|1",
		   "with more connections several have the same");
	is_str(shares_of(two, 4, 3, -1, text, sizeof(text)), "0 3|1|2",
		   "a connection has partitions of one leader only");
	is_str(shares_of(three, 3, 6, -1, text, sizeof(text)), "0|1|2|0|1|2", "leaders get connections in turn");
	is_str(shares_of(three, 3, 2, -1, text, sizeof(text)), "0|1", "too few connections: a leader gets none");
	is_str(shares_of(three, 3, 2, 2, text, sizeof(text)), "2|2", "only one partition: all have it");
	return tap_done();
}
