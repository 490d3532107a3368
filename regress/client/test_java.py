#!/usr/bin/env python3
"""The client's pure functions against the real ones: partitioners of Kafka's Java client and of librdkafka over 10,000
keys, and Java's four assignors over thousands of random groups whose members come, go and change their minds.

    BUILD=build regress/client/test_java.py [SEED]
"""
import os
import random
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
import kafka
from tap import Tap

BUILD = os.path.abspath(os.environ.get("BUILD") or os.path.join(ROOT, "build"))
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
GROUPS, ROUNDS = 250, 5


class Lines:
    """A filter that answers a line with a line."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def ask(self, questions):
        """Some hundred at a time, so that neither pipe runs full."""
        answers = []
        for start in range(0, len(questions), 50):
            some = questions[start:start + 50]
            self.process.stdin.write("\n".join(some) + "\n")
            self.process.stdin.flush()
            answers += [self.process.stdout.readline().rstrip("\n") for _ in some]
        return answers

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


def key(rng):
    return bytes(rng.randrange(256) for _ in range(rng.randrange(40))).hex()


class Group:
    """A group over several rebalances.  What members own is what they were given; now and then somebody tells lies."""

    def __init__(self, rng, assignor):
        self.rng, self.assignor, self.generation, self.next = rng, assignor, 0, 0
        self.topics = {f"{rng.choice('abcxyz')}-topic-{i}": rng.choice((0, 1, 1, 2, 3, 5, 8, 12))
                       for i in range(rng.randrange(1, 7))}
        self.same = rng.random() < 0.5
        self.members = {}
        for _ in range(rng.randrange(1, 9)):
            self.join()

    def subscription(self):
        names = sorted(self.topics)
        return names if self.same else self.rng.sample(names, self.rng.randrange(1, len(names) + 1))

    def join(self):
        self.next += 1
        name = f"{self.rng.choice(('consumer', 'c', 'rdkafka'))}-{self.next}-{self.rng.getrandbits(64):016x}"
        self.members[name] = {"instance": f"i{self.next}" if self.rng.random() < 0.2 else "-", "topics": self.subscription(),
                              "owned": [], "generation": "-"}

    def change(self):
        rng = self.rng
        for name in list(self.members):
            if len(self.members) > 1 and rng.random() < 0.15:
                del self.members[name]
            elif not self.same and rng.random() < 0.2:
                self.members[name]["topics"] = self.subscription()
        for _ in range(rng.choice((0, 0, 1, 2))):
            self.join()
        for topic in self.topics:
            if rng.random() < 0.1:
                self.topics[topic] += rng.randrange(3)
        if rng.random() < 0.1:      # a member that was away and says what it had before
            a, b = rng.choice(list(self.members.values())), rng.choice(list(self.members.values()))
            a["owned"] = list(b["owned"])
            a["generation"] = self.generation - rng.randrange(2)

    def question(self):
        wanted = {topic for m in self.members.values() for topic in m["topics"]}
        topics = ",".join(f"{t}:{n}" for t, n in self.topics.items() if t in wanted)
        members = []
        for name, m in self.members.items():
            generation = "-" if m["generation"] == "-" or m["generation"] < 0 else m["generation"]
            members.append("|".join((name, m["instance"], str(generation), str(generation), ",".join(m["topics"]), ",".join(m["owned"]))))
        return ";".join((self.assignor, topics, *members))

    def take(self, answer):
        self.generation += 1
        for item in answer.split(";"):
            name, owned = item.split("=", 1)
            if self.rng.random() < 0.9:     # the others missed this generation
                self.members[name].update(owned=owned.split(",") if owned else [], generation=self.generation)
        self.change()


def assignors(t, seed, java, ours):
    for assignor in ASSIGNORS:
        rng = random.Random(f"{seed} {assignor}")
        groups = [Group(rng, assignor) for _ in range(GROUPS)]
        wrong = errors = count = 0
        for _ in range(ROUNDS):
            questions = [g.question() for g in groups]
            want, got = java.ask(questions), ours.ask(questions)
            for g, question, w, o in zip(groups, questions, want, got):
                count += 1
                errors += w.startswith("error:")
                if w != o and not w.startswith("error:"):
                    wrong += 1
                    if wrong <= 3:
                        t.note(f"question: {question}\n    java: {w}\n    ours: {o}")
                # Both go on from the same; what Java itself cannot do (it throws) goes on from ours.
                g.take(o if w.startswith("error:") else w)
        t.equal(wrong, 0, f"{assignor}: {count} groups are assigned as by Java")
        if errors:
            t.note(f"Java threw for {errors} of them")


def found_groups(t, java, ours):
    """Questions that had another answer once; whatever a random group finds joins them."""
    with open(os.path.join(HERE, "found_groups.txt"), encoding="ascii") as file:
        questions = file.read().splitlines()
    t.equal(ours.ask(questions), java.ask(questions), "groups that were once assigned in another way than by Java")


def main(argv):
    seed = argv[0] if argv else "1"
    with Tap() as t:
        try:
            classpath = kafka.classpath()
        except kafka.Unavailable as e:
            t.skip("assignors and partitioners as Java's", str(e))
            return
        java = Lines(["java", "-Xmx256m", *kafka.JVM, "-Djudge.level=OFF",
                      f"-Dlog4j2.configurationFile={os.path.join(kafka.HERE, 'log4j2.xml')}", "-cp", classpath, os.path.join(HERE, "java", "Assign.java")])
        ours = Lines([os.path.join(BUILD, "client_lines")])
        rng = random.Random(seed)
        keys = ["", *(key(rng) for _ in range(9999))]
        counts = [rng.randrange(1, 200) for _ in keys]
        ask = lambda who, how: who.ask([f"{how};{n};{k}" for n, k in zip(counts, keys)])
        murmur2, crc32 = ask(ours, "murmur2"), ask(ours, "crc32")
        t.ok(murmur2 == ask(java, "murmur2"), "10,000 keys go to the partitions of Java's client (murmur2)")
        t.ok(murmur2[1:] == ask(ours, "rdmurmur2")[1:], "and of librdkafka's murmur2")
        t.ok(crc32 == ask(ours, "rdcrc32"), "10,000 keys go to the partitions of librdkafka's consistent (crc32)")
        t.ok(len(set(murmur2)) > 100 and murmur2 != crc32, "the keys are spread")
        assignors(t, seed, java, ours)
        found_groups(t, java, ours)
        java.close()
        ours.close()


if __name__ == "__main__":
    main(sys.argv[1:])
