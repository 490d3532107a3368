/*
 * group.h: the group coordinator's core: Kafka's classic group protocol as a state machine.
 *
 * It knows no socket, no database and no clock.  An event goes in (a request, a time, an outcome of a save),
 * the state changes, and what has to be done comes out as a list of actions:
 *
 *     group_join(set, now, &in);                          an event, `now` in milliseconds of the caller's clock
 *     while ((a = group_next_action(set)) != NULL) ...    what to do about it: answer a request, save a group
 *     next = group_next_deadline(set);                    call group_on_time(set, now) then
 *
 * What an action points to lives until the next event.  Actions are to be drained before the next event.
 * Strings of an event are copied; they need to live for the call only.
 *
 *            join                     all joined, or              leader's sync
 *     Empty ------> PreparingRebalance rebalance timeout  Completing-   is saved
 *       ^            ^        ^       ---------------->   Rebalance  ------------> Stable
 *       |            |        |                               |                      |
 *       |            |        +--- join, leave, expiry, sync timeout ----------------+
 *       +------------+  nobody left
 *
 * What is promised (and tested by regress/unit/group):
 *   - Every request that was parked is answered exactly once.
 *   - A generation (members, subscriptions, assignment) is saved before any SyncGroup of it is answered with
 *     success; a static member's replacement before its JoinGroup is; the emptying of a group before the
 *     LeaveGroup is.  A save that is out blocks nothing else, and there is one at a time for a group.
 *   - A group that is loaded from what was saved goes on with the same generation, members and assignment,
 *     and every member gets a full session timeout.
 *   - While PostgreSQL is away (group_control_plane) no member expires and no rebalance starts, so nobody
 *     who consumes is stopped; a JoinGroup that would start one gets COORDINATOR_LOAD_IN_PROGRESS after a
 *     pause (`delay_ms` of the answer), which clients retry.
 *   - No group outlives the slot: whoever is parked gets NOT_COORDINATOR.
 *
 * Requests are named by a number of the caller's (`request`), never 0 for one that can be answered.
 * Errors are Kafka's codes.  Nothing here fails for lack of memory: the process ends instead.
 *
 * Threads: the loop thread only.
 */
#ifndef BROKERD_GROUP_GROUP_H
#define BROKERD_GROUP_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "brokerd/group/slot.h"
#include "wire/types.h"

typedef struct GroupSet GroupSet; /* the groups of the slots that this broker holds */

typedef enum GroupState
{
	GROUP_EMPTY,
	GROUP_PREPARING_REBALANCE,
	GROUP_COMPLETING_REBALANCE,
	GROUP_STABLE,
	GROUP_DEAD /* what DescribeGroups says of a group that does not exist */
} GroupState;

const char *group_state_name(GroupState state);     /* "PreparingRebalance", as Kafka writes it */
const char *group_state_sql_name(GroupState state); /* "preparing_rebalance", as SQL shows it */

typedef struct GroupConfig
{
	int32_t initial_rebalance_delay_ms; /* group.initial.rebalance.delay.ms, 3000 */
	int32_t min_session_timeout_ms;     /* group.min.session.timeout.ms, 6000 */
	int32_t max_session_timeout_ms;     /* group.max.session.timeout.ms, 1800000 */
	int32_t max_size;                   /* group.max.size, INT32_MAX */
	int32_t
		new_member_join_timeout_ms; /* 300000: a new member's parked JoinGroup counts as alive that long */
	int32_t save_wait_ms;           /* 20000: a request parked for a save gets a retriable error after this */
	int32_t away_answer_ms;         /* 1000: how late a JoinGroup is refused while PostgreSQL is away */
} GroupConfig;

void group_config_defaults(GroupConfig *config);

GroupSet *group_set_new(const GroupConfig *config);
void group_set_free(GroupSet *set); /* answers nobody */
void group_set_config(GroupSet *set, const GroupConfig *config);

/* ---- slots: which groups are ours ---- */

typedef struct GroupProtocol
{
	WStr name;
	WBytes metadata; /* for "consumer": the member's subscription */
} GroupProtocol;

/* A member as it is saved and loaded. */
typedef struct GroupMemberRow
{
	WStr member_id;
	WStr instance_id; /* null: a dynamic member */
	WStr client_id;
	WStr client_host;
	int32_t session_timeout_ms;
	int32_t rebalance_timeout_ms;
	const GroupProtocol *protocols; /* in the member's order of preference */
	int32_t protocol_count;
	WBytes assignment;
	int64_t joined_ms; /* the caller's clock when it joined; 0 when loaded */
} GroupMemberRow;

