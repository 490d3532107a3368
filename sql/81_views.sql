-- The views for people.  A row is shown to members of broker_viewer; the names and columns are a contract:
-- columns are only ever added, at the end.

CREATE VIEW broker.config_keys WITH (security_barrier) AS
	SELECT config_key, scope, unit, default_value, allowed, is_used, needs_restart, description
	FROM broker_internal.config_table();

CREATE VIEW broker.brokers WITH (security_barrier) AS
	SELECT s.broker_id, s.state, s.is_controller, s.rack,
		ARRAY (SELECT format('%s://%s:%s', e ->> 'name', e ->> 'host', e ->> 'port') FROM jsonb_array_elements(s.endpoints) e) AS endpoints,
		s.software AS version, s.broker_epoch, s.registered_at, s.last_seen_at, clock_timestamp() - s.last_seen_at AS silent_for,
		coalesce(p.leaders, 0)::int AS leaders, coalesce(p.replicas, 0)::int AS replicas, coalesce(p.out_of_sync, 0)::int AS out_of_sync,
		z.size_bytes, s.disk_free_bytes, s.disk_total_bytes, s.connections, s.reported_at, clock_timestamp() - s.reported_at AS report_age
	FROM broker_internal.broker_states s
		LEFT JOIN (SELECT r.id, count(*) AS replicas, count(*) FILTER (WHERE q.leader = r.id) AS leaders, count(*) FILTER (WHERE NOT r.id = ANY (q.isr)) AS out_of_sync
			FROM broker_internal.partitions q, unnest(q.replicas) r(id) GROUP BY 1) p ON p.id = s.broker_id
		LEFT JOIN (SELECT x.broker_id, sum(x.size_bytes)::bigint AS size_bytes FROM broker_internal.partition_reports x GROUP BY 1) z ON z.broker_id = s.broker_id
	WHERE (SELECT broker_internal.can_view());

CREATE VIEW broker.partitions WITH (security_barrier) AS
	SELECT s.topic, s.partition, s.leader, s.replicas[1] AS preferred_leader, s.leader_epoch, s.partition_epoch, s.replicas, s.isr,
		ARRAY (SELECT r FROM unnest(s.replicas) WITH ORDINALITY u(r, n) WHERE NOT EXISTS (SELECT FROM broker_internal.brokers b WHERE b.broker_id = r AND NOT b.fenced) ORDER BY n) AS offline_replicas,
		s.is_offline, s.is_under_replicated, s.is_under_min_isr, s.is_at_min_isr, s.leader_since,
		f.log_start_offset, f.high_watermark, f.last_stable_offset, f.log_end_offset, f.high_watermark - f.log_start_offset AS records,
		f.size_bytes, f.last_append_at, f.reported_at, clock_timestamp() - f.reported_at AS report_age, s.elr
	FROM broker_internal.partition_states s
		LEFT JOIN LATERAL (SELECT r.*, b.reported_at FROM broker_internal.partition_reports r LEFT JOIN broker_internal.broker_reports b USING (broker_id)
			WHERE r.topic_id = s.topic_id AND r.partition = s.partition ORDER BY r.broker_id IS NOT DISTINCT FROM s.leader DESC, r.changed_at DESC LIMIT 1) f ON true
	WHERE (SELECT broker_internal.can_view());

CREATE VIEW broker.replicas WITH (security_barrier) AS
	SELECT s.topic, s.partition, r.id AS broker_id, coalesce(s.leader = r.id, false) AS is_leader, r.id = ANY (s.isr) AS in_sync,
		CASE WHEN f.is_online = false THEN 'quarantined' WHEN b.broker_id IS NULL OR b.fenced THEN 'offline' ELSE 'online' END AS state,
		f.log_start_offset, f.log_end_offset, greatest(l.log_end_offset - f.log_end_offset, 0) AS lag,
		CASE WHEN f.log_end_offset >= l.log_end_offset THEN g.reported_at END AS caught_up_at,
		f.size_bytes, g.log_dir, g.reported_at, clock_timestamp() - g.reported_at AS report_age
	FROM broker_internal.partition_states s CROSS JOIN LATERAL unnest(s.replicas) r(id)
		LEFT JOIN broker_internal.brokers b ON b.broker_id = r.id
		LEFT JOIN broker_internal.broker_reports g ON g.broker_id = r.id
		LEFT JOIN broker_internal.partition_reports f ON f.topic_id = s.topic_id AND f.partition = s.partition AND f.broker_id = r.id
		LEFT JOIN broker_internal.partition_reports l ON l.topic_id = s.topic_id AND l.partition = s.partition AND l.broker_id = s.leader
	WHERE (SELECT broker_internal.can_view());

