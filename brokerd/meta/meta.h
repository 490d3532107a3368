/*
 * meta.h: brokerd's way to PostgreSQL: libpq on the libev loop, never blocking.
 *
 * What it owns: three sessions (heartbeat, control, offsets), each with a queue of calls; the registration of
 * this process; the heartbeat; the controller's poll and the tick; the metadata image (image.h).
 * Threads: everything on the loop thread; names are resolved on a helper thread inside.
 *
 *     meta_call() ──▶ queue of a session ──▶ PQsendQueryPrepared ──▶ ... ──▶ cb(ctx, result)
 *                          '─ its deadline passes, the session is lost, PostgreSQL is away
 *
 * Every call gets its callback exactly once, never from inside the function that made the call, with:
 *
 *     META_OK           rows
 *     META_ERROR        PostgreSQL refused; nothing of it was written
 *     META_UNAVAILABLE  it was never sent (PostgreSQL away until the deadline), or only reads: retriable
 *     META_UNKNOWN      it was sent and no answer came (deadline, lost session, or a commit that a standby
 *                       did not confirm): it may have been written, and may still be.  Only a higher epoch,
 *                       or a compare-and-set of one's own that succeeds, settles it (hazards A2)
 *
 * A deadline does not cancel what runs: the session waits for the answer and drops it, so calls behind it
 * stay in order; a session stuck for too long is closed and made anew.
 *
 * Values are text both ways unless a statement says binary; the accessors read either.
 * Times: deadlines are absolute clock_boot_ms().
 */
#ifndef BROKERD_META_META_H
#define BROKERD_META_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "brokerd/base/err.h"
#include "brokerd/meta/image.h"
#include "brokerd/meta/text.h"
#include "wire/types.h"

struct ev_loop;

typedef struct Meta Meta;
typedef struct MetaResult MetaResult;

#define META_CONTRACT_VERSION 1 /* of broker_internal, the one this brokerd speaks */

/* ---- life ---- */

typedef struct MetaRegistration
{
	int64_t broker_epoch;
	const char *cluster_id;
	int64_t pg_incarnation; /* rises when PostgreSQL was promoted or restored (hazards A1) */
	int64_t metadata_version;
	const uint8_t *secret; /* shared by the brokers of the cluster (hazards A23) */
	size_t secret_len;
	bool same_epoch; /* this process had this epoch before: nothing was taken from it */
} MetaRegistration;

typedef struct MetaOperation
{
	int64_t id;
	const char *kind; /* "delete_records" */
	const char *topic;
	WUuid topic_id;
	int32_t partition;
	int64_t before_offset; /* delete_records: -1 = high watermark */
	const char *args_json;
} MetaOperation;

/* All are called on the loop thread, from the loop; any may be NULL but on_registered and on_fatal. */
typedef struct MetaCallbacks
{
	/* This broker has its epoch.  Bind the data directory (log_manager_bind) here, before serving: true = it
	 * is recorded, and later registrations bring this epoch as the disk's. false = go no further; the
	 * caller stops the process. */
	bool (*on_registered)(void *ctx, const MetaRegistration *registration);
	/* The epoch is gone (fenced): stop leading; registration is under way again. */
	void (*on_fenced)(void *ctx);
	/* PostgreSQL is another than the last time (hazards A1): what this process knows by the image is about to be read anew.
	 * Not called for the first one that it hears of. */
	void (*on_incarnation)(void *ctx);
	/* Pages of changes as they come; `changes->complete` with the last of a read. */
	void (*on_image_changed)(void *ctx, const MetaImage *image, const MetaImageChanges *changes);
	/* What this broker has to carry out as leader (n can be 0); answer each with meta_finish_operation().  The same rows
	 * come again while they are not finished. */
	void (*on_operations)(void *ctx, const MetaOperation *operations, int n);
	/* Nothing helps but a person: superseded by another process with our id, another cluster's id, contract
	 * too old, a transaction pooler, ... One sentence with what to do.  The caller stops the process. */
	void (*on_fatal)(void *ctx, const char *sentence);
	/* Connected (true) or not: changes only. */
	void (*on_connection)(void *ctx, bool connected);
	void *ctx;
} MetaCallbacks;

typedef struct MetaOptions
{
	struct ev_loop *loop;
	const char *conninfo; /* pg_broker.postgres */
	int32_t node_id;
	const char *rack;              /* NULL: none */
	const char *endpoints_json;    /* config_endpoints_json() */
	const char *static_json;       /* config_static_json() */
	const char *version;           /* of brokerd */
	WUuid directory_id;            /* log_manager_directory_id() */
	int64_t disk_epoch;            /* log_manager_broker_epoch() */
	const char *cluster_id;        /* log_manager_cluster_id(): NULL on a new disk */
	int64_t heartbeat_interval_ms; /* broker.heartbeat.interval.ms */
	int64_t session_timeout_ms;    /* broker.session.timeout.ms */
	int64_t call_timeout_ms;       /* pg_broker.postgres.timeout.ms: calls with deadline 0 */
	int32_t page_partitions;       /* 0: 2,000 a page of topics_1 */
	MetaCallbacks callbacks;
} MetaOptions;

