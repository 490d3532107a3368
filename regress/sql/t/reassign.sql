-- Reassignment: requests, the machine of adding and removing replicas, and what brokers are told of it.
SELECT no_plan();
\o /dev/null
SELECT fx.register(n) FROM generate_series(1, 5) n;
SELECT fx.topic('a', '{1,2,3}');
SELECT fx.topic('b', '{1}');
SELECT fx.topic('c', '{3,4}');
-- "replicas adding removing origin"
CREATE FUNCTION pg_temp.moving(name text, part int DEFAULT 0) RETURNS text LANGUAGE sql AS $$
	SELECT format('%s %s %s %s', replicas, adding, removing, coalesce(origin::text, '-')) FROM broker_internal.partitions WHERE topic_id = fx.topic_id(name) AND partition = part
$$;
CREATE FUNCTION pg_temp.dropped(id int) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(t.topic || '-' || d.partition, ' ' ORDER BY 1) FROM broker_internal.dropped_replicas_1(id, fx.epoch(id)) d JOIN broker_internal.topics t USING (topic_id)
$$;
CREATE FUNCTION pg_temp.ack(id int) RETURNS void LANGUAGE sql AS $$
	SELECT broker_internal.replicas_dropped_1(id, fx.epoch(id), array_agg(topic_id), array_agg(partition), array_agg(partition_epoch)) FROM broker_internal.dropped_replicas_1(id, fx.epoch(id))
$$;
CREATE FUNCTION pg_temp.version() RETURNS bigint LANGUAGE sql AS $$ SELECT version FROM broker_internal.cluster $$;
\o

-- exact, by a person: shown, written at the commit, carried out by the tick
SELECT results_eq($$ SELECT * FROM broker.reassign_partitions('a', '{0}', '{4,2,5}', dry_run => true) $$, $$ VALUES ('a', 0, '{1,2,3}'::int[], '{4,2,5}'::int[], 0::bigint) $$, 'a plan');
SELECT is((SELECT count(*) FROM broker.operations WHERE kind = 'partitions.reassign'), 0::bigint, 'dry_run writes nothing');
SELECT lives_ok($$ SELECT broker.reassign_partitions('a', '{0}', '{4,2,5}') $$, 'it is asked for');
SELECT is(pg_temp.moving('a'), '{1,2,3} {} {} -', 'a person''s call writes no partition');
SELECT is((SELECT state FROM broker.operations WHERE kind = 'partitions.reassign'), 'waiting', 'it waits for the tick');
SELECT pg_temp.version() AS v \gset
SELECT ok(fx.tick(), 'the tick takes it up');
SELECT is(pg_temp.moving('a'), '{4,2,5,1,3} {4,5} {1,3} {1,2,3}', 'as in Kafka: the target first, then what goes');
SELECT is(fx.state('a'), '1 {1,2,3} {}', 'leader and ISR are as they were');
SELECT results_eq(format('SELECT topic FROM broker_internal.topics_1(%s, NULL, 100)', :v), $$ VALUES ('a') $$, 'brokers read it');
SELECT results_eq($$ SELECT replicas, target_replicas, adding, removing, requested_by, waiting_for FROM broker.reassignments WHERE topic = 'a' $$,
	$$ VALUES ('{1,2,3}'::int[], '{4,2,5}'::int[], '{4,5}'::int[], '{1,3}'::int[], 'postgres', 'broker 4, 5 to copy the log') $$, 'the view');
SELECT results_eq($$ SELECT state, progress, waiting_for FROM broker.operations WHERE kind = 'partitions.reassign' $$, $$ VALUES ('running', 0::numeric, 'a-0: broker 4, 5 to copy the log') $$, 'the operation says what it waits for');
SELECT is((SELECT is_under_replicated FROM broker.partitions WHERE topic = 'a'), false, 'what is being added does not make it under-replicated');
SELECT pg_temp.version() AS v \gset
SELECT ok(NOT fx.tick(), 'a tick with nothing new does nothing');
SELECT is(pg_temp.version(), :v::bigint, 'and takes no version');
SELECT throws_ok($$ SELECT broker.reassign_partitions('a', '{0}', '{1,2}') $$, 'PB060', NULL, 'one at a time from SQL');
SELECT throws_ok($$ SELECT broker.set_replication_factor('a', 2) $$, 'PB060', NULL, 'neither another factor');

