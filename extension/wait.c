/*
 * wait.c: CALL broker.wait(): after COMMIT, until what this session asked for is done.  It commits between
 * its looks, so that it holds no snapshot.
 */
#include "pgb.h"

#include "access/xact.h"
#include "utils/snapmgr.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "catalog/pg_type_d.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define LOOK_EVERY_MS 20

/* What is not done yet, as one sentence; NULL: all is.  A failed operation is an error. */
static char *
still_waiting_for(bool has_id, int64 operation_id, MemoryContext context)
{
	Oid types[2] = {INT8OID, OIDOID};
	Datum values[2] = {Int64GetDatum(operation_id), ObjectIdGetDatum(GetUserId())};
	char nulls[2] = {has_id ? ' ' : 'n', ' '};
	char *open = NULL;
	PgbSwitch sw;

	pgb_enter(&sw);
	PushActiveSnapshot(GetTransactionSnapshot());
	PG_TRY();
	{
		if (SPI_execute_with_args("SELECT * FROM broker_internal.open_operations($1, $2)", 2, types, values,
								  nulls, false, 0) != SPI_OK_SELECT ||
			SPI_processed != 1)
			elog(ERROR, "broker_internal.open_operations failed");
	}
	PG_CATCH();
	{
		pgb_rethrow(context);
	}
	PG_END_TRY();
	open = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	if (open != NULL)
		open = MemoryContextStrdup(context, open);
	PopActiveSnapshot();
	pgb_leave(&sw);
	return open;
}

PG_FUNCTION_INFO_V1(pgb_wait_1);
Datum
pgb_wait_1(PG_FUNCTION_ARGS)
{
	bool nonatomic = fcinfo->context && IsA(fcinfo->context, CallContext) &&
					 !castNode(CallContext, fcinfo->context)->atomic;
	MemoryContext context = CurrentMemoryContext;
	Interval *timeout = PG_ARGISNULL(0) ? NULL : PG_GETARG_INTERVAL_P(0);
	bool has_id = !PG_ARGISNULL(1);
	int64 id = has_id ? PG_GETARG_INT64(1) : 0;
	TimestampTz deadline = 0;
	char *open;

	if (!nonatomic)
		ereport(ERROR, errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				errmsg("broker.wait() cannot run inside a transaction block"),
				errdetail("Brokers act on what is committed."),
				errhint("COMMIT first, then CALL broker.wait()."));
	if (timeout != NULL)
		deadline = DatumGetTimestampTz(DirectFunctionCall2(
			timestamptz_pl_interval, TimestampTzGetDatum(GetCurrentTimestamp()), IntervalPGetDatum(timeout)));

	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect_ext failed");
	while ((open = still_waiting_for(has_id, id, context)) != NULL)
	{
		if (timeout != NULL && GetCurrentTimestamp() >= deadline)
			ereport(ERROR, errcode(PGB_ERRCODE('0', '0', '7')), errmsg("timed out: %s", open),
					errhint("It goes on without you. See broker.operations and broker.problems."));
		pfree(open);
		SPI_commit();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LOOK_EVERY_MS,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	SPI_finish();
	PG_RETURN_VOID();
}
