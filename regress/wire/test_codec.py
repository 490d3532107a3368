#!/usr/bin/env python3
"""The Python codec against the golden vectors: Kafka's JSON is what it decodes, and it encodes the same bytes."""
import gzip
import json
import os
import sys
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, os.pardir, os.pardir), os.path.join(HERE, os.pardir, 'lib')]
from tap import Tap                 # noqa: E402
from wire.schema import codec       # noqa: E402


def lines(name):
    with gzip.open(os.path.join(HERE, 'vectors', name + '.txt.gz'), 'rt', encoding='utf-8') as f:
        for line in f:
            name, version, variant, data, *rest = line.rstrip('\n').split(' ', 4)
            for side in ('request', 'response', 'data'):
                if name.endswith(side.capitalize()):
                    name = name[:-len(side)]
                    break
            yield name, side, int(version), variant, bytes.fromhex(data[1:]), json.loads(rest[0]) if rest else None


OURS = {"peer", "read_high_watermark"}  # tagged fields from 10000 on: between our brokers only, and absent from everybody's vectors


def plain(value):
    """What JSON can say of a decoded value."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k not in OURS}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, uuid.UUID):
        return value.hex
    return value


def wrong_vectors(name):
    wrong, seen = [], 0
    for api, side, version, variant, data, values in lines(name):
        seen += 1
        try:
            got = codec.decode(api, side, version, data)
            again = codec.encode(api, side, version, got)
        except codec.CodecError as e:
            wrong.append('%s %s %d %s: %s' % (api, side, version, variant, e))
            continue
        if values is not None and plain(got) != values:
            wrong.append('%s %s %d %s: other fields' % (api, side, version, variant))
        if variant != 'unknown' and again != data:
            wrong.append('%s %s %d %s: other bytes' % (api, side, version, variant))
    return wrong, seen


def refuses(t, what, *args):
    try:
        codec.decode(*args)
        t.ok(False, what)
    except codec.CodecError:
        t.ok(True, what)


def main():
    with Tap() as t:
        for name in ('java', 'go'):
            wrong, seen = wrong_vectors(name)
            if not t.ok(seen > 1000 and not wrong, '%s: %d vectors' % (name, seen)):
                t.note('\n'.join(wrong[:10]))
        refuses(t, 'a byte too many', 'Heartbeat', 'response', 0, b'\0\0\0')
        refuses(t, 'a byte too few', 'Heartbeat', 'response', 0, b'\0')
        refuses(t, 'null where none is allowed', 'Heartbeat', 'request', 0, b'\xff\xff\0\0\0\0\0\0')
        frame = codec.encode_request('Metadata', 12, 9, {'topics': [{'name': 't'}]}, client_id=None)
        name, version, correlation_id, client_id, values = codec.decode_request(frame)
        t.ok((name, version, correlation_id, client_id, values['topics'][0]['name'])
             == ('Metadata', 12, 9, None, 't'), 'a request with its header')
        frame = codec.encode_response('ApiVersions', 3, 9, {'error_code': 35})
        t.ok(codec.decode_response('ApiVersions', 3, frame)[1]['error_code'] == 35 and frame[4:6] == b'\0\x23',
             'ApiVersions answers with the old header')


main()
