-- PostgreSQL goes backwards (hazards A1): a promotion, a restore, a rollback that only a disk remembers.
SELECT no_plan();
\o /dev/null
SELECT fx.register(n) FROM generate_series(1, 3) n;
SELECT fx.topic('rf3', '{1,2,3}');
SELECT fx.topic('solo', '{1}');
SELECT broker.create_topic('waiting');
\o
SELECT is((SELECT pg_incarnation FROM broker_internal.cluster), 1::bigint, 'the first incarnation');
SELECT is((SELECT epoch_floor FROM broker_internal.cluster), 0, 'has no floor');
SELECT is(pg_temp_identity = pg_identity, true, 'the identity is stable') FROM (SELECT pg_identity FROM broker_internal.cluster) c,
	(SELECT concat_ws('/', (pg_control_system()).system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8), (SELECT oid FROM pg_database WHERE datname = current_database()), 'broker_internal.cluster'::regclass::oid) AS pg_temp_identity) x;
\o /dev/null
SELECT fx.register(1);
\o
SELECT is((SELECT pg_incarnation FROM broker_internal.cluster), 1::bigint, 'the same process on the same PostgreSQL begins none');

-- promoted, or restored into another server
UPDATE broker_internal.cluster SET pg_identity = 'another';
DELETE FROM broker_internal.operations;
SELECT is((SELECT pg_incarnation FROM broker_internal.register_broker_1(2, fx.id(2), fx.id(1002), fx.epoch(2), NULL, NULL, '[]', '1.0', '{}')) > 60000000, true, 'a registration sees it, and gives a number by the clock');
SELECT is((SELECT pg_incarnation FROM broker_internal.heartbeat_1(1, fx.epoch(1))), (SELECT pg_incarnation FROM broker_internal.cluster), 'heartbeats tell the others');
CREATE TEMP TABLE first_number AS SELECT pg_incarnation AS n FROM broker_internal.cluster;
SELECT cmp_ok((SELECT epoch_floor FROM broker_internal.cluster), '>', 60000000, 'the floor is from the clock');
SELECT is((SELECT kind || ' ' || object FROM broker.operations), 'topic.create topic waiting', 'what was wished and is not in a dump is asked for again');
SELECT matches((SELECT problem FROM broker.problems WHERE object = 'cluster'), '1 partitions wait for their replicas', 'problems says who is waited for');
SELECT is(fx.state('rf3'), '1 {1,2,3} {}', 'the leader in office goes on');
SELECT ok(NOT fx.alter_isr(1, 'rf3', '{1,2}'), 'no ISR shrink is decided');
\o /dev/null
SELECT fx.register(3, process => 33);
\o
SELECT is(fx.state('rf3'), '1 {1,2,3} {}', 'nor by a restart of a follower');
\o /dev/null
SELECT fx.register(1, process => 11);
\o
SELECT is(fx.state('rf3'), 'none {1,2,3} {}', 'a leader that restarted is out of office, and nobody is elected');
SELECT cmp_ok((SELECT leader_epoch FROM broker.partitions WHERE topic = 'rf3'), '>', 60000000, 'its epoch is above the floor');
SELECT is(fx.state('solo'), '1 {1} {}', 'a partition of one replica needs no report');
SELECT cmp_ok((SELECT leader_epoch FROM broker.partitions WHERE topic = 'solo'), '>', 60000000, 'and goes on above the floor');
\o /dev/null
SELECT fx.topic('fresh', '{1,2,3}');
UPDATE broker_internal.brokers SET backend_pid = NULL WHERE broker_id = 1;
SELECT fx.tick(2, '{1}');
\o
SELECT is(fx.state('fresh'), '2 {2,3} {}', 'what was made since is decided as ever');
SELECT is(fx.state('rf3'), 'none {1,2,3} {}', 'what is older still waits');

