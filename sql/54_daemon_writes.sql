-- What brokers write.

-- The fence in a statement of its own, then the check with a younger snapshot (hazards A8).  Not lock 1.
CREATE FUNCTION broker_internal.producer_ids_1(broker_id int, broker_epoch bigint, OUT first_producer_id bigint, OUT block_size int)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_xact_lock_shared(7701, producer_ids_1.broker_id);
	PERFORM check_broker(producer_ids_1.broker_id, producer_ids_1.broker_epoch);
	-- A block is named by the clock in ms: never given twice, also after a restore (hazards A5).
	INSERT INTO producer_id_block AS p (block) VALUES ((extract(epoch FROM clock_timestamp()) * 1000)::bigint)
		ON CONFLICT (one) DO UPDATE SET block = greatest(p.block + 1, excluded.block)
		RETURNING p.block * 1000 INTO first_producer_id;
	block_size := 1000;
END
$$;

-- ISR changes, many in a call, each a compare-and-set on leader, leader epoch and partition epoch, with each
-- member's broker epoch (-1: not checked).  A refused one comes back as the row is (hazards A2, A3).
-- A shrink of a partition that PostgreSQL may know less of than its replicas is refused (A1).
CREATE FUNCTION broker_internal.alter_isr_1(broker_id int, broker_epoch bigint, topic_ids uuid[], partitions int[], leader_epochs int[], partition_epochs int[], new_isrs jsonb)
RETURNS TABLE (topic_id uuid, partition int, landed bool, leader int, leader_epoch int, partition_epoch int, isr int[]) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	me          int := alter_isr_1.broker_id;
	v           bigint;
	inc         bigint;
	floor       int;
	min_default int;
	min_is_new  bool;
BEGIN
	SELECT n.version, n.incarnation, n.epoch_floor INTO v, inc, floor FROM next_version() n;
	PERFORM check_broker(me, alter_isr_1.broker_epoch);
	min_default := least_min_isr();
	min_is_new := min_isr_is_new();
	RETURN QUERY
	WITH r AS MATERIALIZED (
		SELECT x.n, x.t, x.p, x.le, x.pe, m.ids, m.epochs
		FROM unnest(topic_ids, alter_isr_1.partitions, leader_epochs, partition_epochs) WITH ORDINALITY x(t, p, le, pe, n)
			CROSS JOIN LATERAL (SELECT coalesce(array_agg((e ->> 'id')::int ORDER BY o), '{}') AS ids, coalesce(array_agg(coalesce((e ->> 'epoch')::bigint, -1) ORDER BY o), '{}') AS epochs
				FROM jsonb_array_elements(new_isrs -> (x.n - 1)::int) WITH ORDINALITY j(e, o)) m
	), u AS (
		UPDATE partitions q SET isr = r.ids, partition_epoch = q.partition_epoch + 1, version = v,
			elr = CASE WHEN cardinality(r.ids) >= min_isr(coalesce((SELECT c.value::int FROM configs c WHERE c.scope = 'topic' AND c.object = q.topic_id::text AND c.config_key = 'min.insync.replicas'), min_default),
						cardinality(q.replicas), cardinality(q.adding), cardinality(q.removing))
				THEN '{}' ELSE without(q.elr || CASE WHEN min_is_new THEN '{}' ELSE without(without(q.isr, q.elr), r.ids) END, r.ids) END
		FROM r
		WHERE q.topic_id = r.t AND q.partition = r.p AND q.leader = me AND q.leader_epoch = r.le AND q.partition_epoch = r.pe
			AND r.ids <@ q.replicas AND me = ANY (r.ids) AND cardinality(r.ids) = (SELECT count(DISTINCT i) FROM unnest(r.ids) i)
			AND (q.incarnation = inc OR cardinality(q.replicas) = 1) -- an unsettled row stays as it is
			AND NOT EXISTS (SELECT FROM unnest(r.ids, r.epochs) m(id, e) LEFT JOIN brokers k ON k.broker_id = m.id
				WHERE k.broker_id IS NULL OR k.fenced OR k.stopping AND k.broker_id <> me OR (m.e <> -1 AND m.e <> k.broker_epoch))
		RETURNING q.topic_id, q.partition, q.partition_epoch, q.isr
	), h AS (
		INSERT INTO changes SELECT DISTINCT v, u.topic_id FROM u ON CONFLICT DO NOTHING
	), log AS (
		INSERT INTO events (kind, object, topic, partition, broker_id, old, new, via, reason)
		SELECT 'partition.isr', format('%s-%s', t.topic, u.partition), t.topic, u.partition, me, q.isr::text, u.isr::text, 'controller',
			CASE WHEN q.isr <@ u.isr THEN 'caught up' ELSE 'fell behind' END
		FROM u JOIN partitions q USING (topic_id, partition) JOIN topics t USING (topic_id)
	)
	SELECT r.t, r.p, u.topic_id IS NOT NULL, q.leader, q.leader_epoch, coalesce(u.partition_epoch, q.partition_epoch), coalesce(u.isr, q.isr)
	FROM r LEFT JOIN u ON u.topic_id = r.t AND u.partition = r.p LEFT JOIN partitions q ON q.topic_id = r.t AND q.partition = r.p
	ORDER BY r.n;
	-- The one that was missing may be in now.  What the caller is told is its own change: the rest it reads.
	PERFORM finish_moves(v, floor, inc);
END
$$;

