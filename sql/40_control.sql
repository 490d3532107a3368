-- The core of the control plane: order, epochs, elections.  Locks in all: the cluster row (1), then a
-- broker's fence (2), advisory class 7701.  Class 7700 names the controller and the tick, always polled.

-- Lock 1.  What follows in this transaction is stamped with `version`.
CREATE FUNCTION broker_internal.next_version(OUT version bigint, OUT epoch_floor int, OUT incarnation bigint)
LANGUAGE plpgsql AS $$
BEGIN
	UPDATE cluster c SET version = c.version + 1
		RETURNING c.version, c.epoch_floor, c.pg_incarnation INTO next_version.version, next_version.epoch_floor, next_version.incarnation;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no broker has registered with this database yet' USING ERRCODE = 'PB015';
	END IF;
END
$$;

-- PB077 unless this epoch of the broker is the one in office.
CREATE FUNCTION broker_internal.check_broker(id int, epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM brokers b WHERE b.broker_id = id AND b.broker_epoch = epoch AND NOT b.fenced) THEN
		RAISE EXCEPTION 'broker % is not registered with epoch %', id, epoch
			USING ERRCODE = 'PB077', DETAIL = coalesce((SELECT format('Its epoch is %s%s.', b.broker_epoch,
					CASE WHEN b.fenced THEN ', fenced: ' || coalesce(b.fenced_why, 'unknown') ELSE '' END)
				FROM brokers b WHERE b.broker_id = id), 'No broker of that id is registered.'),
			HINT = 'It registers again and gets a new epoch.';
	END IF;
END
$$;

CREATE FUNCTION broker_internal.add_event(kind text, object text, topic text, partition int, broker_id int, group_id text,
	old text, new text, details jsonb, actor text, via text, client_addr inet, reason text) RETURNS void
LANGUAGE sql AS $$
	INSERT INTO events (kind, object, topic, partition, broker_id, group_id, old, new, details, actor, via, client_addr, reason)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, CASE WHEN $11 = 'sql' THEN coalesce($13, nullif(current_setting('broker.reason', true), '')) ELSE $13 END)
$$;

-- A cluster-wide setting: dynamic, else what the first broker's file says, else the default.
CREATE FUNCTION broker_internal.cluster_setting(key text) RETURNS text STABLE LANGUAGE sql AS $$
	SELECT coalesce(
		(SELECT value FROM configs WHERE scope = 'cluster' AND object = '' AND config_key = key),
		(SELECT b.static_config ->> key FROM brokers b WHERE b.static_config ? key ORDER BY b.fenced, b.broker_id LIMIT 1),
		(SELECT default_value FROM config_table() k WHERE k.scope = 'cluster' AND k.config_key = key))
$$;

-- What this PostgreSQL is.  The first 8 digits of the WAL file's name are the timeline, right at once after a
-- promotion; the table's oid tells a restored dump from the database it came from.
CREATE FUNCTION broker_internal.pg_identity() RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws('/', (pg_control_system()).system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8),
		(SELECT oid FROM pg_database WHERE datname = current_database()), 'broker_internal.cluster'::regclass::oid)
$$;

-- Brokers that can lead.
CREATE FUNCTION broker_internal.able_brokers() RETURNS int[] STABLE LANGUAGE sql AS $$
	SELECT coalesce(array_agg(broker_id ORDER BY broker_id), '{}') FROM brokers WHERE NOT fenced AND NOT stopping
$$;

-- Brokers that shall lead and coordinate: the able ones but for those that are drained, unless there are no others.
CREATE FUNCTION broker_internal.live_brokers() RETURNS int[] STABLE LANGUAGE sql AS $$
	SELECT coalesce(array_agg(broker_id ORDER BY broker_id) FILTER (WHERE NOT drained AND NOT decommissioning), array_agg(broker_id ORDER BY broker_id), '{}')
	FROM brokers WHERE NOT fenced AND NOT stopping
$$;

