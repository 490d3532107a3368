"""What is written to the compacted topic: everything about a record follows from its partition and its sequence.

    keyed.make(partition, sequence)    -> key, value, headers
    keyed.parse(key, value, headers, partition)    -> the sequence; None when nobody can have written that there

A value is as in values.py.  A tombstone (no value) carries in a header what its value would say, so that it is known
which one it is.  The keys:

    key-N         a few hundred, low numbers much more often than high ones; one in ten records deletes
    passing-N     set once, deleted a second or ten later, never set again: must not come back
    once-N        set once, never deleted: must stay, whatever is compacted around it
"""
import hashlib

import values

PRODUCER = 4
KEYS = 300
HEADER = "instead"
BLOCK = 100  # sequences; in each of them some have a place of their own
PASSING, PASSES, PASSES_LATE, ONCE = 10, 47, 53, 77
LATE = 5  # blocks; for odd numbers


def drawn(partition, sequence):
    """Two numbers as if by chance, 0 <= x < 1."""
    digest = hashlib.blake2b(b"%d %d" % (partition, sequence), digest_size=8).digest()
    return int.from_bytes(digest[:4], "big") / 2 ** 32, int.from_bytes(digest[4:], "big") / 2 ** 32


def key_and_deletes(partition, sequence):
    block, place = divmod(sequence, BLOCK)
    if place == PASSING:
        return b"passing-%d" % block, False
    if place == PASSES and block % 2 == 0:
        return b"passing-%d" % block, True
    if place == PASSES_LATE and block % 2 == 0 and block > LATE:
        return b"passing-%d" % (block - LATE), True
    if place == ONCE:
        return b"once-%d" % block, False
    number, deletes_it = drawn(partition, sequence)
    return b"key-%d" % int(KEYS * number ** 3), deletes_it < 0.1


def key_of(partition, sequence):
    return key_and_deletes(partition, sequence)[0]


def deletes(partition, sequence):
    return key_and_deletes(partition, sequence)[1]


def make(partition, sequence):
    key, is_tombstone = key_and_deletes(partition, sequence)
    content = values.make(PRODUCER, partition, sequence)
    return (key, None, [(HEADER, content)]) if is_tombstone else (key, content, [])


def parse(key, value, headers, partition):
    """`headers` as pairs, or None."""
    content = dict(headers or ()).get(HEADER) if value is None else value
    number = values.parse(content, partition)
    producer, sequence = (-1, 0) if number is None else values.parts(number)
    if producer != PRODUCER or key_and_deletes(partition, sequence) != (key, value is None):
        return None
    return sequence
