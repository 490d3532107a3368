"""The systems that are up: one set of them at a time, all with the same number of nodes.

    fleet.ensure(3)              brokerd and Apache Kafka with three nodes each are up and warm; others are stopped
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
    def __init__(self, place, kinds, tell, warm_up):
        self.place, self.kinds, self.tell, self.warm_up = place, kinds, tell, warm_up
        self.up = {}
        self.nodes = 0
        self.numbers = itertools.count(1)
        self.known = {}  # kind -> what the report says of it

    def of(self, kind):
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
            self.up[kind] = self.started(kind, nodes)
            self.learn(self.up[kind])
        for kind in self.kinds:
            self.tell(f"warming up {CLASSES[kind].title}")
            self.warm_up(self.up[kind])
        self.nodes = nodes

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
        self.nodes = 0
