-- What is wrong, with the call to type next.  Empty = all is well.
CREATE VIEW broker.problems WITH (security_barrier) AS
	SELECT x.severity, x.since, x.object, x.problem, x.hint FROM (
		-- partitions, one row a topic
		SELECT CASE WHEN g.offline > 0 OR g.under_min > 0 THEN 'critical' ELSE 'warning' END AS severity, g.since, 'topic ' || g.topic AS object,
			concat_ws(', ', CASE WHEN g.offline > 0 THEN format('%s of %s partitions offline', g.offline, g.total) END,
				CASE WHEN g.under_min > 0 THEN format('%s of %s partitions below min.insync.replicas', g.under_min, g.total) END,
				CASE WHEN g.under > 0 THEN format('%s of %s partitions under-replicated', g.under, g.total) END) AS problem,
			CASE WHEN g.lost > 0 THEN format('No replica of %s partitions has its data any more. broker.alter_topic(%L, ''{"unclean.leader.election.enable": true}'') starts them empty or older.', g.lost, g.topic)
				WHEN g.offline > 0 THEN 'Start the brokers that have the replicas. See broker.partitions.'
				WHEN g.under_min > 0 THEN 'acks=all is refused until more replicas are in sync. See broker.replicas.'
				ELSE 'See broker.replicas for who lags.' END AS hint
		FROM (SELECT s.topic, count(*) AS total, count(*) FILTER (WHERE s.is_offline) AS offline, count(*) FILTER (WHERE s.is_under_min_isr) AS under_min,
				count(*) FILTER (WHERE s.is_under_replicated) AS under, count(*) FILTER (WHERE s.is_offline AND s.isr = '{}') AS lost,
				min(s.leader_since) FILTER (WHERE s.is_offline) AS since
			FROM broker_internal.partition_states s WHERE s.is_offline OR s.is_under_min_isr OR s.is_under_replicated GROUP BY 1) g
		UNION ALL
		SELECT 'critical', s.last_seen_at, 'broker ' || s.broker_id,
			format('dead for %s s, %s', round(extract(epoch FROM clock_timestamp() - s.last_seen_at)), coalesce(s.fenced_why, 'session ended')),
			CASE WHEN s.decommissioning THEN 'It is being decommissioned; see broker.operations.' ELSE format('Start brokerd on %s, or broker.decommission_broker(%s).', coalesce((SELECT string_agg(DISTINCT e ->> 'host', ', ') FROM jsonb_array_elements(s.endpoints) e), 'its host'), s.broker_id) END
		FROM broker_internal.broker_states s WHERE s.state = 'dead'
		UNION ALL
		SELECT 'warning', s.fenced_at, 'broker ' || s.broker_id, format('kept out of the cluster: %s', coalesce(s.fenced_why, 'fenced')), format('broker.unfence_broker(%s) lets it in again.', s.broker_id)
		FROM broker_internal.broker_states s WHERE s.state = 'fenced'
		UNION ALL
		SELECT 'info', NULL, 'broker ' || s.broker_id, 'drained: it leads only what nobody else can lead', format('broker.undrain_broker(%s) when its work is done.', s.broker_id)
		FROM broker_internal.broker_states s WHERE s.is_alive AND s.drained
		UNION ALL
		SELECT 'warning', NULL, 'topic ' || g.topic, format('%s of its partitions have replicas on brokers that are not registered: %s', g.n, g.ids), format('broker.reassign_partitions(%L) places them anew.', g.topic)
		FROM (SELECT t.topic, count(DISTINCT p.partition) AS n, string_agg(DISTINCT r.id::text, ', ') AS ids FROM broker_internal.partitions p JOIN broker_internal.topics t USING (topic_id), unnest(p.replicas) r(id)
			WHERE NOT EXISTS (SELECT FROM broker_internal.brokers b WHERE b.broker_id = r.id) GROUP BY 1) g
		UNION ALL
		SELECT 'warning', g.since, 'topic ' || g.topic, format('%s of its partitions are being reassigned for %s min', g.n, round(extract(epoch FROM clock_timestamp() - g.since) / 60)), 'See waiting_for in broker.reassignments; broker.cancel_reassignment takes it back.'
		FROM (SELECT t.topic, count(*) AS n, min(p.move_since) AS since FROM broker_internal.partitions p JOIN broker_internal.topics t USING (topic_id) WHERE p.origin IS NOT NULL GROUP BY 1) g
		WHERE g.since < clock_timestamp() - interval '10 min'
		UNION ALL
		SELECT CASE WHEN s.disk_free_bytes * 20 < s.disk_total_bytes THEN 'critical' ELSE 'warning' END, s.reported_at, 'broker ' || s.broker_id,
			format('disk nearly full: %s%% free', s.disk_free_bytes * 100 / s.disk_total_bytes), 'Lower retention.ms or retention.bytes of large topics, or add space. A full disk refuses writes.'
		FROM broker_internal.broker_states s WHERE s.disk_total_bytes > 0 AND s.disk_free_bytes * 10 < s.disk_total_bytes
		UNION ALL
		SELECT 'warning', s.reported_at, 'broker ' || s.broker_id, format('its figures are %s s old', round(extract(epoch FROM clock_timestamp() - s.reported_at))), 'Is it overloaded, or cut off from PostgreSQL?'
		FROM broker_internal.broker_states s WHERE s.state = 'alive' AND s.reported_at < clock_timestamp() - coalesce(nullif(current_setting('broker.stale_after', true), ''), '30s')::interval
		UNION ALL
		SELECT 'critical', s.registered_at, 'broker ' || s.broker_id, format('clients are told %s:%s, which is no address to connect to', e ->> 'host', e ->> 'port'), 'Set advertised.listeners.'
		FROM broker_internal.broker_states s, jsonb_array_elements(s.endpoints) e WHERE s.is_alive AND e ->> 'host' IN ('0.0.0.0', '::', '')
		UNION ALL
		SELECT 'critical', r.changed_at, format('%s-%s on broker %s', t.topic, r.partition, r.broker_id), 'the log is offline', 'The broker''s log says why. See broker.events.'
		FROM broker_internal.partition_reports r JOIN broker_internal.topics t USING (topic_id) WHERE r.is_online = false AND t.deleted_at IS NULL
		UNION ALL
		SELECT 'warning', o.requested_at, o.object, format('%s waits for %s', o.kind, coalesce(o.waiting_for, 'the controller')), format('It goes on by itself; broker.cancel_operation(%s) takes it back.', o.operation_id)
		FROM broker_internal.operations o WHERE o.state IN ('waiting', 'running') AND o.requested_at < clock_timestamp() - interval '30 s'
		UNION ALL
		SELECT 'warning', NULL, 'cluster', format('brokers run different versions: %s', string_agg(DISTINCT s.software, ', ')), 'Finish the upgrade broker by broker.'
		FROM broker_internal.broker_states s WHERE s.is_alive HAVING count(DISTINCT s.software) > 1
		UNION ALL
		SELECT 'critical', c.controller_since, 'cluster', 'no broker is alive', 'Start brokerd.'
		FROM broker_internal.cluster c WHERE NOT pg_is_in_recovery() AND NOT EXISTS (SELECT FROM broker_internal.broker_states s WHERE s.is_alive)
		UNION ALL
		SELECT 'warning', c.incarnation_since, 'cluster', format('PostgreSQL went back or was restored: %s partitions wait for their replicas to report', n.n), 'Start every broker that has replicas of them. Until then nobody new is elected there.'
		FROM broker_internal.cluster c, LATERAL (SELECT count(*) AS n FROM broker_internal.partitions p WHERE p.incarnation <> c.pg_incarnation AND cardinality(p.replicas) > 1) n WHERE n.n > 0
		UNION ALL
		SELECT 'warning', NULL, 'cluster', format('session %s, which is no broker''s, holds the controller''s lock', l.pid), format('pg_terminate_backend(%s); decisions go on, but nobody is named the controller.', l.pid)
		FROM pg_locks l, broker_internal.cluster c WHERE l.locktype = 'advisory' AND l.classid = 7700 AND l.objid = 1 AND l.objsubid = 2 AND l.granted AND l.pid IS DISTINCT FROM c.controller_pid
			AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
		UNION ALL
		SELECT 'warning', NULL, 'postgres', 'standbys are asynchronous: a failover may lose the last decisions', 'Set synchronous_standby_names, such as ''ANY 1 (s1, s2)''.'
		WHERE NOT pg_is_in_recovery() AND current_setting('synchronous_standby_names') = '' AND EXISTS (SELECT FROM pg_stat_replication r WHERE r.state = 'streaming')
		UNION ALL
		SELECT 'warning', a.xact_start, format('session %s of %s', a.pid, a.usename), format('a transaction is open for %s min and holds back vacuum', round(extract(epoch FROM clock_timestamp() - a.xact_start) / 60)), format('End it, or pg_terminate_backend(%s).', a.pid)
		FROM pg_stat_activity a WHERE a.xact_start < clock_timestamp() - interval '1 hour' AND a.backend_type = 'client backend' AND a.datname = current_database()
		UNION ALL
		SELECT g.severity, g.since, g.object, g.problem, g.hint FROM broker_internal.group_problems g
	) x
	WHERE (SELECT broker_internal.can_view());

