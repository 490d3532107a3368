/*
 * internal.h: what the files of the group coordinator's core share.  group.h is the door.
 *
 *     group.c       the set: groups, slots, loading, time          join.c       JoinGroup
 *     members.c     who is in a group                              sync.c       SyncGroup, Heartbeat
 *     protocol_select.c  which protocol a group can agree on       leave.c      LeaveGroup, kick, fence, delete
 *     rebalance.c   from one generation to the next                save.c       what is saved, and what waits for it
 *     commit_check.c  who may commit or delete offsets             describe.c   lists for people
 *     actions.c     what is to be done
 *
 * Naming: a Member that was given an id but has not joined with it yet is *pending*; a member whose JoinGroup
 * is parked is *awaiting join*.  A pending one is in the table of ids and on the group's list `pending`, and
 * counts as no member.
 */
#ifndef BROKERD_GROUP_INTERNAL_H
#define BROKERD_GROUP_INTERNAL_H

#include "brokerd/group/deadline_heap.h"
#include "brokerd/group/group.h"
#include "brokerd/group/id_table.h"
#include "wire/arena.h"
#include "wire/errors.h"

#define GROUP_MAX_ID INT16_MAX /* bytes of a group id: what Kafka's strings hold */
#define GROUP_MAX_NAME                                                                                       \
	1024 /* of an instance id or a protocol: a key of PostgreSQL's btree has to hold them */
#define GROUP_MAX_PROTOCOLS 256
#define GROUP_MAX_REASON    255

typedef struct Group Group;
typedef struct Member Member;

enum
{
	DEADLINE_SESSION,
	DEADLINE_JOIN,
	DEADLINE_SYNC,
	DEADLINE_SAVE
};

struct Member
{
	Member *prev, *next; /* in order of joining */
	IdNode by_id;
	IdNode by_instance;
	Group *group;
	Deadline session;

	WStr id; /* these four in one allocation, that of `id` */
	WStr instance_id;
	WStr client_id;
	WStr client_host;
	GroupProtocol *protocols; /* one allocation, their bytes behind them */
	int32_t protocol_count;
	WBytes assignment;
	int32_t session_timeout_ms;
	int32_t rebalance_timeout_ms;
	int64_t joined_ms;

	uint64_t join_request; /* parked; 0: none */
	uint64_t sync_request;
	int16_t join_version;
	bool pending;
	bool is_new;       /* its first JoinGroup is parked: it may expire nevertheless */
	bool pending_sync; /* has not sent SyncGroup in this generation */
	bool expiry_held;  /* its session ended while PostgreSQL was away */
	bool untold;       /* fenced, and does not know it yet (leave.c) */

	/* A static member's new id that waits to be saved before its JoinGroup is answered; 0: none. */
	uint64_t replace_serial;
	char *replaced_leader; /* below v9: the leader's id before, if that is whom it replaced */
};

typedef struct ProtocolCount
{
	char *name;
	int32_t len;
	int32_t members; /* how many support it */
	int32_t votes;
} ProtocolCount;

typedef struct MemberList
{
	Member *first, *last;
	int32_t count;
} MemberList;

typedef struct LeaveWait
{
	struct LeaveWait *next;
	uint64_t request;
	uint64_t serial;
} LeaveWait;

/* Why a rebalance began; the first cause stands until the generation it leads to is saved. */
typedef struct Cause
{
	bool present;
	int64_t since;
	int32_t members_before;
	char reason[GROUP_MAX_REASON + 1];
	char member[128];
} Cause;

struct Group
{
	GroupSet *set;
	IdNode by_id;
	Group *prev, *next; /* all groups */
	WStr id;
	int32_t slot;
	GroupState state;
	GroupState previous;
	int32_t generation;
	bool generation_fresh; /* fenced: nobody has been in `generation` yet, the next one takes it */
	WStr protocol_type;
	WStr protocol_name;
	Member *leader;
	MemberList members;
	MemberList pending;
	int32_t awaiting_join;
	int32_t pending_sync;
	ProtocolCount *protocols;
	int32_t protocol_count;
	int32_t settled_members; /* in the last generation that was Stable or Empty */

	Deadline join_deadline;
	Deadline sync_deadline;
	bool sync_held;        /* came while PostgreSQL was away */
	bool new_member_added; /* during the initial delay */
	int32_t initial_delay_ms;
	int32_t initial_remaining_ms;
	Cause *cause;
	bool rebalance_held; /* a member left while PostgreSQL was away */

	/* Saving: one at a time. */
	bool leader_synced;   /* the assignment of this generation is here */
	bool stored;          /* SQL has, or will have, something of this group */
	bool save_again;      /* when the one that is out is back */
	uint64_t save_serial; /* of the last one begun */
	bool save_out;
	int32_t save_generation; /* of the one that is out */
	int32_t saved_generation;
	Deadline save_deadline;
	LeaveWait *leave_waits;
};