-- the leader adds them to the ISR
SELECT ok(fx.alter_isr(1, 'a', '{1,2,3,4}'), 'an adding replica joins the ISR');
SELECT is(pg_temp.moving('a'), '{4,2,5,1,3} {4,5} {1,3} {1,2,3}', 'not all are there yet');
SELECT is((SELECT waiting_for FROM broker.reassignments WHERE topic = 'a'), 'broker 5 to copy the log', 'the view says who is missing');
SELECT results_eq($$ SELECT landed, leader, isr FROM broker_internal.alter_isr_1(1, fx.epoch(1), ARRAY[fx.topic_id('a')], '{0}', '{0}', ARRAY[(SELECT partition_epoch FROM broker.partitions WHERE topic = 'a')],
		'[[{"id":1,"epoch":-1},{"id":2,"epoch":-1},{"id":3,"epoch":-1},{"id":4,"epoch":-1},{"id":5,"epoch":-1}]]') $$,
	$$ VALUES (true, 1, '{1,2,3,4,5}'::int[]) $$, 'the last one: the caller is told its own change');
SELECT is(pg_temp.moving('a'), '{4,2,5} {} {} -', 'in the same transaction it is done');
SELECT is(fx.state('a'), '4 {2,4,5} {}', 'the leader was removed: the first of the target leads');
SELECT is((SELECT leader_epoch FROM broker.partitions WHERE topic = 'a'), 1, 'in a new epoch');
SELECT is(pg_temp.dropped(1) || ', ' || pg_temp.dropped(3), 'a-0, a-0', 'who lost a replica is told so');
SELECT is(pg_temp.dropped(2), NULL, 'nobody else is');
SELECT ok(fx.tick(), 'the next tick ends the operation');
SELECT results_eq($$ SELECT state, progress, waiting_for FROM broker.operations WHERE kind = 'partitions.reassign' $$, $$ VALUES ('done', 1::numeric, NULL::text) $$, 'done');
SELECT is((SELECT count(*) FROM broker.reassignments), 0::bigint, 'nothing is under way');
SELECT results_eq($$ SELECT kind, old, new, actor, via FROM broker.events WHERE object = 'a-0' AND kind LIKE 'partition.reassign%' ORDER BY event_id $$,
	$$ VALUES ('partition.reassign', '{1,2,3}', '{4,2,5}', 'postgres', 'sql'), ('partition.reassigned', '{1,2,3}', '{4,2,5}', NULL, 'controller') $$, 'the history');
SELECT throws_ok($$ SELECT * FROM broker_internal.dropped_replicas_1(1, 5) $$, 'PB077', NULL, 'a stale epoch is told nothing');
SELECT lives_ok($$ SELECT pg_temp.ack(1) $$, 'broker 1 has deleted it');
SELECT is(pg_temp.dropped(1), NULL, 'and is asked no more');

-- a replica that comes back before its log was deleted
SELECT lives_ok($$ SELECT broker.reassign_partitions('a', '{0}', '{4,2,3}') $$, 'broker 3 gets it back');
\o /dev/null
SELECT partition_epoch AS old_epoch FROM broker_internal.dropped_replicas_1(3, fx.epoch(3)) \gset
SELECT fx.tick();
\o
SELECT is(pg_temp.dropped(3), NULL, 'A7: it is not to delete what it has again');
\o /dev/null
SELECT fx.alter_isr(4, 'a', '{4,2,5,3}');
SELECT broker.reassign_partitions('a', '{0}', '{4,2,5}');
SELECT fx.tick();
SELECT fx.alter_isr(4, 'a', '{4,2,3,5}');
\o
SELECT is(pg_temp.dropped(3), 'a-0', 'lost again');
SELECT lives_ok(format('SELECT broker_internal.replicas_dropped_1(3, fx.epoch(3), ARRAY[fx.topic_id(''a'')], ''{0}'', ''{%s}'')', :old_epoch), 'a late word about the first time');
SELECT is(pg_temp.dropped(3), 'a-0', 'does not count for the second');

-- what stays must be enough: of two copies that were promised not one
\o /dev/null
SELECT fx.alter_isr(4, 'a', '{4,5}');
SELECT broker.reassign_partitions('a', '{0}', '{4,2,1}');
SELECT fx.tick();
SELECT fx.alter_isr(4, 'a', '{4,5,1}');
\o
SELECT is(pg_temp.moving('a'), '{4,2,1} {} {} -', 'two of the target are in sync: an old replica that lags does not hinder');
\o /dev/null
SELECT fx.alter_isr(4, 'a', '{4,1}');
SELECT broker.reassign_partitions('a', '{0}', '{4,2}');
SELECT fx.tick();
\o
SELECT is(pg_temp.moving('a'), '{4,2} {} {} -', 'two replicas promise one copy: fewer are done at once');