CREATE VIEW broker.reassignments WITH (security_barrier) AS
	SELECT s.topic, s.partition, s.origin AS replicas, broker_internal.without(s.replicas, s.removing) AS target_replicas, s.adding, s.removing,
		(SELECT sum(greatest(coalesce(l.size_bytes, 0) - coalesce(r.size_bytes, 0), 0))::bigint FROM unnest(s.adding) a(id)
			LEFT JOIN broker_internal.partition_reports r ON r.topic_id = s.topic_id AND r.partition = s.partition AND r.broker_id = a.id) AS bytes_left,
		s.move_since AS started_at, s.move_by AS requested_by,
		CASE WHEN s.leader IS NULL THEN 'a leader'
			WHEN d.ids IS NOT NULL THEN 'broker ' || d.ids || ', which is dead'
			WHEN NOT s.adding <@ s.isr THEN 'broker ' || array_to_string(broker_internal.without(s.adding, s.isr), ', ') || ' to copy the log'
			ELSE 'more of ' || broker_internal.without(s.replicas, s.removing)::text || ' to be in sync' END AS waiting_for,
		(SELECT min((o.args ->> 'throttle')::bigint) FROM broker_internal.moves m JOIN broker_internal.operations o USING (operation_id)
			WHERE m.topic_id = s.topic_id AND m.partition = s.partition AND m.state = 'started' AND o.state = 'running') AS throttle_bytes
	FROM broker_internal.partition_states s
		LEFT JOIN broker_internal.partition_reports l ON l.topic_id = s.topic_id AND l.partition = s.partition AND l.broker_id = s.leader
		CROSS JOIN LATERAL (SELECT string_agg(a.id::text, ', ') AS ids FROM unnest(broker_internal.without(s.adding, s.isr)) a(id)
			WHERE NOT EXISTS (SELECT FROM broker_internal.brokers b WHERE b.broker_id = a.id AND NOT b.fenced)) d
	WHERE s.origin IS NOT NULL AND (SELECT broker_internal.can_view());

CREATE VIEW broker.topic_configs WITH (security_barrier) AS
	SELECT v.topic, v.config_key, v.value, broker_internal.config_pretty('topic', v.config_key, v.value) AS pretty, v.source, v.default_value, v.changed_at, v.changed_by
	FROM broker_internal.topic_values v
	WHERE (SELECT broker_internal.can_view());

CREATE VIEW broker.settings WITH (security_barrier) AS
	SELECT 'cluster' AS scope, NULL::int AS broker_id, v.config_key, v.value, broker_internal.config_pretty('cluster', v.config_key, v.value) AS pretty,
		v.source, v.default_value, v.changed_at, v.changed_by
	FROM broker_internal.cluster_values v
	WHERE (SELECT broker_internal.can_view())
	UNION ALL
	SELECT 'broker', b.broker_id, k.config_key, e.value, broker_internal.config_pretty('broker', k.config_key, e.value),
		CASE WHEN c.value IS NOT NULL THEN 'broker' WHEN d.source = 'cluster' THEN 'cluster' WHEN b.static_config ? k.config_key THEN 'static' ELSE 'default' END,
		k.default_value, coalesce(c.changed_at, CASE WHEN d.source = 'cluster' THEN d.changed_at END), coalesce(c.changed_by, CASE WHEN d.source = 'cluster' THEN d.changed_by END)
	FROM broker_internal.brokers b CROSS JOIN broker_internal.config_table() k
		LEFT JOIN broker_internal.configs c ON c.scope = 'broker' AND c.object = b.broker_id::text AND c.config_key = k.config_key
		LEFT JOIN broker_internal.cluster_values d ON d.config_key = k.config_key
		CROSS JOIN LATERAL (SELECT coalesce(c.value, CASE WHEN d.source = 'cluster' THEN d.value END, b.static_config ->> k.config_key, k.default_value) AS value) e
	WHERE k.scope = 'broker' AND (SELECT broker_internal.can_view());

