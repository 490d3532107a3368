\echo Use "CREATE EXTENSION pg_broker" to load this file. \quit
-- Names are resolved while functions are made; every function is schema-qualified or runs with this path pinned.
SET LOCAL search_path TO pg_catalog, broker_internal, pg_temp;
