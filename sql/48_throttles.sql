-- Throttled reassignments (KIP-73).  What an operation asks for is nowhere stored as a config: brokers are told it with
-- the configs that people set, for as long as it moves something, so there is nothing to be taken away again.

-- Bytes a second that the operation under way with the lowest throttle allows each broker; NULL: none has one.
CREATE FUNCTION broker_internal.throttle() RETURNS bigint STABLE LANGUAGE sql AS $$
	SELECT min((o.args ->> 'throttle')::bigint) FROM operations o WHERE o.state = 'running' AND o.args ? 'throttle'
$$;

-- The throttle of the operation that moves a partition; NULL: none.
CREATE FUNCTION broker_internal.throttle_of(id uuid, part int) RETURNS bigint STABLE LANGUAGE sql AS $$
	SELECT min((o.args ->> 'throttle')::bigint) FROM moves m JOIN operations o USING (operation_id)
	WHERE m.topic_id = id AND m.partition = part AND m.state = 'started' AND o.state = 'running' AND o.args ? 'throttle'
$$;

-- A list of throttled replicas with more of them.
CREATE FUNCTION broker_internal.add_throttled(list text, more text) RETURNS text IMMUTABLE LANGUAGE sql AS $$
	SELECT CASE WHEN list = '*' THEN '*' ELSE concat_ws(',', nullif(list, ''), more) END
$$;

-- A topic's configs as brokers get them: with those of its replicas that copy and are copied under a throttle.
CREATE FUNCTION broker_internal.throttled_config(id uuid, config jsonb) RETURNS jsonb STABLE LANGUAGE sql AS $$
	SELECT CASE WHEN x.sources IS NULL THEN config ELSE config || jsonb_build_object(
		'leader.replication.throttled.replicas', add_throttled(config ->> 'leader.replication.throttled.replicas', x.sources),
		'follower.replication.throttled.replicas', add_throttled(config ->> 'follower.replication.throttled.replicas', x.copies)) END
	FROM (SELECT string_agg(p.partition || ':' || r.b, ',' ORDER BY p.partition, r.b) FILTER (WHERE NOT r.b = ANY (p.adding)) AS sources,
			string_agg(p.partition || ':' || r.b, ',' ORDER BY p.partition, r.b) FILTER (WHERE r.b = ANY (p.adding)) AS copies
		FROM partitions p CROSS JOIN LATERAL unnest(p.replicas) r(b)
		WHERE p.topic_id = id AND p.origin IS NOT NULL AND p.adding <> '{}' AND throttle_of(p.topic_id, p.partition) IS NOT NULL) x
$$;

-- 22023 unless it lets something through.
CREATE FUNCTION broker_internal.throttle_args(throttle bigint) RETURNS jsonb IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF throttle <= 0 THEN
		RAISE EXCEPTION 'the throttle must be at least 1 byte a second, not %', throttle USING ERRCODE = '22023',
			HINT = 'Such as throttle => pg_size_bytes(''50 MB''); leave it out for none.';
	END IF;
	RETURN jsonb_strip_nulls(jsonb_build_object('throttle', throttle));
END
$$;
