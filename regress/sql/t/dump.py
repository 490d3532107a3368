"""pg_dump and pg_restore into another server: topics, ids, assignments, epochs and configs come back, and the
cluster keeps its id (hazards A25)."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docker", "local"))
import postgres  # noqa: E402
from procs import unprivileged_user  # noqa: E402
from session import Session, wait_for  # noqa: E402
from tap import Tap  # noqa: E402

# What must be the same on both sides, one row each.
SAME = """
SELECT 'cluster', cluster_id, encode(secret, 'hex') FROM broker_internal.cluster;
SELECT 'topic', t::text FROM broker_internal.topics t ORDER BY topic_id;
SELECT 'partition', p::text FROM broker_internal.partitions p ORDER BY topic_id, partition;
SELECT 'config', c::text FROM broker_internal.configs c ORDER BY scope, object, config_key;
SELECT 'broker', broker_id, broker_epoch, directory_id, disk_epoch FROM broker_internal.brokers ORDER BY 1, 2;
SELECT 'block', block FROM broker_internal.producer_id_block;
"""

with Tap() as t:
    here = Session()
    beat = Session()
    beat("SELECT fx.register(1, static_config => '{\"log.retention.ms\": \"5\"}')")
    here("SELECT fx.topic('kept', '{1}', '{\"retention.ms\": \"1000\"}')")
    here("SELECT fx.topic('dropped', '{1}')")
    here("SELECT broker.delete_topic('dropped')")
    here("SELECT * FROM broker.alter_cluster('{\"num.partitions\": 3}')")
    here("SELECT fx.tick()")
    here("SELECT broker_internal.producer_ids_1(1, fx.epoch(1))")
    here("SELECT broker.create_topic('wished', 2)")

    folder = tempfile.mkdtemp(dir=os.environ["SQL_TEST_FOLDER"])
    dump = os.path.join(folder, "dump")
    with t.case("pg_dump"):
        here("DROP SCHEMA fx CASCADE")  # the tests' own
        subprocess.run(["pg_dump", "-Fc", "-f", dump], check=True)
        before = here(SAME)

    def restored(session, name):
        with t.case(f"{name}: the same ids, assignments, epochs, tombstones and configs"):
            after = session(SAME)
            assert after == before, f"{before}\n---\n{after}"
        with t.case(f"{name}: rights, comments and help are those of the extension"):
            assert session("SELECT has_schema_privilege('broker_daemon', 'broker_internal', 'USAGE'), count(*) > 10 FROM broker.help()") == "t|t"
            assert session("SELECT count(*) FROM broker_internal.events") == "0"
        with t.case(f"{name}: the broker registers: a new incarnation, and what was wished is placed"):
            epoch = session("SELECT broker_epoch FROM broker_internal.brokers")
            row = session("SELECT broker_epoch, pg_incarnation FROM broker_internal.register_broker_1(1, gen_random_uuid(), "
                          f"(SELECT directory_id FROM broker_internal.brokers), {epoch}, (SELECT cluster_id FROM broker_internal.cluster), NULL, '[]', '1.0', '{{}}')").split("|")
            assert int(row[0]) > int(epoch) and int(row[1]) > 1, row
            session(f"SELECT * FROM broker_internal.tick_1(1, {row[0]}, '{{}}')")
            assert session("SELECT string_agg(topic || partition || ' ' || coalesce(leader, 0), ', ' ORDER BY topic, partition) FROM broker.partitions") == "kept0 1, wished0 1, wished1 1"
            assert session("SELECT broker.create_topic('more') IS NOT NULL") == "t"

    with t.case("pg_restore into another database"):
        here("CREATE DATABASE restored_here")
        subprocess.run(["pg_restore", "--exit-on-error", "-d", "restored_here", dump], check=True)
    restored(Session(database="restored_here"), "another database")

    with t.case("pg_restore into another server, with its roles"):
        user = unprivileged_user() if os.geteuid() == 0 else None
        server = postgres.Postgres(os.path.join(folder, "pg"), user, {"fsync": "off"})
        os.chmod(folder, 0o755)
        server.make_folder(server.home)
        server.program = lambda name: os.path.join(os.environ["PGBIN"], name)  # the tree that is there
        server.initialise(sync=False)
        server.start()
        there = {**os.environ, "PGHOST": server.socket, "PGPORT": str(server.port), "PGDATABASE": "postgres"}
        roles = subprocess.run(["pg_dumpall", "--roles-only", "--no-role-passwords"], check=True, capture_output=True, text=True).stdout
        subprocess.run(["psql", "-Xq"], input=roles, text=True, env=there, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["createdb", "restored"], env=there, check=True)
        subprocess.run(["pg_restore", "--exit-on-error", "-d", "restored", dump], env=there, check=True)
    try:
        keep = dict(os.environ)
        os.environ.update({**there, "PGDATABASE": "restored"})
        other = Session()
        restored(other, "another server")
        other.close()
        os.environ.update(keep)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
