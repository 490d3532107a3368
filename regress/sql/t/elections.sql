-- Elections and ISR changes, set-based (hazards A2, A3, A13, A14).
SELECT no_plan();
\o /dev/null
SELECT fx.register(n) FROM generate_series(1, 4) n;
SELECT fx.topic('a', '{1,2,3}');
SELECT fx.topic('b', '{2,1,3}');
SELECT fx.topic('c', '{3,2,1}', '{"min.insync.replicas": "2"}');
SELECT fx.topic('solo', '{1}');
SELECT fx.topic('uncl', '{1,4}', '{"unclean.leader.election.enable": "true"}');
\o
-- a broker whose session is gone and whose listener refuses is dead at once
CREATE FUNCTION pg_temp.die(VARIADIC ids int[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE broker_internal.brokers SET backend_pid = NULL WHERE broker_id = ANY (ids);
	PERFORM fx.tick((SELECT min(broker_id) FROM broker_internal.brokers WHERE backend_pid IS NOT NULL), ids);
END
$$;

-- ISR changes by compare-and-set
SELECT ok(fx.alter_isr(1, 'a', '{1,2}'), 'the leader takes 3 out');
SELECT is(fx.state('a'), '1 {1,2} {}', 'landed');
SELECT is((SELECT partition_epoch FROM broker.partitions WHERE topic = 'a'), 1, 'with the next partition epoch');
SELECT ok(NOT fx.alter_isr(1, 'a', '{1,2,3}', partition_epoch => 0), 'A2: an old partition epoch does not land');
SELECT ok(NOT fx.alter_isr(1, 'a', '{1,2,3}', leader_epoch => 7), 'nor another leader epoch');
SELECT ok(NOT fx.alter_isr(2, 'a', '{1,2,3}'), 'nor another broker''s');
SELECT ok(NOT fx.alter_isr(1, 'a', '{2,3}'), 'nor one without the leader');
SELECT ok(NOT fx.alter_isr(1, 'a', '{1,4}'), 'nor one with a broker that is no replica');
SELECT ok(NOT fx.alter_isr(1, 'a', '{1,2,2}'), 'nor one with a broker twice');
SELECT ok(NOT fx.alter_isr(1, 'a', '{1,2,3}', epochs => ARRAY[fx.epoch(1), fx.epoch(2), 5]), 'A3: nor with a member''s old epoch');
SELECT is(fx.state('a'), '1 {1,2} {}', 'nothing of it landed');
SELECT ok(fx.alter_isr(1, 'a', '{1,2,3}', epochs => ARRAY[-1, -1, -1]::bigint[]), 'epochs of -1 are not compared');
SELECT results_eq($$ SELECT landed, leader, leader_epoch, partition_epoch, isr FROM broker_internal.alter_isr_1(1, fx.epoch(1), ARRAY[fx.topic_id('a'), fx.topic_id('b'), fx.id(9)], '{0,0,0}', '{0,0,0}', '{2,0,0}',
		'[[{"id":1,"epoch":-1}],[{"id":1,"epoch":-1}],[{"id":1,"epoch":-1}]]') $$,
	$$ VALUES (true, 1, 0, 3, '{1}'::int[]), (false, 2, 0, 0, '{2,1,3}'), (false, NULL, NULL, NULL, NULL) $$, 'many in a call: a refused one comes back as the row is, an unknown one empty');
SELECT ok(fx.alter_isr(1, 'a', '{1,2,3}'), 'all back');
SELECT ok(fx.alter_isr(3, 'c', '{3}'), 'below min.insync.replicas');
SELECT is(fx.state('c'), '3 {3} {2,1}', 'A13: who left stays eligible');
SELECT ok(fx.alter_isr(3, 'c', '{3,2}'), 'at the minimum again');
SELECT is(fx.state('c'), '3 {3,2} {}', 'nobody else is eligible');

-- A14: out of every ISR at once, also where it followed
SELECT lives_ok($$ SELECT pg_temp.die(2) $$, 'broker 2 dies');
SELECT is(fx.state('a'), '1 {1,3} {}', 'a: it followed');
SELECT is(fx.state('b'), '1 {1,3} {}', 'b: it led; the next in the assignment leads');
SELECT is((SELECT leader_epoch FROM broker.partitions WHERE topic = 'b'), 1, 'b: the next leader epoch');
SELECT is((SELECT leader_epoch FROM broker.partitions WHERE topic = 'a'), 0, 'a: the same leader epoch');
SELECT is(fx.state('c'), '3 {3} {2}', 'c: below the minimum, so 2 stays eligible');
SELECT is((SELECT state FROM broker.brokers WHERE broker_id = 2), 'dead', 'dead');
SELECT results_eq($$ SELECT kind, object, old, new, reason FROM broker.events WHERE event_time > now() - interval '1 min' AND (object = 'b-0' OR kind = 'broker.dead') ORDER BY event_id $$,
	$$ VALUES ('broker.dead', 'broker 2', 'alive', 'dead', 'session ended, listener refuses connections'), ('partition.leader', 'b-0', '2, epoch 0', '1, epoch 1', 'broker 2 dead'), ('partition.isr', 'b-0', '{2,1,3}', '{1,3}', 'broker 2 dead') $$, 'the history');
SELECT ok(NOT fx.alter_isr(1, 'a', '{1,3,2}', epochs => ARRAY[-1, -1, -1]::bigint[]), 'a fenced one is not taken back');

-- nobody of the ISR: the eligible one; the last members stay in the row
SELECT lives_ok($$ SELECT pg_temp.die(3) $$, 'broker 3 dies too');
SELECT is(fx.state('c'), 'none {3} {2}', 'c: offline; its last member stays, only it or an eligible one may lead');
SELECT is((SELECT is_offline FROM broker.partitions WHERE topic = 'c'), true, 'the view says so');
SELECT is((SELECT severity FROM broker.problems WHERE object = 'topic c'), 'critical', 'problems too');
\o /dev/null
SELECT fx.register(2, process => 22);
\o
SELECT is(fx.state('c'), '2 {2} {3}', 'an eligible one comes back first and leads, nothing is lost');
SELECT is((SELECT count(*) FROM broker.events WHERE kind = 'partition.unclean'), 0::bigint, 'no election was unclean');
SELECT is(fx.state('a'), '1 {1} {3}', 'a: whoever comes back is not in the ISR by itself; 3 left below the 2 that count for three replicas, so it stays eligible');

-- one replica: offline until it is back
SELECT lives_ok($$ SELECT pg_temp.die(1, 4) $$, 'brokers 1 and 4 die in one tick');
SELECT is(fx.state('solo'), 'none {1} {}', 'solo waits');
SELECT is(fx.state('uncl'), 'none {1,4} {}', 'members that die in the same tick all stay');
\o /dev/null
SELECT fx.register(4, process => 44);
\o
SELECT is(fx.state('uncl'), '4 {4} {}', 'the first one back leads, clean');
SELECT lives_ok($$ SELECT pg_temp.die(4) $$, 'it dies again');
\o /dev/null
SELECT fx.register(1, process => 111);
\o
SELECT is(fx.state('uncl'), '1 {1} {}', 'unclean.leader.election.enable lets one lead that may lack records');
SELECT results_eq($$ SELECT object, old, new, reason FROM broker.events WHERE kind = 'partition.unclean' $$, $$ VALUES ('uncl-0', '{4}', '1', 'broker 1 is back') $$, 'recorded');
SELECT is(fx.state('solo'), '1 {1} {}', 'solo has its leader back');

-- all at once (a power cut): whoever is back first has all that was acknowledged, unless acks were not synced
\o /dev/null
SELECT fx.register(4, process => 46);
SELECT fx.topic('synced', '{4,1}');
SELECT fx.topic('relaxed', '{4,1}', '{"flush.messages": "1000"}');
SELECT pg_temp.die(1, 4);
SELECT fx.register(1, process => 112);
\o
SELECT is(fx.state('synced'), '1 {1} {}', 'A13: it leads, clean');
SELECT is(fx.state('relaxed'), 'none {4} {}', 'with relaxed flush it may lack the tail: the other has to come');
SELECT is((SELECT count(*) FROM broker.events WHERE kind = 'partition.unclean' AND topic IN ('synced', 'relaxed')), 0::bigint, 'no unclean election');

-- switching it on elects at once, for a topic and for all
\o /dev/null
SELECT fx.register(4, process => 45);
SELECT fx.topic('late', '{4,1}');
SELECT fx.topic('later', '{4,1}');
SELECT fx.alter_isr(4, t, '{4}') FROM unnest(ARRAY['late', 'later']) t;
SELECT pg_temp.die(4);
\o
SELECT is(fx.state('late') || ', ' || fx.state('later'), 'none {4} {}, none {4} {}', 'offline');
\o /dev/null
SELECT broker.alter_topic('late', '{"unclean.leader.election.enable": true}');
SELECT fx.tick();
\o
SELECT is(fx.state('late') || ', ' || fx.state('later'), '1 {1} {}, none {4} {}', 'one topic');
\o /dev/null
SELECT broker_internal.alter_configs_1('User:a', NULL, '[{"type":4,"name":"","ops":[{"key":"unclean.leader.election.enable","op":0,"value":"true"}]}]', false, false);
\o
SELECT is(fx.state('later'), '1 {1} {}', 'all of them');

-- versions: what changed is what brokers read
SELECT version AS v FROM broker_internal.cluster \gset
SELECT is((SELECT count(*) FROM broker_internal.topics_1(:v, NULL, 100)), 0::bigint, 'nothing new');
\o /dev/null
SELECT fx.alter_isr(1, 'a', '{1,2}');
\o
SELECT results_eq(format('SELECT topic FROM broker_internal.topics_1(%s, NULL, 100)', :v), $$ VALUES ('a') $$, 'one change, one topic');

-- eligible leader replicas: two of three by default, so a second loss leaves somebody who has everything committed
\o /dev/null
DELETE FROM broker_internal.configs WHERE config_key = 'unclean.leader.election.enable';
SELECT fx.register(2, process => 222);
SELECT fx.register(3, process => 33);
SELECT fx.topic('e', '{2,3,4}');
SELECT fx.topic('flushed', '{2,3,4}', '{"flush.ms": "1000"}');
SELECT fx.topic('one', '{2,3,4}', '{"min.insync.replicas": "1"}');
SELECT fx.alter_isr(2, t, '{2,3}') FROM unnest(ARRAY['e', 'flushed', 'one']) t;
SELECT fx.alter_isr(2, t, '{2}') FROM unnest(ARRAY['e', 'flushed', 'one']) t;
\o
SELECT is(fx.state('e'), '2 {2} {3}', 'A13: who left below two of three stays eligible, who left before does not');
SELECT is(fx.state('one'), '2 {2} {}', 'nobody where a minimum of 1 was asked for');
SELECT is((SELECT elr FROM broker.partitions WHERE topic = 'e'), '{3}'::int[], 'the view shows it');
SELECT is((SELECT min_isr FROM broker.topics WHERE topic = 'e') || ' ' || (SELECT min_isr FROM broker.topics WHERE topic = 'one'), '2 1', 'and the minimum that counts');
SELECT is((SELECT value || ' ' || source FROM broker.topic_configs WHERE topic = 'e' AND config_key = 'min.insync.replicas'), '2 default', 'as a default');
SELECT fx.epoch(3) AS three \gset
\o /dev/null
SELECT fx.register(3, process => 34);
\o
SELECT is(fx.state('e'), '2 {2} {3}', 'A13: a restart does not cost the place, for what was acknowledged was synced');
SELECT is(fx.state('flushed'), '2 {2} {}', 'but where acks are not synced');
\o /dev/null
SELECT fx.register(3, process => 35, disk_epoch => :three - 1);
\o
SELECT is(fx.state('e'), '2 {2} {}', 'A3: an older disk costs it too');
\o /dev/null
SELECT fx.alter_isr(2, 'e', '{2,3}');
SELECT fx.alter_isr(2, 'e', '{2}');
SELECT fx.register(3, process => 36, disk => 333, disk_epoch => -1);
\o
SELECT is(fx.state('e'), '2 {2} {}', 'A3: and another one');

-- what counts as the minimum changes: nobody is eligible before every leader can know
\o /dev/null
SELECT fx.alter_isr(2, 'e', '{2,3}');
SELECT fx.alter_isr(2, 'e', '{2}');
SELECT broker.alter_topic('e', '{"min.insync.replicas": 1}');
\o
SELECT is(fx.state('e'), '2 {2} {3}', 'before the tick');
\o /dev/null
SELECT pg_temp.die(2);
\o
SELECT is(fx.state('e'), 'none {2} {}', 'a change that is not taken up yet counts already: its leader may have gone on alone');
\o /dev/null
SELECT fx.register(2, process => 223);
SELECT fx.tick();
\o
SELECT is(fx.state('e'), '2 {2} {}', 'its leader is back');
\o /dev/null
SELECT broker.alter_topic('e', '{"min.insync.replicas": null}');
SELECT fx.tick();
SELECT fx.alter_isr(2, 'e', '{2,3}');
SELECT fx.alter_isr(2, 'e', '{2}');
\o
SELECT is(fx.state('e'), '2 {2} {}', 'for a while after it was raised nobody becomes eligible');
UPDATE broker_internal.cluster SET min_isr_at = clock_timestamp() - interval '31 s';
\o /dev/null
SELECT fx.alter_isr(2, 'e', '{2,3}');
SELECT fx.alter_isr(2, 'e', '{2}');
\o
SELECT is(fx.state('e'), '2 {2} {3}', 'then it is as before');
\o /dev/null
SELECT broker_internal.alter_configs_1('User:a', NULL, '[{"type":4,"name":"","ops":[{"key":"min.insync.replicas","op":0,"value":"1"}]}]', false, false);
\o
SELECT is(fx.state('e'), '2 {2} {}', 'lowered for the cluster: who was eligible is not any more');
\o /dev/null
SELECT broker_internal.alter_configs_1('User:a', NULL, '[{"type":4,"name":"","ops":[{"key":"min.insync.replicas","op":1}]}]', false, false);
UPDATE broker_internal.cluster SET min_isr_at = NULL;
SELECT fx.register(3, process => 37, disk => 333, static_config => '{"min.insync.replicas": "1"}');
SELECT fx.alter_isr(2, 'e', '{2,3}');
SELECT fx.alter_isr(2, 'e', '{2}');
\o
SELECT is(fx.state('e'), '2 {2} {}', 'the smallest one that any broker''s file has counts: it may be the leader''s');

-- updates stay HOT: no new entries in the index
SELECT pg_stat_force_next_flush();
SELECT is((SELECT n_tup_upd - n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'broker_internal.partitions'::regclass), 0::bigint, 'every update of a partition was HOT');
SELECT finish();
