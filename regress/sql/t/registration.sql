-- A process is not its id (hazards A3, A5, A17): incarnations, disks, epochs.  All brokers register from this
-- one session, so each counts as alive; the races of sessions are in races.py.
SELECT no_plan();
CREATE TEMP TABLE e (id int, n int, epoch bigint);

SELECT throws_ok($$ SELECT broker_internal.next_version() $$, '42P01', NULL, 'nothing works outside of its door');
SELECT throws_ok($$ SELECT * FROM broker_internal.heartbeat_1(1, 5) $$, 'PB077', 'broker 1 is not registered with epoch 5', 'a stranger''s heartbeat');
INSERT INTO e SELECT 1, 1, fx.register(1);
SELECT cmp_ok((SELECT epoch FROM e), '>', (extract(epoch FROM now() - interval '1 hour') * 1000000)::bigint, 'the epoch is from the clock');
SELECT matches((SELECT cluster_id FROM broker.cluster), '^[A-Za-z0-9_-]{22}$', 'the first broker makes the cluster id');
\o /dev/null
SELECT fx.register(2);
SELECT fx.register(3);
SELECT fx.topic('rf3', '{1,2,3}');
SELECT fx.topic('rf1', '{1}');
SELECT fx.topic('follow', '{2,1}');
\o

-- (a) the same process reconnects
SELECT is(fx.register(1), (SELECT epoch FROM e), 'the same process keeps its epoch');
SELECT is(fx.state('rf3'), '1 {1,2,3} {}', 'and its leaderships');
-- (b) a new process on the same disk
INSERT INTO e SELECT 1, 2, fx.register(1, process => 11);
SELECT cmp_ok((SELECT epoch FROM e WHERE n = 2), '>', (SELECT epoch FROM e WHERE n = 1), 'a new process gets a higher epoch');
SELECT is(fx.state('rf3'), '2 {2,3} {}', 'leaves the ISR and the leadership where another is');
SELECT is(fx.state('follow'), '2 {2} {}', 'and the ISR where it followed');
SELECT is(fx.state('rf1'), '1 {1} {}', 'leads again where it is the last');
SELECT is((SELECT leader_epoch FROM broker.partitions WHERE topic = 'rf1'), 1, 'with a new leader epoch, given once: nobody could lead in between');
SELECT throws_ok($$ SELECT * FROM broker_internal.heartbeat_1(1, (SELECT epoch FROM e WHERE n = 1)) $$, 'PB077', NULL, 'the old epoch is refused');
SELECT throws_ok(format('SELECT * FROM broker_internal.%s', f), 'PB077', NULL, 'by each: ' || f) FROM unnest(ARRAY[
	'try_controller_1(1, 5)', 'tick_1(1, 5, NULL)', 'producer_ids_1(1, 5)', 'alter_isr_1(1, 5, NULL, NULL, NULL, NULL, NULL)', 'operations_1(1, 5)', 'finish_operation_1(1, 5, 1, 0, 0, 0, NULL)',
	'logs_deleted_1(1, 5, NULL)', 'report_1(1, 5, NULL, NULL, NULL, NULL)', 'event_1(1, 5, ''k'', ''o'', NULL)', 'stop_broker_1(1, 5)']) f;

-- (c) another disk: out of every ISR and ELR, leads nothing, also where it was the last
\o /dev/null
UPDATE broker_internal.brokers SET backend_pid = NULL WHERE broker_id = 1; -- its session is gone
SELECT fx.register(1, process => 12, disk => 9);
\o
SELECT is(fx.state('rf1'), 'none {} {}', 'another disk: nobody has the data');
SELECT is((SELECT details ->> 'disk' FROM broker.events WHERE kind = 'broker.registered' ORDER BY event_id DESC LIMIT 1), 'another', 'the event says so');
SELECT matches((SELECT hint FROM broker.problems WHERE object = 'topic rf1'), 'unclean\.leader\.election\.enable', 'problems says how to accept the loss');
\o /dev/null
SELECT broker.alter_topic('rf1', '{"unclean.leader.election.enable": true}');
SELECT fx.tick();
\o
SELECT is(fx.state('rf1'), '1 {1} {}', 'a person accepts it: the empty disk leads');
SELECT is((SELECT count(*) FROM broker.events WHERE kind = 'partition.unclean' AND topic = 'rf1'), 1::bigint, 'recorded');