\o /dev/null
SELECT fx.topic('two', '{1,2,3}', '{"min.insync.replicas": "2"}');
SELECT fx.alter_isr(1, 'two', '{1,2}');
SELECT broker.reassign_partitions('two', '{0}', '{1,3}');
SELECT fx.tick();
\o
SELECT is(pg_temp.moving('two'), '{1,3,2} {} {2} {1,2,3}', 'what two copies were promised for is not left to one');
SELECT is((SELECT waiting_for FROM broker.reassignments WHERE topic = 'two'), 'more of {1,3} to be in sync', 'the view says so');
SELECT ok(fx.alter_isr(1, 'two', '{1,2,3}'), '3 is in sync');
SELECT is(pg_temp.moving('two') || ' ' || fx.state('two'), '{1,3} {} {} - 1 {1,3} {}', 'and 2 can go');

-- the order only: no data moves
SELECT lives_ok($$ SELECT broker.reassign_partitions('a', '{0}', '{2,4}') $$, 'another order');
\o /dev/null
SELECT fx.tick();
SELECT fx.alter_isr(4, 'a', '{4,2}');
\o
SELECT is(pg_temp.moving('a') || ' ' || fx.state('a'), '{2,4} {} {} - 4 {4,2} {}', 'the preferred leader is another, the leader the same');

-- more and fewer replicas
SELECT results_eq($$ SELECT * FROM broker.set_replication_factor('b', 3, dry_run => true) $$, $$ VALUES ('b', 0, '{1}'::int[], '{1,5,2}'::int[], 0::bigint) $$, 'the least loaded ones are added');
SELECT throws_ok($$ SELECT broker.set_replication_factor('b', 9) $$, 'PB038', NULL, 'more than brokers');
SELECT throws_ok($$ SELECT broker.set_replication_factor('b', 0) $$, 'PB038', NULL, 'none');
SELECT throws_ok($$ SELECT broker.set_replication_factor('nobody', 2) $$, 'PB003', NULL, 'no such topic');
\o /dev/null
SELECT broker.set_replication_factor('b', 3);
SELECT fx.tick();
\o
SELECT is(pg_temp.moving('b'), '{1,5,2} {5,2} {} {1}', 'they are added');
SELECT is((SELECT min_isr FROM broker.topics WHERE topic = 'b'), 1, 'A1: while it grows from one the minimum stays 1');
\o /dev/null
SELECT fx.alter_isr(1, 'b', '{1,5,2}');
SELECT fx.tick();
\o
SELECT is(pg_temp.moving('b') || ' ' || fx.state('b'), '{1,5,2} {} {} - 1 {1,5,2} {}', 'done');
SELECT is((SELECT replication_factor || ' ' || min_isr FROM broker.topics WHERE topic = 'b'), '3 2', 'three replicas, and two of them are the minimum now');
\o /dev/null
SELECT broker.set_partition_count('b', 2);
SELECT fx.tick();
\o
SELECT is((SELECT cardinality(replicas) FROM broker.partitions WHERE topic = 'b' AND partition = 1), 3, 'a new partition gets as many');
\o /dev/null
SELECT broker.set_replication_factor('b', 1);
SELECT fx.tick();
\o
SELECT is((SELECT string_agg(cardinality(replicas)::text || cardinality(isr), ' ') FROM broker.partitions WHERE topic = 'b'), '11 11', 'fewer are done at once');

