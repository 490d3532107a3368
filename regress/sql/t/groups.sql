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
SELECT * FROM finish();
