/*
 * assign_sticky.c: sticky and cooperative-sticky.  Everybody keeps what it had as far as the balance allows.
 *
 * Where all subscribe to the same topics that is a matter of quotas.  Otherwise what members had is kept, and the rest goes,
 * one by one, to the member with the fewest that may have it; then partitions move from who has more to who has less, until
 * nothing can be gained.  A move back along a former one is made with the partition that had moved, to undo it.
 */
#include "client/assign.h"

#include <stdlib.h>

/* ---- claims: who had what ---- */

typedef struct Claims
{
	int32_t *order;
	int32_t *had;     /* the member that keeps its claim to a partition, or -1 */
	int32_t *many;    /* claimed by several of one generation */
	int32_t *revoked; /* with quotas: who had it and lost it, or -1 */
	int32_t max_generation;
	bool equal; /* all subscribe to the same */
} Claims;

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
	(void) assign_members(g, -1, assign_by_bucket, &c->order);
	c->had = assign_numbers(g, g->n_parts);
	c->many = assign_numbers(g, g->n_parts);
	c->revoked = assign_numbers(g, g->n_parts);
	if (g->arena->failed)
		return -1;
	for (int32_t i = 0; i < g->n_parts; i++)
		claimed[i] = c->had[i] = c->revoked[i] = -1;
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

