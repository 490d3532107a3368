-- Groups for people.

-- STRICT keeps it from being inlined: the planner would take each of the two inner functions for a hundred rows, so a view of
-- a few groups for one of millions, and have it compiled for seconds.
CREATE FUNCTION broker_internal.assigned_partitions(assignment jsonb) RETURNS TABLE (topic text, partition int)
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 8 COST 10 AS $$
	SELECT a.key, p.value::text::int FROM jsonb_each(assignment) a CROSS JOIN LATERAL jsonb_array_elements(a.value) p
$$;

-- Every partition that a group has committed or assigned.  Lag: the end is the leader's reported high watermark, or the
-- committed offset where that is higher and newer than the report.
CREATE VIEW broker_internal.offset_states AS
	SELECT k.group_no, g.group_id, k.topic_id, coalesce(t.topic, k.topic) AS topic, k.partition, f.committed_offset, f.leader_epoch, r.log_start_offset,
		e.end_offset, e.end_offset - greatest(f.committed_offset, CASE WHEN f.committed_offset IS NOT NULL THEN r.log_start_offset END) AS lag,
		f.metadata, f.committed_at, m.member_id, m.client_id, m.client_host, b.reported_at, t.topic_id IS NULL AS no_topic,
		g.empty_since, g.protocol_type, g.state
	FROM (SELECT group_no, topic_id, partition, NULL::text AS topic FROM broker_internal.offsets
			UNION SELECT m.group_no, t.topic_id, a.partition, CASE WHEN t.topic_id IS NULL THEN a.topic END
			FROM broker_internal.group_members m CROSS JOIN LATERAL broker_internal.assigned_partitions(m.partitions) a
				LEFT JOIN broker_internal.topics t ON t.topic = a.topic AND t.deleted_at IS NULL) k
		JOIN broker_internal.groups g ON g.group_no = k.group_no
		LEFT JOIN broker_internal.offsets f ON f.group_no = k.group_no AND f.topic_id = k.topic_id AND f.partition = k.partition
		LEFT JOIN broker_internal.topics t ON t.topic_id = k.topic_id AND t.deleted_at IS NULL
		LEFT JOIN broker_internal.partitions q ON q.topic_id = k.topic_id AND q.partition = k.partition AND t.topic_id IS NOT NULL
		LEFT JOIN broker_internal.partition_reports r ON r.topic_id = k.topic_id AND r.partition = k.partition AND r.broker_id = q.leader
		LEFT JOIN broker_internal.broker_reports b ON b.broker_id = q.leader
		LEFT JOIN LATERAL (SELECT x.member_id, x.client_id, x.client_host FROM broker_internal.group_members x
			WHERE x.group_no = k.group_no AND x.partitions -> t.topic @> to_jsonb(k.partition) LIMIT 1) m ON true
		CROSS JOIN LATERAL (SELECT CASE WHEN f.committed_offset > r.high_watermark AND f.committed_at > b.reported_at THEN f.committed_offset ELSE r.high_watermark END AS end_offset) e;

CREATE VIEW broker.group_offsets WITH (security_barrier) AS
	SELECT s.group_id, s.topic, s.partition, s.committed_offset, s.leader_epoch, s.log_start_offset, s.end_offset,
		s.lag,
		CASE WHEN s.no_topic THEN 'no_topic' WHEN o.resetting THEN 'resetting' WHEN s.committed_offset IS NULL THEN 'no_commit' WHEN s.end_offset IS NULL THEN 'unknown'
			WHEN s.committed_offset < s.log_start_offset THEN 'expired' WHEN s.committed_offset > s.end_offset THEN 'ahead' ELSE 'ok' END AS offset_state,
		CASE WHEN position('\x00'::bytea IN s.metadata) > 0 THEN encode(s.metadata, 'escape') ELSE convert_from(s.metadata, 'UTF8') END AS metadata,
		s.committed_at, clock_timestamp() - s.committed_at AS commit_age,
		CASE WHEN s.empty_since IS NOT NULL THEN greatest(s.empty_since, CASE WHEN s.protocol_type IS NULL THEN s.committed_at END) + d.value::int * interval '1 minute' END AS expires_at,
		s.member_id, s.client_id, ltrim(s.client_host, '/')::inet AS client_host, s.reported_at, clock_timestamp() - s.reported_at AS report_age
	FROM broker_internal.offset_states s
		CROSS JOIN (SELECT value FROM broker_internal.cluster_values WHERE config_key = 'offsets.retention.minutes' OFFSET 0) d
		LEFT JOIN (SELECT DISTINCT object, true AS resetting FROM broker_internal.operations WHERE state = 'running' AND kind = 'group.reset') o ON o.object = 'group ' || s.group_id
	WHERE (SELECT broker_internal.can_view());

