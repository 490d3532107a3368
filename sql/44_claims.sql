-- After PostgreSQL went backwards (hazards A1): each replica says what it knows, and the newest report wins.

CREATE TABLE broker_internal.partition_claims (
	topic_id        uuid   NOT NULL,
	partition       int    NOT NULL,
	broker_id       int    NOT NULL,
	incarnation     bigint NOT NULL,
	leader          int,                -- as this broker's metadata had it; NULL: none, or a process that knows nothing
	leader_epoch    int    NOT NULL,    -- -1: knows nothing
	partition_epoch int    NOT NULL,    -- -1: knows nothing
	isr             int[]  NOT NULL,
	last_epoch      int    NOT NULL,    -- of the last batch in its log; -1: empty
	log_end         bigint NOT NULL,
	PRIMARY KEY (topic_id, partition, broker_id)
);

-- What a partition becomes when all of its replicas have reported.
--   newer metadata was reported      that report's ISR; its leader if that one lives, else the member with the
--                                    greatest (last epoch, log end)
--   only a log is newer              the live replica with the greatest (last epoch, log end), alone in the ISR
--   nothing is newer                 the row as it is
-- The caller holds lock 1.  Returns how many partitions are settled.
CREATE FUNCTION broker_internal.settle(v bigint, epoch_floor int, inc bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	live    int[] := live_brokers();
	at      timestamptz := clock_timestamp();
	settled int;
BEGIN
	WITH p AS MATERIALIZED (
		SELECT q.* FROM partitions q WHERE q.incarnation <> inc
			AND NOT EXISTS (SELECT FROM unnest(q.replicas) r(id) WHERE NOT EXISTS (SELECT FROM partition_claims c
				WHERE c.topic_id = q.topic_id AND c.partition = q.partition AND c.broker_id = r.id AND c.incarnation = inc))
	), b AS MATERIALIZED (
		SELECT p.topic_id, p.partition, m.*, n.isr AS new_isr, n.leader AS their_leader,
			CASE WHEN m.top_pe > p.partition_epoch THEN 'metadata' WHEN m.top_log > p.leader_epoch THEN 'log' ELSE 'row' END AS newest
		FROM p
			CROSS JOIN LATERAL (SELECT max(c.partition_epoch) AS top_pe, max(c.leader_epoch) AS top_le, max(c.last_epoch) AS top_log
				FROM partition_claims c WHERE c.topic_id = p.topic_id AND c.partition = p.partition AND c.broker_id = ANY (p.replicas)) m
			CROSS JOIN LATERAL (SELECT c.isr, c.leader FROM partition_claims c WHERE c.topic_id = p.topic_id AND c.partition = p.partition AND c.broker_id = ANY (p.replicas)
				ORDER BY c.partition_epoch DESC, c.leader_epoch DESC, c.broker_id LIMIT 1) n
	), d AS MATERIALIZED (
		SELECT b.*, CASE b.newest WHEN 'row' THEN p.leader
			WHEN 'metadata' THEN coalesce(CASE WHEN b.their_leader = ANY (live) AND b.their_leader = ANY (p.replicas) AND b.their_leader = ANY (b.new_isr) THEN b.their_leader END,
				(SELECT c.broker_id FROM partition_claims c WHERE c.topic_id = p.topic_id AND c.partition = p.partition AND c.broker_id = ANY (b.new_isr) AND c.broker_id = ANY (p.replicas) AND c.broker_id = ANY (live)
					ORDER BY c.last_epoch DESC, c.log_end DESC, array_position(p.replicas, c.broker_id) LIMIT 1))
			ELSE (SELECT c.broker_id FROM partition_claims c WHERE c.topic_id = p.topic_id AND c.partition = p.partition AND c.broker_id = ANY (p.replicas) AND c.broker_id = ANY (live)
				ORDER BY c.last_epoch DESC, c.log_end DESC, array_position(p.replicas, c.broker_id) LIMIT 1) END AS leads
		FROM b JOIN p USING (topic_id, partition)
	), u AS (
		UPDATE partitions q SET incarnation = inc, version = v, leader = d.leads,
			isr = CASE d.newest WHEN 'row' THEN q.isr WHEN 'metadata' THEN without(q.replicas, without(q.replicas, d.new_isr)) ELSE CASE WHEN d.leads IS NULL THEN q.isr ELSE ARRAY[d.leads] END END,
			elr = CASE d.newest WHEN 'row' THEN q.elr ELSE '{}' END,
			-- the leader that they report goes on in its epoch, a new one gets a higher than anybody knows
			leader_epoch = CASE WHEN d.newest = 'row' THEN q.leader_epoch WHEN d.newest = 'metadata' AND d.leads = d.their_leader THEN greatest(q.leader_epoch, d.top_le)
				ELSE greatest(q.leader_epoch, d.top_le, d.top_log, settle.epoch_floor - 1) + 1 END,
			partition_epoch = greatest(q.partition_epoch, d.top_pe) + 1,
			leader_since = CASE WHEN q.leader IS DISTINCT FROM d.leads THEN at ELSE q.leader_since END
		FROM d WHERE q.topic_id = d.topic_id AND q.partition = d.partition
		RETURNING q.topic_id, q.partition, q.leader, q.leader_epoch, q.isr, d.newest
	), h AS (
		INSERT INTO changes SELECT DISTINCT v, topic_id FROM u ON CONFLICT DO NOTHING
	), log AS (
		INSERT INTO events (event_time, kind, object, topic, partition, new, via, reason, details)
		SELECT at, 'partition.settled', format('%s-%s', t.topic, u.partition), t.topic, u.partition, format('leader %s, ISR %s', coalesce(u.leader::text, 'none'), u.isr), 'controller', 'every replica has reported',
			jsonb_build_object('newest', u.newest)
		FROM u JOIN topics t USING (topic_id) WHERE u.newest <> 'row'
	)
	SELECT count(*) INTO settled FROM u;
	IF settled > 0 THEN
		PERFORM decide('leaderless', '{}', v, epoch_floor, inc, 'every replica has reported');
		DELETE FROM partition_claims c WHERE NOT EXISTS (SELECT FROM partitions q WHERE q.topic_id = c.topic_id AND q.partition = c.partition AND q.incarnation <> inc);
	END IF;
	RETURN settled;
END
$$;

-- One broker's report on partitions of which it has a replica; again at any time, the last one counts.
CREATE FUNCTION broker_internal.claim_partitions_1(broker_id int, broker_epoch bigint, topic_ids uuid[], partitions int[], leaders int[], leader_epochs int[], partition_epochs int[],
	isrs jsonb, last_epochs int[], log_ends bigint[], OUT settled int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	me    int := claim_partitions_1.broker_id;
	v     bigint;
	floor int;
	inc   bigint;
BEGIN
	SELECT n.version, n.epoch_floor, n.incarnation INTO v, floor, inc FROM next_version() n;
	PERFORM check_broker(me, claim_partitions_1.broker_epoch);
	INSERT INTO partition_claims
		SELECT DISTINCT ON (x.t, x.p) x.t, x.p, me, inc, nullif(x.l, -1), coalesce(x.le, -1), coalesce(x.pe, -1),
			coalesce((SELECT array_agg(i::int ORDER BY o) FROM jsonb_array_elements_text(isrs -> (x.n - 1)::int) WITH ORDINALITY j(i, o)), '{}'), coalesce(x.last, -1), coalesce(x.log_end, 0)
		FROM unnest(topic_ids, claim_partitions_1.partitions, leaders, leader_epochs, partition_epochs, last_epochs, log_ends) WITH ORDINALITY x(t, p, l, le, pe, last, log_end, n)
		WHERE EXISTS (SELECT FROM partitions q WHERE q.topic_id = x.t AND q.partition = x.p AND q.incarnation <> inc AND me = ANY (q.replicas)) ORDER BY x.t, x.p, x.n DESC
		ON CONFLICT ON CONSTRAINT partition_claims_pkey DO UPDATE SET incarnation = excluded.incarnation, leader = excluded.leader, leader_epoch = excluded.leader_epoch,
			partition_epoch = excluded.partition_epoch, isr = excluded.isr, last_epoch = excluded.last_epoch, log_end = excluded.log_end;
	settled := settle(v, floor, inc);
END
$$;
