"""The faults: how each begins, and how it ends.

A fault is a function (stage, who, other) that does its harm and returns what undoes it.  `who` is a broker's id,
`other` another node's name where two are needed.
"""
import collections
import glob
import os
import re
import signal
import shutil
import time

import local_pg
from pgbroker_cluster import Trouble, wait_for
from procs import wait_until
from replicas import split
from replicated import freeze, thaw

# roles: whom it may hit · hold: seconds, at least and at most · alone: with nothing else at the same time ·
# group: of one group only one at a time · needs: "network", "standby" or None
Kind = collections.namedtuple("Kind", "function roles hold alone group needs")
BROKER = ("leader", "leader", "follower", "controller", "any")
SHORT_OF_A_SESSION, LONGER_THAN_A_SESSION = (0.3, 3.0), (7.5, 11.0)


def start(stage, *numbers):
    """Starts them; what they need may still be away, so nobody waits for them here but wait_started()."""
    for number in numbers:
        if not stage.broker(number).pid():
            stage.broker(number).start(wait=False)


def wait_started(stage):
    """At the end of a round, when all is well: everybody runs and answers.  Who gave up is started again."""
    def attempt():
        start(stage, *stage.brokers)
        try:
            for broker in stage.brokers.values():
                broker.wait_ready(30)
        except Trouble as trouble:
            print(f"  a broker did not start: {trouble}", flush=True)
            return False
        return True

    wait_for(attempt, 90, "all brokers run")


def kill(stage, who, _):
    stage.broker(who).kill()
    return lambda: start(stage, who)


def terminate(stage, who, _):
    stage.broker(who).stop()
    return lambda: start(stage, who)


def pause(stage, who, _):
    """As a host that stands still."""
    freeze(stage.broker(who))
    return lambda: thaw(stage.broker(who))


def hang(stage, who, _):
    """As a process that does: its watchdog may have ended it when it should go on."""
    pid = stage.broker(who).pid()
    os.kill(pid, signal.SIGSTOP)

    def heal():
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    return heal


def kill_all(stage, _, __):
    pids = [broker.pid() for broker in stage.brokers.values()]
    for pid in filter(None, pids):
        os.kill(pid, signal.SIGKILL)
    for broker in stage.brokers.values():
        broker.kill()
    return lambda: start(stage, *stage.brokers)


def postgres_kill(stage, _, __):
    stage.postgres.kill()
    return stage.postgres.start


def postgres_restart(stage, _, __):
    stage.postgres.stop()
    return stage.postgres.start


def postgres_freeze(stage, _, __):
    stage.postgres.freeze()
    return stage.postgres.thaw


def postgres_fail_over(stage, who, _):
    """The standby stands still while leaders change and ISRs shrink at the primary; then it has to take over."""
    local_pg.stop_following(stage)
    stage.broker(who).kill()
    time.sleep(2.5)
    old = stage.fail_over()

    def heal():
        start(stage, who)
        wait_started(stage)
        local_pg.follow_again(stage, old)

    return heal


def cut_one_way(stage, who, other):
    stage.network.cut(f"b{who}", other)
    return stage.network.heal


def cut_other_way(stage, who, other):
    stage.network.cut(other, f"b{who}")
    return stage.network.heal


def cut_both(stage, who, other):
    stage.network.cut(f"b{who}", other)
    stage.network.cut(other, f"b{who}")
    return stage.network.heal


def isolate(stage, who, _):
    for other in stage.nodes:
        if other != f"b{who}":
            cut_both(stage, who, other)
    return stage.network.heal


def isolate_but_client(stage, who, _):
    """Cut off from the others, with its clients: acknowledges what it must not, if it can be fooled."""
    for other in stage.nodes:
        if other not in (f"b{who}", "client"):
            cut_both(stage, who, other)
    return stage.network.heal


def isolate_postgres(stage, _, __):
    for number in stage.brokers:
        cut_both(stage, number, "pg")
    return stage.network.heal


def disk_full(stage, who, _):
    stage.fault_rules(who, "pwrite .log ENOSPC\nopen .log ENOSPC\n")
    return lambda: stage.fault_rules(who, "")


def disk_slow(stage, who, _):
    stage.fault_rules(who, "fdatasync * delay:400\nsyncfs * delay:400\n")
    return lambda: stage.fault_rules(who, "")


def disk_error(stage, who, _):
    """One failed sync: that log is refused until the broker is started again (hazards A9)."""
    stage.fault_rules(who, "fdatasync .log EIO 1\n")

    def heal():
        stage.fault_rules(who, "")
        stage.broker(who).stop()
        start(stage, who)

    return heal


def power_cut(stage, who, _):
    stage.broker(who).kill()
    print("  broker %d lost: %d files, %d bytes" % (who, *stage.lose_unsynced(who)), flush=True)
    return lambda: start(stage, who)


def power_cut_everywhere(stage, _, __):
    heal = kill_all(stage, None, None)
    for number in stage.brokers:
        print("  broker %d lost: %d files, %d bytes" % (number, *stage.lose_unsynced(number)), flush=True)
    return heal