-- the same timeline, but a disk remembers a younger epoch than this database: a snapshot was put back
SELECT is((SELECT pg_incarnation FROM broker_internal.register_broker_1(1, fx.id(12), fx.id(1001), fx.epoch(1) + 1000000000, NULL, NULL, '[]', '1.0', '{}')) > n, true, 'a disk that knows more begins an incarnation') FROM first_number;
SELECT results_eq($$ SELECT old, new, reason ~ 'remembers epoch' FROM broker.events WHERE kind = 'cluster.incarnation' ORDER BY event_id DESC LIMIT 1 $$, $$ SELECT n::text, (SELECT pg_incarnation::text FROM broker_internal.cluster), true FROM first_number $$, 'the event says why');
SELECT cmp_ok(fx.epoch(1), '>', (SELECT max(new::bigint) FROM broker.events WHERE kind = 'broker.registered' AND event_id < (SELECT max(event_id) FROM broker.events WHERE kind = 'broker.registered')) + 1000000000, 'its new epoch is above what it remembers');
SELECT is((SELECT pg_incarnation FROM broker_internal.register_broker_1(9, fx.id(9), fx.id(1009), 17, NULL, NULL, '[]', '1.0', '{}')) > n + 1, true, 'so does one whose broker is unknown') FROM first_number;
UPDATE broker_internal.brokers SET fenced = true WHERE broker_id = 9;

-- every replica reports: the newest report wins
CREATE FUNCTION pg_temp.claim(me int, name text, leader int, leader_epoch int, partition_epoch int, isr jsonb, last_epoch int, log_end bigint) RETURNS int LANGUAGE sql AS $$
	SELECT settled FROM broker_internal.claim_partitions_1(me, fx.epoch(me), ARRAY[fx.topic_id(name)], '{0}', ARRAY[leader], ARRAY[leader_epoch], ARRAY[partition_epoch], jsonb_build_array(isr), ARRAY[last_epoch], ARRAY[log_end])
$$;
CREATE FUNCTION pg_temp.lost(name text, state text) RETURNS void LANGUAGE sql AS $$
	SELECT fx.topic(name, '{1,2,3}');
	UPDATE broker_internal.partitions SET incarnation = 0, settled_epoch = leader_epoch WHERE topic_id = fx.topic_id(name) -- as of before
