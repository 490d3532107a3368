#!/usr/bin/env python3
"""The short chaos run of `make check`: the faults that tell most, in a fixed order, under load; nothing may be lost,
duplicated, reordered, moved, changed or differ afterwards, and a group goes on where it was.  `make chaos` is the long one."""
import contextlib
import io
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lib"), os.path.join(HERE, "..", "..", "docker", "local"),
                os.path.join(HERE, "..", "clients", "lib")]

import checker
import faults
import group_checker
import keyed_checker
import network
import toolchain
from campaign import Campaign
from schedule import Blow, Round
from tap import Tap

SESSION_MS = 3000
HUNG = 4.5  # longer than that
ROUNDS = [
    Round([Blow("kill", "leader", 0.5)], 0.5),
    Round([Blow("kill", "controller", 0.5)], 0.5),
    Round([Blow("pause-long", "leader", HUNG)], 0.5),
    Round([Blow("pg-kill", "any", 2.0), Blow("kill", "follower", 0.5)], 0.5),
    Round([Blow("kill-in-swap", "leader", 0.5)], 0.5),
    Round([Blow("isolate-but-client", "leader", HUNG)], 0.5),
    Round([Blow("power-cut-all", "any", 0.2)], 0.5),
]


def main():
    with_network = network.is_possible()
    if with_network:
        network.enter()
    with Tap() as t:
        try:
            toolchain.virtual_environment("confluent")
        except toolchain.Missing as missing:
            t.skip("the short chaos run", missing)
            return
        have = {"network"} if with_network else set()
        kinds = faults.available(have)
        rounds = [round_ for round_ in ROUNDS if all(blow.fault in kinds for blow in round_.blows)]
        if not with_network:
            t.skip("isolate-but-client", "no right to make network namespaces")
        campaign = Campaign(1, rounds, kinds, have, rate=300, properties={"broker.session.timeout.ms": SESSION_MS})
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            campaign.run(keep_failed=os.environ.get("KEEP") == "1")
        t.note(said.getvalue())
        found = campaign.found
        t.equal(sum(campaign.hit.values()), sum(len(round_.blows) for round_ in rounds), "every fault was made")
        t.ok(all(campaign.account["keyed"]["looks"]), "readers of the compacted topic were judged, following and from the start")
        t.ok(campaign.group_figures.handovers and campaign.group_figures.looks, "the group changed hands, and was watched")
        for kind in dict.fromkeys([*checker.KINDS, *keyed_checker.KINDS, *group_checker.KINDS, "differing", "hw-back", "beyond-hw", *found.counts]):
            t.equal(found.counts[kind], 0, f"{kind}: none")


if __name__ == "__main__":
    main()
