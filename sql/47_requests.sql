-- What people asked of brokers, leaders and replicas: taken up by the tick, under lock 1.

-- "orders-3, orders-4 and 7 more"
CREATE FUNCTION broker_internal.name_some(names text[]) RETURNS text IMMUTABLE LANGUAGE sql AS $$
	SELECT array_to_string(names[1:2], ', ') || CASE WHEN cardinality(names) > 2 THEN format(' and %s more', cardinality(names) - 2) ELSE '' END
$$;

CREATE FUNCTION broker_internal.no_broker(id int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'broker % is not registered', id USING ERRCODE = 'PB102', HINT = 'The brokers are in broker.brokers.';
END
$$;

-- A broker is forgotten; what it has of logs becomes stray.  Its row is kept aside, so that it is known when it
-- comes back with its disk.  Alive, it is fenced first.  The caller holds lock 1.
CREATE FUNCTION broker_internal.forget_broker(id int, v bigint, epoch_floor int, incarnation bigint, why text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT FROM brokers b WHERE b.broker_id = id AND NOT b.fenced) THEN
		PERFORM fence_brokers(ARRAY[id], v, epoch_floor, incarnation, why);
	END IF;
	DELETE FROM former_brokers f WHERE f.broker_id = id;
	WITH b AS (DELETE FROM brokers b WHERE b.broker_id = id RETURNING b.*)
	INSERT INTO former_brokers SELECT * FROM b;
	UPDATE former_brokers f SET changed_version = v, drained = false, barred = false WHERE f.broker_id = id;
	DELETE FROM configs c WHERE c.scope = 'broker' AND c.object = id::text;
	DELETE FROM broker_reports r WHERE r.broker_id = id;
	DELETE FROM partition_reports r WHERE r.broker_id = id;
	UPDATE cluster SET configs_version = v;
END
$$;

-- Why a broker cannot be forgotten without loss; NULL: it can.
CREATE FUNCTION broker_internal.cannot_forget(id int) RETURNS text STABLE LANGUAGE sql AS $$
	SELECT CASE
		WHEN EXISTS (SELECT FROM brokers b WHERE b.broker_id = id AND NOT b.fenced AND session_exists(b.backend_pid, b.backend_start)) THEN format('broker %s is alive', id)
		WHEN x.names IS NOT NULL THEN format('broker %s has the last replica of %s', id, name_some(x.names)) END
	FROM (SELECT array_agg(format('%s-%s', t.topic, p.partition) ORDER BY t.topic, p.partition) AS names FROM partitions p JOIN topics t USING (topic_id)
		WHERE id = ANY (p.replicas) AND (p.replicas = ARRAY[id] OR p.isr = ARRAY[id])) x
$$;

-- One request that waits.  Those with moves and drains are running from then on.
CREATE FUNCTION broker_internal.take_up_request(o broker_internal.operations, v bigint, epoch_floor int, incarnation bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	id   int := (o.args ->> 'broker_id')::int;
	ids  uuid[];
	nums int[];
	why  text;
BEGIN
	IF o.args ? 'partitions' THEN
		SELECT array_agg(x.t), array_agg(x.p) INTO ids, nums FROM jsonb_to_recordset(o.args -> 'partitions') x(t uuid, p int);
	END IF;
	IF id IS NOT NULL AND NOT EXISTS (SELECT FROM brokers b WHERE b.broker_id = id) THEN
		PERFORM no_broker(id);
	END IF;
	IF o.args ? 'throttle' OR o.kind IN ('partitions.cancel', 'broker.undrain') THEN
		UPDATE cluster SET configs_version = v; -- brokers read the rate (48_throttles.sql)
	END IF;
	CASE o.kind
		WHEN 'topic.replication', 'partitions.reassign' THEN
			UPDATE operations SET state = 'running' WHERE operation_id = o.operation_id;
		WHEN 'broker.decommission' THEN
			UPDATE brokers SET decommissioning = true, changed_version = v WHERE broker_id = id;
			UPDATE operations SET state = 'running' WHERE operation_id = o.operation_id;
		WHEN 'partitions.cancel' THEN
			PERFORM cancel_moves(ids, nums, v, epoch_floor, incarnation, o.requested_by, 'sql', NULL);
			SELECT name_some(array_agg(format('%s-%s', t.topic, q.partition) ORDER BY t.topic, q.partition)) INTO why
				FROM unnest(ids, nums) x(t, p) JOIN partitions q ON q.topic_id = x.t AND q.partition = x.p JOIN topics t USING (topic_id) WHERE q.origin IS NOT NULL;
			IF why IS NOT NULL THEN
				RAISE EXCEPTION 'none of the old replicas of % is in sync', why USING ERRCODE = 'PB039';
			END IF;
		WHEN 'partitions.elect' THEN
			IF o.args ->> 'unclean' = 'true' THEN
				PERFORM elect_unclean(ids, nums, v, epoch_floor, incarnation, o.requested_by, 'sql', NULL);
			ELSE
				PERFORM move_leaders('preferred', NULL, ids, nums, v, epoch_floor, incarnation, 'asked for by ' || o.requested_by);
			END IF;
		WHEN 'broker.drain' THEN
			UPDATE brokers SET drained = true, changed_version = v WHERE broker_id = id;
			UPDATE operations SET state = 'running' WHERE operation_id = o.operation_id;
		WHEN 'broker.undrain' THEN
			UPDATE brokers SET drained = false, decommissioning = false, changed_version = v WHERE broker_id = id;
			UPDATE operations SET state = 'cancelled', finished_at = clock_timestamp(), waiting_for = NULL
				WHERE kind IN ('broker.drain', 'broker.decommission') AND state IN ('waiting', 'running') AND (args ->> 'broker_id')::int = id AND operation_id < o.operation_id;
			SELECT array_agg(m.topic_id), array_agg(m.partition) INTO ids, nums FROM moves m JOIN operations p USING (operation_id)
				WHERE p.kind = 'broker.decommission' AND p.state = 'cancelled' AND (p.args ->> 'broker_id')::int = id AND m.state = 'started';
			PERFORM cancel_moves(ids, nums, v, epoch_floor, incarnation, o.requested_by, 'sql', NULL);
			UPDATE moves m SET state = 'cancelled' FROM operations p
				WHERE p.operation_id = m.operation_id AND p.kind = 'broker.decommission' AND p.state = 'cancelled' AND (p.args ->> 'broker_id')::int = id AND m.state IN ('waiting', 'started');
			PERFORM move_leaders('preferred', ARRAY[id], NULL, NULL, v, epoch_floor, incarnation, format('broker %s is drained no more', id));
		WHEN 'broker.fence' THEN
			UPDATE brokers SET barred = true, changed_version = v WHERE broker_id = id;
			IF EXISTS (SELECT FROM brokers b WHERE b.broker_id = id AND NOT b.fenced) THEN
				PERFORM fence_brokers(ARRAY[id], v, epoch_floor, incarnation, 'fenced by ' || o.requested_by);
			END IF;
		WHEN 'broker.unfence' THEN
			UPDATE brokers SET barred = false, changed_version = v WHERE broker_id = id;
		WHEN 'broker.unregister' THEN
			why := cannot_forget(id);
			IF why IS NOT NULL AND o.args ->> 'force' IS DISTINCT FROM 'true' THEN
				RAISE EXCEPTION '%', why USING ERRCODE = 'PB904';
			END IF;
			PERFORM forget_broker(id, v, epoch_floor, incarnation, 'unregistered by ' || o.requested_by);
	END CASE;
END
$$;

-- So many partitions an operation moves at a time, so that moving everything does not copy everything at once.
CREATE FUNCTION broker_internal.moves_at_once() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 500';

-- What a move that was started waits for.
CREATE FUNCTION broker_internal.move_waits_for(p broker_internal.partitions) RETURNS text STABLE LANGUAGE sql AS $$
	SELECT CASE
		WHEN p.incarnation <> (SELECT c.pg_incarnation FROM cluster c) THEN 'its replicas to report, since PostgreSQL went back'
		WHEN p.leader IS NULL THEN 'a leader'
		WHEN dead.ids IS NOT NULL THEN 'broker ' || dead.ids || ', which is dead'
		WHEN NOT p.adding <@ p.isr THEN 'broker ' || array_to_string(without(p.adding, p.isr), ', ') || ' to copy the log'
		ELSE 'more of ' || without(p.replicas, p.removing)::text || ' to be in sync' END
	FROM (SELECT string_agg(a::text, ', ') AS ids FROM unnest(without(p.adding, p.isr)) a WHERE NOT EXISTS (SELECT FROM brokers b WHERE b.broker_id = a AND NOT b.fenced)) dead
$$;

-- Starts what an operation has still to move.  Targets may have become impossible meanwhile.
CREATE FUNCTION broker_internal.start_waiting(o broker_internal.operations, v bigint, incarnation bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	wishes jsonb;
BEGIN
	UPDATE moves m SET state = 'failed', error = format('broker %s is not registered', array_to_string(x.lost, ', '))
		FROM (SELECT y.topic_id, y.partition, array_agg(DISTINCT r.id) AS lost FROM moves y, unnest(y.target) r(id)
			WHERE y.operation_id = o.operation_id AND y.state = 'waiting' AND NOT EXISTS (SELECT FROM brokers b WHERE b.broker_id = r.id)
				-- one that it has already may stay
				AND NOT EXISTS (SELECT FROM partitions q WHERE q.topic_id = y.topic_id AND q.partition = y.partition AND r.id = ANY (q.replicas)) GROUP BY 1, 2) x
		WHERE m.operation_id = o.operation_id AND m.topic_id = x.topic_id AND m.partition = x.partition;
	UPDATE moves m SET state = 'done' WHERE m.operation_id = o.operation_id AND m.state IN ('waiting', 'started')
		AND NOT EXISTS (SELECT FROM partitions q WHERE q.topic_id = m.topic_id AND q.partition = m.partition);
	WITH n AS (
		SELECT m.topic_id, m.partition, m.target FROM moves m JOIN partitions q USING (topic_id, partition)
		WHERE m.operation_id = o.operation_id AND m.state = 'waiting' AND (q.incarnation = start_waiting.incarnation OR cardinality(q.replicas) = 1)
		ORDER BY m.topic_id, m.partition LIMIT moves_at_once() - (SELECT count(*) FROM moves s WHERE s.operation_id = o.operation_id AND s.state = 'started')
	), u AS (
		UPDATE moves m SET state = 'started' FROM n WHERE m.operation_id = o.operation_id AND m.topic_id = n.topic_id AND m.partition = n.partition
		RETURNING m.topic_id, m.partition, m.target
	)
	SELECT jsonb_agg(jsonb_build_object('t', u.topic_id, 'p', u.partition, 'r', u.target)) INTO wishes FROM u;
	IF wishes IS NOT NULL THEN
		-- an older operation's move of the same partition is replaced by this one
		UPDATE moves m SET state = 'cancelled' FROM moves n WHERE n.operation_id = o.operation_id AND n.state = 'started'
			AND m.topic_id = n.topic_id AND m.partition = n.partition AND m.operation_id < o.operation_id AND m.state = 'started';
		PERFORM start_moves(wishes, v, o.requested_by, 'sql', NULL, CASE o.kind WHEN 'broker.decommission' THEN o.object || ' is decommissioned' END);
		-- the same replicas in another order, or what it has already
		UPDATE moves m SET state = 'done' FROM partitions q WHERE m.operation_id = o.operation_id AND m.state = 'started'
			AND q.topic_id = m.topic_id AND q.partition = m.partition AND q.origin IS NULL AND q.replicas = m.target;
	END IF;
END
$$;

-- What an operation that moves partitions waits for now; NULL: nothing, it is done.
CREATE FUNCTION broker_internal.moves_wait_for(o broker_internal.operations) RETURNS text STABLE LANGUAGE sql AS $$
	SELECT CASE WHEN m.names IS NULL THEN NULL
		ELSE format('%s: %s', name_some(m.names), coalesce(m.first, 'the moves before it')) END
	FROM (SELECT array_agg(format('%s-%s', t.topic, x.partition) ORDER BY x.state, t.topic, x.partition) AS names,
			(array_agg(CASE WHEN q.origin IS NOT NULL THEN move_waits_for(q) END ORDER BY x.state, t.topic, x.partition))[1] AS first
		FROM moves x JOIN topics t USING (topic_id) LEFT JOIN partitions q ON q.topic_id = x.topic_id AND q.partition = x.partition
		WHERE x.operation_id = o.operation_id AND x.state IN ('waiting', 'started')) m
$$;

-- More replicas than when it was planned may be on a broker that leaves: topics that were made meanwhile.
CREATE FUNCTION broker_internal.plan_rest(o broker_internal.operations, id int) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	found bool;
BEGIN
	WITH p AS (
		SELECT array_agg(q.topic_id ORDER BY q.topic_id, q.partition) AS t, array_agg(q.partition ORDER BY q.topic_id, q.partition) AS p
		FROM partitions q WHERE id = ANY (q.replicas) AND NOT id = ANY (q.removing)
			AND NOT EXISTS (SELECT FROM moves m WHERE m.operation_id = o.operation_id AND m.topic_id = q.topic_id AND m.partition = q.partition AND m.state IN ('waiting', 'started'))
	), n AS (
		INSERT INTO moves (operation_id, topic_id, partition, target)
			SELECT o.operation_id, x.topic_id, x.partition, x.target FROM p, LATERAL plan_moves(p.t, p.p, NULL, NULL, false) x WHERE p.t IS NOT NULL
			ON CONFLICT ON CONSTRAINT moves_pkey DO UPDATE SET target = excluded.target, state = 'waiting', error = NULL
		RETURNING 1
	)
	SELECT count(*) > 0 INTO found FROM n;
	RETURN found;
END
$$;

-- Goes on with what is running: moves and drains.  A row that a person holds is left for the next round.
CREATE FUNCTION broker_internal.go_on(v_in bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	o     operations;
	c     cluster;
	v     bigint := v_in;
	why   text;
	id    int;
	bad   text;
	names text[];
BEGIN
	SELECT f.v INTO v FROM finish_moves(v, (SELECT x.epoch_floor FROM cluster x), (SELECT x.pg_incarnation FROM cluster x)) f;
	FOR o IN SELECT * FROM operations WHERE state = 'running' AND kind IN ('topic.replication', 'partitions.reassign', 'broker.decommission', 'broker.drain')
		ORDER BY operation_id FOR UPDATE SKIP LOCKED
	LOOP
		SELECT * INTO c FROM cluster;
		CONTINUE WHEN c.version = (o.args ->> 'looked_at')::bigint; -- nothing has changed since
		IF v IS NULL THEN
			SELECT n.version INTO v FROM next_version() n;
			SELECT * INTO c FROM cluster;
		END IF;
		id := (o.args ->> 'broker_id')::int;
		BEGIN
			IF o.kind = 'broker.drain' THEN
				PERFORM move_leaders('drain', ARRAY[id], NULL, NULL, v, c.epoch_floor, c.pg_incarnation, format('broker %s is drained', id));
				SELECT array_agg(format('%s-%s', t.topic, q.partition) ORDER BY t.topic, q.partition) INTO names
					FROM partitions q JOIN topics t USING (topic_id) WHERE q.leader = id AND cardinality(q.replicas) > 1;
				why := 'another replica of ' || name_some(names) || ' to be in sync';
				bad := NULL;
			ELSE
				PERFORM start_waiting(o, v, c.pg_incarnation);
				PERFORM finish_moves(v, c.epoch_floor, c.pg_incarnation);
				why := moves_wait_for(o);
				IF why IS NULL AND o.kind = 'broker.decommission' THEN
					IF plan_rest(o, id) THEN
						why := 'partitions that were placed there meanwhile';
					ELSE
						why := (SELECT name_some(array_agg(format('%s-%s', t.topic, q.partition))) || ' to leave it' FROM partitions q JOIN topics t USING (topic_id) WHERE id = ANY (q.replicas));
					END IF;
					IF why IS NULL THEN
						PERFORM forget_broker(id, v, c.epoch_floor, c.pg_incarnation, 'decommissioned by ' || o.requested_by);
						PERFORM add_event('broker.decommissioned', o.object, NULL, NULL, id, NULL, NULL, NULL, NULL, o.requested_by, 'controller', NULL, NULL);
					END IF;
				END IF;
				SELECT string_agg(format('%s-%s: %s', t.topic, m.partition, m.error), '; ' ORDER BY t.topic, m.partition) INTO bad
					FROM moves m JOIN topics t USING (topic_id) WHERE m.operation_id = o.operation_id AND m.state = 'failed';
			END IF;
			IF why IS NULL THEN
				IF o.args ? 'throttle' THEN
					UPDATE cluster SET configs_version = v;
				END IF;
				UPDATE operations SET state = CASE WHEN bad IS NULL THEN 'done' ELSE 'failed' END, error = left(bad, 1000), waiting_for = NULL, finished_at = clock_timestamp(),
					args = args || jsonb_build_object('version', v) WHERE operation_id = o.operation_id;
			ELSE
				UPDATE operations SET waiting_for = why, args = args || jsonb_build_object('looked_at', v) WHERE operation_id = o.operation_id;
			END IF;
		EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
			NULL; -- next round
		WHEN OTHERS THEN
			-- a plan that cannot be made, such as too few brokers: it waits until that changes
			UPDATE operations SET waiting_for = SQLERRM, args = args || jsonb_build_object('looked_at', v) WHERE operation_id = o.operation_id;
		END;
	END LOOP;
	RETURN v;
END
$$;
