/*
 * assign_general.c: the sticky assignors where subscriptions differ.  What members had is kept; the rest goes, one by
 * one, to the member with the fewest that may have it; then partitions move from who has more to who has less, until
 * nothing can be gained.  A move back along a former one is made with the partition that had moved, to undo it.
 */
#include "client/assign.h"

#include <stdlib.h>

typedef struct Pair
{
	int32_t topic, from, to;
	int32_t n, cap; /* as its hash set in Java has them: the order of the set follows from the capacity */
} Pair;

typedef struct Balance
{
	AssignGroup *g;
	int32_t *count;
	int32_t *rank;  /* of members by id */
	int32_t *fixed; /* members that nothing can be moved from or to */
	bool *may;      /* member * n_topics + topic */
	int32_t *n_may; /* members of a topic */
	int32_t *most;  /* all that a member could have */
	int32_t *all;   /* partitions in the order in which they are looked at */
	int32_t n_all;
	int32_t *loose; /* those without an owner, in the same order */
	int32_t n_loose;
	int32_t *before, *before_generation; /* who had it in an older generation, or -1 */
	int32_t *top;                        /* scratch: by topic the largest count of an owner */
	int32_t *topic;
	/* moves */
	int32_t *from, *to, *when; /* by partition; from -1 = has not moved */
	int32_t clock;
	Pair *pairs;
	int32_t n_pairs, cap_pairs;
} Balance;

static bool
may(const Balance *b, int32_t member, int32_t topic)
{
	return b->may[member * b->g->n_topics + topic];
}

static bool
less(const Balance *b, int32_t x, int32_t y)
{
	return b->count[x] != b->count[y] ? b->count[x] < b->count[y] : b->rank[x] < b->rank[y];
}

/* The member with the fewest that may have the topic. */
static int32_t
poorest(const Balance *b, int32_t topic, bool with_fixed)
{
	int32_t best = -1;

	for (int32_t i = 0; i < b->g->n_members; i++)
		if (may(b, i, topic) && (with_fixed || !b->fixed[i]) && (best < 0 || less(b, i, best)))
			best = i;
	return best;
}

/* ---- moves ---- */

static Pair *
find_pair(Balance *b, int32_t topic, int32_t from, int32_t to)
{
	for (int32_t i = 0; i < b->n_pairs; i++)
		if (b->pairs[i].topic == topic && b->pairs[i].from == from && b->pairs[i].to == to)
			return &b->pairs[i];
	return NULL;
}

/* Puts one behind the others; NULL: no memory. */
static Pair *
add_pair(Balance *b, int32_t topic, int32_t from, int32_t to)
{
	if (b->n_pairs == b->cap_pairs)
	{
		Pair *more = arena_alloc(b->g->arena, sizeof(*more) * (size_t) (b->cap_pairs * 2 + 32));

		if (more == NULL)
			return NULL;
		if (b->n_pairs > 0)
			memcpy(more, b->pairs, sizeof(*more) * (size_t) b->n_pairs);
		b->pairs = more;
		b->cap_pairs = b->cap_pairs * 2 + 32;
	}
	b->pairs[b->n_pairs] = (Pair){.topic = topic, .from = from, .to = to, .cap = 16};
	return &b->pairs[b->n_pairs++];
}

static void
record_move(Balance *b, int32_t part, int32_t from, int32_t to)
{
	Pair *p = find_pair(b, b->topic[part], from, to);

	if (p == NULL && (p = add_pair(b, b->topic[part], from, to)) == NULL)
		return;
	if (++p->n > p->cap / 4 * 3)
		p->cap *= 2;
	b->from[part] = from;
	b->to[part] = to;
	b->when[part] = b->clock++;
}

static void
forget_move(Balance *b, int32_t part)
{
	Pair *p = find_pair(b, b->topic[part], b->from[part], b->to[part]);

	if (p != NULL && --p->n == 0)
		*p = b->pairs[--b->n_pairs];
	b->from[part] = -1;
}

