/* Elections: the cases by name, and thousands of random ones against what must hold. */
#include "extension/election.h"
#include "regress/unit/tap.h"

#include <stdlib.h>

#define SET(...) ((IdSet){(const int32_t[]){__VA_ARGS__}, (int) (sizeof((const int32_t[]){__VA_ARGS__}) / 4)})
#define NONE     ((IdSet){NULL, 0})

static void
picks(const char *what, ElectionInput in, ElectionKind kind, int32_t want)
{
	int32_t leader = -2;

	is_int(election_pick(&in, &leader), kind, "%s: kind", what);
	is_int(leader, want, "%s: leader %d", what, want);
}

static IdSet
random_subset(IdSet of, int32_t *out)
{
	int i, n = 0;

	for (i = 0; i < of.n; i++)
		if (rand() % 2)
			out[n++] = of.ids[i];
	return (IdSet){out, n};
}

/* The first replica in order that is in both sets, -1. */
static int32_t
first_of_both(IdSet order, IdSet a, IdSet b)
{
	int i;

	for (i = 0; i < order.n; i++)
		if (id_set_has(a, order.ids[i]) && id_set_has(b, order.ids[i]))
			return order.ids[i];
	return -1;
}

static bool
holds(const ElectionInput *in)
{
	int32_t leader;
	ElectionKind kind = election_pick(in, &leader);
	int32_t clean = first_of_both(in->replicas, in->isr, in->live);
	int32_t eligible = first_of_both(in->replicas, in->elr, in->live);
	int32_t any = first_of_both(in->replicas, in->live, in->live);
	bool office = in->leader >= 0 && id_set_has(in->live, in->leader) && id_set_has(in->isr, in->leader);

	if (office)
		return kind == ELECTION_KEPT && leader == in->leader;
	if (clean >= 0)
		return kind == ELECTION_CLEAN && leader == clean;
	if (eligible >= 0)
		return kind == ELECTION_ELIGIBLE && leader == eligible;
	if (in->unclean && any >= 0)
		return kind == ELECTION_UNCLEAN && leader == any;
	return kind == ELECTION_NONE && leader == -1;
}

int
main(void)
{
	IdSet r = SET(3, 1, 2);
	int32_t buf[4][5];
	int i;

	picks("the leader in office goes on", (ElectionInput){r, SET(1, 2), NONE, SET(1, 2, 3), 2, false},
		  ELECTION_KEPT, 2);
	picks("a dead leader: first live of the ISR in assignment order",
		  (ElectionInput){r, SET(2, 1), NONE, SET(1, 2), 3, false}, ELECTION_CLEAN, 1);
	picks("a leader that left the ISR does not go on",
		  (ElectionInput){r, SET(1), NONE, SET(1, 2, 3), 2, false}, ELECTION_CLEAN, 1);
	picks("nobody of the ISR: an eligible one", (ElectionInput){r, SET(3), SET(2), SET(1, 2), 3, false},
		  ELECTION_ELIGIBLE, 2);
	picks("an eligible one before an unclean one", (ElectionInput){r, SET(3), SET(2), SET(1, 2), 3, true},
		  ELECTION_ELIGIBLE, 2);
	picks("unclean is asked for", (ElectionInput){r, SET(3), NONE, SET(1, 2), 3, true}, ELECTION_UNCLEAN, 1);
	picks("unclean is not allowed: offline", (ElectionInput){r, SET(3), NONE, SET(1, 2), 3, false},
		  ELECTION_NONE, -1);
	picks("nobody lives", (ElectionInput){r, r, r, NONE, 3, true}, ELECTION_NONE, -1);
	picks("a live broker that is no replica does not lead", (ElectionInput){r, r, NONE, SET(9), -1, true},
		  ELECTION_NONE, -1);

	srand(11);
	for (i = 0; i < 20000; i++)
	{
		static const int32_t all[] = {0, 1, 2, 3, 4};
		IdSet five = {all, 5};
		IdSet replicas = random_subset(five, buf[0]);
		ElectionInput in = {replicas,
							random_subset(replicas, buf[1]),
							random_subset(replicas, buf[2]),
							random_subset(five, buf[3]),
							-1,
							rand() % 2 == 0};

		if (replicas.n > 0 && rand() % 4 > 0)
			in.leader = replicas.ids[rand() % replicas.n];
		if (!holds(&in))
			break;
	}
	is_int(i, 20000, "random elections");

	is_int(id_set_without(SET(3, 1, 2), SET(1, 9), buf[0]), 2, "without takes away");
	ok(buf[0][0] == 3 && buf[0][1] == 2, "and keeps the order");
	return tap_done();
}
