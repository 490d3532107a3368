-- Groups: what a coordinator stores and reads, retention, the slot of an id.
SELECT no_plan();
SELECT fx.register(1);
SELECT fx.topic('t', '{1}');
SELECT count(*) FROM broker_internal.slots_1(1, fx.epoch(1));

SELECT is(broker_internal.slot_of(''), 197, 'FNV-1a of nothing, as brokerd/group/slot.h has it');
SELECT is(broker_internal.slot_of('a'), 44, 'of one byte');
SELECT is(broker_internal.slot_of('billing'), 220, 'of a word');
SELECT is((SELECT count(DISTINCT broker_internal.slot_of('group-' || i)) > 200 FROM generate_series(1, 2000) i), true, 'ids spread over the slots');

CREATE FUNCTION pg_temp.save(grp text, expected int, generation int, members jsonb) RETURNS text LANGUAGE sql AS $$
	SELECT s.outcome || '/' || s.stored_generation FROM broker_internal.slots l,
		broker_internal.save_group_1(1, fx.epoch(1), l.slot, l.epoch, grp, expected, generation, 'consumer', 'range', members -> 0 ->> 'id', members, NULL) s
	WHERE l.slot = broker_internal.slot_of(grp)
$$;
CREATE FUNCTION pg_temp.member(id text, partitions jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('id', id, 'instance', NULL, 'client', 'c', 'host', '/10.0.0.7', 'session', 10000, 'rebalance', 30000, 'age_ms', 1000,
		'protocols', '0001', 'assignment', 'ff00', 'partitions', partitions)
$$;
CREATE FUNCTION pg_temp.commit(grp text, generation int, part int, off bigint, meta bytea DEFAULT '') RETURNS int LANGUAGE sql AS $$
	SELECT coalesce((SELECT c.error_code FROM broker_internal.slots l, broker_internal.commit_offsets_1(1, fx.epoch(1), ARRAY[grp], ARRAY[l.slot], ARRAY[l.epoch], ARRAY[generation],
		'{1}', ARRAY[fx.topic_id('t')], ARRAY[part], ARRAY[off], '{3}', ARRAY[meta]) c WHERE l.slot = broker_internal.slot_of(grp)), 0)
$$;

SELECT is(pg_temp.save('g', 0, 1, jsonb_build_array(pg_temp.member('b', '{"t": [0]}'), pg_temp.member('a', 'null'))), '0/1', 'a first generation');
SELECT results_eq($$ SELECT group_id, generation, assignor, leader, member_id, encode(protocols, 'hex'), encode(assignment, 'hex'), age_ms >= 1000 FROM broker_internal.load_groups_1(1, fx.epoch(1), ARRAY(SELECT generate_series(0, 255)), NULL, 10) $$,
	$$ VALUES ('g', 1, 'range', 'b', 'b', '0001', 'ff00', true), ('g', 1, 'range', 'b', 'a', '0001', 'ff00', true) $$, 'a new coordinator reads it, members in order of joining');
SELECT is((SELECT state FROM broker_internal.groups), 'stable', 'it is stable');
SELECT is(pg_temp.save('g', 1, 2, '[]'), '0/2', 'everybody left');
SELECT results_eq($$ SELECT group_id, generation, member_id FROM broker_internal.load_groups_1(1, fx.epoch(1), ARRAY(SELECT generate_series(0, 255)), NULL, 10) $$, $$ VALUES ('g', 2, NULL::text) $$, 'an empty group has one row');
SELECT is(pg_temp.save('h', 0, 1, jsonb_build_array(pg_temp.member('x', '{}'))), '0/1', 'another group');
SELECT results_eq($$ SELECT group_id FROM broker_internal.load_groups_1(1, fx.epoch(1), ARRAY(SELECT generate_series(0, 255)), 'g', 10) $$, $$ VALUES ('h') $$, 'pages go on behind a group');
SELECT is((SELECT count(*) FROM broker_internal.load_groups_1(1, fx.epoch(1), ARRAY[broker_internal.slot_of('g')], NULL, 10))::int, 1, 'only of the slots asked for');

SELECT is(pg_temp.commit('g', 2, 0, 41, '\x00'), 0, 'a commit');
SELECT is(pg_temp.commit('simple', 0, 0, 5), 0, 'the first commit of a simple group makes it');
SELECT is((SELECT protocol_type IS NULL AND state = 'empty' FROM broker_internal.groups WHERE group_id = 'simple'), true, 'a simple group');
SELECT is(pg_temp.commit('simple', 1, 0, 6), 22, 'a generation that it does not have');
SELECT is(pg_temp.commit('nobody', 7, 0, 6), 22, 'a group that is not there');
SELECT is((SELECT count(*) FROM broker_internal.groups WHERE group_id = 'nobody')::int, 0, 'is not made by it');
SELECT results_eq($$ SELECT topic, partition, committed_offset, leader_epoch, metadata FROM broker_internal.fetch_offsets_1('g', NULL, NULL) $$, $$ VALUES ('t', 0, 41::bigint, 3, '\x00'::bytea) $$, 'all offsets of a group');
SELECT results_eq($$ SELECT partition, committed_offset FROM broker_internal.fetch_offsets_1('g', ARRAY[fx.topic_id('t'), fx.topic_id('t')], '{0,1}') $$, $$ VALUES (0, 41::bigint) $$, 'some offsets of a group');

-- retention
UPDATE broker_internal.groups SET empty_since = now() - interval '8 days' WHERE group_id IN ('g', 'simple');
CREATE FUNCTION pg_temp.expire() RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(group_id, ' ' ORDER BY group_id), '') FROM broker_internal.expire_offsets_1(1, fx.epoch(1), ARRAY(SELECT generate_series(0, 255)), 7 * 86400000::bigint)
$$;
SELECT is(pg_temp.expire(), 'g', 'a group that is empty for longer goes with its offsets; a simple one that committed lately stays');
SELECT is((SELECT string_agg(group_id, ' ' ORDER BY group_id) FROM broker_internal.groups), 'h simple', 'groups with members stay');
UPDATE broker_internal.offsets SET committed_at = now() - interval '8 days';
SELECT is(pg_temp.expire(), 'simple', 'a simple group goes when its last commit is old');
SELECT is(pg_temp.commit('h', 1, 0, 9), 0, 'a live group commits');
UPDATE broker_internal.offsets SET committed_at = now() - interval '800 days';
SELECT is(pg_temp.expire(), '', 'retention does not count while a group has members');
SELECT is((SELECT count(*) FROM broker_internal.offsets)::int, 1, 'its offsets stay');
SELECT count(*) FROM broker_internal.delete_topics_1('User:test', NULL, '{t}', NULL);
SELECT is((SELECT count(*) FROM broker_internal.fetch_offsets_1('h', NULL, NULL))::int, 0, 'offsets of a deleted topic are not shown');
SELECT is(pg_temp.expire(), '', 'and go');
SELECT is((SELECT count(*) FROM broker_internal.offsets)::int, 0, 'with it');
SELECT fx.topic('t', '{1}');
SELECT is((SELECT count(*) FROM broker_internal.fetch_offsets_1('h', NULL, NULL))::int, 0, 'a new topic of that name does not inherit them');

