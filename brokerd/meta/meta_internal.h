/*
 * meta_internal.h: the inside of Meta, by subject.  Each file owns its part of the struct:
 *
 *     meta.c          life, sessions coming and going
 *     registration.c  who this broker is: register, epoch, superseded; the heartbeat
 *     control.c       the controller's poll, the tick, NOTIFY to the others
 *     refresh.c       the metadata image, operations
 *     producer_ids.c  blocks of producer ids
 *     calls.c         the typed calls
 */
#ifndef BROKERD_META_META_INTERNAL_H
#define BROKERD_META_META_INTERNAL_H

#include <ev.h>

#include "brokerd/meta/image_internal.h"
#include "brokerd/meta/meta.h"
#include "brokerd/meta/newer.h"
#include "brokerd/meta/session.h"

typedef struct MetaProducerWaiter MetaProducerWaiter;

typedef struct MetaProducerIds
{
	int64_t next;       /* of the block in hand */
	int64_t end;        /* exclusive */
	int64_t spare_next; /* the block behind it; spare_next == spare_end: none */
	int64_t spare_end;
	bool asking;
	MetaProducerWaiter *waiters;
	ev_timer
		answer_now; /* ids are given from the loop, not from inside the call (fed); or: ask again (started) */
} MetaProducerIds;

typedef struct MetaRefresh
{
	bool running;
	bool again;     /* a newer version was heard of meanwhile */
	bool need_full; /* PostgreSQL is another, or went back: read everything */
	bool full;      /* this one does */
	int64_t since;
	int64_t target;
	int64_t heard; /* the last version that the heartbeat session gave */
	bool has_after;
	WUuid after; /* last topic of the page before */
} MetaRefresh;

/* By subject; there is one of it. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct Meta
{
	MetaOptions o;
	MetaIdentity identity; /* broker_epoch -1: fenced, or not registered yet */
	MetaSession *sessions[META_SESSION_COUNT];
	MetaImage *image;
	bool stopped;   /* a fatal sentence was said, or the caller refused the registration */
	bool connected; /* what on_connection was told */

	/* registration.c */
	char incarnation[META_UUID_TEXT];
	char directory[META_UUID_TEXT];
	char *cluster_id;
	int64_t disk_epoch;
	int64_t own_epoch; /* the last one that this process was given; -1: none */
	bool registering;
	bool registered; /* on the present heartbeat session */
	int64_t first_registered_ms;
	bool outcome_unknown; /* of the last registration: an epoch that we never heard of may be ours */
	ev_timer register_retry;
	ev_timer heartbeat_timer;
	bool heartbeat_running;
	bool heartbeat_again;
	int64_t heartbeat_sent_us;
	int64_t heartbeat_sent_ms;
	int64_t last_heartbeat_ms;
	int64_t last_round_trip_us;
	int64_t version;
	int64_t pg_incarnation;
	NewerPostgres newer;
	bool is_behind; /* what it would register with is: another host is tried */
	bool contract_warned;

	/* control.c */
	ev_timer control_timer;
	bool is_controller;
	int32_t controller_id;
	bool polling;
	bool ticking;
	bool tick_again;
	int64_t next_poll_ms;
	bool notify_queued;
	int32_t *refused;
	int n_refused;

	MetaRefresh refresh;
	MetaProducerIds producer_ids;
	uint64_t refreshes;
};

/* ---- meta.c ---- */

/* Nothing helps but a person.  Said once. */
void meta_fatal(Meta *m, const char *sentence);
/* Fatal before the first registration; afterwards the broker goes on serving, and the log says it. */
void meta_unfit(Meta *m, const char *sentence);
void meta_set_connected(Meta *m, bool connected);

/* ---- registration.c ---- */

void registration_init(Meta *m);
void registration_stop(Meta *m);
/* The heartbeat session is up (and fit): register on it. */
void registration_begin(Meta *m);
void registration_session_lost(Meta *m);
/* Closed and tried anew, at the next host where there are several. */
void registration_leave(Meta *m);
/* Send a heartbeat now: somebody says that something changed. */
void registration_heartbeat_now(Meta *m);

/* ---- control.c ---- */

void control_init(Meta *m);
void control_stop(Meta *m);
void control_session_lost(Meta *m);
/* The tick is overdue, or a person asked for something. */
void control_tick_now(Meta *m);
/* The metadata version moved by our doing: tell the others. */
void control_changed(Meta *m);
void control_on_notify(Meta *m);

/* ---- refresh.c ---- */

/* PostgreSQL has `version`: read what the image lacks. */
void refresh_to(Meta *m, int64_t version);
/* Ask what this broker has to carry out. */
void refresh_operations(Meta *m);
/* Likewise, of the heartbeat session. */
void refresh_heard(Meta *m, int64_t version);

/* ---- producer_ids.c ---- */

void producer_ids_init(Meta *m);
void producer_ids_stop(Meta *m);

#endif
