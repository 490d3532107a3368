-- What people ask of brokers, leaders and replicas.  Each writes a request; the tick carries it out (47_requests.sql).

-- Partitions that are named: all of a topic (partitions NULL), some of it, or all there are (topic NULL).
CREATE FUNCTION broker_internal.named_partitions(name text, parts int[]) RETURNS TABLE (topic text, topic_id uuid, partition int) STABLE LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	t topics;
	p int;
BEGIN
	IF name IS NULL THEN
		IF parts IS NOT NULL THEN
			RAISE EXCEPTION 'partitions without a topic' USING ERRCODE = '22023', HINT = 'Name the topic too.';
		END IF;
		RETURN QUERY SELECT x.topic, q.topic_id, q.partition FROM partitions q JOIN topics x USING (topic_id) WHERE x.deleted_at IS NULL ORDER BY 1, 3;
		RETURN;
	END IF;
	t := find_topic(name);
	FOREACH p IN ARRAY coalesce(parts, '{}') LOOP
		IF NOT EXISTS (SELECT FROM partitions q WHERE q.topic_id = t.topic_id AND q.partition = p) THEN
			RAISE EXCEPTION 'topic "%" has no partition %', name, p USING ERRCODE = 'PB003', DETAIL = format('It has %s.', t.partitions);
		END IF;
	END LOOP;
	RETURN QUERY SELECT t.topic, q.topic_id, q.partition FROM partitions q WHERE q.topic_id = t.topic_id AND (parts IS NULL OR q.partition = ANY (parts)) ORDER BY 3;
END
$$;

