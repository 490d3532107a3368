-- Configs: merged key by key, checked from one table, the same sentences from both doors.
SELECT no_plan();
SELECT fx.register(1, static_config => '{"log.retention.ms": "1000"}');
SELECT fx.topic('t', '{1}');

SELECT results_eq($$ SELECT * FROM broker.alter_topic('t', '{"retention.ms": "7 days", "min.insync.replicas": 2, "cleanup.policy": ["delete"], "preallocate": false}') $$,
	$$ VALUES ('cleanup.policy', 'delete', 'delete', 'topic'), ('min.insync.replicas', '1', '2', 'topic'), ('preallocate', 'false', 'false', 'topic'), ('retention.ms', '1000', '604800000', 'topic') $$,
	'before and after, with where the value is from');
SELECT results_eq($$ SELECT * FROM broker.alter_topic('t', '{"retention.ms": null}') $$, $$ VALUES ('retention.ms', '604800000', '1000', 'static') $$, 'null goes back to what the file says');
SELECT results_eq($$ SELECT * FROM broker.alter_cluster('{"log.retention.ms": "1 day"}') $$, $$ VALUES ('log.retention.ms', '1000', '86400000', 'cluster') $$, 'the cluster''s value');
SELECT results_eq($$ SELECT value, pretty, source, default_value FROM broker.topic_configs WHERE topic = 't' AND config_key = 'retention.ms' $$, $$ VALUES ('86400000', '1 day', 'cluster', '86400000') $$, 'holds for topics without their own');
SELECT is((SELECT value FROM broker.topic_configs WHERE topic = 't' AND config_key = 'min.insync.replicas'), '2', 'other keys are not touched');
SELECT is((SELECT retention FROM broker.topics WHERE topic = 't'), '1 day', 'topics.retention');
SELECT lives_ok($$ SELECT * FROM broker.alter_topic('t', '{"retention.bytes": "1 GB", "retention.ms": -1}') $$, 'a size');
SELECT is((SELECT retention FROM broker.topics WHERE topic = 't'), 'no limit, 1 GB a partition', 'topics.retention with a size');
SELECT is((SELECT overrides FROM broker.topics WHERE topic = 't'), 5, 'overrides');
SELECT results_eq($$ SELECT * FROM broker.alter_broker(1, '{"log.retention.ms": 5}') $$, $$ VALUES ('log.retention.ms', '86400000', '5', 'broker') $$, 'one broker''s value');
SELECT is((SELECT source FROM broker.settings WHERE scope = 'broker' AND broker_id = 1 AND config_key = 'log.retention.ms'), 'broker', 'settings');
SELECT is((SELECT value || ' ' || source FROM broker.settings WHERE scope = 'cluster' AND config_key = 'log.retention.ms'), '86400000 cluster', 'settings of the cluster');

-- refused: what, the numbers, what to type next
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
SELECT is(pg_temp.refusal($$ SELECT * FROM broker.alter_topic('t', '{"retention.sm": "14 days"}') $$),
	'PB040 | unknown topic configuration "retention.sm" | Perhaps you meant "retention.ms". The keys of a topic are in broker.config_keys.', 'a mistyped key');
SELECT is(pg_temp.refusal($$ SELECT * FROM broker.alter_topic('t', '{"retention.sm": null}') $$),
	'PB040 | unknown topic configuration "retention.sm" | Perhaps you meant "retention.ms". The keys of a topic are in broker.config_keys.', 'a mistyped key that is reset');
SELECT is(pg_temp.refusal($$ SELECT * FROM broker.alter_topic('t', '{"min.insync.replicas": 0}') $$),
	'PB040 | invalid value "0" for "min.insync.replicas": out of bounds | Type int, allowed 1 or more, default 1.', 'out of bounds');
SELECT is(pg_temp.refusal($$ SELECT * FROM broker.alter_topic('t', '{"retention.ms": "1 month"}') $$),
	'PB040 | invalid value "1 month" for "retention.ms": months and years have no fixed length | Type long (milliseconds), allowed -1 or more, default 604800000. | Write days, such as ''30 days''.', 'a month');
SELECT is(pg_temp.refusal($$ SELECT * FROM broker.alter_topic('t', '{"cleanup.policy": "drop"}') $$),
	'PB040 | invalid value "drop" for "cleanup.policy": "drop" is not allowed | Type list, allowed compact, delete, default delete.', 'a word that is not allowed');
