-- Reassignment (KIP-455): a partition that moves has adding and removing replicas among its replicas, and in `origin`
-- what it had before.  It is done when the adding ones are in the ISR, to which the leader adds them (alter_isr_1).

-- Partitions begin to move: [{"t":topic id,"p":0,"r":[1,4]}].  A wish for one that moves already replaces the older
-- one.  The caller holds lock 1.  Returns how many.
CREATE FUNCTION broker_internal.start_moves(wishes jsonb, v bigint, actor text, via text, client_addr inet, why text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	started int;
	inc     bigint := (SELECT c.pg_incarnation FROM cluster c);
BEGIN
	WITH w AS MATERIALIZED (
		SELECT DISTINCT ON (x.t, x.p) x.t, x.p, x.r FROM jsonb_to_recordset(wishes) x(t uuid, p int, r int[]) ORDER BY x.t, x.p
	), u AS (
		UPDATE partitions q SET origin = coalesce(q.origin, q.replicas), replicas = w.r || without(q.replicas, w.r),
			adding = without(w.r, coalesce(q.origin, q.replicas)), removing = without(q.replicas, w.r),
			move_since = clock_timestamp(), move_by = start_moves.actor, partition_epoch = q.partition_epoch + 1, version = v,
			incarnation = inc -- of one replica it is settled as it is
		FROM w WHERE q.topic_id = w.t AND q.partition = w.p AND (q.origin IS NOT NULL OR q.replicas <> w.r)
			AND (q.incarnation = inc OR cardinality(q.replicas) = 1)
		RETURNING q.topic_id, q.partition, q.origin, q.adding, w.r AS target
	), h AS (
		INSERT INTO changes SELECT DISTINCT v, topic_id FROM u ON CONFLICT DO NOTHING
	), again AS (
		-- a broker that gets it back keeps the log that it was to delete
		DELETE FROM dropped_replicas d USING u WHERE d.topic_id = u.topic_id AND d.partition = u.partition AND d.broker_id = ANY (u.adding)
	), log AS (
		INSERT INTO events (kind, object, topic, partition, old, new, actor, via, client_addr, reason)
		SELECT 'partition.reassign', format('%s-%s', t.topic, u.partition), t.topic, u.partition, u.origin::text, u.target::text, start_moves.actor, start_moves.via, start_moves.client_addr, why
		FROM u JOIN topics t USING (topic_id)
	)
	SELECT count(*) INTO started FROM u;
	RETURN started;
END
$$;

-- Ends every move that can be ended.  Takes lock 1 when it is given no version and there is something to do; returns
-- the version.  A partition whose row may be older than what its replicas know (hazards A1) is left alone.
CREATE FUNCTION broker_internal.finish_moves(v_in bigint, INOUT epoch_floor int DEFAULT NULL, INOUT incarnation bigint DEFAULT NULL, OUT v bigint) LANGUAGE plpgsql AS $$
DECLARE
	set_min int    := set_min_isr();
	live    int[];
	able    int[];
	ready   uuid[];
	finished int;
	at      timestamptz := clock_timestamp();
BEGIN
	v := v_in;
	IF NOT EXISTS (SELECT FROM partitions q WHERE q.origin IS NOT NULL) THEN
		RETURN;
	END IF;
	FOR i IN 1..2 LOOP -- without lock 1 first: mostly there is nothing to do
		live := live_brokers();
		able := able_brokers();
		ready := ARRAY (SELECT q.topic_id FROM partitions q CROSS JOIN LATERAL (SELECT cardinality(q.replicas) - cardinality(q.removing) AS size) s
				LEFT JOIN configs m ON m.scope = 'topic' AND m.object = q.topic_id::text AND m.config_key = 'min.insync.replicas'
			WHERE q.origin IS NOT NULL AND q.incarnation = (SELECT c.pg_incarnation FROM cluster c) AND reassign_done(q.replicas, q.adding, q.removing, q.isr, able, min_isr(coalesce(m.value::int, set_min), s.size, 0, 0)));
		IF ready = '{}' THEN
			RETURN;
		END IF;
		EXIT WHEN v IS NOT NULL;
		SELECT n.version, n.epoch_floor, n.incarnation INTO v, finish_moves.epoch_floor, finish_moves.incarnation FROM next_version() n;
	END LOOP;
	WITH c AS MATERIALIZED (
		SELECT q.topic_id, q.partition, q.leader, q.leader_epoch, q.isr, q.origin, q.removing, without(q.replicas, q.removing) AS target, without(q.isr, q.removing) AS rest
		FROM partitions q CROSS JOIN LATERAL (SELECT cardinality(q.replicas) - cardinality(q.removing) AS size) s
			LEFT JOIN configs m ON m.scope = 'topic' AND m.object = q.topic_id::text AND m.config_key = 'min.insync.replicas'
		WHERE q.origin IS NOT NULL AND q.topic_id = ANY (ready) AND q.incarnation = finish_moves.incarnation
			AND reassign_done(q.replicas, q.adding, q.removing, q.isr, able, min_isr(coalesce(m.value::int, set_min), s.size, 0, 0))
	), d AS MATERIALIZED (
		SELECT c.*, CASE WHEN leader = ANY (target) THEN leader
			ELSE coalesce(pick_leader(target, rest, '{}', NULL, live, false), pick_leader(target, rest, '{}', NULL, able, false)) END AS new_leader FROM c
	), u AS (
		UPDATE partitions q SET replicas = d.target, isr = d.rest, elr = without(q.elr, d.removing), adding = '{}', removing = '{}', origin = NULL,
			leader = d.new_leader, leader_epoch = CASE WHEN d.new_leader IS DISTINCT FROM d.leader THEN greatest(d.leader_epoch + 1, finish_moves.epoch_floor) ELSE d.leader_epoch END,
			leader_since = CASE WHEN d.new_leader IS DISTINCT FROM d.leader THEN at ELSE q.leader_since END,
			partition_epoch = q.partition_epoch + 1, version = finish_moves.v
		FROM d WHERE q.topic_id = d.topic_id AND q.partition = d.partition
		RETURNING q.topic_id, q.partition, q.partition_epoch, q.replicas, q.isr, q.leader, q.leader_epoch, d.origin, d.removing, d.isr AS old_isr, d.leader AS old_leader, d.leader_epoch AS old_epoch
	), h AS (
		INSERT INTO changes SELECT DISTINCT finish_moves.v, topic_id FROM u ON CONFLICT DO NOTHING
	), gone AS (
		INSERT INTO dropped_replicas AS x (broker_id, topic_id, partition, partition_epoch)
			SELECT r.id, u.topic_id, u.partition, u.partition_epoch FROM u, unnest(u.removing) r(id)
			ON CONFLICT (broker_id, topic_id, partition) DO UPDATE SET partition_epoch = excluded.partition_epoch
	), m AS (
		UPDATE moves m SET state = 'done' FROM u WHERE m.topic_id = u.topic_id AND m.partition = u.partition AND m.state = 'started'
	), log AS (
		INSERT INTO events (event_time, kind, object, topic, partition, old, new, via, reason)
		SELECT at, x.kind, format('%s-%s', t.topic, u.partition), t.topic, u.partition, x.old, x.new, 'controller', 'reassignment done'
		FROM u JOIN topics t USING (topic_id)
			CROSS JOIN LATERAL (VALUES
				(1, 'partition.leader', format('%s, epoch %s', coalesce(u.old_leader::text, 'none'), u.old_epoch), format('%s, epoch %s', u.leader, u.leader_epoch), u.leader IS DISTINCT FROM u.old_leader),
				(2, 'partition.isr', u.old_isr::text, u.isr::text, u.isr <> u.old_isr),
				(3, 'partition.reassigned', u.origin::text, u.replicas::text, true)) x (n, kind, old, new, happened)
		WHERE x.happened ORDER BY u.topic_id, u.partition, x.n
	)
	SELECT count(*) INTO finished FROM u;
END
$$;

-- Back to the replicas before.  Refused where none of them is in sync.  The caller holds lock 1.
CREATE FUNCTION broker_internal.cancel_moves(topic_ids uuid[], partitions int[], v bigint, epoch_floor int, incarnation bigint, actor text, via text, client_addr inet)
RETURNS TABLE (topic_id uuid, partition int) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	live int[] := live_brokers();
	able int[] := able_brokers();
	at   timestamptz := clock_timestamp();
BEGIN
	RETURN QUERY
	WITH c AS MATERIALIZED (
		SELECT q.topic_id, q.partition, q.leader, q.leader_epoch, q.origin, q.replicas, without(q.isr, without(q.isr, q.origin)) AS rest
		FROM unnest(topic_ids, cancel_moves.partitions) x(t, p) JOIN partitions q ON q.topic_id = x.t AND q.partition = x.p
		WHERE q.origin IS NOT NULL AND q.incarnation = cancel_moves.incarnation
	), d AS MATERIALIZED (
		SELECT c.*, CASE WHEN leader = ANY (origin) THEN leader
			ELSE coalesce(pick_leader(origin, rest, '{}', NULL, live, false), pick_leader(origin, rest, '{}', NULL, able, false)) END AS new_leader
		FROM c WHERE rest <> '{}'
	), u AS (
		UPDATE partitions q SET replicas = d.origin, isr = d.rest, elr = without(q.elr, without(q.elr, d.origin)), adding = '{}', removing = '{}', origin = NULL,
			leader = d.new_leader, leader_epoch = CASE WHEN d.new_leader IS DISTINCT FROM d.leader THEN greatest(d.leader_epoch + 1, cancel_moves.epoch_floor) ELSE d.leader_epoch END,
			leader_since = CASE WHEN d.new_leader IS DISTINCT FROM d.leader THEN at ELSE q.leader_since END,
			partition_epoch = q.partition_epoch + 1, version = v
		FROM d WHERE q.topic_id = d.topic_id AND q.partition = d.partition
		RETURNING q.topic_id, q.partition, q.partition_epoch, d.replicas AS were, d.origin
	), h AS (
		INSERT INTO changes SELECT DISTINCT v, u.topic_id FROM u ON CONFLICT DO NOTHING
	), gone AS (
		INSERT INTO dropped_replicas AS x (broker_id, topic_id, partition, partition_epoch)
			SELECT r.id, u.topic_id, u.partition, u.partition_epoch FROM u, unnest(without(u.were, u.origin)) r(id)
			ON CONFLICT ON CONSTRAINT dropped_replicas_pkey DO UPDATE SET partition_epoch = excluded.partition_epoch
	), m AS (
		UPDATE moves m SET state = 'cancelled' FROM u WHERE m.topic_id = u.topic_id AND m.partition = u.partition AND m.state IN ('waiting', 'started')
	), log AS (
		INSERT INTO events (event_time, kind, object, topic, partition, old, new, actor, via, client_addr)
		SELECT at, 'partition.reassign.cancel', format('%s-%s', t.topic, u.partition), t.topic, u.partition, u.were::text, u.origin::text, cancel_moves.actor, cancel_moves.via, cancel_moves.client_addr
		FROM u JOIN topics t USING (topic_id)
	)
	SELECT u.topic_id, u.partition FROM u;
END
$$;

-- A plan for these partitions.  factors: how many replicas each shall have, NULL as many as now.  brokers: who may
-- have any (NULL: all that are not leaving); those of them that are dead keep what they have.  Only what changes.
CREATE FUNCTION broker_internal.plan_moves(topic_ids uuid[], partitions int[], factors int[], broker_ids int[], balance bool)
RETURNS TABLE (topic_id uuid, partition int, replicas int[], target int[]) STABLE LANGUAGE sql AS $$
	WITH p AS MATERIALIZED (
		SELECT x.n, q.topic_id, q.partition, q.replicas, coalesce(x.f, cardinality(q.replicas)) AS factor
		FROM unnest($1, $2, $3) WITH ORDINALITY x(t, p, f, n) JOIN partitions q ON q.topic_id = x.t AND q.partition = x.p
	), l AS (
		SELECT r.id, count(*)::int AS n FROM partitions q, unnest(q.replicas) r(id)
		WHERE NOT EXISTS (SELECT FROM p WHERE p.topic_id = q.topic_id AND p.partition = q.partition) GROUP BY 1
	), b AS MATERIALIZED (
		SELECT k.broker_id, k.rack, CASE WHEN k.fenced OR k.stopping THEN -1 ELSE coalesce(l.n, 0) END AS load
		FROM brokers k LEFT JOIN l ON l.id = k.broker_id
		WHERE CASE WHEN $4 IS NULL THEN NOT k.decommissioning AND NOT k.barred ELSE k.broker_id = ANY ($4) END
	), f AS MATERIALIZED (
		SELECT plan_reassignment(ARRAY (SELECT broker_id FROM b ORDER BY 1), ARRAY (SELECT rack FROM b ORDER BY broker_id), ARRAY (SELECT load FROM b ORDER BY broker_id),
			ARRAY (SELECT cardinality(p.replicas) FROM p ORDER BY n), ARRAY (SELECT r.id FROM p, unnest(p.replicas) WITH ORDINALITY r(id, o) ORDER BY p.n, r.o),
			ARRAY (SELECT p.factor FROM p ORDER BY n), $5) AS flat
		WHERE EXISTS (SELECT FROM p)
	), s AS (
		SELECT p.*, sum(p.factor) OVER (ORDER BY p.n) AS upto FROM p
	), cut AS (
		SELECT s.n, s.topic_id, s.partition, s.replicas, (SELECT f.flat FROM f)[(s.upto - s.factor)::int + 1 : s.upto::int] AS target FROM s
	)
	SELECT cut.topic_id, cut.partition, cut.replicas, cut.target FROM cut WHERE cut.replicas <> cut.target ORDER BY cut.n
$$;
