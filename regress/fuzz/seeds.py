#!/usr/bin/env python3
"""Writes the seed corpora of the fuzz targets from the golden vectors:   seeds.py FOLDER

One file a message and version: FOLDER/request, FOLDER/response; FOLDER/batch has a few batches in each
codec that Python can write.
"""
import gzip
import os
import struct
import sys
import zlib

sys.dont_write_bytecode = True
TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir)
sys.path.insert(0, TOP)
from wire.schema import codec       # noqa: E402


def vectors():
    with gzip.open(os.path.join(TOP, 'regress', 'wire', 'vectors', 'java.txt.gz'), 'rt') as f:
        for line in f:
            name, version, variant, data = line.split(' ', 4)[:4]
            if variant in ('full', 'null'):
                yield name, int(version), variant, bytes.fromhex(data[1:])


def messages():
    for name, version, variant, data in vectors():
        if name.startswith('ConsumerProtocol') or name.endswith('Header'):
            continue
        side = 'request' if name.endswith('Request') else 'response'
        api = name[:-len(side)]
        key = codec.api(api).key
        if side == 'request':
            head = codec.encode('RequestHeader', 'data', codec.request_header_version(api, version), {
                'request_api_key': key, 'request_api_version': version, 'correlation_id': 7, 'client_id': 'fuzz'})
        else:
            head = struct.pack('>hh', key, version) + codec.encode(
                'ResponseHeader', 'data', codec.response_header_version(api, version), {'correlation_id': 7})
        yield side, '%s-%d-%s' % (api, version, variant), head + data


def varint(n):
    n = (n << 1) ^ (n >> 63)
    out = bytearray()
    while n > 0x7f:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def batch(codec_id, attributes=0):
    records = b''
    for i in range(3):
        body = b'\0' + varint(i) + varint(i) + varint(2) + b'k%d' % i + varint(5) + b'value'
        body += varint(1) + varint(1) + b'h' + varint(-1)
        records += varint(len(body)) + body
    if codec_id == 1:
        z = zlib.compressobj(6, zlib.DEFLATED, 31)
        records = z.compress(records) + z.flush()
    elif codec_id == 2:     # snappy: a length, then one literal
        raw = bytes([len(records), 60 << 2, len(records) - 1]) + records
        records = b'\x82SNAPPY\0' + struct.pack('>iii', 1, 1, len(raw)) + raw
    elif codec_id == 3:     # an LZ4 frame with one block that is stored
        records = (b'\x04\x22\x4d\x18\x60\x40\x82' + struct.pack('<I', len(records) | 0x80000000) + records
                   + b'\0\0\0\0')
    elif codec_id == 4:     # a zstd frame with one raw block
        records = (b'\x28\xb5\x2f\xfd\x20' + bytes([len(records)])
                   + struct.pack('<I', len(records) << 3 | 1)[:3] + records)
    tail = struct.pack('>hiqqqhii', codec_id | attributes, 2, 1000, 1002, 77, 1, 5, 3) + records
    return struct.pack('>qiibI', 9, len(tail) + 9, 4, 2, 0) + tail


def write(folder, name, data):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), 'wb') as f:
        f.write(data)


def main(top):
    for side, name, data in messages():
        write(os.path.join(top, side), name, data)
    for codec_id in range(5):
        write(os.path.join(top, 'batch'), 'codec-%d' % codec_id, batch(codec_id))
        write(os.path.join(top, 'batch'), 'two-%d' % codec_id, batch(codec_id) + batch(0, 0x30))


if __name__ == '__main__':
    main(sys.argv[1])
