-- What the C entry points run as the owner: broker_internal.do_NAME(caller, arguments...).

CREATE FUNCTION broker_internal.do_create_topic(caller text, name text, wished_partitions int, wished_factor int, config jsonb, assignment jsonb, if_not_exists bool)
RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
	id uuid;
	a  record;
BEGIN
	BEGIN
		SELECT * INTO a FROM add_topic(name, wished_partitions, wished_factor, config, assignment, false, caller, 'sql', inet_client_addr());
	EXCEPTION WHEN SQLSTATE 'PB036' THEN
		IF NOT coalesce(if_not_exists, false) THEN
			RAISE;
		END IF;
		SELECT t.topic_id INTO id FROM topics t WHERE t.topic = name AND t.deleted_at IS NULL;
		RAISE NOTICE 'topic "%" already exists, skipping', name;
		RETURN id;
	END;
	PERFORM add_operation('topic.create', 'topic ' || name, a.topic_id, NULL, caller, 'waiting');
	RETURN a.topic_id;
END
$$;

CREATE FUNCTION broker_internal.do_alter_topic(caller text, name text, config jsonb)
RETURNS TABLE (config_key text, old_value text, new_value text, source text) LANGUAGE plpgsql AS $$
DECLARE
	t topics;
BEGIN
	t := lock_topic(name, true);
	RETURN QUERY SELECT * FROM set_configs('topic', t.topic_id::text, name, config, false, false, caller, 'sql', inet_client_addr());
	PERFORM add_operation('topic.config', 'topic ' || name, t.topic_id, config, caller, 'waiting');
END
$$;

