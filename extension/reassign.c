#include "reassign.h"

#include <stddef.h>

/* A pass moves everything that it can; more passes only follow up on what the last one made possible. */
enum
{
	MOST_PASSES = 64
};

typedef struct Plan
{
	ReassignBroker *brokers;
	int n;
	ReassignPartition *partitions;
	int n_partitions;
} Plan;

/* Its place in the table, -1: it may have no replicas.  While a plan is made, targets are such places. */
static int
find_broker(const Plan *plan, int32_t id)
{
	int low = 0, high = plan->n - 1;

	while (low <= high)
	{
		int middle = (low + high) / 2;

		if (plan->brokers[middle].id == id)
			return middle;
		if (plan->brokers[middle].id < id)
			low = middle + 1;
		else
			high = middle - 1;
	}
	return -1;
}

static bool
has_target(const ReassignPartition *p, int broker)
{
	for (int i = 0; i < p->factor; i++)
		if (p->target[i] == broker)
			return true;
	return false;
}

/* Is there a replica in the rack, other than the one at `but`?  A hole (-1) is in none. */
static bool
has_rack(const Plan *plan, const ReassignPartition *p, int but, int32_t rack)
{
	for (int i = 0; i < p->factor; i++)
		if (i != but && p->target[i] >= 0 && plan->brokers[p->target[i]].rack == rack)
			return true;
	return false;
}

/* The least loaded broker for place `at`: of a rack that the partition lacks when there is one.  -1: none. */
static int
best_broker(const Plan *plan, const ReassignPartition *p, int at, bool new_rack_only)
{
	int best = -1;
	bool best_is_new = false;

	for (int i = 0; i < plan->n; i++)
	{
		const ReassignBroker *b = &plan->brokers[i];
		bool is_new;

		if (b->closed || has_target(p, i))
			continue;
		is_new = !has_rack(plan, p, at, b->rack);
		if (new_rack_only && !is_new)
			continue;
		if (best < 0 || (is_new && !best_is_new) ||
			(is_new == best_is_new && (b->replicas < plan->brokers[best].replicas ||
									   (at == 0 && b->replicas == plan->brokers[best].replicas &&
										b->leaders < plan->brokers[best].leaders))))
		{
			best = i;
			best_is_new = is_new;
		}
	}
	return best;
}

static void
put(const Plan *plan, ReassignPartition *p, int at, int broker)
{
	int old = p->target[at];

	if (old >= 0)
	{
		plan->brokers[old].replicas--;
		plan->brokers[old].leaders -= at == 0;
	}
	p->target[at] = broker;
	plan->brokers[broker].replicas++;
	plan->brokers[broker].leaders += at == 0;
}

/* Which of the `n` replicas goes when there are too many: one on a closed broker, else the last one whose rack is
 * there twice, else the last. */
static int
surplus(const Plan *plan, const int32_t *ids, int n)
{
	for (int i = n - 1; i >= 0; i--)
		if (plan->brokers[ids[i]].closed)
			return i;
	for (int i = n - 1; i > 0; i--)
		for (int j = 0; j < i; j++)
			if (plan->brokers[ids[j]].rack == plan->brokers[ids[i]].rack)
				return i;
	return n - 1;
}

/* The replicas that stay, in their places where they fit, and -1 where one is to be found. */
static void
keep(const Plan *plan, ReassignPartition *p, int32_t *scratch)
{
	int n = 0, holes, used = 0, at;

	for (int i = 0; i < p->current.n; i++)
		if ((at = find_broker(plan, p->current.ids[i])) >= 0)
			scratch[n++] = at;
	while (n > p->factor)
	{
		at = surplus(plan, scratch, n);
		n--;
		for (int i = at; i < n; i++)
			scratch[i] = scratch[i + 1];
	}
	holes = p->factor - n;
	for (int i = 0, kept = 0; i < p->current.n && used < p->factor; i++)
	{
		at = find_broker(plan, p->current.ids[i]);
		if (kept < n && scratch[kept] == at)
			p->target[used++] = scratch[kept++];
		else if (holes > 0 && at < 0)
		{
			p->target[used++] = -1;
			holes--;
		}
	}
	while (used < p->factor)
		p->target[used++] = -1;
	for (int i = 0; i < p->factor; i++)
		if (p->target[i] >= 0)
		{
			ReassignBroker *b = &plan->brokers[p->target[i]];

			b->replicas++;
			b->leaders += i == 0;
		}
}

static bool
fill_holes(const Plan *plan, ReassignPartition *p)
{
	for (int i = 0; i < p->factor; i++)
		if (p->target[i] < 0)
		{
			int best = best_broker(plan, p, i, false);

			if (best < 0)
				return false;
			put(plan, p, i, best);
		}
	return true;
}

