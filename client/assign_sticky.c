/*
 * assign_sticky.c: sticky and cooperative-sticky.  Everybody keeps what it had as far as the balance allows; when all
 * subscribe to the same topics that is a matter of quotas (here), otherwise of moves (assign_general.c).
 */
#include "client/assign.h"

/* ---- claims: who had what ---- */

/*
 * A partition that two members claim belongs to the one of the newer generation, and to nobody when they are of the
 * same one: then neither can know.
 */
static int
make_claims(AssignGroup *g, Claims *c)
{
	int32_t *claimed = assign_numbers(g, g->n_parts);
	const AssignMember *first = NULL;

	*c = (Claims){.max_generation = -1, .equal = true};
	c->order = assign_numbers(g, g->n_members);
	c->had = assign_numbers(g, g->n_parts);
	c->many = assign_numbers(g, g->n_parts);
	c->revoked = assign_numbers(g, g->n_parts);
	if (g->arena->failed)
		return -1;
	for (int32_t i = 0; i < g->n_parts; i++)
		claimed[i] = c->had[i] = c->revoked[i] = -1;
	assign_order(g, c->order);
	for (int32_t i = 0; i < g->n_members; i++)
	{
		int32_t me = c->order[i];
		const AssignMember *m = &g->members[me];

		/* Who subscribes to nothing is none to compare with. */
		if (first == NULL || memchr(first->takes, true, (size_t) g->n_topics) == NULL)
			first = m;
		else if (memcmp(first->takes, m->takes, (size_t) g->n_topics) != 0)
			c->equal = false;
		if (m->generation > c->max_generation)
			c->max_generation = m->generation;
		for (int32_t k = 0; k < m->n_owned; k++)
		{
			int32_t part = m->owned[k], other = claimed[part];
			int32_t theirs = other < 0 ? INT32_MIN : g->members[other].sub_generation;

			if (m->generation < theirs)
				continue;
			claimed[part] = me;
			c->many[part] = c->many[part] || m->generation == theirs;
			c->had[part] = m->generation == theirs ? -1 : me;
		}
	}
	return 0;
}

/* ---- all subscribe to the same ---- */

typedef struct Quotas
{
	int32_t low, high;
	int32_t expected, over; /* members with more than `low`: as many as it takes, so far */
	int32_t *under;         /* members below low, by id */
	int32_t n_under;
	int32_t *at_low; /* members at low that may get one more, in turn */
	int32_t n_at_low, first_at_low;
	int32_t *count;
} Quotas;

static int
by_partition(const void *group, int32_t a, int32_t b)
{
	const AssignGroup *g = group;

	return (a - g->topics[g->topic[a]].first) - (b - g->topics[g->topic[b]].first);
}

/* The claims of a member by partition, then by topic. */
static int32_t
claims_of(const AssignGroup *g, const Claims *c, int32_t me, int32_t *list)
{
	int32_t n = 0;

	for (int32_t part = 0; part < g->n_parts; part++)
		if (c->had[part] == me && !c->many[part])
			list[n++] = part;
	assign_sort(list, n, by_partition, g);
	return n;
}

static void
keep(AssignGroup *g, Claims *c, Quotas *q, int32_t me, int32_t *list)
{
	int32_t n = claims_of(g, c, me, list), kept = q->low;

	if (n < q->low)
	{
		kept = n;
		q->under[q->n_under++] = me;
	}
	else if (n >= q->high && q->over < q->expected)
	{
		kept = q->high;
		if (++q->over == q->expected)
			q->n_at_low = 0;
	}
	else if (q->over < q->expected)
		q->at_low[q->n_at_low++] = me;
	for (int32_t i = 0; i < n; i++)
		if (i < kept)
			g->owner[list[i]] = me;
		else
			c->revoked[list[i]] = me;
	q->count[me] = kept;
}

static void
give_rest(AssignGroup *g, Claims *c, Quotas *q)
{
	int32_t at = 0;

	for (int32_t part = 0; part < g->n_parts; part++)
	{
		int32_t me;

		if (g->owner[part] >= 0)
			continue;
		if (at >= q->n_under)
			at = 0;
		if (q->n_under > 0)
			me = q->under[at];
		else if (q->first_at_low < q->n_at_low)
			me = q->at_low[q->first_at_low++];
		else
			return;
		g->owner[part] = me;
		g->moving[part] = c->many[part] || (c->revoked[part] >= 0 && c->revoked[part] != me);
		if (++q->count[me] == q->low)
		{
			memmove(q->under + at, q->under + at + 1, sizeof(int32_t) * (size_t) (q->n_under - at - 1));
			q->n_under--;
			q->at_low[q->n_at_low++] = me;
		}
		else
			at++;
	}
}

static int
assign_by_quota(AssignGroup *g, Claims *c)
{
	Quotas q = {.low = g->n_parts / g->n_members, .expected = g->n_parts % g->n_members};
	int32_t *list = assign_numbers(g, g->n_parts);

	q.high = q.low + (q.expected > 0);
	q.under = assign_numbers(g, g->n_members);
	q.at_low = assign_numbers(g, g->n_members * 2);
	q.count = assign_numbers(g, g->n_members);
	if (g->arena->failed)
		return -1;
	for (int32_t i = 0; i < g->n_members; i++)
		keep(g, c, &q, c->order[i], list);
	assign_sort(q.under, q.n_under, assign_by_id, g);
	assign_sort(q.at_low, q.n_at_low, assign_by_id, g);
	give_rest(g, c, &q);
	return 0;
}

/* ---- the assignor ---- */

/* Moves between members that had it and others: what was added to one and taken from another. */
static void
find_moving(AssignGroup *g)
{
	for (int32_t me = 0; me < g->n_members; me++)
		for (int32_t k = 0; k < g->members[me].n_owned; k++)
		{
			int32_t part = g->members[me].owned[k], owner = g->owner[part];
			bool had = owner < 0 || owner == me;

			for (int32_t i = 0; !had && i < g->members[owner].n_owned; i++)
				had = g->members[owner].owned[i] == part;
			if (!had)
				g->moving[part] = true;
		}
}

int
assign_sticky(AssignGroup *g)
{
	Claims c;

	if (make_claims(g, &c) != 0)
		return -1;
	if (c.equal)
		return assign_by_quota(g, &c);
	if (assign_general(g, &c) != 0)
		return -1;
	find_moving(g);
	return 0;
}
