-- What brokers read: short, paged, no lock held (hazards A22).

CREATE FUNCTION broker_internal.contract(OUT oldest int, OUT newest int, OUT extension_version text) STABLE LANGUAGE sql AS $$
	SELECT 1, 1, (SELECT extversion FROM pg_extension WHERE extname = 'pg_broker')
$$;

CREATE FUNCTION broker_internal.session_check_1() RETURNS TABLE (severity text, problem text, hint text) STABLE LANGUAGE sql AS $$
	SELECT 'critical', 'this PostgreSQL is a standby', 'Connect to the primary: target_session_attrs=read-write.' WHERE pg_is_in_recovery()
	UNION ALL
	SELECT 'critical', format('the database is encoded in %s', getdatabaseencoding()), 'Create the database with ENCODING UTF8.' WHERE getdatabaseencoding() <> 'UTF8'
	UNION ALL
	SELECT 'critical', 'track_activities is off for this session', 'ALTER ROLE ' || quote_ident(session_user) || ' SET track_activities = on.'
		WHERE NOT current_setting('track_activities')::bool
	UNION ALL
	SELECT 'critical', format('the isolation level of this session is %s', current_setting('transaction_isolation')),
			'Set default_transaction_isolation = ''read committed'' for the role of brokerd.'
		WHERE current_setting('transaction_isolation') <> 'read committed'
	UNION ALL
	SELECT 'critical', 'the owner of the extension may not see other sessions', 'Let a superuser own pg_broker, or grant pg_read_all_stats to the owner.'
		WHERE NOT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
	UNION ALL
	SELECT 'warning', format('synchronous_commit is %s for this session', current_setting('synchronous_commit')), 'brokerd sets it to on after it has connected.'
		WHERE current_setting('synchronous_commit') = 'off'
	UNION ALL
	SELECT 'warning', 'fsync of PostgreSQL is off', 'What PostgreSQL confirms may be lost when the host crashes.' WHERE NOT current_setting('fsync')::bool
	UNION ALL
	SELECT 'warning', 'standbys are asynchronous: a failover may lose the last decisions', 'Set synchronous_standby_names, such as ''ANY 1 (s1, s2)''.'
		WHERE current_setting('synchronous_standby_names') = '' AND EXISTS (SELECT FROM pg_stat_get_wal_senders() w WHERE w.state = 'streaming')
$$;

CREATE FUNCTION broker_internal.brokers_1(since bigint)
RETURNS TABLE (broker_id int, broker_epoch bigint, state text, rack text, endpoints jsonb, version bigint) STABLE LANGUAGE sql AS $$
	SELECT b.broker_id, b.broker_epoch, CASE WHEN b.fenced THEN 'dead' WHEN b.stopping OR b.drained OR b.decommissioning THEN 'draining' ELSE 'alive' END,
		b.rack, b.endpoints, b.changed_version
	FROM brokers b WHERE b.changed_version > since
	UNION ALL
	SELECT f.broker_id, f.broker_epoch, 'unregistered', f.rack, f.endpoints, f.changed_version
	FROM former_brokers f WHERE since > 0 AND f.changed_version > since
	ORDER BY 1
$$;

-- A page of topics that changed after `since`; `since` 0, or one that is pruned from the changes: all.
CREATE FUNCTION broker_internal.topics_1(since bigint, after_topic uuid, max_partitions int)
RETURNS TABLE (topic text, topic_id uuid, deleted bool, config jsonb, version bigint, partitions bytea) STABLE LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	whole boolean := since <= 0 OR since < (SELECT c.changes_since FROM cluster c);
	from_id uuid := coalesce(after_topic, '00000000-0000-0000-0000-000000000000');
	seen  int := 0;
	throttled boolean := throttle() IS NOT NULL;
	t     record;
	n     int;
