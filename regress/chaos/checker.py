"""What is wrong with a history: pure functions, no cluster.  Everything counted here must be 0.  Of the compacted topic:
keyed_checker.py.

    History.sent      {producer: {partition: how many}}       sequences 0..n-1 were given to the client
    History.acks      {producer: [(partition, offset, sequence)]}   in the order of the acknowledgements; offset < 0: not told
    History.idempotent  those of them that wrote with acks=all and idempotence; of the others (acks=1) only
                      order and that nobody else wrote is expected
    History.log       {partition: [(offset, code or None)]}   read back from the start at the end (values.py)
    History.seen      {partition: {offset: code or None}}     what readers were given at any time before

| kind | |
|-|-|
| lost | acknowledged, and not there |
| duplicated | there twice |
| reordered | a later one of a producer stands before an earlier one |
| moved | acknowledged at one offset, there at another |
| changed | a reader was given something else at this offset before |
| vanished | a reader was given something at an offset that is not there any more: it was read beyond what was safe |
| phantom | nobody sent that, or it is damaged |
| gap | an offset without a record (nothing here deletes or compacts) |
"""
import collections

import values

KINDS = ("lost", "duplicated", "reordered", "moved", "changed", "vanished", "phantom", "gap")
EXAMPLES = 5


class History:
    def __init__(self, sent, acks, idempotent, log, seen):
        self.sent = sent
        self.acks = acks
        self.idempotent = idempotent
        self.log = log
        self.seen = seen


class Findings:
    def __init__(self):
        self.counts = collections.Counter()
        self.examples = collections.defaultdict(list)

    def add(self, kind, example):
        self.counts[kind] += 1
        if len(self.examples[kind]) < EXAMPLES:
            self.examples[kind].append(example)

    def add_all(self, more, where=""):
        """What `more` has found; `where`: of which topic."""
        for kind, count in more.counts.items():
            self.counts[kind] += count
            self.examples[kind] += [f"{where} {example}".strip() for example in more.examples[kind]]

    def total(self):
        return sum(self.counts.values())


def name_of(number):
    return "damaged" if number is None else "{}/{}".format(*values.parts(number))


def check_log(history, partition, found):
    """One partition by itself; returns {code: [offsets]}."""
    places = collections.defaultdict(list)
    highest = {}
    expected = history.log[partition][0][0] if history.log[partition] else 0
    for offset, number in history.log[partition]:
        where = f"partition {partition} offset {offset}"
        if offset != expected:
            found.add("gap", f"{where}: {expected} is due")
        expected = offset + 1
        producer, sequence = (-1, 0) if number is None else values.parts(number)
        if sequence >= history.sent.get(producer, {}).get(partition, 0):
            found.add("phantom", f"{where}: {name_of(number)}")
            continue
        places[number].append(offset)
        if producer not in history.idempotent:
            continue
        if len(places[number]) > 1:
            found.add("duplicated", f"{where}: {name_of(number)} also at {places[number][0]}")
        elif sequence < highest.get(producer, -1):
            found.add("reordered", f"{where}: {name_of(number)} after {producer}/{highest[producer]}")
        highest[producer] = max(sequence, highest.get(producer, -1))
    return places


def check_acknowledged(history, places, found):
    for producer in history.idempotent:
        for partition, offset, sequence in history.acks[producer]:
            at = places[partition].get(values.code(producer, sequence))
            what = f"partition {partition} {producer}/{sequence} acknowledged at {offset}"
            if not at:
                found.add("lost", what)
            elif offset >= 0 and offset not in at:
                found.add("moved", f"{what}, is at {at}")


def check_relaxed(history, places, found):
    """acks=1, one request under way: it may be lost with its leader, and sent twice; what stands where it was
    acknowledged stands in the order of the acknowledgements."""
    for producer in set(history.acks) - set(history.idempotent):
        last = {}
        for partition, offset, sequence in history.acks[producer]:
            if offset < 0 or offset not in places[partition].get(values.code(producer, sequence), ()):
                continue
            if offset < last.get(partition, -1):
                found.add("reordered", f"partition {partition} offset {offset}: {producer}/{sequence}, acks=1")
            last[partition] = max(offset, last.get(partition, -1))


def check_seen(history, found):
    for partition, seen in history.seen.items():
        log = dict(history.log[partition])
        start = history.log[partition][0][0] if log else 0
        for offset, number in seen.items():
            if offset < start:
                continue
            if offset not in log:
                found.add("vanished", f"partition {partition} offset {offset}: {name_of(number)} was read")
            elif log[offset] != number:
                found.add("changed", f"partition {partition} offset {offset}: {name_of(number)} was read, "
                                     f"now {name_of(log[offset])}")


def check(history):
    found = Findings()
    places = {partition: check_log(history, partition, found) for partition in history.log}
    check_acknowledged(history, places, found)
    check_relaxed(history, places, found)
    check_seen(history, found)
    return found


def relaxed_losses(history):
    """How many of the acks=1 records are gone: allowed, and worth a figure."""
    there = {(partition, number) for partition, rows in history.log.items() for _, number in rows}
    return sum((partition, values.code(producer, sequence)) not in there
               for producer in set(history.acks) - set(history.idempotent)
               for partition, _, sequence in history.acks[producer])
