-- Leaderships that move though nobody died: to the preferred replica, off a broker that is drained, to whoever is left.

-- The partitions of these lists (NULL: all) get, by mode
--   preferred   their first replica as leader, where it is in the ISR and shall lead
--   drain       somebody else of the ISR as leader, where one of `who` leads
-- `who`: of preferred only these brokers; NULL: all.
-- The caller holds lock 1.
CREATE FUNCTION broker_internal.move_leaders(mode text, who int[], topic_ids uuid[], partitions int[], v bigint, epoch_floor int, incarnation bigint, why text)
RETURNS TABLE (topic_id uuid, partition int, old_leader int, new_leader int) LANGUAGE plpgsql
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	live int[] := live_brokers();
	at   timestamptz := clock_timestamp();
BEGIN
	RETURN QUERY
	WITH w AS MATERIALIZED (
		SELECT DISTINCT x.t, x.p FROM unnest(topic_ids, move_leaders.partitions) x(t, p)
	), d AS MATERIALIZED (
		SELECT q.ctid AS place, q.leader, q.leader_epoch,
			CASE mode WHEN 'drain' THEN pick_leader(q.replicas, q.isr, '{}', NULL, without(live, who), false) ELSE q.replicas[1] END AS next
		FROM partitions q
		WHERE q.leader IS NOT NULL AND (q.incarnation = move_leaders.incarnation OR cardinality(q.replicas) = 1)
			AND CASE mode WHEN 'drain' THEN q.leader = ANY (who)
				ELSE q.leader <> q.replicas[1] AND q.replicas[1] = ANY (q.isr) AND q.replicas[1] = ANY (live) AND (who IS NULL OR q.replicas[1] = ANY (who)) END
			AND (topic_ids IS NULL OR EXISTS (SELECT FROM w WHERE w.t = q.topic_id AND w.p = q.partition))
	), u AS (
		UPDATE partitions q SET leader = d.next, leader_epoch = greatest(d.leader_epoch + 1, move_leaders.epoch_floor), partition_epoch = q.partition_epoch + 1,
			leader_since = at, version = v
		FROM d WHERE q.ctid = d.place AND d.next IS NOT NULL
		RETURNING q.topic_id, q.partition, d.leader AS old, d.leader_epoch AS old_epoch, q.leader AS new, q.leader_epoch AS new_epoch
	), h AS (
		INSERT INTO changes SELECT DISTINCT v, u.topic_id FROM u ON CONFLICT DO NOTHING
	), log AS (
		INSERT INTO events (event_time, kind, object, topic, partition, old, new, via, reason)
		SELECT at, 'partition.leader', format('%s-%s', t.topic, u.partition), t.topic, u.partition, format('%s, epoch %s', u.old, u.old_epoch), format('%s, epoch %s', u.new, u.new_epoch), 'controller', why
		FROM u JOIN topics t USING (topic_id) ORDER BY u.topic_id, u.partition
	)
	SELECT u.topic_id, u.partition, u.old, u.new FROM u;
END
$$;

-- Of partitions without a leader: any live replica leads, and is alone in the ISR.  Only for those that a person or
-- a client names.  What PostgreSQL may know less of than the replicas (hazards A1) is decided by this too.
CREATE FUNCTION broker_internal.elect_unclean(topic_ids uuid[], partitions int[], v bigint, epoch_floor int, incarnation bigint, actor text, via text, client_addr inet)
RETURNS TABLE (topic_id uuid, partition int, old_leader int, new_leader int) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	able int[] := able_brokers();
	at   timestamptz := clock_timestamp();
	n    int;
	one  text;
