-- A broker whose log or disk fails gives up its part in partitions (hazards A9, A26).
SELECT no_plan();
\o /dev/null
SELECT fx.register(n) FROM generate_series(1, 4) n;
SELECT fx.topic('lead', '{1,2,3}', '{"min.insync.replicas": "2"}');
SELECT fx.topic('follow', '{2,1,3}', '{"min.insync.replicas": "2"}');
SELECT fx.topic('few', '{1,2}', '{"min.insync.replicas": "2"}');
SELECT fx.topic('tight', '{2,1}', '{"min.insync.replicas": "2"}');
SELECT fx.topic('solo', '{1}');
SELECT fx.topic('alone', '{1,2,3}', '{"min.insync.replicas": "1"}');
SELECT fx.topic('handed', '{1,2,3}', '{"min.insync.replicas": "2"}');
SELECT fx.topic('other', '{2,3}');
UPDATE broker_internal.cluster SET min_isr_at = NULL;
CREATE FUNCTION pg_temp.resign(me int, name text) RETURNS bool LANGUAGE sql AS $$
	SELECT is_out FROM broker_internal.resign_partitions_1(me, fx.epoch(me), ARRAY[fx.topic_id(name)], '{0}', 'its log cannot be used')
$$;
CREATE FUNCTION pg_temp.epochs(name text) RETURNS text LANGUAGE sql AS $$
	SELECT leader_epoch || ' ' || partition_epoch FROM broker_internal.partitions WHERE topic_id = fx.topic_id(name)
$$;
\o

-- the leader
SELECT ok(pg_temp.resign(1, 'lead'), 'a leader with two others in the ISR is out');
SELECT is(fx.state('lead'), '2 {2,3} {}', 'another member leads, and it has left the ISR');
SELECT is(pg_temp.epochs('lead'), '1 1', 'in the next epochs');
SELECT results_eq($$ SELECT kind, old, new, reason FROM broker.events WHERE object = 'lead-0' AND kind LIKE 'partition.%' ORDER BY event_id $$,
	$$ VALUES ('partition.leader', '1, epoch 0', '2, epoch 1', 'its log cannot be used'), ('partition.isr', '{1,2,3}', '{2,3}', 'its log cannot be used') $$, 'the history says why');

-- again, out of the ISR: a new leader epoch, so that nothing that is under way can take it back
SELECT ok(pg_temp.resign(1, 'lead'), 'asked again it is still out');
SELECT is(fx.state('lead') || ' ' || pg_temp.epochs('lead'), '2 {2,3} {} 2 2', 'the same leader, in a new epoch');
SELECT ok(NOT fx.alter_isr(2, 'lead', '{2,3,1}', leader_epoch => 1, partition_epoch => 1), 'A2: an addition of before does not land');
SELECT ok(fx.alter_isr(2, 'lead', '{2,3,1}'), 'one of the new epoch does');

-- a follower
SELECT ok(pg_temp.resign(1, 'follow'), 'a follower leaves the ISR by itself');
SELECT is(fx.state('follow') || ' ' || pg_temp.epochs('follow'), '2 {2,3} {} 1 1', 'the leader stays, in a new epoch');

-- below the minimum nothing of a follower is given up, and a leader stays eligible
SELECT ok(NOT pg_temp.resign(1, 'tight'), 'A13: a follower that is needed for the minimum is not out');
SELECT is(fx.state('tight') || ' ' || pg_temp.epochs('tight'), '2 {2,1} {} 0 0', 'nothing changed');
SELECT ok(NOT pg_temp.resign(1, 'few'), 'a leader whose going leaves too few is not out');
SELECT is(fx.state('few'), '2 {2} {1}', 'the other leads, and it stays eligible: it has all that was committed');
SELECT ok(NOT pg_temp.resign(1, 'few'), 'nor when it asks again: one that is eligible must not come up empty');
SELECT is(fx.state('few'), '2 {2} {1}', 'nothing changed');

-- the last one
SELECT ok(NOT pg_temp.resign(1, 'solo'), 'the only replica is never out');
SELECT is(fx.state('solo') || ' ' || pg_temp.epochs('solo'), '1 {1} {} 0 0', 'nothing changed');
SELECT ok(fx.alter_isr(1, 'alone', '{1}'), 'nor the only member of an ISR');
SELECT ok(NOT pg_temp.resign(1, 'alone'), 'whose others do not have all');
SELECT is(fx.state('alone'), '1 {1} {}', 'nothing changed');

-- a leader alone in the ISR hands over to one that is eligible
SELECT ok(fx.alter_isr(1, 'handed', '{1}'), 'below the minimum');
SELECT is(fx.state('handed'), '1 {1} {2,3}', 'who left is eligible');
SELECT ok(NOT pg_temp.resign(1, 'handed'), 'the leader is not out');
SELECT is(fx.state('handed'), '2 {2} {3,1}', 'but an eligible one leads');

-- who may ask, and for what
SELECT is(pg_temp.resign(1, 'other'), false, 'no replica: nothing changes');
SELECT is(pg_temp.epochs('other'), '0 0', 'no epoch either');
SELECT results_eq($$ SELECT topic_id, is_out, leader FROM broker_internal.resign_partitions_1(1, fx.epoch(1), ARRAY[fx.id(99)], '{0}', 'x') $$,
	$$ VALUES (fx.id(99), false, NULL::int) $$, 'an unknown partition comes back empty');
SELECT throws_ok($$ SELECT broker_internal.resign_partitions_1(1, fx.epoch(1) - 1, '{}', '{}', 'x') $$, 'PB077', NULL, 'an old epoch may not');

-- A1: what PostgreSQL may know less of than the replicas is not decided on
UPDATE broker_internal.cluster SET pg_incarnation = pg_incarnation + 1;
SELECT ok(NOT pg_temp.resign(2, 'lead'), 'A1: after PostgreSQL went backwards nobody is out');
SELECT is(fx.state('lead'), '2 {2,3,1} {}', 'nothing changed');
SELECT * FROM finish();