CREATE VIEW broker.topics WITH (security_barrier) AS
	SELECT t.topic, t.topic_id, t.partitions, coalesce(z.factor, t.replication_factor) AS replication_factor,
		coalesce(coalesce(o.min_isr, d.min_isr)::int, broker_internal.min_isr(NULL, coalesce(z.replicas, t.replication_factor), coalesce(z.adding, 0), coalesce(z.removing, 0))) AS min_isr, coalesce(o.cleanup_policy, d.cleanup_policy) AS cleanup_policy,
		broker_internal.config_pretty('topic', 'retention.ms', coalesce(o.retention_ms, d.retention_ms))
			|| CASE WHEN coalesce(o.retention_bytes, d.retention_bytes)::bigint >= 0
				THEN ', ' || broker_internal.config_pretty('topic', 'retention.bytes', coalesce(o.retention_bytes, d.retention_bytes)) || ' a partition' ELSE '' END AS retention,
		coalesce(o.overrides, 0)::int AS overrides,
		coalesce(p.offline, 0)::int AS offline, coalesce(p.under_replicated, 0)::int AS under_replicated,
		coalesce(p.under_min_isr, 0)::int AS under_min_isr,
		f.records, f.size_bytes, f.last_append_at, t.created_at, t.created_by, f.reported_at, clock_timestamp() - f.reported_at AS report_age
	FROM broker_internal.topics t
		CROSS JOIN (SELECT max(value) FILTER (WHERE config_key = 'min.insync.replicas' AND source <> 'default') AS min_isr, max(value) FILTER (WHERE config_key = 'log.cleanup.policy') AS cleanup_policy,
			max(value) FILTER (WHERE config_key = 'log.retention.ms') AS retention_ms, max(value) FILTER (WHERE config_key = 'log.retention.bytes') AS retention_bytes
			FROM broker_internal.cluster_values) d
		LEFT JOIN LATERAL (SELECT count(*) AS overrides, max(c.value) FILTER (WHERE c.config_key = 'min.insync.replicas') AS min_isr,
			max(c.value) FILTER (WHERE c.config_key = 'cleanup.policy') AS cleanup_policy, max(c.value) FILTER (WHERE c.config_key = 'retention.ms') AS retention_ms,
			max(c.value) FILTER (WHERE c.config_key = 'retention.bytes') AS retention_bytes
			FROM broker_internal.configs c WHERE c.scope = 'topic' AND c.object = t.topic_id::text) o ON true
		LEFT JOIN LATERAL (SELECT count(*) FILTER (WHERE q.leader IS NULL) AS offline, count(*) FILTER (WHERE cardinality(q.isr) < cardinality(q.replicas) - cardinality(q.adding)) AS under_replicated,
			count(*) FILTER (WHERE cardinality(q.isr) < broker_internal.min_isr(coalesce(o.min_isr, d.min_isr)::int, cardinality(q.replicas), cardinality(q.adding), cardinality(q.removing))) AS under_min_isr
			FROM broker_internal.partitions q WHERE q.topic_id = t.topic_id) p ON true
		LEFT JOIN LATERAL (SELECT sum(r.high_watermark - r.log_start_offset)::bigint AS records, sum(r.size_bytes)::bigint AS size_bytes, max(r.last_append_at) AS last_append_at, min(b.reported_at) AS reported_at
			FROM broker_internal.partitions q JOIN broker_internal.partition_reports r ON r.topic_id = q.topic_id AND r.partition = q.partition AND r.broker_id = q.leader
				LEFT JOIN broker_internal.broker_reports b ON b.broker_id = r.broker_id
			WHERE q.topic_id = t.topic_id) f ON true
		LEFT JOIN LATERAL (SELECT cardinality(q.replicas) AS replicas, cardinality(q.adding) AS adding, cardinality(q.removing) AS removing, cardinality(q.replicas) - cardinality(q.removing) AS factor
			FROM broker_internal.partitions q WHERE q.topic_id = t.topic_id AND q.partition = 0) z ON true
	WHERE t.deleted_at IS NULL AND (SELECT broker_internal.can_view());

CREATE VIEW broker.events WITH (security_barrier) AS
	SELECT event_id, event_time, kind, object, topic, partition, broker_id, group_id, old, new, details, actor, via, client_addr, reason
	FROM broker_internal.events
	WHERE (SELECT broker_internal.can_view());

-- Everybody sees what he asked for himself.
CREATE VIEW broker.operations WITH (security_barrier) AS
	SELECT o.operation_id, o.kind, o.object, o.state,
		CASE WHEN o.state = 'done' THEN 1 WHEN m.total > 0 THEN round(m.finished::numeric / m.total, 3) WHEN p.total > 0 THEN round(p.finished::numeric / p.total, 3) ELSE 0 END AS progress,
		o.waiting_for, o.error, o.requested_by, o.requested_at, o.finished_at
	FROM broker_internal.operations o
		LEFT JOIN LATERAL (SELECT count(*) AS total, count(q.error_code) AS finished FROM broker_internal.operation_parts q WHERE q.operation_id = o.operation_id) p ON true
		LEFT JOIN LATERAL (SELECT count(*) AS total, count(*) FILTER (WHERE q.state NOT IN ('waiting', 'started')) AS finished FROM broker_internal.moves q WHERE q.operation_id = o.operation_id) m ON true
	WHERE (SELECT broker_internal.can_view()) OR o.requested_by = current_user;
