"""What is wrong with the history of a compacted topic: pure functions, no cluster.  Everything counted here must be 0.

One idempotent producer with acks=all, so the sequences of a partition say what is newer; keyed.py says which key each of
them is about and whether it deletes.  Of each key the newest acknowledged record counts: older ones may be there or not.

    History.sent      {partition: how many}             sequences 0..n-1 were given to the client
    History.acks      [(partition, offset, sequence)]   offset < 0: not told
    History.log       {partition: [(offset, sequence or None)]}    read back from the start at the end; None: no such record
    History.seen      {partition: {offset: sequence or None}}      what readers were given at any time before

| kind | |
|-|-|
| lost | the newest acknowledged record of a key is gone, and no newer one of the key is there |
| vanished | the same of one that a reader was given and nobody was told of: it was read beyond what was safe |
| resurrected | an older value of a key is back, which a newer tombstone had deleted |
| duplicated | a sequence at two offsets, both of them seen or there now |
| reordered | a later one stands before an earlier one; also of two that were not there at the same time |
| moved | acknowledged at one offset, there or read at another |
| changed | a reader was given something else at this offset before |
| phantom | nobody sent that, it is damaged, or has another's key |
| backwards | an offset that is not beyond the one before it |
| stale | a reader that has read to where all was acknowledged when it began does not know the newest record of a key |
| forgotten | the same of a tombstone younger than delete.retention.ms |
| uncompacted | far more stands than compaction leaves, or a replica never compacted: nothing of all that was tested |

No kind: a gap.  A tombstone may go, after delete.retention.ms, once nothing is left of what it hides.
"""
import collections

import keyed
from checker import Findings

KINDS = ("lost", "vanished", "resurrected", "duplicated", "reordered", "moved", "changed", "phantom", "backwards",
         "stale", "forgotten", "uncompacted")
# Acknowledged in all; with fewer, what may not be compacted yet is too much of it: after a full disk a broker waits for a
# minute before it tries again, after the next one for two.
ENOUGH = 50000


class History:
    def __init__(self, sent, acks, log, seen):
        self.sent = sent
        self.acks = acks
        self.log = log
        self.seen = seen


def newest_by_key(partition, sequences):
    newest = {}
    for sequence in sequences:
        key = keyed.key_of(partition, sequence)
        newest[key] = max(sequence, newest.get(key, -1))
    return newest


def named(partition, sequence):
    if sequence is None:
        return "what nobody sent"
    key, deletes = keyed.key_and_deletes(partition, sequence)
    return f"{sequence} ({key.decode()}{' deleted' if deletes else ''})"


def check_log(history, partition, found):
    """The rows of the log by themselves; returns {offset: sequence} of what somebody has sent."""
    known, before = {}, -1
    for offset, sequence in history.log[partition]:
        where = f"partition {partition} offset {offset}"
        if offset <= before:
            found.add("backwards", f"{where} after {before}")
        before = offset
        if sequence is None or sequence >= history.sent[partition]:
            found.add("phantom", f"{where}: {named(partition, sequence)}")
        else:
            known[offset] = sequence
    return known


def add_seen(history, partition, known, found):
    for offset, sequence in history.seen[partition].items():
        where = f"partition {partition} offset {offset}"
        if sequence is None or sequence >= history.sent[partition]:
            found.add("phantom", f"{where}: {named(partition, sequence)} was read")
        elif known.setdefault(offset, sequence) != sequence:
            found.add("changed", f"{where}: {named(partition, sequence)} was read, now {named(partition, known[offset])}")


def add_acknowledged(history, partition, known, found):
    places = {sequence: offset for offset, sequence in known.items()}
    for at, offset, sequence in history.acks:
        if at != partition or offset < 0 or known.get(offset) == sequence:
            continue
        what = f"partition {partition} {named(partition, sequence)} acknowledged at {offset}"
        if places.get(sequence, offset) != offset:
            found.add("moved", f"{what}, is at {places[sequence]}")
        elif known.setdefault(offset, sequence) != sequence:
            found.add("moved", f"{what}, where {named(partition, known[offset])} is")


