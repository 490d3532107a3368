/* Reassignment: plans by name and thousands of random ones against what must hold; when a move is done. */
#include "extension/reassign.h"
#include "regress/unit/tap.h"

#include <stdlib.h>
#include <string.h>

#define SET(...) ((IdSet){(const int32_t[]){__VA_ARGS__}, (int) (sizeof((const int32_t[]){__VA_ARGS__}) / 4)})
#define NONE     ((IdSet){NULL, 0})
#define MOST     200
#define WIDEST   6

static ReassignBroker brokers[32];
static ReassignPartition partitions[MOST];
static int32_t current[MOST][WIDEST], target[MOST][WIDEST];

static void
make_brokers(int n, int racks)
{
	memset(brokers, 0, sizeof(brokers));
	for (int i = 0; i < n; i++)
		brokers[i] = (ReassignBroker){.id = 1 + i, .rack = racks > 0 ? i % racks : i};
}

static void
set_partition(int p, IdSet has, int32_t factor)
{
	if (has.n > 0)
		memcpy(current[p], has.ids, sizeof(int32_t) * (size_t) has.n);
	partitions[p] = (ReassignPartition){{current[p], has.n}, factor, target[p]};
}

static void
plans(const char *what, bool balance, int n, int racks, IdSet has, IdSet want)
{
	bool same;

	make_brokers(n, racks);
	set_partition(0, has, want.n);
	ok(reassign_plan(brokers, n, partitions, 1, balance), "%s: a plan", what);
	same = memcmp(target[0], want.ids, sizeof(int32_t) * (size_t) want.n) == 0;
	ok(same, "%s: {%d,%d,%d...}", what, target[0][0], target[0][1], target[0][2]);
}

static void
test_single(void)
{
	plans("as it is", false, 4, 0, SET(2, 3, 1), SET(2, 3, 1));
	plans("one more", false, 3, 0, SET(3, 1), SET(3, 1, 2));
	plans("one less", false, 3, 0, SET(3, 1, 2), SET(3, 1));
	plans("one less, of the rack that is there twice", false, 4, 2, SET(1, 3, 2), SET(1, 2));
	plans("broker 9 goes, its place is taken", false, 3, 0, SET(1, 9, 3), SET(1, 2, 3));
	plans("the preferred one goes", false, 3, 0, SET(9, 2, 3), SET(1, 2, 3));
	plans("one goes and less are wished", false, 3, 0, SET(9, 2, 3), SET(2, 3));
	plans("a new rack before a light broker", false, 4, 2, SET(1), SET(1, 2));
	plans("nothing was there", false, 3, 3, NONE, SET(1, 2, 3));
	plans("a rack twice is mended when balanced", true, 4, 2, SET(1, 3), SET(1, 2));
	make_brokers(4, 0);
	brokers[0].closed = brokers[2].closed = true;
	set_partition(0, SET(1, 2), 3);
	ok(reassign_plan(brokers, 4, partitions, 1, false) && target[0][0] == 1 && target[0][2] == 4,
	   "a dead broker keeps its replica and gets no other");
	make_brokers(4, 0);
	brokers[0].closed = true;
	set_partition(0, SET(1, 2, 3), 2);
	ok(reassign_plan(brokers, 4, partitions, 1, false) && target[0][0] == 2 && target[0][1] == 3,
	   "of too many its replica goes first");
	make_brokers(2, 0);
	brokers[1].closed = true;
	set_partition(0, SET(1), 2);
	ok(!reassign_plan(brokers, 2, partitions, 1, false), "nobody is left who may get one: no plan");
	make_brokers(2, 0);
	set_partition(0, SET(1, 2), 3);
	ok(!reassign_plan(brokers, 2, partitions, 1, false), "more replicas than brokers: no plan");
}

static void
test_even(void)
{
	int high = 0, low = MOST, lead_high = 0, lead_low = MOST;

	/* Two new brokers take part: 4 brokers, everything on the first two. */
	make_brokers(4, 0);
	for (int p = 0; p < 40; p++)
		set_partition(p, SET(1, 2), 2);
	ok(reassign_plan(brokers, 4, partitions, 40, true), "new brokers: a plan");
	for (int i = 0; i < 4; i++)
	{
		high = brokers[i].replicas > high ? (int) brokers[i].replicas : high;
		low = brokers[i].replicas < low ? (int) brokers[i].replicas : low;
		lead_high = brokers[i].leaders > lead_high ? (int) brokers[i].leaders : lead_high;
		lead_low = brokers[i].leaders < lead_low ? (int) brokers[i].leaders : lead_low;
	}
	is_int(high, 20, "new brokers: at most 20 replicas each");
	is_int(low, 20, "new brokers: at least 20");
	ok(lead_high - lead_low <= 2, "new brokers: leaders even, %d to %d", lead_low, lead_high);
}

static int
distinct_racks(const int32_t *ids, int n, int racks)
{
	bool seen[32] = {false};
	int count = 0;

	for (int i = 0; i < n; i++)
	{
		int rack = racks > 0 ? (ids[i] - 1) % racks : ids[i] - 1;

		count += !seen[rack];
		seen[rack] = true;
	}
	return count;
}

/* NULL: all that must hold does. */
static const char *
broken(const ReassignPartition *p, int n, int racks, bool balance)
{
	int kept = 0, could = 0, most = racks > 0 && racks < n ? racks : n;
	IdSet now = {p->target, p->factor};

	for (int i = 0; i < p->factor; i++)
	{
		IdSet before = {p->target, i};

		if (p->target[i] < 1 || p->target[i] > n)
			return "a broker that may have none";
		if (id_set_has(before, p->target[i]))
			return "a broker twice";
	}
	for (int i = 0; i < p->current.n; i++)
	{
		could += p->current.ids[i] <= n;
		kept += id_set_has(now, p->current.ids[i]);
	}
	if (!balance && kept != (could < p->factor ? could : p->factor))
		return "more was moved than had to be";
	if (balance && distinct_racks(p->target, p->factor, racks) != (p->factor < most ? p->factor : most))
		return "a rack twice while another was free";
	return NULL;
}