-- What somebody has set as the cluster's min.insync.replicas; NULL: nobody, and then min_isr() goes by the replicas.
CREATE FUNCTION broker_internal.set_min_isr() RETURNS int STABLE LANGUAGE sql AS $$
	SELECT coalesce((SELECT value FROM configs WHERE scope = 'cluster' AND object = '' AND config_key = 'min.insync.replicas'),
		(SELECT b.static_config ->> 'min.insync.replicas' FROM brokers b WHERE b.static_config ? 'min.insync.replicas' ORDER BY b.fenced, b.broker_id LIMIT 1))::int
$$;

-- The smallest one that any broker may go by.  Who left the ISR below it has everything committed only if the
-- leader let the high watermark stand, so what counts is the leader's own value, whoever leads (hazards A13).
CREATE FUNCTION broker_internal.least_min_isr() RETURNS int STABLE LANGUAGE sql AS $$
	SELECT CASE WHEN count(x.value) = 0 THEN NULL WHEN count(x.value) < count(*) THEN 1 ELSE min(x.value) END
	FROM (SELECT coalesce(own.value, c.value, b.static_config ->> 'min.insync.replicas')::int AS value FROM brokers b
		LEFT JOIN configs own ON own.scope = 'broker' AND own.object = b.broker_id::text AND own.config_key = 'min.insync.replicas'
		LEFT JOIN configs c ON c.scope = 'cluster' AND c.object = '' AND c.config_key = 'min.insync.replicas') x
$$;

-- Did a min.insync.replicas change so lately that a leader may not know?  Then nobody becomes eligible: a leader
-- that still goes by a smaller one commits what those who left do not have.
CREATE FUNCTION broker_internal.min_isr_is_new() RETURNS bool STABLE LANGUAGE sql AS $$
	SELECT EXISTS (SELECT FROM cluster c WHERE c.min_isr_at > clock_timestamp() - interval '30 s')
		OR EXISTS (SELECT FROM operations o WHERE o.state = 'waiting' AND o.args ? 'min.insync.replicas')
$$;

