/*
 * model.h: one replicated partition as a small world: brokers with processes and disks, PostgreSQL's row of it,
 * and messages that are late, out of order or lost.  test_protocol_model.c moves it by random steps.
 *
 *     model.h         the world, and what must hold in it after every step
 *     model_pg.h      PostgreSQL: sql/40_control.sql decide(), 41_registration.sql, 54_daemon_writes.sql alter_isr_1()
 *     model_broker.h  brokerd: cluster/leadership.c, isr_changes.c, partition.c, fetch_answer.c
 *
 * Decisions are the real functions (election_pick, hw_next, isr_belongs, truncation_point, the epoch cache); what
 * stands between them is written here once more, small enough to compare with the files named above.
 *
 * A record is its number: each is produced once.  What a leader showed below its high watermark stays `truth` for
 * ever; what it acknowledged with acks=all is part of that.
 */
#ifndef REGRESS_UNIT_CLUSTER_MODEL_H
#define REGRESS_UNIT_CLUSTER_MODEL_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "brokerd/storage/epoch_cache.h"

enum
{
	BROKERS_MAX = 5,
	LOG_MAX = 40,
	MESSAGES_MAX = 40,
	EPOCHS_MAX = 600,
	LAG_MAX_STEPS = 25, /* replica.lag.time.max.ms; a step is a millisecond */
	COMMITS_KEPT = 6,
	NOBODY = -1
};

typedef uint32_t Set; /* of brokers, a bit each */

#define ONE(b) ((Set) 1 << (b))

/* What is broken on purpose: each of these has to be caught. */
typedef struct Rules
{
	bool leader_counts_unsynced;    /* A9f */
	bool follower_asks_unsynced;    /* A9f, of a follower */
	bool unknown_is_failed;         /* A2: no reply, so it was not done */
	bool unchanged_row_settles;     /* A2: the row looks as before, so it was not done */
	bool adding_counts_when_landed; /* A2: the maximal ISR */
	bool removing_counts_no_more;   /* A2 */
	bool replaced_leader_forgets;   /* A2: it hears of a new leader, and drops what it had sent */
	bool resigning_forgets_change;  /* A2: the leadership goes on, what it had sent is forgotten */
	bool older_metadata_is_taken;   /* A2: reads and replies race */
	bool member_epochs_unchecked;   /* A3b */
	bool other_disk_keeps_place;    /* A3 */
	bool restart_keeps_epoch;       /* A3a: leads on in the same leader epoch */
	bool hw_moves_below_min_isr;    /* A13 */
	bool no_divergence_check;       /* A12 */
	bool diverged_progress_counts;  /* A12 */
	bool row_settles_in_order;      /* A1: nobody claims more, so the first of the ISR leads */
	bool claims_what_it_read;       /* A1: what it knew is overwritten before it claims */
	bool only_live_logs_count;      /* A1: the longest log of those that can lead now */
	bool
		row_that_went_back_settles; /* A1, A2: an ISR change of before, by a compare-and-set that lands there */
	bool row_hides_newer_log;       /* A1: by the leader epoch that took its leader away */
	bool unsettled_row_grows;       /* A1: an addition lands where a newer ISR is known elsewhere */
	bool unsettled_epoch_moves;     /* A1: a report of that number is then no newer one */
	bool lost_disk_is_settled_in;   /* A1: another disk that registers before the partition is settled */
	bool dead_process_is_in_office;     /* A1, A3a: another process of the broker leads on in its epoch */
	bool hw_moves_before_epoch_is_kept; /* A1: over older records, and no disk says in which epoch */
	bool joins_before_epoch_start;
	bool empty_log_is_silent;
} Rules;

typedef struct Entry
{
	int32_t epoch;
	int32_t value;
} Entry;

/* What a crash leaves. */
typedef struct Disk
{
	int directory;
	int64_t broker_epoch; /* that it recorded; -1: new */
	Entry log[LOG_MAX];
	int end, synced;
	int high_watermark; /* as of the last checkpoint */
	EpochCache epochs;
	int32_t begun; /* the last of its journal of begun epochs, -1: none */
	int begun_end; /* and how far the log was synced then */
} Disk;

typedef struct Row
{
	int64_t incarnation; /* of PostgreSQL, in which it was settled */
	int leader;
	int32_t leader_epoch, partition_epoch;
	int32_t settled_epoch; /* the leader epoch, but for what was decided before it was settled */
	Set isr, elr;
} Row;

