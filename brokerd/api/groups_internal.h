/* groups_internal.h: what the files of the running coordinator share.  groups.h is the door. */
#ifndef BROKERD_API_GROUPS_INTERNAL_H
#define BROKERD_API_GROUPS_INTERNAL_H

#include <ev.h>

#include "brokerd/api/groups.h"
#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/meta/text.h"

enum
{
	GROUPS_RETRY_MS = 500,    /* after a call to SQL that failed for its own time */
	GROUPS_CALL_MS = 10000,   /* how long one call may take */
	GROUPS_BATCH_ROWS = 5000, /* offsets a call */
	GROUPS_PAGE = 500,        /* groups a page when a slot is loaded */
	GROUPS_COMMIT_TRIES = 3,
	GROUPS_LOOK_MS =
		10000 /* requests are looked for so often, and each half second for so long after a sign of one */
};

/* A call that is answered later.  Used again and again: there are as many as there ever were at once. */
typedef struct Parked
{
	uint64_t id; /* its place and, above that, a number that no other has; 0: free */
	ApiCall *call;
	Groups *groups;
	ev_timer late; /* the answer waits for this */
	int16_t late_error;
	int32_t place;
	struct Parked *next_free;
} Parked;

/* The parameters of a call of commit_offsets_1 that are arrays. */
typedef struct BatchText
{
	MetaText groups, slots, epochs, generations; /* of an entry, and topics */
	MetaText entries, topics, partitions, offsets, leader_epochs, metadata;
} BatchText;

/* A save on its way: the call's parameters, kept until it is settled. */
typedef struct SaveJob
{
	struct SaveJob *next;
	Groups *groups;
	char *group_id;
	int32_t slot;
	int64_t slot_epoch;
	uint64_t serial;
	char *params[10]; /* $3 ... $12 of save_group_1 */
	ev_timer retry;
	bool dropped; /* its slot is gone; the call that is out ends it */
	bool calling;
} SaveJob;

struct Groups
{
	Broker *broker;
	GroupSet *set;
	ev_timer timer;
	ev_timer housekeeping;
	bool settling;
	bool stopped;

	/* Slots. */
	int32_t coordinators[GROUP_SLOTS]; /* -1: not known */
	int64_t epochs[GROUP_SLOTS];
	bool ours[GROUP_SLOTS];
	bool loading[GROUP_SLOTS]; /* in the pages that are being read */
	bool slots_wanted;
	bool slots_calling;
	bool loading_pages;
	char *after_group;     /* the last one of the page before; NULL: first page */
	int64_t slots_version; /* the metadata version at which slots_1 was asked last */
	int64_t registered_epoch;

	/* Parked calls. */
	Parked **places;
	int32_t n_places;
	int32_t places_cap;
	Parked *free_parked;
	uint64_t last_id;

	/* Saves that wait for a batch of commits, and those under way. */
	SaveJob *held;
	SaveJob *jobs;

	/* Commits. */
	CommitQueue *commits;
	const CommitBatch *batch;
	BatchText batch_text; /* its memory stays for the next batch */
	int32_t *entry_rows;  /* of each (group, generation): one row */
	int32_t entry_rows_cap;
	int32_t entry_count;
	bool batch_calling;
	ev_timer batch_retry;

	uint64_t config_of;  /* changes of the image whose configs the set has */
	int64_t next_expiry; /* of offsets.retention.check.interval.ms */
	bool expiring;

	/* Requests of administrators, one after the other. */
	struct GroupRequest *requests;
	bool requests_calling;
	int64_t look_until; /* for requests that wait for leaders or for members to go */
	int64_t next_look;

	/* States to be noted for people. */
	struct StateNote *notes;
	bool noting;
};

/* groups.c */
void groups_refresh_slots(Groups *groups);
void groups_slot_gone(Groups *groups, int32_t slot);

/* groups_answer.c */
void groups_answer(Groups *groups, const GroupAction *action);
void groups_free_parked(Groups *groups);

/* groups_save.c */
void groups_save(Groups *groups, const GroupAction *action);
void groups_release_saves(Groups *groups);
void groups_drop_saves(Groups *groups, int32_t slot); /* -1: all */

/* groups_commit.c */
void groups_send_batch(Groups *groups);
void groups_free_batch(Groups *groups);
void groups_commit_answer(void *arg, uint64_t request, int16_t error);

/* groups_request.c */
void groups_take_requests(Groups *groups);
void groups_drop_requests(Groups *groups);
void groups_note_state(Groups *groups, WStr group_id, GroupState state);
void groups_send_notes(Groups *groups);
void groups_expire_offsets(Groups *groups);

#endif