BEGIN
	FOR t IN
		SELECT x.topic_id, x.topic, x.deleted_at IS NOT NULL AS deleted, c.version FROM topics x
			JOIN (SELECT ch.topic_id, max(ch.version) AS version FROM changes ch WHERE ch.version > since GROUP BY 1) c USING (topic_id)
			WHERE NOT whole AND x.topic_id > from_id
		UNION ALL
		SELECT x.topic_id, x.topic, x.deleted_at IS NOT NULL, NULL FROM topics x WHERE whole AND x.topic_id > from_id
		ORDER BY 1
	LOOP
		SELECT count(*), string_agg(pack_partition(p.partition, p.leader, p.leader_epoch, p.partition_epoch, p.replicas, p.isr, p.adding, p.removing, p.elr), '' ORDER BY p.partition),
				coalesce(t.version, max(p.version), 0)
			INTO n, partitions, version FROM partitions p WHERE p.topic_id = t.topic_id AND (whole OR p.version > since);
		-- wished, and not placed yet
		CONTINUE WHEN NOT t.deleted AND n = 0 AND NOT EXISTS (SELECT FROM partitions p WHERE p.topic_id = t.topic_id);
		topic := t.topic;
		topic_id := t.topic_id;
		deleted := t.deleted;
		IF t.deleted THEN
			partitions := NULL;
			config := NULL;
		ELSE
			SELECT coalesce(jsonb_object_agg(c.config_key, c.value), '{}') INTO config FROM configs c WHERE c.scope = 'topic' AND c.object = t.topic_id::text;
			IF throttled THEN
				config := throttled_config(t.topic_id, config);
			END IF;
		END IF;
		RETURN NEXT;
		seen := seen + greatest(n, 1);
		EXIT WHEN seen >= max_partitions;
	END LOOP;
END
$$;

-- All dynamic configs of the cluster and of brokers when any changed after `since`.  The first row then has
-- no key: what follows is everything, also when nothing follows.  A reassignment's throttle is among them.
CREATE FUNCTION broker_internal.configs_1(since bigint) RETURNS TABLE (scope text, broker_id int, config_key text, value text) STABLE LANGUAGE sql AS $$
	SELECT x.scope, x.broker_id, x.config_key, x.value FROM (
		SELECT 0 AS n, 'cluster' AS scope, NULL::int AS broker_id, NULL::text AS config_key, NULL::text AS value
		UNION ALL
		SELECT 1, c.scope, CASE WHEN c.scope = 'broker' THEN c.object::int END, c.config_key, c.value FROM configs c WHERE c.scope IN ('cluster', 'broker')
		UNION ALL
		SELECT 1, 'cluster', NULL, k.key, t.rate::text FROM throttle() t(rate), unnest(ARRAY['leader.replication.throttled.rate', 'follower.replication.throttled.rate']) k(key)
		WHERE t.rate IS NOT NULL
	) x WHERE EXISTS (SELECT FROM cluster WHERE configs_version > since) ORDER BY x.n, 1, 2, 3
$$;

-- Parts of operations that this broker, as leader, has to carry out.
CREATE FUNCTION broker_internal.operations_1(broker_id int, broker_epoch bigint)
RETURNS TABLE (operation_id bigint, kind text, topic text, topic_id uuid, partition int, args jsonb) STABLE LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	PERFORM check_broker(operations_1.broker_id, operations_1.broker_epoch);
	RETURN QUERY SELECT o.operation_id, o.kind, t.topic, q.topic_id, q.partition, q.args
		FROM operations o JOIN operation_parts q USING (operation_id) JOIN topics t ON t.topic_id = q.topic_id
			JOIN partitions p ON p.topic_id = q.topic_id AND p.partition = q.partition
		WHERE o.state = 'running' AND q.error_code IS NULL AND p.leader = operations_1.broker_id ORDER BY 1, 5;
END
$$;

-- Logs that this broker may delete: a reassignment took the replica from it.
CREATE FUNCTION broker_internal.dropped_replicas_1(broker_id int, broker_epoch bigint)
RETURNS TABLE (topic_id uuid, partition int, partition_epoch int) STABLE LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	PERFORM check_broker(dropped_replicas_1.broker_id, dropped_replicas_1.broker_epoch);
	RETURN QUERY SELECT d.topic_id, d.partition, d.partition_epoch FROM dropped_replicas d WHERE d.broker_id = dropped_replicas_1.broker_id ORDER BY 1, 2;
END
$$;
