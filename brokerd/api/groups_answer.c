/* Calls that wait for the coordinator, and their answers. */
#include <stdlib.h>

#include "brokerd/api/groups_internal.h"

#define PLACES_MAX (1 << 24)

/* It is parked no more; the call is the caller's to end. */
static ApiCall *
unpark(Parked *p)
{
	Groups *groups = p->groups;
	ApiCall *call = p->call;

	ev_timer_stop(groups->broker->loop, &p->late);
	p->id = 0;
	p->call = NULL;
	p->next_free = groups->free_parked;
	groups->free_parked = p;
	call->cancelled = NULL;
	call->parked = 0;
	return call;
}

static Parked *
find(Groups *groups, uint64_t id)
{
	uint64_t place = id % PLACES_MAX;

	return id != 0 && place < (uint64_t) groups->n_places && groups->places[place]->id == id
			   ? groups->places[place]
			   : NULL;
}

/* The state machine keeps the member, as Kafka does; only nobody is answered. */
static void
on_client_gone(ApiCall *call)
{
	Parked *p = find(call->broker->groups, call->parked);

	if (p != NULL)
		(void) unpark(p);
	api_no_reply(call);
}

static void on_late(struct ev_loop *loop, ev_timer *timer, int revents);

static Parked *
new_place(Groups *groups)
{
	Parked *p = calloc(1, sizeof(*p));

	if (groups->n_places == groups->places_cap)
	{
		groups->places_cap = groups->places_cap > 0 ? groups->places_cap * 2 : 16;
		groups->places = realloc(groups->places, (size_t) groups->places_cap * sizeof(Parked *));
	}
	/* A connection has one at a time: there are never so many. */
	if (p == NULL || groups->places == NULL || groups->n_places == PLACES_MAX)
		abort();
	p->groups = groups;
	p->place = groups->n_places;
	groups->places[groups->n_places++] = p;
	return p;
}

uint64_t
groups_park(Groups *groups, ApiCall *call)
{
	Parked *p = groups->free_parked;

	if (p != NULL)
		groups->free_parked = p->next_free;
	else
		p = new_place(groups);
	p->id = call->parked = ++groups->last_id * PLACES_MAX + (uint64_t) p->place;
	p->call = call;
	ev_timer_init(&p->late, on_late, 0., 0.);
	p->late.data = p;
	call->cancelled = on_client_gone;
	return p->id;
}

void
groups_free_parked(Groups *groups)
{
	for (int32_t i = 0; i < groups->n_places; i++)
	{
		ev_timer_stop(groups->broker->loop, &groups->places[i]->late);
		free(groups->places[i]);
	}
	free(groups->places);
}

ApiCall *
groups_unpark(Groups *groups, uint64_t request)
{
	Parked *p = find(groups, request);

	return p == NULL ? NULL : unpark(p);
}

/* ---- answers ---- */

static void
answer_join(ApiCall *call, int16_t error, const GroupJoinAnswer *a)
{
	JoinGroupResponse response;

	WIRE_INIT(JoinGroupResponse, &response);
	response.error_code = error;
	response.generation_id = a->generation;
	response.protocol_type = a->protocol_type;
	response.protocol_name = a->protocol_name;
	response.leader = a->leader;
	response.member_id = a->member_id;
	response.skip_assignment = a->skip_assignment;
	response.members = API_NEW(call, JoinGroupResponseMembers, a->member_count);
	response.n_members = a->member_count;
	for (int32_t i = 0; i < a->member_count; i++)
	{
		response.members[i].member_id = a->members[i].member_id;
		response.members[i].group_instance_id = a->members[i].instance_id;
		response.members[i].metadata = a->members[i].metadata;
	}
	api_reply(call, &response);
}

static void
answer_sync(ApiCall *call, int16_t error, const GroupSyncAnswer *a)
{
	SyncGroupResponse response;

	WIRE_INIT(SyncGroupResponse, &response);
	response.error_code = error;
	response.protocol_type = a->protocol_type;
	response.protocol_name = a->protocol_name;
	response.assignment = a->assignment;
	api_reply(call, &response);
}

/* Below v3 there is one leaver, and its error is that of the whole; from v3 nobody is known in a group that is
 * not there, which each leaver is told. */
static void
answer_leave(ApiCall *call, int16_t error)
{
	const GroupsLeave *leave = call->op;
	LeaveGroupResponse response;

	WIRE_INIT(LeaveGroupResponse, &response);
	if (call->version >= 3 && error == KERR_UNKNOWN_MEMBER_ID)
		error = KERR_NONE;
	response.error_code = error;
	if (call->version < 3 && error == KERR_NONE && leave->count == 1)
		response.error_code = leave->leavers[0].error;
	if (call->version >= 3 && error == KERR_NONE)
	{
		response.members = API_NEW(call, LeaveGroupResponseMembers, leave->count);
		response.n_members = leave->count;
		for (int32_t i = 0; i < leave->count; i++)
		{
			response.members[i].member_id = leave->leavers[i].member_id;
			response.members[i].group_instance_id = leave->leavers[i].instance_id;
			response.members[i].error_code = leave->leavers[i].error;
		}
	}
	api_reply(call, &response);
}

/* Only JoinGroup is ever late, and then it has nothing to say but its error. */
static void
on_late(struct ev_loop *loop, ev_timer *timer, int revents)
{
	Parked *p = timer->data;
	int16_t error = p->late_error;
	ApiCall *call = unpark(p);
	const JoinGroupRequest *request = call->body;

	(void) loop;
	(void) revents;
	answer_join(call, error,
				&(GroupJoinAnswer){.generation = -1,
								   .protocol_type = WSTR_NULL,
								   .protocol_name = WSTR_NULL,
								   .leader = WSTR_LIT(""),
								   .member_id = request->member_id});
}

void
groups_answer(Groups *groups, const GroupAction *action)
{
	Parked *p = find(groups, action->request);
	ApiCall *call;

	if (p == NULL)
		return;
	if (action->delay_ms > 0)
	{
		p->late_error = action->error;
		ev_timer_set(&p->late, action->delay_ms / 1000., 0.);
		ev_timer_start(groups->broker->loop, &p->late);
		return;
	}
	call = unpark(p);
	switch (action->kind)
	{
		case GROUP_ANSWER_JOIN:
			answer_join(call, action->error, &action->u.join);
			break;
		case GROUP_ANSWER_SYNC:
			answer_sync(call, action->error, &action->u.sync);
			break;
		default:
			answer_leave(call, action->error);
			break;
	}
}
