/* assign.c: range and roundrobin, and what all assignors need. */
#include "client/assign.h"

/* ---- what all need ---- */

int32_t *
assign_numbers(AssignGroup *g, int32_t n)
{
	return arena_alloc(g->arena, sizeof(int32_t) * ((size_t) n + 1));
}

void
assign_sort(int32_t *list, int32_t n, int (*compare)(const void *of, int32_t a, int32_t b), const void *of)
{
	for (int32_t i = 1; i < n; i++)
	{
		int32_t it = list[i], at = i;

		for (; at > 0 && compare(of, list[at - 1], it) > 0; at--)
			list[at] = list[at - 1];
		list[at] = it;
	}
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

bool
assign_subscribed(const AssignMember *m, int32_t topic)
{
	for (int32_t i = 0; i < m->n_topics; i++)
		if (m->topics[i] == topic)
			return true;
	return false;
}

int32_t
assign_topic_of(const AssignGroup *g, int32_t part)
{
	int32_t low = 0, high = g->n_topics;

	while (high - low > 1)
	{
		int32_t mid = (low + high) / 2;

		if (g->topics[mid].first <= part)
			low = mid;
		else
			high = mid;
	}
	/* Topics without partitions share their first number with the next one. */
	return low;
}

/* ---- Java's orders ---- */

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
assign_part_hash(WStr topic, int32_t partition)
{
	return spread((31 + (uint32_t) partition) * 31 + string_hash(topic));
}

static int
by_bucket(const void *group, int32_t a, int32_t b)
{
	const AssignGroup *g = group;
	uint32_t cap = 16;

	while (g->n_members > (int32_t) cap / 4 * 3)
		cap *= 2;
	return (int) (spread(string_hash(g->members[a].id)) & (cap - 1)) -
		   (int) (spread(string_hash(g->members[b].id)) & (cap - 1));
}

void
assign_order(const AssignGroup *g, int32_t *order)
{
	for (int32_t i = 0; i < g->n_members; i++)
		order[i] = i;
	assign_sort(order, g->n_members, by_bucket, g);
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

/* Those who subscribe to a topic, static members first.  -1: no memory. */
static int32_t
subscribers(AssignGroup *g, int32_t topic, int32_t **list)
{
	int32_t n = 0;

	*list = assign_numbers(g, g->n_members);
	for (int32_t i = 0; *list != NULL && i < g->n_members; i++)
		if (topic < 0 || assign_subscribed(&g->members[i], topic))
			(*list)[n++] = i;
	if (*list == NULL)
		return -1;
	assign_sort(*list, n, static_first, g);
	return n;
}

static int
assign_range(AssignGroup *g)
{
	for (int32_t t = 0; t < g->n_topics; t++)
	{
		int32_t *list, n = subscribers(g, t, &list), next = g->topics[t].first;

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
	int32_t *list, n = subscribers(g, -1, &list), at = 0;

	for (int32_t t = 0; n > 0 && t < g->n_topics; t++)
	{
		int32_t passed = 0;

		for (int32_t k = 0; passed < n && k < g->topics[t].n; at = (at + 1) % n)
		{
			bool takes = assign_subscribed(&g->members[list[at]], t);

			passed = takes ? 0 : passed + 1;
			if (takes)
				g->owner[g->topics[t].first + k++] = list[at];
		}
	}
	return n < 0 ? -1 : 0;
}

/* ---- by name ---- */

typedef struct Assignor
{
	const char *name;
	bool cooperative;
	int (*assign)(AssignGroup *g);
} Assignor;

static const Assignor assignors[] = {
	{"range", false, assign_range},
	{"roundrobin", false, assign_roundrobin},
	{"sticky", false, assign_sticky},
	{"cooperative-sticky", true, assign_cooperative},
};

static const Assignor *
find(WStr name)
{
	for (size_t i = 0; i < sizeof(assignors) / sizeof(assignors[0]); i++)
		if (wstr_eq(name, wstr(assignors[i].name)))
			return &assignors[i];
	return NULL;
}

int
assign_by_name(const char *name, AssignGroup *g)
{
	const Assignor *a = find(wstr(name));
	Arena arena;
	int rc = a == NULL ? -1 : 0;

	for (int32_t i = 0; i < g->n_parts; i++)
		g->owner[i] = -1;
	arena_init(&arena, 4096);
	g->arena = &arena;
	if (rc == 0 && g->n_members > 0)
		rc = a->assign(g);
	arena_free(&arena);
	g->arena = NULL;
	return rc;
}

bool
assign_is_cooperative(WStr name)
{
	const Assignor *a = find(name);

	return a != NULL && a->cooperative;
}

bool
assign_known(WStr name)
{
	return find(name) != NULL;
}
