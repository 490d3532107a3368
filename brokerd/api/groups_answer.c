/* Calls that wait for the coordinator, and their answers. */
#include <stdlib.h>

#include "brokerd/api/groups_internal.h"

/* It is parked no more; the call is the caller's to end. */
static ApiCall *
unpark(Parked *p)
{
	Groups *groups = p->groups;
	ApiCall *call = p->call;

	ev_timer_stop(groups->broker->loop, &p->late);
	HASH_DELETE(hh, groups->parked, p);
	HASH_DELETE(by_call, groups->parked_calls, p);
	free(p);
	call->cancelled = NULL;
	return call;
}

/* The state machine keeps the member, as Kafka does; only nobody is answered. */
static void
on_client_gone(ApiCall *call)
{
	Parked *p;

	HASH_FIND(by_call, call->broker->groups->parked_calls, &call, sizeof(call), p);
	if (p != NULL)
		(void) unpark(p);
	api_no_reply(call);
}

static void on_late(struct ev_loop *loop, ev_timer *timer, int revents);

uint64_t
groups_park(Groups *groups, ApiCall *call)
{
	Parked *p = calloc(1, sizeof(*p));

	if (p == NULL)
		abort();
	p->id = ++groups->last_id;
	p->call = call;
	p->groups = groups;
	ev_timer_init(&p->late, on_late, 0., 0.);
	p->late.data = p;
	HASH_ADD(hh, groups->parked, id, sizeof(p->id), p);
	HASH_ADD(by_call, groups->parked_calls, call, sizeof(p->call), p);
	call->cancelled = on_client_gone;
	return p->id;
}

static Parked *
find(Groups *groups, uint64_t id)
{
	Parked *p;

	HASH_FIND(hh, groups->parked, &id, sizeof(id), p);
	return p;
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