-- the set of partitions that a plan evens out; new brokers take part
\o /dev/null
SELECT broker_internal.create_topics_1('User:a', NULL, '[{"name":"wide","assignment":{"0":[1,2],"1":[1,2],"2":[1,2],"3":[1,2],"4":[1,2],"5":[1,2]}}]', false);
SELECT broker.reassign_partitions('wide', brokers => '{1,2,3,4}');
SELECT fx.tick();
\o
SELECT cmp_ok((SELECT max(n) - min(n) FROM (SELECT x.id, count(*) AS n FROM broker_internal.partitions p, unnest(broker_internal.without(p.replicas, p.removing)) x(id) WHERE x.id < 5 GROUP BY 1) s), '<=', 1::bigint, 'replicas are even over the four brokers');
SELECT throws_ok($$ SELECT broker.reassign_partitions('wide', brokers => '{1,9}') $$, 'PB060', NULL, 'under way');
SELECT throws_ok($$ SELECT broker.reassign_partitions('c', brokers => '{1,9}') $$, 'PB039', NULL, 'an unknown broker');
SELECT throws_ok($$ SELECT broker.reassign_partitions('c', '{0}', '{1,1}') $$, 'PB039', NULL, 'a broker twice');
SELECT throws_ok($$ SELECT broker.reassign_partitions('c', '{0}', '{}') $$, 'PB039', NULL, 'no replica');
SELECT throws_ok($$ SELECT broker.reassign_partitions('c', replicas => '{1,2}') $$, '22023', NULL, 'replicas without partitions');
SELECT throws_ok($$ SELECT broker.reassign_partitions(NULL, '{0}') $$, '22023', NULL, 'partitions without a topic');
SELECT throws_ok($$ SELECT broker.reassign_partitions('c', '{7}', '{1}') $$, 'PB003', NULL, 'no such partition');

-- back to what it was
SELECT isnt((SELECT count(*) FROM broker.cancel_reassignment('wide')), 0::bigint, 'it is taken back');
\o /dev/null
SELECT fx.tick();
\o
SELECT is((SELECT count(*) FROM broker.partitions WHERE topic = 'wide' AND replicas <@ '{1,2}' AND isr <@ '{1,2}' AND cardinality(isr) = 2), 6::bigint, 'the old replicas');
SELECT results_eq($$ SELECT kind, state FROM broker.operations WHERE object = 'topic wide' ORDER BY operation_id $$, $$ VALUES ('partitions.reassign', 'done'), ('partitions.cancel', 'done') $$, 'its operation ends');
SELECT throws_ok($$ SELECT broker.cancel_reassignment('wide') $$, 'PB085', NULL, 'nothing to take back');
SELECT cmp_ok((SELECT count(*) FROM broker_internal.dropped_replicas_1(3, fx.epoch(3)) d WHERE d.topic_id = fx.topic_id('wide')), '>', 0::bigint, 'who had begun to copy is told to delete it');
-- only new replicas in sync: there is no way back
\o /dev/null
SELECT broker.reassign_partitions('c', '{0}', '{1,2}');
SELECT fx.tick();
SELECT fx.alter_isr(3, 'c', '{3,1}');
UPDATE broker_internal.brokers SET backend_pid = NULL WHERE broker_id = 3;
SELECT fx.tick(1, '{3}');
\o
SELECT is(fx.state('c'), '1 {1} {}', 'a new replica leads');
SELECT throws_ok($$ SELECT broker.cancel_reassignment('c') $$, 'PB039', NULL, 'none of the old ones is in sync');
\o /dev/null
SELECT fx.register(3, process => 33);
\o

-- A1: what PostgreSQL may know less of than the replicas does not lose any
\o /dev/null
SELECT fx.topic('old', '{1,2,4}');
SELECT broker.reassign_partitions('old', '{0}', '{1,2}');
UPDATE broker_internal.partitions SET incarnation = 0 WHERE topic_id = fx.topic_id('old');
SELECT fx.tick();
\o
SELECT is(pg_temp.moving('old'), '{1,2,4} {} {} -', 'A1: it does not begin before its replicas have reported');
SELECT pg_temp.version() AS v \gset
\o /dev/null
SELECT fx.tick();
\o
SELECT is(pg_temp.version(), :v::bigint, 'nor does every tick take a version');

-- rolled back, it never was
BEGIN;
\o /dev/null
SELECT broker.reassign_partitions('b', '{0}', '{2}');
\o
ROLLBACK;
\o /dev/null
SELECT fx.tick();
\o
SELECT is(pg_temp.moving('b'), '{1} {} {} -', 'nothing of a transaction that was rolled back');

-- as Kafka's clients ask: each partition by itself, and one that is under way is replaced
CREATE FUNCTION pg_temp.alter(name text, wished text, factor bool DEFAULT true) RETURNS int LANGUAGE sql AS $$
	SELECT error_code FROM broker_internal.alter_reassignments_1('User:a', '10.0.0.1', factor, jsonb_build_array(jsonb_build_object('name', name, 'partitions', jsonb_build_array(jsonb_build_object('partition', 0, 'replicas', wished::jsonb)))))
