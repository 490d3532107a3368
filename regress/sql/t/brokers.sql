-- Leaders that move though nobody died, and brokers that are drained, fenced, decommissioned, forgotten.
SELECT no_plan();
\o /dev/null
SELECT fx.register(n) FROM generate_series(1, 4) n;
SELECT fx.topic('a', '{1,2,3}');
SELECT fx.topic('b', '{2,1,3}');
SELECT fx.topic('solo', '{2}');
CREATE FUNCTION pg_temp.die(VARIADIC ids int[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE broker_internal.brokers SET backend_pid = NULL WHERE broker_id = ANY (ids);
	PERFORM fx.tick((SELECT min(broker_id) FROM broker_internal.brokers WHERE backend_pid IS NOT NULL), ids);
END
$$;
-- "kind state waiting_for" of the youngest operation
CREATE FUNCTION pg_temp.last() RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', kind, state, waiting_for, error) FROM broker.operations ORDER BY operation_id DESC LIMIT 1
$$;
CREATE FUNCTION pg_temp.state(id int) RETURNS text LANGUAGE sql AS $$ SELECT state FROM broker.brokers WHERE broker_id = id $$;
-- The session of `id` is another one than the test's, so that fencing it does not end the test.
CREATE FUNCTION pg_temp.own_session(id int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.dblink_connect('broker' || id, format('host=%s port=%s dbname=%s', trim('"' FROM current_setting('unix_socket_directories')), current_setting('port'), current_database()));
	UPDATE broker_internal.brokers SET (backend_pid, backend_start) = (SELECT x.pid, a.backend_start
		FROM public.dblink('broker' || id, 'SELECT pg_backend_pid()') x(pid int) JOIN pg_stat_get_activity(NULL) a USING (pid)) WHERE broker_id = id;
END
$$;

\o

-- drained: it leads nothing that somebody else can lead, and follows on
SELECT throws_ok($$ SELECT broker.drain_broker(9) $$, 'PB102', NULL, 'no such broker');
SELECT is(broker.drain_broker(2), 1, 'one leadership will move (the other has one replica only)');
SELECT is(fx.state('b'), '2 {2,1,3} {}', 'not by the call');
\o /dev/null
SELECT fx.tick();
\o
SELECT is(fx.state('b'), '1 {2,1,3} {}', 'by the tick: another leader, and it stays in the ISR');
SELECT is(fx.state('solo'), '2 {2} {}', 'what nobody else has it leads on');
SELECT is(pg_temp.last(), 'broker.drain done', 'done: nothing that can move is left');
SELECT is(pg_temp.state(2), 'draining', 'the view says so');
SELECT is((SELECT severity FROM broker.problems WHERE object = 'broker 2' AND problem LIKE 'drained%'), 'info', 'problems too, lest it be forgotten');
SELECT is((SELECT state FROM broker_internal.brokers_1(0) WHERE broker_id = 2), 'draining', 'and brokers are told');
\o /dev/null
SELECT pg_temp.die(1);
\o
SELECT is(fx.state('b'), '3 {2,3} {}', 'an election passes it by');
\o /dev/null
SELECT pg_temp.die(3);
\o
SELECT is(fx.state('b'), '2 {2} {3}', 'but when it is the last one it leads');
\o /dev/null
SELECT fx.register(1, process => 11);
SELECT fx.register(3, process => 31);
SELECT fx.topic('c', '{2,4}');
\o
SELECT is(fx.state('c'), '4 {2,4} {}', 'a new topic is led by another');
SELECT ok(broker.undrain_broker(2), 'its work is done');
\o /dev/null
SELECT fx.alter_isr(2, 'b', '{2,1,3}'), fx.alter_isr(2, 'a', '{2,1,3}');
SELECT fx.tick(2);
\o
SELECT is(fx.state('c'), '2 {2,4} {}', 'it is led again by its preferred leader');
SELECT is(pg_temp.state(2), 'alive', 'alive');
SELECT ok(NOT broker.undrain_broker(2), 'it was not drained');

-- a drain that has to wait says for what
\o /dev/null
SELECT fx.alter_isr(2, 'c', '{2}');
SELECT broker.drain_broker(2);
SELECT fx.tick();
\o
SELECT is(pg_temp.last(), 'broker.drain running another replica of c-0 to be in sync', 'it waits for a replica in sync');
\o /dev/null
SELECT fx.alter_isr(2, 'c', '{2,4}');
SELECT fx.tick();
\o
SELECT is(pg_temp.last() || ' ' || fx.state('c'), 'broker.drain done 4 {2,4} {}', 'and goes on by itself');
\o /dev/null
SELECT broker.undrain_broker(2);
SELECT fx.tick();
\o

-- preferred leaders by hand
\o /dev/null
SELECT pg_temp.die(1);
SELECT fx.register(1, process => 12);
SELECT fx.alter_isr(p.leader, t.topic, '{1,2,3}') FROM broker_internal.partitions p JOIN broker_internal.topics t USING (topic_id) WHERE t.topic = 'a';
\o
SELECT isnt((SELECT leader FROM broker.partitions WHERE topic = 'a'), 1, 'led by another than the preferred one');
SELECT results_eq($$ SELECT topic, partition, new_leader FROM broker.elect_leaders('a') $$, $$ VALUES ('a', 0, 1) $$, 'it is shown who will lead');
\o /dev/null
SELECT fx.tick();
\o
SELECT is(fx.state('a'), '1 {1,2,3} {}', 'and so it is');
SELECT is((SELECT count(*) FROM broker.elect_leaders('a', '{0}')), 0::bigint, 'nothing to do: no row');
\o /dev/null
SELECT fx.alter_isr(2, 'b', '{2,3}') WHERE (SELECT leader = 2 FROM broker.partitions WHERE topic = 'b');
SELECT broker.reassign_partitions('b', '{0}', '{1,2,3}');
SELECT fx.tick();
\o
SELECT throws_ok($$ SELECT broker.elect_leaders('b', '{0}') $$, 'PB080', NULL, 'a preferred leader that is not in sync is refused by name');
SELECT is((SELECT count(*) FROM broker.elect_leaders('b')), 0::bigint, 'and passed by where only the topic is named');
SELECT throws_ok($$ SELECT broker.elect_leaders('nobody') $$, 'PB003', NULL, 'no such topic');
SELECT throws_ok($$ SELECT broker.elect_leaders('b', '{5}') $$, 'PB003', NULL, 'no such partition');

-- by itself: after the interval, where more than the percentage are led by others
\o /dev/null
SELECT fx.topic('x' || n, '{4,3}') FROM generate_series(1, 20) n;
SELECT pg_temp.die(4);
SELECT fx.register(4, process => 41);
SELECT fx.alter_isr(3, 'x' || n, '{4,3}') FROM generate_series(1, 20) n;
SELECT fx.tick();
\o
SELECT is((SELECT count(*) FROM broker.partitions WHERE topic LIKE 'x%' AND leader = 3), 20::bigint, 'not at once');
UPDATE broker_internal.cluster SET balanced_at = clock_timestamp() - interval '301 s';
\o /dev/null
SELECT fx.tick();
\o
SELECT is((SELECT count(*) FROM broker.partitions WHERE topic LIKE 'x%' AND leader = 3), 20::bigint, 'not to one that has only just come');
UPDATE broker_internal.cluster SET balanced_at = clock_timestamp() - interval '301 s';
UPDATE broker_internal.brokers SET registered_at = clock_timestamp() - interval '31 s' WHERE broker_id = 4;
\o /dev/null
SELECT fx.tick();
\o
SELECT is((SELECT count(*) FROM broker.partitions WHERE topic LIKE 'x%' AND leader = 4 AND leader_epoch = 2), 20::bigint, 'after the interval, all of them');
SELECT is((SELECT DISTINCT reason FROM broker.events WHERE topic LIKE 'x%' AND new = '4, epoch 2'), 'the preferred leader is in sync again', 'with the reason');
\o /dev/null
SELECT broker.reassign_partitions('x1', '{0}', '{3,4}');
SELECT fx.tick();
UPDATE broker_internal.cluster SET balanced_at = clock_timestamp() - interval '301 s';
SELECT broker.alter_cluster('{"leader.imbalance.per.broker.percentage": 50}');
SELECT fx.tick();
\o
SELECT is((SELECT leader FROM broker.partitions WHERE topic = 'x1'), 4, 'below the percentage nothing moves');
\o /dev/null
SELECT broker.alter_cluster('{"leader.imbalance.per.broker.percentage": 0, "auto.leader.rebalance.enable": false}');
UPDATE broker_internal.cluster SET balanced_at = clock_timestamp() - interval '301 s';
SELECT fx.tick();
\o
SELECT is((SELECT leader FROM broker.partitions WHERE topic = 'x1'), 4, 'nor when it is switched off');

-- unclean: only what is named, with a warning and a row
\o /dev/null
SELECT fx.topic('u', '{4,3}');
SELECT fx.alter_isr(4, 'u', '{4}');
SELECT pg_temp.die(4);
\o
SELECT is(fx.state('u'), 'none {4} {}', 'offline: the other one may lack records');
SELECT throws_ok($$ SELECT broker.elect_leaders('u', unclean => true) $$, '22023', NULL, 'not for a whole topic');
SELECT results_eq($$ SELECT * FROM broker.elect_leaders('u', '{0}', unclean => true) $$, $$ VALUES ('u', 0, NULL::int, 3) $$, 'a person decides');
\o /dev/null
SELECT fx.tick();
\o
SELECT is(fx.state('u'), '3 {3} {}', 'it leads alone');
SELECT results_eq($$ SELECT old, new, actor FROM broker.events WHERE kind = 'partition.unclean' AND topic = 'u' $$, $$ VALUES ('{4}', '3', 'postgres') $$, 'recorded, with who asked for it');
\o /dev/null
SELECT pg_temp.die(3);
\o
SELECT throws_ok($$ SELECT broker.elect_leaders('u', '{0}', unclean => true) $$, 'PB083', NULL, 'nobody is left');
\o /dev/null
SELECT fx.register(3, process => 33);
SELECT fx.register(4, process => 44);
\o

-- A1: partitions that wait for reports that will not come
\o /dev/null
SELECT fx.topic('lost', '{3,4}');
UPDATE broker_internal.partitions SET incarnation = 0, leader = NULL WHERE topic_id = fx.topic_id('lost');
INSERT INTO broker_internal.partition_claims SELECT fx.topic_id('lost'), 0, 4, c.pg_incarnation, 1, 3, 7, 9, '{3,4}', 7, 100 FROM broker_internal.cluster c;
SELECT broker.elect_leaders('lost', '{0}', unclean => true);
SELECT fx.tick();
\o
SELECT is(fx.state('lost'), '4 {4} {}', 'A1: the one that has reported leads');
SELECT ok((SELECT leader_epoch > 7 AND partition_epoch > 9 FROM broker.partitions WHERE topic = 'lost'), 'in epochs above all that are known');

-- kept out
\o /dev/null
SELECT pg_temp.own_session(4);
\o
SELECT ok(broker.fence_broker(4), 'broker 4 is to be kept out');
\o /dev/null
SELECT fx.tick();
\o
SELECT is(pg_temp.state(4), 'fenced', 'fenced');
SELECT is((SELECT reason FROM broker.events WHERE kind = 'broker.dead' AND broker_id = 4 ORDER BY event_id DESC LIMIT 1), 'fenced by postgres', 'by whom');
SELECT is((SELECT state FROM broker_internal.brokers_1(0) WHERE broker_id = 4), 'dead', 'to brokers it is dead');
SELECT throws_ok($$ SELECT fx.register(4, process => 45) $$, 'PB102', NULL, 'it is not let in');
SELECT ok(NOT broker.fence_broker(4), 'it was kept out already');
SELECT is((SELECT severity FROM broker.problems WHERE object = 'broker 4'), 'warning', 'problems says so');
SELECT is((SELECT brokers_alive FROM broker.cluster), 3, 'it does not count as alive');
SELECT ok(broker.unfence_broker(4), 'let in again');
\o /dev/null
SELECT fx.tick();
\o
SELECT lives_ok($$ SELECT fx.register(4, process => 46) $$, 'it registers');
SELECT is(pg_temp.state(4), 'alive', 'alive');
SELECT ok(NOT broker.unfence_broker(4), 'it was not kept out');

-- decommissioned: alive
\o /dev/null
SELECT fx.alter_isr(p.leader, t.topic, p.replicas) FROM broker_internal.partitions p JOIN broker_internal.topics t USING (topic_id) WHERE p.leader IS NOT NULL AND cardinality(p.isr) < cardinality(p.replicas)
	AND NOT EXISTS (SELECT FROM unnest(p.replicas) r(id) JOIN broker_internal.brokers b ON b.broker_id = r.id WHERE b.fenced);
\o
SELECT throws_ok($$ SELECT broker.decommission_broker(9) $$, 'PB102', NULL, 'no such broker');
SELECT is((SELECT count(*) FROM broker.decommission_broker(2, dry_run => true)), (SELECT count(*) FROM broker.partitions WHERE 2 = ANY (replicas)), 'a plan for every replica of it');
SELECT is((SELECT count(*) FROM broker.decommission_broker(2, dry_run => true) WHERE 2 = ANY (target_replicas) OR cardinality(target_replicas) <> cardinality(replicas)), 0::bigint, 'elsewhere, as many');
\o /dev/null
SELECT pg_temp.own_session(2);
SELECT broker.decommission_broker(2);
SELECT fx.tick();
\o
SELECT is(pg_temp.state(2), 'decommissioning', 'the view says so');
SELECT matches(pg_temp.last(), '^broker.decommission running .*: broker [0-9]+ to copy the log$', 'it waits for copies');
\o /dev/null
SELECT broker_internal.create_topics_1('User:a', NULL, '[{"name":"young","partitions":12,"replication_factor":2}]', false);
\o
SELECT is((SELECT count(*) FROM broker.partitions WHERE topic = 'young' AND 2 = ANY (replicas)), 0::bigint, 'new topics are not placed there');
SELECT throws_ok($$ SELECT broker.reassign_partitions('young', '{0}', '{2,3}') $$, 'PB039', NULL, 'nor are replicas moved there');
\o /dev/null
SELECT fx.alter_isr(p.leader, t.topic, p.isr || broker_internal.without(p.adding, p.isr), part => p.partition) FROM broker_internal.partitions p JOIN broker_internal.topics t USING (topic_id) WHERE p.origin IS NOT NULL;
SELECT fx.tick();
\o
SELECT is((SELECT count(*) FROM broker.partitions WHERE 2 = ANY (replicas)), 0::bigint, 'nothing is left on it');
SELECT is(pg_temp.last(), 'broker.decommission done', 'done');
SELECT is(pg_temp.state(2), NULL, 'and it is forgotten');
SELECT is((SELECT state FROM broker_internal.brokers_1(1) WHERE broker_id = 2), 'unregistered', 'which brokers are told');
SELECT is((SELECT count(*) FROM broker_internal.brokers_1(0) WHERE broker_id = 2), 0::bigint, 'those that read everything have no need to');
SELECT throws_ok($$ SELECT fx.register(2, process => 21) $$, 'PB102', NULL, 'with its disk it is not let in');
SELECT pg_incarnation AS inc FROM broker_internal.cluster \gset
SELECT lives_ok($$ SELECT fx.register(2, process => 22, disk => 222, disk_epoch => -1) $$, 'with an empty one it is a new broker');

-- decommissioned: dead
\o /dev/null
SELECT fx.topic('d', '{3,4}');
SELECT pg_temp.die(4);
SELECT broker.decommission_broker(4);
SELECT fx.tick();
\o
SELECT is(pg_temp.state(4), 'dead', 'a dead one stays dead');
SELECT ok((SELECT NOT 4 = ANY (target_replicas) FROM broker.reassignments WHERE topic = 'd'), 'its replicas are made elsewhere');
SELECT ok(broker.undrain_broker(4), 'it may be taken back');
\o /dev/null
SELECT fx.tick();
\o
SELECT is((SELECT state FROM broker.operations WHERE kind = 'broker.decommission' ORDER BY operation_id DESC LIMIT 1), 'cancelled', 'cancelled');
SELECT is((SELECT count(*) FROM broker.reassignments), 0::bigint, 'and what had begun is taken back');

-- forgotten
SELECT throws_ok($$ SELECT broker.unregister_broker(1) $$, 'PB904', NULL, 'not while it is alive');
\o /dev/null
SELECT fx.topic('only', '{2}');
SELECT pg_temp.die(2);
\o
SELECT throws_matching($$ SELECT broker.unregister_broker(2) $$, 'has the last replica of only-0', 'nor with the last replica of a partition');
SELECT ok(broker.unregister_broker(2, force => true), 'unless forced');
\o /dev/null
SELECT fx.tick();
\o
SELECT is(pg_temp.state(2), NULL, 'forgotten');
SELECT is((SELECT count(*) FROM broker.problems WHERE problem LIKE '%brokers that are not registered: 2' AND object = 'topic only'), 1::bigint, 'its replicas are a problem');
SELECT lives_ok($$ SELECT fx.register(2, process => 23, disk => 222, disk_epoch => (SELECT broker_epoch FROM broker_internal.former_brokers WHERE broker_id = 2)) $$, 'it comes back with its disk');
SELECT is((SELECT pg_incarnation FROM broker_internal.cluster), :inc::bigint, 'A1: which is no sign of an older backup');
SELECT is(fx.state('only'), '2 {2} {}', 'and its data is there');

-- what is under way survives a tick that meets a row which a person holds
SELECT finish();
