"""The systems that are up: one set of them at a time, all with the same number of nodes.

    fleet.ensure(3)              brokerd and Apache Kafka with three nodes each are up and warm; others are stopped.
                                 One that does not start is missing: of() says why, and the other is measured
    fleet.fresh("kafka", 1)      one of its own, made but not started, in a folder of its own; end it with .discard
    fleet.of("brokerd")
"""
import itertools
import shutil

from procs import Trouble

from bench.systems.apache_kafka import ApacheKafka
from bench.systems.brokerd import Brokerd
from bench.systems.system import NotServing

CLASSES = {"brokerd": Brokerd, "kafka": ApacheKafka}


class Fleet:
    def __init__(self, place, kinds, tell, warm_up, failures=(NotServing, Trouble, OSError)):
        """failures: what may go wrong with a system without the other one being to blame."""
        self.place, self.kinds, self.tell, self.warm_up, self.failures = place, kinds, tell, warm_up, failures
        self.up = {}
        self.missing = {}  # kind -> why it is not up
        self.notes = []  # for the report
        self.nodes = 0
        self.numbers = itertools.count(1)
        self.known = {}  # kind -> what the report says of it

    def of(self, kind):
        if kind in self.missing:
            raise NotServing(self.missing[kind])
        return self.up[kind]

    def systems(self):
        return list(self.up.values())

    def make(self, kind, nodes):
        return CLASSES[kind](self.place.subfolder(f"{kind}-{next(self.numbers)}"), nodes)

    def ensure(self, nodes):
        if self.nodes == nodes:
            return
        self.stop()
        for kind in self.kinds:
            self.tell(f"starting {CLASSES[kind].title}, {nodes} node{'s' if nodes > 1 else ''}")
            try:
                self.up[kind] = self.started(kind, nodes)
            except self.failures as error:
                self.missing[kind] = f"{CLASSES[kind].title} with {nodes} node{'s' if nodes > 1 else ''} did not start: {' '.join(str(error).split())}"
                self.tell(f"    {self.missing[kind]}")
                continue
            self.learn(self.up[kind])
        for system in self.systems():
            self.warmed(system)
        self.nodes = nodes

    def warmed(self, system):
        """A system that is too slow for its warm-up is measured all the same: how slow it is, is what is asked."""
        self.tell(f"warming up {system.title}")
        try:
            self.warm_up(system)
        except self.failures as error:
            self.notes.append(f"the warm-up of {system.title} with {system.nodes} nodes ended early: {' '.join(str(error).split())}")
            self.tell(f"    {self.notes[-1]}")

    def started(self, kind, nodes):
        """Ports are chosen before they are used, and somebody may be quicker: then with others, once."""
        for last in (False, True):
            system = self.make(kind, nodes)
            try:
                return system.start()
            except (NotServing, Trouble) as error:
                self.discard(system)
                if last or "in use" not in str(error):
                    raise
                self.tell(f"a port of {system.title} was taken meanwhile; starting it on others")

    def learn(self, system):
        if system.kind not in self.known:
            self.known[system.kind] = {"title": system.title, "version": system.version(), "settings": system.settings()}

    def fresh(self, kind, nodes=1):
        self.stop()
        return self.make(kind, nodes)

    @staticmethod
    def discard(system):
        system.stop()
        shutil.rmtree(system.folder, ignore_errors=True)

    def stop(self):
        for system in self.up.values():
            self.discard(system)  # with the topics that were kept for readers
        self.up = {}
        self.missing = {}
        self.nodes = 0
