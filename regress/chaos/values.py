"""What the workload writes: a value says who sent it, where to and as which, and whether it is whole.

    PRODUCER PARTITION SEQUENCE CRC padding          "2 0 1841 9c3f02aa ....."
"""
import zlib

PRODUCER_SHIFT = 40


def make(producer, partition, sequence):
    head = b"%d %d %d" % (producer, partition, sequence)
    return b"%s %08x %s" % (head, zlib.crc32(head), b"." * (sequence * 7919 % 300))


def code(producer, sequence):
    """A value as one number."""
    return producer << PRODUCER_SHIFT | sequence


def parts(number):
    """(producer, sequence) of it."""
    return number >> PRODUCER_SHIFT, number & (1 << PRODUCER_SHIFT) - 1


def parse(value, partition):
    """The code of a value read from a partition; None when nobody can have written that there."""
    words = (value or b"").split(b" ")
    try:
        producer, sequence = int(words[0]), int(words[2])
    except (IndexError, ValueError):
        return None
    return code(producer, sequence) if value == make(producer, partition, sequence) else None
