-- Topics: created, changed and deleted by people; what the daemon then reads; names that are refused.
SELECT no_plan();

-- before any broker: a wish that waits
SELECT lives_ok($$ SELECT broker.create_topic('early', 2) $$, 'a topic can be wished before there is a broker');
SELECT is((SELECT partitions FROM broker.topics WHERE topic = 'early'), 2, 'it is there for SQL at once');
SELECT is((SELECT count(*) FROM broker_internal.topics_1(0, NULL, 10)), 0::bigint, 'not for brokers');
\o /dev/null
SELECT fx.register(1);
\o
SELECT is((SELECT state FROM broker.operations), 'waiting', 'the operation waits');
SELECT ok(fx.tick(), 'the tick takes it up');
SELECT is((SELECT state || ' ' || progress FROM broker.operations), 'done 1', 'done');
SELECT results_eq($$ SELECT partition, leader, replicas, isr, leader_epoch, partition_epoch FROM broker.partitions WHERE topic = 'early' ORDER BY 1 $$,
	$$ VALUES (0, 1, '{1}'::int[], '{1}'::int[], 0, 0), (1, 1, '{1}', '{1}', 0, 0) $$, 'placed');
SELECT ok(NOT fx.tick(), 'a tick without work does nothing');
SELECT is((SELECT version FROM broker_internal.cluster), (SELECT metadata_version FROM broker_internal.tick_1(1, fx.epoch(1), '{}')), 'and takes no version');

-- what people call
SELECT is((SELECT broker.create_topic('orders', 3, 1, '{"retention.ms": "7 days"}')), fx.topic_id('orders'), 'create_topic returns the id');
SELECT throws_like($$ SELECT broker.create_topic('orders') $$, '%already exists%', 'twice is an error');
SELECT is(broker.create_topic('orders', if_not_exists => true), fx.topic_id('orders'), 'if_not_exists returns the id of the one that is there');
\o /dev/null
SELECT fx.tick();
\o
SELECT is(broker.set_partition_count('orders', 5), 2, 'set_partition_count returns how many were added');
SELECT is((SELECT partitions FROM broker.topics WHERE topic = 'orders'), 5, 'five are wished');
SELECT throws_ok($$ SELECT broker.set_partition_count('orders', 5) $$, 'PB037', 'topic "orders" has 5 partitions already', 'the same number');
SELECT throws_ok($$ SELECT broker.set_partition_count('orders', 4) $$, 'PB037', NULL, 'fewer');
SELECT throws_ok($$ SELECT broker.set_partition_count('orders', NULL) $$, 'PB037', NULL, 'none');
SELECT throws_ok($$ SELECT broker.set_partition_count('nope', 4) $$, 'PB003', 'topic "nope" does not exist', 'no topic');
\o /dev/null
SELECT fx.tick();
\o
SELECT is((SELECT count(*) FROM broker.partitions WHERE topic = 'orders'), 5::bigint, 'five are there');
SELECT is((SELECT partitions FROM broker_internal.topics_1((SELECT version - 1 FROM broker_internal.cluster), NULL, 100)),
	'\x00000003000000010000000000000000000000010000000100000001000000010000000000000000'::bytea || '\x00000000'::bytea ||
	'\x00000004000000010000000000000000000000010000000100000001000000010000000000000000'::bytea || '\x00000000'::bytea, 'topics_1 packs the changed ones');

SELECT ok(broker.delete_topic('orders'), 'delete_topic');
SELECT throws_ok($$ SELECT broker.delete_topic('orders') $$, 'PB003', NULL, 'twice is an error');
SELECT ok(NOT broker.delete_topic('orders', if_exists => true), 'if_exists says false');
SELECT is((SELECT count(*) FROM broker.topics WHERE topic = 'orders'), 0::bigint, 'gone for SQL');
SELECT lives_ok($$ SELECT broker.create_topic('orders') $$, 'the name is free');
\o /dev/null
SELECT fx.tick();
\o
SELECT is((SELECT string_agg(topic || ' ' || deleted || ' ' || (partitions IS NULL), ', ' ORDER BY topic, deleted) FROM broker_internal.topics_1(0, NULL, 100)),
	'early false false, orders false false, orders true true', 'a tombstone and a new one');
