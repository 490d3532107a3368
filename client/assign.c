/* assign.c: range and roundrobin, and what all assignors need. */
#include "client/assign.h"

#include <stdlib.h>

/* ---- what all need ---- */

int32_t *
assign_numbers(AssignGroup *g, int32_t n)
{
	return arena_alloc(g->arena, sizeof(int32_t) * ((size_t) n + 1));
}

typedef struct SortBy
{
	AssignCompare *compare;
	const void *of;
} SortBy;

/* Equal ones by number: every list is in that order before. */
static int
by(const void *a, const void *b, void *arg)
{
	const SortBy *sort = arg;
	int32_t x = *(const int32_t *) a, y = *(const int32_t *) b;
	int c = sort->compare(sort->of, x, y);

	return c != 0 ? c : x - y;
}

void
assign_sort(int32_t *list, int32_t n, AssignCompare *compare, const void *of)
{
	qsort_r(list, (size_t) n, sizeof(*list), by, &(SortBy){compare, of});
}

int
assign_compare(WStr a, WStr b)
{
	int32_t n = a.len < b.len ? a.len : b.len;
	int c = n > 0 ? memcmp(a.s, b.s, (size_t) n) : 0;

	return c != 0 ? c : a.len - b.len;
}

int
assign_by_id(const void *group, int32_t a, int32_t b)
{
	const AssignMember *members = ((const AssignGroup *) group)->members;

	return assign_compare(members[a].id, members[b].id);
}

/* ---- Java's orders ---- */

/* Spread as HashMap does. */
static uint32_t
spread(uint32_t h)
{
	return h ^ h >> 16;
}

static uint32_t
string_hash(WStr s)
{
	uint32_t h = 0;

	for (int32_t i = 0; i < s.len; i++)
		h = h * 31 + (uint8_t) s.s[i];
	return h;
}

uint32_t
assign_part_hash(const AssignGroup *g, int32_t part)
{
	const AssignTopic *t = &g->topics[g->topic[part]];

	return spread((31 + (uint32_t) (part - t->first)) * 31 + string_hash(t->name));
}

int
assign_by_bucket(const void *group, int32_t a, int32_t b)
{
	const AssignGroup *g = group;
	uint32_t cap = 16;

	while (g->n_members > (int32_t) cap / 4 * 3)
		cap *= 2;
	return (int) (spread(string_hash(g->members[a].id)) & (cap - 1)) -
		   (int) (spread(string_hash(g->members[b].id)) & (cap - 1));
}

int32_t
assign_members(AssignGroup *g, int32_t topic, AssignCompare *compare, int32_t **list)
{
	int32_t n = 0;

	*list = assign_numbers(g, g->n_members);
	for (int32_t i = 0; *list != NULL && i < g->n_members; i++)
		if (topic < 0 || g->members[i].takes[topic])
			(*list)[n++] = i;
	if (*list == NULL)
		return -1;
	assign_sort(*list, n, compare, g);
	return n;
}

/* ---- range and roundrobin ---- */

/* Static members first, by their instance id; then the others by member id. */
static int
static_first(const void *group, int32_t a, int32_t b)
{
	const AssignMember *x = &((const AssignGroup *) group)->members[a];
	const AssignMember *y = &((const AssignGroup *) group)->members[b];

	if (x->instance.len >= 0 && y->instance.len >= 0)
		return assign_compare(x->instance, y->instance);
	if (x->instance.len >= 0 || y->instance.len >= 0)
		return x->instance.len >= 0 ? -1 : 1;
	return assign_compare(x->id, y->id);
}

static int
assign_range(AssignGroup *g)
{
	for (int32_t t = 0; t < g->n_topics; t++)
	{
		int32_t *list, n = assign_members(g, t, static_first, &list), next = g->topics[t].first;

		if (n < 0)
			return -1;
		/* The first ones get one more when it does not come out even. */
		for (int32_t i = 0; i < n; i++)
			for (int32_t k = g->topics[t].n / n + (i < g->topics[t].n % n); k > 0; k--)
				g->owner[next++] = list[i];
	}
	return 0;
}

/* In one circle of all members, those who do not subscribe to the topic left out. */
static int
assign_roundrobin(AssignGroup *g)
{
	int32_t *list, n = assign_members(g, -1, static_first, &list), at = 0;

	for (int32_t t = 0; n > 0 && t < g->n_topics; t++)
	{
		int32_t passed = 0;

		for (int32_t k = 0; passed < n && k < g->topics[t].n; at = (at + 1) % n)
		{
			bool takes = g->members[list[at]].takes[t];

			passed = takes ? 0 : passed + 1;
			if (takes)
				g->owner[g->topics[t].first + k++] = list[at];
		}
	}
	return n < 0 ? -1 : 0;
}

/* ---- by name ---- */

static const Assignor assignors[] = {
	{"range", false, assign_range},
	{"roundrobin", false, assign_roundrobin},
	{"sticky", false, assign_sticky},
	{"cooperative-sticky", true, assign_sticky},
};

const Assignor *
assign_find(WStr name)
{
	for (size_t i = 0; i < sizeof(assignors) / sizeof(assignors[0]); i++)
		if (wstr_eq(name, wstr(assignors[i].name)))
			return &assignors[i];
	return NULL;
}

int
assign_by_name(WStr name, AssignGroup *g)
{
	const Assignor *a = assign_find(name);
	Arena arena;
	int rc = a == NULL ? -1 : 0;

	arena_init(&arena, 4096);
	g->arena = &arena;
	g->topic = assign_numbers(g, g->n_parts);
	g->moving = arena_alloc(&arena, (size_t) g->n_parts + 1);
	for (int32_t t = 0; t < g->n_topics && !arena.failed; t++)
		for (int32_t k = 0; k < g->topics[t].n; k++)
			g->topic[g->topics[t].first + k] = t;
	for (int32_t part = 0; part < g->n_parts; part++)
		g->owner[part] = -1;
	if (rc == 0 && g->n_members > 0)
		rc = arena.failed ? -1 : a->assign(g);
	/* Its former owner must let go first; the next round gives it. */
	for (int32_t part = 0; rc == 0 && a->cooperative && part < g->n_parts; part++)
		if (g->moving[part])
			g->owner[part] = -1;
	arena_free(&arena);
	g->arena = NULL;
	return rc;
}