def check_order(partition, known, found):
    """Of all that ever stood somewhere."""
    places, highest = {}, -1
    for offset in sorted(known):
        sequence = known[offset]
        where = f"partition {partition} offset {offset}: {named(partition, sequence)}"
        if sequence in places:
            found.add("duplicated", f"{where} also at {places[sequence]}")
        elif sequence < highest:
            found.add("reordered", f"{where} after {named(partition, highest)}")
        places[sequence] = offset
        highest = max(highest, sequence)


def check_newest(history, partition, found):
    sent = range(history.sent[partition])
    there = newest_by_key(partition, (s for _, s in history.log[partition] if s is not None and s in sent))
    tombstones = newest_by_key(partition, (s for s in sent if keyed.deletes(partition, s)))
    acknowledged = newest_by_key(partition, (s for p, _, s in history.acks if p == partition))
    read = newest_by_key(partition, (s for s in history.seen[partition].values() if s is not None and s in sent))
    for key in acknowledged.keys() | read.keys():
        last = max(acknowledged.get(key, -1), read.get(key, -1))
        stands = there.get(key)
        if stands is not None and stands >= last:
            continue
        is_deleted = tombstones.get(key, -1) >= last
        if is_deleted and (stands is None or keyed.deletes(partition, stands)):
            continue
        kind = "resurrected" if is_deleted else "lost" if last == acknowledged.get(key) else "vanished"
        now = "nothing is there" if stands is None else f"{stands} is there"
        found.add(kind, f"partition {partition} {key.decode()}: {named(partition, last)} came last, {now}")


def check(history):
    found = Findings()
    for partition in history.log:
        known = check_log(history, partition, found)
        add_seen(history, partition, known, found)
        add_acknowledged(history, partition, known, found)
        check_order(partition, known, found)
        check_newest(history, partition, found)
    return found


def check_compacted(history, passes, found):
    """`passes`: {broker: how many times it has compacted}."""
    for broker, count in passes.items():
        if not count:
            found.add("uncompacted", f"broker {broker} has not compacted at all")
    stands, acknowledged = sum(map(len, history.log.values())), len(history.acks)
    if acknowledged >= ENOUGH and stands * 2 > acknowledged:
        found.add("uncompacted", f"{stands} of {acknowledged} records stand")


# ---- what a reader knows ----

# The newest acknowledged record of a key when a reader began: its sequence, and when it was given to the client.
Floor = collections.namedtuple("Floor", "sequence sent_at")


class Verdict:
    def __init__(self):
        self.wrong = []     # (kind, what)
        self.open = set()   # keys: something newer was sent and not read yet, which may have taken the place
        self.expired = {}   # key: sequence; an older value whose tombstone may be gone, see judge()


def judge(partition, state, floor, sent, now, keeps):
    """A reader that began before `floor` was taken, and has read beyond the offsets of all in it.

        state     {key: the last sequence that it was given}
        floor     {key: Floor}
        sent      {key: the last sequence that was given to the client, acknowledged or not}
        keeps     delete.retention.ms; in the same unit as the times

    A tombstone that is older than that may be gone when the reader gets there, and the value it hides may have been
    read before that from a replica that compacts later: that is in `expired`, and wrong when it is so again in the
    reader's next look from the start.
    """
    verdict = Verdict()
    for key, (sequence, sent_at) in floor.items():
        has = state.get(key)
        if has is not None and has >= sequence:
            continue
        what = f"partition {partition} {key.decode()}: {named(partition, sequence)} was acknowledged, a reader knows {has}"
        if sent[key] > sequence:
            verdict.open.add(key)
        elif not keyed.deletes(partition, sequence):
            verdict.wrong.append(("stale", what))
        elif now < sent_at + keeps:
            verdict.wrong.append(("forgotten", what))
        elif has is not None and not keyed.deletes(partition, has):
            verdict.expired[key] = sequence
    return verdict
