-- ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments and UnregisterBroker, as clients ask for them:
-- carried out at once, each partition by itself, with Kafka's codes.

-- Partitions that a client names: [{"name":"t","partitions":[0,1]}]; NULL: all there are.
CREATE FUNCTION broker_internal.asked_partitions(topics jsonb) RETURNS TABLE (name text, p int, t uuid, leader int, replicas int[], has_topic bool, has_partition bool, n bigint) STABLE LANGUAGE sql AS $$
	SELECT x.name, y.p::int, t.topic_id, q.leader, q.replicas, t.topic_id IS NOT NULL, q.topic_id IS NOT NULL, row_number() OVER (ORDER BY x.n, y.n)
	FROM jsonb_array_elements(topics) WITH ORDINALITY w(e, n) CROSS JOIN LATERAL (SELECT w.e ->> 'name' AS name, w.n) x
		CROSS JOIN LATERAL jsonb_array_elements_text(w.e -> 'partitions') WITH ORDINALITY y(p, n)
		LEFT JOIN topics t ON t.topic = x.name AND t.deleted_at IS NULL LEFT JOIN partitions q ON q.topic_id = t.topic_id AND q.partition = y.p::int
	WHERE $1 IS NOT NULL
	UNION ALL
	SELECT t.topic, q.partition, t.topic_id, q.leader, q.replicas, true, true, row_number() OVER (ORDER BY t.topic, q.partition)
	FROM partitions q JOIN topics t USING (topic_id) WHERE $1 IS NULL AND t.deleted_at IS NULL
$$;

