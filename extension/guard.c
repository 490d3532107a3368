/*
 * guard.c: DROP EXTENSION pg_broker, and of its schemas, is refused while a broker is registered and alive.
 */
#include "pgb.h"

#include "commands/event_trigger.h"
#include "executor/spi.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"

/* The object of ours that the statement would drop, NULL: none. */
static const char *
dropped_object(Node *parsetree)
{
	DropStmt *stmt = (DropStmt *) parsetree;
	ListCell *cell;

	if (!IsA(parsetree, DropStmt) ||
		(stmt->removeType != OBJECT_EXTENSION && stmt->removeType != OBJECT_SCHEMA))
		return NULL;
	foreach(cell, stmt->objects)
	{
		const char *name = strVal(lfirst(cell));

		if (stmt->removeType == OBJECT_EXTENSION
				? strcmp(name, "pg_broker") == 0
				: strcmp(name, "broker") == 0 || strcmp(name, "broker_internal") == 0)
			return name;
	}
	return NULL;
}

PG_FUNCTION_INFO_V1(pgb_guard_drop_1);
Datum
pgb_guard_drop_1(PG_FUNCTION_ARGS)
{
	const char *name;
	PgbSwitch sw;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		elog(ERROR, "not called as an event trigger");
	name = dropped_object(((EventTriggerData *) fcinfo->context)->parsetree);
	if (name == NULL)
		PG_RETURN_NULL();

	pgb_enter(&sw);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute(
			"SELECT string_agg(b.broker_id::text, ', ' ORDER BY b.broker_id) FROM broker_internal.brokers b "
			"WHERE NOT b.fenced AND broker_internal.session_exists(b.backend_pid, b.backend_start)",
			true, 0) == SPI_OK_SELECT &&
		SPI_processed == 1)
	{
		char *ids = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);

		if (ids != NULL)
			ereport(ERROR, errcode(ERRCODE_OBJECT_IN_USE),
					errmsg("cannot drop %s: brokers are registered", name), errdetail("Alive: %s.", ids),
					errhint("Stop brokerd first. Its data directories are not touched."));
	}
	SPI_finish();
	pgb_leave(&sw);
	PG_RETURN_NULL();
}
