"""One chaos run: the stage, the rounds one after the other, the end, the verdict."""
import collections
import random
import tempfile
import time

import checker
import faults
import group_checker
import group_end
import keyed_checker
import keyed_log
import replicas
import schedule
import values
from kafka_client import Connection, KafkaError
from pgbroker_cluster import Trouble, wait_for
from stage import COMPACTED, COMPACTED_PARTITIONS, PARTITIONS, TOPIC, Stage

ABSENT_AFTER = 20  # seconds without all replicas of the compacted topic in sync; a round begins then only when they are
STUCK_AFTER = 60  # seconds without acknowledgements after everything is well again


class Campaign:
    def __init__(self, seed, rounds, kinds, have, rate, ends_at=None, properties=None):
        self.rounds, self.kinds, self.rate, self.ends_at = rounds, kinds, rate, ends_at
        self.seed, self.rng = seed, random.Random(seed)
        self.have = have
        self.hit = collections.Counter()
        self.stuck = []
        self.slowest = self.slowest_group = 0.0
        self.properties = properties
        self.stage = self.found = self.account = self.group_figures = None
        self.complete_at = 0

    # -- the rounds

    def strike(self, blow, roles):
        """Returns what undoes it."""
        stage = self.stage
        who = self.rng.choice(roles[blow.role])
        other = self.rng.choice([node for node in stage.nodes if node != f"b{who}"])
        needs_other = blow.fault.startswith("cut-")
        print(f"  {time.strftime('%H:%M:%S')} {blow.fault} hits broker {who}{' and ' + other if needs_other else ''}", flush=True)
        self.hit[blow.fault] += 1
        return self.kinds[blow.fault].function(stage, who, other)

    def one_round(self, number, round_):
        print(schedule.text(number, round_), flush=True)
        heals, roles = [], self.stage.roles()  # a second blow must not ask a PostgreSQL that the first one froze
        for blow in round_.blows:
            heals.append((time.monotonic() + blow.hold, self.strike(blow, roles)))
            time.sleep(min(0.5, blow.hold))
        for at, heal in sorted(heals, key=lambda item: item[0]):
            time.sleep(max(0, at - time.monotonic()))
            heal()
        faults.wait_started(self.stage)
        self.wait_for_acknowledgements(number)
        time.sleep(round_.pause)

    def wait_for_acknowledgements(self, number):
        before, began = self.stage.figures(), time.monotonic()
        try:
            wait_for(lambda: self.stage.acknowledges(before), STUCK_AFTER, "acknowledgements")
        except AssertionError:
            self.stuck.append(f"round {number}: no acknowledgements for {STUCK_AFTER} s: {self.stage.figures().get('partitions')}")
            print("  " + self.stuck[-1], flush=True)
        took = time.monotonic() - began
        self.slowest = max(self.slowest, took)
        group_took = self.wait_for_the_group(number, before)
        now = self.stage.figures()
        print(f"  {time.strftime('%H:%M:%S')} acknowledges again after {took:.1f} s, the group {group_took:.1f} s later; {now['acked']} acknowledged, {now['read']} read", flush=True)
        if now["faults"] > before["faults"]:
            print(f"  {now['faults']} faults seen so far, the last: {now['last']}", flush=True)

    def wait_for_the_group(self, number, before):
        """It has members for all partitions again, who read and commit.  Returns how long that took."""
        began = time.monotonic()
        try:
            wait_for(lambda: self.stage.group_reads(before), STUCK_AFTER, "the group's commits")
        except AssertionError:
            now = self.stage.figures()["group"]
            self.stuck.append(f"round {number}: the group commits nothing for {STUCK_AFTER} s: {before['group']} acknowledged, now {now}")
            print("  " + self.stuck[-1], flush=True)
        took = time.monotonic() - began
        self.slowest_group = max(self.slowest_group, took)
        return took

    def wait_for_the_absent(self):
        """No replica may be away for so long that it misses a tombstone of the compacted topic: as in Kafka, what that
        hides would be back with it."""
        now = time.monotonic()
        if self.stage.recovered(COMPACTED):
            self.complete_at = now
        elif now - self.complete_at > ABSENT_AFTER:
            self.stage.wait_recovered(STUCK_AFTER, COMPACTED)
            self.complete_at = time.monotonic()

    # -- the end

    def read_back(self):
        """{partition: [(offset, code)]} by Fetch from the leaders, and the high watermarks."""
        log, ends = {}, {}
        with Connection(self.stage.broker(1).address) as k:
            leaders = {p: k.leader(TOPIC, p) for p in range(PARTITIONS)}
        for partition, leader in leaders.items():
            with Connection(self.stage.broker(leader).address, timeout=30) as k:
                rows, offset = [], 0
                while True:
                    more = k.fetch(TOPIC, partition, offset, max_wait_ms=0, max_bytes=4 << 20)
                    if not more:
                        break
                    rows += [(at, values.parse(value, partition)) for at, value in more]
                    offset = more[-1][0] + 1
                log[partition], ends[partition] = rows, offset
        return log, ends

    def differing(self, ends, keyed_ends):
        wrong = []
        for partition, end in ends.items():
            logs = {b.id: replicas.read(b.data, TOPIC, partition) for b in self.stage.brokers.values()}
            wrong += [f"partition {partition}: {what}" for what in replicas.compare(logs, end)]
        return wrong + keyed_log.differing(self.stage, COMPACTED, keyed_ends)

    def settle(self, account):
        found = checker.Findings()
        for kind, what in account["faults"]:
            found.add(kind, what)
        for what in self.stuck:
            found.add("stuck", what)
        try:
            self.stage.wait_recovered(90)
        except AssertionError as error:
            found.add("stuck", str(error))
        log, ends, keyed_rows, keyed_ends = {}, {}, {}, {}

        def complete():
            nonlocal log, ends, keyed_rows, keyed_ends
            try:
                log, ends = self.read_back()
                keyed_rows, keyed_ends = keyed_log.read_back(self.stage, COMPACTED, COMPACTED_PARTITIONS)
            except (KafkaError, OSError, KeyError, EOFError):
                return False
            return not self.differing(ends, keyed_ends)

        try:
            wait_for(complete, 30, "all replicas are equal")
        except AssertionError:
            for what in self.differing(ends, keyed_ends):
                found.add("differing", what)
        for topic, partitions, rows in ((TOPIC, PARTITIONS, log), (COMPACTED, COMPACTED_PARTITIONS, keyed_rows)):
            for partition in range(partitions):
                if partition not in rows:
                    found.add("unreadable", f"{topic} partition {partition}")
                    rows[partition] = []
        history = checker.History(
            {int(n): {int(p): c for p, c in rows.items()} for n, rows in account["sent"].items()},
            {int(n): rows for n, rows in account["acks"].items()}, set(account["idempotent"]), log,
            {int(p): dict(rows) for p, rows in account["seen"].items()})
        found.add_all(checker.check(history))
        keyed_history = keyed_log.history(account["keyed"], keyed_rows)
        found.add_all(keyed_checker.check(keyed_history), COMPACTED)
        keyed_checker.check_compacted(keyed_history, self.stage.compactions(), found)
        group_history = group_end.history(self.stage, TOPIC, PARTITIONS, account["group"], found)
        group_found, self.group_figures = group_checker.check(group_history)
        found.add_all(group_found, "group")
        return history, keyed_history, group_history, found

    def report(self, account, history, keyed_history, group_history, found):
        acked = sum(len(history.acks[n]) for n in history.idempotent)
        relaxed = sum(len(rows) for n, rows in history.acks.items() if n not in history.idempotent)
        print("faults injected: " + ", ".join(f"{name} {count}" for name, count in sorted(self.hit.items())))
        print(f"acknowledged with acks=all: {acked}; with acks=1: {relaxed}, of which {checker.relaxed_losses(history)} are gone, which is allowed")
        print(f"records read back: {sum(map(len, history.log.values()))}; read meanwhile: {sum(account['read'])}; "
              f"high watermarks looked at: {account['watched']}; slowest return to service {self.slowest:.1f} s")
        followed, again = account["keyed"]["looks"]
        print(f"compacted: {len(keyed_history.acks)} acknowledged, {sum(map(len, keyed_history.log.values()))} stand after "
              f"{sum(self.stage.compactions().values())} passes; readers were judged {followed} times following and {again} times "
              f"from the start, {account['keyed']['unjudged']} keys left open")
        figures = self.group_figures
        print(f"group: {len({h.generation for h in group_history.holds})} generations, {len(group_history.acknowledged)} of "
              f"{len(group_history.commits)} commits acknowledged; {figures.handovers} handovers and {figures.looks} looks at what is "
              f"committed were judged: {figures.lost} show what a failover lost, {figures.late} what came late, which is allowed; "
              f"slowest return {self.slowest_group:.1f} s later")
        kinds = [*checker.KINDS, *keyed_checker.KINDS, *group_checker.KINDS, *sorted(set(found.counts) - set(checker.KINDS)), "differing"]
        print("found: " + ", ".join(f"{kind} {found.counts[kind]}" for kind in dict.fromkeys(kinds)))
        for kind, examples in found.examples.items():
            for example in examples[:checker.EXAMPLES]:
                print(f"  {kind}: {example}")

    def run(self, keep="", keep_failed=True):
        """True: nothing is wrong.  What is left is copied to `keep`, or, when something is wrong, to a new folder."""
        with Stage(self.rng, with_network="network" in self.have,
                   with_standby="standby" in self.have,
                   properties=self.properties) as self.stage:
            try:
                self.found = self.all_rounds()
            finally:
                if keep or keep_failed and (self.found is None or self.found.total()):
                    keep = keep or tempfile.mkdtemp(prefix="pgb-chaos-")
                    self.stage.keep(keep)
                    print(f"all files are kept in {keep}", flush=True)
            return self.found.total() == 0

    def all_rounds(self):
        stage = self.stage
        stage.start_workload(self.rate, self.seed)
        wait_for(lambda: stage.figures().get("acked", 0) > 0, 60, "the first acknowledgements")
        wait_for(lambda: all(stage.figures()["group"]), 60, "the group's first commits")
        self.complete_at = time.monotonic()
        for number, round_ in enumerate(self.rounds, 1):
            if self.ends_at and time.monotonic() > self.ends_at:
                break
            try:
                self.wait_for_the_absent()
                self.one_round(number, round_)
            except (AssertionError, Trouble) as error:
                self.stuck.append(f"round {number}: {error}")
                print("  " + self.stuck[-1], flush=True)
                break
            # More rounds would only write over what shows why.
            if self.stuck or stage.figures()["faults"]:
                print("  something is wrong: the rounds end here", flush=True)
                break
        account = self.account = stage.stop_workload()
        histories_and_found = self.settle(account)
        self.report(account, *histories_and_found)
        return histories_and_found[-1]
