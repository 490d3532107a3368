-- Pure decisions in C; they read and write nothing.

CREATE FUNCTION broker_internal.pick_leader(replicas int[], isr int[], elr int[], leader int, live int[], unclean bool)
	RETURNS int LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgb_pick_leader_1';

CREATE FUNCTION broker_internal.without(ids int[], gone int[])
	RETURNS int[] LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgb_without_1';

-- factor ids for each partition, one behind the other
CREATE FUNCTION broker_internal.place(broker_ids int[], racks text[], partitions int, factor int, start bigint)
	RETURNS int[] LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgb_place_1';

-- Where the replicas of existing partitions go (extension/reassign.h): brokers that may have some, with racks and with
-- the replicas that they have outside of the plan, -1: keeps what it has and gets no more; partitions one behind the other, by how many replicas they have,
-- which, and how many they shall have.  The targets, one behind the other.
CREATE FUNCTION broker_internal.plan_reassignment(broker_ids int[], racks text[], loads int[], sizes int[], current int[], factors int[], balance bool)
	RETURNS int[] LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgb_plan_reassignment_1';

-- May the removing replicas go?
CREATE FUNCTION broker_internal.reassign_done(replicas int[], adding int[], removing int[], isr int[], live int[], min_isr int)
	RETURNS bool LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgb_reassign_done_1';

-- min.insync.replicas as it counts for a partition with so many replicas; configured NULL: nobody has set it
CREATE FUNCTION broker_internal.min_isr(configured int, replicas int, adding int, removing int)
	RETURNS int LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgb_min_isr_1';

-- PB017 with Kafka's reason
CREATE FUNCTION broker_internal.check_topic_name(topic text)
	RETURNS void LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgb_check_topic_name_1';

-- The value as it is kept; PB040 names the nearest key, the bounds, what to write.  strict: numbers only, as on the wire.
CREATE FUNCTION broker_internal.config_check(scope text, config_key text, value text, strict bool)
	RETURNS text LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgb_config_check_1';

-- '7 days', '1 GB', 'no limit'
CREATE FUNCTION broker_internal.config_pretty(scope text, config_key text, value text)
	RETURNS text LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgb_config_pretty_1';

-- why a value has no effect; NULL: it has
CREATE FUNCTION broker_internal.config_unused(scope text, config_key text, value text)
	RETURNS text LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgb_config_unused_1';

-- extension/config_keys.def as rows, one for each scope of a key
CREATE FUNCTION broker_internal.config_table(
		OUT config_key text, OUT scope text, OUT type text, OUT unit text, OUT default_value text, OUT allowed text,
		OUT synonym text, OUT is_used bool, OUT needs_restart bool, OUT description text)
	RETURNS SETOF record LANGUAGE c IMMUTABLE PARALLEL SAFE ROWS 120 AS 'MODULE_PATHNAME', 'pgb_config_table_1';

-- big-endian int32: partition, leader (-1 none), leader_epoch, partition_epoch, and the five arrays with their lengths
CREATE FUNCTION broker_internal.pack_partition(partition int, leader int, leader_epoch int, partition_epoch int,
		replicas int[], isr int[], adding int[], removing int[], elr int[])
	RETURNS bytea LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgb_pack_partition_1';

-- May the caller see all rows?  Used in views, so it is executed as the caller and free for everybody.
CREATE FUNCTION broker_internal.can_view()
	RETURNS bool LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgb_can_view_1';
