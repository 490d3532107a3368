"""The logs of a compacted partition on its replicas.  Each compacts for itself, so they are not the same bytes: what
stands at an offset on two of them must be the same record, and the newest value of each key the same everywhere.  A
tombstone may be gone on one of them already."""
import collections
import glob
import os
import struct

import replicas
from kafka_client import varint

# batch: leader epoch, producer id, producer epoch, base sequence
Record = collections.namedtuple("Record", "offset key value headers timestamp batch")


class Moving(Exception):
    """Files have changed while they were read."""


def state_of(folder):
    return {path: (status.st_ino, status.st_size, status.st_mtime_ns)
            for path in glob.glob(os.path.join(folder, "*.log*")) for status in [os.stat(path)]}


def read(data_folder, topic, partition):
    """The bytes of all segments of a replica, which may compact meanwhile: then Moving."""
    folder = os.path.join(data_folder, f"{topic}-{partition}")
    try:
        before = state_of(folder)
        data = replicas.read(data_folder, topic, partition)
        if state_of(folder) == before:
            return data
    except FileNotFoundError:
        pass
    raise Moving(folder)


def take(data, at):
    size, at = varint(data, at)
    return (None, at) if size < 0 else (data[at:at + size], at + size)


def records_of(data, base, at, end):
    """Those of one batch, which is not compressed; the delete horizon stands where the base timestamp was."""
    epoch, = struct.unpack_from(">i", data, at + 12)
    base_time, = struct.unpack_from(">q", data, at + 27)
    batch = (epoch, *struct.unpack_from(">qhi", data, at + 43))
    count, = struct.unpack_from(">i", data, at + 57)
    at += replicas.HEADER
    for _ in range(count):
        size, at = varint(data, at)
        following = at + size
        time, at = varint(data, at + 1)
        delta, at = varint(data, at)
        key, at = take(data, at)
        value, at = take(data, at)
        nheaders, at = varint(data, at)
        headers = []
        for _ in range(nheaders):
            name, at = take(data, at)
            content, at = take(data, at)
            headers.append((name.decode(), content))
        assert at == following <= end, f"the batch at offset {base} holds no records"
        yield Record(base + delta, key, value, tuple(headers), base_time + time, batch)


def records(data):
    return [record for base, _, at, end in replicas.split(data) for record in records_of(data, base, at, end)]


def newest_values(rows):
    """{key: offset}; without deleted ones."""
    newest = {}
    for record in rows:
        newest[record.key] = record
    return {key: record.offset for key, record in newest.items() if record.value is not None}


def ends(data):
    rows = replicas.split(data)
    return rows[-1][1] if rows else 0


def compare(logs, high_watermark):
    """{broker: bytes} -> what differs below the high watermark, one sentence a replica."""
    wrong, reference, expected, values = [], None, {}, {}
    for broker, data in sorted(logs.items()):
        end = ends(data)
        if end < high_watermark:
            wrong.append(f"broker {broker} ends at {end}, the high watermark is {high_watermark}")
            continue
        rows = [record for record in records(data) if record.offset < high_watermark]
        offsets = [record.offset for record in rows]
        if any(later <= earlier for earlier, later in zip(offsets, offsets[1:])):
            wrong.append(f"broker {broker}: offsets that do not go up")
        if reference is None:
            reference, expected, values = broker, {record.offset: record for record in rows}, newest_values(rows)
            continue
        others = [record for record in rows if expected.get(record.offset, record) != record]
        if others:
            wrong.append(f"broker {broker} differs from broker {reference} in the record at offset {others[0].offset}")
        differing = sorted(newest_values(rows).items() ^ values.items())
        if differing:
            wrong.append(f"broker {broker} differs from broker {reference} in the newest value of {differing[0][0].decode()} "
                         f"and {len(differing) - 1} more: {newest_values(rows).get(differing[0][0])} here, {values.get(differing[0][0])} there")
    return wrong
