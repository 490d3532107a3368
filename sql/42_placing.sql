-- Where the replicas of new partitions go.

-- Brokers for new replicas: who can lead; when these are too few for the factor, whoever is registered.
CREATE FUNCTION broker_internal.placeable_brokers(factor int, OUT ids int[], OUT racks text[]) STABLE LANGUAGE sql AS $$
	WITH b AS (SELECT broker_id, rack, NOT fenced AND NOT stopping AS live FROM brokers),
		n AS (SELECT count(*) FILTER (WHERE live) AS live FROM b)
	SELECT coalesce(array_agg(broker_id ORDER BY broker_id), '{}'), coalesce(array_agg(rack ORDER BY broker_id), '{}')
	FROM b, n WHERE b.live OR n.live < factor
$$;

-- What a topic still waits for before it can be placed; NULL: nothing.
CREATE FUNCTION broker_internal.cannot_place(factor int, assignment jsonb) RETURNS text STABLE LANGUAGE sql AS $$
	SELECT CASE
		WHEN NOT EXISTS (SELECT FROM brokers WHERE NOT fenced AND NOT stopping) THEN 'a broker that is alive'
		WHEN assignment IS NOT NULL THEN
			(SELECT 'broker ' || string_agg(DISTINCT r.value, ', ') FROM jsonb_each(assignment) a, jsonb_array_elements_text(a.value) r
				WHERE NOT EXISTS (SELECT FROM brokers b WHERE b.broker_id = r.value::int))
		WHEN (SELECT count(*) FROM brokers) < factor THEN
			format('%s more brokers: %s replicas are wished', factor - (SELECT count(*) FROM brokers), factor) END
$$;

-- Makes the partitions of a topic that are wished and not there yet.  Returns how many, or NULL and changes
-- nothing when it cannot.  The caller holds lock 1.
CREATE FUNCTION broker_internal.place_topic(id uuid, v bigint, incarnation bigint, why text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	t        topics;
	first    int;
	added    int;
	start    bigint;
	flat     int[];
	live     int[] := live_brokers();
	at       timestamptz := clock_timestamp();
BEGIN
	SELECT * INTO t FROM topics x WHERE x.topic_id = id AND x.deleted_at IS NULL;
	IF NOT FOUND THEN
		RETURN 0;
	END IF;
	SELECT count(*) INTO first FROM partitions p WHERE p.topic_id = id;
	added := t.partitions - first;
	IF added <= 0 THEN
		RETURN 0;
	END IF;
	IF cannot_place(t.replication_factor, t.assignment) IS NOT NULL THEN
		RETURN NULL;
	END IF;
	UPDATE cluster SET placed = placed + added RETURNING placed - added INTO start;
	IF t.assignment IS NULL THEN
		SELECT place(b.ids, b.racks, added, t.replication_factor, start) INTO flat FROM placeable_brokers(t.replication_factor) b;
	END IF;
	WITH r AS (
		SELECT n AS partition, CASE WHEN t.assignment IS NULL
				THEN flat[(n - first) * t.replication_factor + 1 : (n - first + 1) * t.replication_factor]
				ELSE (SELECT array_agg(a.value::int ORDER BY a.ordinality) FROM jsonb_array_elements_text(t.assignment -> n::text) WITH ORDINALITY a) END AS replicas
		FROM generate_series(first, t.partitions - 1) n
	), l AS (
		SELECT r.*, without(replicas, without(replicas, live)) AS alive FROM r
	)
	INSERT INTO partitions (topic_id, partition, leader, leader_epoch, partition_epoch, replicas, isr, leader_since, incarnation, version)
		SELECT id, l.partition, l.alive[1], 0, 0, l.replicas, CASE WHEN l.alive = '{}' THEN l.replicas ELSE l.alive END,
			CASE WHEN l.alive <> '{}' THEN at END, place_topic.incarnation, v
		FROM l;
	INSERT INTO changes VALUES (v, id) ON CONFLICT DO NOTHING;
	RETURN added;
END
$$;
