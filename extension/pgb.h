/*
 * pgb.h: what the PostgreSQL side of the extension shares.
 */
#ifndef EXTENSION_PGB_H
#define EXTENSION_PGB_H

#include "postgres.h"

#include "fmgr.h"
#include "utils/array.h"

#include "config_keys.h"
#include "election.h"

/* SQLSTATE of a Kafka error code: PB + three digits. */
#define PGB_ERRCODE(a, b, c) MAKE_SQLSTATE('P', 'B', a, b, c)

/* Values of the GUCs (module.c).  Read in SQL by name, so only defined here. */

/* Role of that name; InvalidOid when it is missing. */
extern Oid pgb_role(const char *name);
/* Is the current user a member of the role (superusers are of every role)? */
extern bool pgb_is_member(const char *role);

/* Runs as the owner of the extension, search_path pinned, until pgb_leave() or the end of the transaction. */
typedef struct PgbSwitch
{
	Oid user;
	int sec_context;
	int guc_level;
} PgbSwitch;
extern void pgb_enter(PgbSwitch *sw);
extern void pgb_leave(const PgbSwitch *sw);

/* In PG_CATCH: raise the error again; without context when it is a sentence of ours for the caller. */
extern void pgb_rethrow(MemoryContext outer) pg_attribute_noreturn();

/* The int4[] as a C array; an error when it has NULLs. */
extern int32 *pgb_int_array(ArrayType *array, int *n);
extern ArrayType *pgb_make_int_array(const int32 *ids, int n);
/* Argument `arg`, an int4[]; NULL is the empty set. */
extern IdSet pgb_id_set(FunctionCallInfo fcinfo, int arg);
/* Racks of n brokers as small numbers; a broker without a rack is one of its own. */
extern int32 *pgb_number_racks(ArrayType *racks, int n);

extern void pgb_fault(const ConfigFault *fault) pg_attribute_noreturn();

#endif
