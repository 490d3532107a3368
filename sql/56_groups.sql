-- Groups: what a coordinator reads and writes.
--
-- The fence (hazards A8).  A write takes the broker's fence shared in a statement of its own, and looks at
-- slots and generations in the next one, whose snapshot is younger than the lock.  Who moves a slot takes the
-- fence of its old coordinator exclusively.  So a write either is committed before the move, and the new
-- coordinator reads it, or it sees the move and changes nothing.

-- FNV-1a over the bytes, as brokerd/group/slot.h has it.
CREATE FUNCTION broker_internal.slot_of(id text) RETURNS int IMMUTABLE STRICT LANGUAGE plpgsql AS $$
DECLARE
	b bytea  := convert_to(id, 'UTF8');
	h bigint := 2166136261;
BEGIN
	FOR i IN 0 .. length(b) - 1 LOOP
		h := ((h # get_byte(b, i)) * 16777619) & 4294967295;
	END LOOP;
	RETURN h % 256;
END
$$;

-- ---- who coordinates what ----

-- How many slots a broker is to have: an even share, the rest to the lowest ids.
CREATE FUNCTION broker_internal.slot_quotas() RETURNS TABLE (broker_id int, quota int) STABLE LANGUAGE sql AS $$
	SELECT b.id, 256 / cardinality(live_brokers()) + (b.n <= 256 % cardinality(live_brokers()))::int
	FROM unnest(live_brokers()) WITH ORDINALITY b(id, n)
$$;

-- A slot without a live coordinator, or a live broker with less than its share.
CREATE FUNCTION broker_internal.slots_are_unfair() RETURNS bool STABLE LANGUAGE sql AS $$
	SELECT cardinality(live_brokers()) > 0 AND (
		(SELECT count(*) FROM slots WHERE coordinator = ANY (live_brokers())) < 256
		OR EXISTS (SELECT FROM unnest(live_brokers()) b(id)
			WHERE (SELECT count(*) FROM slots s WHERE s.coordinator = b.id) < 256 / cardinality(live_brokers())))
$$;

-- Under lock 1.  What a broker has within its share stays with it.
CREATE FUNCTION broker_internal.move_slots() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	old     int;
	moving  int[];
	targets int[];
BEGIN
	PERFORM next_version();
	IF NOT slots_are_unfair() THEN
		RETURN; -- somebody was faster
	END IF;
	INSERT INTO slots (slot) SELECT generate_series(0, 255) ON CONFLICT DO NOTHING;
	WITH ranked AS (
		SELECT s.slot, s.coordinator, row_number() OVER (PARTITION BY s.coordinator ORDER BY s.slot) AS n FROM slots s
	), kept AS (
		SELECT r.slot, r.coordinator FROM ranked r JOIN slot_quotas() q ON q.broker_id = r.coordinator AND r.n <= q.quota
	), loose AS (
		SELECT s.slot, row_number() OVER (ORDER BY s.slot) AS n FROM slots s WHERE NOT EXISTS (SELECT FROM kept k WHERE k.slot = s.slot)
	), room AS (
		SELECT q.broker_id, row_number() OVER (ORDER BY i, q.broker_id) AS n
		FROM slot_quotas() q, generate_series(1, q.quota - (SELECT count(*) FROM kept k WHERE k.coordinator = q.broker_id)) i
	)
	SELECT array_agg(loose.slot), array_agg(room.broker_id) INTO moving, targets FROM loose JOIN room USING (n);
	-- What the old coordinators have under way is committed, or sees the move.  (A fenced one sees that it is fenced.)
	FOR old IN SELECT DISTINCT s.coordinator FROM slots s JOIN brokers b ON b.broker_id = s.coordinator AND NOT b.fenced WHERE s.slot = ANY (moving) ORDER BY 1 LOOP
		PERFORM pg_advisory_xact_lock(7701, old);
	END LOOP;
	UPDATE slots s SET coordinator = m.coordinator, epoch = s.epoch + 1, moved_at = clock_timestamp()
		FROM unnest(moving, targets) m(slot, coordinator) WHERE m.slot = s.slot;
	PERFORM add_event('groups.moved', 'cluster', NULL, NULL, NULL, NULL, NULL, format('%s of 256 slots', cardinality(moving)),
		(SELECT jsonb_object_agg(coordinator, n) FROM (SELECT coordinator, count(*) AS n FROM slots GROUP BY 1) x), NULL, 'controller', NULL, NULL);
END
$$;

-- Every slot's coordinator.  Whoever sees that they have to be moved moves them.
CREATE FUNCTION broker_internal.slots_1(broker_id int, broker_epoch bigint) RETURNS TABLE (slot int, coordinator int, slot_epoch bigint)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM check_broker(slots_1.broker_id, slots_1.broker_epoch);
	IF slots_are_unfair() THEN
		PERFORM move_slots();
	END IF;
	RETURN QUERY SELECT s.slot, s.coordinator, s.epoch FROM slots s ORDER BY 1;
END
$$;

-- The groups of these slots, one row a member (or one with a NULL member), in pages of whole groups.
CREATE FUNCTION broker_internal.load_groups_1(broker_id int, broker_epoch bigint, slots int[], after_group text, max_groups int)
RETURNS TABLE (group_id text, generation int, protocol_type text, assignor text, leader text, member_id text, instance_id text, client_id text,
	client_host text, session_timeout_ms int, rebalance_timeout_ms int, protocols bytea, assignment bytea, age_ms bigint, fenced bool)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	PERFORM check_broker(load_groups_1.broker_id, load_groups_1.broker_epoch);
	RETURN QUERY
		SELECT g.group_id, g.generation, g.protocol_type, g.assignor, g.leader, m.member_id, m.instance_id, m.client_id, m.client_host,
			m.session_timeout_ms, m.rebalance_timeout_ms, m.protocols, m.assignment,
			(extract(epoch FROM clock_timestamp() - m.joined_at) * 1000)::bigint, g.fenced
		FROM (SELECT * FROM groups g WHERE g.slot = ANY (load_groups_1.slots) AND g.group_id > coalesce(after_group, '')
				ORDER BY g.group_id LIMIT max_groups) g
			LEFT JOIN group_members m ON m.group_no = g.group_no
		ORDER BY g.group_id, m.position;
END
$$;

-- ---- generations ----

-- outcome 0: written; 1: the slot is another broker's; 2: SQL has another generation, stored_generation.
-- Writing the same generation twice is harmless, so an unknown outcome is repeated.
CREATE FUNCTION broker_internal.save_group_1(broker_id int, broker_epoch bigint, slot int, slot_epoch bigint, group_id text,
	expected int, generation int, protocol_type text, assignor text, leader text, members jsonb, history jsonb,
	OUT outcome int, OUT stored_generation int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	me    int  := save_group_1.broker_id;
	gid   text := save_group_1.group_id;
	n     int  := jsonb_array_length(save_group_1.members);
	at    timestamptz := clock_timestamp();
	moved int;
	f     bool;
	g_no  bigint;
BEGIN
	PERFORM pg_advisory_xact_lock_shared(7701, me);
	PERFORM check_broker(me, save_group_1.broker_epoch);
	IF NOT EXISTS (SELECT FROM slots l WHERE l.slot = save_group_1.slot AND l.coordinator = me AND l.epoch = save_group_1.slot_epoch) THEN
		outcome := 1;
		RETURN;
	END IF;
	INSERT INTO groups (group_id, slot) SELECT gid, save_group_1.slot WHERE save_group_1.expected = 0 ON CONFLICT DO NOTHING;
	SELECT g.group_no, g.generation, g.fenced INTO g_no, stored_generation, f FROM groups g WHERE g.group_id = gid FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		-- Deleted meanwhile: the generation goes on from nothing.
		INSERT INTO groups AS g (group_id, slot) VALUES (gid, save_group_1.slot) RETURNING g.group_no INTO g_no;
		stored_generation := save_group_1.expected;
		f := false;
	END IF;
	IF stored_generation <> save_group_1.expected AND (f OR stored_generation <> save_group_1.generation) THEN
		outcome := 2;
		RETURN;
	END IF;

	WITH old AS (
		SELECT m.member_id, t.key AS topic, p.value AS partition
		FROM group_members m, jsonb_each(m.partitions) t, jsonb_array_elements(t.value) p WHERE m.group_no = g_no
	), new AS (
		SELECT m ->> 'id' AS member_id, t.key AS topic, p.value AS partition
		FROM jsonb_array_elements(save_group_1.members) m, jsonb_each(coalesce(nullif(m -> 'partitions', 'null'), '{}')) t, jsonb_array_elements(t.value) p
	)
	SELECT count(*) INTO moved FROM (SELECT * FROM new EXCEPT SELECT * FROM old) x;

	DELETE FROM group_members m WHERE m.group_no = g_no;
	INSERT INTO group_members (group_no, member_id, position, instance_id, client_id, client_host, session_timeout_ms, rebalance_timeout_ms,
			protocols, assignment, partitions, joined_at)
		SELECT g_no, m.v ->> 'id', m.n, m.v ->> 'instance', m.v ->> 'client', m.v ->> 'host', (m.v ->> 'session')::int, (m.v ->> 'rebalance')::int,
			decode(m.v ->> 'protocols', 'hex'), decode(m.v ->> 'assignment', 'hex'), nullif(m.v -> 'partitions', 'null'),
			at - (m.v ->> 'age_ms')::bigint * interval '1 ms'
		FROM jsonb_array_elements(save_group_1.members) WITH ORDINALITY m(v, n);
	UPDATE groups g SET generation = save_group_1.generation, fenced = false, state = CASE WHEN n = 0 THEN 'empty' ELSE 'stable' END,
			protocol_type = save_group_1.protocol_type, assignor = save_group_1.assignor, leader = save_group_1.leader,
			empty_since = CASE WHEN n = 0 THEN coalesce(g.empty_since, at) END, changed_at = at
		WHERE g.group_no = g_no;
	IF history IS NOT NULL THEN
		INSERT INTO rebalances AS r (group_no, group_id, generation, started_at, duration, reason, member, members_before, members_after, partitions_moved, coordinator)
			VALUES (g_no, gid, save_group_1.generation, at - (history ->> 'duration_ms')::bigint * interval '1 ms', (history ->> 'duration_ms')::bigint * interval '1 ms',
				history ->> 'reason', history ->> 'member', (history ->> 'before')::int, (history ->> 'after')::int, moved, me)
			ON CONFLICT (group_no, generation) DO UPDATE SET started_at = excluded.started_at, duration = excluded.duration, reason = excluded.reason,
				member = excluded.member, members_before = excluded.members_before, members_after = excluded.members_after,
				partitions_moved = CASE WHEN excluded.started_at - r.started_at < interval '1 minute' THEN greatest(r.partitions_moved, excluded.partitions_moved)
					ELSE excluded.partitions_moved END, coordinator = excluded.coordinator;
	END IF;
	outcome := 0;
	stored_generation := save_group_1.generation;
END
$$;

-- For people: groups that began to rebalance.  Best effort, and nothing when it does not fit any more.
CREATE FUNCTION broker_internal.note_groups_1(broker_id int, broker_epoch bigint, group_ids text[], states text[]) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	PERFORM pg_advisory_xact_lock_shared(7701, note_groups_1.broker_id);
	PERFORM check_broker(note_groups_1.broker_id, note_groups_1.broker_epoch);
	UPDATE groups g SET state = x.s, changed_at = clock_timestamp()
		FROM unnest(group_ids, note_groups_1.states) x(g, s), slots l
		WHERE g.group_id = x.g AND l.slot = g.slot AND l.coordinator = note_groups_1.broker_id AND g.state <> x.s;
END
$$;

-- ---- offsets ----

-- A batch.  One entry a (group, generation, topic): group_ids to generations, and topic_ids; rows name theirs by its
-- number from 1.
-- Refused entries come back: 16 NOT_COORDINATOR, 22 ILLEGAL_GENERATION with what SQL has; the others are written.
--
-- What is looked at stays so until the end: slots and broker epochs change under this broker's fence, and generations
-- of its groups on this session.  The settings pin the plans, which are made once a session, perhaps while the tables
-- are empty: a row of the batch is one look into an index, whatever the statistics say, in the order of the batch.
CREATE FUNCTION broker_internal.commit_offsets_1(broker_id int, broker_epoch bigint, group_ids text[], slots int[], slot_epochs bigint[], generations int[],
	entries int[], topic_ids uuid[], partitions int[], offsets bigint[], leader_epochs int[], metadata bytea[])
RETURNS TABLE (entry int, error_code int, stored_generation int)
SET plan_cache_mode = force_generic_plan SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_memoize = off
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	me      int := commit_offsets_1.broker_id;
	at      timestamptz := clock_timestamp();
	no      bigint;
	owners  bigint[]; -- of each entry; NULL: refused
	stored  int[];
	held    bool[];
	missing bool;
BEGIN
	PERFORM pg_advisory_xact_lock_shared(7701, me);
	PERFORM check_broker(me, commit_offsets_1.broker_epoch);
	no := nextval('broker_internal.commit_numbers');
	FOR look IN 1 .. 2 LOOP
		SELECT array_agg(CASE WHEN l.slot IS NOT NULL AND q.generation = x.gen THEN q.group_no END ORDER BY x.n), array_agg(q.generation ORDER BY x.n),
				array_agg(l.slot IS NOT NULL ORDER BY x.n), bool_or(l.slot IS NOT NULL AND q.group_no IS NULL AND x.gen = 0)
			INTO owners, stored, held, missing
			FROM unnest(group_ids, commit_offsets_1.slots, slot_epochs, generations) WITH ORDINALITY x(g, s, e, gen, n)
				LEFT JOIN slots l ON l.slot = x.s AND l.coordinator = me AND l.epoch = x.e
				LEFT JOIN groups q ON q.group_id = x.g;
		EXIT WHEN missing IS NOT TRUE;
		-- The first commit makes a simple group.
		INSERT INTO groups (group_id, slot)
			SELECT DISTINCT x.g, x.s FROM unnest(group_ids, commit_offsets_1.slots, generations, held, stored) x(g, s, gen, held, stored)
			WHERE x.gen = 0 AND x.held AND x.stored IS NULL ORDER BY 1
			ON CONFLICT DO NOTHING;
	END LOOP;
	MERGE INTO offsets f
		USING (SELECT owners[entries[i]] AS g, topic_ids[entries[i]] AS t, partitions[i] AS p, offsets[i] AS o, nullif(leader_epochs[i], -1) AS le, nullif(metadata[i], '') AS m
			FROM generate_series(1, cardinality(entries)) i WHERE owners[entries[i]] IS NOT NULL) x
		ON f.group_no = x.g AND f.topic_id = x.t AND f.partition = x.p
		-- An idle consumer commits the same again and again: a row a minute says that it lives.
		WHEN MATCHED AND ((f.committed_offset, f.leader_epoch, f.metadata) IS DISTINCT FROM (x.o, x.le, x.m) OR f.committed_at < at - interval '1 minute') THEN
			UPDATE SET committed_offset = x.o, leader_epoch = x.le, metadata = x.m, committed_at = at, commit_no = no
		WHEN NOT MATCHED THEN
			INSERT (group_no, topic_id, partition, committed_offset, leader_epoch, metadata, committed_at, commit_no) VALUES (x.g, x.t, x.p, x.o, x.le, x.m, at, no);
	RETURN QUERY SELECT x.n::int, CASE WHEN x.held THEN 22 ELSE 16 END, coalesce(x.stored, 0)
		FROM unnest(owners, held, stored) WITH ORDINALITY x(owner, held, stored, n) WHERE x.owner IS NULL;
END
$$;

-- Committed offsets of one group: of the partitions named, or of all (NULL).  is_unstable: an administrator's
-- reset is under way, so the answer would be a place that is about to move.
CREATE FUNCTION broker_internal.fetch_offsets_1(group_id text, topic_ids uuid[], partitions int[])
RETURNS TABLE (topic_id uuid, topic text, partition int, committed_offset bigint, leader_epoch int, metadata bytea, is_unstable bool)
STABLE LANGUAGE sql AS $$
	WITH g AS MATERIALIZED (
		SELECT g.group_no FROM broker_internal.groups g WHERE g.group_id = $1
	), moving AS MATERIALIZED (
		SELECT EXISTS (SELECT FROM broker_internal.operations o WHERE o.state IN ('waiting', 'running') AND o.kind = 'group.reset' AND o.object = 'group ' || $1) AS yes
	)
	SELECT f.topic_id, t.topic, f.partition, f.committed_offset, coalesce(f.leader_epoch, -1), coalesce(f.metadata, ''), m.yes
	FROM g JOIN broker_internal.offsets f ON f.group_no = g.group_no JOIN broker_internal.topics t ON t.topic_id = f.topic_id AND t.deleted_at IS NULL, moving m
	WHERE $2 IS NULL
	UNION ALL
	SELECT f.topic_id, NULL, f.partition, f.committed_offset, coalesce(f.leader_epoch, -1), coalesce(f.metadata, ''), m.yes
	FROM g, unnest($2, $3) x(t, p) JOIN broker_internal.offsets f ON f.topic_id = x.t AND f.partition = x.p, moving m
	WHERE f.group_no = g.group_no
$$;

-- Is this slot ours?  Takes the fence; the statement after it may write.
CREATE FUNCTION broker_internal.hold_slot(me int, epoch bigint, slot int, slot_epoch bigint) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_xact_lock_shared(7701, me);
	PERFORM check_broker(me, epoch);
	RETURN EXISTS (SELECT FROM slots l WHERE l.slot = $3 AND l.coordinator = me AND l.epoch = slot_epoch);
END
$$;

-- error_code 0, 16, 69 GROUP_ID_NOT_FOUND, 68 NON_EMPTY_GROUP.  The coordinator has looked at its members before.
CREATE FUNCTION broker_internal.delete_group_1(broker_id int, broker_epoch bigint, slot int, slot_epoch bigint, group_id text, OUT error_code int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	g_no bigint;
BEGIN
	IF NOT hold_slot(delete_group_1.broker_id, delete_group_1.broker_epoch, delete_group_1.slot, delete_group_1.slot_epoch) THEN
		error_code := 16;
		RETURN;
	END IF;
	SELECT g.group_no INTO g_no FROM groups g WHERE g.group_id = delete_group_1.group_id;
	IF EXISTS (SELECT FROM group_members m WHERE m.group_no = g_no) THEN
		error_code := 68;
	ELSE
		DELETE FROM groups g WHERE g.group_no = g_no;
		error_code := CASE WHEN FOUND THEN 0 ELSE 69 END;
		DELETE FROM offsets f WHERE f.group_no = g_no;
		DELETE FROM configs c WHERE c.scope = 'group' AND c.object = delete_group_1.group_id;
		IF error_code = 0 THEN
			PERFORM add_event('group.delete', 'group ' || delete_group_1.group_id, NULL, NULL, delete_group_1.broker_id, delete_group_1.group_id,
				NULL, NULL, NULL, NULL, 'kafka', NULL, NULL);
		END IF;
	END IF;
END
$$;

-- Offsets of these partitions; the coordinator has seen to it that nobody reads them.  error_code 0 or 16.
CREATE FUNCTION broker_internal.delete_offsets_1(broker_id int, broker_epoch bigint, slot int, slot_epoch bigint, group_id text, topic_ids uuid[], partitions int[],
	OUT error_code int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	IF NOT hold_slot(delete_offsets_1.broker_id, delete_offsets_1.broker_epoch, delete_offsets_1.slot, delete_offsets_1.slot_epoch) THEN
		error_code := 16;
		RETURN;
	END IF;
	DELETE FROM offsets f USING groups g, unnest(topic_ids, delete_offsets_1.partitions) x(t, p)
		WHERE g.group_id = delete_offsets_1.group_id AND f.group_no = g.group_no AND f.topic_id = x.t AND f.partition = x.p;
	error_code := 0;
END
$$;

-- offsets.retention.minutes: counted while a group is empty, for a simple group since each commit.  Offsets go
-- with their topic, and an empty group with its last offset.  Returns the groups that are gone.  History goes too.
CREATE FUNCTION broker_internal.expire_offsets_1(broker_id int, broker_epoch bigint, slots int[], retention_ms bigint) RETURNS TABLE (group_id text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	me    int := expire_offsets_1.broker_id;
	limit_at timestamptz := clock_timestamp() - retention_ms * interval '1 ms';
	ours  int[];
BEGIN
	PERFORM pg_advisory_xact_lock_shared(7701, me);
	PERFORM check_broker(me, expire_offsets_1.broker_epoch);
	ours := ARRAY (SELECT l.slot FROM slots l WHERE l.coordinator = me AND l.slot = ANY (expire_offsets_1.slots));
	DELETE FROM offsets f USING groups g
		WHERE g.group_no = f.group_no AND g.slot = ANY (ours)
			AND (g.empty_since < limit_at AND (g.protocol_type IS NOT NULL OR f.committed_at < limit_at)
				OR NOT EXISTS (SELECT FROM topics t WHERE t.topic_id = f.topic_id AND t.deleted_at IS NULL)
					AND EXISTS (SELECT FROM topics t WHERE t.topic_id = f.topic_id));
	DELETE FROM rebalances r WHERE r.started_at < clock_timestamp() - coalesce(current_setting('broker.event_retention', true), '30d')::interval;
	RETURN QUERY DELETE FROM groups g WHERE g.slot = ANY (ours) AND g.empty_since < limit_at
			AND NOT EXISTS (SELECT FROM offsets f WHERE f.group_no = g.group_no)
			AND NOT EXISTS (SELECT FROM group_members m WHERE m.group_no = g.group_no)
		RETURNING g.group_id;
END
$$;
