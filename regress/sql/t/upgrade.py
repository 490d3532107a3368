"""Upgrades: from every released version the catalog becomes that of a fresh install, and every released script
runs with today's library.

Released scripts are sql/upgrade/released/pg_broker--VERSION.sql.  So that the comparison itself is known to
work, a made-up next version adds an object in its install script and in its upgrade script, and another one
forgets it in the upgrade script.
"""
import glob
import os
import re

from catalog import describe
from session import Session
from tap import Tap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ["PGBIN"]  # TREE/lib/postgresql/15/bin; pg_config there is a link and tells of the installation
# The tree's own share folder: the one that has our control file.
SHARE = next(folder for folder, _, names in os.walk(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(BIN)))))
             if "pg_broker.control" in names)
NEXT = """
ALTER TABLE broker_internal.topics ADD COLUMN test_note text;
CREATE FUNCTION broker_internal.test_2() RETURNS int LANGUAGE sql AS 'SELECT 2';
REVOKE ALL ON FUNCTION broker_internal.test_2() FROM PUBLIC;
CREATE OR REPLACE VIEW broker.config_keys WITH (security_barrier) AS
    SELECT config_key, scope, unit, default_value, allowed, is_used, needs_restart, description, synonym FROM broker_internal.config_table();
"""
made = []


def put(name, text):
    path = os.path.join(SHARE, name)
    made.append(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def install(session, name, version, update_to=None):
    session(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    session(f"CREATE DATABASE {name}")
    fresh = Session(database=name)
    fresh(f"CREATE EXTENSION pg_broker VERSION '{version}'")
    if update_to:
        # somebody's view on ours, and data
        fresh("CREATE VIEW public.mine AS SELECT topic, partitions FROM broker.topics")
        fresh("SELECT broker.create_topic('before_the_upgrade')")
        fresh(f"ALTER EXTENSION pg_broker UPDATE TO '{update_to}'")
        assert fresh("SELECT * FROM public.mine") == "before_the_upgrade|1"
        fresh("DROP VIEW public.mine")
    return fresh


with Tap() as t:
    here = Session(database="postgres")
    with open(os.path.join(ROOT, "extension", "pg_broker.control"), encoding="utf-8") as control:
        newest = re.search(r"default_version = '(.*)'", control.read()).group(1)
    with open(os.path.join(SHARE, f"pg_broker--{newest}.sql"), encoding="utf-8") as file:
        script = file.read()
    try:
        fresh = describe(install(here, "up_fresh", newest))
        with t.case("an install is described: functions, views, tables, columns, rights, comments"):
            for what in ("function broker.create_topic(", "v broker.topics", "r broker_internal.topics", "column broker.topics 1 topic text", "comment view column broker.topics.topic", "dumped broker_internal.topics",
                         "member schema broker_internal", "event trigger pg_broker_guard"):
                assert any(line.startswith(what) for line in fresh), what

        for path in sorted(glob.glob(os.path.join(ROOT, "sql", "upgrade", "released", "pg_broker--*.sql"))):
            version = os.path.basename(path)[len("pg_broker--"):-len(".sql")]
            with open(path, encoding="utf-8") as file:
                old = file.read()
            if version == newest:
                with t.case(f"the script of {version}, which is released, is unchanged"):
                    assert old == script
                continue
            put(os.path.basename(path), old)
            with t.case(f"{version} → {newest}: the catalog of a fresh install"):
                assert describe(install(here, f"up_{version.replace('.', '_')}", version, newest)) == fresh

        put("pg_broker--99.0.sql", script + NEXT)
        put(f"pg_broker--{newest}--99.0.sql", "SET LOCAL lock_timeout = '5s';\n" + NEXT)
        put("pg_broker--99.1.sql", script + NEXT)
        put(f"pg_broker--{newest}--99.1.sql", NEXT.replace("REVOKE ALL ON FUNCTION broker_internal.test_2() FROM PUBLIC;", ""))
        wanted = describe(install(here, "up_next", "99.0"))
        with t.case("a made-up next version: upgraded and fresh are the same"):
            assert describe(install(here, "up_upgraded", newest, "99.0")) == wanted
            assert wanted != fresh
        with t.case("a forgotten REVOKE in the upgrade script is noticed"):
            difference = set(describe(install(here, "up_forgotten", newest, "99.1"))) ^ set(wanted)
            assert difference and all("test_2" in line or line.startswith("  sql") for line in difference), difference
    finally:
        for path in made:
            os.unlink(path)
