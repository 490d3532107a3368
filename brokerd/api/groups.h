/*
 * groups.h: the group coordinator of a running broker: brokerd/group's state machine between the API handlers
 * and PostgreSQL.
 *
 *     handler ── group_join(set, now, ...) ─▶ state machine ── actions ─▶ groups_settle()
 *        '── groups_park(): a number for the call        ANSWER → the parked call
 *                                                        SAVE   → save_group_1, later group_saved()
 *     slots_1 ─▶ which slots are ours ─▶ load_groups_1 ─▶ group_load(), ready
 *
 * Files: groups.c (slots, time, loading), groups_answer.c (parked calls and their answers), groups_save.c
 * (generations to SQL), groups_commit.c (offsets to SQL), groups_request.c (what administrators asked for).
 *
 * Order.  Saves and commits go through one session, in the order they were given to it.  A commit that was
 * accepted before a save of its group is sent before it, so that it is not refused for the older generation.
 *
 * Who is parked when the client goes is forgotten; the state machine need not know.  Loop thread only.
 */
#ifndef BROKERD_API_GROUPS_H
#define BROKERD_API_GROUPS_H

#include "brokerd/api/api.h"
#include "brokerd/group/commit_queue.h"
#include "brokerd/group/group.h"

typedef struct Groups Groups;

Groups *groups_new(Broker *broker);
void groups_free(Groups *groups); /* answers nobody */

/* From the lifecycle. */
void groups_registered(Groups *groups); /* a broker epoch is in hand */
void groups_fenced(Groups *groups);     /* it is gone: no slot is ours */
void groups_image_changed(Groups *groups);
void groups_asked(Groups *groups); /* a person may have asked for something */
void groups_connection(Groups *groups, bool connected);
void groups_stop(Groups *groups); /* answer everybody who is parked: NOT_COORDINATOR */

/* ---- for handlers ---- */

GroupSet *groups_set(Groups *groups);
int64_t groups_now(void); /* the clock of all group events */

/* After each event: carry out its actions and set the timer. */
void groups_settle(Groups *groups);

/* A number for a call that is answered later, by groups_answer.c; group_leave's leavers stand in call->op. */
uint64_t groups_park(Groups *groups, ApiCall *call);

/* The parked call, which is not parked any more; NULL: its client has gone. */
ApiCall *groups_unpark(Groups *groups, uint64_t request);

typedef struct GroupsLeave
{
	GroupLeaver *leavers;
	int32_t count;
} GroupsLeave;

/* Who coordinates this id (a group's or a transaction's); -1: nobody known. */
int32_t groups_coordinator(const Groups *groups, WStr id);

/* What a commit needs until it is answered; it stands in call->op while the call is parked. */
typedef struct GroupsCommit
{
	GroupCommit check; /* who commits, for another look when SQL says that the generation has moved */
	const CommitRow *rows;
	int32_t row_count;
	int32_t tries;
	void (*done)(ApiCall *call, int16_t error);
} GroupsCommit;

/* Checks, queues and answers by `done`; at once when the check fails. */
void groups_commit(Groups *groups, ApiCall *call, GroupsCommit *commit);

/* Calls to SQL that name a slot and its epoch, as text of their parameters 3 and 4. */
typedef struct GroupsSlotText
{
	char slot[16];
	char epoch[24];
} GroupsSlotText;
void groups_slot_text(const Groups *groups, WStr group_id, GroupsSlotText *out);

#endif
