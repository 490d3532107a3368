/*
 * Which protocol (assignor) a group uses: among those that every member supports, the one that most members
 * name first.  A group counts its members' protocols as they come and go.
 */
#include <stdlib.h>
#include <string.h>

#include "brokerd/group/internal.h"

static ProtocolCount *
find(const Group *g, WStr name)
{
	for (int32_t i = 0; i < g->protocol_count; i++)
	{
		ProtocolCount *c = &g->protocols[i];

		if (c->len == name.len && (name.len == 0 || memcmp(c->name, name.s, (size_t) name.len) == 0))
			return c;
	}
	return NULL;
}

void
protocols_count_in(Group *g, const Member *m)
{
	for (int32_t i = 0; i < m->protocol_count; i++)
	{
		ProtocolCount *c = find(g, m->protocols[i].name);

		if (c == NULL)
		{
			WStr name = group_strdup(m->protocols[i].name);

			g->protocols = group_realloc(g->protocols, (size_t) (g->protocol_count + 1) * sizeof(*c));
			c = &g->protocols[g->protocol_count++];
			*c = (ProtocolCount){(char *) name.s, name.len, 0, 0};
		}
		c->members++;
	}
}

void
protocols_count_out(Group *g, const Member *m)
{
	for (int32_t i = 0; i < m->protocol_count; i++)
	{
		ProtocolCount *c = find(g, m->protocols[i].name);

		if (--c->members > 0)
			continue;
		free(c->name);
		*c = g->protocols[--g->protocol_count];
	}
}

bool
protocols_supported(const Group *g, WStr type, const GroupProtocol *protocols, int32_t count)
{
	if (g->state == GROUP_EMPTY)
		return type.len > 0 && count > 0;
	if (g->protocol_type.len < 0 || !wstr_eq(g->protocol_type, type))
		return false;
	for (int32_t i = 0; i < count; i++)
	{
		const ProtocolCount *c = find(g, protocols[i].name);

		if ((c == NULL ? 0 : c->members) == g->members.count)
			return true;
	}
	return false;
}

bool
protocols_match(const Member *m, const GroupProtocol *protocols, int32_t count)
{
	if (m->protocol_count != count)
		return false;
	for (int32_t i = 0; i < count; i++)
	{
		const WBytes *a = &m->protocols[i].metadata;
		const WBytes *b = &protocols[i].metadata;
		int32_t len = b->len > 0 ? b->len : 0;

		if (!wstr_eq(m->protocols[i].name, protocols[i].name) || a->len != len)
			return false;
		if (len > 0 && memcmp(a->p, b->p, (size_t) len) != 0)
			return false;
	}
	return true;
}

static void
vote(Group *g, const Member *m)
{
	for (int32_t i = 0; i < m->protocol_count; i++)
	{
		ProtocolCount *c = find(g, m->protocols[i].name);

		if (c->members == g->members.count)
		{
			c->votes++;
			return;
		}
	}
}

/* Of equal votes the one that the earliest member put highest, so that the choice does not depend on memory. */
WStr
protocol_select(Group *g)
{
	const ProtocolCount *best = NULL;
	const Member *first = g->members.first;

	for (int32_t i = 0; i < g->protocol_count; i++)
		g->protocols[i].votes = 0;
	for (const Member *m = first; m != NULL; m = m->next)
		vote(g, m);
	for (int32_t i = 0; first != NULL && i < first->protocol_count; i++)
	{
		const ProtocolCount *c = find(g, first->protocols[i].name);

		if (c->members == g->members.count && (best == NULL || c->votes > best->votes))
			best = c;
	}
	return best == NULL ? WSTR_LIT("") : (WStr){best->name, best->len};
}