-- PB060 when one of them moves already.
CREATE FUNCTION broker_internal.check_no_move(ids uuid[], parts int[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	names text[];
	one   text;
BEGIN
	SELECT array_agg(format('%s-%s', t.topic, q.partition) ORDER BY t.topic, q.partition), min(t.topic) INTO names, one
		FROM unnest(ids, parts) x(t, p) JOIN partitions q ON q.topic_id = x.t AND q.partition = x.p JOIN topics t USING (topic_id) WHERE q.origin IS NOT NULL;
	IF names IS NOT NULL THEN
		RAISE EXCEPTION '% % being reassigned already', name_some(names), CASE WHEN cardinality(names) > 1 THEN 'are' ELSE 'is' END USING ERRCODE = 'PB060',
			HINT = format('Wait for it (broker.reassignments), or SELECT * FROM broker.cancel_reassignment(%L).', one);
	END IF;
END
$$;

-- A broker that is asked for something; PB102.
CREATE FUNCTION broker_internal.find_broker(id int) RETURNS broker_internal.brokers STABLE LANGUAGE plpgsql AS $$
DECLARE
	b brokers;
BEGIN
	SELECT * INTO b FROM brokers x WHERE x.broker_id = id;
	IF NOT FOUND THEN
		PERFORM no_broker(id);
	END IF;
	RETURN b;
END
$$;

-- Brokers that get replicas must be there and must not be leaving; PB039.
CREATE FUNCTION broker_internal.check_targets(ids int[]) RETURNS void STABLE LANGUAGE plpgsql AS $$
DECLARE
	id int;
BEGIN
	FOREACH id IN ARRAY ids LOOP
		IF id IS NULL OR NOT EXISTS (SELECT FROM brokers b WHERE b.broker_id = id) THEN
			RAISE EXCEPTION 'broker % is not registered', coalesce(id::text, 'NULL') USING ERRCODE = 'PB039', HINT = 'The brokers are in broker.brokers.';
		ELSIF EXISTS (SELECT FROM brokers b WHERE b.broker_id = id AND b.decommissioning) THEN
			RAISE EXCEPTION 'broker % is being decommissioned', id USING ERRCODE = 'PB039', HINT = format('SELECT broker.undrain_broker(%s) takes that back.', id);
		END IF;
	END LOOP;
	IF cardinality(ids) <> (SELECT count(DISTINCT i) FROM unnest(ids) i) THEN
		RAISE EXCEPTION 'a broker is named twice: %', ids USING ERRCODE = 'PB039';
	END IF;
END
$$;

-- What the copying costs, as the leader reported its log.
CREATE FUNCTION broker_internal.bytes_to_copy(id uuid, part int, target int[]) RETURNS bigint STABLE LANGUAGE sql AS $$
	SELECT cardinality(without(target, p.replicas)) * coalesce(r.size_bytes, 0)
	FROM partitions p LEFT JOIN partition_reports r ON r.topic_id = p.topic_id AND r.partition = p.partition AND r.broker_id = p.leader
	WHERE p.topic_id = id AND p.partition = part
$$;

-- A plan becomes a request, unless it is only shown: one row a partition that changes.
CREATE FUNCTION broker_internal.ask_moves(caller text, kind text, object text, id uuid, args jsonb, plan jsonb, dry_run bool)
RETURNS TABLE (topic text, partition int, replicas int[], target_replicas int[], bytes_to_copy bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	op bigint;
	n  bigint := 0;
	b  numeric := 0;
BEGIN
	RETURN QUERY SELECT t.topic, x.p, x.r, x.g, bytes_to_copy(x.t, x.p, x.g) FROM jsonb_to_recordset(plan) x(t uuid, p int, r int[], g int[]) JOIN topics t ON t.topic_id = x.t ORDER BY 1, 2;
	IF coalesce(dry_run, false) THEN
		RETURN;
	END IF;
	SELECT count(*), coalesce(sum(bytes_to_copy(x.t, x.p, x.g)), 0) INTO n, b FROM jsonb_to_recordset(plan) x(t uuid, p int, g int[]);
	IF n = 0 AND kind <> 'broker.decommission' THEN
		RAISE NOTICE 'nothing to move';
		RETURN;
	END IF;
	op := add_operation(kind, object, id, args, caller, 'waiting');
	INSERT INTO moves (operation_id, topic_id, partition, target) SELECT op, x.t, x.p, x.g FROM jsonb_to_recordset(plan) x(t uuid, p int, g int[]);
	PERFORM add_event(kind, object, CASE WHEN id IS NOT NULL THEN (SELECT t.topic FROM topics t WHERE t.topic_id = id) END, NULL, (args ->> 'broker_id')::int, NULL, NULL, NULL,
		jsonb_build_object('operation_id', op, 'partitions', n, 'bytes_to_copy', b), caller, 'sql', inet_client_addr(), NULL);
	RAISE NOTICE '% partitions move after the commit, about % to copy', n, pg_size_pretty(b) USING HINT = 'See broker.reassignments and broker.operations.';
END
$$;

CREATE FUNCTION broker_internal.do_set_replication_factor(caller text, name text, factor int, dry_run bool, throttle bigint)
RETURNS TABLE (topic text, partition int, replicas int[], target_replicas int[], bytes_to_copy bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	t     topics;
	ids   uuid[];
	parts int[];
	n     int;
	plan  jsonb;
	more  jsonb := throttle_args(throttle);
BEGIN
	t := CASE WHEN coalesce(dry_run, false) THEN find_topic(name) ELSE lock_topic(name, true) END;
	SELECT count(*) INTO n FROM brokers b WHERE NOT b.decommissioning AND NOT b.barred;
	IF factor IS NULL OR factor < 1 OR factor > 1000 THEN
		RAISE EXCEPTION 'the replication factor must be at least 1, not %', factor USING ERRCODE = 'PB038';
	ELSIF factor > n THEN
		RAISE EXCEPTION 'replication factor % is larger than the number of brokers: %', factor, n USING ERRCODE = 'PB038', HINT = 'The brokers are in broker.brokers.';
	END IF;
	SELECT array_agg(p.topic_id), array_agg(p.partition) INTO ids, parts FROM named_partitions(name, NULL) p;
	PERFORM check_no_move(ids, parts);
	IF NOT coalesce(dry_run, false) THEN
		UPDATE topics x SET replication_factor = factor, assignment = NULL WHERE x.topic_id = t.topic_id AND (ids IS NULL OR x.assignment IS NULL); -- what is not placed yet
	END IF;
	SELECT coalesce(jsonb_agg(jsonb_build_object('t', p.topic_id, 'p', p.partition, 'r', p.replicas, 'g', p.target)), '[]') INTO plan
		FROM plan_moves(ids, parts, array_fill(factor, ARRAY[coalesce(cardinality(ids), 0)]), NULL, false) p;
	RETURN QUERY SELECT * FROM ask_moves(caller, 'topic.replication', 'topic ' || name, t.topic_id, jsonb_build_object('replication_factor', factor) || more, plan, dry_run);
END
$$;

CREATE FUNCTION broker_internal.do_reassign_partitions(caller text, name text, parts int[], exact int[], over int[], dry_run bool, throttle bigint)
RETURNS TABLE (topic text, partition int, replicas int[], target_replicas int[], bytes_to_copy bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	ids  uuid[];
	nums int[];
	plan jsonb;
	able int[] := over;
	more jsonb := throttle_args(throttle);
BEGIN
	IF exact IS NOT NULL AND (parts IS NULL OR over IS NOT NULL) THEN
		RAISE EXCEPTION 'replicas places the partitions that are named, exactly' USING ERRCODE = '22023', HINT = 'Such as partitions => ''{0}'', replicas => ''{1,2}''; without replicas, brokers says which ones a plan may use.';
	END IF;
	SELECT array_agg(p.topic_id), array_agg(p.partition) INTO ids, nums FROM named_partitions(name, parts) p;
	PERFORM check_no_move(ids, nums);
	IF exact IS NOT NULL THEN
		IF exact = '{}' THEN
			RAISE EXCEPTION 'a partition needs a replica' USING ERRCODE = 'PB039';
		END IF;
		PERFORM check_targets(exact);
		SELECT coalesce(jsonb_agg(jsonb_build_object('t', q.topic_id, 'p', q.partition, 'r', q.replicas, 'g', exact)), '[]') INTO plan
			FROM unnest(ids, nums) x(t, p) JOIN partitions q ON q.topic_id = x.t AND q.partition = x.p WHERE q.replicas <> exact;
	ELSE
		IF over IS NOT NULL THEN
			PERFORM check_targets(over);
		ELSE
			able := ARRAY (SELECT b.broker_id FROM brokers b WHERE NOT b.fenced AND NOT b.stopping AND NOT b.decommissioning);
		END IF;
		SELECT coalesce(jsonb_agg(jsonb_build_object('t', p.topic_id, 'p', p.partition, 'r', p.replicas, 'g', p.target)), '[]') INTO plan FROM plan_moves(ids, nums, NULL, able, true) p;
	END IF;
	RETURN QUERY SELECT * FROM ask_moves(caller, 'partitions.reassign', CASE WHEN name IS NULL THEN 'cluster' ELSE 'topic ' || name END,
		(SELECT t.topic_id FROM topics t WHERE t.topic = name AND t.deleted_at IS NULL), more, plan, dry_run);
END
$$;

CREATE FUNCTION broker_internal.do_cancel_reassignment(caller text, name text, parts int[]) RETURNS TABLE (topic text, partition int, replicas int[]) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	asked jsonb;
	stuck text[];
	held  text[];
BEGIN
	SELECT jsonb_agg(jsonb_build_object('t', p.topic_id, 'p', p.partition)) FILTER (WHERE q.origin IS NOT NULL),
			array_agg(format('%s-%s', p.topic, p.partition) ORDER BY p.topic, p.partition) FILTER (WHERE q.origin IS NOT NULL AND NOT q.isr && q.origin),
			array_agg(format('%s-%s', p.topic, p.partition) ORDER BY p.topic, p.partition) FILTER (WHERE q.origin IS NULL)
		INTO asked, stuck, held FROM named_partitions(name, parts) p JOIN partitions q ON q.topic_id = p.topic_id AND q.partition = p.partition;
	IF asked IS NULL OR (parts IS NOT NULL AND held IS NOT NULL) THEN
		RAISE EXCEPTION '%', CASE WHEN name IS NULL THEN 'no partition is being reassigned' ELSE format('%s is not being reassigned', coalesce(name_some(held), name)) END
			USING ERRCODE = 'PB085', HINT = 'What is under way is in broker.reassignments.';
	ELSIF stuck IS NOT NULL THEN
		RAISE EXCEPTION 'none of the old replicas of % is in sync', name_some(stuck) USING ERRCODE = 'PB039';
	END IF;
	PERFORM add_operation('partitions.cancel', CASE WHEN name IS NULL THEN 'cluster' ELSE 'topic ' || name END, NULL, jsonb_build_object('partitions', asked), caller, 'waiting');
	RETURN QUERY SELECT t.topic, q.partition, q.origin FROM jsonb_to_recordset(asked) x(t uuid, p int) JOIN partitions q ON q.topic_id = x.t AND q.partition = x.p JOIN topics t ON t.topic_id = x.t ORDER BY 1, 2;
END
$$;

CREATE FUNCTION broker_internal.do_elect_leaders(caller text, name text, parts int[], unclean bool) RETURNS TABLE (topic text, partition int, old_leader int, new_leader int) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	live  int[] := live_brokers();
	able  int[] := able_brokers();
	asked jsonb;
	none  text[];
BEGIN
	IF unclean AND (name IS NULL OR parts IS NULL) THEN
		RAISE EXCEPTION 'an unclean election may lose acknowledged records: it is for partitions that are named' USING ERRCODE = '22023',
			HINT = 'Such as broker.elect_leaders(''orders'', ''{0}'', unclean => true).';
	END IF;
	SELECT coalesce(jsonb_agg(jsonb_build_object('t', p.topic_id, 'p', p.partition, 'l', l.new)) FILTER (WHERE l.new IS NOT NULL), '[]'),
			array_agg(format('%s-%s', p.topic, p.partition) ORDER BY p.topic, p.partition) FILTER (WHERE l.new IS NULL)
		INTO asked, none
		FROM named_partitions(name, parts) p JOIN partitions q ON q.topic_id = p.topic_id AND q.partition = p.partition
			CROSS JOIN LATERAL (SELECT CASE WHEN unclean THEN pick_leader(q.replicas, q.isr, q.elr, NULL, able, true)
				WHEN q.leader IS NOT NULL AND q.replicas[1] = ANY (q.isr) AND q.replicas[1] = ANY (live) THEN q.replicas[1] END AS new) l
		WHERE CASE WHEN unclean THEN q.leader IS NULL ELSE q.leader IS DISTINCT FROM q.replicas[1] END;
	IF none IS NOT NULL AND parts IS NOT NULL THEN
		IF unclean THEN
			RAISE EXCEPTION 'no replica of % is on a broker that is alive', name_some(none) USING ERRCODE = 'PB083', HINT = 'See offline_replicas in broker.partitions.';
		END IF;
		RAISE EXCEPTION 'the preferred leader of % cannot lead now', name_some(none) USING ERRCODE = 'PB080', HINT = 'It has to be alive, in the ISR and not drained: see broker.partitions.';
	ELSIF none IS NOT NULL THEN
		RAISE NOTICE 'the preferred leader of % cannot lead now', name_some(none);
	END IF;
	IF asked <> '[]' THEN
		PERFORM add_operation('partitions.elect', CASE WHEN name IS NULL THEN 'cluster' ELSE 'topic ' || name END, NULL, jsonb_build_object('partitions', asked, 'unclean', coalesce(unclean, false)), caller, 'waiting');
	END IF;
	RETURN QUERY SELECT t.topic, q.partition, q.leader, x.l FROM jsonb_to_recordset(asked) x(t uuid, p int, l int) JOIN partitions q ON q.topic_id = x.t AND q.partition = x.p JOIN topics t ON t.topic_id = x.t ORDER BY 1, 2;
END
$$;

-- A request about a broker.
CREATE FUNCTION broker_internal.ask_broker(caller text, kind text, id int, more jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	PERFORM add_event(kind, 'broker ' || id, NULL, NULL, id, NULL, NULL, NULL, nullif(more, '{}'), caller, 'sql', inet_client_addr(), NULL);
	RETURN add_operation(kind, 'broker ' || id, NULL, jsonb_build_object('broker_id', id) || more, caller, 'waiting');
END
$$;

CREATE FUNCTION broker_internal.do_drain_broker(caller text, id int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	b    brokers := find_broker(id);
	n    int;
	solo int;
BEGIN
	SELECT count(*), count(*) FILTER (WHERE cardinality(p.replicas) = 1) INTO n, solo FROM partitions p WHERE p.leader = id;
	IF solo > 0 THEN
		RAISE NOTICE 'broker % has the only replica of % partitions: they stop when it does', id, solo USING HINT = 'broker.set_replication_factor gives a topic more.';
	END IF;
	IF NOT EXISTS (SELECT FROM brokers x WHERE x.broker_id <> id AND NOT x.fenced AND NOT x.drained AND NOT x.decommissioning) THEN
		RAISE NOTICE 'no other broker is there to lead';
	END IF;
	PERFORM ask_broker(caller, 'broker.drain', id, '{}');
	RETURN n - solo;
END
$$;

CREATE FUNCTION broker_internal.do_undrain_broker(caller text, id int) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	b brokers := find_broker(id);
BEGIN
	-- what was asked for and is not taken up yet is taken back too
	IF NOT b.drained AND NOT b.decommissioning AND NOT EXISTS (SELECT FROM operations o WHERE o.state = 'waiting' AND o.kind IN ('broker.drain', 'broker.decommission') AND (o.args ->> 'broker_id')::int = id) THEN
		RETURN false;
	END IF;
	PERFORM ask_broker(caller, 'broker.undrain', id, '{}');
	RETURN true;
END
$$;

CREATE FUNCTION broker_internal.do_decommission_broker(caller text, id int, dry_run bool, throttle bigint)
RETURNS TABLE (topic text, partition int, replicas int[], target_replicas int[], bytes_to_copy bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	b     brokers := find_broker(id);
	ids   uuid[];
	parts int[];
	plan  jsonb;
	most  int;
	more  jsonb := throttle_args(throttle);
	rest  int[] := ARRAY (SELECT x.broker_id FROM brokers x WHERE x.broker_id <> id AND NOT x.decommissioning AND NOT x.barred);
BEGIN
	IF b.decommissioning THEN
		RAISE NOTICE 'broker % is being decommissioned already', id USING HINT = 'See broker.operations.';
		RETURN;
	END IF;
	SELECT array_agg(q.topic_id ORDER BY q.topic_id, q.partition), array_agg(q.partition ORDER BY q.topic_id, q.partition), max(cardinality(q.replicas) - cardinality(q.removing))
		INTO ids, parts, most FROM partitions q WHERE id = ANY (q.replicas) AND NOT id = ANY (q.removing);
	IF most > cardinality(rest) THEN
		RAISE EXCEPTION 'partitions of broker % have % replicas, and only % other brokers are there', id, most, cardinality(rest) USING ERRCODE = 'PB038',
			HINT = 'Add a broker first, or lower the replication factor with broker.set_replication_factor.';
	END IF;
	PERFORM check_no_move(ids, parts);
	SELECT coalesce(jsonb_agg(jsonb_build_object('t', p.topic_id, 'p', p.partition, 'r', p.replicas, 'g', p.target)), '[]') INTO plan FROM plan_moves(ids, parts, NULL, rest, false) p;
	RETURN QUERY SELECT * FROM ask_moves(caller, 'broker.decommission', 'broker ' || id, NULL, jsonb_build_object('broker_id', id) || more, plan, dry_run);
END
$$;

CREATE FUNCTION broker_internal.do_fence_broker(caller text, id int) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	b     brokers := find_broker(id);
	names text[];
BEGIN
	IF b.barred THEN
		RETURN false;
	END IF;
	SELECT array_agg(format('%s-%s', t.topic, p.partition) ORDER BY t.topic, p.partition) INTO names FROM partitions p JOIN topics t USING (topic_id)
		WHERE p.leader = id AND NOT without(p.isr, ARRAY[id]) && without(able_brokers(), ARRAY[id]);
	IF names IS NOT NULL THEN
		RAISE NOTICE 'nobody else can lead %: offline until broker % is back', name_some(names), id USING HINT = format('SELECT broker.unfence_broker(%s) lets it in again.', id);
	END IF;
	PERFORM ask_broker(caller, 'broker.fence', id, '{}');
	RETURN true;
END
$$;

CREATE FUNCTION broker_internal.do_unfence_broker(caller text, id int) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	b brokers := find_broker(id);
BEGIN
	IF NOT b.barred AND NOT EXISTS (SELECT FROM operations o WHERE o.state = 'waiting' AND o.kind = 'broker.fence' AND (o.args ->> 'broker_id')::int = id) THEN
		RETURN false;
	END IF;
	PERFORM ask_broker(caller, 'broker.unfence', id, '{}');
	RETURN true;
END
$$;

CREATE FUNCTION broker_internal.do_unregister_broker(caller text, id int, force bool) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	b   brokers := find_broker(id);
	why text := cannot_forget(id);
	n   int;
BEGIN
	IF why IS NOT NULL AND NOT coalesce(force, false) THEN
		RAISE EXCEPTION '%', why USING ERRCODE = 'PB904', HINT = CASE WHEN why LIKE '% is alive' THEN format('Stop it first, or SELECT broker.decommission_broker(%s).', id)
			ELSE format('Those records are lost without it. Start it, or pass force => true.') END;
	END IF;
	SELECT count(*) INTO n FROM partitions p WHERE id = ANY (p.replicas);
	IF n > 0 THEN
		RAISE NOTICE '% partitions keep a replica on broker %, which nobody serves', n, id USING HINT = 'broker.reassign_partitions() places them anew.';
	END IF;
	PERFORM ask_broker(caller, 'broker.unregister', id, jsonb_build_object('force', coalesce(force, false)));
	RETURN true;
END
$$;