/* A group as it is saved and loaded: with members it is Stable, without it is Empty. */
typedef struct GroupRow
{
	WStr group_id;
	int32_t generation;
	bool fenced;        /* loaded: an administrator gave `generation`, the members are of the one before */
	WStr protocol_type; /* null: a simple group, nobody ever joined */
	WStr protocol_name;
	WStr leader;
	const GroupMemberRow *members;
	int32_t member_count;
} GroupRow;

/*
 * A slot that we were given is loading until group_slot_ready(): requests get COORDINATOR_LOAD_IN_PROGRESS.
 * A row that does not make sense is refused (false) and the group starts afresh when somebody joins.
 */
void group_slot_loading(GroupSet *set, int32_t slot);
bool group_load(GroupSet *set, int64_t now, const GroupRow *row);
void group_slot_ready(GroupSet *set, int64_t now, int32_t slot);
void group_slot_lost(GroupSet *set, int32_t slot);

/* 0, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS or INVALID_GROUP_ID (null, or unfit for SQL). */
int16_t group_slot_check(const GroupSet *set, WStr group_id);

/* PostgreSQL went away or came back. */
void group_control_plane(GroupSet *set, int64_t now, bool available);

/* ---- requests ---- */

typedef struct GroupJoin
{
	uint64_t request;
	int16_t version;
	WStr group_id;
	WStr member_id;   /* "" for a new one */
	WStr instance_id; /* null or group.instance.id */
	WStr client_id;
	WStr client_host;
	WStr protocol_type;
	WStr reason; /* null, or what the client says (v8+) */
	int32_t session_timeout_ms;
	int32_t rebalance_timeout_ms; /* the session timeout for v0 */
	const GroupProtocol *protocols;
	int32_t protocol_count;
	WUuid fresh_id; /* random; the tail of the member id if one has to be made */
} GroupJoin;

typedef struct GroupAssignment
{
	WStr member_id;
	WBytes assignment;
} GroupAssignment;

typedef struct GroupSync
{
	uint64_t request;
	WStr group_id;
	WStr member_id;
	WStr instance_id;
	int32_t generation;
	WStr protocol_type; /* null below v5 */
	WStr protocol_name;
	const GroupAssignment *assignments; /* the leader's */
	int32_t assignment_count;
} GroupSync;

typedef struct GroupLeaver
{
	WStr member_id;   /* "" with an instance id: whoever has that instance id */
	WStr instance_id; /* null */
	WStr reason;      /* null */
	int16_t error;    /* out */
} GroupLeaver;

void group_join(GroupSet *set, int64_t now, const GroupJoin *in);
void group_sync(GroupSet *set, int64_t now, const GroupSync *in);
int16_t group_heartbeat(GroupSet *set, int64_t now, WStr group_id, WStr member_id, WStr instance_id,
						int32_t generation);

/* Fills each leaver's error.  The answer follows as GROUP_ANSWER_LEAVE, with the error of the whole. */
void group_leave(GroupSet *set, int64_t now, uint64_t request, WStr group_id, GroupLeaver *leavers,
				 int32_t count);

/* ---- offsets: may this member commit, what may be read or deleted ---- */

typedef struct GroupCommit
{
	int16_t version;
	bool transactional; /* TxnOffsetCommit (KIP-447) */
	WStr group_id;
	WStr member_id;
	WStr instance_id;
	int32_t generation; /* -1: not a member */
} GroupCommit;

/*
 * The code to refuse with, or 0 and the generation that SQL has once what is on its way has landed: what the
 * write must be fenced with.  (0: no row yet, or that of a simple group.)  A commit keeps its member's session
 * alive; one without membership makes a simple group of an unknown id.
 */
int16_t group_check_commit(GroupSet *set, int64_t now, const GroupCommit *in, int32_t *saved_generation);

int16_t group_check_delete(const GroupSet *set, WStr group_id);        /* 69 not found, 68 not empty */
int16_t group_check_offset_delete(const GroupSet *set, WStr group_id); /* the same */
bool group_subscribed(const GroupSet *set, WStr group_id, WStr topic); /* a member reads it: 86 */

/* The group's rows are gone (DeleteGroups, the last offset of an empty group expired). */
void group_deleted(GroupSet *set, int64_t now, WStr group_id);

/* ---- an administrator ---- */

/* Remove one member by id or, with a null member_id, by instance id: 0, 25 UNKNOWN_MEMBER_ID or 69. */
int16_t group_kick(GroupSet *set, int64_t now, WStr group_id, WStr member_id, WStr instance_id, WStr reason);

/*
 * The generation that SQL has for this group was raised to `generation` (a reset of a live group): requests
 * of the members' generation get ILLEGAL_GENERATION, so that they drop their positions without committing
 * them, rejoin in that generation and go on from what is committed.
 */