/* The partition to move instead of `part`: one that came the other way, if there is one. */
static int32_t
to_be_moved(Balance *b, int32_t part, int32_t to)
{
	const AssignTopic *t = &b->g->topics[b->topic[part]];
	int32_t from = b->from[part] >= 0 ? b->from[part] : b->g->owner[part], best = -1;
	const Pair *back = find_pair(b, b->topic[part], to, from);
	uint32_t best_bucket = 0;

	if (back == NULL)
		return part;
	for (int32_t i = t->first; i < t->first + t->n; i++)
	{
		uint32_t bucket = assign_part_hash(t->name, i - t->first) & ((uint32_t) back->cap - 1);

		if (b->from[i] != to || b->to[i] != from)
			continue;
		if (best < 0 || bucket < best_bucket || (bucket == best_bucket && b->when[i] < b->when[best]))
		{
			best = i;
			best_bucket = bucket;
		}
	}
	return best < 0 ? part : best;
}

static void
move(Balance *b, int32_t part, int32_t to)
{
	int32_t from;

	part = to_be_moved(b, part, to);
	from = b->g->owner[part];
	if (b->from[part] >= 0)
	{
		int32_t first = b->from[part];

		forget_move(b, part);
		if (first != to)
			record_move(b, part, first, to);
	}
	else
		record_move(b, part, from, to);
	b->count[from]--;
	b->count[to]++;
	b->g->owner[part] = to;
}

/* ---- is it good enough ---- */

static bool
is_balanced(Balance *b)
{
	int32_t min = INT32_MAX, max = 0;

	for (int32_t i = 0; i < b->g->n_members; i++)
		if (!b->fixed[i])
		{
			min = b->count[i] < min ? b->count[i] : min;
			max = b->count[i] > max ? b->count[i] : max;
		}
	if (min >= max - 1)
		return true;
	for (int32_t t = 0; t < b->g->n_topics; t++)
		b->top[t] = 0;
	for (int32_t part = 0; part < b->g->n_parts; part++)
		if (b->g->owner[part] >= 0 && b->count[b->g->owner[part]] > b->top[b->topic[part]])
			b->top[b->topic[part]] = b->count[b->g->owner[part]];
	for (int32_t i = 0; i < b->g->n_members; i++)
		for (int32_t t = 0; !b->fixed[i] && b->count[i] < b->most[i] && t < b->g->n_topics; t++)
			if (may(b, i, t) && b->top[t] > b->count[i] + 1)
				return false;
	return true;
}

static int64_t
score(const Balance *b, const int32_t *count)
{
	int64_t sum = 0;

	for (int32_t i = 0; i < b->g->n_members; i++)
		for (int32_t k = i + 1; k < b->g->n_members; k++)
			if (!b->fixed[i] && !b->fixed[k])
				sum += abs(count[i] - count[k]);
	return sum;
}

static bool
could_improve(const Balance *b, int32_t part)
{
	int32_t owner = b->g->owner[part];

	for (int32_t i = 0; i < b->g->n_members; i++)
		if (may(b, i, b->topic[part]) && b->count[owner] > b->count[i] + 1)
			return true;
	return false;
}

static bool
perform(Balance *b, const int32_t *list, int32_t n)
{
	bool any = false, modified = true;

	while (modified && !b->g->arena->failed)
	{
		modified = false;
		for (int32_t i = 0; i < n && !b->g->arena->failed && !is_balanced(b); i++)
		{
			int32_t part = list[i], before = b->before[part];

			if (before >= 0 && !b->fixed[before] && b->count[b->g->owner[part]] > b->count[before] + 1)
				move(b, part, before);
			else if (could_improve(b, part))
				move(b, part, poorest(b, b->topic[part], false));
			else
				continue;
			any = modified = true;
		}
	}
	return any;
}

/* ---- set up ---- */

static void
set_up_members(Balance *b)
{
	AssignGroup *g = b->g;

	for (int32_t i = 0; i < g->n_members; i++)
	{
		for (int32_t k = 0; k < g->n_members; k++)
			b->rank[i] += assign_compare(g->members[k].id, g->members[i].id) < 0;
		for (int32_t k = 0; k < g->members[i].n_topics; k++)
		{
			int32_t t = g->members[i].topics[k];

			if (g->topics[t].n == 0)
				continue;
			b->may[i * g->n_topics + t] = true;
			b->n_may[t]++;
			b->most[i] += g->topics[t].n;
		}
	}
}

static int
by_candidates(const void *balance, int32_t a, int32_t b)
{
	return ((const Balance *) balance)->n_may[a] - ((const Balance *) balance)->n_may[b];
}

