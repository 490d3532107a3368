-- The daemon's contract (sql/README.md) as far as the tests of brokerd/meta need it, answering from tables that
-- a test writes.  So each answer, delay and error can be had at will.
CREATE SCHEMA broker_internal;
SET search_path = broker_internal, pg_catalog;
CREATE EXTENSION IF NOT EXISTS plpgsql;

CREATE TABLE fake (
	version        bigint NOT NULL DEFAULT 1,
	incarnation    bigint NOT NULL DEFAULT 1,
	oldest         int    NOT NULL DEFAULT 1,
	newest         int    NOT NULL DEFAULT 1,
	cluster_id     text   NOT NULL DEFAULT 'fakefakefakefakefakefA',
	controller     bool   NOT NULL DEFAULT true,
	tick_overdue   bool   NOT NULL DEFAULT false,
	tick_does      int    NOT NULL DEFAULT 0,  -- how many of the next ticks do something
	call_seconds   float  NOT NULL DEFAULT 0,  -- how long create_topics_1 takes
	register_fails text,                       -- SQLSTATE
	next_id        bigint NOT NULL DEFAULT 5000
);
INSERT INTO fake DEFAULT VALUES;

-- What was called, for tests to look at.  A sequence counts where a call must not write.
CREATE TABLE calls (id bigserial, name text, argument text);
-- Unlogged: a heartbeat must not wait for a standby.
CREATE UNLOGGED SEQUENCE heartbeats;
CREATE UNLOGGED SEQUENCE ticks;

CREATE TABLE brokers (broker_id int PRIMARY KEY, broker_epoch bigint, state text NOT NULL DEFAULT 'alive', incarnation uuid,
	directory uuid, pid int, rack text, endpoints jsonb, changed bigint NOT NULL DEFAULT 1);
CREATE TABLE topics (topic text, topic_id uuid PRIMARY KEY, deleted bool NOT NULL DEFAULT false, config jsonb NOT NULL DEFAULT '{}',
	changed bigint NOT NULL DEFAULT 1, partitions bytea);
CREATE TABLE configs (scope text, broker_id int, config_key text, value text);
CREATE TABLE configs_version (version bigint);
INSERT INTO configs_version VALUES (1);
CREATE TABLE checks (severity text, problem text, hint text);
CREATE TABLE operations (operation_id bigint, kind text, topic text, topic_id uuid, partition int, args jsonb);

CREATE FUNCTION contract(OUT oldest int, OUT newest int, OUT extension_version text) LANGUAGE sql AS
	$$ SELECT f.oldest, f.newest, '0.1' FROM broker_internal.fake f $$;
CREATE FUNCTION session_check_1() RETURNS TABLE (severity text, problem text, hint text) LANGUAGE sql AS
	$$ SELECT * FROM broker_internal.checks $$;

CREATE FUNCTION register_broker_1(id int, inc uuid, dir uuid, disk_epoch bigint, cluster text, rack_ text, endpoints_ jsonb, version_ text,
	static_config jsonb, OUT broker_epoch bigint, OUT cluster_id text, OUT metadata_version bigint, OUT pg_incarnation bigint, OUT secret bytea)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	f broker_internal.fake;
	o broker_internal.brokers;
BEGIN
	SELECT * INTO f FROM broker_internal.fake;
	IF f.register_fails IS NOT NULL THEN
		RAISE EXCEPTION 'the registration is refused' USING ERRCODE = f.register_fails, HINT = 'Ask the test.';
	END IF;
	SELECT * INTO o FROM broker_internal.brokers b WHERE b.broker_id = id;
	UPDATE broker_internal.fake SET version = version + 1;
	IF o.incarnation = inc AND o.state <> 'dead' THEN
		register_broker_1.broker_epoch := o.broker_epoch;
		UPDATE broker_internal.brokers b SET pid = pg_backend_pid() WHERE b.broker_id = id;
	ELSE
		register_broker_1.broker_epoch := greatest(coalesce(o.broker_epoch, 0), disk_epoch) + 1;
		INSERT INTO broker_internal.brokers VALUES (id, register_broker_1.broker_epoch, 'alive', inc, dir, pg_backend_pid(), rack_, endpoints_, f.version + 1)
			ON CONFLICT (broker_id) DO UPDATE SET broker_epoch = excluded.broker_epoch, state = 'alive', incarnation = inc, pid = excluded.pid,
				changed = excluded.changed;
	END IF;
	INSERT INTO broker_internal.calls (name, argument) VALUES ('register', register_broker_1.broker_epoch);
	cluster_id := coalesce(cluster, f.cluster_id);
	metadata_version := f.version + 1;
	pg_incarnation := f.incarnation;
	secret := '\x010203ff';