/* A rack that is there twice gives one replica to a rack that is not there. */
static void
spread_racks(const Plan *plan, ReassignPartition *p)
{
	for (int i = p->factor - 1; i > 0; i--)
		if (has_rack(plan, p, i, plan->brokers[p->target[i]].rack))
		{
			int best = best_broker(plan, p, i, true);

			if (best >= 0)
				put(plan, p, i, best);
		}
}

/* A broker with at least two replicas less than the one at `at`, where no rack comes to be there twice. */
static int
lighter_broker(const Plan *plan, const ReassignPartition *p, int at)
{
	const ReassignBroker *heavy = &plan->brokers[p->target[at]];
	bool was_twice = has_rack(plan, p, at, heavy->rack);
	int best = -1;

	for (int i = 0; i < plan->n; i++)
	{
		const ReassignBroker *b = &plan->brokers[i];

		if (!b->closed && b->replicas + 2 <= heavy->replicas &&
			(best < 0 || b->replicas < plan->brokers[best].replicas) && !has_target(p, i) &&
			(was_twice || !has_rack(plan, p, at, b->rack)))
			best = i;
	}
	return best;
}

static bool
even_replicas(const Plan *plan)
{
	int64_t least = INT64_MAX;
	bool moved = false;

	for (int i = 0; i < plan->n; i++)
		if (!plan->brokers[i].closed && plan->brokers[i].replicas < least)
			least = plan->brokers[i].replicas;
	for (int p = 0; p < plan->n_partitions; p++)
		for (int i = plan->partitions[p].factor - 1; i >= 0; i--)
		{
			int best;

			/* Most are not too heavy, and the lightest gets no lighter. */
			if (plan->brokers[plan->partitions[p].target[i]].replicas < least + 2)
				continue;
			best = lighter_broker(plan, &plan->partitions[p], i);
			if (best >= 0)
			{
				put(plan, &plan->partitions[p], i, best);
				moved = true;
			}
		}
	return moved;
}

/* The same replicas in another order cost nothing. */
static bool
even_leaders(const Plan *plan)
{
	bool moved = false;

	for (int k = 0; k < plan->n_partitions; k++)
	{
		ReassignPartition *p = &plan->partitions[k];
		int first = p->target[0], best = -1, at = 0;

		for (int i = 1; i < p->factor; i++)
		{
			int b = p->target[i];

			if (plan->brokers[b].leaders + 2 <= plan->brokers[first].leaders &&
				(best < 0 || plan->brokers[b].leaders < plan->brokers[best].leaders))
			{
				best = b;
				at = i;
			}
		}
		if (best < 0)
			continue;
		p->target[at] = first;
		p->target[0] = best;
		plan->brokers[first].leaders--;
		plan->brokers[best].leaders++;
		moved = true;
	}
	return moved;
}

/* From places in the table to ids. */
static void
name_targets(const Plan *plan)
{
	for (int p = 0; p < plan->n_partitions; p++)
		for (int i = 0; i < plan->partitions[p].factor; i++)
			plan->partitions[p].target[i] = plan->brokers[plan->partitions[p].target[i]].id;
}

bool
reassign_plan(ReassignBroker *brokers, int n, ReassignPartition *partitions, int n_partitions, bool balance)
{
	Plan plan = {brokers, n, partitions, n_partitions};
	int32_t scratch[256];

	for (int p = 0; p < n_partitions; p++)
	{
		if (partitions[p].factor < 1 || partitions[p].factor > n || partitions[p].current.n > 256)
			return false;
		keep(&plan, &partitions[p], scratch);
	}
	for (int p = 0; p < n_partitions; p++)
		if (!fill_holes(&plan, &partitions[p]))
			return false;
	for (int p = 0; balance && p < n_partitions; p++)
		spread_racks(&plan, &partitions[p]);
	for (int pass = 0; balance && pass < MOST_PASSES && even_replicas(&plan); pass++)
		;
	for (int pass = 0; balance && pass < MOST_PASSES && even_leaders(&plan); pass++)
		;
	name_targets(&plan);
	return true;
}

bool
reassign_done(const ReassignState *s)
{
	int rest = 0, target = 0, able = 0;

	for (int i = 0; i < s->adding.n; i++)
		if (!id_set_has(s->isr, s->adding.ids[i]))
			return false;
	for (int i = 0; i < s->replicas.n; i++)
		target += !id_set_has(s->removing, s->replicas.ids[i]);
	for (int i = 0; i < s->isr.n; i++)
		if (!id_set_has(s->removing, s->isr.ids[i]))
		{
			rest++;
			able += id_set_has(s->live, s->isr.ids[i]);
		}
	return able > 0 && rest >= (s->min_isr < target ? s->min_isr : target);
}
