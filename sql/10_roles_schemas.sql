-- Roles belong to the whole PostgreSQL instance and outlive the extension: made only when missing.
DO $$
DECLARE
	r text;
BEGIN
	FOREACH r IN ARRAY ARRAY['broker_viewer', 'broker_admin', 'broker_daemon'] LOOP
		BEGIN
			IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = r) THEN
				EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', r);
			END IF;
		EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; -- another database's CREATE EXTENSION was faster
		END;
	END LOOP;
	IF NOT pg_catalog.pg_has_role('broker_admin', 'broker_viewer', 'MEMBER') THEN
		GRANT broker_viewer TO broker_admin;
	END IF;
	IF NOT pg_catalog.pg_has_role('pg_monitor', 'broker_viewer', 'MEMBER') THEN
		GRANT broker_viewer TO pg_monitor;
	END IF;
END
$$;

-- Plain CREATE SCHEMA: a schema of that name that somebody else made is an error, not adopted.
CREATE SCHEMA broker;
CREATE SCHEMA broker_internal;
