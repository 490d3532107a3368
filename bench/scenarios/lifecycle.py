"""Starts, stops, kills, and what a system is when nobody uses it.  See measures.py for what a Run is."""
import time

from bench.scenarios.measures import load_options
from bench.scenarios.tools import values_of
from bench.systems import usage
from bench.systems.system import NotServing, wait_until

IDLE_SECONDS = 2

# A client that wants to go on quickly: else it is its own patience that is measured.
EAGER = ["retry.backoff.ms=20", "reconnect.backoff.ms=20", "reconnect.backoff.max.ms=100",
         "topic.metadata.refresh.fast.interval.ms=50", "message.timeout.ms=120000", "enable.idempotence=true"]
KILL_AFTER = 1.5
# For a node that was killed: Apache Kafka recovers each log of it, some hundred a second on two cores.
BACK_SECONDS = 120
BACK_SECONDS_A_PARTITION = 0.03


def idle(system, seconds=IDLE_SECONDS):
    """What it uses while nothing happens."""
    before, begun = system.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    values = {"idle_cores": (system.cpu_seconds() - before) / (time.monotonic() - begun), "memory_mib": system.resident_mib()}
    if system.helper_pids():
        values["helper_mib"] = system.helper_mib()
    return values


def seconds_until(system, node, condition, allowed=600):
    """From the start of a node until the condition holds."""
    begun = time.monotonic()
    system.start_node(node)
    wait_until(condition, allowed, f"{system.title}: node {node} after its start", 0.005)
    return time.monotonic() - begun


# -- start, and idle

def start_prepare(run):
    """Its first start makes what later ones find; then it is stopped, as each run begins."""
    run.system.start()
    run.fleet.learn(run.system)
    run.system.stop_node(1)


def start(run):
    took = seconds_until(run.system, 1, lambda: run.system.is_serving(1))
    values = {"start_s": took, **idle(run.system)}
    run.system.stop_node(1)
    return values


# -- many partitions

def partitions_prepare(run):
    run.system.start()
    count = run.setting("count")
    each = min(100, count)
    run.system.create_many("many", count // each, each)
    run.kept["last"] = (f"many-{count // each}", each)
    wait_until(lambda: last_is_led(run), 120, f"{run.system.title}: its last partition is led")
    run.system.stop_node(1)


def last_is_led(run):
    """The topic that was made last says where it ends, all of its partitions."""
    name, partitions = run.kept["last"]
    try:
        with run.system.connection(1, timeout=10) as k:
            row = k.metadata(name)[name]
            return not row["error_code"] and len(row["partitions"]) == partitions and run.system.leads(k, name, range(partitions))
    except OSError:
        return False


def partitions(run):
    values = {"start_s": seconds_until(run.system, 1, lambda: last_is_led(run))}
    values.update(idle(run.system, 1))
    run.system.kill_node(1)
    try:
        values["recover_s"] = seconds_until(run.system, 1, lambda: last_is_led(run))
        begun = time.monotonic()
        run.system.stop_node(1)
        values["stop_s"] = time.monotonic() - begun
    except NotServing as error:
        # what was measured before counts; a round begins with a node that is down
        run.trouble.append(f"after SIGKILL, {error}")
        run.system.kill_node(1)
    return values


# -- failover

def failover_prepare(run):
    others = run.setting("others", 0)
    if others:
        run.system.create_many("others", others // 100, 100, replicas=3)


def failover(run):
    """A message that was due when the leader died waits for the next one: the longest wait is the stall."""
    run.system.wait_serving()
    controller = run.system.controller()
    victim = controller if run.setting("whom") == "controller" else next(n for n in run.system.ports() if n != controller)
    replicas = [victim, *(n for n in run.system.ports() if n != victim)]
    run.make_topic(assignment={0: replicas})
    working = run.tools.start("load", "produce", run.system, run.topic, seconds=KILL_AFTER + 1, warmup=0.5, watch=False, drain=90, allowed=150, X=EAGER,
                              **load_options(run, size=100, linger=0))
    try:
        time.sleep(KILL_AFTER)
        wait_until(lambda: run.system.leader(run.topic) == victim, 5, f"{run.system.title}: node {victim} leads {run.topic}")
        run.system.kill_node(victim)
        result = working.wait()
    finally:
        working.stop()
        if not run.system.node_pids(victim):
            run.system.start_node(victim)
    values = values_of(result)
    if result.get("errors"):
        run.trouble.append(f"{result['errors']} messages were not acknowledged: {result.get('first_error')}")
    come_back(run, victim)
    return {"stall_s": values["max_ms"] / 1000}


def come_back(run, victim):
    """So that the next round begins as this one did.  The stall is measured, whether it comes back or not."""
    allowed = BACK_SECONDS + run.setting("others", 0) * BACK_SECONDS_A_PARTITION
    try:
        wait_until(lambda: run.system.is_serving(victim), allowed, f"{run.system.title}: node {victim} is back", 0.05)
        wait_until(lambda: run.system.is_led(run.topic, 1, 3), allowed, f"{run.system.title}: node {victim} is in sync again", 0.05)
    except NotServing as error:
        run.trouble.append(f"after it, {error}")


def failover_finish(run):
    others = run.setting("others", 0)
    if others:
        run.system.delete_topics([f"others-{i}" for i in range(1, others // 100 + 1)])


# -- connections

def connections_prepare(run):
    run.system.start()
    run.fleet.learn(run.system)


def connections(run):
    with Connected(run, run.setting("count")):
        return idle(run.system)


class Connected:
    """So many connections of `replay idle` that say nothing, while the block runs."""

    def __init__(self, run, count, seconds=600):
        self.run, self.count = run, count
        self.seconds = seconds

    def __enter__(self):
        pids = self.run.system.pids()
        before = sum(sockets_of(pid) for pid in pids)
        self.tool = self.run.tools.start("replay", "idle", self.run.system, None, connections=self.count, seconds=self.seconds, watch=False)
        try:
            wait_until(lambda: self.tool.process.poll() is not None or sum(sockets_of(pid) for pid in pids) >= before + self.count, 120,
                       f"{self.count} connections", 0.05)
            if self.tool.process.poll() is not None:
                self.tool.wait()
        except BaseException:
            self.tool.stop()
            raise
        return self

    def __exit__(self, *_):
        self.tool.stop()


def sockets_of(pid):
    """Open files of a process: with nothing else going on they grow by its connections."""
    return len(usage.open_files(pid))