-- notes for people
SELECT broker_internal.note_groups_1(1, fx.epoch(1), '{h,gone}', '{preparing_rebalance,stable}');
SELECT is((SELECT state FROM broker_internal.groups WHERE group_id = 'h'), 'preparing_rebalance', 'a group that rebalances');
SELECT throws_ok($$ SELECT * FROM broker_internal.slots_1(1, 7) $$, 'PB077', NULL, 'another epoch');
-- the doors: what is refused, and with which words
CREATE FUNCTION pg_temp.refusal(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	d text; h text;
BEGIN
	EXECUTE call;
	RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', SQLSTATE, SQLERRM, nullif(d, ''), nullif(h, ''));
END
$$;
SELECT is(pg_temp.save('live', 0, 1, jsonb_build_array(pg_temp.member('m1', '{"t": [0]}'))), '0/1', 'a live group');
SELECT is(pg_temp.commit('live', 1, 0, 10), 0, 'with an offset');
SELECT is(pg_temp.refusal($$ SELECT * FROM broker.reset_offsets('LIVE', 't', to_offset => 1) $$), 'PB069 | group "LIVE" does not exist | Perhaps you meant "live".', 'reset of an unknown group');
SELECT is(pg_temp.refusal($$ SELECT * FROM broker.reset_offsets('live', 'nope', to_offset => 1) $$), 'PB003 | topic "nope" does not exist | The topics are in broker.topics.', 'reset of an unknown topic');
SELECT matches(pg_temp.refusal($$ SELECT * FROM broker.reset_offsets('live', 't') $$), '^22023 ', 'reset without a target');
SELECT matches(pg_temp.refusal($$ SELECT * FROM broker.reset_offsets('live', 't', to_offset => 1, shift_by => 2) $$), '^22023 ', 'with two');
SELECT matches(pg_temp.refusal($$ SELECT * FROM broker.reset_offsets('live', to_offset => 1, partitions => '{0}') $$), '^22023 ', 'partitions of no topic');
SELECT is(pg_temp.refusal($$ SELECT * FROM broker.reset_offsets('live', 't', to_offset => 1, partitions => '{3}', dry_run => true) $$), 'PB003 | topic "t" has no partition 3 | The partitions are in broker.partitions.', 'a partition that is not there');
SELECT is(pg_temp.refusal($$ SELECT * FROM broker.reset_offsets('live', 't', to_offset => 1) $$),
	'PB068 | group "live" is not empty | It has 1 member in generation 1: c (10.0.0.7). | Stop them, or pass fence => true: they rejoin in generation 2 and go on from the new offsets.', 'reset of a live group');
SELECT results_eq($$ SELECT * FROM broker.reset_offsets('live', 't', to_offset => 7, dry_run => true) $$, $$ VALUES ('t', 0, 10::bigint, 7::bigint, -3::bigint, NULL::interval) $$, 'a dry run shows what it would do, of a live group too');
SELECT is((SELECT count(*) FROM broker.operations WHERE kind LIKE 'group%')::int, 0, 'and asks for nothing');
SELECT is(pg_temp.refusal($$ SELECT broker.delete_group('live') $$),
	'PB068 | group "live" is not empty | It has 1 member in generation 1: c (10.0.0.7). | Stop them, or pass force => true: they are removed, and those that still run join a new group of that name.', 'delete of a live group');
SELECT matches(pg_temp.refusal($$ SELECT broker.delete_offsets('live', 't') $$), '^PB086 ', 'offsets of a topic that a member reads');
SELECT matches(pg_temp.refusal($$ SELECT broker.kick_member('live', 'nobody') $$), '^PB025 ', 'a member that is not there');
SELECT matches(pg_temp.refusal($$ SELECT broker.kick_member('live') $$), '^22023 ', 'no member named');
SELECT is(broker.delete_group('gone', if_exists => true), false, 'if_exists');

-- configs of a group: kept, checked with Kafka's bounds, without effect on a classic one
SET client_min_messages = warning;
SELECT is(pg_temp.refusal($$ SELECT * FROM broker.alter_group('LIVE', '{}') $$), 'PB069 | group "LIVE" does not exist | Perhaps you meant "live".', 'configs of an unknown group');
SELECT results_eq($$ SELECT * FROM broker.alter_group('live', '{"consumer.session.timeout.ms": "50 s"}') $$, $$ VALUES ('consumer.session.timeout.ms', '45000', '50000', 'group') $$, 'a config of a group');
SELECT results_eq($$ SELECT * FROM broker_internal.group_configs_1('{live,other}') $$, $$ VALUES ('live', 'consumer.session.timeout.ms', '50000') $$, 'is what DescribeConfigs is told');
SELECT matches(pg_temp.refusal($$ SELECT * FROM broker.alter_group('live', '{"consumer.session.timeout.ms": 6000}') $$), '^PB040 .*allowed 45000 to 60000', 'out of Kafka''s bounds');
SELECT matches(pg_temp.refusal($$ SELECT * FROM broker.alter_group('live', '{"retention.ms": 6000}') $$), '^PB040 ', 'a topic''s key is none of a group');
SELECT results_eq($$ SELECT * FROM broker.alter_group('live', '{"consumer.session.timeout.ms": null}') $$, $$ VALUES ('consumer.session.timeout.ms', '50000', '45000', 'default') $$, 'null goes back');
SELECT is((SELECT count(*) FROM broker.config_keys WHERE scope = 'group' AND is_used)::int, 0, 'a classic group uses none, and config_keys says so');
CREATE FUNCTION pg_temp.wire(name text) RETURNS text LANGUAGE sql AS $$
	SELECT error_code || coalesce(': ' || error_message, '') FROM broker_internal.alter_configs_1('User:test', NULL,
		jsonb_build_array(jsonb_build_object('type', 32, 'name', name, 'ops', '[{"key":"share.isolation.level","op":0,"value":"read_committed"}]'::jsonb)), false, false)
$$;
SELECT is(pg_temp.wire('later'), '0', 'wire: a group that is not there yet, as in Kafka');
SELECT is(pg_temp.wire(''), '42: Default group resources are not allowed.', 'wire: no group');
SELECT matches(pg_temp.wire(repeat('x', 1025)), '^42: Configs are kept for group ids of at most 1024 bytes', 'wire: an id that the key of the table cannot hold');
RESET client_min_messages;

-- a reset of a live group, as a coordinator carries it out
SELECT is((SELECT new_offset FROM broker.reset_offsets('live', 't', to_offset => 7, fence => true)), 7::bigint, 'a reset with a fence');
SELECT is((SELECT is_unstable FROM broker_internal.fetch_offsets_1('live', NULL, NULL)), true, 'until it is done OffsetFetch is told so');
SELECT is((SELECT offset_state FROM broker.group_offsets WHERE group_id = 'live'), 'resetting', 'and people');
SELECT is((SELECT generation || coalesce(failure, '') FROM broker_internal.group_requests_1(1, fx.epoch(1)) r, broker_internal.slots l,
		broker_internal.apply_reset_1(1, fx.epoch(1), l.slot, l.epoch, r.operation_id, true) WHERE l.slot = broker_internal.slot_of('live')), '2', 'it raises the generation');
SELECT is(pg_temp.commit('live', 1, 0, 11), 22, 'the members'' generation commits no more');
SELECT is((SELECT committed_offset FROM broker_internal.offsets JOIN broker_internal.groups USING (group_no) WHERE group_id = 'live'), 7::bigint, 'the offset is the new one');
SELECT is((SELECT old || ' ' || new || ' ' || actor FROM broker.events WHERE kind = 'group.reset'), '{"t-0": 10} {"t-0": 7} postgres', 'the old offsets are kept in events');
SELECT is((SELECT state FROM broker.operations WHERE kind = 'group.reset'), 'done', 'the operation is done');
SELECT is((SELECT count(*) FROM broker_internal.group_requests_1(1, fx.epoch(1)))::int, 0, 'nothing is left to do');
SELECT is((SELECT state FROM broker.groups WHERE group_id = 'live'), 'stable', 'broker.groups');
SET broker.reason = 'ticket 9';
SELECT is(broker.kick_member('live', 'm1'), true, 'a member is to go');
SELECT is(broker.delete_group('live', force => true), true, 'the whole group is');
SELECT is((SELECT string_agg(kind || ' ' || actor || ' ' || via || ' ' || reason, ', ' ORDER BY event_id) FROM broker.events WHERE kind IN ('group.kick', 'group.delete')),
	'group.kick postgres sql ticket 9, group.delete postgres sql ticket 9', 'who asked, and why, is kept');
SELECT is((SELECT string_agg(kind || ' ' || coalesce(member_id, '-') || ' ' || force || ' ' || reason, ', ' ORDER BY operation_id) FROM broker_internal.group_requests_1(1, fx.epoch(1))),
	'group.kick m1 false ticket 9, group.delete - true ticket 9', 'what the coordinator is told');
SELECT broker_internal.finish_group_request_1(1, fx.epoch(1), operation_id, CASE kind WHEN 'group.kick' THEN 'no such member' END) FROM broker_internal.group_requests_1(1, fx.epoch(1));
SELECT is((SELECT string_agg(kind || ' ' || state || coalesce(': ' || error, ''), ', ' ORDER BY operation_id) FROM broker.operations WHERE kind IN ('group.kick', 'group.delete')),
	'group.kick failed: no such member, group.delete done', 'and what became of it');

-- problems
SELECT fx.topic('p', '{1}');
INSERT INTO broker_internal.partition_reports (topic_id, partition, broker_id, log_start_offset, high_watermark, log_end_offset, is_online, changed_at)
	SELECT fx.topic_id('p'), 0, 1, 10, 50, 50, true, now();
INSERT INTO broker_internal.broker_reports (broker_id, reported_at) VALUES (1, clock_timestamp()) ON CONFLICT (broker_id) DO UPDATE SET reported_at = clock_timestamp();
CREATE FUNCTION pg_temp.problems() RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(severity || ' ' || object || ': ' || problem, '; ' ORDER BY object, problem), '') FROM broker.problems WHERE object LIKE 'group %'
$$;
CREATE FUNCTION pg_temp.put(grp text, off bigint, age interval, st text DEFAULT 'empty') RETURNS void LANGUAGE sql AS $$
	DELETE FROM broker_internal.offsets USING broker_internal.groups g WHERE offsets.group_no = g.group_no AND g.group_id = grp;
	DELETE FROM broker_internal.groups WHERE group_id = grp;
	WITH g AS (INSERT INTO broker_internal.groups (group_id, slot, protocol_type, state, empty_since, changed_at)
		VALUES (grp, 0, 'consumer', st, CASE WHEN st = 'empty' THEN clock_timestamp() - age END, clock_timestamp() - age) RETURNING group_no)
	INSERT INTO broker_internal.offsets (group_no, topic_id, partition, committed_offset, committed_at, commit_no) SELECT group_no, fx.topic_id('p'), 0, off, clock_timestamp() - age, 0 FROM g;