/* Its claims by partition, then by topic, as far as its quota goes. */
static void
keep(AssignGroup *g, Claims *c, Quotas *q, int32_t me, int32_t *list)
{
	int32_t n = 0, kept = q->low;

	for (int32_t part = 0; part < g->n_parts; part++)
		if (c->had[part] == me && !c->many[part])
			list[n++] = part;
	assign_sort(list, n, by_partition, g);
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

/* ---- subscriptions differ ---- */

/* Partitions of a topic that moved from one member to another and did not move on. */
typedef struct Pair
{
	struct Pair *next;
	int32_t topic, from, to;
	int32_t n, cap; /* as its hash set in Java has them: the order of the set follows from the capacity */
} Pair;

typedef struct Seat
{
	int32_t count;
	int32_t most; /* all that the member could have */
	bool fixed;   /* nothing can be moved from it or to it */
} Seat;

typedef struct Past
{
	int32_t before, generation; /* who had the partition in an older generation, or -1 */
	int32_t from, to, when;     /* how it moved; from -1 = it has not */
} Past;

typedef struct Balance
{
	AssignGroup *g;
	Seat *seats;     /* by member */
	Past *past;      /* by partition */
	int32_t *takers; /* by topic: how many members */
	int32_t *top;    /* scratch: by topic the largest count of an owner */
	int32_t *all;    /* partitions in the order in which they are looked at */
	int32_t *loose;  /* those without an owner, in the same order */
	int32_t n_all, n_loose;
	int32_t clock;
	Pair *pairs;
} Balance;

/* The member with the fewest that may have the topic, the first by id of those. */
static int32_t
poorest(const Balance *b, int32_t topic, bool with_fixed)
{
	int32_t best = -1;

	for (int32_t i = 0; i < b->g->n_members; i++)
	{
		int32_t more = best < 0 ? -1 : b->seats[i].count - b->seats[best].count;

		if (b->g->members[i].takes[topic] && (with_fixed || !b->seats[i].fixed) && more <= 0 &&
			(more < 0 || assign_by_id(b->g, i, best) < 0))
			best = i;
	}
	return best;
}

/* ---- moves ---- */

/* NULL: there is none. */
static Pair *
find_pair(Balance *b, int32_t topic, int32_t from, int32_t to)
{
	Pair *p = b->pairs;

	while (p != NULL && (p->topic != topic || p->from != from || p->to != to))
		p = p->next;
	return p;
}

/* The partition to move instead of `part`: one that came the other way, if there is one. */
static int32_t
to_be_moved(Balance *b, int32_t part, int32_t to)
{
	const AssignTopic *t = &b->g->topics[b->g->topic[part]];
	int32_t from = b->past[part].from >= 0 ? b->past[part].from : b->g->owner[part], best = -1;
	const Pair *back = find_pair(b, b->g->topic[part], to, from);
	uint32_t best_bucket = 0;

	for (int32_t i = t->first; back != NULL && i < t->first + t->n; i++)
	{
		uint32_t bucket = assign_part_hash(b->g, i) & ((uint32_t) back->cap - 1);

		if (b->past[i].from != to || b->past[i].to != from)
			continue;
		if (best < 0 || bucket < best_bucket ||
			(bucket == best_bucket && b->past[i].when < b->past[best].when))
		{
			best = i;
			best_bucket = bucket;
		}
	}
	return best < 0 ? part : best;
}

/* False: no memory. */
static bool
move(Balance *b, int32_t part, int32_t to)
{
	int32_t topic = b->g->topic[part], from, first;
	Past *past;
	Pair *p;

	part = to_be_moved(b, part, to);
	past = &b->past[part];
	from = b->g->owner[part];
	b->seats[from].count--;
	b->seats[to].count++;
	b->g->owner[part] = to;
	/* What had moved already now comes from where it was first. */
	first = past->from >= 0 ? past->from : from;
	if (past->from >= 0 && (p = find_pair(b, topic, first, past->to)) != NULL)
		p->n--;
	past->from = -1;
	if (first == to)
		return true;
	p = find_pair(b, topic, first, to);
	if (p == NULL)
	{
		if ((p = arena_alloc(b->g->arena, sizeof(*p))) == NULL)
			return false;
		*p = (Pair){.next = b->pairs, .topic = topic, .from = first, .to = to};
		b->pairs = p;
	}
	if (p->n++ == 0)
		p->cap = 16;
	else if (p->n > p->cap / 4 * 3)
		p->cap *= 2;
	*past = (Past){past->before, past->generation, first, to, b->clock++};
	return true;
}

/* ---- is it good enough ---- */

static bool
is_balanced(Balance *b)
{
	const AssignGroup *g = b->g;
	int32_t min = INT32_MAX, max = 0;

	for (int32_t i = 0; i < g->n_members; i++)
		if (!b->seats[i].fixed)
		{
			min = b->seats[i].count < min ? b->seats[i].count : min;
			max = b->seats[i].count > max ? b->seats[i].count : max;
		}
	if (min >= max - 1)
		return true;
	memset(b->top, 0, sizeof(*b->top) * (size_t) g->n_topics);
	for (int32_t part = 0; part < g->n_parts; part++)
		if (g->owner[part] >= 0 && b->seats[g->owner[part]].count > b->top[g->topic[part]])
			b->top[g->topic[part]] = b->seats[g->owner[part]].count;
	for (int32_t i = 0; i < g->n_members; i++)
		for (int32_t t = 0; !b->seats[i].fixed && b->seats[i].count != b->seats[i].most && t < g->n_topics;
			 t++)
			if (g->members[i].takes[t] && b->top[t] > b->seats[i].count + 1)
				return false;
	return true;
}

/* The less the better. */
static int64_t
score(const Balance *b)
{
	int64_t sum = 0;

	for (int32_t i = 0; i < b->g->n_members; i++)
		for (int32_t k = i + 1; k < b->g->n_members; k++)
			if (!b->seats[i].fixed && !b->seats[k].fixed)
				sum += abs(b->seats[i].count - b->seats[k].count);
	return sum;
}

/* Whom to move it to, or -1: back to who had it before, or to the poorest. */
static int32_t
better_owner(const Balance *b, int32_t part)
{
	int32_t before = b->past[part].before, topic = b->g->topic[part];
	int32_t most = b->seats[b->g->owner[part]].count - 1;

	if (before >= 0 && !b->seats[before].fixed && most > b->seats[before].count)
		return before;
	for (int32_t i = 0; i < b->g->n_members; i++)
		if (b->g->members[i].takes[topic] && most > b->seats[i].count)
			return poorest(b, topic, false);
	return -1;
}

/* False: nothing has moved. */
static bool
perform(Balance *b, const int32_t *list, int32_t n)
{
	bool any = false;

	for (bool modified = true; modified;)
	{
		modified = false;
		for (int32_t i = 0; i < n && !is_balanced(b); i++)
		{
			int32_t to = better_owner(b, list[i]);

			if (to >= 0 && !move(b, list[i], to))
				return any;
			modified = modified || to >= 0;
			any = any || modified;
		}
	}
	return any;
}

/* ---- set up ---- */

static int
by_takers(const void *balance, int32_t a, int32_t b)
{
	return ((const Balance *) balance)->takers[a] - ((const Balance *) balance)->takers[b];
}

/* Keeps what members had and may still have; true: somebody had what it may have no more. */
static bool
keep_claims(Balance *b, const Claims *claims)
{
	AssignGroup *g = b->g;
	bool revoked = false;

	for (int32_t i = 0; i < b->n_all; i++)
	{
		int32_t part = b->all[i], had = claims->had[part];

		if (had >= 0 && g->members[had].takes[g->topic[part]])
		{
			g->owner[part] = had;
			b->seats[had].count++;
		}
		else
		{
			revoked = revoked || had >= 0;
			b->loose[b->n_loose++] = part;
		}
	}
	for (int32_t i = 0; i < g->n_members; i++)
	{
		const AssignMember *m = &g->members[claims->order[i]];

		for (int32_t k = 0; m->generation < claims->max_generation && k < m->n_owned; k++)
		{
			Past *past = &b->past[m->owned[k]];

			if (past->before >= 0 && m->generation <= past->generation)
				continue;
			past->before = claims->order[i];
			past->generation = m->generation;
		}
	}
	return revoked;
}

/* Of a list those partitions that there is a choice for. */
static int32_t
movable(const Balance *b, int32_t *list, int32_t n)
{
	int32_t kept = 0;

	for (int32_t i = 0; i < n; i++)
		if (b->takers[b->g->topic[list[i]]] >= 2)
			list[kept++] = list[i];
	return kept;
}

static void
balance(Balance *b, bool revoked)
{
	AssignGroup *g = b->g;
	bool initializing = b->n_loose == b->n_all;
	size_t size = sizeof(*g->owner) * (size_t) g->n_parts;
	int32_t *owner = assign_numbers(g, g->n_parts);
	int64_t before;

	for (int32_t i = 0; i < b->n_loose; i++)
	{
		int32_t to = poorest(b, g->topic[b->loose[i]], true);

		g->owner[b->loose[i]] = to;
		if (to >= 0)
			b->seats[to].count++;
	}
	b->n_all = movable(b, b->all, b->n_all);
	b->n_loose = movable(b, b->loose, b->n_loose);
	for (int32_t i = 0; i < g->n_members; i++)
		b->seats[i].fixed = b->seats[i].count >= b->seats[i].most;
	for (int32_t i = 0; i < b->n_all; i++)
		if (g->owner[b->all[i]] >= 0)
			b->seats[g->owner[b->all[i]]].fixed = false;
	if (g->arena->failed)
		return;
	memcpy(owner, g->owner, size);
	before = score(b);
	if (!revoked)
		(void) perform(b, b->loose, b->n_loose);
	/* Members keep what they have unless it becomes fairer. */
	if (perform(b, b->all, b->n_all) && !initializing && score(b) >= before)
		memcpy(g->owner, owner, size);
}

/* All partitions are looked at in one order: those of topics with fewer candidates first, then by name. */
static int
assign_general(AssignGroup *g, const Claims *claims)
{
	Balance b = {.g = g,
				 .seats = arena_alloc(g->arena, sizeof(Seat) * (size_t) g->n_members),
				 .past = arena_alloc(g->arena, sizeof(Past) * (size_t) g->n_parts),
				 .takers = assign_numbers(g, g->n_topics),
				 .top = assign_numbers(g, g->n_topics),
				 .all = assign_numbers(g, g->n_parts),
				 .loose = assign_numbers(g, g->n_parts)};
	int32_t *order = b.top; /* scratch */

	if (g->arena->failed)
		return -1;
	for (int32_t t = 0; t < g->n_topics; t++)
	{
		order[t] = t;
		for (int32_t i = 0; i < g->n_members; i++)
		{
			b.takers[t] += g->members[i].takes[t];
			b.seats[i].most += g->members[i].takes[t] ? g->topics[t].n : 0;
		}
	}
	assign_sort(order, g->n_topics, by_takers, &b);
	for (int32_t i = 0; i < g->n_topics; i++)
		for (int32_t k = 0; k < g->topics[order[i]].n; k++)
			b.all[b.n_all++] = g->topics[order[i]].first + k;
	for (int32_t part = 0; part < g->n_parts; part++)
		b.past[part] = (Past){.before = -1, .from = -1};
	balance(&b, keep_claims(&b, claims));
	return g->arena->failed ? -1 : 0;
}

/* ---- the assignor ---- */

/* What somebody had goes to another member, who had it not. */
static void
find_moving(AssignGroup *g)
{
	for (int pass = 0; pass < 2; pass++)
		for (int32_t me = 0; me < g->n_members; me++)
			for (int32_t k = 0; k < g->members[me].n_owned; k++)
			{
				int32_t part = g->members[me].owned[k];

				if ((g->owner[part] == me) == (pass == 1))
					g->moving[part] = pass == 0 && g->owner[part] >= 0;
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
