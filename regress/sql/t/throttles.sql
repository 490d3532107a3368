-- Reassignments with a throttle: what brokers are told while one is under way, and that nothing of it stays.
SELECT no_plan();
\o /dev/null
SELECT fx.register(n) FROM generate_series(1, 4) n;
SELECT fx.topic('a', '{1,2}');
SELECT fx.topic('b', '{1,2}');
SELECT fx.topic('c', '{3}');
CREATE FUNCTION pg_temp.list(name text, side text) RETURNS text LANGUAGE sql AS $$
	SELECT config ->> (side || '.replication.throttled.replicas') FROM broker_internal.topics_1(0, NULL, 100) WHERE topic = name
$$;
CREATE FUNCTION pg_temp.rates() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(format('%s%s %s %s', scope, broker_id, split_part(config_key, '.', 1), value), ', ' ORDER BY scope, broker_id, config_key)
	FROM broker_internal.configs_1(0) WHERE config_key LIKE '%.replication.throttled.rate'
$$;
CREATE FUNCTION pg_temp.version() RETURNS bigint LANGUAGE sql AS $$ SELECT version FROM broker_internal.cluster $$;
CREATE FUNCTION pg_temp.told(since bigint) RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN EXISTS (SELECT FROM broker_internal.configs_1(since)) THEN 'configs ' ELSE '' END || coalesce((SELECT string_agg(topic, ' ' ORDER BY topic) FROM broker_internal.topics_1(since, NULL, 100)), '')
$$;
\o

SELECT throws_ok($$ SELECT broker.reassign_partitions('a', '{0}', '{1,3}', throttle => 0) $$, '22023', NULL, 'a throttle of nothing');
SELECT throws_ok($$ SELECT broker.set_replication_factor('a', 3, throttle => -1) $$, '22023', NULL, 'nor less');
SELECT lives_ok($$ SELECT broker.reassign_partitions('a', '{0}', '{1,3}', throttle => 5000000) $$, 'one with a throttle');
SELECT is(pg_temp.rates(), NULL, 'a person''s call tells brokers nothing');
SELECT pg_temp.version() AS v \gset
\o /dev/null
SELECT fx.tick();
\o
SELECT is(pg_temp.rates(), 'cluster follower 5000000, cluster leader 5000000', 'the tick takes it up: the rate, for every broker');
SELECT is(pg_temp.list('a', 'leader'), '0:1,0:2', 'on those that have the log, any of which may lead');
SELECT is(pg_temp.list('a', 'follower'), '0:3', 'and on the one that copies it');
SELECT is(pg_temp.list('b', 'leader'), NULL, 'of no other topic');
SELECT is(pg_temp.told(:v), 'configs a', 'brokers read it with the reassignment itself');
SELECT is((SELECT count(*) FROM broker_internal.configs), 0::bigint, 'it is no config that somebody would have to take away');
SELECT is((SELECT throttle_bytes FROM broker.reassignments), 5000000::bigint, 'the view says so');

-- a second one, and configs of people
SELECT lives_ok($$ SELECT broker.set_replication_factor('b', 3, throttle => 2000000) $$, 'another one');
SELECT lives_ok($$ SELECT broker.alter_broker(2, '{"leader.replication.throttled.rate": 77}'); $$, 'configs of people');
SELECT lives_ok($$ SELECT broker.alter_topic('b', '{"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "7:7"}'); $$, 'configs of people');
\o /dev/null
SELECT fx.tick();
\o
SELECT is(pg_temp.rates(), 'broker2 leader 77, cluster follower 2000000, cluster leader 2000000', 'the lower rate counts; what a person says of a broker stays, and comes before it');
SELECT is(pg_temp.list('b', 'leader'), '*', 'what is set of the topic stays');
SELECT matches(pg_temp.list('b', 'follower'), '^7:7,0:[34]$', 'and is added to');
SELECT is((SELECT array_agg(throttle_bytes ORDER BY topic) FROM broker.reassignments), '{5000000,2000000}'::bigint[], 'each has its own in the view');

-- done
SELECT pg_temp.version() AS v \gset
\o /dev/null
SELECT fx.alter_isr(1, 'a', '{1,2,3}');
\o
SELECT is(pg_temp.list('a', 'leader'), NULL, 'when the reassignment is done nothing is throttled');
SELECT matches(pg_temp.told(:v), 'a$', 'and brokers are told');
\o /dev/null
SELECT fx.tick();
\o
SELECT is((SELECT state FROM broker.operations WHERE kind = 'partitions.reassign'), 'done', 'the operation ends');
SELECT is(pg_temp.told(:v), 'configs a', 'the rate is to be read again');

-- taken back
SELECT pg_temp.version() AS v \gset
SELECT lives_ok($$ SELECT broker.cancel_operation((SELECT operation_id FROM broker.operations WHERE kind = 'topic.replication')) $$, 'the other one is taken back');
\o /dev/null
SELECT fx.tick();
\o
SELECT is(pg_temp.rates(), 'broker2 leader 77', 'only what a person has set is left');
SELECT is(pg_temp.list('b', 'follower'), '7:7', 'of the topic, too');
SELECT is(pg_temp.told(:v), 'configs b', 'and brokers are told');

-- a client takes the partition over: its reassignment is its own
\o /dev/null
SELECT broker.reassign_partitions('c', '{0}', '{4}', throttle => 1000);
SELECT fx.tick();
\o
SELECT is(pg_temp.list('c', 'leader') || ' ' || pg_temp.list('c', 'follower'), '0:3 0:4', 'a move of one replica');
\o /dev/null
SELECT * FROM broker_internal.alter_reassignments_1('User:x', NULL, true, '[{"name":"c","partitions":[{"partition":0,"replicas":[2]}]}]');
\o
SELECT is(pg_temp.list('c', 'leader'), NULL, 'one that a client asked for in its place has no throttle');
\o /dev/null
SELECT fx.tick();
\o
SELECT is(pg_temp.rates(), 'broker2 leader 77', 'and the operation has nothing more to do');

-- a broker that is emptied, and kept after all
\o /dev/null
SELECT broker.decommission_broker(1, throttle => 4000);
SELECT fx.tick();
\o
SELECT is(pg_temp.rates(), 'broker2 leader 77, cluster follower 4000, cluster leader 4000', 'decommission_broker has one, too');
SELECT isnt(pg_temp.list('b', 'follower'), '7:7', 'for what it moves');
SELECT pg_temp.version() AS v \gset
\o /dev/null
SELECT broker.undrain_broker(1);
SELECT fx.tick();
\o
SELECT is(pg_temp.rates(), 'broker2 leader 77', 'taken back, it is gone');
SELECT matches(pg_temp.told(:v), '^configs', 'and brokers are told');
SELECT * FROM finish();