/* Copies what it needs of `options`.  Connecting begins with the loop; NULL only for a bad conninfo. */
Meta *meta_new(const MetaOptions *options, Err *err);
/* Ends the sessions; queued calls get META_UNAVAILABLE, sent ones META_UNKNOWN, from inside this call. */
void meta_free(Meta *m);

/*
 * Blocking, for the start before the loop runs and for --check-config: connect and say in one sentence what is
 * wrong (not reachable, extension missing or too old, transaction pooler, rights).
 */
bool meta_check(const char *conninfo, Err *err) __attribute__((warn_unused_result));

/* ---- what is known ---- */

bool meta_is_connected(const Meta *m); /* the heartbeat session is up and registered */
int64_t
meta_last_heartbeat_ms(const Meta *m);    /* clock_boot_ms() when the last confirmed one was SENT; -1 none */
int64_t meta_broker_epoch(const Meta *m); /* -1: not registered, or fenced */
const char *meta_cluster_id(const Meta *m); /* NULL until known */
int64_t meta_pg_incarnation(const Meta *m);
/* Another broker has this one, and its last heartbeat there was so long ago (newer.h). */
void meta_heard_incarnation(Meta *m, int64_t incarnation, int64_t age_ms);
int32_t meta_controller_id(const Meta *m); /* -1: nobody known */
bool meta_is_controller(const Meta *m);
int64_t meta_version(const Meta *m); /* newest heard of; meta_image_version() may be behind */
MetaImage *meta_image(const Meta *m);
/* Read what changed now, not at the next heartbeat (after a call that changed something). */
void meta_refresh(Meta *m);

/* `broker` refused a connection: handed to the tick if this broker is the controller.  False takes it back. */
void meta_set_refused(Meta *m, int32_t broker, bool refused);

typedef struct MetaStats
{
	uint64_t calls, errors, unknown, unavailable;
	uint64_t reconnects;
	uint64_t refreshes;
	int queued;                 /* calls waiting or running, all sessions */
	int64_t last_round_trip_us; /* of the heartbeat */
} MetaStats;
void meta_stats(const Meta *m, MetaStats *out);

/* ---- calls ---- */

typedef enum MetaStatus
{
	META_OK,
	META_ERROR,
	META_UNAVAILABLE,
	META_UNKNOWN
} MetaStatus;

/* `result` lives until the callback returns. */
typedef void (*MetaCallDone)(void *ctx, const MetaResult *result);

/* The SQL calls: one row each in statements.def. */
typedef enum MetaStatement
{
#define META_STATEMENT(id, session, flags, sql) META_##id,
#include "brokerd/meta/statements.def"
#undef META_STATEMENT
	META_STATEMENT_COUNT
} MetaStatement;

/*
 * Values are NUL-terminated text (NULL = SQL null) and copied before this returns.  deadline 0: the call
 * timeout of the options.
 */
void meta_call(Meta *m, MetaStatement statement, const char *const *params, int n_params, int64_t deadline,
			   MetaCallDone done, void *ctx);

MetaStatus meta_result_status(const MetaResult *result);
/* What a client may be told: 0 for META_OK, the code of a PBnnn error, 7 REQUEST_TIMED_OUT for unknown and
 * unavailable (retriable), 31 CLUSTER_AUTHORIZATION_FAILED for missing rights, -1 for any other error. */
int16_t meta_result_kafka_code(const MetaResult *result);
const char *meta_result_sqlstate(const MetaResult *result); /* "" when none */
const char *meta_result_message(const MetaResult *result);  /* never NULL */
const char *meta_result_detail(const MetaResult *result);   /* NULL: none */
const char *meta_result_hint(const MetaResult *result);     /* NULL: none */

int meta_result_rows(const MetaResult *result);
bool meta_result_is_null(const MetaResult *result, int row, int column);
const char *meta_result_text(const MetaResult *result, int row, int column); /* "" for null */
int meta_result_length(const MetaResult *result, int row, int column);
int64_t meta_result_int(const MetaResult *result, int row, int column); /* 0 for null */
bool meta_result_bool(const MetaResult *result, int row, int column);
WUuid meta_result_uuid(const MetaResult *result, int row, int column); /* zero for null */
/* int[]: fills up to `max`, returns how many there are. */
int meta_result_ints(const MetaResult *result, int row, int column, int32_t *out, int max);

/* ---- the contract's calls, typed (sql/README.md has their columns and errors) ---- */

typedef struct MetaRequester
{
	const char *principal; /* "User:ANONYMOUS" */
	const char *address;   /* the client's, NULL: none */
} MetaRequester;

/* JSON arguments as sql/README.md shows them; text.h writes JSON. */
void meta_create_topics(Meta *m, const MetaRequester *who, const char *topics_json, bool validate_only,
						int64_t deadline, MetaCallDone done, void *ctx);
