-- What CREATE EXTENSION makes, and that it is the surface that is promised.
SELECT no_plan();

SELECT is(ARRAY (SELECT f FROM unnest(ARRAY['create_topic', 'alter_topic', 'set_partition_count', 'delete_topic', 'delete_records', 'purge_topic', 'alter_cluster', 'alter_broker', 'help', 'wait', 'cancel_operation']) f
	EXCEPT SELECT proname FROM pg_proc WHERE pronamespace = 'broker'::regnamespace), '{}', 'the functions of broker');
SELECT is((SELECT count(*) FROM (SELECT FROM pg_proc WHERE pronamespace IN ('broker'::regnamespace, 'broker_internal'::regnamespace) GROUP BY pronamespace, proname HAVING count(*) > 1) x), 0::bigint, 'no overloads');
SELECT is((SELECT string_agg(proname, ', ') FROM pg_proc WHERE pronamespace = 'broker'::regnamespace AND (prosecdef OR provariadic <> 0 OR prolang <> (SELECT oid FROM pg_language WHERE lanname = 'c'))), NULL,
	'entry points are C, SECURITY INVOKER, not variadic');
SELECT is((SELECT string_agg(proname, ', ') FROM pg_proc WHERE pronamespace = 'broker_internal'::regnamespace AND prosecdef AND NOT 'search_path="pg_catalog, broker_internal, pg_temp"' = ANY (proconfig)
	AND NOT 'search_path=pg_catalog, broker_internal, pg_temp' = ANY (proconfig)), NULL, 'SECURITY DEFINER only with a pinned search_path');
SELECT is((SELECT string_agg(proname, ', ') FROM pg_proc p WHERE pronamespace = 'broker'::regnamespace AND EXISTS (SELECT FROM unnest(proargnames) a WHERE a LIKE 'p\_%')), NULL, 'no p_ prefixes');
SELECT is((SELECT string_agg(format('%s.%s', relname, attname), ', ') FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
	WHERE c.relnamespace = 'broker_internal'::regnamespace AND c.relkind = 'r' AND atttypid::regtype::text LIKE 'reg%'), NULL, 'no reg* columns (pg_upgrade)');
SELECT is((SELECT count(*) FROM pg_class WHERE relnamespace = 'broker_internal'::regnamespace AND relpersistence = 'u'), 0::bigint, 'no unlogged table');
SELECT is((SELECT count(*) FROM pg_class WHERE relnamespace = 'broker'::regnamespace AND relkind <> 'v'), 0::bigint, 'broker has views only');
SELECT is((SELECT string_agg(relname, ', ') FROM pg_class WHERE relnamespace = 'broker'::regnamespace AND NOT coalesce('security_barrier=true' = ANY (reloptions), false)), NULL, 'each with security_barrier');
SELECT is((SELECT string_agg(i.indexrelid::regclass || coalesce(' WHERE ' || pg_get_expr(i.indpred, i.indrelid), ''), ', ' ORDER BY 1) FROM pg_index i WHERE i.indrelid = 'broker_internal.partitions'::regclass),
	'broker_internal.partitions_pkey, broker_internal.partitions_reassigned WHERE (origin IS NOT NULL)', 'partitions has its primary key and an index on what no election changes: their updates stay HOT');