SELECT matches(pg_temp.refusal($$ SELECT * FROM broker.alter_topic('t', '{"retention.ms": {"a": 1}}') $$), '^PB040 .* is an object', 'an object');
SELECT matches(pg_temp.refusal($$ SELECT * FROM broker.alter_topic('t', '[1]') $$), '^22023 ', 'no object');
SELECT matches(pg_temp.refusal($$ SELECT * FROM broker.alter_topic('t', NULL) $$), '^22023 ', 'NULL is not given');
SELECT matches(pg_temp.refusal($$ SELECT * FROM broker.alter_topic('T', '{}') $$), '^PB003 .*Perhaps you meant "t"', 'a topic by another case');
SELECT matches(pg_temp.refusal($$ SELECT * FROM broker.alter_broker(7, '{}') $$), '^PB102 ', 'a broker that is not there');
SELECT matches(pg_temp.refusal($$ SELECT * FROM broker.alter_cluster('{"retention.ms": 1}') $$), '^PB040 unknown cluster|^PB040 . unknown cluster configuration', 'a topic''s key is none of the cluster');
SELECT is((SELECT value FROM broker.topic_configs WHERE topic = 't' AND config_key = 'min.insync.replicas'), '2', 'what was refused changed nothing');

-- the same from a Kafka client, numbers only
CREATE FUNCTION pg_temp.wire(ops text, name text DEFAULT 't', type int DEFAULT 2, validate_only bool DEFAULT false, replace bool DEFAULT false) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' | ', error_code, error_message) FROM broker_internal.alter_configs_1('User:a', '10.0.0.1', jsonb_build_array(jsonb_build_object('type', type, 'name', name, 'ops', ops::jsonb)), validate_only, replace)
$$;
SELECT is(pg_temp.wire('[{"key":"retention.sm","op":0,"value":"1"}]'), '40 | unknown topic configuration "retention.sm". Perhaps you meant "retention.ms". The keys of a topic are in broker.config_keys.', 'wire: a mistyped key');
SELECT is(pg_temp.wire('[{"key":"min.insync.replicas","op":0,"value":"0"}]'), '40 | invalid value "0" for "min.insync.replicas": out of bounds. Type int, allowed 1 or more, default 1.', 'wire: out of bounds');
SELECT matches(pg_temp.wire('[{"key":"retention.ms","op":0,"value":"7 days"}]'), '^40 .* not a number', 'wire: no units');
SELECT is(pg_temp.wire('[{"key":"retention.ms","op":0,"value":"5000"},{"key":"min.insync.replicas","op":1,"value":null}]'), '0', 'wire: set and delete');
SELECT is((SELECT string_agg(config_key || '=' || value, ' ' ORDER BY config_key) FROM broker.topic_configs WHERE topic = 't' AND source = 'topic'), 'cleanup.policy=delete preallocate=false retention.bytes=1073741824 retention.ms=5000', 'it is so');
SELECT is(pg_temp.wire('[{"key":"cleanup.policy","op":2,"value":"compact"}]'), '0', 'wire: append');
SELECT is((SELECT value FROM broker.topic_configs WHERE topic = 't' AND config_key = 'cleanup.policy'), 'delete,compact', 'appended');
SELECT is(pg_temp.wire('[{"key":"cleanup.policy","op":3,"value":"delete"}]'), '0', 'wire: subtract');
SELECT is((SELECT value FROM broker.topic_configs WHERE topic = 't' AND config_key = 'cleanup.policy'), 'compact', 'subtracted');
SELECT matches(pg_temp.wire('[{"key":"retention.ms","op":2,"value":"1"}]'), '^40 .* no list', 'wire: append to a number');
SELECT matches(pg_temp.wire('[{"key":"retention.ms","op":9,"value":"1"}]'), '^42 ', 'wire: an unknown operation');
SELECT matches(pg_temp.wire('[{"key":"retention.ms","op":0,"value":null}]'), '^40 ', 'wire: set to null');
SELECT matches(pg_temp.wire('[{"key":"retention.ms","op":0,"value":"1"},{"key":"retention.ms","op":1}]'), '^42 .* twice', 'wire: one key twice');
SELECT is(pg_temp.wire('[{"key":"retention.ms","op":0,"value":"77"}]', validate_only => true), '0', 'wire: only a check');
SELECT is((SELECT value FROM broker.topic_configs WHERE topic = 't' AND config_key = 'retention.ms'), '5000', 'changes nothing');
SELECT is(pg_temp.wire('[{"key":"flush.messages","op":0,"value":"1"}]', replace => true), '0', 'wire: AlterConfigs of old');
SELECT is((SELECT string_agg(config_key || '=' || value, ' ' ORDER BY config_key) FROM broker.topic_configs WHERE topic = 't' AND source = 'topic'), 'flush.messages=1', 'resets what it does not name');
SELECT matches(pg_temp.wire('[]', name => 'nope'), '^3 ', 'wire: no such topic');
SELECT matches(pg_temp.wire('[]', name => '9', type => 4), '^42 ', 'wire: no such broker');
SELECT matches(pg_temp.wire('[]', type => 3), '^42 ', 'wire: no such resource');
SELECT is(pg_temp.wire('[{"key":"num.partitions","op":0,"value":"4"}]', name => '', type => 4), '0', 'wire: the cluster');
SELECT is(pg_temp.wire('[{"key":"consumer.session.timeout.ms","op":0,"value":"50000"}]', name => 'g', type => 32), '0', 'wire: a group');
SELECT is((SELECT value || ' ' || source FROM broker.settings WHERE scope = 'cluster' AND config_key = 'num.partitions'), '4 cluster', 'the cluster has it');