$$;
SELECT pg_temp.put('left', 20, '7 min'), pg_temp.put('done', 50, '7 min'), pg_temp.put('pause', 20, '1 min'), pg_temp.put('reads', 20, '1 h', 'stable');
SELECT is(pg_temp.problems(), 'warning group left: 30 records behind, and without a member or a commit for 7 min', 'a group that nobody reads for any more');
SELECT matches((SELECT hint FROM broker.problems WHERE object = 'group left'), $$broker\.delete_group\('left'\)$$, 'and the call that ends it');
SELECT pg_temp.put('left', 50, '7 min'), pg_temp.put('stuck', 50, '11 min', 'completing_rebalance'), pg_temp.put('joins', 50, '9 min', 'preparing_rebalance');
SELECT is(pg_temp.problems(), 'warning group stuck: rebalancing for 11 min', 'a rebalance without end');
SELECT pg_temp.put('stuck', 50, '0'), pg_temp.put('old', 9, '1 h', 'stable'), pg_temp.put('far', 51, '1 h', 'stable'), pg_temp.put('newer', 51, '-1 s', 'stable');
SELECT is(pg_temp.problems(), 'warning group far: 1 partitions with an offset beyond the end; warning group old: 1 partitions with an offset before the log start',
	'offsets that are expired or ahead, but not those that are newer than the report');