-- One partition's part of an operation is done; the last one ends the operation.
CREATE FUNCTION broker_internal.finish_operation_1(broker_id int, broker_epoch bigint, operation_id bigint, partition int, result bigint, error_code int, error_message text)
RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	id bigint := finish_operation_1.operation_id;
BEGIN
	PERFORM check_broker(finish_operation_1.broker_id, finish_operation_1.broker_epoch);
	-- Parts of one operation finish one after the other, so that the last one sees all of them.
	PERFORM FROM operations o WHERE o.operation_id = id AND o.state = 'running' FOR UPDATE;
	IF NOT FOUND THEN
		RETURN; -- cancelled, or its topic is gone
	END IF;
	UPDATE operation_parts q SET result = finish_operation_1.result, error_code = coalesce(finish_operation_1.error_code, 0), error = finish_operation_1.error_message
		WHERE q.operation_id = id AND q.partition = finish_operation_1.partition AND q.error_code IS NULL;
	IF NOT EXISTS (SELECT FROM operation_parts q WHERE q.operation_id = id AND q.error_code IS NULL) THEN
		UPDATE operations o SET finished_at = clock_timestamp(), waiting_for = NULL,
			state = CASE WHEN f.failed IS NULL THEN 'done' ELSE 'failed' END, error = f.failed
			FROM (SELECT string_agg(format('partition %s: %s', q.partition, coalesce(q.error, 'error ' || q.error_code)), '; ' ORDER BY q.partition) AS failed
				FROM operation_parts q WHERE q.operation_id = id AND q.error_code <> 0) f
			WHERE o.operation_id = id;
	END IF;
END
$$;

CREATE FUNCTION broker_internal.logs_deleted_1(broker_id int, broker_epoch bigint, topic_ids uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM check_broker(logs_deleted_1.broker_id, logs_deleted_1.broker_epoch);
	UPDATE topics t SET logs_on = without(t.logs_on, ARRAY[logs_deleted_1.broker_id])
		WHERE t.topic_id = ANY (topic_ids) AND t.deleted_at IS NOT NULL AND logs_deleted_1.broker_id = ANY (t.logs_on);
END
$$;

-- A replica that was given back meanwhile has no row here any more, or one of a later epoch.
CREATE FUNCTION broker_internal.replicas_dropped_1(broker_id int, broker_epoch bigint, topic_ids uuid[], partitions int[], partition_epochs int[]) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	PERFORM check_broker(replicas_dropped_1.broker_id, replicas_dropped_1.broker_epoch);
	WITH gone AS (
		DELETE FROM dropped_replicas d USING unnest(topic_ids, replicas_dropped_1.partitions, partition_epochs) x(t, p, pe)
		WHERE d.broker_id = replicas_dropped_1.broker_id AND d.topic_id = x.t AND d.partition = x.p AND d.partition_epoch = x.pe
		RETURNING d.*
	)
	DELETE FROM partition_reports r USING gone WHERE r.topic_id = gone.topic_id AND r.partition = gone.partition AND r.broker_id = gone.broker_id;
END
$$;

CREATE FUNCTION broker_internal.report_1(broker_id int, broker_epoch bigint, broker_stats jsonb, topic_ids uuid[], partitions int[], figures bigint[])
RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	me int := report_1.broker_id;
	at timestamptz := clock_timestamp();
BEGIN
	PERFORM check_broker(me, report_1.broker_epoch);
	IF cardinality(topic_ids) IS DISTINCT FROM cardinality(report_1.partitions) OR coalesce(cardinality(figures), 0) <> 7 * coalesce(cardinality(topic_ids), 0) THEN
		RAISE EXCEPTION 'a report has 7 figures a partition' USING ERRCODE = '22023';
	END IF;
	INSERT INTO broker_reports (broker_id, reported_at, disk_free_bytes, disk_total_bytes, connections, log_dir)
		VALUES (me, at, (broker_stats ->> 'disk_free_bytes')::bigint, (broker_stats ->> 'disk_total_bytes')::bigint, (broker_stats ->> 'connections')::int, broker_stats ->> 'log_dir')
		ON CONFLICT (broker_id) DO UPDATE SET reported_at = excluded.reported_at, disk_free_bytes = excluded.disk_free_bytes,
			disk_total_bytes = excluded.disk_total_bytes, connections = excluded.connections, log_dir = excluded.log_dir;
	INSERT INTO partition_reports AS r (topic_id, partition, broker_id, log_start_offset, high_watermark, last_stable_offset, log_end_offset,
			size_bytes, last_append_at, is_online, changed_at)
		SELECT DISTINCT ON (x.t, x.p) x.t, x.p, me, figures[x.n * 7 - 6], figures[x.n * 7 - 5], figures[x.n * 7 - 4], figures[x.n * 7 - 3], figures[x.n * 7 - 2],
			to_timestamp(nullif(figures[x.n * 7 - 1], -1) / 1000.0), figures[x.n * 7] = 1, at
		FROM unnest(topic_ids, report_1.partitions) WITH ORDINALITY x(t, p, n)
		WHERE EXISTS (SELECT FROM partitions q WHERE q.topic_id = x.t AND q.partition = x.p) ORDER BY x.t, x.p, x.n DESC
		ON CONFLICT (topic_id, partition, broker_id) DO UPDATE SET log_start_offset = excluded.log_start_offset, high_watermark = excluded.high_watermark,
			last_stable_offset = excluded.last_stable_offset, log_end_offset = excluded.log_end_offset, size_bytes = excluded.size_bytes,
			last_append_at = excluded.last_append_at, is_online = excluded.is_online, changed_at = excluded.changed_at;
END
$$;

CREATE FUNCTION broker_internal.event_1(broker_id int, broker_epoch bigint, kind text, object text, details jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM check_broker(event_1.broker_id, event_1.broker_epoch);
	PERFORM add_event(event_1.kind, event_1.object, event_1.details ->> 'topic', (event_1.details ->> 'partition')::int, event_1.broker_id, NULL, NULL, NULL,
		event_1.details, NULL, 'controller', NULL, NULL);
END
$$;
