/*
 * assign_general.c: the sticky assignors where subscriptions differ.  What members had is kept; the rest goes, one by
 * one, to the member with the fewest that may have it; then partitions move from who has more to who has less, until
 * nothing can be gained.  A move back along a former one is made with the partition that had moved, to undo it.
 */
#include "client/assign.h"

#include <stdlib.h>

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

/* Is `x` to have one before `y`? */
static bool
less(const Balance *b, int32_t x, int32_t y)
{
	int32_t more = b->seats[x].count - b->seats[y].count;

	return more != 0 ? more < 0 : assign_by_id(b->g, x, y) < 0;
}

/* The member with the fewest that may have the topic. */
static int32_t
poorest(const Balance *b, int32_t topic, bool with_fixed)
{
	int32_t best = -1;

	for (int32_t i = 0; i < b->g->n_members; i++)
		if (b->g->members[i].takes[topic] && (with_fixed || !b->seats[i].fixed) &&
			(best < 0 || less(b, i, best)))
			best = i;
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

static void
record_move(Balance *b, int32_t part, int32_t from, int32_t to)
{
	Past *past = &b->past[part];
	Pair *p = find_pair(b, b->g->topic[part], from, to);

	if (p == NULL && (p = arena_alloc(b->g->arena, sizeof(*p))) != NULL)
	{
		*p = (Pair){.next = b->pairs, .topic = b->g->topic[part], .from = from, .to = to};
		b->pairs = p;
	}
	if (p == NULL)
		return;
	if (p->n++ == 0)
		p->cap = 16;
	else if (p->n > p->cap / 4 * 3)
		p->cap *= 2;
	past->from = from;
	past->to = to;
	past->when = b->clock++;
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

static void
move(Balance *b, int32_t part, int32_t to)
{
	int32_t from, first;
	Pair *p;

	part = to_be_moved(b, part, to);
	from = b->g->owner[part];
	first = b->past[part].from;
	/* What had moved already now comes from where it was first. */
	if (first >= 0 && (p = find_pair(b, b->g->topic[part], first, b->past[part].to)) != NULL)
		p->n--;
	b->past[part].from = -1;
	if (first != to)
		record_move(b, part, first >= 0 ? first : from, to);
	b->seats[from].count--;
	b->seats[to].count++;
	b->g->owner[part] = to;
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
		for (int32_t t = 0; !b->seats[i].fixed && b->seats[i].count < b->seats[i].most && t < g->n_topics;
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

static bool
perform(Balance *b, const int32_t *list, int32_t n)
{
	bool any = false, modified = true;

	while (modified && !b->g->arena->failed)
	{
		modified = false;
		for (int32_t i = 0; i < n && !b->g->arena->failed && !is_balanced(b); i++)
		{
			int32_t to = better_owner(b, list[i]);

			if (to < 0)
				continue;
			move(b, list[i], to);
			any = modified = true;
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

/* All partitions: those of topics with fewer candidates first, then by name. */
static void
set_up(Balance *b)
{
	AssignGroup *g = b->g;
	int32_t *order = b->top; /* scratch */

	for (int32_t t = 0; t < g->n_topics; t++)
	{
		order[t] = t;
		for (int32_t i = 0; i < g->n_members; i++)
		{
			b->takers[t] += g->members[i].takes[t];
			b->seats[i].most += g->members[i].takes[t] ? g->topics[t].n : 0;
		}
	}
	assign_sort(order, g->n_topics, by_takers, b);
	for (int32_t i = 0; i < g->n_topics; i++)
		for (int32_t k = 0; k < g->topics[order[i]].n; k++)
			b->all[b->n_all++] = g->topics[order[i]].first + k;
	for (int32_t part = 0; part < g->n_parts; part++)
		b->past[part] = (Past){.before = -1, .from = -1};
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
find_fixed(Balance *b)
{
	for (int32_t i = 0; i < b->g->n_members; i++)
		b->seats[i].fixed = b->seats[i].count >= b->seats[i].most;
	for (int32_t i = 0; i < b->n_all; i++)
		if (b->g->owner[b->all[i]] >= 0)
			b->seats[b->g->owner[b->all[i]]].fixed = false;
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
	find_fixed(b);
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

int
assign_general(AssignGroup *g, const Claims *claims)
{
	Balance b = {.g = g,
				 .seats = arena_alloc(g->arena, sizeof(Seat) * (size_t) g->n_members),
				 .past = arena_alloc(g->arena, sizeof(Past) * (size_t) g->n_parts),
				 .takers = assign_numbers(g, g->n_topics),
				 .top = assign_numbers(g, g->n_topics),
				 .all = assign_numbers(g, g->n_parts),
				 .loose = assign_numbers(g, g->n_parts)};

	if (g->arena->failed)
		return -1;
	set_up(&b);
	balance(&b, keep_claims(&b, claims));
	return g->arena->failed ? -1 : 0;
}