-- It changed, for one topic or for all (NULL): nobody is eligible any more, as in Kafka (KIP-966).  The caller holds lock 1.
CREATE FUNCTION broker_internal.forget_eligible(topic uuid, v bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE cluster SET min_isr_at = clock_timestamp();
	WITH u AS (
		UPDATE partitions q SET elr = '{}', partition_epoch = q.partition_epoch + 1, version = v
		WHERE q.elr <> '{}' AND (topic IS NULL OR q.topic_id = topic)
			-- a topic's own value is not touched by the cluster's
			AND (topic IS NOT NULL OR NOT EXISTS (SELECT FROM configs c WHERE c.scope = 'topic' AND c.object = q.topic_id::text AND c.config_key = 'min.insync.replicas'))
		RETURNING q.topic_id
	)
	INSERT INTO changes SELECT DISTINCT v, topic_id FROM u ON CONFLICT DO NOTHING;
END
$$;

-- Every election and every removal from an ISR, set-based.  Modes:
--   gone        these brokers are dead: out of every ISR that has another member that is alive
--   restart     the same for one that comes back as a new process on its old disk.  Where no other member is
--               alive it keeps its place: what was acknowledged is synced on its disk (hazards A13), unless
--               the topic has relaxed that by flush.messages or flush.ms
--   disk        what is on its disk counts for nothing any more (another or older disk)
--   stop        controlled shutdown: only where somebody else can lead
--   leaderless  elect where nobody leads
-- A partition whose row may be older than what its replicas know (PostgreSQL went backwards, hazards A1) is
-- left as it is, but for a leader that is gone.  Returns how many partitions changed.  The caller holds lock 1.
CREATE FUNCTION broker_internal.decide(mode text, gone int[], v bigint, epoch_floor int, incarnation bigint, why text)
RETURNS int LANGUAGE plpgsql
SET random_page_cost = 1.1 -- the rows were just read: finding them again by their place is cheap
SET jit = off
AS $$
DECLARE
	alive           int[]  := without(ARRAY (SELECT b.broker_id FROM brokers b WHERE NOT b.fenced), gone);
	live            int[]  := without(live_brokers(), gone);
	able            int[]  := without(able_brokers(), gone);
	unclean_default bool   := cluster_setting('unclean.leader.election.enable') = 'true';
	min_default     int    := least_min_isr();
	min_is_new      bool   := min_isr_is_new();
	-- topics whose min.insync.replicas was changed by a person and is not taken up yet: who was eligible may not be so now
	doubtful        uuid[] := ARRAY (SELECT o.topic_id FROM operations o WHERE o.state = 'waiting' AND o.args ? 'min.insync.replicas');
	any_doubtful    bool   := cardinality(doubtful) > 0;
	relaxed_default bool   := cluster_setting('log.flush.interval.messages') <> '9223372036854775807' OR cluster_setting('log.flush.interval.ms') <> '9223372036854775807';
	at              timestamptz := clock_timestamp();
	changed         int;
	lossy           bool;
BEGIN
	WITH c AS MATERIALIZED (
		-- the row by its place: under lock 1 nobody moves it, and no second scan is needed to find it again
		SELECT q.ctid AS place, q.topic_id, q.partition, q.leader, q.leader_epoch, q.replicas, q.isr,
			CASE WHEN any_doubtful AND (q.topic_id = ANY (doubtful) OR array_position(doubtful, NULL) IS NOT NULL) THEN '{}' WHEN mode = 'disk' OR x.relaxed THEN without(q.elr, gone) ELSE q.elr END AS elr,
			CASE WHEN mode = 'leaderless' THEN without(q.isr, without(q.isr, able)) ELSE without(q.isr, gone) END AS rest,
			q.incarnation = decide.incarnation OR cardinality(q.replicas) = 1 AS settled,
			coalesce(u.value = 'true', unclean_default) AND mode NOT IN ('restart', 'disk') AS unclean, -- a clean leader may just be coming back
			min_isr(coalesce(m.value::int, min_default), cardinality(q.replicas), cardinality(q.adding), cardinality(q.removing)) AS min_isr,
			x.relaxed
		FROM partitions q
			CROSS JOIN LATERAL (SELECT mode = 'restart' AND (relaxed_default OR EXISTS (SELECT FROM configs f WHERE f.scope = 'topic' AND f.object = q.topic_id::text
				AND f.config_key IN ('flush.messages', 'flush.ms') AND f.value <> '9223372036854775807')) AS relaxed) x
			LEFT JOIN configs u ON u.scope = 'topic' AND u.object = q.topic_id::text AND u.config_key = 'unclean.leader.election.enable'
			LEFT JOIN configs m ON m.scope = 'topic' AND m.object = q.topic_id::text AND m.config_key = 'min.insync.replicas'
		WHERE CASE mode
			WHEN 'leaderless' THEN q.leader IS NULL
			WHEN 'stop' THEN q.isr && gone AND q.isr && able
			WHEN 'disk' THEN q.isr && gone OR q.leader = ANY (gone) OR q.elr && gone
			WHEN 'restart' THEN q.isr && gone OR q.leader = ANY (gone) OR q.elr && gone AND x.relaxed
			ELSE q.isr && gone OR q.leader = ANY (gone) END
	), d AS MATERIALIZED (
		-- A restarted broker with the only replica: nobody else could lead, so it gets its leadership at once, in a new epoch.
		SELECT c.*, mode = 'restart' AND leader IS NOT NULL AND replicas = gone AND isr = gone AS again,
			CASE WHEN mode = 'restart' AND leader IS NOT NULL AND replicas = gone AND isr = gone THEN leader
				WHEN settled THEN coalesce(pick_leader(replicas, rest, elr, leader, live, false), pick_leader(replicas, rest, elr, leader, able, unclean))
				WHEN leader = ANY (gone) AND mode <> 'stop' THEN NULL ELSE leader END AS new_leader
		FROM c
	), n AS MATERIALIZED (
		SELECT d.*, new_leader IS NOT NULL AND settled AND NOT again AND NOT new_leader = ANY (rest) AND NOT new_leader = ANY (elr) AS is_unclean,
			CASE WHEN NOT settled OR again OR (mode = 'leaderless' AND new_leader IS NULL) THEN isr
				WHEN new_leader IS NOT NULL AND NOT new_leader = ANY (rest) THEN ARRAY[new_leader]
				WHEN new_leader IS NOT NULL OR rest && alive OR mode = 'disk' OR (relaxed AND rest <> '{}') THEN rest
				ELSE isr END AS new_isr -- the last members stay: only they may lead
		FROM d
	), e AS MATERIALIZED (
		SELECT n.*, CASE WHEN NOT settled OR again THEN elr WHEN is_unclean OR cardinality(new_isr) >= min_isr THEN '{}'
				ELSE without(without(elr || CASE WHEN min_is_new THEN '{}' ELSE without(isr, elr) END, new_isr), CASE WHEN mode = 'disk' OR relaxed THEN gone ELSE '{}' END) END AS new_elr
		FROM n
	), u AS (
		UPDATE partitions p SET leader = e.new_leader, isr = e.new_isr, elr = e.new_elr,
			leader_epoch = CASE WHEN e.new_leader IS DISTINCT FROM e.leader OR e.again
				THEN greatest(e.leader_epoch + 1, decide.epoch_floor) ELSE e.leader_epoch END,
			leader_since = CASE WHEN e.new_leader IS DISTINCT FROM e.leader OR e.again THEN at ELSE p.leader_since END,
			-- an unsettled row is compared with reports by its partition epoch: that stays what it was (hazards A1)
			partition_epoch = p.partition_epoch + CASE WHEN e.settled OR e.again THEN 1 ELSE 0 END, version = v,
			incarnation = CASE WHEN cardinality(p.replicas) = 1 THEN decide.incarnation ELSE p.incarnation END
		FROM e
		WHERE p.ctid = e.place
			AND (p.leader IS DISTINCT FROM e.new_leader OR e.again OR p.isr <> e.new_isr OR p.elr <> e.new_elr)
		RETURNING p.topic_id, p.partition, e.leader AS old_leader, p.leader, e.leader_epoch AS old_epoch, p.leader_epoch,
			e.isr AS old_isr, p.isr, e.is_unclean, e.again
	), h AS (
		INSERT INTO changes SELECT DISTINCT v, topic_id FROM u ON CONFLICT DO NOTHING
	), log AS (
		INSERT INTO events (event_time, kind, object, topic, partition, old, new, via, reason)
		SELECT at, x.kind, t.topic || '-' || u.partition, t.topic, u.partition, x.old, x.new, 'controller', why
		FROM u JOIN topics t USING (topic_id)
			CROSS JOIN LATERAL (VALUES -- plain concatenation: format() took a third of all the time
				(1, 'partition.leader', coalesce(u.old_leader || ', epoch ' || u.old_epoch, 'none'), coalesce(u.leader || ', epoch ' || u.leader_epoch, 'none'),
					u.again OR u.leader IS DISTINCT FROM u.old_leader),
				(2, 'partition.isr', u.old_isr::text, u.isr::text, u.isr <> u.old_isr),
				(3, 'partition.unclean', u.old_isr::text, u.leader::text, u.is_unclean)) x (n, kind, old, new, happened)
		WHERE x.happened ORDER BY u.topic_id, u.partition, x.n
	)
	SELECT count(*), coalesce(bool_or(u.is_unclean), false) INTO changed, lossy FROM u;
	IF lossy THEN
		RAISE WARNING 'unclean leader election: acknowledged records may be lost'
			USING DETAIL = (SELECT format('%s partitions, first %s.', count(*), min(object)) FROM events WHERE kind = 'partition.unclean' AND event_time = at);
	END IF;
	RETURN changed;
END
$$;

-- Ends the epochs of brokers that are dead.  Their sessions are ended first, so that none of them holds the
-- fence in an unfinished statement (a paused client).  The caller holds lock 1.
CREATE FUNCTION broker_internal.fence_brokers(dead int[], v bigint, epoch_floor int, incarnation bigint, why text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	id int;
BEGIN
	PERFORM pg_terminate_backend(a.pid) FROM brokers b JOIN pg_stat_get_activity(NULL) a ON a.pid = b.backend_pid AND a.backend_start = b.backend_start
		WHERE b.broker_id = ANY (dead) AND a.pid <> pg_backend_pid();
	PERFORM pg_terminate_backend(l.pid) FROM pg_locks l
		WHERE l.locktype = 'advisory' AND l.classid = 7701 AND l.objid = ANY (dead::oid[]) AND l.objsubid = 2 AND l.pid <> pg_backend_pid()
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database());
	FOR id IN SELECT unnest(dead) ORDER BY 1 LOOP
		PERFORM pg_advisory_xact_lock(7701, id);
	END LOOP;
	UPDATE brokers b SET fenced = true, fenced_at = clock_timestamp(), fenced_why = why, broker_epoch = b.broker_epoch + 1,
			suspect_since = NULL, stopping = false, changed_version = v
		WHERE b.broker_id = ANY (dead) AND NOT b.fenced;
	FOR id IN SELECT unnest(dead) ORDER BY 1 LOOP
		PERFORM add_event('broker.dead', 'broker ' || id, NULL, NULL, id, NULL, 'alive', 'dead', NULL, NULL, 'controller', NULL, why);
	END LOOP;
	PERFORM decide('gone', dead, v, epoch_floor, incarnation,
		CASE WHEN cardinality(dead) = 1 THEN format('broker %s dead', dead[1]) ELSE format('brokers %s dead', array_to_string(dead, ', ')) END);
END
$$;

-- PostgreSQL is another one than the last time, or older than what a broker's disk remembers: from now on
-- no partition is decided on before its replicas have reported (hazards A1), no epoch below the floor is
-- given, and what was waiting is asked for again (operations are not in a dump).  The caller holds lock 1.
CREATE FUNCTION broker_internal.begin_incarnation(v bigint, why text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n    bigint;
	last bigint := (SELECT c.pg_incarnation FROM cluster c);
BEGIN
	-- By the clock, so that two standbys that were promoted one after the other do not give the same number.
	UPDATE cluster c SET pg_incarnation = greatest(c.pg_incarnation + 1, extract(epoch FROM clock_timestamp() - timestamptz '2025-01-01 00:00:00+00')::bigint), pg_identity = pg_identity(), incarnation_since = clock_timestamp(),
			incarnation_version = v, epoch_floor = greatest(c.epoch_floor, extract(epoch FROM clock_timestamp() - timestamptz '2025-01-01 00:00:00+00')::int),
			guard_since = NULL, guard_brokers = NULL
		RETURNING c.pg_incarnation INTO n;
	-- What reports are compared with, also when a leader that is gone moves the leader epoch meanwhile.
	UPDATE partitions q SET settled_epoch = q.leader_epoch WHERE q.incarnation = last AND cardinality(q.replicas) > 1;
	INSERT INTO operations (kind, object, topic_id, requested_by)
		SELECT CASE WHEN t.deleted_at IS NULL THEN 'topic.create' ELSE 'topic.delete' END, 'topic ' || t.topic, t.topic_id, t.created_by
		FROM topics t LEFT JOIN (SELECT topic_id, count(*) n FROM partitions GROUP BY 1) p USING (topic_id)
		WHERE CASE WHEN t.deleted_at IS NULL THEN coalesce(p.n, 0) < t.partitions ELSE p.n > 0 END
			AND NOT EXISTS (SELECT FROM operations o WHERE o.topic_id = t.topic_id AND o.state = 'waiting');
	PERFORM add_event('cluster.incarnation', 'cluster', NULL, NULL, NULL, NULL, last::text, n::text, NULL, NULL, 'controller', NULL, why);
	RETURN n;
END
$$;