END $$;

CREATE FUNCTION check_broker(id int, epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM broker_internal.brokers b WHERE b.broker_id = id AND b.broker_epoch = epoch AND b.state <> 'dead') THEN
		RAISE EXCEPTION 'broker % is not registered with epoch %', id, epoch USING ERRCODE = 'PB077';
	END IF;
END $$;

CREATE FUNCTION heartbeat_1(id int, epoch bigint, applied bigint, OUT metadata_version bigint, OUT pg_incarnation bigint, OUT contract_oldest int,
	OUT contract_newest int, OUT fenced bool, OUT controller_id int, OUT tick_overdue bool) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM broker_internal.check_broker(id, epoch);
	IF NOT EXISTS (SELECT FROM broker_internal.brokers b WHERE b.broker_id = id AND b.pid = pg_backend_pid()) THEN
		RAISE EXCEPTION 'broker % was superseded by another session', id USING ERRCODE = 'PB077';
	END IF;
	PERFORM nextval('broker_internal.heartbeats');
	SELECT f.version, f.incarnation, f.oldest, f.newest, false, CASE WHEN f.controller THEN id END, f.tick_overdue
		INTO metadata_version, pg_incarnation, contract_oldest, contract_newest, fenced, controller_id, tick_overdue FROM broker_internal.fake f;
END $$;

CREATE FUNCTION try_controller_1(id int, epoch bigint, OUT is_controller bool, OUT controller_id int, OUT controller_epoch int)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM broker_internal.check_broker(id, epoch);
	SELECT f.controller, id, 1 INTO is_controller, controller_id, controller_epoch FROM broker_internal.fake f;
END $$;

CREATE FUNCTION tick_1(id int, epoch bigint, refused int[], OUT did_something bool, OUT metadata_version bigint) LANGUAGE plpgsql AS $$
DECLARE
	f broker_internal.fake;
BEGIN
	PERFORM broker_internal.check_broker(id, epoch);
	PERFORM nextval('broker_internal.ticks');
	SELECT * INTO f FROM broker_internal.fake;
	did_something := f.tick_does > 0;
	IF did_something THEN
		UPDATE broker_internal.fake SET tick_does = tick_does - 1, version = version + 1;
		INSERT INTO broker_internal.calls (name, argument) VALUES ('tick', refused::text);
	END IF;
	SELECT x.version INTO metadata_version FROM broker_internal.fake x;
END $$;

CREATE FUNCTION brokers_1(since bigint) RETURNS TABLE (broker_id int, broker_epoch bigint, state text, rack text, endpoints jsonb, version bigint)
LANGUAGE sql AS $$
	SELECT b.broker_id, b.broker_epoch, b.state, b.rack, b.endpoints, b.changed FROM broker_internal.brokers b WHERE b.changed > since ORDER BY 1
$$;
CREATE FUNCTION topics_1(since bigint, after_topic uuid, max_partitions int)
RETURNS TABLE (topic text, topic_id uuid, deleted bool, config jsonb, version bigint, partitions bytea) LANGUAGE sql AS $$
	SELECT t.topic, t.topic_id, t.deleted, t.config, t.changed, t.partitions FROM broker_internal.topics t
	WHERE t.changed > since AND (after_topic IS NULL OR t.topic_id > after_topic) ORDER BY t.topic_id LIMIT max_partitions
$$;
CREATE FUNCTION configs_1(since bigint) RETURNS TABLE (scope text, broker_id int, config_key text, value text) LANGUAGE sql AS $$
	SELECT x.* FROM (SELECT 'cluster' AS scope, NULL::int AS broker_id, NULL::text AS config_key, NULL::text AS value
		UNION ALL SELECT c.* FROM broker_internal.configs c) x, broker_internal.configs_version v WHERE v.version > since
$$;

