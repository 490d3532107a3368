-- What people ask of leaders: deletions of records; cancelling; reports and the views on them.
SELECT no_plan();
\o /dev/null
SELECT fx.register(1);
SELECT fx.register(2);
SELECT broker_internal.create_topics_1('User:a', NULL, '[{"name":"t","assignment":{"0":[1,2],"1":[2,1]}}]', false);
SELECT broker_internal.report_1(1, fx.epoch(1), '{"disk_free_bytes":50,"disk_total_bytes":100,"connections":7,"log_dir":"/d"}', ARRAY[fx.topic_id('t'), fx.topic_id('t')], '{0,1}',
	ARRAY[10,100,90,110,5000,1700000000000,1, 0,20,20,40,800,NULL,1]);
SELECT broker_internal.report_1(2, fx.epoch(2), '{"disk_free_bytes":4,"disk_total_bytes":100}', ARRAY[fx.topic_id('t'), fx.topic_id('t')], '{0,1}', ARRAY[10,95,90,105,4900,-1,0, 0,50,50,50,1000,NULL,1]);
\o
-- reports
SELECT results_eq($$ SELECT partition, leader, log_start_offset, high_watermark, last_stable_offset, log_end_offset, records, size_bytes, last_append_at FROM broker.partitions ORDER BY 1 $$,
	$$ VALUES (0, 1, 10::bigint, 100::bigint, 90::bigint, 110::bigint, 90::bigint, 5000::bigint, to_timestamp(1700000000)), (1, 2, 0, 50, 50, 50, 50, 1000, NULL) $$, 'partitions show their leader''s figures');
SELECT ok((SELECT bool_and(report_age BETWEEN '0' AND '1 min') FROM broker.partitions), 'with their age');
SELECT results_eq($$ SELECT partition, broker_id, is_leader, in_sync, state, log_end_offset, lag, size_bytes, log_dir FROM broker.replicas ORDER BY 1, 2 $$,
	$$ VALUES (0, 1, true, true, 'online', 110::bigint, 0::bigint, 5000::bigint, '/d'), (0, 2, false, true, 'quarantined', 105, 5, 4900, NULL), (1, 1, false, true, 'online', 40, 10, 800, '/d'), (1, 2, true, true, 'online', 50, 0, 1000, NULL) $$, 'replicas');
SELECT results_eq($$ SELECT records, size_bytes FROM broker.topics $$, $$ VALUES (140::bigint, 6000::bigint) $$, 'topics add up the leaders');
SELECT results_eq($$ SELECT broker_id, leaders, replicas, out_of_sync, size_bytes, disk_free_bytes, connections FROM broker.brokers ORDER BY 1 $$, $$ VALUES (1, 1, 2, 0, 5800::bigint, 50::bigint, 7), (2, 1, 2, 0, 5900, 4, NULL) $$, 'brokers');
SELECT set_eq($$ SELECT severity, object, problem FROM broker.problems $$, $$ VALUES ('critical', 't-0 on broker 2', 'the log is offline'), ('critical', 'broker 2', 'disk nearly full: 4% free') $$, 'problems');
SELECT throws_ok($$ SELECT broker_internal.report_1(1, fx.epoch(1), '{}', ARRAY[fx.topic_id('t')], '{0}', '{1,2}') $$, '22023', NULL, 'a report with too few figures');
SELECT throws_ok($$ SELECT broker_internal.report_1(1, fx.epoch(1), '{}', ARRAY[fx.topic_id('t')], '{0,1}', '{1,2,3,4,5,6,7}') $$, '22023', NULL, 'or with too many partitions');
\o /dev/null
SELECT broker_internal.report_1(1, fx.epoch(1), '{}', ARRAY[fx.topic_id('t'), fx.topic_id('t'), fx.id(9)], '{0,0,0}', '{1,1,1,1,1,1,1, 2,2,2,2,2,2,1, 3,3,3,3,3,3,1}');
\o
SELECT is((SELECT high_watermark FROM broker.partitions WHERE partition = 0), 2::bigint, 'A20: one key twice in a report: the last one counts; unknown topics are skipped');