SELECT is((SELECT logs_on FROM broker_internal.topics WHERE deleted_at IS NOT NULL), '{1}', 'broker 1 may still have its logs');
\o /dev/null
SELECT broker_internal.logs_deleted_1(1, fx.epoch(1), (SELECT array_agg(topic_id) FROM broker_internal.topics WHERE deleted_at IS NOT NULL));
\o
SELECT is((SELECT logs_on FROM broker_internal.topics WHERE deleted_at IS NOT NULL), '{}', 'and says when it has none');
SELECT is((SELECT count(*) FROM broker_internal.configs c WHERE scope = 'topic' AND NOT EXISTS (SELECT FROM broker_internal.topics t WHERE t.topic_id::text = c.object AND t.deleted_at IS NULL)), 0::bigint, 'configs go with the topic');

-- bad input: the same sentence by SQL and by CreateTopics
CREATE FUNCTION pg_temp.both(name text, partitions int DEFAULT 1, factor int DEFAULT 1, assignment jsonb DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	by_sql text; by_wire text; d text; h text;
BEGIN
	BEGIN
		PERFORM broker.create_topic(name, partitions, factor, assignment => assignment);
		by_sql := '0';
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT;
		by_sql := ltrim(substr(SQLSTATE, 3), '0') || ' ' || SQLERRM || CASE WHEN h <> '' OR d <> '' THEN '.' ELSE '' END || coalesce(' ' || nullif(d, ''), '') || coalesce(' ' || nullif(h, ''), '');
	END;
	SELECT concat_ws(' ', error_code, error_message) INTO by_wire FROM broker_internal.create_topics_1('User:a', NULL,
		jsonb_build_array(jsonb_build_object('name', name, 'partitions', partitions, 'replication_factor', factor, 'assignment', assignment)), true);
	RETURN CASE WHEN by_sql = by_wire THEN by_sql ELSE format('SQL: %s WIRE: %s', by_sql, by_wire) END;
END
$$;
SELECT is(pg_temp.both(''), '17 topic name is invalid: it is empty', 'an empty name');
SELECT is(pg_temp.both('.'), '17 topic name is invalid: ''.'' is not allowed', '.');
SELECT is(pg_temp.both('..'), '17 topic name is invalid: ''..'' is not allowed', '..');
SELECT is(pg_temp.both(repeat('x', 250)), '17 topic name is invalid: it has 250 characters, at most 249 are allowed', '250 characters');
SELECT is(pg_temp.both('x''; DROP TABLE y; --'), '17 topic name is invalid: ''x''; DROP TABLE y; --'' has characters other than ASCII letters, digits, ''.'', ''_'' and ''-''', 'quotes');
SELECT is(pg_temp.both(U&'\00e4'), '17 topic name is invalid: ''' || U&'\00e4' || ''' has characters other than ASCII letters, digits, ''.'', ''_'' and ''-''', 'not ASCII');
\o /dev/null
SELECT broker.create_topic('a.b_c');
\o
SELECT is(pg_temp.both('a_b.c'), '17 topic "a_b.c" collides with topic "a.b_c": in metrics both are "a_b_c"', 'collision in metrics form');
SELECT is(pg_temp.both('p', 0), '37 the number of partitions must be from 1 to 100000, not 0', 'no partitions');
SELECT matches(pg_temp.both('p', -5), '^37 ', 'minus five partitions');
SELECT matches(pg_temp.both('p', 1000000), '^37 ', 'a million');
SELECT matches(pg_temp.both('p', 1, 0), '^38 ', 'no replicas');
SELECT is(pg_temp.both('p', 1, 2), '38 replication factor 2 is larger than the number of brokers: 1. The brokers are in broker.brokers.', 'more replicas than brokers');
SELECT matches(pg_temp.both('p', 1, 1, '{"0":[1,1]}'), '^39 .* twice', 'assignment: a broker twice');
SELECT matches(pg_temp.both('p', 1, 1, '{"1":[1]}'), '^39 .*every partition', 'assignment: a gap');
SELECT matches(pg_temp.both('p', 1, 1, '{"0":[9]}'), '^39 .*not registered', 'assignment: an unknown broker');
SELECT matches(pg_temp.both('p', 1, 1, '{"0":[]}'), '^39 ', 'assignment: empty');
SELECT matches(pg_temp.both('p', 1, 1, '{"x":[1]}'), '^39 ', 'assignment: no number');
SELECT matches(pg_temp.both('p', 1, 1, '{"0":["1"]}'), '^39 ', 'assignment: no broker id');
SELECT matches(pg_temp.both('p', 1, 1, '[]'), '^39 ', 'assignment: no object');
SELECT matches(pg_temp.both('p', 2, 1, '{"0":[1]}'), '^39 ', 'assignment: another number of partitions');
SELECT is(pg_temp.both('fine'), 'SQL: 0 WIRE: 36 topic "fine" already exists', 'validate_only knows what is there');
SELECT is((SELECT count(*) FROM broker_internal.topics WHERE topic = 'p'), 0::bigint, 'nothing of it was made');

-- the daemon's door: each by itself
SELECT results_eq($$ SELECT topic, error_code, partitions, replication_factor, config FROM broker_internal.create_topics_1('User:a', NULL,
		'[{"name":"w1","partitions":-1,"replication_factor":-1,"config":{"flush.ms":"5"}},{"name":"w1"},{"name":"w2","partitions":2}]', false) $$,
	$$ VALUES ('w1', 0, 1, 1, '{"flush.ms": "5"}'::jsonb), ('w1', 36, -1, -1, NULL), ('w2', 0, 2, 1, '{}') $$, 'create_topics_1');
SELECT results_eq($$ SELECT topic, error_code FROM broker_internal.create_topics_1('User:a', NULL, '[{"name":"v1"}]', true) $$, $$ VALUES ('v1', 0) $$, 'validate_only');
SELECT is(fx.topic_id('v1'), NULL, 'makes nothing');
SELECT results_eq($$ SELECT topic, error_code FROM broker_internal.create_partitions_1('User:a', NULL, '[{"name":"w2","count":3,"assignment":[[1]]},{"name":"w2","count":4,"assignment":[[1],[1]]},{"name":"nope","count":4}]', false) $$,
	$$ VALUES ('w2', 0), ('w2', 39), ('nope', 3) $$, 'create_partitions_1');
SELECT is((SELECT count(*) FROM broker.partitions WHERE topic = 'w2'), 3::bigint, 'placed at once');
SELECT results_eq($$ SELECT topic, error_code FROM broker_internal.delete_topics_1('User:a', NULL, '{w1,nope}', ARRAY[fx.topic_id('w2'), fx.id(77)]) $$,
	$$ VALUES ('w1', 0), ('nope', 3), ('w2', 0), (NULL, 100) $$, 'delete_topics_1 by name and by id');
SELECT results_eq($$ SELECT actor, via FROM broker.events WHERE kind = 'topic.delete' AND topic = 'w1' $$, $$ VALUES ('User:a', 'kafka') $$, 'the principal is in the history');

-- rolled back = never was
BEGIN;
SELECT 'id ' || (broker.create_topic('rolled') IS NOT NULL);
SELECT is((SELECT count(*) FROM broker.topics WHERE topic = 'rolled'), 1::bigint, 'its own transaction sees it');
ROLLBACK;
\o /dev/null
SELECT fx.tick();
\o
SELECT is((SELECT count(*) FROM broker_internal.topics_1(0, NULL, 1000) WHERE topic = 'rolled'), 0::bigint, 'a topic that is rolled back never was');
BEGIN;
SELECT 'made ' || count(broker.create_topic('ten' || n)) FROM generate_series(1, 10) n;
COMMIT;
SELECT is((SELECT count(*) FROM broker.operations WHERE object LIKE 'topic ten%' AND state = 'waiting'), 10::bigint, 'ten in one transaction');
\o /dev/null
SELECT fx.tick();
\o
SELECT is((SELECT count(DISTINCT version) || ' ' || count(*) FROM broker_internal.topics_1((SELECT version - 1 FROM broker_internal.cluster), NULL, 1000) WHERE topic LIKE 'ten%'), '1 10', 'appear with one version');

-- pages
-- Topics come in the order of their random ids, so how many fill a page of four partitions differs.
SELECT ok((SELECT count(*) BETWEEN 1 AND 4 FROM broker_internal.topics_1(0, NULL, 4)), 'a page ends with the topic that has its fourth partition');
CREATE FUNCTION pg_temp.pages(since bigint, size int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	last uuid;
	r record;
	n int;
BEGIN
	LOOP
		n := 0;
		FOR r IN SELECT * FROM broker_internal.topics_1(since, last, size) LOOP
			n := n + 1;
			last := r.topic_id;
			RETURN NEXT r.topic_id::text;
		END LOOP;
		EXIT WHEN n = 0;
	END LOOP;
END
$$;
SELECT bag_eq('SELECT pg_temp.pages(0, 3)', 'SELECT topic_id::text FROM broker_internal.topics_1(0, NULL, 100000)', 'all pages together are all, none twice');
SELECT bag_eq('SELECT pg_temp.pages((SELECT version - 1 FROM broker_internal.cluster), 3)', $$ SELECT fx.topic_id('ten' || n)::text FROM generate_series(1, 10) n $$, 'likewise since a version');
UPDATE broker_internal.cluster SET changes_since = version;
SELECT bag_eq($$ SELECT topic_id FROM broker_internal.topics_1((SELECT version - 1 FROM broker_internal.cluster), NULL, 100000) $$, $$ SELECT topic_id FROM broker_internal.topics_1(0, NULL, 100000) $$, 'who asks since a version that is pruned gets all');

-- an operation that cannot be done fails by itself
INSERT INTO broker_internal.operations (kind, object, requested_by) VALUES ('nonsense', 'x', 'test');
\o /dev/null
SELECT broker.create_topic('after_nonsense');
SELECT fx.tick();
\o
SELECT results_eq($$ SELECT kind, state, error FROM broker.operations WHERE object IN ('x', 'topic after_nonsense') ORDER BY operation_id $$,
	$$ VALUES ('nonsense', 'failed', 'case not found'), ('topic.create', 'done', NULL) $$, 'and does not hold up the others');

-- an assignment that is not placed yet is kept when partitions are added
UPDATE broker_internal.brokers SET stopping = true;
\o /dev/null
SELECT broker.create_topic('assigned', assignment => '{"0":[1],"1":[1]}');
SELECT broker.set_partition_count('assigned', 3);
SELECT fx.tick();
UPDATE broker_internal.brokers SET stopping = false;
SELECT fx.register(2);
SELECT fx.tick();
\o
SELECT is((SELECT string_agg(replicas::text, ' ' ORDER BY partition) FROM broker.partitions WHERE topic = 'assigned' AND partition < 2), '{1} {1}', 'as it was wished');
SELECT is((SELECT count(*) FROM broker.partitions WHERE topic = 'assigned'), 3::bigint, 'with the added one');

-- what one transaction asks for is taken up together, but thousands must not keep lock 1 until the statement timeout
SELECT 'made ' || count(broker.create_topic('many' || n)) FROM generate_series(1, 501) n;
\o /dev/null
SELECT fx.tick();
\o
SELECT is((SELECT count(*) FROM broker.operations WHERE object LIKE 'topic many%' AND state = 'waiting'), 1::bigint, 'a round takes up 500');
\o /dev/null
SELECT fx.tick();
\o
SELECT is((SELECT count(*) FROM broker.operations WHERE object LIKE 'topic many%' AND state = 'done'), 501::bigint, 'the next one the rest');
SELECT finish();
