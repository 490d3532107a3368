-- Views that the public views stand on.  They see every row; the public ones filter.  Tables are read here as
-- the owner, but functions in a view run as the caller: only pure ones, or such that check for themselves.

-- The cluster's value of each key: dynamic, else from the first broker's file, else the default.
CREATE VIEW broker_internal.cluster_values AS
	SELECT k.config_key, coalesce(c.value, s.value, k.default_value) AS value,
		CASE WHEN c.value IS NOT NULL THEN 'cluster' WHEN s.value IS NOT NULL THEN 'static' ELSE 'default' END AS source,
		k.default_value, c.changed_at, c.changed_by
	FROM broker_internal.config_table() k
		LEFT JOIN broker_internal.configs c ON c.scope = 'cluster' AND c.object = '' AND c.config_key = k.config_key
		LEFT JOIN LATERAL (SELECT b.static_config ->> k.config_key AS value FROM broker_internal.brokers b
			WHERE b.static_config ? k.config_key ORDER BY b.fenced, b.broker_id LIMIT 1) s ON true
	WHERE k.scope = 'cluster';

-- min.insync.replicas, when nobody has set it, goes by the topic's replicas (those of partition 0).
CREATE VIEW broker_internal.topic_values AS
	SELECT t.topic_id, t.topic, k.config_key,
		coalesce(c.value, CASE WHEN d.source <> 'default' THEN d.value END, f.value, k.default_value) AS value,
		CASE WHEN c.value IS NOT NULL THEN 'topic' WHEN d.source <> 'default' THEN d.source ELSE 'default' END AS source,
		CASE WHEN d.source <> 'default' THEN d.value ELSE coalesce(f.value, d.value, k.default_value) END AS default_value,
		CASE WHEN c.value IS NOT NULL THEN c.changed_at ELSE d.changed_at END AS changed_at,
		CASE WHEN c.value IS NOT NULL THEN c.changed_by ELSE d.changed_by END AS changed_by
	FROM broker_internal.topics t CROSS JOIN broker_internal.config_table() k
		LEFT JOIN broker_internal.configs c ON c.scope = 'topic' AND c.object = t.topic_id::text AND c.config_key = k.config_key
		LEFT JOIN broker_internal.cluster_values d ON d.config_key = k.synonym
		LEFT JOIN LATERAL (SELECT broker_internal.min_isr(NULL, coalesce(max(cardinality(p.replicas)), t.replication_factor), coalesce(max(cardinality(p.adding)), 0), coalesce(max(cardinality(p.removing)), 0))::text AS value
			FROM broker_internal.partitions p WHERE p.topic_id = t.topic_id AND p.partition = 0) f ON k.config_key = 'min.insync.replicas'
	WHERE k.scope = 'topic' AND t.deleted_at IS NULL;

-- Is a broker's process there?  On a standby nobody can tell but by the last report.
CREATE VIEW broker_internal.broker_states AS
	SELECT b.broker_id, b.broker_epoch, b.rack, b.endpoints, b.software, b.registered_at, b.fenced_at, b.fenced_why, b.fenced, b.suspect_since,
		CASE WHEN b.fenced AND b.barred THEN 'fenced' WHEN b.fenced OR (a.broker_id IS NULL AND NOT pg_is_in_recovery()) THEN 'dead'
			WHEN b.decommissioning THEN 'decommissioning' WHEN b.stopping OR b.drained THEN 'draining' ELSE 'alive' END AS state,
		NOT b.fenced AND (a.broker_id IS NOT NULL OR pg_is_in_recovery()) AS is_alive, b.drained, b.barred, b.decommissioning,
		CASE WHEN pg_is_in_recovery() THEN r.reported_at ELSE coalesce(a.last_seen_at, b.fenced_at, b.suspect_since, r.reported_at, b.registered_at) END AS last_seen_at,
		CASE WHEN pg_is_in_recovery() THEN c.controller_id = b.broker_id ELSE coalesce(a.is_controller, false) END AS is_controller,
		r.reported_at, r.disk_free_bytes, r.disk_total_bytes, r.connections, r.log_dir
	FROM broker_internal.brokers b
		LEFT JOIN broker_internal.session_activity() a USING (broker_id)
		LEFT JOIN broker_internal.broker_reports r USING (broker_id)
		LEFT JOIN (SELECT x.controller_id FROM broker_internal.cluster x LIMIT 1) c ON true; -- the planner does not know that it is one row

-- Partitions with the figures of their leader; without a leader, or before its first report, the newest known.
CREATE VIEW broker_internal.partition_states AS
	SELECT t.topic, p.topic_id, p.partition, p.leader, p.replicas, p.isr, p.leader_epoch, p.partition_epoch, p.leader_since, p.incarnation,
		m.min_isr, p.leader IS NULL AS is_offline,
		cardinality(p.isr) < cardinality(p.replicas) - cardinality(p.adding) AS is_under_replicated,
		cardinality(p.isr) < m.min_isr AS is_under_min_isr, cardinality(p.isr) = m.min_isr AS is_at_min_isr,
		p.elr, p.adding, p.removing, p.origin, p.move_since, p.move_by
	FROM broker_internal.partitions p JOIN broker_internal.topics t USING (topic_id)
		LEFT JOIN broker_internal.configs c ON c.scope = 'topic' AND c.object = p.topic_id::text AND c.config_key = 'min.insync.replicas'
		CROSS JOIN (SELECT CASE WHEN source <> 'default' THEN value END AS value FROM broker_internal.cluster_values WHERE config_key = 'min.insync.replicas' OFFSET 0) d
		CROSS JOIN LATERAL (SELECT broker_internal.min_isr(coalesce(c.value, d.value)::int, cardinality(p.replicas), cardinality(p.adding), cardinality(p.removing)) AS min_isr) m
	WHERE t.deleted_at IS NULL;
