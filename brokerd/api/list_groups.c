/* ListGroups (key 16), v0-5: the groups that this broker coordinates.  v4: filter by state; v5: by type. */
#include <strings.h>

#include "brokerd/api/groups.h"
#include "brokerd/api/handlers.h"

typedef struct Listing
{
	ApiCall *call;
	const ListGroupsRequest *request;
	ListGroupsResponse response;
	int32_t cap;
} Listing;

static bool
is_asked(const WStr *filter, int32_t n, const char *word)
{
	size_t len = strlen(word);

	for (int32_t i = 0; i < n; i++)
	{
		if ((size_t) filter[i].len == len && strncasecmp(filter[i].s, word, len) == 0)
			return true;
	}
	return n <= 0;
}

static void
take(void *arg, const GroupListed *group)
{
	Listing *l = arg;
	ListGroupsResponse *r = &l->response;

	if (!is_asked(l->request->states_filter, l->request->n_states_filter, group_state_name(group->state)) ||
		!is_asked(l->request->types_filter, l->request->n_types_filter, "classic"))
		return;
	if (r->n_groups == l->cap)
	{
		int32_t cap = l->cap == 0 ? 64 : l->cap * 2;
		ListGroupsResponseGroups *more = API_NEW(l->call, ListGroupsResponseGroups, cap);

		if (r->n_groups > 0)
			memcpy(more, r->groups, sizeof(*more) * (size_t) r->n_groups);
		r->groups = more;
		l->cap = cap;
	}
	r->groups[r->n_groups].group_id = group->group_id;
	r->groups[r->n_groups].protocol_type = group->protocol_type;
	r->groups[r->n_groups].group_state = wstr(group_state_name(group->state));
	r->groups[r->n_groups].group_type = WSTR_LIT("classic");
	r->n_groups++;
}

void
list_groups_handle(ApiCall *call)
{
	Listing l = {.call = call, .request = call->body};

	WIRE_INIT(ListGroupsResponse, &l.response);
	group_list(groups_set(call->broker->groups), take, &l);
	api_reply(call, &l.response);
}