/* By name (names[i]) or, where names[i] is NULL, by ids[i]. */
void meta_delete_topics(Meta *m, const MetaRequester *who, const char *const *names, const WUuid *ids, int n,
						int64_t deadline, MetaCallDone done, void *ctx);
void meta_create_partitions(Meta *m, const MetaRequester *who, const char *topics_json, bool validate_only,
							int64_t deadline, MetaCallDone done, void *ctx);
void meta_alter_configs(Meta *m, const MetaRequester *who, const char *resources_json, bool validate_only,
						bool replace, int64_t deadline, MetaCallDone done, void *ctx);

/* topics_json NULL: all partitions. */
void meta_elect_leaders(Meta *m, const MetaRequester *who, int election_type, const char *topics_json,
						int64_t deadline, MetaCallDone done, void *ctx);
void meta_alter_reassignments(Meta *m, const MetaRequester *who, bool allow_factor_change,
							  const char *topics_json, int64_t deadline, MetaCallDone done, void *ctx);
void meta_list_reassignments(Meta *m, const char *topics_json, int64_t deadline, MetaCallDone done,
							 void *ctx);
void meta_unregister_broker(Meta *m, const MetaRequester *who, int32_t broker_id, int64_t deadline,
							MetaCallDone done, void *ctx);

/* A producer id; from the block in hand, so that it also works for a while without PostgreSQL.  The next block is
 * fetched before this one ends.  id -1 with a Kafka code when there is none until the deadline. */
typedef void (*MetaProducerIdDone)(void *ctx, int16_t error, int64_t producer_id);
void meta_producer_id(Meta *m, int64_t deadline, MetaProducerIdDone done, void *ctx);

typedef struct MetaIsrChange
{
	WUuid topic_id;
	int32_t partition;
	int32_t leader_epoch;
	int32_t partition_epoch; /* the change lands only on this one */
	const int32_t *isr;
	const int64_t *epochs; /* broker epoch of each member, -1 = not known */
	int n_isr;
} MetaIsrChange;
/* Rows: topic_id, partition, landed, leader, leader_epoch, partition_epoch, isr. */
void meta_alter_isr(Meta *m, const MetaIsrChange *changes, int n, int64_t deadline, MetaCallDone done,
					void *ctx);

void meta_finish_operation(Meta *m, int64_t operation_id, int32_t partition, int64_t result,
						   int16_t error_code, const char *error_message, MetaCallDone done, void *ctx);
void meta_logs_deleted(Meta *m, const WUuid *topic_ids, int n, MetaCallDone done, void *ctx);

/* Rows: topic_id, partition, partition_epoch of replicas that a decision took from this broker. */
void meta_dropped_replicas(Meta *m, MetaCallDone done, void *ctx);
typedef struct MetaReplica
{
	WUuid topic_id;
	int32_t partition;
	int32_t partition_epoch;
} MetaReplica;
/* Their logs are gone. */
void meta_replicas_dropped(Meta *m, const MetaReplica *replicas, int n);

/* What this broker knows of a partition, after PostgreSQL went backwards (hazards A1). */
typedef struct MetaClaim
{
	WUuid topic_id;
	int32_t partition;
	int32_t leader; /* -1: none */
	int32_t leader_epoch;
	int32_t partition_epoch;
	const int32_t *isr;
	int n_isr;
	int32_t last_epoch; /* in its log; -1: empty */
	int64_t log_end;
} MetaClaim;
/* Row: settled. */
void meta_claim_partitions(Meta *m, const MetaClaim *claims, int n, MetaCallDone done, void *ctx);

#define META_FIGURE_UNKNOWN INT64_MIN

typedef struct MetaFigures
{
	WUuid topic_id;
	int32_t partition;
	int64_t log_start_offset; /* META_FIGURE_UNKNOWN: not known */
	int64_t high_watermark;
	int64_t last_stable_offset;
	int64_t log_end_offset;
	int64_t size_bytes;
	int64_t last_append_ms;
	bool is_online;
} MetaFigures;

typedef struct MetaBrokerStats
{
	int64_t disk_free_bytes; /* -1: not known */
	int64_t disk_total_bytes;
	int64_t connections;
	const char *log_dir;
} MetaBrokerStats;
/* n 0: everything else is unchanged as of now.  At most META_REPORT_MAX figures a call. */
#define META_REPORT_MAX 5000
void meta_report(Meta *m, const MetaBrokerStats *stats, const MetaFigures *figures, int n, MetaCallDone done,
				 void *ctx);
/* details_json NULL: none. */
void meta_event(Meta *m, const char *kind, const char *object, const char *details_json);
/* This broker cannot use its logs of these partitions.  Rows: topic_id, partition, is_out, leader, leader_epoch. */
typedef struct MetaResigned
{
	WUuid topic_id;
	int32_t partition;
} MetaResigned;
void meta_resign_partitions(Meta *m, const MetaResigned *partitions, int n, const char *why, int64_t deadline,
							MetaCallDone done, void *ctx);
/* Row: leaderships_left. */
void meta_stop_broker(Meta *m, int64_t deadline, MetaCallDone done, void *ctx);

#endif