CREATE FUNCTION create_topics_1(actor text, client_addr inet, topics jsonb, validate_only bool)
RETURNS TABLE (topic text, topic_id uuid, error_code int, error_message text, partitions int, replication_factor int, config jsonb)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_sleep((SELECT call_seconds FROM broker_internal.fake));
	IF topics = '[]' THEN
		RAISE EXCEPTION 'no topic is named' USING ERRCODE = 'PB042', DETAIL = 'The array is empty.', HINT = 'Name one.';
	END IF;
	INSERT INTO broker_internal.calls (name, argument) VALUES ('create_topics', topics::text);
	UPDATE broker_internal.fake SET version = version + 1;
	RETURN QUERY SELECT t->>'name', gen_random_uuid(), 0, NULL::text, 1, 1, '{}'::jsonb FROM jsonb_array_elements(topics) t;
END $$;
CREATE FUNCTION delete_topics_1(actor text, client_addr inet, names text[], ids uuid[])
RETURNS TABLE (topic text, topic_id uuid, error_code int, error_message text) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO broker_internal.calls (name, argument) VALUES ('delete_topics', format('%s %s %s %s', actor, client_addr, names, ids));
	RETURN QUERY SELECT n, NULL::uuid, 0, NULL::text FROM unnest(names) n;
END $$;
CREATE FUNCTION create_partitions_1(actor text, client_addr inet, topics jsonb, validate_only bool)
RETURNS TABLE (topic text, error_code int, error_message text) LANGUAGE sql AS $$ SELECT 't', 0, NULL $$;
CREATE FUNCTION alter_configs_1(actor text, client_addr inet, resources jsonb, validate_only bool, replace bool)
RETURNS TABLE (resource_type int, resource_name text, error_code int, error_message text) LANGUAGE sql AS $$ SELECT 2, 't', 0, NULL $$;
CREATE FUNCTION producer_ids_1(id int, epoch bigint, OUT first_producer_id bigint, OUT block_size int) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM broker_internal.check_broker(id, epoch);
	UPDATE broker_internal.fake SET next_id = next_id + 3 RETURNING next_id INTO first_producer_id;
	block_size := 3;
END $$;
CREATE FUNCTION alter_isr_1(id int, epoch bigint, topic_ids uuid[], partitions int[], leader_epochs int[], partition_epochs int[], new_isrs jsonb)
RETURNS TABLE (topic_id uuid, partition int, landed bool, leader int, leader_epoch int, partition_epoch int, isr int[]) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM broker_internal.check_broker(id, epoch);
	INSERT INTO broker_internal.calls (name, argument)
		VALUES ('alter_isr', format('%s %s %s %s %s', topic_ids, partitions, leader_epochs, partition_epochs, new_isrs));
	RETURN QUERY SELECT t, p, true, id, 1, e + 1, ARRAY(SELECT (m->>'id')::int FROM jsonb_array_elements(new_isrs->(n::int - 1)) m)
		FROM unnest(topic_ids, partitions, partition_epochs) WITH ORDINALITY u(t, p, e, n);
END $$;
CREATE FUNCTION operations_1(id int, epoch bigint)
RETURNS TABLE (operation_id bigint, kind text, topic text, topic_id uuid, partition int, args jsonb) LANGUAGE sql AS $$
	SELECT * FROM broker_internal.operations
$$;
CREATE FUNCTION finish_operation_1(id int, epoch bigint, op bigint, part int, result bigint, error_code int, error_message text) RETURNS void
LANGUAGE sql AS $$ INSERT INTO broker_internal.calls (name, argument) VALUES ('finish', format('%s %s %s %s %s', op, part, result, error_code, error_message)) $$;
CREATE FUNCTION logs_deleted_1(id int, epoch bigint, topic_ids uuid[]) RETURNS void
LANGUAGE sql AS $$ INSERT INTO broker_internal.calls (name, argument) VALUES ('logs_deleted', topic_ids::text) $$;
CREATE FUNCTION report_1(id int, epoch bigint, stats jsonb, topic_ids uuid[], partitions int[], figures bigint[]) RETURNS void
LANGUAGE sql AS $$ INSERT INTO broker_internal.calls (name, argument) VALUES ('report', format('%s %s %s', stats, partitions, figures)) $$;
CREATE FUNCTION event_1(id int, epoch bigint, kind text, object text, details jsonb) RETURNS void
LANGUAGE sql AS $$ INSERT INTO broker_internal.calls (name, argument) VALUES ('event', format('%s %s %s', kind, object, details)) $$;
CREATE FUNCTION stop_broker_1(id int, epoch bigint, OUT leaderships_left int) LANGUAGE sql AS $$ SELECT 0 $$;