/* All partitions: those of topics with fewer candidates first, then by name. */
static void
set_up_order(Balance *b)
{
	AssignGroup *g = b->g;
	int32_t *order = b->top; /* scratch */

	for (int32_t t = 0; t < g->n_topics; t++)
		order[t] = t;
	assign_sort(order, g->n_topics, by_candidates, b);
	for (int32_t i = 0; i < g->n_topics; i++)
		for (int32_t k = 0; k < g->topics[order[i]].n; k++)
		{
			int32_t part = g->topics[order[i]].first + k;

			b->topic[part] = order[i];
			b->from[part] = b->before[part] = -1;
			b->all[b->n_all++] = part;
		}
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

		if (had >= 0 && may(b, had, b->topic[part]))
		{
			g->owner[part] = had;
			b->count[had]++;
		}
		else
		{
			revoked = revoked || had >= 0;
			b->loose[b->n_loose++] = part;
		}
	}
	for (int32_t i = 0; i < g->n_members; i++)
	{
		int32_t me = claims->order[i],
				generation = g->members[me].has_generation ? g->members[me].generation : -1;

		for (int32_t k = 0; generation < claims->max_generation && k < g->members[me].n_owned; k++)
		{
			int32_t part = g->members[me].owned[k];

			if (b->before[part] >= 0 && generation <= b->before_generation[part])
				continue;
			b->before[part] = me;
			b->before_generation[part] = generation;
		}
	}
	return revoked;
}

static int32_t
without_fixed(const Balance *b, int32_t *list, int32_t n)
{
	int32_t kept = 0;

	for (int32_t i = 0; i < n; i++)
		if (b->n_may[b->topic[list[i]]] >= 2)
			list[kept++] = list[i];
	return kept;
}

static void
find_fixed(Balance *b)
{
	for (int32_t i = 0; i < b->g->n_members; i++)
		b->fixed[i] = b->count[i] >= b->most[i];
	for (int32_t part = 0; part < b->g->n_parts; part++)
		if (b->g->owner[part] >= 0 && b->n_may[b->topic[part]] >= 2)
			b->fixed[b->g->owner[part]] = false;
}

static void
balance(Balance *b, bool revoked)
{
	AssignGroup *g = b->g;
	size_t parts = sizeof(int32_t) * (size_t) g->n_parts, members = sizeof(int32_t) * (size_t) g->n_members;
	int32_t *owner = assign_numbers(g, g->n_parts), *count = assign_numbers(g, g->n_members);
	bool initializing = true;

	for (int32_t i = 0; i < g->n_members; i++)
		initializing = initializing && b->count[i] == 0;
	for (int32_t i = 0; i < b->n_loose; i++)
	{
		int32_t to = poorest(b, b->topic[b->loose[i]], true);

		if (to < 0)
			continue;
		g->owner[b->loose[i]] = to;
		b->count[to]++;
	}
	b->n_all = without_fixed(b, b->all, b->n_all);
	b->n_loose = without_fixed(b, b->loose, b->n_loose);
	find_fixed(b);
	if (g->arena->failed)
		return;
	memcpy(owner, g->owner, parts);
	memcpy(count, b->count, members);
	if (!revoked)
		(void) perform(b, b->loose, b->n_loose);
	/* Members keep what they have unless it becomes fairer. */
	if (perform(b, b->all, b->n_all) && !initializing && score(b, b->count) >= score(b, count))
		memcpy(g->owner, owner, parts);
}

int
assign_general(AssignGroup *g, const Claims *claims)
{
	int32_t m = g->n_members, t = g->n_topics, p = g->n_parts;
	Balance b = {.g = g,
				 .count = assign_numbers(g, m),
				 .rank = assign_numbers(g, m),
				 .fixed = assign_numbers(g, m),
				 .may = arena_alloc(g->arena, (size_t) m * (size_t) t),
				 .n_may = assign_numbers(g, t),
				 .most = assign_numbers(g, m),
				 .all = assign_numbers(g, p),
				 .loose = assign_numbers(g, p),
				 .before = assign_numbers(g, p),
				 .before_generation = assign_numbers(g, p),
				 .top = assign_numbers(g, t),
				 .topic = assign_numbers(g, p),
				 .from = assign_numbers(g, p),
				 .to = assign_numbers(g, p),
				 .when = assign_numbers(g, p)};

	if (g->arena->failed)
		return -1;
	set_up_members(&b);
	set_up_order(&b);
	balance(&b, keep_claims(&b, claims));
	return g->arena->failed ? -1 : 0;
}