struct GroupSet
{
	GroupConfig config;
	IdTable groups;
	IdTable members;
	IdTable instances;
	Group *first, *last;
	int32_t group_count;
	int32_t member_count;
	uint32_t made; /* groups ever made here: their saves never share a serial */
	DeadlineHeap deadlines;
	bool away; /* PostgreSQL */
	uint8_t slot_state[GROUP_SLOTS];

	Arena arena; /* what the actions point to */
	GroupAction *actions;
	int32_t action_count;
	int32_t action_cap;
	int32_t action_next;
};

/* ---- memory: ends the process when there is none; zeroed ---- */

void *group_alloc(size_t size);
void *group_realloc(void *p, size_t size);
WStr group_strdup(WStr s);               /* null stays null */
bool group_text_ok(WStr s, int32_t max); /* not null, at most `max` bytes, no NUL */

/* ---- actions.c ---- */

void actions_begin(GroupSet *set); /* at the start of each event that has actions */
WStr actions_str(GroupSet *set, WStr s);
WBytes actions_bytes(GroupSet *set, WBytes b);
void *actions_alloc(GroupSet *set, size_t size);
GroupAction *actions_add(GroupSet *set, GroupActionKind kind, WStr group_id);
void answer_join_error(GroupSet *set, uint64_t request, WStr group_id, WStr member_id, int16_t error);
void answer_sync_error(GroupSet *set, uint64_t request, WStr group_id, int16_t error);
void answer_leave(GroupSet *set, uint64_t request, WStr group_id, int16_t error);

/* ---- group.c ---- */

Group *group_find(const GroupSet *set, WStr id);
Group *group_make(GroupSet *set, WStr id);
void group_drop(Group *g);              /* answers nobody */
void group_forget_if_nothing(Group *g); /* an empty group that SQL does not know: g may be gone */
void group_set_state(Group *g, GroupState state);

/* ---- members.c ---- */

Member *member_find(const Group *g, WStr id); /* a member, not a pending one */
Member *member_find_pending(const Group *g, WStr id);
Member *member_find_instance(const Group *g, WStr instance_id);
/* The member, or an error: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID. */
int16_t member_validate(const Group *g, WStr id, WStr instance_id, Member **out);
/* The same, and ILLEGAL_GENERATION: also for everybody while the group is fenced. */
int16_t member_validate_generation(const Group *g, WStr id, WStr instance_id, int32_t generation,
								   Member **out);
Member *member_add_pending(Group *g, WStr id, const GroupJoin *in);
Member *member_add(Group *g, int64_t now, WStr id, const GroupJoin *in);
Member *member_load(Group *g, const GroupMemberRow *row);
void member_update(Member *m, const GroupJoin *in); /* protocols and timeouts */
void member_replace_id(Member *m, WStr id, const GroupJoin *in);
void member_remove(Member *m); /* pending or not; answers nobody */
/* Likewise, and who is parked gets UNKNOWN_MEMBER_ID, so that the client joins anew if it is still there. */
void member_dismiss(Member *m);
void member_set_assignment(Member *m, WBytes assignment);
void member_park_join(GroupSet *set, Member *m, const GroupJoin *in);
uint64_t member_take_join(Member *m); /* the parked request, 0 if none; it is not parked any more */
void member_keep_alive(Member *m, int64_t now);
void member_set_pending_sync(Member *m, bool pending_sync);
WStr member_new_id(GroupSet *set, const GroupJoin *in);
WBytes member_metadata(const Member *m, WStr protocol);

/* ---- protocol_select.c ---- */

bool protocols_supported(const Group *g, WStr type, const GroupProtocol *protocols, int32_t count);
bool protocols_match(const Member *m, const GroupProtocol *protocols, int32_t count);
WStr protocol_select(Group *g); /* points into the group; the group has members */
void protocols_count_in(Group *g, const Member *m);
void protocols_count_out(Group *g, const Member *m);

/* ---- rebalance.c ---- */

typedef struct Why
{
	const char *what;  /* "member joined" */
	WStr detail;       /* null, or what the client or administrator said */
	const Member *who; /* NULL: nobody in particular */
} Why;

void rebalance_note_cause(Group *g, int64_t now, const Why *why);
void rebalance_prepare(Group *g, int64_t now, const Why *why);
void rebalance_prepare_or_complete(Group *g, int64_t now, const Why *why);
void rebalance_maybe_complete(Group *g, int64_t now);
void rebalance_after_removal(Group *g, int64_t now, const Why *why);
void rebalance_on_join_deadline(Group *g, int64_t now);
void rebalance_on_sync_deadline(Group *g, int64_t now);
int32_t rebalance_timeout_ms(const Group *g);
void answer_joined(Group *g, Member *m, bool with_members);

/* ---- sync.c ---- */

void sync_propagate(Group *g, int64_t now, int16_t error);
void sync_reset(Group *g, int64_t now, int16_t error);

/* ---- leave.c ---- */

void fence_to(Group *g, int64_t now, int32_t generation, WStr reason);

/* ---- save.c ---- */

uint64_t save_begin(Group *g, int64_t now); /* the serial that will have it */
void save_on_deadline(Group *g, int64_t now);
void save_watch(Group *g, int64_t now); /* somebody is parked for the save that is out */

#endif
