-- Topics: what people wish (public functions) and what Kafka clients ask for (daemon functions) go through
-- the same checks here.

CREATE FUNCTION broker_internal.my_session_start() RETURNS timestamptz STABLE LANGUAGE sql AS $$
	SELECT a.backend_start FROM pg_stat_get_activity(pg_backend_pid()) a
$$;

-- What a person asks for: taken up by the tick once it is committed.
CREATE FUNCTION broker_internal.add_operation(kind text, object text, topic_id uuid, args jsonb, actor text, state text) RETURNS bigint LANGUAGE sql AS $$
	INSERT INTO operations (kind, object, topic_id, args, requested_by, session_start, state)
		VALUES ($1, $2, $3, coalesce($4, '{}'), $5, my_session_start(), $6) RETURNING operation_id
$$;

CREATE FUNCTION broker_internal.no_topic(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'topic "%" does not exist', name USING ERRCODE = 'PB003',
		HINT = coalesce('Perhaps you meant "' || (SELECT topic FROM topics WHERE deleted_at IS NULL AND lower(topic) = lower(name) LIMIT 1) || '".',
			'The topics are in broker.topics.');
END
$$;

-- The topic's row, locked.  People wait for each other; the control plane never waits for a person: it gives
-- up with REQUEST_TIMED_OUT, which clients repeat.
CREATE FUNCTION broker_internal.lock_topic(name text, wait bool) RETURNS broker_internal.topics LANGUAGE plpgsql AS $$
DECLARE
	t topics;
BEGIN
	IF wait THEN
		SELECT * INTO t FROM topics x WHERE x.topic = name AND x.deleted_at IS NULL FOR NO KEY UPDATE;
	ELSE
		SELECT * INTO t FROM topics x WHERE x.topic = name AND x.deleted_at IS NULL FOR NO KEY UPDATE SKIP LOCKED;
		IF NOT FOUND AND EXISTS (SELECT FROM topics x WHERE x.topic = name AND x.deleted_at IS NULL) THEN
			RAISE EXCEPTION 'topic "%" is being changed by an open transaction', name USING ERRCODE = 'PB007';
		END IF;
	END IF;
	IF t.topic_id IS NULL THEN
		PERFORM no_topic(name);
	END IF;
	RETURN t;
END
$$;

-- {"0":[1,2],"1":[2,1]}: partitions first..first+count-1, distinct brokers, one factor.  PB039.
CREATE FUNCTION broker_internal.check_assignment(assignment jsonb, first int, factor int, OUT count int, OUT replication_factor int) LANGUAGE plpgsql AS $$
DECLARE
	p   record;
	ids int[];
BEGIN
	IF jsonb_typeof(assignment) <> 'object' OR assignment = '{}' THEN
		RAISE EXCEPTION 'an assignment is an object of partitions with their brokers' USING ERRCODE = 'PB039', HINT = 'Such as ''{"0": [1, 2]}''.';
	END IF;
	count := 0;
	replication_factor := factor;
	FOR p IN SELECT key, value FROM jsonb_each(assignment) LOOP
		count := count + 1;
		IF p.key !~ '^[0-9]{1,9}$' OR jsonb_typeof(p.value) <> 'array' OR jsonb_array_length(p.value) = 0
			OR EXISTS (SELECT FROM jsonb_array_elements(p.value) e WHERE jsonb_typeof(e) <> 'number' OR e::text !~ '^[0-9]{1,9}$') THEN
			RAISE EXCEPTION 'the assignment of partition % is not a list of broker ids: %', p.key, p.value USING ERRCODE = 'PB039';
		END IF;
		SELECT array_agg(e::text::int) INTO ids FROM jsonb_array_elements(p.value) e;
		IF cardinality(ids) <> (SELECT count(DISTINCT i) FROM unnest(ids) i) THEN
			RAISE EXCEPTION 'partition % is assigned to a broker twice: %', p.key, p.value USING ERRCODE = 'PB039';
		END IF;
		replication_factor := coalesce(replication_factor, cardinality(ids));
		IF cardinality(ids) <> replication_factor THEN
			RAISE EXCEPTION 'partition % has % replicas, others have %', p.key, cardinality(ids), replication_factor USING ERRCODE = 'PB039';
		END IF;
		IF EXISTS (SELECT FROM brokers) AND EXISTS (SELECT FROM unnest(ids) i WHERE NOT EXISTS (SELECT FROM brokers b WHERE b.broker_id = i)) THEN
			RAISE EXCEPTION 'partition % is assigned to a broker that is not registered: %', p.key, p.value USING ERRCODE = 'PB039',
				HINT = 'The brokers are in broker.brokers.';
		END IF;
	END LOOP;
	IF EXISTS (SELECT FROM generate_series(first, first + count - 1) n WHERE NOT assignment ? n::text) THEN
		RAISE EXCEPTION 'the assignment does not have every partition from % to %', first, first + count - 1 USING ERRCODE = 'PB039';
	END IF;
END
$$;

-- The wish for a topic, checked; the same for both doors.  NULL: the cluster's default.
CREATE FUNCTION broker_internal.add_topic(name text, wished_partitions int, wished_factor int, config jsonb, wished_assignment jsonb,
	strict bool, actor text, via text, client_addr inet, OUT topic_id uuid, OUT partitions int, OUT replication_factor int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	other      text;
	registered int;
	a          record;
BEGIN
	IF name IS NULL THEN
		RAISE EXCEPTION 'a topic needs a name' USING ERRCODE = 'PB017';
	END IF;
	PERFORM check_topic_name(name);
	SELECT t.topic INTO other FROM topics t WHERE replace(t.topic, '.', '_') = replace(name, '.', '_') AND t.deleted_at IS NULL;
	IF other = name AND strict THEN
		RAISE EXCEPTION 'topic "%" already exists', name USING ERRCODE = 'PB036';
	ELSIF other = name THEN
		RAISE EXCEPTION 'topic "%" already exists', name USING ERRCODE = 'PB036',
			HINT = 'Pass if_not_exists => true, or change it with broker.alter_topic.';
	ELSIF other IS NOT NULL THEN
		RAISE EXCEPTION 'topic "%" collides with topic "%": in metrics both are "%"', name, other, replace(name, '.', '_') USING ERRCODE = 'PB017';
	END IF;

	IF wished_assignment IS NOT NULL THEN
		SELECT * INTO a FROM check_assignment(wished_assignment, 0, wished_factor);
		IF wished_partitions <> a.count THEN
			RAISE EXCEPTION 'the assignment has % partitions, % are asked for', a.count, wished_partitions USING ERRCODE = 'PB039';
		END IF;
		partitions := a.count;
		replication_factor := a.replication_factor;
	ELSE
		partitions := coalesce(wished_partitions, cluster_setting('num.partitions')::int);
		replication_factor := coalesce(wished_factor, cluster_setting('default.replication.factor')::int);
	END IF;
	IF partitions < 1 OR partitions > 100000 THEN
		RAISE EXCEPTION 'the number of partitions must be from 1 to 100000, not %', partitions USING ERRCODE = 'PB037';
	END IF;
	IF replication_factor < 1 OR replication_factor > 1000 THEN
		RAISE EXCEPTION 'the replication factor must be at least 1, not %', replication_factor USING ERRCODE = 'PB038';
	END IF;
	SELECT count(*) INTO registered FROM brokers;
	IF registered > 0 AND replication_factor > registered THEN
		RAISE EXCEPTION 'replication factor % is larger than the number of brokers: %', replication_factor, registered USING ERRCODE = 'PB038',
			HINT = 'The brokers are in broker.brokers.';
	END IF;

	topic_id := gen_random_uuid();
	BEGIN
		INSERT INTO topics (topic_id, topic, partitions, replication_factor, assignment, created_at, created_by)
			VALUES (add_topic.topic_id, name, add_topic.partitions, add_topic.replication_factor, wished_assignment, clock_timestamp(), actor);
	EXCEPTION WHEN unique_violation THEN
		-- somebody else's transaction committed first
		RAISE EXCEPTION 'topic "%" already exists', name USING ERRCODE = 'PB036';
	END;
	PERFORM set_configs('topic', topic_id::text, name, coalesce(config, '{}'), strict, NULL, actor, via, client_addr);
	PERFORM add_event('topic.create', 'topic ' || name, name, NULL, NULL, NULL, NULL, format('%s partitions, %s replicas', partitions, replication_factor),
		jsonb_build_object('topic_id', topic_id), actor, via, client_addr, NULL);
END
$$;

-- More partitions, as wished; returns how many are added.
CREATE FUNCTION broker_internal.add_partitions(t broker_internal.topics, total int, more jsonb, actor text, via text, client_addr inet) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	a record;
BEGIN
	IF total IS NULL OR total < 1 OR total > 100000 THEN
		RAISE EXCEPTION 'the number of partitions must be from 1 to 100000, not %', total USING ERRCODE = 'PB037';
	ELSIF total = t.partitions THEN
		RAISE EXCEPTION 'topic "%" has % partitions already', t.topic, total USING ERRCODE = 'PB037';
	ELSIF total < t.partitions THEN
		RAISE EXCEPTION 'topic "%" has % partitions, it cannot have fewer', t.topic, t.partitions USING ERRCODE = 'PB037',
			HINT = 'Partitions cannot be taken away; make a new topic.';
	END IF;
	IF more IS NOT NULL THEN
		SELECT * INTO a FROM check_assignment(more, t.partitions, topic_factor(t));
		IF a.count <> total - t.partitions THEN
			RAISE EXCEPTION 'the assignment has % partitions, % are added', a.count, total - t.partitions USING ERRCODE = 'PB039';
		END IF;
	END IF;
	UPDATE topics x SET partitions = total, assignment = CASE WHEN more IS NULL THEN x.assignment ELSE coalesce(x.assignment, '{}') || more END WHERE x.topic_id = t.topic_id;
	PERFORM add_event('topic.partitions', 'topic ' || t.topic, t.topic, NULL, NULL, NULL, t.partitions::text, total::text, NULL, actor, via, client_addr, NULL);
	RETURN total - t.partitions;
END
$$;

-- The name is free at commit; the tombstone stays until every broker has removed its logs.
CREATE FUNCTION broker_internal.bury_topic(t broker_internal.topics, actor text, via text, client_addr inet) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE topics x SET deleted_at = clock_timestamp() WHERE x.topic_id = t.topic_id;
	PERFORM add_event('topic.delete', 'topic ' || t.topic, t.topic, NULL, NULL, NULL, format('%s partitions, %s replicas', t.partitions, t.replication_factor), NULL,
		jsonb_build_object('topic_id', t.topic_id), actor, via, client_addr, NULL);
END
$$;

-- What a tombstone does once it is taken up.  The caller holds lock 1.
CREATE FUNCTION broker_internal.drop_partitions(id uuid, v bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	WITH p AS (DELETE FROM partitions WHERE topic_id = id RETURNING replicas),
		d AS (DELETE FROM dropped_replicas WHERE topic_id = id RETURNING broker_id),
		b AS (SELECT r.id FROM p, unnest(p.replicas) r(id) UNION SELECT broker_id FROM d)
	UPDATE topics t SET logs_on = (SELECT coalesce(array_agg(b.id ORDER BY b.id), '{}') FROM b) WHERE t.topic_id = id;
	DELETE FROM configs WHERE scope = 'topic' AND object = id::text;
	DELETE FROM partition_reports WHERE topic_id = id;
	UPDATE operations SET state = 'failed', waiting_for = NULL, error = 'the topic was deleted', finished_at = clock_timestamp()
		WHERE operation_id IN (SELECT operation_id FROM operations WHERE topic_id = id AND state IN ('waiting', 'running') AND kind <> 'topic.delete' FOR UPDATE SKIP LOCKED);
	INSERT INTO changes VALUES (v, id) ON CONFLICT DO NOTHING;
END
$$;