CREATE VIEW broker.cluster WITH (security_barrier) AS
	SELECT c.cluster_id, k.controller_id, c.controller_epoch, CASE WHEN k.controller_id IS NOT NULL THEN c.controller_since END AS controller_since,
		(SELECT count(*)::int FROM broker_internal.brokers) AS brokers,
		(SELECT count(*)::int FROM broker_internal.broker_states s WHERE s.is_alive) AS brokers_alive,
		(SELECT count(*) FROM broker_internal.topics t WHERE t.deleted_at IS NULL) AS topics,
		p.partitions, p.offline_partitions, p.under_replicated_partitions, p.under_min_isr_partitions,
		(SELECT count(*)::int FROM broker.problems) AS problems,
		(SELECT extversion FROM pg_extension WHERE extname = 'pg_broker') AS extension_version,
		(SELECT s.software FROM broker_internal.broker_states s WHERE s.is_alive ORDER BY string_to_array(regexp_replace(s.software, '[^0-9.].*$', ''), '.')::text[], s.software LIMIT 1) AS oldest_broker_version
	FROM (SELECT 1) one LEFT JOIN broker_internal.cluster c ON true
		LEFT JOIN LATERAL (SELECT s.broker_id AS controller_id FROM broker_internal.broker_states s WHERE s.is_controller LIMIT 1) k ON true
		CROSS JOIN (SELECT count(*) AS partitions, count(*) FILTER (WHERE s.is_offline) AS offline_partitions, count(*) FILTER (WHERE s.is_under_replicated) AS under_replicated_partitions,
			count(*) FILTER (WHERE s.is_under_min_isr) AS under_min_isr_partitions FROM broker_internal.partition_states s) p
	WHERE (SELECT broker_internal.can_view());
