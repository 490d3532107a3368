-- What the tests share: brokers that register from the test's own session, and short ways to ask.
CREATE SCHEMA fx;

-- The n-th process, the n-th disk: known uuids.
CREATE FUNCTION fx.id(n int) RETURNS uuid IMMUTABLE LANGUAGE sql AS $$ SELECT lpad(n::text, 32, '0')::uuid $$;

-- Broker `id` registers as process `process` on disk `disk`; the disk remembers the last epoch unless told otherwise.
CREATE FUNCTION fx.register(id int, process int DEFAULT NULL, disk int DEFAULT NULL, disk_epoch bigint DEFAULT NULL, rack text DEFAULT NULL, static_config jsonb DEFAULT '{}')
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	e bigint;
BEGIN
	SELECT r.broker_epoch INTO e FROM broker_internal.register_broker_1(id, fx.id(coalesce(process, id)), fx.id(1000 + coalesce(disk, id)),
		coalesce(disk_epoch, (SELECT b.broker_epoch FROM broker_internal.brokers b WHERE b.broker_id = id), -1),
		(SELECT c.cluster_id FROM broker_internal.cluster c), rack,
		format('[{"name":"PLAINTEXT","host":"b%s","port":%s,"protocol":"PLAINTEXT"}]', id, 9091 + id)::jsonb, '1.0', static_config) r;
	PERFORM broker_internal.heartbeat_1(id, e);
	RETURN e;
END
$$;

CREATE FUNCTION fx.epoch(id int) RETURNS bigint LANGUAGE sql AS $$ SELECT broker_epoch FROM broker_internal.brokers WHERE broker_id = id $$;

CREATE FUNCTION fx.tick(id int DEFAULT 1, refused int[] DEFAULT '{}') RETURNS bool LANGUAGE sql AS $$
	SELECT did_something FROM broker_internal.tick_1(id, fx.epoch(id), refused)
$$;

CREATE FUNCTION fx.topic_id(name text) RETURNS uuid LANGUAGE sql AS $$ SELECT topic_id FROM broker_internal.topics WHERE topic = name AND deleted_at IS NULL $$;

-- "leader isr elr": 1 {1,2} {}
CREATE FUNCTION fx.state(name text, part int DEFAULT 0) RETURNS text LANGUAGE sql AS $$
	SELECT format('%s %s %s', coalesce(leader::text, 'none'), isr, elr) FROM broker_internal.partitions WHERE topic_id = fx.topic_id(name) AND partition = part
$$;

-- A topic of one partition with these replicas, leader the first, all in sync.
CREATE FUNCTION fx.topic(name text, replicas int[], config jsonb DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	c int;
BEGIN
	SELECT error_code INTO c FROM broker_internal.create_topics_1('User:test', NULL,
		jsonb_build_array(jsonb_build_object('name', name, 'assignment', jsonb_build_object('0', replicas), 'config', config)), false);
	IF c <> 0 THEN
		RAISE 'topic % was refused: %', name, c;
	END IF;
END
$$;

CREATE FUNCTION fx.alter_isr(me int, name text, isr int[], part int DEFAULT 0, leader_epoch int DEFAULT NULL, partition_epoch int DEFAULT NULL, epochs bigint[] DEFAULT NULL)
RETURNS bool LANGUAGE sql AS $$
	SELECT a.landed FROM broker_internal.partitions p,
		broker_internal.alter_isr_1(me, fx.epoch(me), ARRAY[p.topic_id], ARRAY[p.partition], ARRAY[coalesce($5, p.leader_epoch)], ARRAY[coalesce($6, p.partition_epoch)],
			jsonb_build_array((SELECT jsonb_agg(jsonb_build_object('id', u.id, 'epoch', coalesce(u.e, fx.epoch(u.id), -1))) FROM unnest($3, $7) u(id, e)))) a
	WHERE p.topic_id = fx.topic_id(name) AND p.partition = part
$$;
