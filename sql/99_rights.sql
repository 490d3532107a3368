-- Rights, from one list.  Nobody has any on a function but who is named here.

DO $$
DECLARE
	f record;
BEGIN
	REVOKE ALL ON ALL TABLES IN SCHEMA broker_internal FROM PUBLIC;
	GRANT USAGE ON SCHEMA broker TO PUBLIC;
	GRANT USAGE ON SCHEMA broker_internal TO broker_daemon;
	GRANT SELECT ON ALL TABLES IN SCHEMA broker TO PUBLIC;

	FOR f IN
		SELECT p.oid::regprocedure AS id, n.nspname, p.proname, p.prokind, l.lanname
		FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
		WHERE n.nspname IN ('broker', 'broker_internal')
	LOOP
		EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', f.id);
		IF f.nspname = 'broker' THEN
			-- C entry points: they check the caller's right themselves, with a sentence that says what to do
			EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO PUBLIC', f.id);
		ELSIF f.proname IN ('can_view', 'session_activity', 'config_table', 'config_pretty', 'without', 'min_isr', 'assigned_partitions') THEN
			-- used in views, executed there as the caller: pure, or checking for themselves
			EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', f.id);
		ELSIF f.proname = 'contract' OR f.proname ~ '_[0-9]+$' THEN
			-- the daemon's contract: as the owner, search_path pinned (a SET clause is undone when it returns)
			EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = pg_catalog, broker_internal, pg_temp', f.id);
			EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO broker_daemon', f.id);
		END IF;
	END LOOP;
END
$$;
