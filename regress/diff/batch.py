"""
batch.py: record batches (magic 2) with any lie one may want to tell in them.

    batch([record(b"k", b"v")])                         a good batch
    batch([...], producer_id=7, producer_epoch=0, base_sequence=0)
    batch([...], codec=GZIP)                             compressed
    batch([...], crc=1)  batch([...], count=9)           a wrong one

Layout (big endian), CRC32C from `attributes` to the end:

    base_offset 8 | length 4 | leader_epoch 4 | magic 1 | crc 4 | attributes 2 | last_offset_delta 4 |
    base_timestamp 8 | max_timestamp 8 | producer_id 8 | producer_epoch 2 | base_sequence 4 | count 4 | records
"""
import struct
import time
import zlib

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 8, 16, 32
HEADER = struct.Struct(">qiibIhiqqqhii")
# One time for both sides, so that they store the same bytes; young enough that no retention ends it.
NOW = int(time.time()) * 1000 - 3_600_000


def make_crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = make_crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def varint(value):
    value = (value << 1 ^ value >> 63) & 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def counted(data):
    return varint(-1) if data is None else varint(len(data)) + data


def record(key=b"k", value=b"v", headers=(), offset_delta=None, timestamp_delta=0):
    """A record; offset_delta None = its place in the batch."""
    return key, value, tuple(headers), offset_delta, timestamp_delta


def encode_record(place, item):
    key, value, headers, offset_delta, timestamp_delta = item
    body = b"\0" + varint(timestamp_delta) + varint(place if offset_delta is None else offset_delta)
    body += counted(key) + counted(value) + varint(len(headers))
    body += b"".join(counted(name) + counted(data) for name, data in headers)
    return counted(body)


def xxh32(data):
    """Only for inputs under 16 bytes: the header of an LZ4 frame."""
    prime1, prime2, prime3, prime4, prime5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    mask = 0xFFFFFFFF
    value = prime5 + len(data) & mask
    place = 0
    while place + 4 <= len(data):
        value = value + int.from_bytes(data[place:place + 4], "little") * prime3 & mask
        value = (value << 17 | value >> 15) & mask
        value = value * prime4 & mask
        place += 4
    for byte in data[place:]:
        value = value + byte * prime5 & mask
        value = (value << 11 | value >> 21) & mask
        value = value * prime1 & mask
    value = (value ^ value >> 15) * prime2 & mask
    value = (value ^ value >> 13) * prime3 & mask
    return value ^ value >> 16


def compress(codec, data):
    """Valid frames of each codec; other than gzip's they hold the data as it is (literals, raw blocks)."""
    if codec == NONE:
        return data
    if codec == GZIP:
        packer = zlib.compressobj(6, zlib.DEFLATED, 31)
        return packer.compress(data) + packer.flush()
    if codec == SNAPPY:     # the container of xerial's snappy-java, as Kafka's clients write it
        size, literal = len(data), bytearray()
        while size >= 0x80:
            literal.append(size & 0x7F | 0x80)
            size >>= 7
        literal.append(size)
        if data:
            literal += bytes([61 << 2]) + struct.pack("<H", len(data) - 1) + data
        return b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(literal)) + bytes(literal)
    if codec == LZ4:
        descriptor = b"\x60\x40"    # version 1, independent blocks; 64 KiB
        checksum = bytes([xxh32(descriptor) >> 8 & 0xFF])
        blocks = [data[place:place + 65536] for place in range(0, len(data), 65536)]
        blocks = b"".join(struct.pack("<I", len(block) | 0x80000000) + block for block in blocks)
        return b"\x04\x22\x4d\x18" + descriptor + checksum + blocks + b"\0\0\0\0"
    if codec == ZSTD:
        header = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(data))
        return header + struct.pack("<I", len(data) << 3 | 1)[:3] + data
    return data     # an unknown codec: nobody can unpack it anyway


def batch(records=None, codec=NONE, attributes=0, magic=2, base_offset=0, leader_epoch=-1, base_timestamp=NOW,
          max_timestamp=None, producer_id=-1, producer_epoch=-1, base_sequence=-1, count=None,
          last_offset_delta=None, crc=None, length=None, payload=None):
    """The bytes of one batch; what is None is computed so that the batch is right."""
    records = [record()] if records is None else records
    if payload is None:
        payload = b"".join(encode_record(place, item) for place, item in enumerate(records))
    payload = compress(codec, payload)
    if max_timestamp is None:
        max_timestamp = base_timestamp + max((item[4] for item in records), default=0)
    tail = struct.pack(">hiqqqhii", attributes | codec,
                       len(records) - 1 if last_offset_delta is None else last_offset_delta,
                       base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence,
                       len(records) if count is None else count) + payload
    crc = crc32c(tail) if crc is None else crc
    length = 9 + len(tail) if length is None else length
    return struct.pack(">qiibI", base_offset, length, leader_epoch, magic, crc) + tail


def old_message(magic=1, key=b"k", value=b"v"):
    """One message of the formats before batches (magic 0 and 1), which carry a CRC32 of zlib's kind."""
    def sized(data):
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", NOW) if magic else b"") + sized(key) + sized(value)
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(body)) + body


def describe(data):
    """What a Fetch brought, as plain values: a list of batches; a cut-off one says how much there was."""
    batches, place = [], 0
    while place < len(data):
        left = len(data) - place
        if left < HEADER.size:
            batches.append({"cut_off": left})
            break
        (base_offset, length, leader_epoch, magic, crc, attributes, last_delta, base_time, max_time, producer_id,
         producer_epoch, base_sequence, count) = HEADER.unpack_from(data, place)
        end = place + 12 + length
        if length < 49 or end > len(data):
            batches.append({"base_offset": base_offset, "length": length, "cut_off": left})
            break
        batches.append({
            "base_offset": base_offset, "length": length, "leader_epoch": leader_epoch, "magic": magic,
            "crc_is_right": crc == crc32c(data[place + 21:end]), "attributes": attributes,
            "last_offset_delta": last_delta, "base_timestamp": base_time, "max_timestamp": max_time,
            "producer_id": producer_id, "producer_epoch": producer_epoch, "base_sequence": base_sequence,
            "count": count, "records": bytes(data[place + HEADER.size:end]),
        })
        place = end
    return batches