typedef struct PgBroker
{
	int64_t epoch; /* 0: never registered */
	int process;
	int directory;
	int64_t disk_epoch;
	int64_t disk_lost_in; /* the incarnation in which it came with another disk; 0 none */
	bool fenced, stopping;
} PgBroker;

/* What a replica knows, after PostgreSQL went backwards. */
typedef struct Claim
{
	int64_t incarnation;
	int64_t broker_epoch; /* of the process that knew the leader, its epoch and the ISR */
	int leader;
	int32_t leader_epoch, partition_epoch;
	int32_t heard_epoch; /* the highest leader epoch that it has heard of since */
	Set isr;
	int32_t last_epoch;
	int log_end;
} Claim;

/* All that PostgreSQL has; it can go back to what it was some commits ago. */
typedef struct Pg
{
	int64_t version; /* of its last commit */
	Row row;
	PgBroker brokers[BROKERS_MAX];
	int64_t incarnation;
	int identity; /* as it was when the incarnation began */
	int32_t epoch_floor;
	Claim claims[BROKERS_MAX];
} Pg;

/* What a broker reads of PostgreSQL. */
typedef struct Image
{
	int64_t version, incarnation;
	Row row;
	int64_t epochs[BROKERS_MAX];
	Set serving;
} Image;

typedef struct Follower
{
	bool in_isr, adding, removing;
	int64_t broker_epoch;
	int synced_end;
	int64_t caught_up, last_fetch;
	int last_fetch_end;
} Follower;

/* leadership.h; it outlives a resignation, and ends with the leader epoch. */
typedef struct Lead
{
	int32_t leader_epoch; /* -1: none */
	bool in_flight, unsettled;
	int32_t sent_epoch;
	int request; /* that is in flight */
	int64_t retry_at;
	Follower followers[BROKERS_MAX];
} Lead;

typedef struct Broker
{
	bool up, stopping;
	int process;          /* counts over all brokers */
	int64_t broker_epoch; /* -1: not registered */
	int64_t last_epoch;   /* the one before it lost it */
	bool connected;       /* to the PostgreSQL that is there now */
	int64_t incarnation;  /* that it has heard of, and in which it made its claim */
	int64_t claimed;
	Claim known;     /* when it heard of it */
	int claimed_for; /* the process that knew it */
	Image image;
	/* the partition */
	int leader;
	int32_t leader_epoch, partition_epoch;
	Set isr;
	int isr_size;
	bool leading;
	int epoch_start;
	int high_watermark;
	Lead lead;
	int asked;           /* the fetch whose answer counts; 0: none */
	bool waits[LOG_MAX]; /* acks=all, by offset */
	bool knows;          /* read the partition once */
	Disk disk;
	Disk old; /* a backup of the disk */
	bool has_old;
} Broker;

typedef enum MessageKind
{
	NO_MESSAGE,
	FETCH,
	ANSWER,
	ALTER,
	ALTER_REPLY,
	METADATA
} MessageKind;

typedef struct Message
{
	MessageKind kind;
	int from, to;
	int to_process; /* the connection, or the session, is that process's */
	int id;
	/* FETCH and ANSWER */
	int64_t broker_epoch;
	int32_t leader_epoch, last_epoch;
	int offset, n;
	bool diverging;
	int32_t diverging_epoch;
	int diverging_end, high_watermark;
	Entry entries[LOG_MAX];
	/* ALTER and ALTER_REPLY */
	int32_t partition_epoch;
	Set isr;
	int64_t epochs[BROKERS_MAX];
	bool landed;
	Row row;
	/* METADATA */
	Image image;
} Message;

typedef struct World
{
	Rules rules;
	int n; /* brokers, all of them replicas, in assignment order */
	int min_isr;
	int64_t now;
	/* PostgreSQL, and what it was some commits ago */
	Pg pg;
	Pg before[COMMITS_KEPT];
	int identity; /* of the PostgreSQL that is there */
	/* by the clock, so that they are never given twice */
	int64_t versions, epoch_clock, incarnations;
	int32_t epochs_given;
	/* the rest */
	Broker brokers[BROKERS_MAX];
	Message messages[MESSAGES_MAX];
	int processes, directories, ids, values;
	bool goes_back; /* PostgreSQL does, some time */
	int disks_lost;
	/* what was shown */
	int32_t truth[LOG_MAX];
	int truth_end;
	int acked;
	int acked_by[EPOCHS_MAX]; /* by leader epoch: the process; 0 none */
	FILE *trace;
	char violation[200]; /* "": all is well */
} World;