-- what a daemon reads
SELECT results_eq($$ SELECT scope, broker_id, config_key, value FROM broker_internal.configs_1(0) $$,
	$$ VALUES ('cluster', NULL::int, NULL, NULL), ('broker', 1, 'log.retention.ms', '5'), ('cluster', NULL, 'log.retention.ms', '86400000'), ('cluster', NULL, 'num.partitions', '4') $$, 'configs_1: first a row without a key');
SELECT is((SELECT count(*) FROM broker_internal.configs_1((SELECT version FROM broker_internal.cluster))), 0::bigint, 'nothing when nothing changed since');
SELECT is((SELECT config::text FROM broker_internal.topics_1(0, NULL, 10)), '{"flush.messages": "1"}', 'topics_1 has the topic''s own');

-- older keys of a broker's file, in other units
\o /dev/null
SELECT * FROM broker.alter_cluster('{"log.retention.ms": null}');
SELECT * FROM broker.alter_broker(1, '{"log.retention.ms": null}');
SELECT fx.register(1, process => 7, static_config => '{"log.retention.hours": "24", "log.roll.hours": "2", "log.retention.minutes": "-1", "log.flush.scheduler.interval.ms": "9", "log.flush.interval.ms": "10"}');
\o
SELECT is((SELECT string_agg(config_key || '=' || value || ' ' || source, ', ' ORDER BY config_key) FROM broker.topic_configs WHERE topic = 't' AND source = 'static'),
	'flush.ms=10 static, retention.ms=-1 static, segment.ms=7200000 static', 'hours and minutes of a file; minutes win over hours, ms over both');

-- an unused key is accepted with a NOTICE (seen by the client), never silently; events keep who did what
SELECT is((SELECT string_agg(config_key, ', ' ORDER BY config_key) FROM broker.config_keys WHERE scope = 'topic' AND NOT is_used AND config_key LIKE 'remote%'), 'remote.log.copy.disable, remote.log.delete.on.disable, remote.storage.enable', 'is_used is false');
SELECT is((SELECT count(*) FROM broker.config_keys WHERE scope = 'topic'), 34::bigint, 'the topic configs of Kafka 4.2');
SET broker.reason = 'TICKET-7';
SELECT lives_ok($$ SELECT * FROM broker.alter_topic('t', '{"flush.messages": null}') $$, 'with a reason');
RESET broker.reason;
SELECT results_eq($$ SELECT kind, object, topic, old, new, details, actor, via, reason FROM broker.events ORDER BY event_id DESC LIMIT 1 $$,
	$$ VALUES ('topic.config', 'topic t', 't', '1', NULL, '{"config_key": "flush.messages"}'::jsonb, 'postgres', 'sql', 'TICKET-7') $$, 'the event');
SELECT results_eq($$ SELECT actor, via, client_addr FROM broker.events WHERE kind = 'group.config' $$, $$ VALUES ('User:a', 'kafka', '10.0.0.1'::inet) $$, 'the event of a client');
SELECT throws_ok($$ SET broker.nonsense = 1 $$, '42602', NULL, 'settings of that prefix are ours');
SELECT finish();
