/*
 * decisions_sql.c: elections, placement and packed partitions, as SQL functions over arrays.
 */
#include "pgb.h"

#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "catalog/pg_type_d.h"
#include "utils/builtins.h"

#include "election.h"
#include "placement.h"

IdSet
pgb_id_set(FunctionCallInfo fcinfo, int arg)
{
	IdSet set = {NULL, 0};

	if (!PG_ARGISNULL(arg))
		set.ids = pgb_int_array(PG_GETARG_ARRAYTYPE_P(arg), &set.n);
	return set;
}

PG_FUNCTION_INFO_V1(pgb_pick_leader_1);
Datum
pgb_pick_leader_1(PG_FUNCTION_ARGS)
{
	ElectionInput in = {
		.replicas = pgb_id_set(fcinfo, 0),
		.isr = pgb_id_set(fcinfo, 1),
		.elr = pgb_id_set(fcinfo, 2),
		.leader = PG_ARGISNULL(3) ? -1 : PG_GETARG_INT32(3),
		.live = pgb_id_set(fcinfo, 4),
		.unclean = !PG_ARGISNULL(5) && PG_GETARG_BOOL(5),
	};
	int32_t leader;

	if (election_pick(&in, &leader) == ELECTION_NONE)
		PG_RETURN_NULL();
	PG_RETURN_INT32(leader);
}

PG_FUNCTION_INFO_V1(pgb_without_1);
Datum
pgb_without_1(PG_FUNCTION_ARGS)
{
	IdSet set = pgb_id_set(fcinfo, 0), gone = pgb_id_set(fcinfo, 1);
	int32_t *out = palloc(sizeof(int32_t) * (set.n + 1));

	PG_RETURN_ARRAYTYPE_P(pgb_make_int_array(out, id_set_without(set, gone, out)));
}

int32 *
pgb_number_racks(ArrayType *racks, int n)
{
	int32 *out = palloc(sizeof(int32) * (n + 1));
	Datum *names;
	bool *nulls;
	int count, i, j;

	deconstruct_array(racks, TEXTOID, -1, false, TYPALIGN_INT, &names, &nulls, &count);
	if (count != n)
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("%d brokers with %d racks", n, count));
	for (i = 0; i < n; i++)
	{
		out[i] = i;
		for (j = 0; j < i && !nulls[i]; j++)
			if (!nulls[j] && strcmp(TextDatumGetCString(names[i]), TextDatumGetCString(names[j])) == 0)
			{
				out[i] = out[j];
				break;
			}
	}
	return out;
}

PG_FUNCTION_INFO_V1(pgb_place_1);
Datum
pgb_place_1(PG_FUNCTION_ARGS)
{
	IdSet ids = pgb_id_set(fcinfo, 0);
	int32 partitions = PG_GETARG_INT32(2), factor = PG_GETARG_INT32(3), i;
	int64 start = PG_GETARG_INT64(4);
	PlacementBroker *brokers = palloc0(sizeof(PlacementBroker) * (ids.n + 1));
	int32 *out, *racks;

	if (partitions < 0 || factor < 1 || (int64) partitions * factor > 10000000)
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("%d partitions with %d replicas", partitions, factor));
	racks = pgb_number_racks(PG_GETARG_ARRAYTYPE_P(1), ids.n);
	for (i = 0; i < ids.n; i++)
		brokers[i] = (PlacementBroker){.id = ids.ids[i], .rack = racks[i]};
	out = palloc(sizeof(int32) * ((Size) partitions * factor + 1));
	if (!placement_spread(brokers, ids.n, partitions, factor, (uint32) (start % UINT32_MAX), out))
		ereport(ERROR, errcode(PGB_ERRCODE('0', '3', '8')),
				errmsg("replication factor %d is larger than the number of brokers: %d", factor, ids.n));
	PG_RETURN_ARRAYTYPE_P(pgb_make_int_array(out, partitions * factor));
}

static void
send_ids(StringInfo buf, IdSet set)
{
	int i;

	pq_sendint32(buf, (uint32) set.n);
	for (i = 0; i < set.n; i++)
		pq_sendint32(buf, (uint32) set.ids[i]);
}

PG_FUNCTION_INFO_V1(pgb_pack_partition_1);
Datum
pgb_pack_partition_1(PG_FUNCTION_ARGS)
{
	StringInfoData buf;
	int i;

	pq_begintypsend(&buf);
	for (i = 0; i < 4; i++)
		pq_sendint32(&buf, PG_ARGISNULL(i) ? (uint32) -1 : (uint32) PG_GETARG_INT32(i));
	for (i = 4; i < 9; i++)
		send_ids(&buf, pgb_id_set(fcinfo, i));
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}