void group_fence(GroupSet *set, int64_t now, WStr group_id, int32_t generation, WStr reason);

/* ---- time ---- */

int64_t group_next_deadline(const GroupSet *set); /* INT64_MAX: nothing waits; may be early, never late */
void group_on_time(GroupSet *set, int64_t now);

/* ---- actions ---- */

typedef enum GroupActionKind
{
	GROUP_ANSWER_JOIN,
	GROUP_ANSWER_SYNC,
	GROUP_ANSWER_LEAVE,
	GROUP_SAVE,      /* write this group, then call group_saved() */
	GROUP_NOTE_STATE /* for people: the state changed; may be written late, or not at all */
} GroupActionKind;

typedef struct GroupJoinedMember
{
	WStr member_id;
	WStr instance_id;
	WBytes metadata;
} GroupJoinedMember;

typedef struct GroupJoinAnswer
{
	int32_t generation; /* -1 with an error */
	WStr protocol_type;
	WStr protocol_name; /* null where Kafka's answer is; "" below v7 */
	WStr leader;
	WStr member_id;
	bool skip_assignment;
	const GroupJoinedMember *members; /* for the leader */
	int32_t member_count;
} GroupJoinAnswer;

typedef struct GroupSyncAnswer
{
	WStr protocol_type;
	WStr protocol_name;
	WBytes assignment; /* never null */
} GroupSyncAnswer;

/* One row of broker.rebalances. */
typedef struct GroupHistory
{
	bool present;        /* false: this save ends no rebalance (a static member's new id) */
	int64_t duration_ms; /* from the first cause to this save */
	WStr reason;         /* "member left: session timed out after 45 s" */
	WStr member;         /* who caused it: "client-id (host)", or null */
	int32_t members_before;
	int32_t members_after;
} GroupHistory;

typedef struct GroupSave
{
	uint64_t serial; /* to give to group_saved() */
	int32_t slot;
	int32_t expected_generation; /* what SQL must have, or the save is refused; 0: perhaps no row */
	GroupRow row;
	GroupHistory history;
} GroupSave;

typedef struct GroupAction
{
	GroupActionKind kind;
	uint64_t request; /* GROUP_ANSWER_* */
	int16_t error;    /* GROUP_ANSWER_* */
	int32_t delay_ms; /* GROUP_ANSWER_*: answer this much later */
	WStr group_id;
	GroupState state; /* GROUP_NOTE_STATE */
	union
	{
		GroupJoinAnswer join;
		GroupSyncAnswer sync;
		GroupSave save;
	} u;
} GroupAction;

const GroupAction *group_next_action(GroupSet *set);

typedef enum GroupSaveResult
{
	GROUP_SAVE_OK,
	GROUP_SAVE_FENCED, /* the slot is another broker's: all its groups are dropped */
	GROUP_SAVE_MOVED,  /* SQL has another generation than expected: `generation` */
	GROUP_SAVE_REFUSED /* it can never be written; members get UNKNOWN_SERVER_ERROR and rejoin */
} GroupSaveResult;

/* A save whose outcome is unknown is to be repeated by the caller: writing the same row twice is harmless. */
void group_saved(GroupSet *set, int64_t now, WStr group_id, uint64_t serial, GroupSaveResult result,
				 int32_t generation);

/* ---- for ListGroups, DescribeGroups, SQL reports ---- */

typedef struct GroupListed
{
	WStr group_id;
	WStr protocol_type; /* "" for a simple group */
	GroupState state;
} GroupListed;

typedef void (*GroupListFn)(void *arg, const GroupListed *group);
void group_list(const GroupSet *set, GroupListFn fn, void *arg);

typedef struct GroupDescribedMember
{
	WStr member_id;
	WStr instance_id;
	WStr client_id;
	WStr client_host;
	WBytes metadata; /* empty unless the group is Stable */
	WBytes assignment;
} GroupDescribedMember;

typedef struct GroupDescription
{
	GroupState state; /* GROUP_DEAD: no such group */
	int32_t generation;
	WStr protocol_type;
	WStr protocol_name; /* "" unless Stable */
	const GroupDescribedMember *members;
	int32_t member_count;
} GroupDescription;

/* The description lives until the next event. */
void group_describe(GroupSet *set, WStr group_id, GroupDescription *out);

typedef struct GroupCounts
{
	int32_t groups;
	int32_t members;
	int32_t by_state[GROUP_DEAD + 1];
	int64_t bytes; /* what the groups take in memory, about */
} GroupCounts;

void group_counts(const GroupSet *set, GroupCounts *out);

#endif