def stop_in_swap(stage, who):
    """Ends it where compaction has given some files their next names, and others not: each of these takes a while."""
    def swapping():
        return glob.glob(os.path.join(glob.escape(stage.broker(who).data), "chaos-*", "*.swap"))

    stage.fault_rules(who, "rename 0000 delay:100\n")
    wait_until(swapping, 6)
    time.sleep(stage.rng.uniform(0, 1.5))
    stage.broker(who).kill()
    stage.fault_rules(who, "")
    print(f"  broker {who} ended with {len(swapping())} files on their way", flush=True)


def kill_in_swap(stage, who, _):
    stop_in_swap(stage, who)
    return lambda: start(stage, who)


def power_cut_in_swap(stage, who, _):
    stop_in_swap(stage, who)
    return power_cut(stage, who, None)


def disk_lost(stage, who, _):
    """An empty disk comes back: everything is fetched again, and until then it is nobody's leader (hazards A3)."""
    stage.wait_recovered(60)
    stage.broker(who).kill()
    shutil.rmtree(stage.broker(who).data)
    os.makedirs(stage.broker(who).data)
    stage.forget_journal(who)
    return lambda: start(stage, who)


def bit_flipped(stage, who, _):
    """In a batch with whole batches after it, in what a start after a crash has to read (hazards A9b)."""
    stage.wait_recovered(60)
    stage.broker(who).kill()
    # Not in one that was set aside for the flip before.
    folders = sorted(name for name in os.listdir(stage.broker(who).data) if re.fullmatch(r"chaos-(compacted-)?\d+", name))
    folder = os.path.join(stage.broker(who).data, stage.rng.choice(folders))
    path = os.path.join(folder, max(name for name in os.listdir(folder) if name.endswith(".log")))
    with open(path, "r+b") as file:
        batches = split(file.read())
        if len(batches) > 3:
            _, _, at, end = batches[-3]
            place = stage.rng.randrange(at + 21, end)
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 1 << stage.rng.randrange(8)]))
            print(f"  {path}: a bit of byte {place} flipped", flush=True)
    return lambda: start(stage, who)


KINDS = {
    "kill": Kind(kill, BROKER, (0.0, 4.0), False, "broker", None),
    "terminate": Kind(terminate, BROKER, (0.0, 4.0), False, "broker", None),
    "pause": Kind(pause, BROKER, SHORT_OF_A_SESSION, False, "broker", None),
    "pause-long": Kind(pause, BROKER, LONGER_THAN_A_SESSION, False, "broker", None),
    "hang": Kind(hang, BROKER, LONGER_THAN_A_SESSION, False, "broker", None),
    "kill-all": Kind(kill_all, ("any",), (0.0, 3.0), False, "broker", None),
    "pg-kill": Kind(postgres_kill, ("any",), (0.5, 10.0), False, "postgres", None),
    "pg-restart": Kind(postgres_restart, ("any",), (0.0, 2.0), False, "postgres", None),
    "pg-freeze": Kind(postgres_freeze, ("any",), (1.0, 12.0), False, "postgres", None),
    "pg-failover": Kind(postgres_fail_over, ("leader", "follower"), (0.0, 2.0), True, "postgres", "standby"),
    "cut-one-way": Kind(cut_one_way, BROKER, (2.0, 12.0), False, "network", "network"),
    "cut-other-way": Kind(cut_other_way, BROKER, (2.0, 12.0), False, "network", "network"),
    "cut-both": Kind(cut_both, BROKER, (2.0, 12.0), False, "network", "network"),
    "isolate": Kind(isolate, BROKER, (2.0, 12.0), False, "network", "network"),
    "isolate-but-client": Kind(isolate_but_client, ("leader",), (7.0, 12.0), False, "network", "network"),
    "isolate-pg": Kind(isolate_postgres, ("any",), (2.0, 12.0), False, "network", "network"),
    "disk-full": Kind(disk_full, BROKER, (1.0, 6.0), False, "disk", None),
    "disk-slow": Kind(disk_slow, BROKER, (1.0, 6.0), False, "disk", None),
    "disk-error": Kind(disk_error, BROKER, (1.0, 4.0), True, "disk", None),
    "power-cut": Kind(power_cut, BROKER, (0.0, 3.0), False, "broker", None),
    "power-cut-all": Kind(power_cut_everywhere, ("any",), (0.0, 2.0), True, "broker", None),
    "kill-in-swap": Kind(kill_in_swap, BROKER, (0.0, 3.0), False, "broker", None),
    "power-cut-in-swap": Kind(power_cut_in_swap, BROKER, (0.0, 3.0), False, "broker", None),
    "disk-lost": Kind(disk_lost, BROKER, (0.0, 3.0), True, "broker", None),
    "bit-flip": Kind(bit_flipped, BROKER, (0.0, 1.0), True, "broker", None),
}


def available(have, only=None):
    """Those that this stage can do: `have` of "network", "standby"."""
    return {name: kind for name, kind in KINDS.items()
            if (kind.needs is None or kind.needs in have) and (not only or name in only)}
