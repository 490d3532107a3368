/* assign.c: range and roundrobin, and what all assignors need. */
#include "client/assign.h"

#include <stdlib.h>

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
find(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(assignors) / sizeof(assignors[0]); i++)
		if (strlen(assignors[i].name) == len && memcmp(assignors[i].name, name, len) == 0)
			return &assignors[i];
	return NULL;
}

int
assign_by_name(const char *name, AssignGroup *g)
{
	const Assignor *a = find(name, strlen(name));

	for (int32_t i = 0; i < g->n_parts; i++)
		g->owner[i] = -1;
	return a == NULL ? -1 : g->n_members == 0 ? 0 : a->assign(g);
}

bool
assign_is_cooperative(const char *name)
{
	const Assignor *a = find(name, strlen(name));

	return a != NULL && a->cooperative;
}

bool
assign_known(const char *name, size_t len)
{
	return find(name, len) != NULL;
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
assign_hash(WStr s)
{
	return spread(string_hash(s));
}

uint32_t
assign_part_hash(WStr topic, int32_t partition)
{
	return spread((31 + (uint32_t) partition) * 31 + string_hash(topic));
}

int32_t
assign_capacity(int32_t n)
{
	int32_t cap = 16;

	while (n > cap / 4 * 3)
		cap *= 2;
	return cap;
}

void
assign_order(const AssignGroup *g, int32_t *order)
{
	uint32_t mask = (uint32_t) assign_capacity(g->n_members) - 1;

	/* Insertion by bucket, stable. */
	for (int32_t i = 0; i < g->n_members; i++)
	{
		uint32_t bucket = assign_hash(g->members[i].id) & mask;
		int32_t at = i;

		for (; at > 0 && (assign_hash(g->members[order[at - 1]].id) & mask) > bucket; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
}

int
assign_compare(WStr a, WStr b)
{
	int32_t n = a.len < b.len ? a.len : b.len;
	int c = n > 0 ? memcmp(a.s, b.s, (size_t) n) : 0;

	return c != 0 ? c : a.len - b.len;
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

/* ---- range and roundrobin ---- */

/* Static members first, by their instance id; then the others by member id. */
static int
compare_members(const AssignMember *a, const AssignMember *b)
{
	if (a->instance.len >= 0 && b->instance.len >= 0)
		return assign_compare(a->instance, b->instance);
	if (a->instance.len >= 0 || b->instance.len >= 0)
		return a->instance.len >= 0 ? -1 : 1;
	return assign_compare(a->id, b->id);
}

static int32_t *
sorted_members(const AssignGroup *g)
{
	int32_t *sorted = malloc(sizeof(*sorted) * (size_t) g->n_members);

	for (int32_t i = 0; sorted != NULL && i < g->n_members; i++)
	{
		int32_t at = i;

		for (; at > 0 && compare_members(&g->members[sorted[at - 1]], &g->members[i]) > 0; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = i;
	}
	return sorted;
}

int
assign_range(AssignGroup *g)
{
	int32_t *sorted = sorted_members(g);

	for (int32_t t = 0; sorted != NULL && t < g->n_topics; t++)
	{
		int32_t n = 0, seen = 0, next = g->topics[t].first;

		for (int32_t i = 0; i < g->n_members; i++)
			n += assign_subscribed(&g->members[i], t);
		for (int32_t i = 0; i < g->n_members; i++)
		{
			if (!assign_subscribed(&g->members[sorted[i]], t))
				continue;
			/* The first ones get one more when it does not come out even. */
			for (int32_t k = g->topics[t].n / n + (seen++ < g->topics[t].n % n); k > 0; k--)
				g->owner[next++] = sorted[i];
		}
	}
	free(sorted);
	return sorted == NULL ? -1 : 0;
}

int
assign_roundrobin(AssignGroup *g)
{
	int32_t *sorted = sorted_members(g);
	int32_t at = 0;

	for (int32_t t = 0; sorted != NULL && t < g->n_topics; t++)
	{
		bool anybody = false;

		for (int32_t i = 0; i < g->n_members && !anybody; i++)
			anybody = assign_subscribed(&g->members[i], t);
		for (int32_t k = 0; anybody && k < g->topics[t].n; k++)
		{
			while (!assign_subscribed(&g->members[sorted[at]], t))
				at = (at + 1) % g->n_members;
			g->owner[g->topics[t].first + k] = sorted[at];
			at = (at + 1) % g->n_members;
		}
	}
	free(sorted);
	return sorted == NULL ? -1 : 0;
}