static void
test_random(void)
{
	const char *why = NULL;

	for (int round = 0; round < 3000 && why == NULL; round++)
	{
		int n = 1 + rand() % 12, racks = rand() % 4, count = 1 + rand() % 30;
		bool balance = rand() % 2;
		int64_t sum = 0, want = 0;

		make_brokers(n, racks);
		for (int i = 0; i < n; i++)
		{
			brokers[i].replicas = rand() % 5;
			want += brokers[i].replicas;
		}
		for (int p = 0; p < count; p++)
		{
			int32_t ids[WIDEST];
			int k = 0, has = rand() % WIDEST;

			/* Some are on brokers that have to give them up. */
			for (int i = 0; i < has; i++)
			{
				int32_t id = 1 + rand() % (n + 3);

				if (!id_set_has((IdSet){ids, k}, id))
					ids[k++] = id;
			}
			set_partition(p, (IdSet){ids, k}, 1 + rand() % (n < WIDEST ? n : WIDEST));
			want += partitions[p].factor;
		}
		if (!reassign_plan(brokers, n, partitions, count, balance))
			why = "no plan";
		for (int p = 0; p < count && why == NULL; p++)
			why = broken(&partitions[p], n, racks, balance);
		for (int i = 0; i < n; i++)
			sum += brokers[i].replicas;
		if (why == NULL && sum != want)
			why = "the counts do not add up";
	}
	ok(why == NULL, "3000 random plans%s%s", why == NULL ? "" : ": ", why == NULL ? "" : why);
}

static void
done(const char *what, bool want, ReassignState state)
{
	ok(reassign_done(&state) == want, "%s: %s", what, want ? "done" : "not yet");
}

static void
test_done(void)
{
	ReassignState s = {.replicas = SET(1, 4, 2, 3),
					   .adding = SET(4),
					   .removing = SET(2, 3),
					   .live = SET(1, 2, 3, 4),
					   .min_isr = 2};

	s.isr = SET(1, 2, 3);
	done("the new one is not in sync", false, s);
	s.isr = SET(1, 2, 3, 4);
	done("all in sync", true, s);
	s.isr = SET(2, 3, 4);
	done("one copy would be left of what two have", false, s);
	s.min_isr = 1;
	done("which min.insync.replicas 1 allows", true, s);
	s.live = SET(1, 2, 3);
	done("but it cannot lead", false, s);
	s = (ReassignState){
		.replicas = SET(1, 2, 3), .removing = SET(2, 3), .isr = SET(1, 2), .live = SET(1, 2), .min_isr = 2};
	done("to one replica: more than one copy cannot be asked for", true, s);
	s.isr = SET(2);
	done("the one that stays is not in sync", false, s);
}

/* What the members of the ISR have, somebody of the rest has too, and he can lead. */
static void
test_done_random(void)
{
	bool held = true;

	for (int round = 0; round < 20000 && held; round++)
	{
		int32_t ids[5][6];
		int n[5] = {0};
		ReassignState s;

		for (int id = 1; id <= 6; id++)
		{
			ids[0][n[0]++] = id;
			if (rand() % 3 == 0)
				ids[1][n[1]++] = id;
			else if (rand() % 2)
				ids[2][n[2]++] = id;
			if (rand() % 3)
				ids[3][n[3]++] = id;
			if (rand() % 4)
				ids[4][n[4]++] = id;
		}
		s = (ReassignState){{ids[0], n[0]}, {ids[1], n[1]}, {ids[2], n[2]},
							{ids[3], n[3]}, {ids[4], n[4]}, 1 + rand() % 3};
		if (reassign_done(&s))
		{
			int copies = 0, able = 0, size = 0;

			for (int id = 1; id <= 6; id++)
			{
				bool stays = !id_set_has(s.removing, id);

				size += stays;
				copies += stays && id_set_has(s.isr, id);
				able += stays && id_set_has(s.isr, id) && id_set_has(s.live, id);
				held = held && (!id_set_has(s.adding, id) || id_set_has(s.isr, id));
			}
			held = held && able > 0 && (copies >= s.min_isr || copies == size);
		}
	}
	ok(held, "20000 random states: nothing that was acknowledged loses its copies");
}

static void
test_min_isr(void)
{
	is_int(min_isr_of(-1, 1, 0, 0), 1, "one replica: 1");
	is_int(min_isr_of(-1, 2, 0, 0), 1, "two replicas: 1");
	is_int(min_isr_of(-1, 3, 0, 0), 2, "three: 2");
	is_int(min_isr_of(-1, 5, 0, 0), 2, "five: 2");
	is_int(min_isr_of(-1, 3, 2, 0), 1, "growing from one to three: still 1");
	is_int(min_isr_of(-1, 3, 0, 2), 1, "shrinking from three to one: 1 already");
	is_int(min_isr_of(-1, 5, 2, 2), 2, "three that move: 2");
	is_int(min_isr_of(1, 3, 0, 0), 1, "set to 1");
	is_int(min_isr_of(3, 2, 0, 0), 2, "set to more than there are");
}

int
main(void)
{
	srand(7);
	test_single();
	test_even();
	test_random();
	test_done();
	test_done_random();
	test_min_isr();
	return tap_done();
}