BEGIN
	RETURN QUERY
	WITH d AS MATERIALIZED (
		SELECT q.topic_id, q.partition, q.isr, q.elr, k.kind, k.next,
			greatest(q.leader_epoch, c.epoch) AS epoch, greatest(q.partition_epoch, c.partition_epoch) AS partition_epoch
		FROM (SELECT DISTINCT x.t, x.p FROM unnest(topic_ids, elect_unclean.partitions) x(t, p)) w JOIN partitions q ON q.topic_id = w.t AND q.partition = w.p
			CROSS JOIN LATERAL (SELECT coalesce(max(greatest(x.leader_epoch, x.last_epoch)), -1) AS epoch, coalesce(max(x.partition_epoch), -1) AS partition_epoch
				FROM partition_claims x WHERE x.topic_id = q.topic_id AND x.partition = q.partition) c
			CROSS JOIN LATERAL (SELECT pick_leader(q.replicas, q.isr, q.elr, NULL, able, false) AS clean) e
			CROSS JOIN LATERAL (SELECT CASE WHEN e.clean IS NULL OR q.incarnation <> elect_unclean.incarnation THEN 'unclean' ELSE 'clean' END AS kind,
				-- where the row may be older than what the replicas know, the one whose log is known to be the newest
				coalesce((SELECT x.broker_id FROM partition_claims x WHERE x.topic_id = q.topic_id AND x.partition = q.partition AND q.incarnation <> elect_unclean.incarnation
						AND x.incarnation = elect_unclean.incarnation AND x.broker_id = ANY (able) AND x.broker_id = ANY (q.replicas) ORDER BY x.last_epoch DESC, x.log_end DESC LIMIT 1),
					e.clean, pick_leader(q.replicas, q.isr, q.elr, NULL, able, true)) AS next) k
		WHERE q.leader IS NULL
	), u AS (
		UPDATE partitions q SET leader = d.next, isr = ARRAY[d.next], elr = CASE d.kind WHEN 'clean' THEN without(d.elr, ARRAY[d.next]) ELSE '{}' END,
			leader_epoch = greatest(d.epoch + 1, elect_unclean.epoch_floor), partition_epoch = d.partition_epoch + 1,
			leader_since = at, version = v, incarnation = elect_unclean.incarnation
		FROM d WHERE q.topic_id = d.topic_id AND q.partition = d.partition AND d.next IS NOT NULL
		RETURNING q.topic_id, q.partition, d.isr AS old_isr, q.leader, q.leader_epoch, d.kind
	), h AS (
		INSERT INTO changes SELECT DISTINCT v, u.topic_id FROM u ON CONFLICT DO NOTHING
	), log AS (
		INSERT INTO events (event_time, kind, object, topic, partition, old, new, details, actor, via, client_addr, reason)
		SELECT at, x.kind, format('%s-%s', t.topic, u.partition), t.topic, u.partition, x.old, x.new, x.details, elect_unclean.actor, elect_unclean.via, elect_unclean.client_addr, 'an unclean election was asked for'
		FROM u JOIN topics t USING (topic_id)
			-- what the last leader had and the new one has not, as far as both have reported
			LEFT JOIN LATERAL (SELECT max(r.log_end_offset) - max(r.log_end_offset) FILTER (WHERE r.broker_id = u.leader) AS records FROM partition_reports r
				WHERE r.topic_id = u.topic_id AND r.partition = u.partition) lost ON true
			CROSS JOIN LATERAL (VALUES
				(1, 'partition.leader', 'none', format('%s, epoch %s', u.leader, u.leader_epoch), NULL::jsonb, true),
				(2, 'partition.isr', u.old_isr::text, ARRAY[u.leader]::text, NULL, u.old_isr <> ARRAY[u.leader]),
				(3, 'partition.unclean', u.old_isr::text, u.leader::text, jsonb_build_object('records_lost_as_reported', lost.records), u.kind = 'unclean')) x (n, kind, old, new, details, happened)
		WHERE x.happened ORDER BY u.topic_id, u.partition, x.n
	)
	SELECT u.topic_id, u.partition, NULL::int, u.leader FROM u;
	SELECT count(*), min(e.object) INTO n, one FROM events e WHERE e.kind = 'partition.unclean' AND e.event_time = at;
	IF n > 0 THEN
		RAISE WARNING 'unclean leader election asked for by %: acknowledged records may be lost', actor USING DETAIL = format('%s partitions, first %s.', n, one);
	END IF;
END
$$;

-- auto.leader.rebalance.enable: every leader.imbalance.check.interval.seconds, brokers of whose preferred partitions
-- more than leader.imbalance.per.broker.percentage are led by others get them back.  One that came within the last
-- tenth of the interval waits for the next time: it may be going up and down.
CREATE FUNCTION broker_internal.balance_leaders(v_in bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	c      cluster;
	every  interval;
	share  int;
	lacking int[];
	v      bigint := v_in;
BEGIN
	SELECT * INTO c FROM cluster;
	IF c.balanced_at IS NULL THEN
		UPDATE cluster SET balanced_at = clock_timestamp();
		RETURN v;
	ELSIF c.balanced_at > clock_timestamp() - interval '1 s' THEN
		RETURN v;
	END IF;
	every := cluster_setting('leader.imbalance.check.interval.seconds')::bigint * interval '1 s';
	IF c.balanced_at > clock_timestamp() - every OR cluster_setting('auto.leader.rebalance.enable') <> 'true' THEN
		RETURN v;
	END IF;
	UPDATE cluster SET balanced_at = clock_timestamp();
	share := cluster_setting('leader.imbalance.per.broker.percentage')::int;
	lacking := ARRAY (
		SELECT b.broker_id FROM brokers b JOIN (
				SELECT q.replicas[1] AS id, count(*) AS n, count(*) FILTER (WHERE q.leader <> q.replicas[1] AND q.replicas[1] = ANY (q.isr)) AS missing
				FROM partitions q WHERE q.leader IS NOT NULL GROUP BY 1) p ON p.id = b.broker_id
		WHERE p.missing > 0 AND p.missing * 100 > p.n * share AND b.broker_id = ANY (live_brokers()) AND b.registered_at < clock_timestamp() - every / 10);
	IF lacking <> '{}' THEN
		IF v IS NULL THEN
			SELECT n.version INTO v FROM next_version() n;
		END IF;
		SELECT * INTO c FROM cluster;
		PERFORM move_leaders('preferred', lacking, NULL, NULL, v, c.epoch_floor, c.pg_incarnation, 'the preferred leader is in sync again');
	END IF;
	RETURN v;
END
$$;
