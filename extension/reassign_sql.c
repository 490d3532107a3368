/*
 * reassign_sql.c: plans and states of reassignments, as SQL functions over arrays.
 */
#include "pgb.h"

#include "reassign.h"

#define MOST_TARGETS 10000000

static ReassignBroker *
read_brokers(FunctionCallInfo fcinfo, int *n)
{
	IdSet ids = pgb_id_set(fcinfo, 0), loads = pgb_id_set(fcinfo, 2);
	int32 *racks = pgb_number_racks(PG_GETARG_ARRAYTYPE_P(1), ids.n);
	ReassignBroker *brokers = palloc0(sizeof(ReassignBroker) * (ids.n + 1));
	int i;

	if (loads.n != ids.n)
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("%d brokers with %d loads", ids.n, loads.n));
	for (i = 0; i < ids.n; i++)
		brokers[i] = (ReassignBroker){.id = ids.ids[i],
									  .rack = racks[i],
									  .replicas = loads.ids[i] < 0 ? 0 : loads.ids[i],
									  .closed = loads.ids[i] < 0};
	*n = ids.n;
	return brokers;
}

/* Partitions one behind the other: how many replicas each has, all of those, how many each shall have. */
static ReassignPartition *
read_partitions(FunctionCallInfo fcinfo, int *n, int64 *n_targets)
{
	IdSet sizes = pgb_id_set(fcinfo, 3), current = pgb_id_set(fcinfo, 4), factors = pgb_id_set(fcinfo, 5);
	ReassignPartition *partitions = palloc(sizeof(ReassignPartition) * (sizes.n + 1));
	int64 used = 0;
	int i;

	*n_targets = 0;
	for (i = 0; i < sizes.n && factors.n == sizes.n; i++)
	{
		if (sizes.ids[i] < 0 || used + sizes.ids[i] > current.n || factors.ids[i] < 1)
			break;
		partitions[i] =
			(ReassignPartition){.current = {current.ids + used, sizes.ids[i]}, .factor = factors.ids[i]};
		used += sizes.ids[i];
		*n_targets += factors.ids[i];
	}
	if (i < sizes.n || factors.n != sizes.n || used != current.n || *n_targets > MOST_TARGETS)
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("sizes and replicas do not fit together"));
	*n = sizes.n;
	return partitions;
}

PG_FUNCTION_INFO_V1(pgb_plan_reassignment_1);
Datum
pgb_plan_reassignment_1(PG_FUNCTION_ARGS)
{
	int n, n_partitions, i;
	int64 n_targets;
	ReassignBroker *brokers = read_brokers(fcinfo, &n);
	ReassignPartition *partitions = read_partitions(fcinfo, &n_partitions, &n_targets);
	int32 *targets = palloc(sizeof(int32) * (n_targets + 1)), *next = targets;

	for (i = 0; i < n_partitions; i++)
	{
		partitions[i].target = next;
		next += partitions[i].factor;
		if (partitions[i].factor > n)
			ereport(
				ERROR, errcode(PGB_ERRCODE('0', '3', '8')),
				errmsg("%d replicas are wished, and only %d brokers can have one", partitions[i].factor, n));
	}
	if (!reassign_plan(brokers, n, partitions, n_partitions, PG_GETARG_BOOL(6)))
		ereport(ERROR, errcode(PGB_ERRCODE('0', '3', '8')),
				errmsg("there are not enough brokers that are alive for so many replicas"));
	PG_RETURN_ARRAYTYPE_P(pgb_make_int_array(targets, (int) n_targets));
}

PG_FUNCTION_INFO_V1(pgb_reassign_done_1);
Datum
pgb_reassign_done_1(PG_FUNCTION_ARGS)
{
	ReassignState state = {
		.replicas = pgb_id_set(fcinfo, 0),
		.adding = pgb_id_set(fcinfo, 1),
		.removing = pgb_id_set(fcinfo, 2),
		.isr = pgb_id_set(fcinfo, 3),
		.live = pgb_id_set(fcinfo, 4),
		.min_isr = PG_GETARG_INT32(5),
	};

	PG_RETURN_BOOL(reassign_done(&state));
}

PG_FUNCTION_INFO_V1(pgb_min_isr_1);
Datum
pgb_min_isr_1(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(min_isr_of(PG_ARGISNULL(0) ? -1 : PG_GETARG_INT32(0), PG_GETARG_INT32(1),
							   PG_GETARG_INT32(2), PG_GETARG_INT32(3)));
}
