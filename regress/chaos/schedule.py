"""Which faults happen, in which order: a function of a seed, so that a run can be replayed.

    schedule.make(seed, rounds, faults.available(...))   ->  [Round([Blow("kill", "leader", 1.7), ...], pause), ...]

A blow hits a role (who has it is decided when it falls: that cannot be known before) and lasts `hold` seconds; a
second one of a round falls while the first lasts.  Whatever falls together, acknowledged records must survive:
only what would take more than one replica's *disk* is kept to one blow a round (`alone` in faults.py).
"""
import collections
import random

Blow = collections.namedtuple("Blow", "fault role hold")
Round = collections.namedtuple("Round", "blows pause")


def make(seed, rounds, kinds):
    """`kinds`: {name: faults.Kind}; each of them comes once before any comes again."""
    rng = random.Random(seed)
    made, bag = [], []
    for _ in range(rounds):
        if not bag:
            bag = sorted(kinds)
            rng.shuffle(bag)
        blows = [draw(rng, kinds, bag.pop())]
        others = [name for name in sorted(kinds) if not kinds[name].alone and kinds[name].group != kinds[blows[0].fault].group]
        if others and not kinds[blows[0].fault].alone and rng.random() < 0.3:
            blows.append(draw(rng, kinds, rng.choice(others)))
        made.append(Round(blows, round(rng.uniform(0.5, 3), 1)))
    return made


def draw(rng, kinds, name):
    kind = kinds[name]
    return Blow(name, rng.choice(kind.roles), round(rng.uniform(*kind.hold), 1))


def text(number, round_):
    blows = " and ".join(f"{b.fault}({b.role}) for {b.hold} s" for b in round_.blows)
    return f"round {number}: {blows}, then {round_.pause} s of peace"
