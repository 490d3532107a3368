/*
 * conf.h: the settings of a handle.  settings.def has one row each; the struct, the parser and docs/client.md follow it.
 * A Conf is plain memory but for `bootstrap`, `client_id`, `group_id` and `instance_id`, which conf_copy copies.
 */
#ifndef CLIENT_CONF_H
#define CLIENT_CONF_H

#include "client/pgbroker.h"

typedef enum ConfPartitioner
{
	PARTITIONER_MURMUR2,
	PARTITIONER_CRC32
} ConfPartitioner;

typedef enum ConfUnkeyed
{
	UNKEYED_ROUND_ROBIN,
	UNKEYED_STICKY
} ConfUnkeyed;

typedef enum ConfReset
{
	RESET_EARLIEST,
	RESET_LATEST,
	RESET_NONE
} ConfReset;

/* A row of settings.def: SET_NUMBER is an int64_t, SET_WORD the index of one of the words, SET_TEXT a char pointer. */
typedef struct pgb_conf
{
#define SET_NUMBER(field, name, init, min, max, text) int64_t field;
#define SET_WORD(field, name, init, words, text)      int field;
#define SET_TEXT(field, name, init, text)             char *field;
#include "client/settings.def"
	pgb_on_delivery on_delivery;
	void *on_delivery_arg;
	pgb_on_rebalance on_rebalance;
	void *on_rebalance_arg;
	pgb_on_commit on_commit;
	void *on_commit_arg;
} Conf;

/* A copy with texts of its own; false = no memory. */
bool conf_copy(Conf *to, const Conf *from);
void conf_clear(Conf *conf);

/* ---- errors (error.c) ---- */

/* Fill *err (may be NULL) and return -1. */
int error_set(pgb_error *err, int code, bool retriable, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

int error_memory(pgb_error *err); /* "no memory" */

/* One of Kafka's codes: its sentence, behind `what`, and what to do where we know it. */
int error_kafka(pgb_error *err, int code, const char *what, ...) __attribute__((format(printf, 3, 4)));

#endif