$$;
\o /dev/null
SELECT fx.topic('k', '{1,2}');
\o
SELECT is(pg_temp.alter('nobody', '[1]'), 3, 'an unknown topic');
SELECT is(pg_temp.alter('k', '[1,9]'), 39, 'an unknown broker');
SELECT is(pg_temp.alter('k', '[]'), 39, 'no replica');
SELECT is(pg_temp.alter('k', '[1]', false), 38, 'another number of them, where that is forbidden');
SELECT is(pg_temp.alter('k', 'null'), 85, 'nothing to cancel');
SELECT is(pg_temp.alter('k', '[1,3]'), 0, 'a move');
SELECT is(pg_temp.moving('k'), '{1,3,2} {3} {2} {1,2}', 'begins at once');
SELECT results_eq($$ SELECT * FROM broker_internal.list_reassignments_1('[{"name":"k","partitions":[0]}]') $$, $$ VALUES ('k', 0, '{1,3,2}'::int[], '{3}'::int[], '{2}'::int[]) $$, 'and is listed');
SELECT is(pg_temp.alter('k', '[1,4]'), 0, 'another one replaces it');
SELECT is(pg_temp.moving('k'), '{1,4,3,2} {4} {3,2} {1,2}', 'what the first one added goes too');
SELECT is(pg_temp.alter('k', 'null'), 0, 'cancelled');
SELECT is(pg_temp.moving('k') || fx.state('k'), '{1,2} {} {} -1 {1,2} {}', 'what it had before the first');
SELECT is(pg_temp.dropped(4), 'k-0', 'who had begun to copy is told') WHERE pg_temp.dropped(4) NOT LIKE '% %';
SELECT is((SELECT via || ' ' || actor || ' ' || host(client_addr) FROM broker.events WHERE kind = 'partition.reassign.cancel' AND topic = 'k'), 'kafka User:a 10.0.0.1', 'the history says who');
SELECT is(pg_temp.alter('k', '[2,1]'), 0, 'another order');
SELECT results_eq($$ SELECT * FROM broker_internal.elect_leaders_1('User:a', NULL, 0, '[{"name":"k","partitions":[0,7]}]') $$,
	$$ VALUES ('k', 0, 0, NULL), ('k', 7, 3, 'No such partition as k-7') $$, 'and the preferred leader');
SELECT is(fx.state('k'), '2 {1,2} {}', 'leads');
SELECT is((SELECT error_code FROM broker_internal.elect_leaders_1('User:a', NULL, 0, '[{"name":"k","partitions":[0]}]')), 84, 'once is enough');
SELECT is((SELECT error_code FROM broker_internal.elect_leaders_1('User:a', NULL, 1, '[{"name":"k","partitions":[0]}]')), 84, 'nothing unclean where there is a leader');
SELECT is((SELECT error_code FROM broker_internal.unregister_broker_1('User:a', NULL, 99)), 102, 'an unknown broker is not unregistered');
SELECT is((SELECT error_code FROM broker_internal.unregister_broker_1('User:a', NULL, 2)), 42, 'nor one that is alive');

-- taken back by its number
\o /dev/null
SELECT broker.reassign_partitions('k', '{0}', '{2,3}');
SELECT fx.tick();
SELECT broker.cancel_operation((SELECT max(operation_id) FROM broker.operations WHERE object = 'topic k'));
SELECT fx.tick();
\o
SELECT is(pg_temp.moving('k'), '{2,1} {} {} -', 'an operation that runs is cancelled with what it began');

-- a topic that is deleted meanwhile
\o /dev/null
SELECT broker.reassign_partitions('b', '{0}', '{2}');
SELECT fx.tick();
SELECT broker.delete_topic('b');
SELECT fx.tick();
SELECT fx.tick();
\o
SELECT is((SELECT string_agg(state, ' ') FROM broker.operations WHERE object = 'topic b' AND state IN ('waiting', 'running')), NULL, 'its operations end');

-- a target that is unregistered before it begins
\o /dev/null
SELECT broker.reassign_partitions('wide', '{0}', '{5,1}');
UPDATE broker_internal.brokers SET backend_pid = NULL WHERE broker_id = 5;
SELECT broker.unregister_broker(5, force => true);
UPDATE broker_internal.operations SET requested_at = requested_at - interval '1 s' WHERE kind = 'broker.unregister';
SELECT fx.tick(1, '{5}');
\o
SELECT matches((SELECT state || ': ' || error FROM broker.operations WHERE object = 'topic wide' ORDER BY operation_id DESC LIMIT 1), 'failed: wide-0: broker 5 is not registered', 'the operation fails with a sentence');
SELECT finish();