$$;
\o /dev/null
SELECT fx.register(n, process => 200 + n) FROM generate_series(1, 3) n;
SELECT pg_temp.lost(n, NULL) FROM unnest(ARRAY['shrunk', 'moved', 'logs', 'same', 'gone']) n;
\o
SELECT is(pg_temp.claim(1, 'moved', 1, 0, 0, '[1,2,3]', 0, 100), 0, 'one report settles nothing');
SELECT is(pg_temp.claim(2, 'moved', 2, 1, 1, '[2,3]', 1, 120), 0, 'nor do two');
SELECT is(fx.state('moved'), '1 {1,2,3} {}', 'the row is as old as it was');
SELECT is(pg_temp.claim(3, 'moved', 2, 1, 1, '[2,3]', 1, 120), 1, 'the last one does');
SELECT is(fx.state('moved'), '2 {2,3} {}', 'A1: the lost election is adopted: acknowledged records are not truncated');
SELECT is((SELECT leader_epoch || ' ' || partition_epoch FROM broker.partitions WHERE topic = 'moved'), '1 2', 'its leader goes on in its epoch');
SELECT is(pg_temp.claim(1, 'shrunk', 1, 0, 3, '[1,2]', 0, 200) + pg_temp.claim(2, 'shrunk', 1, 0, 3, '[1,2]', 0, 200) + pg_temp.claim(3, 'shrunk', 1, 0, 0, '[1,2,3]', 0, 90), 1, 'a lost shrink');
SELECT is(fx.state('shrunk'), '1 {1,2} {}', 'is adopted: 3 cannot be elected');
SELECT is(pg_temp.claim(1, 'logs', -1, -1, -1, '[]', 0, 100) + pg_temp.claim(2, 'logs', -1, -1, -1, '[]', 2, 90) + pg_temp.claim(3, 'logs', -1, -1, -1, '[]', 2, 95), 1, 'all processes are new, but a log is younger than the row');
SELECT is(fx.state('logs'), '3 {3} {}', 'the greatest (last epoch, log end) leads');
SELECT cmp_ok((SELECT leader_epoch FROM broker.partitions WHERE topic = 'logs'), '>=', (SELECT epoch_floor FROM broker_internal.cluster), 'in an epoch above the floor');
SELECT is(pg_temp.claim(1, 'same', 1, 0, 0, '[1,2,3]', 0, 100) + pg_temp.claim(2, 'same', 1, 0, 0, '[1,2,3]', 0, 100) + pg_temp.claim(3, 'same', -1, -1, -1, '[]', -1, 0), 1, 'nothing is newer than the row');
SELECT is(fx.state('same'), '1 {1,2,3} {}', 'it stays');
SELECT ok(fx.alter_isr(1, 'same', '{1,2}'), 'and is decided on again');
UPDATE broker_internal.brokers SET backend_pid = NULL WHERE broker_id = 3;
SELECT is(pg_temp.claim(1, 'gone', 3, 5, 7, '[2,3]', 4, 100) + pg_temp.claim(2, 'gone', 3, 5, 7, '[2,3]', 5, 100) + pg_temp.claim(3, 'gone', 3, 5, 7, '[2,3]', 5, 100), 1, 'the newest leader reports');
\o /dev/null
SELECT fx.tick(1, '{3}');
\o
SELECT is(fx.state('gone'), '2 {2} {3}', 'and dies after that: an ordinary election');
-- a reassignment that was lost: those to whom it moved have the records
\o /dev/null
SELECT fx.register(3, process => 300);
SELECT fx.register(4, process => 400);
SELECT fx.topic('trek', '{1,2}');
UPDATE broker_internal.partitions SET incarnation = 0 WHERE topic_id = fx.topic_id('trek');
\o
SELECT is(pg_temp.claim(1, 'trek', 3, 5, 9, '[3,4]', 2, 10), 0, 'A1: one that gave its replica up knows who has it');
SELECT is(pg_temp.claim(2, 'trek', -1, -1, -1, '[]', -1, 0), 0, 'the row''s replicas have reported, and that is not enough');
SELECT is(pg_temp.claim(3, 'trek', 3, 5, 9, '[3,4]', 5, 100), 0, 'nor is one of the new ones');
SELECT is(pg_temp.claim(4, 'trek', 3, 5, 9, '[3,4]', 5, 100), 1, 'the last of them settles it');
SELECT is(fx.state('trek'), '3 {3,4} {}', 'the newest report''s leader goes on');
SELECT is((SELECT replicas FROM broker.partitions WHERE topic = 'trek'), '{1,2,3,4}'::int[], 'and its ISR are replicas again');
SELECT is((SELECT count(*) FROM broker_internal.partition_claims c JOIN broker_internal.topics t USING (topic_id) WHERE t.topic IN ('moved', 'same', 'gone', 'logs', 'shrunk')), 0::bigint, 'reports that were used are gone');
-- What a report is compared with does not move while it is waited for, and nobody stays in an ISR on an old word.
\o /dev/null
SELECT fx.register(n, process => 300 + n) FROM generate_series(1, 3) n;
SELECT pg_temp.lost(n, NULL) FROM unnest(ARRAY['alone', 'equal', 'forgot', 'younger', 'stopped', 'disk', 'still', 'again', 'word']) n;
UPDATE broker_internal.brokers SET backend_pid = NULL WHERE broker_id = 1;
SELECT fx.tick(2, '{1}');
SELECT fx.register(1, process => 311);
\o
SELECT is((SELECT array_agg(DISTINCT partition_epoch) FROM broker.partitions WHERE topic IN ('alone', 'forgot')), '{0}', 'a leader that is gone moves no partition epoch of an unsettled row (M14)');
SELECT is(pg_temp.claim(2, 'alone', 1, 0, 0, '[1,2,3]', 0, 80) + pg_temp.claim(3, 'alone', 1, 0, 0, '[1,2,3]', 0, 80) + pg_temp.claim(1, 'alone', 1, 0, 1, '[1]', 0, 100), 1, 'so a report of one change more');
SELECT is(fx.state('alone'), '1 {1} {}', 'is the newest');
SELECT is(pg_temp.claim(1, 'equal', -1, -1, -1, '[]', 0, 100) + pg_temp.claim(2, 'equal', -1, -1, -1, '[]', 0, 80) + pg_temp.claim(3, 'equal', -1, -1, -1, '[]', 0, 100), 1, 'nobody remembers a shrink');
SELECT is(fx.state('equal'), '1 {1,3} {}', 'the longest logs are the ISR: a shorter one may lack what was acknowledged (M13, M4)');
SELECT is(pg_temp.claim(1, 'forgot', -1, -1, -1, '[]', 0, 100) + pg_temp.claim(2, 'forgot', -1, -1, -1, '[]', 0, 100) + pg_temp.claim(3, 'forgot', -1, -1, -1, '[]', 3, 40), 1, 'nobody remembers an election, but a log does');
SELECT is(fx.state('forgot'), '3 {3} {}', 'though the floor moved the leader epoch meanwhile (M15)');
SELECT is(pg_temp.claim(1, 'younger', 2, 0, 1, '[1,2,3]', 0, 100) + pg_temp.claim(2, 'younger', -1, -1, -1, '[]', 0, 100) + pg_temp.claim(3, 'younger', 2, 0, 1, '[1,2,3]', 0, 90), 1, 'the leader of the newest report is another process by now');
SELECT cmp_ok((SELECT leader_epoch FROM broker.partitions WHERE topic = 'younger'), '>', 60000000, 'it does not go on in its epoch (M13)');
SELECT is(fx.state('younger'), '1 {1,2} {}', 'and the longest lead');
UPDATE broker_internal.brokers SET stopping = true WHERE broker_id = 1;
SELECT is(pg_temp.claim(1, 'stopped', -1, -1, -1, '[]', 0, 100) + pg_temp.claim(2, 'stopped', -1, -1, -1, '[]', 0, 80) + pg_temp.claim(3, 'stopped', -1, -1, -1, '[]', 0, 80), 1, 'the longest log is where nobody may lead now');
SELECT is(fx.state('stopped'), 'none {1} {}', 'it is waited for (M16)');
UPDATE broker_internal.brokers SET stopping = false WHERE broker_id = 1;
\o /dev/null
SELECT broker_internal.register_broker_1(2, fx.id(402), fx.id(7002), -1, NULL, NULL, '[]', '1.0', '{}');
\o
SELECT is(pg_temp.claim(1, 'disk', 1, 0, 0, '[1,2,3]', 0, 100) + pg_temp.claim(2, 'disk', -1, -1, -1, '[]', -1, 0) + pg_temp.claim(3, 'disk', 1, 0, 0, '[1,2,3]', 0, 100), 1, 'a member came with another disk while its reports were waited for');
SELECT is(fx.state('disk'), '1 {1,3} {}', 'it is no member any more (M11)');
SELECT is(pg_temp.claim(1, 'again', 1, 5, 7, '[1,2,3]', 5, 100) + pg_temp.claim(1, 'word', 3, 5, 7, '[1,3]', 0, 100), 0, 'a leader in office reports, and what only it knows');
\o /dev/null
SELECT fx.register(1, process => 411);
\o
UPDATE broker_internal.partitions SET leader = NULL, leader_epoch = 2, settled_epoch = 2 WHERE topic_id = fx.topic_id('again');
SELECT is(pg_temp.claim(2, 'again', -1, -1, -1, '[]', 5, 100) + pg_temp.claim(3, 'again', 1, 0, 0, '[1,2,3]', 0, 90), 1, 'then its broker is another process');
SELECT cmp_ok((SELECT leader_epoch FROM broker.partitions WHERE topic = 'again'), '>', 5, 'which does not lead on in that epoch (A3a)');
SELECT is(pg_temp.claim(1, 'word', -1, -1, -1, '[]', 0, 90) + pg_temp.claim(2, 'word', -1, -1, -1, '[]', 0, 100) + pg_temp.claim(3, 'word', -1, -1, -1, '[]', 0, 95), 1, 'what the process before knew is not taken back by one that knows nothing');
SELECT is(fx.state('word'), '3 {3} {}', 'so nobody leads who had left the ISR, and the log is as the later report had it');
SELECT ok(NOT fx.alter_isr(1, 'still', '{1}'), 'no change of the ISR lands on an unsettled row');
SELECT throws_ok($$ SELECT broker_internal.claim_partitions_1(1, 5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) $$, 'PB077', NULL, 'an old epoch reports nothing');
SELECT finish();