CREATE VIEW broker.groups WITH (security_barrier) AS
	SELECT g.group_id, 'classic' AS group_type, g.state, g.generation, g.assignor, l.coordinator, coalesce(m.members, 0)::int AS members,
		coalesce(o.topics, 0)::int AS topics, o.lag, o.max_lag, coalesce(o.lag_unknown, 0)::int AS lag_unknown, o.last_commit_at,
		r.started_at + r.duration AS last_rebalance_at, r.reason AS last_rebalance_reason, coalesce(h.n, 0)::int AS rebalances_last_hour,
		o.reported_at, clock_timestamp() - o.reported_at AS report_age
	FROM broker_internal.groups g LEFT JOIN broker_internal.slots l ON l.slot = g.slot
		LEFT JOIN (SELECT group_no, count(*) AS members FROM broker_internal.group_members GROUP BY 1) m ON m.group_no = g.group_no
		LEFT JOIN (SELECT s.group_no, count(DISTINCT s.topic) AS topics, sum(s.lag)::bigint AS lag, max(s.lag) AS max_lag, count(*) FILTER (WHERE s.lag IS NULL) AS lag_unknown,
				max(s.committed_at) AS last_commit_at, min(s.reported_at) AS reported_at
			FROM broker_internal.offset_states s
			GROUP BY 1) o ON o.group_no = g.group_no
		LEFT JOIN LATERAL (SELECT started_at, duration, reason FROM broker_internal.rebalances x WHERE x.group_no = g.group_no ORDER BY x.started_at DESC LIMIT 1) r ON true
		LEFT JOIN (SELECT group_no, count(*) AS n FROM broker_internal.rebalances WHERE started_at > now() - interval '1 hour' GROUP BY 1) h ON h.group_no = g.group_no
	WHERE (SELECT broker_internal.can_view());

CREATE VIEW broker.group_members WITH (security_barrier) AS
	SELECT g.group_id, m.member_id, m.instance_id, m.client_id, ltrim(m.client_host, '/')::inet AS client_host, NULL::text AS role, g.generation, m.partitions AS assignment,
		coalesce((SELECT sum(jsonb_array_length(a.value)) FROM jsonb_each(m.partitions) a), 0)::int AS partitions, o.lag, m.joined_at,
		m.session_timeout_ms * interval '1 ms' AS session_timeout, m.rebalance_timeout_ms * interval '1 ms' AS rebalance_timeout,
		o.reported_at, clock_timestamp() - o.reported_at AS report_age
	FROM broker_internal.group_members m JOIN broker_internal.groups g USING (group_no)
		LEFT JOIN (SELECT s.group_no, s.member_id, min(s.reported_at) AS reported_at,
				sum(s.lag)::bigint AS lag
			FROM broker_internal.offset_states s GROUP BY 1, 2) o ON o.group_no = m.group_no AND o.member_id = m.member_id
	WHERE (SELECT broker_internal.can_view());

CREATE VIEW broker.rebalances WITH (security_barrier) AS
	SELECT group_id, generation, started_at, duration, reason, member, members_before, members_after, partitions_moved, coordinator
	FROM broker_internal.rebalances
	WHERE (SELECT broker_internal.can_view());

-- For broker.problems.  A group that commits without members (it assigns partitions itself) is read by somebody while it commits.
CREATE VIEW broker_internal.group_problems AS
	SELECT 'warning' AS severity, u.since, 'group ' || u.group_id AS object,
		format('%s records behind, and without a member or a commit for %s min', u.behind, round(extract(epoch FROM clock_timestamp() - u.since) / 60)) AS problem,
		format('Start its consumers, or broker.delete_group(%L) when nobody needs it.', u.group_id) AS hint
	FROM (SELECT s.group_id, greatest(min(s.empty_since), max(s.committed_at)) AS since, sum(greatest(s.lag, 0)) AS behind
		FROM broker_internal.offset_states s WHERE s.state = 'empty' AND s.committed_offset IS NOT NULL AND NOT s.no_topic GROUP BY s.group_no, s.group_id) u
	WHERE u.behind > 0 AND u.since < clock_timestamp() - interval '5 min'
	UNION ALL
	SELECT 'warning', g.changed_at, 'group ' || g.group_id, format('rebalancing for %s min', round(extract(epoch FROM clock_timestamp() - g.changed_at) / 60)),
		'A member does not answer: see broker.group_members, broker.kick_member(), and max.poll.interval.ms of its consumers.'
	FROM broker_internal.groups g WHERE g.state IN ('preparing_rebalance', 'completing_rebalance') AND g.changed_at < clock_timestamp() - interval '10 min'
	UNION ALL
	SELECT 'warning', h.since, 'group ' || h.group_id, format('%s rebalances in the last hour, the last because: %s', h.n, h.reason), 'See broker.rebalances for who comes and goes. session.timeout.ms or max.poll.interval.ms of its consumers may be too short.'
	FROM (SELECT r.group_id, count(*) AS n, min(r.started_at) AS since, (array_agg(r.reason ORDER BY r.started_at DESC))[1] AS reason
		FROM broker_internal.rebalances r WHERE r.started_at > clock_timestamp() - interval '1 hour' GROUP BY r.group_no, r.group_id HAVING count(*) >= 60) h
	UNION ALL
	SELECT 'warning', o.since, 'group ' || o.group_id,
		concat_ws(', ', CASE WHEN o.expired > 0 THEN format('%s partitions with an offset before the log start', o.expired) END, CASE WHEN o.ahead > 0 THEN format('%s partitions with an offset beyond the end', o.ahead) END),
		'Records were deleted before they were read, or a log was lost. Consumers do what auto.offset.reset says; broker.reset_offsets() sets another place.'
	FROM (SELECT s.group_id, min(s.committed_at) AS since, count(*) FILTER (WHERE s.committed_offset < s.log_start_offset) AS expired, count(*) FILTER (WHERE s.committed_offset > s.end_offset) AS ahead
		FROM broker_internal.offset_states s WHERE NOT s.no_topic AND (s.committed_offset < s.log_start_offset OR s.committed_offset > s.end_offset) GROUP BY s.group_no, s.group_id) o;
