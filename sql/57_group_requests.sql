-- What people ask of groups, and what coordinators do about it.  A request is an operation that runs from its commit on;
-- the coordinator of the group carries it out, because it alone knows who is in the group at this moment.

CREATE FUNCTION broker_internal.no_group(id text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'group "%" does not exist', id USING ERRCODE = 'PB069',
		HINT = coalesce('Perhaps you meant "' || (SELECT group_id FROM groups WHERE lower(group_id) = lower(id) LIMIT 1) || '".', 'The groups are in broker.groups.');
END
$$;

-- PB068 with the members' names.
CREATE FUNCTION broker_internal.not_empty(id text, hint text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'group "%" is not empty', id USING ERRCODE = 'PB068', HINT = hint,
		DETAIL = (SELECT format('It has %s member%s in generation %s: %s%s.', count(*), CASE WHEN count(*) > 1 THEN 's' ELSE '' END, max(g.generation),
				string_agg(format('%s (%s)', m.client_id, ltrim(m.client_host, '/')), ', ' ORDER BY m.position) FILTER (WHERE m.position <= 5),
				CASE WHEN count(*) > 5 THEN ', …' ELSE '' END)
			FROM group_members m JOIN groups g USING (group_no) WHERE g.group_id = id);
END
$$;

CREATE FUNCTION broker_internal.group_has_members(id text) RETURNS bool STABLE LANGUAGE sql AS $$
	SELECT EXISTS (SELECT FROM broker_internal.group_members m JOIN broker_internal.groups g USING (group_no) WHERE g.group_id = id)
$$;

CREATE FUNCTION broker_internal.add_group_request(kind text, id text, topic_id uuid, args jsonb, caller text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	o bigint;
BEGIN
	o := add_operation(kind, 'group ' || id, topic_id, args || jsonb_build_object('group_id', id, 'reason', nullif(current_setting('broker.reason', true), '')), caller, 'running');
	UPDATE operations SET waiting_for = 'the coordinator' WHERE operation_id = o;
	RETURN o;
END
$$;

-- Requests for groups of this broker's slots.  A reset waits until the leaders have said where it goes: that is an
-- operation of its own for each topic, group.locate, with one part a partition.
CREATE FUNCTION broker_internal.group_requests_1(broker_id int, broker_epoch bigint) RETURNS TABLE (operation_id bigint, kind text, group_id text, topic text, topic_id uuid,
	partitions int[], member_id text, instance_id text, force bool, reason text)
STABLE LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	PERFORM check_broker(group_requests_1.broker_id, group_requests_1.broker_epoch);
	RETURN QUERY SELECT o.operation_id, o.kind, o.args ->> 'group_id', t.topic, o.topic_id,
			ARRAY (SELECT p::int FROM jsonb_array_elements_text(o.args -> 'partitions') p), o.args ->> 'member_id', o.args ->> 'instance_id',
			coalesce((o.args ->> 'force')::bool, false), coalesce(o.args ->> 'reason', o.requested_by)
		FROM operations o LEFT JOIN topics t ON t.topic_id = o.topic_id
		WHERE o.state = 'running' AND o.kind IN ('group.reset', 'group.delete', 'group.kick', 'group.delete_offsets')
			AND NOT EXISTS (SELECT FROM operations w WHERE w.operation_id IN (SELECT i::bigint FROM jsonb_array_elements_text(o.args -> 'locate') i) AND w.state = 'running')
			AND EXISTS (SELECT FROM slots l WHERE l.slot = slot_of(o.args ->> 'group_id') AND l.coordinator = group_requests_1.broker_id)
		ORDER BY o.operation_id LIMIT 100;
END
$$;

CREATE FUNCTION broker_internal.end_operation(id bigint, failure text) RETURNS void LANGUAGE sql AS $$
	UPDATE operations o SET state = CASE WHEN failure IS NULL THEN 'done' ELSE 'failed' END, error = failure, waiting_for = NULL, finished_at = clock_timestamp()
		WHERE o.operation_id = id AND o.state = 'running'
$$;

CREATE FUNCTION broker_internal.finish_group_request_1(broker_id int, broker_epoch bigint, operation_id bigint, error_message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM check_broker(finish_group_request_1.broker_id, finish_group_request_1.broker_epoch);
	PERFORM end_operation(finish_group_request_1.operation_id, error_message);
END
$$;

-- Writes a reset's offsets.  Of a group with members it raises the generation, so that what they still commit from
-- their old place is refused.  Returns that generation, NULL when nobody has to be told; or why it failed.
CREATE FUNCTION broker_internal.apply_reset_1(broker_id int, broker_epoch bigint, slot int, slot_epoch bigint, operation_id bigint, has_members bool, OUT generation int, OUT failure text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	o     operations;
	gid   text;
	g_no  bigint;
	old   jsonb;
	new   jsonb;
BEGIN
	IF NOT hold_slot(apply_reset_1.broker_id, apply_reset_1.broker_epoch, apply_reset_1.slot, apply_reset_1.slot_epoch) THEN
		RETURN; -- the new coordinator does it
	END IF;
	SELECT * INTO o FROM operations x WHERE x.operation_id = apply_reset_1.operation_id AND x.state = 'running' FOR UPDATE;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	gid := o.args ->> 'group_id';
	SELECT g.group_no INTO g_no FROM groups g WHERE g.group_id = gid;
	SELECT string_agg(coalesce(w.error, 'the leaders were not asked'), '; ') INTO failure FROM jsonb_array_elements_text(o.args -> 'locate') i
		LEFT JOIN operations w ON w.operation_id = i::bigint WHERE w.state IS DISTINCT FROM 'done';
	IF g_no IS NULL THEN
		failure := 'the group was deleted meanwhile';
	END IF;
	IF failure IS NULL AND has_members AND NOT (o.args ->> 'fence')::bool THEN
		failure := 'the group has members by now; stop them, or pass fence => true';
	END IF;
	IF failure IS NULL AND has_members THEN
		UPDATE groups g SET generation = g.generation + 1, fenced = true, changed_at = clock_timestamp() WHERE g.group_no = g_no RETURNING g.generation INTO generation;
	END IF;
	IF failure IS NULL THEN
		SELECT jsonb_object_agg(t.topic || '-' || f.partition, f.committed_offset), jsonb_object_agg(t.topic || '-' || w.partition, w.off) INTO old, new
			FROM reset_targets(o.operation_id) w JOIN topics t USING (topic_id) LEFT JOIN offsets f ON f.group_no = g_no AND f.topic_id = w.topic_id AND f.partition = w.partition;
		INSERT INTO offsets AS f (group_no, topic_id, partition, committed_offset, committed_at, commit_no)
			SELECT g_no, w.topic_id, w.partition, w.off, clock_timestamp(), nextval('broker_internal.commit_numbers') FROM reset_targets(o.operation_id) w ORDER BY 2, 3
			ON CONFLICT (group_no, topic_id, partition) DO UPDATE SET committed_offset = excluded.committed_offset, leader_epoch = NULL, metadata = NULL,
				committed_at = excluded.committed_at, commit_no = excluded.commit_no;
		PERFORM add_event('group.reset', 'group ' || gid, NULL, NULL, apply_reset_1.broker_id, gid, old::text, new::text, jsonb_build_object('old', old, 'new', new),
			o.requested_by, 'sql', NULL, o.args ->> 'reason');
	END IF;
	PERFORM end_operation(o.operation_id, failure);
END
$$;

-- Where a reset goes: what the leaders found, or what was given.
CREATE FUNCTION broker_internal.reset_targets(id bigint) RETURNS TABLE (topic_id uuid, partition int, off bigint) STABLE LANGUAGE sql AS $$
	SELECT q.topic_id, q.partition, q.result FROM operations o, jsonb_array_elements_text(o.args -> 'locate') i JOIN operation_parts q ON q.operation_id = i::bigint
		WHERE o.operation_id = id AND q.result >= 0
	UNION ALL
	SELECT (x ->> 'topic_id')::uuid, (x ->> 'partition')::int, (x ->> 'offset')::bigint FROM operations o, jsonb_array_elements(o.args -> 'offsets') x WHERE o.operation_id = id
$$;

-- ---- the doors ----

CREATE FUNCTION broker_internal.do_reset_offsets(caller text, gid text, topic_name text, to_position text, to_time timestamptz, to_offset bigint, shift_by bigint, offsets jsonb, parts int[],
	fence bool, dry_run bool)
RETURNS TABLE (topic text, partition int, old_offset bigint, new_offset bigint, moved_by bigint, report_age interval) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	g    groups;
	find bigint[] := '{}';
	at   bigint := CASE WHEN to_position = 'earliest' THEN -2 WHEN to_position = 'latest' THEN -1 WHEN to_time IS NOT NULL THEN (extract(epoch FROM to_time) * 1000)::bigint END;
	bad  record;
	rows jsonb;
BEGIN
	fence := coalesce(fence, false);
	IF num_nonnulls(to_position, to_time, to_offset, shift_by, offsets) <> 1 THEN
		RAISE EXCEPTION 'give exactly one of to_position, to_time, to_offset, shift_by, offsets' USING ERRCODE = '22023',
			HINT = format('SELECT * FROM broker.reset_offsets(%L, to_position => ''earliest'', dry_run => true);', coalesce(gid, 'group'));
	ELSIF to_position NOT IN ('earliest', 'latest') THEN
		RAISE EXCEPTION 'to_position is ''earliest'' or ''latest'', not %', quote_literal(to_position) USING ERRCODE = '22023', HINT = 'For a time there is to_time, for an offset to_offset.';
	ELSIF offsets IS NOT NULL AND (topic_name IS NOT NULL OR parts IS NOT NULL) THEN
		RAISE EXCEPTION 'offsets names its topics and partitions itself' USING ERRCODE = '22023', HINT = 'Leave topic and partitions out.';
	ELSIF parts IS NOT NULL AND topic_name IS NULL THEN
		RAISE EXCEPTION 'partitions needs a topic' USING ERRCODE = '22023', HINT = 'Give topic as well.';
	ELSIF to_offset < 0 THEN
		RAISE EXCEPTION 'offset % is out of range', to_offset USING ERRCODE = 'PB001', HINT = 'Offsets begin at 0.';
	END IF;
	SELECT * INTO g FROM groups x WHERE x.group_id = gid;
	IF NOT FOUND THEN
		PERFORM no_group(gid);
	END IF;
	IF topic_name IS NOT NULL AND NOT EXISTS (SELECT FROM topics t WHERE t.topic = topic_name AND t.deleted_at IS NULL) THEN
		PERFORM no_topic(topic_name);
	END IF;
	FOR bad IN SELECT o.key FROM jsonb_each(coalesce(offsets, '{}')) o WHERE NOT EXISTS (SELECT FROM topics t WHERE t.topic = o.key AND t.deleted_at IS NULL) LOOP
		PERFORM no_topic(bad.key);
	END LOOP;
	IF group_has_members(gid) AND NOT fence AND NOT coalesce(dry_run, false) THEN
		PERFORM not_empty(gid, format('Stop them, or pass fence => true: they rejoin in generation %s and go on from the new offsets.', g.generation + 1));
	END IF;

	-- The plan: which partitions, from where, to where as far as it is known.
	SELECT jsonb_agg(to_jsonb(p) ORDER BY p.topic, p.partition) INTO rows FROM (
		SELECT t.topic, t.topic_id, q.partition, f.committed_offset AS old_offset, a.age,
			CASE WHEN to_time IS NOT NULL THEN NULL WHEN to_position = 'earliest' THEN r.log_start_offset WHEN to_position = 'latest' THEN r.high_watermark
				ELSE least(greatest(coalesce((offsets -> t.topic ->> q.partition::text)::bigint, to_offset, f.committed_offset + shift_by), coalesce(r.log_start_offset, 0)),
					coalesce(r.high_watermark, 9223372036854775807)) END AS new_offset
		FROM topics t JOIN partitions q USING (topic_id)
			LEFT JOIN offsets f ON f.group_no = g.group_no AND f.topic_id = t.topic_id AND f.partition = q.partition
			LEFT JOIN partition_reports r ON r.topic_id = t.topic_id AND r.partition = q.partition AND r.broker_id = q.leader
			LEFT JOIN LATERAL (SELECT clock_timestamp() - b.reported_at AS age FROM broker_reports b WHERE b.broker_id = q.leader) a ON true
		WHERE t.deleted_at IS NULL AND CASE WHEN offsets IS NOT NULL THEN offsets -> t.topic ? q.partition::text WHEN topic_name IS NOT NULL THEN t.topic = topic_name
					AND (parts IS NULL OR q.partition = ANY (parts)) AND (shift_by IS NULL OR f.partition IS NOT NULL)
				ELSE f.partition IS NOT NULL END) p;
	FOR bad IN SELECT o.key AS topic, p.key::int AS partition FROM jsonb_each(coalesce(offsets, '{}')) o, jsonb_each(o.value) p
			WHERE NOT EXISTS (SELECT FROM jsonb_array_elements(rows) x WHERE x ->> 'topic' = o.key AND x ->> 'partition' = p.key)
		UNION ALL SELECT topic_name, p FROM unnest(parts) p WHERE NOT EXISTS (SELECT FROM partitions q JOIN topics t USING (topic_id) WHERE t.topic = topic_name AND t.deleted_at IS NULL AND q.partition = p) LOOP
		RAISE EXCEPTION 'topic "%" has no partition %', bad.topic, bad.partition USING ERRCODE = 'PB003', HINT = 'The partitions are in broker.partitions.';
	END LOOP;
	IF rows IS NULL THEN
		RAISE NOTICE 'group "%" has no offsets to reset', gid USING HINT = 'Name a topic to reset all its partitions.';
	ELSIF NOT coalesce(dry_run, false) THEN
		FOR bad IN SELECT DISTINCT x ->> 'topic' AS topic, (x ->> 'topic_id')::uuid AS id FROM jsonb_array_elements(rows) x WHERE at IS NOT NULL ORDER BY 1 LOOP
			find := find || add_operation('group.locate', 'group ' || gid, bad.id, jsonb_build_object('timestamp', at), caller, 'running');
			UPDATE operations SET waiting_for = 'the leaders' WHERE operation_id = find[cardinality(find)];
			INSERT INTO operation_parts (operation_id, partition, topic_id, args)
				SELECT find[cardinality(find)], (x ->> 'partition')::int, bad.id, jsonb_build_object('timestamp', at) FROM jsonb_array_elements(rows) x WHERE x ->> 'topic' = bad.topic;
		END LOOP;
		PERFORM add_group_request('group.reset', gid, NULL, jsonb_build_object('fence', fence, 'locate', find, 'offsets', CASE WHEN at IS NULL THEN
			(SELECT jsonb_agg(jsonb_build_object('topic_id', x -> 'topic_id', 'partition', x -> 'partition', 'offset', x -> 'new_offset')) FROM jsonb_array_elements(rows) x) ELSE '[]' END), caller);
		IF group_has_members(gid) THEN
			RAISE NOTICE 'group "%" moves to generation % when this transaction commits', gid, g.generation + 1;
		END IF;
	END IF;
	RETURN QUERY SELECT x ->> 'topic', (x ->> 'partition')::int, (x ->> 'old_offset')::bigint, (x ->> 'new_offset')::bigint,
			(x ->> 'new_offset')::bigint - (x ->> 'old_offset')::bigint, (x ->> 'age')::interval
		FROM jsonb_array_elements(coalesce(rows, '[]')) WITH ORDINALITY e(x, n) ORDER BY e.n;
END
$$;

CREATE FUNCTION broker_internal.do_delete_offsets(caller text, gid text, topic_name text, parts int[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	t     topics;
	g_no  bigint;
	n     bigint;
BEGIN
	SELECT g.group_no INTO g_no FROM groups g WHERE g.group_id = gid;
	IF NOT FOUND THEN
		PERFORM no_group(gid);
	END IF;
	SELECT * INTO t FROM topics x WHERE x.topic = topic_name AND x.deleted_at IS NULL;
	IF NOT FOUND THEN
		PERFORM no_topic(topic_name);
	END IF;
	IF EXISTS (SELECT FROM group_members m WHERE m.group_no = g_no AND m.partitions ? topic_name) THEN
		RAISE EXCEPTION 'group "%" reads topic "%"', gid, topic_name USING ERRCODE = 'PB086',
			DETAIL = 'Offsets of a topic that members read would be committed again.', HINT = 'Stop the members that subscribe to it first. See broker.group_members.';
	END IF;
	SELECT count(*) INTO n FROM offsets f WHERE f.group_no = g_no AND f.topic_id = t.topic_id AND (parts IS NULL OR f.partition = ANY (parts));
	IF n > 0 THEN
		PERFORM add_event('group.delete_offsets', 'group ' || gid, topic_name, NULL, NULL, gid, n || ' offsets', NULL, NULL, caller, 'sql', inet_client_addr(),
			nullif(current_setting('broker.reason', true), ''));
		PERFORM add_group_request('group.delete_offsets', gid, t.topic_id, jsonb_build_object('partitions',
			(SELECT jsonb_agg(f.partition) FROM offsets f WHERE f.group_no = g_no AND f.topic_id = t.topic_id AND (parts IS NULL OR f.partition = ANY (parts)))), caller);
	END IF;
	RETURN n;
END
$$;

CREATE FUNCTION broker_internal.do_delete_group(caller text, gid text, force bool, if_exists bool) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM groups g WHERE g.group_id = gid) THEN
		IF NOT coalesce(if_exists, false) THEN
			PERFORM no_group(gid);
		END IF;
		RAISE NOTICE 'group "%" does not exist, skipping', gid;
		RETURN false;
	END IF;
	IF group_has_members(gid) AND NOT coalesce(force, false) THEN
		PERFORM not_empty(gid, 'Stop them, or pass force => true: they are removed, and those that still run join a new group of that name.');
	END IF;
	PERFORM add_event('group.delete', 'group ' || gid, NULL, NULL, NULL, gid, NULL, 'requested', jsonb_build_object('force', coalesce(force, false)), caller, 'sql',
		inet_client_addr(), nullif(current_setting('broker.reason', true), ''));
	PERFORM add_group_request('group.delete', gid, NULL, jsonb_build_object('force', coalesce(force, false)), caller);
	RETURN true;
END
$$;

CREATE FUNCTION broker_internal.do_kick_member(caller text, gid text, member text, instance text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	IF num_nonnulls(member, instance) <> 1 THEN
		RAISE EXCEPTION 'give one of member_id and instance_id' USING ERRCODE = '22023', HINT = 'They are in broker.group_members.';
	ELSIF NOT EXISTS (SELECT FROM groups g WHERE g.group_id = gid) THEN
		PERFORM no_group(gid);
	ELSIF NOT EXISTS (SELECT FROM group_members m JOIN groups g USING (group_no) WHERE g.group_id = gid AND (m.member_id = member OR m.instance_id = instance)) THEN
		RAISE EXCEPTION 'group "%" has no member "%"', gid, coalesce(member, instance) USING ERRCODE = 'PB025', HINT = 'The members are in broker.group_members.';
	END IF;
	PERFORM add_event('group.kick', 'group ' || gid, NULL, NULL, NULL, gid, coalesce(member, instance), NULL, NULL, caller, 'sql', inet_client_addr(),
		nullif(current_setting('broker.reason', true), ''));
	PERFORM add_group_request('group.kick', gid, NULL, jsonb_build_object('member_id', member, 'instance_id', instance), caller);
	RETURN true;
END
$$;

-- A config needs a group that is there (a typing error would be kept for ever); Kafka's clients may set it before.
CREATE FUNCTION broker_internal.do_alter_group(caller text, gid text, config jsonb)
RETURNS TABLE (config_key text, old_value text, new_value text, source text) LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM groups g WHERE g.group_id = gid) THEN
		PERFORM no_group(gid);
	END IF;
	PERFORM check_config_group(gid);
	RETURN QUERY SELECT * FROM set_configs('group', gid, gid, config, false, false, caller, 'sql', inet_client_addr());
END
$$;

-- The key of the table of configs holds the id itself.
CREATE FUNCTION broker_internal.check_config_group(gid text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF gid = '' THEN
		RAISE EXCEPTION 'Default group resources are not allowed.' USING ERRCODE = 'PB042';
	ELSIF octet_length(gid) > 1024 THEN
		RAISE EXCEPTION 'Configs are kept for group ids of at most 1024 bytes.' USING ERRCODE = 'PB042', DETAIL = format('This one has %s.', octet_length(gid));
	END IF;
END
$$;

-- What DescribeConfigs of groups asks for: the keys that are set.
CREATE FUNCTION broker_internal.group_configs_1(group_ids text[]) RETURNS TABLE (group_id text, config_key text, value text) STABLE LANGUAGE sql AS $$
	SELECT c.object, c.config_key, c.value FROM broker_internal.configs c WHERE c.scope = 'group' AND c.object = ANY ($1) ORDER BY 1, 2
$$;

CREATE FUNCTION broker.alter_group(group_id text, config jsonb)
	RETURNS TABLE (config_key text, old_value text, new_value text, source text) LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_alter_group_1';

CREATE FUNCTION broker.reset_offsets(group_id text, topic text DEFAULT NULL, to_position text DEFAULT NULL, to_time timestamptz DEFAULT NULL, to_offset bigint DEFAULT NULL,
		shift_by bigint DEFAULT NULL, offsets jsonb DEFAULT NULL, partitions int[] DEFAULT NULL, fence bool DEFAULT false, dry_run bool DEFAULT false)
	RETURNS TABLE (topic text, partition int, old_offset bigint, new_offset bigint, moved_by bigint, report_age interval) LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_reset_offsets_1';

CREATE FUNCTION broker.delete_offsets(group_id text, topic text, partitions int[] DEFAULT NULL)
	RETURNS bigint LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_delete_offsets_1';

CREATE FUNCTION broker.delete_group(group_id text, force bool DEFAULT false, if_exists bool DEFAULT false)
	RETURNS bool LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_delete_group_1';

CREATE FUNCTION broker.kick_member(group_id text, member_id text DEFAULT NULL, instance_id text DEFAULT NULL)
	RETURNS bool LANGUAGE c AS 'MODULE_PATHNAME', 'pgb_kick_member_1';