-- names, order and types of the columns are a contract
CREATE FUNCTION pg_temp.columns(view text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(attname || ' ' || CASE format_type(atttypid, atttypmod) WHEN 'integer' THEN 'i' WHEN 'bigint' THEN 'b' WHEN 'text' THEN 't' WHEN 'boolean' THEN 'B'
		WHEN 'timestamp with time zone' THEN 'ts' WHEN 'interval' THEN 'iv' WHEN 'integer[]' THEN 'i[]' WHEN 'text[]' THEN 't[]' ELSE format_type(atttypid, atttypmod) END, ', ' ORDER BY attnum)
	FROM pg_attribute WHERE attrelid = ('broker.' || view)::regclass AND attnum > 0
$$;
SELECT is(pg_temp.columns('cluster'), 'cluster_id t, controller_id i, controller_epoch i, controller_since ts, brokers i, brokers_alive i, topics b, partitions b, offline_partitions b, under_replicated_partitions b, under_min_isr_partitions b, problems i, extension_version t, oldest_broker_version t', 'cluster');
SELECT is(pg_temp.columns('problems'), 'severity t, since ts, object t, problem t, hint t', 'problems');
SELECT is(pg_temp.columns('brokers'), 'broker_id i, state t, is_controller B, rack t, endpoints t[], version t, broker_epoch b, registered_at ts, last_seen_at ts, silent_for iv, leaders i, replicas i, out_of_sync i, size_bytes b, disk_free_bytes b, disk_total_bytes b, connections i, reported_at ts, report_age iv', 'brokers');
SELECT is(pg_temp.columns('topics'), 'topic t, topic_id uuid, partitions i, replication_factor i, min_isr i, cleanup_policy t, retention t, overrides i, offline i, under_replicated i, under_min_isr i, records b, size_bytes b, last_append_at ts, created_at ts, created_by t, reported_at ts, report_age iv', 'topics');
SELECT is(pg_temp.columns('topic_configs'), 'topic t, config_key t, value t, pretty t, source t, default_value t, changed_at ts, changed_by t', 'topic_configs');
SELECT is(pg_temp.columns('settings'), 'scope t, broker_id i, config_key t, value t, pretty t, source t, default_value t, changed_at ts, changed_by t', 'settings');
SELECT is(pg_temp.columns('config_keys'), 'config_key t, scope t, unit t, default_value t, allowed t, is_used B, needs_restart B, description t', 'config_keys');
SELECT is(pg_temp.columns('partitions'), 'topic t, partition i, leader i, preferred_leader i, leader_epoch i, partition_epoch i, replicas i[], isr i[], offline_replicas i[], is_offline B, is_under_replicated B, is_under_min_isr B, is_at_min_isr B, leader_since ts, log_start_offset b, high_watermark b, last_stable_offset b, log_end_offset b, records b, size_bytes b, last_append_at ts, reported_at ts, report_age iv, elr i[]', 'partitions');
SELECT is(pg_temp.columns('reassignments'), 'topic t, partition i, replicas i[], target_replicas i[], adding i[], removing i[], bytes_left b, started_at ts, requested_by t, waiting_for t, throttle_bytes b', 'reassignments');
SELECT is(pg_temp.columns('replicas'), 'topic t, partition i, broker_id i, is_leader B, in_sync B, state t, log_start_offset b, log_end_offset b, lag b, caught_up_at ts, size_bytes b, log_dir t, reported_at ts, report_age iv', 'replicas');
SELECT is(pg_temp.columns('events'), 'event_id b, event_time ts, kind t, object t, topic t, partition i, broker_id i, group_id t, old t, new t, details jsonb, actor t, via t, client_addr inet, reason t', 'events');
SELECT is(pg_temp.columns('operations'), 'operation_id b, kind t, object t, state t, progress numeric, waiting_for t, error t, requested_by t, requested_at ts, finished_at ts', 'operations');

CREATE FUNCTION pg_temp.signature(f text) RETURNS text LANGUAGE sql AS $$
	SELECT pg_get_function_arguments(oid) || coalesce(' → ' || pg_get_function_result(oid), '') FROM pg_proc WHERE pronamespace = 'broker'::regnamespace AND proname = f
$$;
SELECT is(pg_temp.signature('create_topic'), $$topic text, partitions integer DEFAULT NULL::integer, replication_factor integer DEFAULT NULL::integer, config jsonb DEFAULT '{}'::jsonb, assignment jsonb DEFAULT NULL::jsonb, if_not_exists boolean DEFAULT false → uuid$$, 'create_topic');
SELECT is(pg_temp.signature('alter_topic'), 'topic text, config jsonb → TABLE(config_key text, old_value text, new_value text, source text)', 'alter_topic');
SELECT is(pg_temp.signature('set_partition_count'), 'topic text, partitions integer → integer', 'set_partition_count');
SELECT is(pg_temp.signature('delete_topic'), 'topic text, if_exists boolean DEFAULT false → boolean', 'delete_topic');
SELECT is(pg_temp.signature('delete_records'), 'topic text, partition integer, before_offset bigint → bigint', 'delete_records');
SELECT is(pg_temp.signature('purge_topic'), 'topic text → TABLE(topic text, partition integer, before_offset bigint)', 'purge_topic');
SELECT is(pg_temp.signature('alter_cluster'), 'config jsonb → TABLE(config_key text, old_value text, new_value text, source text)', 'alter_cluster');
SELECT is(pg_temp.signature('alter_broker'), 'broker_id integer, config jsonb → TABLE(config_key text, old_value text, new_value text, source text)', 'alter_broker');
SELECT is(pg_temp.signature('cancel_operation'), 'operation_id bigint → boolean', 'cancel_operation');
SELECT is(pg_temp.signature('help'), 'search text DEFAULT NULL::text → TABLE(name text, signature text, description text, example text, kafka_cli text)', 'help');
SELECT is(pg_temp.signature('wait'), $$IN timeout interval DEFAULT '00:00:30'::interval, IN operation_id bigint DEFAULT NULL::bigint$$, 'wait');

-- help is the one source of comments
SELECT set_eq($$ SELECT kind || ' ' || name FROM broker_internal.help $$,
	$$ SELECT 'function ' || proname FROM pg_proc WHERE pronamespace = 'broker'::regnamespace UNION ALL SELECT 'view ' || relname FROM pg_class WHERE relnamespace = 'broker'::regnamespace $$,
	'help has every function and view, and nothing else');
SELECT is((SELECT string_agg(relname || '.' || attname, ', ') FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND attnum > 0 WHERE c.relnamespace = 'broker'::regnamespace AND col_description(c.oid, attnum) IS NULL), NULL, 'every column has a comment');
SELECT is((SELECT string_agg(relname, ', ') FROM pg_class WHERE relnamespace = 'broker'::regnamespace AND obj_description(oid, 'pg_class') IS NULL), NULL, 'every view has one');
SELECT is((SELECT string_agg(proname, ', ') FROM pg_proc WHERE pronamespace = 'broker'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL), NULL, 'every function has one');
SELECT is((SELECT string_agg(h.view || '.' || h.name, ', ') FROM broker_internal.help_columns h WHERE NOT EXISTS (SELECT FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
	WHERE c.relnamespace = 'broker'::regnamespace AND a.attname = h.name AND h.view IN ('', c.relname))), NULL, 'no column is described that is not there');
SELECT is((SELECT count(*) FROM broker.help()), (SELECT count(*) FROM broker_internal.help), 'help() lists all');
SELECT is((SELECT string_agg(name, ', ') FROM broker.help('kafka-delete-records')), 'delete_records, purge_topic', 'help() finds by the name of Kafka''s tool');
SELECT matches((SELECT signature FROM broker.help('purge')), '^purge_topic\(topic text\)', 'with the signature');

-- a second CREATE EXTENSION meets roles that are there, and schemas that are not ours
SELECT lives_ok('DROP EXTENSION pg_broker', 'DROP EXTENSION without brokers');
SELECT is((SELECT count(*) FROM pg_namespace WHERE nspname IN ('broker', 'broker_internal')) + (SELECT count(*) FROM pg_event_trigger), 0::bigint, 'leaves nothing');
SELECT has_role('broker_admin', 'but the roles');
CREATE SCHEMA broker;
SELECT throws_ok('CREATE EXTENSION pg_broker', '42P06', NULL, 'a schema broker that is there already is not adopted');
DROP SCHEMA broker;
SELECT lives_ok('CREATE EXTENSION pg_broker', 'CREATE EXTENSION again');
-- Tables of which PostgreSQL knows nothing yet, and tables with few rows it never analyzes: a plan that it takes for large is compiled
-- (JIT), which made broker.groups take seconds.
CREATE FUNCTION pg_temp.cost(v text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE format('EXPLAIN (FORMAT JSON) SELECT * FROM broker.%I', v) INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Total Cost';
END
$$;
SELECT is((SELECT string_agg(format('%s: %s', v, pg_temp.cost(v)), ', ') FROM (SELECT c.relname AS v FROM pg_class c WHERE c.relnamespace = 'broker'::regnamespace AND c.relkind = 'v' OFFSET 0) x
		WHERE pg_temp.cost(v) > current_setting('jit_above_cost')::numeric / 2), NULL, 'no view is planned as if it were huge');
SELECT * FROM finish();
