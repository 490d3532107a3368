#!/usr/bin/env python3
"""Members of ours and of Kafka's Java client in one group, by the eager and by the cooperative protocol, one of them killed:
every record is read, no partition is held twice, and whoever leads gives assignments that the others take.  At a broker that
has KIP-848 also with a Java member that speaks that, so that it is the broker who assigns and translates for ours.
"""
import importlib.machinery
import importlib.util
import os
import tempfile

from both import each_broker
from member import Member
from process import DriverError
from tap import Tap
import toolchain

HERE = os.path.dirname(os.path.abspath(__file__))
path = os.path.join(os.path.dirname(HERE), "clients", "groups")
spec = importlib.util.spec_from_loader("groups", importlib.machinery.SourceFileLoader("groups", path))
groups = importlib.util.module_from_spec(spec)
spec.loader.exec_module(groups)


class Mixed(groups.Case):
    """The case of regress/clients/groups with members of several clients: the one in the middle is killed.  `java` is the
    assignor of Java's members, if it is another one."""

    def __init__(self, clients, assignor, java, bootstrap, folder):
        super().__init__("pgbroker", assignor, bootstrap, folder)
        self.clients = list(clients)
        self.java = java or assignor

    def start(self):
        client = self.clients.pop(0)
        command = {**self.command, "assignor": self.java} if client == "java" else self.command
        self.members.append(Member(client, self.bootstrap, self.log, **command))


CASES = (
    # clients, assignor, assignor of Java's members
    (("java", "pgbroker", "pgbroker"), "sticky", None),
    (("pgbroker", "java", "java"), "cooperative-sticky", None),
    (("java", "pgbroker", "pgbroker"), "range", "consumer"),
    (("pgbroker", "pgbroker", "java"), "cooperative-sticky", "consumer"),
)


def main():
    with Tap() as t, each_broker(t) as brokers, tempfile.TemporaryDirectory() as folder:
        for name, bootstrap in brokers:
            for clients, assignor, java in CASES:
                if java and name == "brokerd":  # which has the classic protocol only
                    continue
                title = f"{name}: {', '.join(clients)} share a group by {assignor}" + (f", Java by the protocol {java}" if java else "")
                case = Mixed(clients, assignor, java, bootstrap, folder)
                try:
                    case.run()
                except toolchain.Missing as e:
                    t.skip(title, str(e))
                except (AssertionError, DriverError, toolchain.Broken) as e:
                    t.line(False, title)
                    t.note(f"{e}\n{case.log_end()}")
                else:
                    t.line(True, title)


if __name__ == "__main__":
    main()
