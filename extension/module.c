/*
 * module.c: loading, settings, and what the other files share.
 */
#include "pgb.h"

#include <limits.h>

#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

/* Variables that PostgreSQL's settings machinery writes; SQL reads them with current_setting(). */
static char *guc_reason;
static int guc_stale_after;
static int guc_event_retention;
static int guc_max_events;

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	DefineCustomStringVariable("broker.reason",
							   "Kept with every event that this session causes, such as a ticket.", NULL,
							   &guc_reason, "", PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"broker.stale_after", "Age from which reported figures appear in broker.problems.", NULL,
		&guc_stale_after, 30, 1, INT_MAX / 1000, PGC_USERSET, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"broker.event_retention", "How long rows of broker.events and finished operations are kept.", NULL,
		&guc_event_retention, 30 * 24 * 60, 1, INT_MAX, PGC_SIGHUP, GUC_UNIT_MIN, NULL, NULL, NULL);
	DefineCustomIntVariable("broker.max_events", "How many rows broker.events keeps.", NULL, &guc_max_events,
							1000000, 1000, INT_MAX, PGC_SIGHUP, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("broker");
}

Oid
pgb_role(const char *name)
{
	return get_role_oid(name, true);
}

bool
pgb_is_member(const char *role)
{
	Oid oid = pgb_role(role);

	return OidIsValid(oid) ? has_privs_of_role(GetUserId(), oid) : superuser();
}

int32 *
pgb_int_array(ArrayType *array, int *n)
{
	if (array_contains_nulls(array))
		ereport(ERROR, errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("array must not contain nulls"));
	if (ARR_NDIM(array) > 1)
		ereport(ERROR, errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR), errmsg("array must have one dimension"));
	*n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	return (int32 *) ARR_DATA_PTR(array);
}

ArrayType *
pgb_make_int_array(const int32 *ids, int n)
{
	Datum *d = palloc(sizeof(Datum) * (n + 1));
	int i;

	for (i = 0; i < n; i++)
		d[i] = Int32GetDatum(ids[i]);
	return construct_array(d, n, INT4OID, sizeof(int32), true, TYPALIGN_INT);
}
