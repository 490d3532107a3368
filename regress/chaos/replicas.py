"""The logs of a partition on its replicas, byte for byte.  Segments may roll at different offsets, so batches are
compared and not files.  Not for compacted topics, of which each replica compacts for itself
(keyed_replicas.py)."""
import glob
import os
import struct

HEADER = 61


def read(data_folder, topic, partition):
    """The bytes of all segments of a replica."""
    out = b""
    for path in sorted(glob.glob(os.path.join(data_folder, f"{topic}-{partition}", "*.log"))):
        with open(path, "rb") as file:
            out += file.read()
    return out


def split(data):
    """[(base offset, next offset, start, end)] of the whole batches."""
    found, at = [], 0
    while at + HEADER <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        last_delta, = struct.unpack_from(">i", data, at + 23)
        end = at + 12 + length
        if length <= 0 or end > len(data):
            break
        found.append((base, base + last_delta + 1, at, end))
        at = end
    return found


def compare(logs, high_watermark):
    """{broker: bytes} -> what differs below the high watermark, one sentence a replica."""
    parts = {broker: split(data) for broker, data in logs.items()}
    ends = {broker: rows[-1][1] if rows else 0 for broker, rows in parts.items()}
    reference = max(logs, key=lambda broker: (ends[broker], -(parts[broker][0][0] if parts[broker] else 0)))
    by_base = {row[0]: row for row in parts[reference]}
    start = parts[reference][0][0] if parts[reference] else 0
    wrong = []
    for broker, rows in parts.items():
        if ends[broker] < high_watermark:
            wrong.append(f"broker {broker} ends at {ends[broker]}, the high watermark is {high_watermark}")
            continue
        expected = rows[0][0] if rows else 0
        for base, following, at, end in rows:
            if base >= high_watermark:
                break
            other = by_base.get(base)
            if base != expected:
                wrong.append(f"broker {broker} has no batch at offset {expected}, its next one is {base}")
                break
            expected = following
            if base < start:
                continue
            if other is None or logs[reference][other[2]:other[3]] != logs[broker][at:end]:
                wrong.append(f"broker {broker} differs from broker {reference} in the batch at offset {base}")
                break
    return wrong
