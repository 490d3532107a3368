-- The functions that people call.  Names, arguments and results are a contract within a major version.

CREATE FUNCTION broker.create_topic(topic text, partitions int DEFAULT NULL, replication_factor int DEFAULT NULL, config jsonb DEFAULT '{}',
		assignment jsonb DEFAULT NULL, if_not_exists bool DEFAULT false)
	RETURNS uuid LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_create_topic_1';

CREATE FUNCTION broker.alter_topic(topic text, config jsonb)
	RETURNS TABLE (config_key text, old_value text, new_value text, source text) LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_alter_topic_1';

CREATE FUNCTION broker.set_partition_count(topic text, partitions int)
	RETURNS int LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_set_partition_count_1';

CREATE FUNCTION broker.delete_topic(topic text, if_exists bool DEFAULT false)
	RETURNS bool LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_delete_topic_1';

CREATE FUNCTION broker.delete_records(topic text, partition int, before_offset bigint)
	RETURNS bigint LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_delete_records_1';

-- The argument and a result column have one name: C does not mind.
CREATE FUNCTION broker.purge_topic(topic text)
	RETURNS TABLE (topic text, partition int, before_offset bigint) LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_purge_topic_1';

CREATE FUNCTION broker.alter_cluster(config jsonb)
	RETURNS TABLE (config_key text, old_value text, new_value text, source text) LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_alter_cluster_1';

CREATE FUNCTION broker.alter_broker(broker_id int, config jsonb)
	RETURNS TABLE (config_key text, old_value text, new_value text, source text) LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_alter_broker_1';

CREATE FUNCTION broker.set_replication_factor(topic text, replication_factor int, dry_run bool DEFAULT false, throttle bigint DEFAULT NULL)
	RETURNS TABLE (topic text, partition int, replicas int[], target_replicas int[], bytes_to_copy bigint) LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_set_replication_factor_1';

CREATE FUNCTION broker.reassign_partitions(topic text DEFAULT NULL, partitions int[] DEFAULT NULL, replicas int[] DEFAULT NULL, brokers int[] DEFAULT NULL, dry_run bool DEFAULT false,
		throttle bigint DEFAULT NULL)
	RETURNS TABLE (topic text, partition int, replicas int[], target_replicas int[], bytes_to_copy bigint) LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_reassign_partitions_1';

CREATE FUNCTION broker.cancel_reassignment(topic text DEFAULT NULL, partitions int[] DEFAULT NULL)
	RETURNS TABLE (topic text, partition int, replicas int[]) LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_cancel_reassignment_1';

CREATE FUNCTION broker.elect_leaders(topic text DEFAULT NULL, partitions int[] DEFAULT NULL, unclean bool DEFAULT false)
	RETURNS TABLE (topic text, partition int, old_leader int, new_leader int) LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_elect_leaders_1';

CREATE FUNCTION broker.drain_broker(broker_id int)
	RETURNS int LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_drain_broker_1';

CREATE FUNCTION broker.undrain_broker(broker_id int)
	RETURNS bool LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_undrain_broker_1';

CREATE FUNCTION broker.decommission_broker(broker_id int, dry_run bool DEFAULT false, throttle bigint DEFAULT NULL)
	RETURNS TABLE (topic text, partition int, replicas int[], target_replicas int[], bytes_to_copy bigint) LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_decommission_broker_1';

CREATE FUNCTION broker.fence_broker(broker_id int)
	RETURNS bool LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_fence_broker_1';

CREATE FUNCTION broker.unfence_broker(broker_id int)
	RETURNS bool LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_unfence_broker_1';

CREATE FUNCTION broker.unregister_broker(broker_id int, force bool DEFAULT false)
	RETURNS bool LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_unregister_broker_1';

CREATE FUNCTION broker.cancel_operation(operation_id bigint)
	RETURNS bool LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_cancel_operation_1';

CREATE FUNCTION broker.help(search text DEFAULT NULL)
	RETURNS TABLE (name text, signature text, description text, example text, kafka_cli text) LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'pgb_help_1';

CREATE PROCEDURE broker.wait(timeout interval DEFAULT '30 s', operation_id bigint DEFAULT NULL)
	LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_wait_1';

-- DROP EXTENSION and DROP SCHEMA, while a broker is alive.
CREATE FUNCTION broker_internal.guard_drop() RETURNS event_trigger LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_guard_drop_1';
CREATE EVENT TRIGGER pg_broker_guard ON ddl_command_start WHEN TAG IN ('DROP EXTENSION', 'DROP SCHEMA')
	EXECUTE FUNCTION broker_internal.guard_drop();
