-- One round of decisions: fence the dead, take up what people asked for, tidy.

-- Who is dead by now.  gone: the session ended (suspect; dead when the listener refuses, or after the
-- timeout).  silent: no statement for the timeout.  Judged by PostgreSQL's clock only.
-- The guard (A15): more than half of the brokers gone or silent at once is the clock, the network or
-- PostgreSQL; then nobody is fenced until the same brokers were so for one more timeout.  A refused
-- listener needs no guard: it is seen from a broker, not from PostgreSQL.
CREATE FUNCTION broker_internal.find_dead(me int, refused int[], OUT dead int[], OUT why text, OUT suspects int[], OUT cleared int[],
	OUT guard_new int[], OUT guard_reset bool)
LANGUAGE plpgsql AS $$
DECLARE
	timeout  interval := cluster_setting('broker.session.timeout.ms')::int * interval '1 ms';
	at       timestamptz := clock_timestamp();
	c        cluster;
	alive    int;
	gone     int[];
	silent   int[];
	overdue  int[];
BEGIN
	SELECT * INTO c FROM cluster;
	WITH s AS (
		SELECT b.broker_id, b.suspect_since, a.pid IS NULL AS is_gone,
			a.state_change < at - timeout AND NOT (a.state = 'active' AND a.wait_event_type IS NOT DISTINCT FROM 'Lock') AS is_silent
		FROM brokers b LEFT JOIN pg_stat_get_activity(NULL) a ON a.pid = b.backend_pid AND a.backend_start = b.backend_start
		WHERE NOT b.fenced
	)
	SELECT count(*), coalesce(array_agg(broker_id ORDER BY broker_id) FILTER (WHERE is_gone AND broker_id <> me), '{}'),
		coalesce(array_agg(broker_id ORDER BY broker_id) FILTER (WHERE is_silent AND broker_id <> me), '{}'),
		coalesce(array_agg(broker_id ORDER BY broker_id) FILTER (WHERE is_gone AND broker_id <> me AND suspect_since < at - timeout), '{}'),
		array_agg(broker_id) FILTER (WHERE is_gone AND suspect_since IS NULL AND broker_id <> me),
		array_agg(broker_id) FILTER (WHERE NOT is_gone AND suspect_since IS NOT NULL)
		INTO alive, gone, silent, overdue, suspects, cleared FROM s;

	-- Gone and refused: no process is there any more.
	dead := without(gone, without(gone, coalesce(refused, '{}')));
	gone := without(gone, dead);
	guard_reset := c.guard_since IS NOT NULL;
	IF (cardinality(gone) + cardinality(silent)) * 2 <= alive THEN
		dead := dead || silent || overdue;
	ELSIF c.guard_since IS NULL OR NOT (gone || silent) <@ c.guard_brokers THEN
		guard_new := gone || silent;
	ELSIF c.guard_since < at - timeout THEN
		dead := dead || silent || overdue;
	ELSE
		guard_reset := false;
	END IF;
	dead := ARRAY (SELECT DISTINCT d FROM unnest(dead) d ORDER BY d);
	why := CASE WHEN dead && silent THEN format('silent for %s ms', (extract(epoch FROM timeout) * 1000)::int)
		WHEN dead && coalesce(refused, '{}') THEN 'session ended, listener refuses connections'
		ELSE 'session ended' END;
END
$$;

