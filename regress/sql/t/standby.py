"""Every view works on a hot standby, for a viewer; every function says that it is read-only there."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docker", "local"))
import postgres  # noqa: E402
from procs import unprivileged_user  # noqa: E402
from session import Broker, Session, wait_for  # noqa: E402
from tap import Tap  # noqa: E402

with Tap() as t:
    here = Session()
    database = os.environ["PGDATABASE"]
    broker = Broker(1)
    here("SELECT fx.topic('t', '{1}')")
    here("SELECT broker_internal.report_1(1, fx.epoch(1), '{\"connections\": 3}', ARRAY[fx.topic_id('t')], '{0}', '{0,5,5,5,100,NULL,1}')")
    here("CREATE ROLE t_standby_viewer LOGIN IN ROLE broker_viewer")
    user = unprivileged_user() if os.geteuid() == 0 else None
    folder = tempfile.mkdtemp(dir=os.environ["SQL_TEST_FOLDER"])
    os.chmod(folder, 0o755)
    server = postgres.Postgres(os.path.join(folder, "pg"), user, {"fsync": "off", "max_prepared_transactions": "4", "max_connections": "200"})
    try:
        with t.case("a standby starts from a base backup"):
            server.make_folder(server.home)
            server.program = lambda name: os.path.join(os.environ["PGBIN"], name)
            server.run(["env", f"PGHOST={os.environ['PGHOST']}", f"PGPORT={os.environ['PGPORT']}", f"PGUSER={os.environ['PGUSER']}", os.path.join(os.environ["PGBIN"], "pg_basebackup"),
                        "-D", server.data, "-R", "-X", "stream", "-c", "fast", "--no-sync"], "pg_basebackup")
            server.start()
        os.environ.update({"PGHOST": server.socket, "PGPORT": str(server.port)})
        there = Session(user="t_standby_viewer")
        assert there("SELECT pg_is_in_recovery()") == "t"
        wait_for(lambda: there("SELECT count(*) FROM broker.topics") == "1", "the standby has the topic")
        for view in there("SELECT relname FROM pg_class WHERE relnamespace = 'broker'::regnamespace ORDER BY 1").split():
            with t.case(f"broker.{view} is read by a viewer"):
                there(f"SELECT * FROM broker.{view}")
        with t.case("figures are those of the last report"):
            assert there("SELECT high_watermark FROM broker.partitions") == "5"
            assert there("SELECT state, last_seen_at = reported_at, connections FROM broker.brokers") == "alive|t|3"
        with t.case("help works, changes are refused as read-only"):
            assert there("SELECT count(*) > 10 FROM broker.help()") == "t"
            admin = Session()
            assert admin.state("SELECT broker.create_topic('no')") == "25006"
        with t.case("a daemon is told that it is a standby"):
            assert admin("SELECT severity FROM broker_internal.session_check_1() WHERE problem LIKE '%standby'") == "critical"
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
