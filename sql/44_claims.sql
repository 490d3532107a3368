-- After PostgreSQL went backwards (hazards A1): each replica says what it knows, and the newest report wins.

CREATE TABLE broker_internal.partition_claims (
	topic_id        uuid   NOT NULL,
	partition       int    NOT NULL,
	broker_id       int    NOT NULL,
	incarnation     bigint NOT NULL,
	broker_epoch    bigint NOT NULL,    -- of the process that knew the next four
	leader          int,                -- as this broker's metadata had it; NULL: none, or a process that knows nothing
	leader_epoch    int    NOT NULL,    -- -1: knows nothing
	partition_epoch int    NOT NULL,    -- -1: knows nothing
	isr             int[]  NOT NULL,
	last_epoch      int    NOT NULL,    -- of the last batch in its log; -1: empty
	log_end         bigint NOT NULL,
	PRIMARY KEY (topic_id, partition, broker_id)
);

-- A process that knows less than an earlier one of its broker told takes nothing of that back, for it may be the only word of it; but
-- only the process that said so leads.

-- What a partition becomes when all of its replicas have reported, those of the newest report's ISR among them: the row may
-- be from before a reassignment, and name replicas that have deleted their logs.
--
-- The newest is the report with the highest partition epoch, if that is above the row's (which an unsettled row does
-- not move), else the row.  It gives the ISR; when a log has an epoch above all that is known, the elections in between are
-- lost, and every replica may have been in the ISR.  Disks that were lost since the partition was settled last do
-- not count.  Then:
--   in office        the newest names a leader that lives and says itself that it leads in that epoch: it goes on, with that
--                    ISR, in a new epoch if anybody knows a higher one
--   otherwise        the greatest (last epoch, log end) of the ISR has all that was acknowledged: those that are equal to it are
--                    the ISR now, the first of them that lives leads, in an epoch above all that is known; the others
--                    join by fetching.  (An ISR that shrank meanwhile is not known to be the true one, so nobody else of it stays.)
-- The caller holds lock 1.  Returns how many partitions are settled.
CREATE FUNCTION broker_internal.settle(v bigint, epoch_floor int, inc bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	live    int[] := live_brokers();
	at      timestamptz := clock_timestamp();
	settled int;
BEGIN
	WITH p AS MATERIALIZED (
		SELECT q.topic_id, q.partition, q.leader, q.leader_epoch, q.settled_epoch, q.isr, t.leader AS t_leader, t.leader_epoch AS t_epoch, t.isr AS t_isr,
			q.replicas || without(coalesce(t.isr, '{}'), q.replicas) AS replicas,
			ARRAY (SELECT k.broker_id FROM brokers k WHERE k.disk_lost_in > q.incarnation) AS lost
		FROM partitions q
			LEFT JOIN LATERAL (SELECT x.leader, x.leader_epoch, x.isr FROM partition_claims x
				WHERE x.topic_id = q.topic_id AND x.partition = q.partition AND x.incarnation = inc AND x.partition_epoch > q.partition_epoch
				ORDER BY x.partition_epoch DESC, x.leader_epoch DESC, x.broker_id LIMIT 1) t ON true
		WHERE q.incarnation <> inc
			AND NOT EXISTS (SELECT FROM unnest(q.replicas || coalesce(t.isr, '{}')) r(id) WHERE NOT EXISTS (SELECT FROM partition_claims x
				WHERE x.topic_id = q.topic_id AND x.partition = q.partition AND x.broker_id = r.id AND x.incarnation = inc))
	), c AS MATERIALIZED (
		SELECT x.* FROM partition_claims x JOIN p USING (topic_id, partition) WHERE x.incarnation = inc AND x.broker_id = ANY (p.replicas)
	), n AS MATERIALIZED (
		SELECT p.topic_id, p.partition, p.replicas, p.lost, m.top_pe, m.top_le, m.top_log,
			CASE WHEN p.t_epoch IS NULL THEN p.leader ELSE p.t_leader END AS their_leader, coalesce(p.t_epoch, p.settled_epoch) AS their_epoch,
			greatest(p.leader_epoch, m.top_le) AS known_epoch,
			CASE WHEN m.top_log > coalesce(p.t_epoch, p.settled_epoch) THEN 'log' WHEN p.t_epoch IS NOT NULL THEN 'metadata' ELSE 'row' END AS newest,
			without(CASE WHEN m.top_log > coalesce(p.t_epoch, p.settled_epoch) THEN p.replicas ELSE without(p.replicas, without(p.replicas, coalesce(p.t_isr, p.isr))) END, p.lost) AS isr
		FROM p
			CROSS JOIN LATERAL (SELECT max(c.partition_epoch) AS top_pe, max(c.leader_epoch) AS top_le, max(c.last_epoch) AS top_log
				FROM c WHERE c.topic_id = p.topic_id AND c.partition = p.partition) m
	), o AS MATERIALIZED (
		SELECT n.*, n.newest <> 'log' AND n.their_leader = ANY (n.isr) AND n.their_leader = ANY (live)
				AND EXISTS (SELECT FROM c WHERE c.topic_id = n.topic_id AND c.partition = n.partition AND c.broker_id = n.their_leader AND c.leader = n.their_leader AND c.leader_epoch = n.their_epoch
					AND c.broker_epoch = (SELECT k.broker_epoch FROM brokers k WHERE k.broker_id = c.broker_id)) AS in_office,
			(SELECT ARRAY[c.last_epoch, c.log_end] FROM c WHERE c.topic_id = n.topic_id AND c.partition = n.partition AND c.broker_id = ANY (n.isr)
				ORDER BY c.last_epoch DESC, c.log_end DESC LIMIT 1) AS best
		FROM n
	), e AS MATERIALIZED (
		SELECT o.*, CASE WHEN o.in_office OR o.isr = '{}' THEN o.isr
				ELSE ARRAY (SELECT r.id FROM unnest(o.isr) WITH ORDINALITY r(id, k) JOIN c ON c.topic_id = o.topic_id AND c.partition = o.partition AND c.broker_id = r.id
					WHERE ARRAY[c.last_epoch, c.log_end] = o.best ORDER BY r.k) END AS new_isr
		FROM o
	), d AS MATERIALIZED (
		SELECT e.*, CASE WHEN e.in_office THEN e.their_leader
			ELSE (SELECT r.id FROM unnest(e.new_isr) WITH ORDINALITY r(id, k) WHERE r.id = ANY (live) ORDER BY r.k LIMIT 1) END AS leads
		FROM e
	), u AS (
		-- With no disk left that could have it all the ISR is empty, and only an unclean election helps.
		UPDATE partitions q SET incarnation = inc, version = v, leader = d.leads, replicas = d.replicas, isr = d.new_isr,
			elr = CASE WHEN d.in_office AND d.newest = 'row' THEN without(q.elr, d.lost) ELSE '{}' END,
			leader_epoch = CASE WHEN d.in_office AND d.their_epoch >= d.known_epoch THEN d.their_epoch ELSE greatest(d.known_epoch, d.top_log, settle.epoch_floor - 1) + 1 END,
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
	INSERT INTO partition_claims AS c (topic_id, partition, broker_id, incarnation, broker_epoch, leader, leader_epoch, partition_epoch, isr, last_epoch, log_end)
		SELECT DISTINCT ON (x.t, x.p) x.t, x.p, me, inc, claim_partitions_1.broker_epoch, nullif(x.l, -1), coalesce(x.le, -1), coalesce(x.pe, -1),
			coalesce((SELECT array_agg(i::int ORDER BY o) FROM jsonb_array_elements_text(isrs -> (x.n - 1)::int) WITH ORDINALITY j(i, o)), '{}'), coalesce(x.last, -1), coalesce(x.log_end, 0)
		FROM unnest(topic_ids, claim_partitions_1.partitions, leaders, leader_epochs, partition_epochs, last_epochs, log_ends) WITH ORDINALITY x(t, p, l, le, pe, last, log_end, n)
		WHERE EXISTS (SELECT FROM partitions q WHERE q.topic_id = x.t AND q.partition = x.p AND q.incarnation <> inc AND (me = ANY (q.replicas) OR x.pe > q.partition_epoch)) ORDER BY x.t, x.p, x.n DESC
		ON CONFLICT ON CONSTRAINT partition_claims_pkey DO UPDATE SET (incarnation, last_epoch, log_end, broker_epoch, leader, leader_epoch, partition_epoch, isr) = (
			SELECT excluded.incarnation, excluded.last_epoch, excluded.log_end, w.broker_epoch, w.leader, w.leader_epoch, w.partition_epoch, w.isr FROM (
				SELECT excluded.broker_epoch, excluded.leader, excluded.leader_epoch, excluded.partition_epoch, excluded.isr
				UNION ALL SELECT c.broker_epoch, c.leader, c.leader_epoch, c.partition_epoch, c.isr WHERE c.incarnation = excluded.incarnation) w
			ORDER BY w.partition_epoch DESC, w.leader_epoch DESC, w.broker_epoch DESC LIMIT 1);
	settled := settle(v, floor, inc);
END
$$;
