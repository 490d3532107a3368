-- A broker that cannot use the log of a partition, or whose disk hangs, gives up its part in it.

-- For each of these partitions: where this broker leads, another member of the ISR or an eligible replica that can lead
-- does; then it leaves the ISR.  Where another leads it leaves the ISR only while min.insync.replicas of others stay.
-- `is_out`: what is on its disk counts for nothing any more.  It is neither in the ISR nor eligible, enough others are
-- in the ISR, and by the new leader epoch nobody can take it back for what it had fetched before: a change of the ISR
-- that is under way compares with the old epoch, and the leader forgets what it knew of its followers (hazards A2, A9).
-- A partition of which PostgreSQL may know less than the replicas (A1) is left as it is.
CREATE FUNCTION broker_internal.resign_partitions_1(broker_id int, broker_epoch bigint, topic_ids uuid[], partitions int[], why text)
RETURNS TABLE (topic_id uuid, partition int, is_out bool, leader int, leader_epoch int, partition_epoch int) LANGUAGE plpgsql
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	me          int   := resign_partitions_1.broker_id;
	gone        int[] := ARRAY[resign_partitions_1.broker_id];
	at          timestamptz := clock_timestamp();
	v           bigint;
	inc         bigint;
	floor       int;
	able        int[];
	live        int[];
	min_default int;
	min_is_new  bool;
BEGIN
	SELECT n.version, n.incarnation, n.epoch_floor INTO v, inc, floor FROM next_version() n;
	PERFORM check_broker(me, resign_partitions_1.broker_epoch);
	able := without(able_brokers(), gone);
	live := without(live_brokers(), gone);
	min_default := least_min_isr();
	min_is_new := min_isr_is_new();
	RETURN QUERY
	WITH w AS MATERIALIZED (
		SELECT DISTINCT x.t, x.p FROM unnest(topic_ids, resign_partitions_1.partitions) x(t, p)
	), c AS MATERIALIZED (
		SELECT q.ctid AS place, q.topic_id, q.partition, q.leader, q.leader_epoch, q.isr, q.elr, k.rest, k.next,
			min_isr(coalesce((SELECT f.value::int FROM configs f WHERE f.scope = 'topic' AND f.object = q.topic_id::text AND f.config_key = 'min.insync.replicas'), min_default),
				cardinality(q.replicas), cardinality(q.adding), cardinality(q.removing)) AS min_isr
		FROM w JOIN partitions q ON q.topic_id = w.t AND q.partition = w.p
			CROSS JOIN LATERAL (SELECT without(q.isr, gone) AS rest,
				CASE WHEN q.leader = me THEN coalesce(pick_leader(q.replicas, without(q.isr, gone), without(q.elr, gone), NULL, live, false),
						pick_leader(q.replicas, without(q.isr, gone), without(q.elr, gone), NULL, able, false))
					WHEN q.leader = ANY (able) THEN q.leader END AS next) k
		WHERE q.incarnation = inc AND me = ANY (q.replicas)
	), d AS MATERIALIZED (
		SELECT c.*, CASE WHEN next = ANY (rest) THEN rest ELSE ARRAY[next] END AS new_isr
		FROM c WHERE next IS NOT NULL AND (c.leader = me OR cardinality(rest) >= min_isr AND NOT me = ANY (c.elr))
	), u AS (
		UPDATE partitions q SET leader = d.next, leader_epoch = greatest(d.leader_epoch + 1, floor), partition_epoch = q.partition_epoch + 1,
			isr = d.new_isr, version = v, leader_since = CASE WHEN d.leader = d.next THEN q.leader_since ELSE at END,
			elr = CASE WHEN cardinality(d.new_isr) >= d.min_isr THEN '{}'
				ELSE without(d.elr || CASE WHEN min_is_new THEN '{}' ELSE without(without(d.isr, d.elr), d.new_isr) END, d.new_isr) END
		FROM d WHERE q.ctid = d.place
		RETURNING q.topic_id, q.partition, d.leader AS old, d.leader_epoch AS old_epoch, d.isr AS old_isr, q.leader, q.leader_epoch, q.partition_epoch, q.isr, q.elr, d.min_isr
	), h AS (
		INSERT INTO changes SELECT DISTINCT v, u.topic_id FROM u ON CONFLICT DO NOTHING
	), log AS (
		INSERT INTO events (event_time, kind, object, topic, partition, broker_id, old, new, via, reason)
		SELECT at, x.kind, format('%s-%s', t.topic, u.partition), t.topic, u.partition, me, x.old, x.new, 'controller', why
		FROM u JOIN topics t USING (topic_id)
			CROSS JOIN LATERAL (VALUES
				(1, 'partition.leader', format('%s, epoch %s', u.old, u.old_epoch), format('%s, epoch %s', u.leader, u.leader_epoch), true),
				(2, 'partition.isr', u.old_isr::text, u.isr::text, u.isr <> u.old_isr)) x (n, kind, old, new, happened)
		WHERE x.happened ORDER BY u.topic_id, u.partition, x.n
	)
	SELECT w.t, w.p, u.topic_id IS NOT NULL AND NOT me = ANY (u.isr) AND NOT me = ANY (u.elr) AND cardinality(u.isr) >= u.min_isr,
		coalesce(u.leader, q.leader), coalesce(u.leader_epoch, q.leader_epoch), coalesce(u.partition_epoch, q.partition_epoch)
	FROM w LEFT JOIN u ON u.topic_id = w.t AND u.partition = w.p LEFT JOIN partitions q ON q.topic_id = w.t AND q.partition = w.p
	ORDER BY w.t, w.p;
END
$$;
