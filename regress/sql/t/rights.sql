-- Every function tried by a role without rights, by a viewer, an administrator, a daemon.
SELECT no_plan();
DROP ROLE IF EXISTS t_nobody, t_viewer, t_admin, t_daemon;
CREATE ROLE t_nobody;
CREATE ROLE t_viewer IN ROLE broker_viewer;
CREATE ROLE t_admin IN ROLE broker_admin;
CREATE ROLE t_daemon IN ROLE broker_daemon;
SELECT fx.register(1);
SELECT fx.topic('seen', '{1}');

-- A call with NULL for every argument, in the role's name; its SQLSTATE.
CREATE FUNCTION public.try_as(role text, call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	EXECUTE call;
	RESET ROLE;
	RETURN '00000';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END
$$;
CREATE FUNCTION public.call_of(f oid) RETURNS text LANGUAGE sql AS $$
	SELECT format('%s %I.%I(%s)', CASE p.prokind WHEN 'p' THEN 'CALL' ELSE 'SELECT * FROM' END, n.nspname, p.proname,
		(SELECT string_agg(CASE WHEN t::regtype::text = 'bigint' AND p.proname = 'cancel_operation' THEN '1' ELSE 'NULL::' || t::regtype END, ', ' ORDER BY o) FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY u(t, o)))
	FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = f
$$;

SELECT is(try_as('t_nobody', call_of(p.oid)), '42501', 'without rights: broker.' || p.proname)
	FROM pg_proc p WHERE p.pronamespace = 'broker'::regnamespace AND p.proname NOT IN ('help', 'wait') ORDER BY p.proname;
SELECT is(try_as('t_nobody', 'SELECT * FROM broker.help()'), '00000', 'help is for everybody');
SELECT is(try_as('t_nobody', 'CALL broker.wait()'), '25001', 'so is wait, but not in a transaction');
SELECT is(try_as('t_viewer', call_of(p.oid)), '42501', 'a viewer changes nothing: broker.' || p.proname)
	FROM pg_proc p WHERE p.pronamespace = 'broker'::regnamespace AND p.proname NOT IN ('help', 'wait', 'cancel_operation') ORDER BY p.proname;
SELECT is(string_agg(p.proname, ', '), NULL, 'nothing of broker_internal is executed by ' || r)
	FROM pg_proc p, unnest(ARRAY['t_nobody', 't_viewer', 't_admin']) r
	WHERE p.pronamespace = 'broker_internal'::regnamespace AND p.prorettype <> 'event_trigger'::regtype AND try_as(r, call_of(p.oid)) <> '42501' GROUP BY r;
SELECT is((SELECT count(*) FROM pg_proc p WHERE p.pronamespace = 'broker_internal'::regnamespace AND p.prorettype <> 'event_trigger'::regtype AND try_as(r, call_of(p.oid)) <> '42501'), 0::bigint,
	'nothing of broker_internal is executed by ' || r) FROM unnest(ARRAY['t_nobody', 't_viewer', 't_admin']) r;
SELECT set_eq($$ SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'broker_internal'::regnamespace AND has_function_privilege('t_daemon', p.oid, 'EXECUTE')
		AND NOT has_function_privilege('t_nobody', p.oid, 'EXECUTE') $$,
	$$ SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'broker_internal'::regnamespace AND p.proname ~ '(_[0-9]+|^contract)$' $$,
	'a daemon executes its contract and nothing else');
SELECT set_eq($$ SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = 'broker_internal'::regnamespace AND has_function_privilege('t_nobody', p.oid, 'EXECUTE') $$,
	ARRAY['can_view', 'session_activity', 'config_table', 'config_pretty', 'without', 'min_isr', 'assigned_partitions'], 'what views call is for everybody, and checks for itself');
SELECT is((SELECT count(*) FROM pg_class c, unnest(ARRAY['t_nobody', 't_viewer', 't_admin', 't_daemon']) r
	WHERE c.relnamespace = 'broker_internal'::regnamespace AND c.relkind IN ('r', 'v', 'S') AND has_table_privilege(r, c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')), 0::bigint, 'nobody touches a table');
SELECT is((SELECT count(*) FROM pg_class c, unnest(ARRAY['t_nobody', 't_viewer', 't_admin', 't_daemon']) r
	WHERE c.relnamespace = 'broker'::regnamespace AND has_table_privilege(r, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')), 0::bigint, 'nor writes through a view');

-- Every view by everybody: no error; rows for viewers only.
SELECT is(try_as(r, 'SELECT * FROM broker.' || c.relname), '00000', format('%s reads %s', r, c.relname))
	FROM pg_class c, unnest(ARRAY['t_nobody', 't_viewer', 't_admin', 't_daemon']) r WHERE c.relnamespace = 'broker'::regnamespace ORDER BY r, c.relname;
CREATE FUNCTION public.rows_as(role text, what text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	EXECUTE 'SELECT count(*) FROM ' || what INTO n;
	RESET ROLE;
	RETURN n;
END
$$;
SELECT is(rows_as('t_nobody', 'broker.' || v), 0::bigint, 'without rights no row of ' || v)
	FROM unnest(ARRAY['cluster', 'problems', 'brokers', 'topics', 'topic_configs', 'settings', 'partitions', 'replicas', 'events', 'operations', 'reassignments']) v;
SELECT cmp_ok(rows_as('t_viewer', 'broker.' || v), '>', 0::bigint, 'a viewer sees rows of ' || v)
	FROM unnest(ARRAY['cluster', 'brokers', 'topics', 'topic_configs', 'settings', 'partitions', 'replicas', 'events']) v;
SELECT cmp_ok(rows_as('t_nobody', 'broker.config_keys'), '>', 100::bigint, 'config keys are no secret');
SELECT is(rows_as('t_viewer', $$ broker.brokers WHERE state = 'alive' AND silent_for < '1 min' $$), 1::bigint, 'a viewer sees the broker''s session, which pg_stat_activity hides');
SELECT is(rows_as('pg_monitor', 'broker.topics'), 1::bigint, 'pg_monitor is a viewer');

-- The filter holds against a function that spies on rows before it (security_barrier).
CREATE FUNCTION public.spy(t text) RETURNS bool COST 0.0001 LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'seen: %', t USING ERRCODE = 'P0001'; RAISE EXCEPTION 'spied'; END $$;
SELECT is(try_as('t_nobody', 'SELECT * FROM broker.topics WHERE public.spy(topic)'), '00000', 'a cheap function of the caller sees no hidden row');

-- The caller is kept: actor and requester are the role, not the owner.
SET ROLE t_admin;
SELECT lives_ok($$ SELECT broker.create_topic('mine') $$, 'an administrator creates a topic');
RESET ROLE;
SELECT is((SELECT created_by FROM broker.topics WHERE topic = 'mine'), 't_admin', 'created_by is the caller');
SELECT is((SELECT actor || ' ' || via FROM broker.events WHERE kind = 'topic.create' AND topic = 'mine'), 't_admin sql', 'so is the actor');
SELECT is((SELECT requested_by FROM broker.operations WHERE object = 'topic mine'), 't_admin', 'and who asked');
SET ROLE t_admin;
SELECT is(current_setting('search_path'), '"$user", public', 'the search_path is the caller''s again');
SELECT is(current_user::text, 't_admin', 'and the user too');
SELECT throws_ok($$ SELECT broker.create_topic('mine') $$, 'PB036', NULL, 'after an error too');
SELECT is(current_setting('search_path') || ' ' || current_user, '"$user", public t_admin', 'user and path are the caller''s');
RESET ROLE;

-- An operation is cancelled by who asked for it.
SELECT throws_ok($$ SELECT broker.cancel_operation(999999) $$, '22023', NULL, 'an unknown operation');
CREATE SCHEMA evil;
GRANT ALL ON SCHEMA evil TO t_admin;
SET ROLE t_admin;
CREATE FUNCTION evil.replace(text, text, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'evil ran'; END $$;
CREATE TEMP TABLE topics (topic text);
SET search_path = evil, pg_temp, pg_catalog, public;
SELECT 'created ' || (broker.create_topic('safe') IS NOT NULL);
RESET search_path;
RESET ROLE;
SELECT isnt(fx.topic_id('safe'), NULL, 'the caller''s search_path and temporary tables are not looked into');
SELECT finish();
DROP SCHEMA evil CASCADE;
DROP TABLE IF EXISTS pg_temp.topics;
DROP OWNED BY t_nobody, t_viewer, t_admin, t_daemon;
DROP ROLE t_nobody, t_viewer, t_admin, t_daemon;