-- deletion of records
SELECT throws_ok($$ SELECT broker.delete_records('t', 9, 5) $$, 'PB003', 'topic "t" has no partition 9', 'no such partition');
SELECT throws_ok($$ SELECT broker.delete_records('t', NULL, 5) $$, 'PB003', NULL, 'no partition');
SELECT throws_ok($$ SELECT broker.delete_records('t', 0, -2) $$, 'PB001', NULL, 'an offset below -1');
SELECT throws_ok($$ SELECT broker.delete_records('t', 0, 1) $$, 'PB001', 'offset 1 is out of range', 'an offset below the log start');
SELECT throws_ok($$ SELECT broker.delete_records('u', 0, 1) $$, 'PB003', NULL, 'no such topic');
SELECT is(broker.delete_records('t', 1, 30), 30::bigint, 'delete_records');
SELECT is(broker.delete_records('t', 1, -1), 50::bigint, 'up to the high watermark, as last reported');
SELECT results_eq($$ SELECT * FROM broker.purge_topic('t') $$, $$ VALUES ('t', 0, 2::bigint), ('t', 1, 50) $$, 'purge_topic');
SELECT results_eq($$ SELECT kind, topic, partition, args FROM broker_internal.operations_1(1, fx.epoch(1)) $$, $$ VALUES ('delete_records', 't', 0, '{"before_offset": -1}'::jsonb) $$, 'each leader gets its part');
SELECT is((SELECT count(*) FROM broker_internal.operations_1(2, fx.epoch(2))), 3::bigint, 'the other leader three');
SELECT operation_id AS purge FROM broker.operations ORDER BY 1 DESC LIMIT 1 \gset
\o /dev/null
SELECT broker_internal.finish_operation_1(1, fx.epoch(1), :purge, 0, 2, 0, NULL);
\o
SELECT results_eq(format('SELECT state, progress, waiting_for FROM broker.operations WHERE operation_id = %s', :purge), $$ VALUES ('running', 0.5, 'the leaders') $$, 'half of it');
\o /dev/null
SELECT broker_internal.finish_operation_1(2, fx.epoch(2), :purge, 1, NULL, 1, 'beyond the high watermark');
\o
SELECT results_eq(format('SELECT state, error, waiting_for, finished_at IS NOT NULL FROM broker.operations WHERE operation_id = %s', :purge), $$ VALUES ('failed', 'partition 1: beyond the high watermark', NULL::text, true) $$, 'failed, with the leader''s reason');
SELECT lives_ok(format('SELECT broker_internal.finish_operation_1(2, fx.epoch(2), %s, 1, 1, 0, NULL)', :purge), 'finished twice: nothing happens');
SELECT is((SELECT state FROM broker.operations WHERE operation_id = :purge), 'failed', 'it stays failed');
SELECT min(operation_id) AS first FROM broker.operations \gset
SELECT ok(broker.cancel_operation(:first), 'a deletion is cancelled');
SELECT ok(NOT broker.cancel_operation(:first), 'once');
SELECT is((SELECT count(*) FROM broker_internal.operations_1(2, fx.epoch(2))), 1::bigint, 'leaders do not see it any more');
SELECT lives_ok(format('SELECT broker_internal.finish_operation_1(2, fx.epoch(2), %s, 1, 1, 0, NULL)', :first), 'a leader that did it already');
SELECT is((SELECT state FROM broker.operations WHERE operation_id = :first), 'cancelled', 'does not matter');
\o /dev/null
SELECT broker.delete_topic('t');
SELECT fx.tick();
\o
SELECT is((SELECT string_agg(DISTINCT state || coalesce(' ' || error, ''), ', ') FROM broker.operations WHERE kind = 'delete_records' AND operation_id NOT IN (:first, :purge)), 'failed the topic was deleted', 'what was open fails with its topic');

-- cancelling wishes
UPDATE broker_internal.brokers SET fenced = true;
SELECT isnt(broker.create_topic('w', config => '{"flush.ms": 1}'), NULL, 'a wish without brokers');
SELECT max(operation_id) AS wish FROM broker.operations \gset
\o /dev/null
UPDATE broker_internal.brokers SET fenced = false WHERE broker_id = 1;
UPDATE broker_internal.brokers SET stopping = true WHERE broker_id = 1;
SELECT fx.tick();
\o
SELECT results_eq(format('SELECT state, waiting_for FROM broker.operations WHERE operation_id = %s', :wish), $$ VALUES ('waiting', 'a broker that is alive') $$, 'says what it waits for');
SELECT ok(broker.cancel_operation(:wish), 'is taken back');
SELECT is((SELECT count(*) FROM broker_internal.topics WHERE topic = 'w') + (SELECT count(*) FROM broker_internal.configs WHERE config_key = 'flush.ms'), 0::bigint, 'and never was');
SELECT ok(NOT broker.cancel_operation((SELECT min(operation_id) FROM broker.operations WHERE state = 'failed')), 'what is over is not cancelled');

-- wait, in and out of transactions
UPDATE broker_internal.brokers SET stopping = false WHERE broker_id = 1;
BEGIN;
SELECT throws_ok('CALL broker.wait()', '25001', NULL, 'not inside a transaction');
ROLLBACK;
\o /dev/null
SELECT broker.create_topic('x');
\o
\set ON_ERROR_STOP 0
CALL broker.wait('50 ms');
SELECT is(:'LAST_ERROR_SQLSTATE'::text, 'PB007', 'wait times out');
SELECT matches(:'LAST_ERROR_MESSAGE'::text, 'topic.create of topic x waits for the controller', 'and says what for');
\set ON_ERROR_STOP 1
\o /dev/null
SELECT fx.tick();
\o
CALL broker.wait('50 ms');
SELECT pass('and returns when it is done');
\set ON_ERROR_STOP 0
CALL broker.wait('50 ms', 999999);
SELECT is(:'LAST_ERROR_SQLSTATE'::text, '22023', 'wait for an unknown operation');
CALL broker.wait('50 ms', :purge);
SELECT is(:'LAST_ERROR_SQLSTATE'::text, 'PB902', 'wait for one that failed');
\set ON_ERROR_STOP 1

-- pruning, in small batches
INSERT INTO broker_internal.events (event_time, kind, object, via) SELECT now() - interval '40 days', 'old', 'x', 'sql' FROM generate_series(1, 1500);
SELECT ok(fx.tick(), 'a tick prunes');
SELECT is((SELECT count(*) FROM broker.events WHERE kind = 'old'), 500::bigint, 'a thousand at a time');
\o /dev/null
SELECT fx.tick();
\o
SELECT is((SELECT count(*) FROM broker.events WHERE kind = 'old'), 0::bigint, 'then the rest');
SELECT ok(NOT fx.tick(), 'then nothing');
SELECT finish();
