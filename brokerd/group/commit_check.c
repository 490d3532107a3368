/* Who may commit offsets, and what may be deleted. */
#include "brokerd/group/consumer_protocol.h"
#include "brokerd/group/internal.h"

#define CONSUMER_TYPE WSTR_LIT("consumer")

static int16_t
check_commit(Group *g, const GroupCommit *in, Member **m)
{
	bool as_member = in->generation >= 0 || in->member_id.len > 0 || in->instance_id.len >= 0;
	int16_t error;

	*m = NULL;
	/* A tool, or a consumer that assigns its partitions itself. */
	if (in->generation < 0 && g->state == GROUP_EMPTY)
		return KERR_NONE;
	if (as_member)
	{
		error = member_validate_generation(g, in->member_id, in->instance_id, in->generation, m);
		if (error != KERR_NONE)
			return error;
	}
	else if (!in->transactional && g->state != GROUP_EMPTY)
		return KERR_UNKNOWN_MEMBER_ID;

	/* It knows the generation, so it was answered, and has not got its assignment yet. */
	if (!in->transactional && g->state == GROUP_COMPLETING_REBALANCE)
		return KERR_REBALANCE_IN_PROGRESS;
	return KERR_NONE;
}

int16_t
group_check_commit(GroupSet *set, int64_t now, const GroupCommit *in, int32_t *saved_generation)
{
	int16_t error = group_slot_check(set, in->group_id);
	Group *g;
	Member *m;

	*saved_generation = 0;
	if (error != KERR_NONE)
		return error;
	g = group_find(set, in->group_id);
	if (g == NULL)
	{
		if (in->generation >= 0)
			return !in->transactional && in->version >= 9 ? KERR_GROUP_ID_NOT_FOUND : KERR_ILLEGAL_GENERATION;
		g = group_make(set, in->group_id);
	}
	error = check_commit(g, in, &m);
	if (error != KERR_NONE)
		return error;
	g->stored = true;
	if (m != NULL && !in->transactional)
		member_keep_alive(m, now);
	*saved_generation = g->save_out ? g->save_generation : g->saved_generation;
	return KERR_NONE;
}

int16_t
group_check_delete(const GroupSet *set, WStr group_id)
{
	int16_t error = group_slot_check(set, group_id);
	Group *g;

	if (error != KERR_NONE)
		return error;
	g = group_find(set, group_id);
	if (g == NULL)
		return KERR_GROUP_ID_NOT_FOUND;
	return g->state == GROUP_EMPTY ? KERR_NONE : KERR_NON_EMPTY_GROUP;
}

int16_t
group_check_offset_delete(const GroupSet *set, WStr group_id)
{
	int16_t error = group_check_delete(set, group_id);

	/* Of a live group those topics may go that nobody reads, if it says which it reads. */
	if (error == KERR_NON_EMPTY_GROUP && wstr_eq(group_find(set, group_id)->protocol_type, CONSUMER_TYPE))
		return KERR_NONE;
	return error;
}

typedef struct TopicSearch
{
	WStr topic;
	bool found;
} TopicSearch;

static void
match_topic(void *arg, WStr topic)
{
	TopicSearch *search = arg;

	search->found |= wstr_eq(search->topic, topic);
}

bool
group_subscribed(const GroupSet *set, WStr group_id, WStr topic)
{
	Group *g = group_find(set, group_id);
	TopicSearch search = {topic, false};

	if (g == NULL || !wstr_eq(g->protocol_type, CONSUMER_TYPE) || g->members.count == 0)
		return false;
	if (g->protocol_name.len < 0)
		return true; /* nobody has said yet */
	for (const Member *m = g->members.first; m != NULL && !search.found; m = m->next)
	{
		if (!consumer_subscription_topics(member_metadata(m, g->protocol_name), match_topic, &search))
			return true; /* better kept than lost */
	}
	return search.found;
}
