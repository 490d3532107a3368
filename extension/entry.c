/*
 * entry.c: the doors for people.  Each public function is SECURITY INVOKER: it takes the caller's current
 * user, checks the right, switches to the owner of the extension with a pinned search_path, and runs
 * broker_internal.do_NAME(caller, arguments...).  SECURITY DEFINER would lose the caller.
 *
 * A symbol never changes its meaning: another signature or meaning is another symbol (.._2).
 */
#include "pgb.h"

#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "commands/async.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "access/genam.h"
#include "access/table.h"
#include "access/htup_details.h"
#include "catalog/pg_type_d.h"
#include "utils/fmgroids.h"

typedef enum EntryRight
{
	NEED_NOTHING, /* the function itself shows or changes only what is the caller's */
	NEED_ADMIN
} EntryRight;

static Oid
extension_owner(void)
{
	Oid extension = get_extension_oid("pg_broker", false);
	Relation rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;
	Oid owner = InvalidOid;

	ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(extension));
	scan = systable_beginscan(rel, ExtensionOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		owner = ((Form_pg_extension) GETSTRUCT(tuple))->extowner;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	if (!OidIsValid(owner))
		elog(ERROR, "extension pg_broker has no owner");
	return owner;
}

void
pgb_enter(PgbSwitch *sw)
{
	Oid owner = extension_owner();

	GetUserIdAndSecContext(&sw->user, &sw->sec_context);
	sw->guc_level = NewGUCNestLevel();
	SetUserIdAndSecContext(owner, sw->sec_context | SECURITY_LOCAL_USERID_CHANGE);
	/* broker_internal may be written by the owner only, so that nothing foreign is found. */
	(void) set_config_option("search_path", "pg_catalog, broker_internal, pg_temp", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

void
pgb_leave(const PgbSwitch *sw)
{
	AtEOXact_GUC(true, sw->guc_level);
	SetUserIdAndSecContext(sw->user, sw->sec_context);
}

static void
check_right(const char *name, EntryRight right)
{
	if (right == NEED_ADMIN && !pgb_is_member("broker_admin"))
		ereport(
			ERROR, errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			errmsg("permission denied for function broker.%s", name),
			errdetail("It needs the rights of role broker_admin."),
			errhint("GRANT broker_admin TO %s;", quote_identifier(GetUserNameFromId(GetUserId(), false))));
}

/* "SELECT * FROM broker_internal.do_NAME($1, ..., $n)" */
static char *
call_text(const char *name, int nargs)
{
	StringInfoData s;
	int i;

	initStringInfo(&s);
	appendStringInfo(&s, "SELECT * FROM broker_internal.do_%s(", name);
	for (i = 1; i <= nargs; i++)
		appendStringInfo(&s, "%s$%d", i > 1 ? ", " : "", i);
	appendStringInfoChar(&s, ')');
	return s.data;
}

/* The result of the call, in the context of the caller. */
static Datum
take_scalar(MemoryContext outer, bool *is_null)
{
	MemoryContext inner;
	Datum value;
	int16 len;
	bool by_value;

	*is_null = true;
	if (SPI_processed == 0)
		return (Datum) 0;
	value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, is_null);
	if (*is_null)
		return (Datum) 0;
	get_typlenbyval(TupleDescAttr(SPI_tuptable->tupdesc, 0)->atttypid, &len, &by_value);
	inner = MemoryContextSwitchTo(outer);
	value = datumCopy(value, by_value, len);
	MemoryContextSwitchTo(inner);
	return value;
}

/*
 * Errors that are meant for the caller are complete sentences: where in our functions they were raised is
 * noise.  What else goes wrong keeps its context.
 */
void
pgb_rethrow(MemoryContext outer)
{
	ErrorData *error;

	MemoryContextSwitchTo(outer);
	error = CopyErrorData();
	FlushErrorState();
	if (strncmp(unpack_sql_state(error->sqlerrcode), "PB", 2) == 0 ||
		error->sqlerrcode == ERRCODE_INVALID_PARAMETER_VALUE ||
		error->sqlerrcode == ERRCODE_INSUFFICIENT_PRIVILEGE)
		error->context = NULL;
	ReThrowError(error);
}

static Datum
enter(FunctionCallInfo fcinfo, const char *name, EntryRight right, bool notify)
{
	MemoryContext outer = CurrentMemoryContext;
	Oid *arg_types;
	Oid types[FUNC_MAX_ARGS + 1];
	Datum values[FUNC_MAX_ARGS + 1];
	char nulls[FUNC_MAX_ARGS + 1];
	int nargs, i;
	PgbSwitch sw;
	volatile Datum result = (Datum) 0;
	char *caller;

	check_right(name, right);
	if (fcinfo->flinfo->fn_retset)
		InitMaterializedSRF(fcinfo, 0);
	caller = GetUserNameFromId(GetUserId(), false);

	(void) get_func_signature(fcinfo->flinfo->fn_oid, &arg_types, &nargs);
	types[0] = TEXTOID;
	values[0] = CStringGetTextDatum(caller);
	nulls[0] = ' ';
	for (i = 0; i < nargs; i++)
	{
		types[i + 1] = arg_types[i];
		values[i + 1] = fcinfo->args[i].value;
		nulls[i + 1] = fcinfo->args[i].isnull ? 'n' : ' ';
	}

	pgb_enter(&sw);
	PG_TRY();
	{
		if (SPI_connect() != SPI_OK_CONNECT ||
			SPI_execute_with_args(call_text(name, nargs + 1), nargs + 1, types, values, nulls, false, 0) !=
				SPI_OK_SELECT)
			elog(ERROR, "broker_internal.do_%s failed", name);
		if (fcinfo->flinfo->fn_retset)
		{
			ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
			uint64 r;

			for (r = 0; r < SPI_processed; r++)
				tuplestore_puttuple(rsinfo->setResult, SPI_tuptable->vals[r]);
			fcinfo->isnull = true;
		}
		else
			result = take_scalar(outer, &fcinfo->isnull);
		SPI_finish();
	}
	PG_CATCH();
	{
		pgb_rethrow(outer);
	}
	PG_END_TRY();
	pgb_leave(&sw);

	/* Brokers hear of it at the commit; PREPARE TRANSACTION is refused by it. */
	if (notify)
		Async_Notify("pg_broker", "");
	return result;
}

/* symbol, broker_internal.do_NAME, right, notify */
#define ENTRY(symbol, name, right, notify)                                                                   \
	PG_FUNCTION_INFO_V1(symbol);                                                                             \
	Datum symbol(PG_FUNCTION_ARGS)                                                                           \
	{                                                                                                        \
		return enter(fcinfo, name, right, notify);                                                           \
	}

ENTRY(pgb_create_topic_1, "create_topic", NEED_ADMIN, true)
ENTRY(pgb_alter_topic_1, "alter_topic", NEED_ADMIN, true)
ENTRY(pgb_set_partition_count_1, "set_partition_count", NEED_ADMIN, true)
ENTRY(pgb_delete_topic_1, "delete_topic", NEED_ADMIN, true)
ENTRY(pgb_delete_records_1, "delete_records", NEED_ADMIN, true)
ENTRY(pgb_purge_topic_1, "purge_topic", NEED_ADMIN, true)
ENTRY(pgb_alter_cluster_1, "alter_cluster", NEED_ADMIN, true)
ENTRY(pgb_alter_broker_1, "alter_broker", NEED_ADMIN, true)
ENTRY(pgb_alter_group_1, "alter_group", NEED_ADMIN, true)
ENTRY(pgb_reset_offsets_1, "reset_offsets", NEED_ADMIN, true)
ENTRY(pgb_delete_offsets_1, "delete_offsets", NEED_ADMIN, true)
ENTRY(pgb_delete_group_1, "delete_group", NEED_ADMIN, true)
ENTRY(pgb_kick_member_1, "kick_member", NEED_ADMIN, true)
ENTRY(pgb_set_replication_factor_1, "set_replication_factor", NEED_ADMIN, true)
ENTRY(pgb_reassign_partitions_1, "reassign_partitions", NEED_ADMIN, true)
ENTRY(pgb_cancel_reassignment_1, "cancel_reassignment", NEED_ADMIN, true)
ENTRY(pgb_elect_leaders_1, "elect_leaders", NEED_ADMIN, true)
ENTRY(pgb_drain_broker_1, "drain_broker", NEED_ADMIN, true)
ENTRY(pgb_undrain_broker_1, "undrain_broker", NEED_ADMIN, true)
ENTRY(pgb_decommission_broker_1, "decommission_broker", NEED_ADMIN, true)
ENTRY(pgb_fence_broker_1, "fence_broker", NEED_ADMIN, true)
ENTRY(pgb_unfence_broker_1, "unfence_broker", NEED_ADMIN, true)
ENTRY(pgb_unregister_broker_1, "unregister_broker", NEED_ADMIN, true)
ENTRY(pgb_cancel_operation_1, "cancel_operation", NEED_NOTHING, true)
ENTRY(pgb_help_1, "help", NEED_NOTHING, false)
ENTRY(pgb_session_activity_1, "session_activity", NEED_NOTHING, false)

PG_FUNCTION_INFO_V1(pgb_can_view_1);
Datum
pgb_can_view_1(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(pgb_is_member("broker_viewer"));
}
