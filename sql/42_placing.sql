-- Where the replicas of new partitions go.

-- Brokers for new replicas: who can lead; when these are too few for the factor, whoever is registered.
CREATE FUNCTION broker_internal.placeable_brokers(factor int, OUT ids int[], OUT racks text[]) STABLE LANGUAGE sql AS $$
	WITH b AS (SELECT broker_id, rack, NOT fenced AND NOT stopping AND NOT decommissioning AS live, decommissioning OR barred AS last FROM brokers),
		n AS (SELECT count(*) FILTER (WHERE live) AS live, count(*) FILTER (WHERE NOT last) AS wanted FROM b)
	SELECT coalesce(array_agg(broker_id ORDER BY broker_id), '{}'), coalesce(array_agg(rack ORDER BY broker_id), '{}')
	FROM b, n WHERE b.live OR n.live < factor AND NOT b.last OR n.wanted < factor
$$;

-- Replicas that each partition of a topic has, or comes to have.
CREATE FUNCTION broker_internal.topic_factor(t broker_internal.topics) RETURNS int STABLE LANGUAGE sql AS $$
	SELECT coalesce((SELECT cardinality(p.replicas) - cardinality(p.removing) FROM partitions p WHERE p.topic_id = t.topic_id AND p.partition = 0), t.replication_factor)
$$;

-- What a topic still waits for before it can be placed; NULL: nothing.
CREATE FUNCTION broker_internal.cannot_place(t broker_internal.topics) RETURNS text STABLE LANGUAGE sql AS $$
	SELECT CASE
		WHEN NOT EXISTS (SELECT FROM brokers WHERE NOT fenced AND NOT stopping) THEN 'a broker that is alive'
		WHEN missing.ids IS NOT NULL THEN 'broker ' || missing.ids
		WHEN (SELECT count(*) FROM brokers) < topic_factor(t) THEN
			format('%s more brokers: %s replicas are wished', topic_factor(t) - (SELECT count(*) FROM brokers), topic_factor(t)) END
	FROM (SELECT string_agg(DISTINCT r.value, ', ') AS ids FROM jsonb_each(t.assignment) a, jsonb_array_elements_text(a.value) r
		WHERE NOT EXISTS (SELECT FROM partitions p WHERE p.topic_id = t.topic_id AND p.partition = a.key::int)
			AND NOT EXISTS (SELECT FROM brokers b WHERE b.broker_id = r.value::int)) missing
$$;

-- Makes the partitions of a topic that are wished and not there yet.  Returns how many, or NULL and changes
-- nothing when it cannot.  The caller holds lock 1.
CREATE FUNCTION broker_internal.place_topic(id uuid, v bigint, incarnation bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	t        topics;
	first    int;
	added    int;
	start    bigint;
	flat     int[];
	live     int[] := live_brokers();
	able     int[] := able_brokers();
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
	IF cannot_place(t) IS NOT NULL THEN
		RETURN NULL;
	END IF;
	-- More partitions get as many replicas as partition 0 has by now, as in Kafka.
	t.replication_factor := topic_factor(t);
	UPDATE cluster SET placed = placed + added RETURNING placed - added INTO start;
	SELECT place(b.ids, b.racks, added, t.replication_factor, start) INTO flat FROM placeable_brokers(t.replication_factor) b;
	WITH r AS (
		SELECT n AS partition, CASE WHEN t.assignment -> n::text IS NULL -- not asked for: placed by us
				THEN flat[(n - first) * t.replication_factor + 1 : (n - first + 1) * t.replication_factor]
				ELSE (SELECT array_agg(a.value::int ORDER BY a.ordinality) FROM jsonb_array_elements_text(t.assignment -> n::text) WITH ORDINALITY a) END AS replicas
		FROM generate_series(first, t.partitions - 1) n
	), l AS (
		SELECT r.*, without(replicas, without(replicas, able)) AS alive, without(replicas, without(replicas, live)) AS willing FROM r
	)
	INSERT INTO partitions (topic_id, partition, leader, leader_epoch, partition_epoch, replicas, isr, leader_since, incarnation, version)
		SELECT id, l.partition, coalesce(l.willing[1], l.alive[1]), 0, 0, l.replicas, CASE WHEN l.alive = '{}' THEN l.replicas ELSE l.alive END,
			CASE WHEN l.alive <> '{}' THEN at END, place_topic.incarnation, v
		FROM l;
	INSERT INTO changes VALUES (v, id) ON CONFLICT DO NOTHING;
	RETURN added;
END
$$;