-- Takes up the operations that wait, by their state.  A row that a person holds is left for the next round.
-- One that cannot be done fails by itself; it does not hold up the others.  Lock 1 is held for a short while
-- only: what is left after 200 ms is for the next round.  What one transaction asked for is taken up together, up to
-- 500 of it: thousands of topics would keep elections waiting, and on a slow machine never be done within the statement timeout.
-- Returns the version that it took, NULL when there was nothing to do.
CREATE FUNCTION broker_internal.take_up(v_in bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	o     operations;
	v     bigint := v_in;
	c     cluster;
	why   text;
	begun timestamptz := clock_timestamp();
	last_at  timestamptz;
	last_pid int;
	taken    int := 0;
BEGIN
	FOR o IN SELECT * FROM operations WHERE state = 'waiting' ORDER BY requested_at, session_pid, operation_id FOR UPDATE SKIP LOCKED LOOP
		EXIT WHEN clock_timestamp() - begun > interval '200 ms' AND (o.requested_at, o.session_pid) IS DISTINCT FROM (last_at, last_pid)
			OR taken >= 500;
		last_at := o.requested_at;
		last_pid := o.session_pid;
		IF o.kind IN ('topic.create', 'topic.partitions') THEN
			SELECT cannot_place(t) INTO why FROM topics t WHERE t.topic_id = o.topic_id AND t.deleted_at IS NULL;
			IF why IS NOT NULL THEN
				IF o.waiting_for IS DISTINCT FROM why THEN
					UPDATE operations SET waiting_for = why WHERE operation_id = o.operation_id;
				END IF;
				CONTINUE;
			END IF;
		END IF;
		IF v IS NULL THEN
			SELECT n.version INTO v FROM next_version() n;
		END IF;
		SELECT * INTO c FROM cluster;
		taken := taken + 1;
		BEGIN
			CASE o.kind
				WHEN 'topic.create', 'topic.partitions' THEN
					PERFORM place_topic(o.topic_id, v, c.pg_incarnation);
				WHEN 'topic.config' THEN
					INSERT INTO changes VALUES (v, o.topic_id) ON CONFLICT DO NOTHING;
				WHEN 'cluster.config', 'broker.config', 'group.config' THEN
					UPDATE cluster SET configs_version = v;
				WHEN 'topic.delete' THEN
					PERFORM drop_partitions(o.topic_id, v);
				ELSE
					PERFORM take_up_request(o, v, c.epoch_floor, c.pg_incarnation);
			END CASE;
			IF o.args ? 'min.insync.replicas' AND o.kind LIKE '%.config' THEN
				PERFORM forget_eligible(o.topic_id, v);
			END IF;
			IF o.args ? 'unclean.leader.election.enable' THEN
				PERFORM decide('leaderless', '{}', v, c.epoch_floor, c.pg_incarnation, 'unclean.leader.election.enable was changed');
			END IF;
			UPDATE operations SET state = 'done', waiting_for = NULL, finished_at = clock_timestamp(), args = args || jsonb_build_object('version', v) WHERE operation_id = o.operation_id
				AND state = 'waiting'; -- what takes longer is running now
		EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
			NULL; -- somebody holds a row of it: next round
		WHEN OTHERS THEN
			RAISE WARNING 'operation % (% of %) failed: %', o.operation_id, o.kind, o.object, SQLERRM;
			UPDATE operations SET state = 'failed', waiting_for = NULL, error = SQLERRM, finished_at = clock_timestamp() WHERE operation_id = o.operation_id;
		END;
	END LOOP;
	RETURN v;
END
$$;

-- Old events and operations go, a small batch a round; changes that every broker has long read go too.
CREATE FUNCTION broker_internal.prune() RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	keep     interval := coalesce(current_setting('broker.event_retention', true), '30d')::interval;
	max_rows bigint   := coalesce(current_setting('broker.max_events', true), '1000000')::bigint;
	n        int;
	total    int := 0;
BEGIN
	DELETE FROM events WHERE event_id IN (
		SELECT event_id FROM events WHERE event_time < now() - keep ORDER BY event_time LIMIT 1000);
	GET DIAGNOSTICS n = ROW_COUNT;
	total := total + n;
	DELETE FROM events WHERE event_id IN (
		SELECT event_id FROM events WHERE event_id <= (SELECT max(event_id) FROM events) - max_rows ORDER BY event_id LIMIT 1000);
	GET DIAGNOSTICS n = ROW_COUNT;
	total := total + n;
	WITH gone AS (DELETE FROM operations WHERE operation_id IN (
			SELECT operation_id FROM operations WHERE finished_at < now() - keep ORDER BY finished_at LIMIT 1000)
		RETURNING operation_id)
	DELETE FROM operation_parts p USING gone WHERE p.operation_id = gone.operation_id;
	GET DIAGNOSTICS n = ROW_COUNT;
	total := total + n;
	DELETE FROM moves m WHERE NOT EXISTS (SELECT FROM operations o WHERE o.operation_id = m.operation_id);
	-- A tombstone whose logs are gone everywhere: a disk that comes back with one is stray, kept and reported.
	DELETE FROM topics WHERE topic_id IN (
		SELECT topic_id FROM topics WHERE deleted_at < now() - keep AND logs_on = '{}' LIMIT 1000);
	GET DIAGNOSTICS n = ROW_COUNT;
	total := total + n;
	-- One row a topic at least stays interesting only until brokers that are this far behind read all again.
	IF (SELECT version - changes_since FROM cluster) > 100000 THEN
		UPDATE cluster SET changes_since = version - 50000;
		DELETE FROM changes WHERE version <= (SELECT changes_since FROM cluster);
		total := total + 1;
	END IF;
	RETURN total > 0;
END
$$;

CREATE FUNCTION broker_internal.tick_1(broker_id int, broker_epoch bigint, refused int[],
	OUT did_something bool, OUT metadata_version bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	d     record;
	v     bigint;
	floor int;
	inc   bigint;
	c     cluster;
BEGIN
	PERFORM check_broker(tick_1.broker_id, tick_1.broker_epoch);
	did_something := false;
	IF NOT pg_try_advisory_xact_lock(7700, 0) THEN
		SELECT x.version INTO metadata_version FROM cluster x;
		RETURN;
	END IF;
	SELECT * INTO d FROM find_dead(tick_1.broker_id, tick_1.refused);
	IF cardinality(d.dead) > 0 OR d.suspects IS NOT NULL OR d.cleared IS NOT NULL OR d.guard_new IS NOT NULL OR d.guard_reset THEN
		SELECT n.version, n.epoch_floor, n.incarnation INTO v, floor, inc FROM next_version() n;
		-- Between the look and lock 1 a broker may have come back, in a session that was not there then.
		PERFORM pg_stat_clear_snapshot();
		SELECT * INTO d FROM find_dead(tick_1.broker_id, tick_1.refused);
		UPDATE brokers b SET suspect_since = clock_timestamp(), changed_version = v WHERE b.broker_id = ANY (d.suspects);
		UPDATE brokers b SET suspect_since = NULL, changed_version = v WHERE b.broker_id = ANY (d.cleared);
		IF d.guard_new IS NOT NULL THEN
			UPDATE cluster SET guard_since = clock_timestamp(), guard_brokers = d.guard_new;
		ELSIF d.guard_reset THEN
			UPDATE cluster SET guard_since = NULL, guard_brokers = NULL;
		END IF;
		IF cardinality(d.dead) > 0 THEN
			PERFORM fence_brokers(d.dead, v, floor, inc, d.why);
		END IF;
		did_something := true;
	END IF;
	-- A controller that is paused keeps its lock: whoever runs its overdue tick ends its session.
	SELECT * INTO c FROM cluster;
	IF c.controller_id <> tick_1.broker_id AND controller_silent(c.controller_pid, c.controller_start, interval '3 s')
		AND session_exists(c.controller_pid, c.controller_start) THEN
		PERFORM pg_terminate_backend(c.controller_pid);
	END IF;
	v := take_up(v);
	v := go_on(v);
	v := balance_leaders(v);
	did_something := did_something OR v IS NOT NULL;
	did_something := prune() OR did_something;
	SELECT x.version INTO metadata_version FROM cluster x;
END
$$;