-- (d) an older disk: it remembers an epoch from before the last one that it confirmed
SELECT fx.epoch(2) AS before \gset
\o /dev/null
SELECT fx.topic('solo2', '{2}');
SELECT fx.register(2, process => 21);
SELECT fx.register(2, process => 22, disk_epoch => :before);
\o
SELECT is(fx.state('solo2'), 'none {} {}', 'an older disk does not lead');
SELECT is((SELECT details ->> 'disk' FROM broker.events WHERE kind = 'broker.registered' ORDER BY event_id DESC LIMIT 1), 'older', 'the event says so');
-- (e) crashed between registration and the first heartbeat: the disk never carried the new epoch, nothing was served under it
SELECT fx.epoch(3) AS before \gset
\o /dev/null
SELECT fx.topic('solo3', '{3}');
SELECT * FROM broker_internal.register_broker_1(3, fx.id(31), fx.id(1003), :before, NULL, NULL, '[]', '1.0', '{}');
SELECT fx.register(3, process => 32, disk_epoch => :before);
\o
SELECT is(fx.state('solo3'), '3 {3} {}', 'an epoch that was never confirmed does not make the disk older');

-- refused
SELECT throws_ok($$ SELECT * FROM broker_internal.register_broker_1(4, fx.id(4), fx.id(1004), -1, 'another-cluster', NULL, '[]', '1.0', '{}') $$, 'PB104', NULL, 'a disk of another cluster');
SELECT is((SELECT count(*) FROM broker.brokers WHERE broker_id = 4), 0::bigint, 'is not registered');

-- producer ids: never given twice, whatever the table says (A5)
CREATE TEMP TABLE ids AS SELECT first_producer_id AS id FROM broker_internal.producer_ids_1(1, fx.epoch(1));
INSERT INTO ids SELECT first_producer_id FROM broker_internal.producer_ids_1(1, fx.epoch(1));
UPDATE broker_internal.producer_id_block SET block = 5; -- an older backup; a restore takes longer than this
SELECT pg_sleep(0.01) IS NULL AS restored \gset
INSERT INTO ids SELECT first_producer_id FROM broker_internal.producer_ids_1(1, fx.epoch(1));
DELETE FROM broker_internal.producer_id_block;
SELECT pg_sleep(0.01) IS NULL AS restored \gset
INSERT INTO ids SELECT first_producer_id FROM broker_internal.producer_ids_1(1, fx.epoch(1));
SELECT is((SELECT count(DISTINCT id / 1000) FROM ids), 4::bigint, 'four blocks, all different');
SELECT ok((SELECT bool_and(id < 9007199254740992 AND id % 1000 = 0) FROM ids), 'below 2^53, for JavaScript');

-- heartbeat
SELECT results_eq($$ SELECT contract_oldest, contract_newest, fenced, pg_incarnation FROM broker_internal.heartbeat_1(1, fx.epoch(1)) $$, $$ VALUES (1, 1, false, 1::bigint) $$, 'heartbeat');
SELECT is((SELECT tick_overdue FROM broker_internal.heartbeat_1(1, fx.epoch(1))), true, 'without a controller the tick is overdue');
BEGIN;
\o /dev/null
SELECT * FROM broker_internal.heartbeat_1(1, fx.epoch(1));
\o
SELECT is(pg_current_xact_id_if_assigned(), NULL, 'a heartbeat writes nothing');
ROLLBACK;
SELECT results_eq($$ SELECT is_controller, controller_id, controller_epoch FROM broker_internal.try_controller_1(1, fx.epoch(1)) $$, $$ VALUES (true, 1, 1) $$, 'the first that asks is the controller');
SELECT results_eq($$ SELECT is_controller, controller_id, controller_epoch FROM broker_internal.try_controller_1(1, fx.epoch(1)) $$, $$ VALUES (true, 1, 1) $$, 'and stays it');
SELECT is((SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 7700 AND objid = 1), 1::bigint, 'by one lock');
SELECT is((SELECT tick_overdue FROM broker_internal.heartbeat_1(1, fx.epoch(1))), false, 'now the tick is not overdue');
SELECT is((SELECT controller_id FROM broker.cluster), 1, 'the view names it');

-- controlled shutdown
\o /dev/null
SELECT fx.register(2, process => 23);
SELECT fx.topic('moved', '{2,3}');
SELECT fx.topic('stays', '{2}');
\o
SELECT leaderships_left AS left FROM broker_internal.stop_broker_1(2, fx.epoch(2)) \gset
SELECT is((SELECT count(*)::int FROM broker_internal.partitions WHERE leader = 2), :left, 'stop_broker_1 counts what is left');
SELECT is(fx.state('moved'), '3 {3} {}', 'moved to the other member');
SELECT is(fx.state('stays'), '2 {2} {}', 'nobody else can lead this one');
SELECT is((SELECT state FROM broker.brokers WHERE broker_id = 2), 'draining', 'draining');
SELECT is((SELECT state FROM broker_internal.brokers_1(0) WHERE broker_id = 2), 'draining', 'for brokers too');
SELECT lives_ok($$ SELECT * FROM broker_internal.heartbeat_1(2, fx.epoch(2)) $$, 'it still is registered');
SELECT is(fx.alter_isr(3, 'moved', '{3,2}'), false, 'and is not taken into an ISR');
SELECT finish();