CREATE FUNCTION broker_internal.do_set_partition_count(caller text, name text, total int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	t     topics;
	added int;
BEGIN
	t := lock_topic(name, true);
	added := add_partitions(t, total, NULL, caller, 'sql', inet_client_addr());
	RAISE NOTICE 'keys of topic "%" map to other partitions from now on', name
		USING HINT = 'Records that are there stay where they are. See broker.partitions and broker.operations.';
	PERFORM add_operation('topic.partitions', 'topic ' || name, t.topic_id, NULL, caller, 'waiting');
	RETURN added;
END
$$;

CREATE FUNCTION broker_internal.do_delete_topic(caller text, name text, if_exists bool) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	t topics;
BEGIN
	BEGIN
		t := lock_topic(name, true);
	EXCEPTION WHEN SQLSTATE 'PB003' THEN
		IF NOT coalesce(if_exists, false) THEN
			RAISE;
		END IF;
		RAISE NOTICE 'topic "%" does not exist, skipping', name;
		RETURN false;
	END;
	PERFORM bury_topic(t, caller, 'sql', inet_client_addr());
	PERFORM add_operation('topic.delete', 'topic ' || name, t.topic_id, NULL, caller, 'waiting');
	RETURN true;
END
$$;

-- Deletions are carried out by the leaders; the rows are new ones, so nothing of the control plane is locked.
CREATE FUNCTION broker_internal.add_record_deletion(caller text, kind text, t broker_internal.topics, parts int[], before_offset bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	id bigint;
BEGIN
	id := add_operation(kind, 'topic ' || t.topic, t.topic_id, jsonb_build_object('before_offset', before_offset), caller, 'running');
	UPDATE operations SET waiting_for = 'the leaders' WHERE operation_id = id;
	INSERT INTO operation_parts (operation_id, partition, topic_id, args)
		SELECT id, p, t.topic_id, jsonb_build_object('before_offset', before_offset) FROM unnest(parts) p;
	PERFORM add_event(kind, 'topic ' || t.topic, t.topic, CASE WHEN cardinality(parts) = 1 THEN parts[1] END, NULL, NULL, NULL, before_offset::text,
		jsonb_build_object('partitions', cardinality(parts)), caller, 'sql', inet_client_addr(), NULL);
END
$$;

CREATE FUNCTION broker_internal.find_topic(name text) RETURNS broker_internal.topics STABLE LANGUAGE plpgsql AS $$
DECLARE
	t topics;
BEGIN
	SELECT * INTO t FROM topics x WHERE x.topic = name AND x.deleted_at IS NULL;
	IF NOT FOUND THEN
		PERFORM no_topic(name);
	END IF;
	RETURN t;
END
$$;

CREATE FUNCTION broker_internal.do_delete_records(caller text, name text, part int, before_offset bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	t topics := find_topic(name);
	r partition_reports;
BEGIN
	IF part IS NULL OR part < 0 OR part >= t.partitions THEN
		RAISE EXCEPTION 'topic "%" has no partition %', name, part USING ERRCODE = 'PB003', DETAIL = format('It has %s.', t.partitions);
	END IF;
	IF before_offset IS NULL OR before_offset < -1 THEN
		RAISE EXCEPTION 'offset % is out of range', before_offset USING ERRCODE = 'PB001', HINT = 'An offset, or -1 for the high watermark.';
	END IF;
	SELECT * INTO r FROM partition_reports x WHERE x.topic_id = t.topic_id AND x.partition = part
		AND x.broker_id = (SELECT p.leader FROM partitions p WHERE p.topic_id = t.topic_id AND p.partition = part);
	IF before_offset < r.log_start_offset AND before_offset <> -1 THEN
		RAISE EXCEPTION 'offset % is out of range', before_offset USING ERRCODE = 'PB001',
			DETAIL = format('The log of partition %s of "%s" starts at %s.', part, name, r.log_start_offset);
	END IF;
	PERFORM add_record_deletion(caller, 'delete_records', t, ARRAY[part], before_offset);
	RETURN CASE WHEN before_offset = -1 THEN r.high_watermark ELSE before_offset END;
END
$$;

CREATE FUNCTION broker_internal.do_purge_topic(caller text, name text) RETURNS TABLE (topic text, partition int, before_offset bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	t topics := find_topic(name);
BEGIN
	PERFORM add_record_deletion(caller, 'delete_records', t, ARRAY (SELECT generate_series(0, t.partitions - 1)), -1);
	RETURN QUERY SELECT t.topic, n, r.high_watermark FROM generate_series(0, t.partitions - 1) n
		LEFT JOIN partitions p ON p.topic_id = t.topic_id AND p.partition = n
		LEFT JOIN partition_reports r ON r.topic_id = t.topic_id AND r.partition = n AND r.broker_id = p.leader ORDER BY n;
END
$$;

CREATE FUNCTION broker_internal.do_alter_cluster(caller text, config jsonb)
RETURNS TABLE (config_key text, old_value text, new_value text, source text) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY SELECT * FROM set_configs('cluster', '', '', config, false, false, caller, 'sql', inet_client_addr());
	PERFORM add_operation('cluster.config', 'cluster', NULL, config, caller, 'waiting');
END
$$;

CREATE FUNCTION broker_internal.do_alter_broker(caller text, id int, config jsonb)
RETURNS TABLE (config_key text, old_value text, new_value text, source text) LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM brokers b WHERE b.broker_id = id) THEN
		RAISE EXCEPTION 'broker % is not registered', id USING ERRCODE = 'PB102', HINT = 'The brokers are in broker.brokers.';
	END IF;
	RETURN QUERY SELECT * FROM set_configs('broker', id::text, id::text, config, false, false, caller, 'sql', inet_client_addr());
	PERFORM add_operation('broker.config', 'broker ' || id, NULL, config, caller, 'waiting');
END
$$;

-- Only what has not happened yet can be cancelled, by who asked for it or an administrator.
CREATE FUNCTION broker_internal.do_cancel_operation(caller text, id bigint) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	o      operations;
	placed int;
BEGIN
	SELECT * INTO o FROM operations x WHERE x.operation_id = id AND (x.requested_by = caller OR pg_has_role(caller, 'broker_viewer', 'USAGE'));
	IF NOT FOUND THEN
		-- who may not look does not learn whether it exists
		RAISE EXCEPTION 'operation % does not exist%', id, CASE WHEN pg_has_role(caller, 'broker_viewer', 'USAGE') THEN '' ELSE ', or is not yours' END
			USING ERRCODE = CASE WHEN pg_has_role(caller, 'broker_viewer', 'USAGE') THEN '22023' ELSE '42501' END, HINT = 'The operations are in broker.operations.';
	END IF;
	IF o.requested_by <> caller AND NOT pg_has_role(caller, 'broker_admin', 'USAGE') THEN
		RAISE EXCEPTION 'operation % belongs to %', id, o.requested_by USING ERRCODE = '42501', HINT = 'Role broker_admin may cancel it too.';
	END IF;
	SELECT * INTO o FROM operations x WHERE x.operation_id = id FOR UPDATE;
	IF o.state NOT IN ('waiting', 'running') OR (o.state = 'running' AND o.kind = 'broker.drain')
		OR o.kind NOT IN ('topic.create', 'topic.partitions', 'delete_records', 'topic.replication', 'partitions.reassign', 'partitions.cancel', 'partitions.elect',
			'broker.drain', 'broker.undrain', 'broker.decommission', 'broker.fence', 'broker.unfence', 'broker.unregister') THEN
		RAISE NOTICE 'operation % is % and cannot be cancelled', id, o.state;
		RETURN false;
	END IF;
	SELECT count(*) INTO placed FROM partitions p WHERE p.topic_id = o.topic_id;
	IF o.kind = 'topic.create' THEN
		DELETE FROM topics t WHERE t.topic_id = o.topic_id;
		DELETE FROM configs c WHERE c.scope = 'topic' AND c.object = o.topic_id::text;
	ELSIF o.kind = 'topic.partitions' THEN
		UPDATE topics t SET partitions = placed, assignment = NULL WHERE t.topic_id = o.topic_id;
	ELSIF o.kind = 'broker.decommission' AND o.state = 'running' THEN
		-- the broker takes part again, and what had begun goes back: both by the tick
		PERFORM add_operation('broker.undrain', o.object, NULL, jsonb_build_object('broker_id', o.args -> 'broker_id'), caller, 'waiting');
	ELSIF o.state = 'running' AND EXISTS (SELECT FROM moves m WHERE m.operation_id = id AND m.state = 'started') THEN
		PERFORM add_operation('partitions.cancel', o.object, NULL, jsonb_build_object('partitions',
			(SELECT jsonb_agg(jsonb_build_object('t', m.topic_id, 'p', m.partition)) FROM moves m WHERE m.operation_id = id AND m.state = 'started')), caller, 'waiting');
	END IF;
	UPDATE moves m SET state = 'cancelled' WHERE m.operation_id = id AND m.state = 'waiting';
	UPDATE operations x SET state = 'cancelled', waiting_for = NULL, finished_at = clock_timestamp() WHERE x.operation_id = id;
	PERFORM add_event('operation.cancel', o.object, NULL, NULL, NULL, NULL, o.kind, NULL, jsonb_build_object('operation_id', id), caller, 'sql', inet_client_addr(), NULL);
	RETURN true;
END
$$;

-- For CALL broker.wait(): what this session, or this operation, still waits for.
CREATE FUNCTION broker_internal.open_operations(id bigint, caller oid) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	o      operations;
	open   text;
	target bigint;
BEGIN
	IF id IS NOT NULL THEN
		SELECT * INTO o FROM operations x WHERE x.operation_id = id
			AND (x.requested_by = pg_get_userbyid(caller) OR pg_has_role(caller, 'broker_viewer', 'USAGE'));
		IF NOT FOUND THEN
			RAISE EXCEPTION 'operation % does not exist', id USING ERRCODE = '22023', HINT = 'The operations are in broker.operations.';
		ELSIF o.state IN ('failed', 'cancelled') THEN
			RAISE EXCEPTION 'operation % %: %', id, o.state, coalesce(o.error, o.object) USING ERRCODE = 'PB902';
		END IF;
	END IF;
	SELECT string_agg(format('%s of %s waits for %s', x.kind, x.object, coalesce(x.waiting_for, 'the controller')), '; ' ORDER BY x.operation_id) INTO open
		FROM (SELECT * FROM operations y WHERE y.state IN ('waiting', 'running')
			AND CASE WHEN id IS NULL THEN y.session_pid = pg_backend_pid() AND y.session_start = my_session_start() ELSE y.operation_id = id END
			ORDER BY y.operation_id LIMIT 5) x;
	IF open IS NOT NULL THEN
		RETURN open;
	END IF;
	-- Decided; now the brokers are to act on it.  One that does not say what it applied is not waited for.
	SELECT greatest(max(ch.version), max(c.configs_version) FILTER (WHERE y.topic_id IS NULL), max((y.args ->> 'version')::bigint)) INTO target
		FROM operations y LEFT JOIN changes ch ON ch.topic_id = y.topic_id, cluster c
		WHERE y.state = 'done' AND CASE WHEN id IS NULL THEN y.session_pid = pg_backend_pid() AND y.session_start = my_session_start() ELSE y.operation_id = id END;
	PERFORM pg_stat_clear_snapshot();
	RETURN (SELECT string_agg(format('broker %s waits for metadata version %s', b.broker_id, target), '; ' ORDER BY b.broker_id)
		FROM brokers b JOIN pg_stat_get_activity(NULL) a ON a.pid = b.backend_pid AND a.backend_start = b.backend_start
		WHERE NOT b.fenced AND substring(a.application_name FROM 'applied (\d{1,18})$')::bigint < target);
END
$$;

-- Sessions of brokers, for the view brokers: pg_stat_activity hides other roles' rows.
CREATE FUNCTION broker_internal.do_session_activity(caller text) RETURNS TABLE (broker_id int, last_seen_at timestamptz, is_controller bool) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	IF pg_is_in_recovery() OR NOT pg_has_role(caller, 'broker_viewer', 'USAGE') THEN
		RETURN;
	END IF;
	RETURN QUERY SELECT b.broker_id, CASE WHEN a.state = 'active' THEN clock_timestamp() ELSE a.state_change END,
			EXISTS (SELECT FROM cluster c JOIN pg_stat_get_activity(NULL) k ON k.pid = c.controller_pid AND k.backend_start = c.controller_start
				WHERE c.controller_id = b.broker_id)
		FROM brokers b JOIN pg_stat_get_activity(NULL) a ON a.pid = b.backend_pid AND a.backend_start = b.backend_start
		WHERE NOT b.fenced;
END
$$;

CREATE FUNCTION broker_internal.session_activity(OUT broker_id int, OUT last_seen_at timestamptz, OUT is_controller bool)
	RETURNS SETOF record LANGUAGE c VOLATILE ROWS 10 AS 'MODULE_PATHNAME', 'pgb_session_activity_1';