-- PREFERRED (0) or UNCLEAN (1).  Of all partitions those that need no election are left out.  A topic without any
-- comes as one row without a partition.
CREATE FUNCTION broker_internal.elect_leaders_1(actor text, client_addr inet, election_type int, topics jsonb)
RETURNS TABLE (topic text, partition int, error_code int, error_message text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	v     record;
	asked jsonb;
	ids   uuid[];
	nums  int[];
	done  jsonb;
BEGIN
	SELECT * INTO v FROM next_version();
	SELECT array_agg(a.t), array_agg(a.p), jsonb_agg(jsonb_build_object('name', a.name, 'p', a.p, 't', a.t, 'n', a.n, 'code', a.code))
		INTO ids, nums, asked
		FROM (SELECT x.*, CASE WHEN NOT x.has_topic THEN 3 WHEN NOT x.has_partition THEN -3
				WHEN CASE election_type WHEN 0 THEN x.leader = x.replicas[1] ELSE x.leader IS NOT NULL END THEN 84 ELSE 0 END AS code FROM asked_partitions(topics) x) a
		WHERE topics IS NOT NULL OR a.code = 0;
	IF election_type = 0 THEN
		SELECT jsonb_object_agg(m.topic_id || ' ' || m.partition, true) INTO done
			FROM move_leaders('preferred', NULL, ids, nums, v.version, v.epoch_floor, v.incarnation, 'asked for by ' || actor) m WHERE ids IS NOT NULL;
	ELSE
		SELECT jsonb_object_agg(m.topic_id || ' ' || m.partition, true) INTO done
			FROM elect_unclean(ids, nums, v.version, v.epoch_floor, v.incarnation, actor, 'kafka', client_addr) m;
	END IF;
	RETURN QUERY
	SELECT a.name, a.p, abs(c.code), CASE c.code WHEN 0 THEN NULL
			WHEN 3 THEN 'No such topic as ' || a.name WHEN -3 THEN format('No such partition as %s-%s', a.name, a.p)
			WHEN 84 THEN 'Leader election not needed for topic partition.'
			WHEN 80 THEN 'The preferred leader was not available.'
			ELSE 'Eligible topic partition leaders are not available.' END
	FROM jsonb_to_recordset(asked) a(name text, p int, t uuid, n bigint, code int)
		CROSS JOIN LATERAL (SELECT CASE WHEN a.code <> 0 THEN a.code WHEN done ? (a.t || ' ' || a.p) THEN 0 WHEN election_type = 0 THEN 80 ELSE 83 END AS code) c
	ORDER BY a.n;
	-- a topic of which there is nothing to say is in the answer all the same
	RETURN QUERY
	SELECT x.name, NULL::int, 0, NULL::text FROM (
			SELECT t.topic AS name FROM topics t WHERE topics IS NULL AND t.deleted_at IS NULL
			UNION SELECT e ->> 'name' FROM jsonb_array_elements(topics) e) x
	WHERE NOT EXISTS (SELECT FROM jsonb_to_recordset(asked) a(name text) WHERE a.name = x.name) ORDER BY 1;
END
$$;

-- Why a partition cannot have these replicas, in Kafka's order; no code: it can.
CREATE FUNCTION broker_internal.refuse_target(wished int[], old int, allow_factor_change bool, OUT error_code int, OUT error_message text) STABLE LANGUAGE plpgsql AS $$
DECLARE
	last int;
	id   int;
BEGIN
	error_code := 39;
	IF wished = '{}' THEN
		error_message := 'The manual partition assignment includes an empty replica list.';
		RETURN;
	END IF;
	FOR id IN SELECT w FROM unnest(wished) w ORDER BY 1 LOOP
		IF id = last THEN
			error_message := format('The manual partition assignment includes the broker %s more than once.', id);
			RETURN;
		ELSIF NOT EXISTS (SELECT FROM brokers b WHERE b.broker_id = id) THEN
			error_message := format('The manual partition assignment includes broker %s, but no such broker is registered.', id);
			RETURN;
		END IF;
		last := id;
	END LOOP;
	IF NOT allow_factor_change AND cardinality(wished) <> old THEN
		error_code := 38;
		error_message := format('The replication factor is changed from %s to %s', old, cardinality(wished));
		RETURN;
	END IF;
	error_code := 0;
END
$$;

-- [{"name":"t","partitions":[{"partition":0,"replicas":[1,2]}]}]; replicas null: cancel.
CREATE FUNCTION broker_internal.alter_reassignments_1(actor text, client_addr inet, allow_factor_change bool, topics jsonb)
RETURNS TABLE (topic text, partition int, error_code int, error_message text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	v      record;
	w      record;
	q      partitions;
	wished int[];
	starts jsonb := '[]';
BEGIN
	SELECT * INTO v FROM next_version();
	FOR w IN SELECT x.e ->> 'name' AS name, (y.e ->> 'partition')::int AS p, y.e -> 'replicas' AS r FROM jsonb_array_elements(topics) WITH ORDINALITY x(e, n)
			CROSS JOIN LATERAL jsonb_array_elements(x.e -> 'partitions') WITH ORDINALITY y(e, n) ORDER BY x.n, y.n
	LOOP
		topic := w.name; partition := w.p; error_code := 0; error_message := NULL;
		SELECT p.* INTO q FROM topics t JOIN partitions p USING (topic_id) WHERE t.topic = w.name AND t.deleted_at IS NULL AND p.partition = w.p;
		IF NOT FOUND THEN
			error_code := 3;
			error_message := CASE WHEN EXISTS (SELECT FROM topics t WHERE t.topic = w.name AND t.deleted_at IS NULL) THEN format('Unable to find partition %s:%s.', w.name, w.p)
				ELSE format('Unable to find a topic named %s.', w.name) END;
		ELSIF jsonb_typeof(w.r) IS DISTINCT FROM 'array' THEN
			IF q.origin IS NULL THEN
				error_code := 85;
				error_message := 'No partition reassignment is in progress.';
			ELSIF NOT EXISTS (SELECT FROM cancel_moves(ARRAY[q.topic_id], ARRAY[q.partition], v.version, v.epoch_floor, v.incarnation, actor, 'kafka', client_addr)) THEN
				error_code := 39;
				error_message := 'None of the old replicas is in sync.';
			END IF;
		ELSE
			wished := ARRAY (SELECT j::int FROM jsonb_array_elements_text(w.r) WITH ORDINALITY u(j, n) ORDER BY n);
			SELECT r.error_code, r.error_message INTO error_code, error_message
				FROM refuse_target(wished, cardinality(coalesce(q.origin, q.replicas)), coalesce(allow_factor_change, true)) r;
			IF error_code = 0 AND q.incarnation <> v.incarnation AND NOT wished @> q.replicas THEN
				error_code := 7;
				error_message := 'PostgreSQL went back, and the replicas have not all reported yet; try again.';
			ELSIF error_code = 0 THEN
				starts := starts || jsonb_build_object('t', q.topic_id, 'p', q.partition, 'r', wished);
			END IF;
		END IF;
		RETURN NEXT;
	END LOOP;
	IF starts <> '[]' THEN
		UPDATE moves m SET state = 'cancelled' FROM jsonb_to_recordset(starts) s(t uuid, p int) WHERE m.topic_id = s.t AND m.partition = s.p AND m.state = 'started';
		PERFORM start_moves(starts, v.version, actor, 'kafka', client_addr, NULL);
		PERFORM finish_moves(v.version, v.epoch_floor, v.incarnation);
	END IF;
END
$$;

-- What is under way, of these topics or (NULL) of all.
CREATE FUNCTION broker_internal.list_reassignments_1(topics jsonb) RETURNS TABLE (topic text, partition int, replicas int[], adding int[], removing int[]) STABLE LANGUAGE sql AS $$
	SELECT t.topic, q.partition, q.replicas, q.adding, q.removing FROM partitions q JOIN topics t USING (topic_id)
	WHERE q.origin IS NOT NULL AND ($1 IS NULL OR EXISTS (SELECT FROM asked_partitions($1) a WHERE a.t = q.topic_id AND a.p = q.partition))
	ORDER BY 1, 2
$$;

-- One that is alive is told so: stop it first.  Replicas stay where they are, as in Kafka.
CREATE FUNCTION broker_internal.unregister_broker_1(actor text, client_addr inet, broker_id int, OUT error_code int, OUT error_message text) LANGUAGE plpgsql AS $$
DECLARE
	v   record;
	id  int := unregister_broker_1.broker_id;
	why text;
BEGIN
	SELECT * INTO v FROM next_version();
	error_code := 0;
	IF NOT EXISTS (SELECT FROM brokers b WHERE b.broker_id = id) THEN
		error_code := 102;
		error_message := format('Broker ID %s is not currently registered', id);
		RETURN;
	END IF;
	why := cannot_forget(id);
	IF why IS NOT NULL THEN
		error_code := 42;
		error_message := why || '; broker.unregister_broker in SQL can be forced';
		RETURN;
	END IF;
	PERFORM add_event('broker.unregister', 'broker ' || id, NULL, NULL, id, NULL, NULL, NULL, NULL, actor, 'kafka', client_addr, NULL);
	PERFORM forget_broker(id, v.version, v.epoch_floor, v.incarnation, 'unregistered by ' || actor);
END
$$;