SELECT pg_temp.put('old', 10, '0', 'stable'), pg_temp.put('far', 50, '0', 'stable');
INSERT INTO broker_internal.rebalances SELECT g.group_no, 'far', i, clock_timestamp() - i * interval '10 s', '1 s', 'session timeout', 'm', 2, 1, 1, 1
	FROM broker_internal.groups g, generate_series(1, 60) i WHERE g.group_id = 'far';
SELECT is(pg_temp.problems(), 'warning group far: 60 rebalances in the last hour, the last because: session timeout', 'rebalances one after another');
SELECT is((SELECT problems FROM broker.cluster), (SELECT count(*)::int FROM broker.problems), 'broker.cluster counts them');
SELECT is((SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'broker.groups'::regclass AND attnum > 0),
	'group_id group_type state generation assignor coordinator members topics lag max_lag lag_unknown last_commit_at last_rebalance_at last_rebalance_reason rebalances_last_hour reported_at report_age', 'groups');
SELECT is((SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'broker.group_members'::regclass AND attnum > 0),
	'group_id member_id instance_id client_id client_host role generation assignment partitions lag joined_at session_timeout rebalance_timeout reported_at report_age', 'group_members');
SELECT is((SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'broker.group_offsets'::regclass AND attnum > 0),
	'group_id topic partition committed_offset leader_epoch log_start_offset end_offset lag offset_state metadata committed_at commit_age expires_at member_id client_id client_host reported_at report_age', 'group_offsets');
SELECT is((SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'broker.rebalances'::regclass AND attnum > 0),
	'group_id generation started_at duration reason member members_before members_after partitions_moved coordinator', 'rebalances');
SELECT * FROM finish();
