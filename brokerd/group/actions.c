/* The list of what is to be done, and the memory that it points to. */
#include <stdlib.h>
#include <string.h>

#include "brokerd/base/logging.h"
#include "brokerd/group/internal.h"

static void *
check(void *p)
{
	if (p == NULL)
	{
		log_msg(LOG_FATAL, "group", "out of memory");
		abort();
	}
	return p;
}

void *
group_alloc(size_t size)
{
	return check(calloc(1, size));
}

void *
group_realloc(void *p, size_t size)
{
	return check(realloc(p, size));
}

WStr
group_strdup(WStr s)
{
	char *copy;

	if (s.len < 0)
		return WSTR_NULL;
	copy = group_alloc((size_t) s.len + 1);
	if (s.len > 0)
		memcpy(copy, s.s, (size_t) s.len);
	return (WStr){copy, s.len};
}

/* The codec has seen to it that strings are UTF-8; PostgreSQL's text cannot hold a NUL either. */
bool
group_text_ok(WStr s, int32_t max)
{
	return s.len >= 0 && s.len <= max && (s.len == 0 || memchr(s.s, 0, (size_t) s.len) == NULL);
}

void
actions_begin(GroupSet *set)
{
	set->action_count = 0;
	set->action_next = 0;
	arena_reset(&set->arena);
}

void *
actions_alloc(GroupSet *set, size_t size)
{
	return check(arena_alloc(&set->arena, size == 0 ? 1 : size));
}

WStr
actions_str(GroupSet *set, WStr s)
{
	char *copy;

	if (s.len < 0)
		return WSTR_NULL;
	copy = actions_alloc(set, (size_t) s.len + 1);
	if (s.len > 0)
		memcpy(copy, s.s, (size_t) s.len);
	return (WStr){copy, s.len};
}

/* Null becomes empty: no answer of the group APIs has null bytes. */
WBytes
actions_bytes(GroupSet *set, WBytes b)
{
	uint8_t *copy;

	if (b.len <= 0)
		return (WBytes){(const uint8_t *) "", 0};
	copy = actions_alloc(set, (size_t) b.len);
	memcpy(copy, b.p, (size_t) b.len);
	return (WBytes){copy, b.len};
}

GroupAction *
actions_add(GroupSet *set, GroupActionKind kind, WStr group_id)
{
	GroupAction *a;

	if (set->action_count == set->action_cap)
	{
		set->action_cap = set->action_cap == 0 ? 16 : set->action_cap * 2;
		set->actions = group_realloc(set->actions, (size_t) set->action_cap * sizeof(*set->actions));
	}
	a = &set->actions[set->action_count++];
	memset(a, 0, sizeof(*a));
	a->kind = kind;
	a->group_id = actions_str(set, group_id);
	return a;
}

const GroupAction *
group_next_action(GroupSet *set)
{
	return set->action_next < set->action_count ? &set->actions[set->action_next++] : NULL;
}

void
answer_join_error(GroupSet *set, uint64_t request, WStr group_id, WStr member_id, int16_t error)
{
	GroupAction *a = actions_add(set, GROUP_ANSWER_JOIN, group_id);

	a->request = request;
	a->error = error;
	a->u.join.generation = -1;
	a->u.join.protocol_type = WSTR_NULL;
	a->u.join.protocol_name = WSTR_NULL;
	a->u.join.leader = WSTR_LIT("");
	a->u.join.member_id = actions_str(set, member_id.len < 0 ? WSTR_LIT("") : member_id);
}

void
answer_sync_error(GroupSet *set, uint64_t request, WStr group_id, int16_t error)
{
	GroupAction *a = actions_add(set, GROUP_ANSWER_SYNC, group_id);

	a->request = request;
	a->error = error;
	a->u.sync.protocol_type = WSTR_NULL;
	a->u.sync.protocol_name = WSTR_NULL;
	a->u.sync.assignment = actions_bytes(set, WBYTES_NULL);
}

void
answer_leave(GroupSet *set, uint64_t request, WStr group_id, int16_t error)
{
	GroupAction *a = actions_add(set, GROUP_ANSWER_LEAVE, group_id);

	a->request = request;
	a->error = error;
}
