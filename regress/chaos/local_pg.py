"""The control plane's PostgreSQL and its asynchronous standby, for a Stage.

On the network the primary and the standby are the nodes pg and pg2; on the loopback brokers reach both by their Unix
sockets.  After a failover the old primary is wiped and comes back as the standby of the new one.
"""
import os
import shutil
import time

import postgres as local_postgres
from pgbroker_cluster import Postgres, wait_for

ROLE = "brokerd"


def trust_network(server):
    with open(os.path.join(server.data, "pg_hba.conf"), "a", encoding="ascii") as file:
        file.write("host all all 10.77.0.0/24 trust\n")
    server.rows("SELECT pg_reload_conf()")


def place_of(stage, server):
    """Where brokers reach a server: (host, port)."""
    if stage.network:
        return server.settings["listen_addresses"], server.port
    return server.socket, server.port


def conninfo(stage):
    servers = [place_of(stage, s) for s in (stage.postgres, stage.standby) if s]
    return (f"host={','.join(s[0] for s in servers)} port={','.join(str(s[1]) for s in servers)} dbname={local_postgres.DATABASE} "
            f"user={ROLE} target_session_attrs=read-write connect_timeout=2")


def make_standby(stage, server=None):
    """A copy of stage.postgres that follows it; `server` is the one to wipe for it."""
    primary = stage.postgres
    if server is None:
        home = os.path.join(stage.folder, "postgres-2")
        local_postgres.make_home(stage.folder, home, primary.user)
        server = Postgres(home, primary.user, {**primary.settings, "wal_retrieve_retry_interval": "200ms"}, primary.tcp_port)
        os.symlink(primary.tree, server.tree)
        if stage.network:
            server.settings["listen_addresses"] = stage.network.address("pg2")
    shutil.rmtree(server.data, ignore_errors=True)
    server.run([primary.program("pg_basebackup"), "-h", primary.socket, "-p", str(primary.port), "-U", local_postgres.SUPERUSER,
                "-D", server.data, "-R", "-c", "fast", "--no-sync", "-X", "stream"], "pg_basebackup")
    os.unlink(os.path.join(server.data, "pg_broker.conf"))
    server.start()
    wait_for(lambda: primary.rows("SELECT count(*) FROM pg_stat_replication") != [("0",)], 20, "the standby follows")
    return server


def wal_receivers(server):
    found = []
    for pid in server.processes():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                title = file.read()
        except OSError:
            continue
        if b"walreceiver" in title:
            found.append(pid)
    return found


def stop_following(stage):
    """From here on the standby gets nothing: what the primary commits now is lost with it, and nothing before."""
    stage.following_until = time.monotonic()
    caught_up = f"SELECT pg_last_wal_replay_lsn() >= '{stage.postgres.rows('SELECT pg_current_wal_flush_lsn()')[0][0]}'"
    wait_for(lambda: stage.standby.rows(caught_up) == [("t",)], 20, "the standby has caught up")
    stage.standby.rows("ALTER SYSTEM SET primary_conninfo = ''")
    stage.standby.rows("SELECT pg_reload_conf()")
    wait_for(lambda: not wal_receivers(stage.standby), 10, "the standby's receiver ends")


def fail_over(stage):
    """The primary dies; the standby, behind by what came since stop_following(), takes over.  stage.lapse: when it stopped,
    and when the primary died, from when to when."""
    old, new = stage.postgres, stage.standby
    began = time.monotonic()
    old.kill()
    stage.lapse = stage.following_until, began, time.monotonic()
    new.rows("SELECT pg_promote()")
    wait_for(lambda: new.rows("SELECT pg_is_in_recovery()") == [("f",)], 30, "the promotion")
    stage.postgres, stage.standby = new, None
    return old


def follow_again(stage, old):
    """The old primary becomes the new one's standby."""
    stage.postgres.rows("ALTER SYSTEM RESET primary_conninfo")
    stage.standby = make_standby(stage, old)
