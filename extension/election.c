#include "election.h"

#include <stddef.h>

bool
id_set_has(IdSet set, int32_t id)
{
	int i;

	for (i = 0; i < set.n; i++)
		if (set.ids[i] == id)
			return true;
	return false;
}

int
id_set_without(IdSet set, IdSet gone, int32_t *out)
{
	int i, n = 0;

	for (i = 0; i < set.n; i++)
		if (!id_set_has(gone, set.ids[i]))
			out[n++] = set.ids[i];
	return n;
}

/* The first live replica in assignment order that is a member of `of`; NULL: of all replicas. */
static int32_t
first_live(const ElectionInput *in, const IdSet *of)
{
	int i;

	for (i = 0; i < in->replicas.n; i++)
	{
		int32_t id = in->replicas.ids[i];

		if (id_set_has(in->live, id) && (of == NULL || id_set_has(*of, id)))
			return id;
	}
	return -1;
}

ElectionKind
election_pick(const ElectionInput *in, int32_t *leader)
{
	*leader = in->leader;
	if (in->leader >= 0 && id_set_has(in->live, in->leader) && id_set_has(in->isr, in->leader) &&
		id_set_has(in->replicas, in->leader))
		return ELECTION_KEPT;
	if ((*leader = first_live(in, &in->isr)) >= 0)
		return ELECTION_CLEAN;
	if ((*leader = first_live(in, &in->elr)) >= 0)
		return ELECTION_ELIGIBLE;
	if (in->unclean && (*leader = first_live(in, NULL)) >= 0)
		return ELECTION_UNCLEAN;
	*leader = -1;
	return ELECTION_NONE;
}
