-- A process takes a broker id (hazards A3, A17).

-- Registration, heartbeat and controller: one session each, so pid and backend start are the identity.
CREATE FUNCTION broker_internal.my_backend_start() RETURNS timestamptz STABLE LANGUAGE sql AS $$
	SELECT a.backend_start FROM pg_stat_get_activity(pg_backend_pid()) a
$$;

CREATE FUNCTION broker_internal.session_exists(pid int, started timestamptz) RETURNS bool VOLATILE LANGUAGE sql AS $$
	SELECT pid IS NOT NULL AND EXISTS (SELECT FROM pg_stat_get_activity(coalesce(pid, 0)) a WHERE a.pid = $1 AND a.backend_start = $2)
$$;

-- Ends the older session of a broker that registers again.  No lock is held while it dies.
CREATE FUNCTION broker_internal.end_older_session(id int, directory uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	o brokers;
BEGIN
	SELECT * INTO o FROM brokers b WHERE b.broker_id = id;
	IF NOT FOUND OR o.backend_pid = pg_backend_pid() OR NOT session_exists(o.backend_pid, o.backend_start) THEN
		RETURN;
	END IF;
	IF o.directory_id <> directory THEN
		RAISE EXCEPTION 'broker id % is in use by another data directory', id
			USING ERRCODE = 'PB101', DETAIL = format('Directory %s is registered and its session is alive.', o.directory_id),
				HINT = 'Give this broker another node.id, or stop the other one.';
	END IF;
	PERFORM pg_terminate_backend(o.backend_pid, 2000);
	PERFORM pg_stat_clear_snapshot();
END
$$;

-- Refuses a broker that a person keeps out, and takes back one that was unregistered.  The caller holds lock 1.
CREATE FUNCTION broker_internal.let_in(id int, directory uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	f former_brokers;
BEGIN
	IF EXISTS (SELECT FROM brokers b WHERE b.broker_id = id AND b.barred) THEN
		RAISE EXCEPTION 'broker % is kept out of the cluster', id USING ERRCODE = 'PB102', HINT = format('SELECT broker.unfence_broker(%s) lets it in again.', id);
	END IF;
	SELECT * INTO f FROM former_brokers x WHERE x.broker_id = id;
	IF NOT FOUND THEN
		RETURN;
	ELSIF f.decommissioning AND f.directory_id = directory THEN
		RAISE EXCEPTION 'broker % with this data directory was decommissioned', id USING ERRCODE = 'PB102', HINT = 'Stop it. With an empty log.dirs the id can be used again.';
	END IF;
	f.decommissioning := false;
	INSERT INTO brokers SELECT f.* ON CONFLICT DO NOTHING;
	DELETE FROM former_brokers x WHERE x.broker_id = id;
END
$$;

-- A broker's file may say hours or minutes where a key of ours is in ms; Kafka lets ms win, then minutes.
CREATE FUNCTION broker_internal.static_in_ms(file jsonb) RETURNS jsonb IMMUTABLE LANGUAGE sql AS $$
	SELECT file || coalesce(jsonb_object_agg(x.key, x.ms), '{}') FROM (
		SELECT DISTINCT ON (o.key) o.key, CASE WHEN (file ->> o.older)::numeric < 0 THEN -1 ELSE (file ->> o.older)::numeric * o.unit END::text AS ms
		FROM (VALUES (1, 'log.retention.ms', 'log.retention.minutes', 60000), (2, 'log.retention.ms', 'log.retention.hours', 3600000),
			(3, 'log.roll.ms', 'log.roll.hours', 3600000), (4, 'log.roll.jitter.ms', 'log.roll.jitter.hours', 3600000),
			(5, 'log.flush.interval.ms', 'log.flush.scheduler.interval.ms', 1)) o (n, key, older, unit)
		WHERE file ->> o.older ~ '^-?[0-9]{1,18}$' AND file ->> o.key IS NULL ORDER BY o.key, o.n) x
$$;

CREATE FUNCTION broker_internal.register_broker_1(broker_id int, incarnation_id uuid, directory_id uuid, disk_epoch bigint, disk_cluster_id text,
	rack text, endpoints jsonb, version text, static_config jsonb,
	OUT broker_epoch bigint, OUT cluster_id text, OUT metadata_version bigint, OUT pg_incarnation bigint, OUT secret bytea)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	a       record;       -- the arguments, by names that are no columns
	o       brokers;
	c       cluster;
	v       bigint;
	floor   int;
	inc     bigint;
	known   bool;
	disk_ok bool;
	why     text;
BEGIN
	SELECT register_broker_1.broker_id AS id, register_broker_1.incarnation_id AS incarnation, register_broker_1.directory_id AS directory,
		coalesce(register_broker_1.disk_epoch, -1) AS disk_epoch, register_broker_1.disk_cluster_id AS cluster_id INTO a;
	PERFORM end_older_session(a.id, a.directory);

	-- The first broker makes the cluster; data that moves in brings its cluster id along.
	INSERT INTO cluster (cluster_id, secret, version, pg_identity)
		SELECT coalesce(a.cluster_id, translate(encode(uuid_send(gen_random_uuid()), 'base64'), '+/=', '-_')),
			uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 0, pg_identity()
		WHERE NOT EXISTS (SELECT FROM cluster) ON CONFLICT DO NOTHING;
	SELECT n.version, n.epoch_floor, n.incarnation INTO v, floor, inc FROM next_version() n;
	SELECT * INTO c FROM cluster;
	IF a.cluster_id <> c.cluster_id THEN
		RAISE EXCEPTION 'the data directory belongs to cluster %, this database to cluster %', a.cluster_id, c.cluster_id
			USING ERRCODE = 'PB104', HINT = 'Check the connection string and log.dirs.';
	END IF;

	PERFORM let_in(a.id, a.directory);
	SELECT * INTO o FROM brokers b WHERE b.broker_id = a.id;
	known := FOUND;
	PERFORM pg_stat_clear_snapshot();
	IF known AND o.directory_id <> a.directory AND o.backend_pid <> pg_backend_pid() AND session_exists(o.backend_pid, o.backend_start) THEN
		PERFORM end_older_session(a.id, a.directory); -- it came while we waited for lock 1: PB101
	END IF;

	-- A disk that remembers more than this database was written by a younger one.
	why := CASE WHEN c.pg_identity <> pg_identity() THEN 'PostgreSQL was promoted or restored'
		WHEN a.disk_epoch > coalesce(CASE WHEN o.directory_id = a.directory THEN o.broker_epoch END, a.disk_epoch) THEN
			format('the disk of broker %s remembers epoch %s, this database only %s', a.id, a.disk_epoch, o.broker_epoch)
		WHEN NOT known AND a.disk_epoch >= 0 AND v > 1 THEN
			format('the disk of broker %s remembers epoch %s, this database does not know the broker', a.id, a.disk_epoch) END;
	IF why IS NOT NULL THEN
		inc := begin_incarnation(v, why);
		SELECT x.epoch_floor INTO floor FROM cluster x;
	END IF;

	IF known AND o.incarnation_id = a.incarnation AND NOT o.fenced AND a.disk_epoch <= o.broker_epoch THEN
		-- The same process reconnects: it keeps its epoch and its leaderships.
		broker_epoch := o.broker_epoch;
		UPDATE brokers b SET backend_pid = pg_backend_pid(), backend_start = my_backend_start(), suspect_since = NULL WHERE b.broker_id = a.id;
	ELSE
		disk_ok := NOT known OR (o.directory_id = a.directory AND a.disk_epoch >= o.disk_epoch);
		IF known THEN
			PERFORM pg_advisory_xact_lock(7701, a.id);
			PERFORM decide(CASE WHEN disk_ok THEN 'restart' ELSE 'disk' END, ARRAY[a.id], v, floor, inc,
				format('broker %s %s', a.id, CASE WHEN disk_ok THEN 'restarted'
					WHEN o.directory_id <> a.directory THEN 'came with another disk' ELSE 'came with an older disk' END))
				-- to plan it takes longer than all the rest: not where it would find nothing
				WHERE EXISTS (SELECT FROM partitions q WHERE a.id = ANY (q.isr) OR q.leader = a.id OR a.id = ANY (q.elr));
		END IF;
		broker_epoch := greatest(coalesce(o.broker_epoch, 0), a.disk_epoch, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 1) + 1;
		INSERT INTO brokers (broker_id, broker_epoch, incarnation_id, directory_id, disk_epoch, backend_pid, backend_start, rack,
				endpoints, software, static_config, registered_at, changed_version)
			VALUES (a.id, register_broker_1.broker_epoch, a.incarnation, a.directory, a.disk_epoch, pg_backend_pid(), my_backend_start(), register_broker_1.rack,
				coalesce(register_broker_1.endpoints, '[]'), coalesce(register_broker_1.version, ''), static_in_ms(coalesce(register_broker_1.static_config, '{}')), clock_timestamp(), v)
			ON CONFLICT ON CONSTRAINT brokers_pkey DO UPDATE SET broker_epoch = excluded.broker_epoch, incarnation_id = excluded.incarnation_id,
				directory_id = excluded.directory_id, disk_epoch = excluded.disk_epoch, fenced = false, fenced_at = NULL, fenced_why = NULL,
				stopping = false, suspect_since = NULL, backend_pid = excluded.backend_pid, backend_start = excluded.backend_start,
				rack = excluded.rack, endpoints = excluded.endpoints, software = excluded.software, static_config = excluded.static_config,
				registered_at = excluded.registered_at, changed_version = excluded.changed_version;
		IF NOT disk_ok THEN
			UPDATE brokers b SET disk_lost_in = inc WHERE b.broker_id = a.id;
		END IF;
		PERFORM add_event('broker.registered', 'broker ' || a.id, NULL, NULL, a.id, NULL, o.broker_epoch::text, register_broker_1.broker_epoch::text,
			jsonb_build_object('directory_id', a.directory, 'disk', CASE WHEN disk_ok THEN 'known' WHEN o.directory_id <> a.directory THEN 'another' ELSE 'older' END),
			NULL, 'controller', inet_client_addr(), NULL);
		PERFORM decide('leaderless', '{}', v, floor, inc, format('broker %s is back', a.id)) WHERE EXISTS (SELECT FROM partitions q WHERE q.leader IS NULL);
		UPDATE cluster x SET configs_version = v; -- its static config may be another
	END IF;
	cluster_id := c.cluster_id;
	metadata_version := v;
	pg_incarnation := inc;
	secret := c.secret;
END
$$;

-- Writes nothing, but for the first one of an epoch: with it the broker says that its disk carries the epoch.
-- The version that the broker acts on stands in its session's application_name, which costs no write either.
CREATE FUNCTION broker_internal.heartbeat_1(broker_id int, broker_epoch bigint, applied_version bigint DEFAULT NULL,
	OUT metadata_version bigint, OUT pg_incarnation bigint, OUT contract_oldest int, OUT contract_newest int, OUT fenced bool,
	OUT controller_id int, OUT tick_overdue bool)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	o brokers;
	c cluster;
BEGIN
	SELECT * INTO o FROM brokers b WHERE b.broker_id = heartbeat_1.broker_id;
	IF o.broker_epoch = heartbeat_1.broker_epoch AND o.backend_pid <> pg_backend_pid() THEN
		RAISE EXCEPTION 'broker % was superseded by another session', o.broker_id
			USING ERRCODE = 'PB077', HINT = 'Two processes with one node.id and one data directory, or a connection that was replaced.';
	END IF;
	PERFORM check_broker(heartbeat_1.broker_id, heartbeat_1.broker_epoch);
	IF o.disk_epoch <> o.broker_epoch THEN
		UPDATE brokers b SET disk_epoch = b.broker_epoch WHERE b.broker_id = o.broker_id AND b.broker_epoch = o.broker_epoch;
	END IF;
	IF applied_version IS NOT NULL THEN
		PERFORM set_config('application_name', format('brokerd %s heartbeat, applied %s', o.broker_id, applied_version), false);
	END IF;
	SELECT * INTO c FROM cluster;
	metadata_version := c.version;
	pg_incarnation := c.pg_incarnation;
	SELECT k.oldest, k.newest INTO contract_oldest, contract_newest FROM contract() k;
	fenced := o.fenced;
	controller_id := c.controller_id;
	tick_overdue := controller_silent(c.controller_pid, c.controller_start, interval '1 s');
END
$$;

-- Gone, or has sent no statement for so long.  One that waits for a lock is not silent: PostgreSQL holds it.
CREATE FUNCTION broker_internal.controller_silent(pid int, started timestamptz, patience interval) RETURNS bool VOLATILE LANGUAGE sql AS $$
	SELECT pid IS NULL OR NOT EXISTS (
		SELECT FROM pg_stat_get_activity(coalesce(pid, 0)) a
		WHERE a.pid = $1 AND a.backend_start = $2
			AND (a.state_change > clock_timestamp() - patience
				OR (a.state = 'active' AND (a.wait_event_type = 'Lock' OR a.state_change > clock_timestamp() - patience * 10))))
$$;

-- The session that holds the advisory lock names the controller.  Safety does not rest on it: who decides
-- does so under lock 1.  A stranger who takes the lock stops nothing: the tick then runs from heartbeats.
CREATE FUNCTION broker_internal.try_controller_1(broker_id int, broker_epoch bigint,
	OUT is_controller bool, OUT controller_id int, OUT controller_epoch int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	c     cluster;
	mine  timestamptz := my_backend_start();
	floor int;
BEGIN
	PERFORM check_broker(try_controller_1.broker_id, try_controller_1.broker_epoch);
	SELECT * INTO c FROM cluster;
	is_controller := c.controller_pid IS NOT DISTINCT FROM pg_backend_pid() AND c.controller_start IS NOT DISTINCT FROM mine
		AND c.controller_id IS NOT DISTINCT FROM try_controller_1.broker_id;
	IF NOT is_controller AND pg_try_advisory_lock(7700, 1) THEN
		SELECT n.epoch_floor INTO floor FROM next_version() n;
		UPDATE cluster x SET controller_id = try_controller_1.broker_id, controller_pid = pg_backend_pid(), controller_start = mine,
				controller_since = clock_timestamp(), controller_epoch = greatest(x.controller_epoch + 1, floor)
			RETURNING * INTO c;
		PERFORM add_event('cluster.controller', 'cluster', NULL, NULL, c.controller_id, NULL, NULL,
			format('%s, epoch %s', c.controller_id, c.controller_epoch), NULL, NULL, 'controller', NULL, NULL);
		is_controller := true;
	END IF;
	controller_id := c.controller_id;
	controller_epoch := c.controller_epoch;
END
$$;

-- Controlled shutdown: called until it says 0, or does not get less.
CREATE FUNCTION broker_internal.stop_broker_1(broker_id int, broker_epoch bigint, OUT leaderships_left int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	v     bigint;
	floor int;
	inc   bigint;
	id    int := stop_broker_1.broker_id;
BEGIN
	SELECT n.version, n.epoch_floor, n.incarnation INTO v, floor, inc FROM next_version() n;
	PERFORM check_broker(id, stop_broker_1.broker_epoch);
	UPDATE brokers b SET stopping = true, changed_version = v WHERE b.broker_id = id AND NOT b.stopping;
	IF FOUND THEN
		PERFORM add_event('broker.stopping', 'broker ' || id, NULL, NULL, id, NULL, NULL, NULL, NULL, NULL, 'controller', NULL, NULL);
	END IF;
	PERFORM decide('stop', ARRAY[id], v, floor, inc, format('broker %s shuts down', id));
	SELECT count(*) INTO leaderships_left FROM partitions p WHERE p.leader = id;
END
$$;