static int
set_size(Set s)
{
	return __builtin_popcount(s);
}

__attribute__((format(printf, 2, 3), unused)) static void
say(const World *w, const char *fmt, ...)
{
	va_list ap;

	if (w->trace == NULL)
		return;
	fprintf(w->trace, "# %4" PRId64 "  ", w->now);
	va_start(ap, fmt);
	vfprintf(w->trace, fmt, ap);
	va_end(ap);
	fputc('\n', w->trace);
}

__attribute__((format(printf, 2, 3), unused)) static void
violate(World *w, const char *fmt, ...)
{
	va_list ap;

	if (w->violation[0] != '\0')
		return;
	va_start(ap, fmt);
	vsnprintf(w->violation, sizeof(w->violation), fmt, ap);
	va_end(ap);
	say(w, "VIOLATION: %s", w->violation);
}

/* A place for a message; the network holds so many, and loses what is beyond. */
__attribute__((unused)) static Message *
post(World *w, MessageKind kind, int from, int to)
{
	for (int i = 0; i < MESSAGES_MAX; i++)
		if (w->messages[i].kind == NO_MESSAGE)
		{
			Message *m = &w->messages[i];

			memset(m, 0, sizeof(*m));
			m->kind = kind;
			m->from = from;
			m->to = to;
			m->to_process = w->brokers[to].process;
			return m;
		}
	return NULL;
}

/* ---- what must hold ---- */

/* A process that takes itself for the leader shows what is below its high watermark, and acknowledges it. */
__attribute__((unused)) static void
show(World *w, int id)
{
	Broker *b = &w->brokers[id];

	for (int i = 0; i < b->high_watermark; i++)
	{
		if (i == w->truth_end)
			w->truth[w->truth_end++] = b->disk.log[i].value;
		else if (b->disk.log[i].value != w->truth[i])
			violate(w, "broker %d shows record %d at offset %d, which was record %d", id,
					b->disk.log[i].value, i, w->truth[i]);
		if (!b->waits[i])
			continue;
		b->waits[i] = false;
		w->acked++;
		if (w->acked_by[b->leader_epoch] != 0 && w->acked_by[b->leader_epoch] != b->process)
			violate(w, "two processes acknowledged in leader epoch %d", b->leader_epoch);
		w->acked_by[b->leader_epoch] = b->process;
	}
}

static bool
has_truth(const World *w, const Disk *d)
{
	if (d->synced < w->truth_end)
		return false;
	for (int i = 0; i < w->truth_end; i++)
		if (d->log[i].value != w->truth[i])
			return false;
	return true;
}

/* Everything that can be elected without loss has all that was shown on its disk, also when it is down now. */
static void
check_electable(World *w)
{
	if (w->pg.row.incarnation != w->pg.incarnation || w->pg.identity != w->identity)
		return; /* nobody is elected before the replicas have reported */
	for (int id = 0; id < w->n; id++)
	{
		const Disk *d = &w->brokers[id].disk;
		const PgBroker *pg = &w->pg.brokers[id];

		if (((w->pg.row.isr | w->pg.row.elr) & ONE(id)) == 0)
			continue;
		/* Its registration will take it out. */
		if (d->directory != pg->directory || d->broker_epoch < pg->disk_epoch)
			continue;
		if (!has_truth(w, d))
			violate(w, "broker %d can be elected, and has not all %d records that were shown", id,
					w->truth_end);
	}
}

static void
check_replicas(World *w)
{
	for (int id = 0; id < w->n; id++)
	{
		const Broker *b = &w->brokers[id];

		if (!b->up)
			continue;
		if (b->high_watermark > b->disk.end || b->high_watermark > w->truth_end)
			violate(w, "the high watermark %d of broker %d is beyond what there is", b->high_watermark, id);
		for (int i = 0; i < b->high_watermark && i < w->truth_end; i++)
			if (b->disk.log[i].value != w->truth[i])
				violate(w, "broker %d differs at offset %d, below its high watermark %d", id, i,
						b->high_watermark);
	}
}

__attribute__((unused)) static void
check_world(World *w)
{
	for (int id = 0; id < w->n; id++)
		if (w->brokers[id].up && w->brokers[id].leading)
			show(w, id);
	check_electable(w);
	check_replicas(w);
}

#endif
