"""The Python side of the driver protocol (see ../README.md): commands in, one JSON object a line; answers out, the same."""
import base64
import hashlib
import json
import os
import sys

BOOTSTRAP = os.environ['BOOTSTRAP']
MAX_MESSAGE = 4 * 1024 * 1024


def serve(handlers):
    """Answers commands with HANDLERS[op](command), a dict or None, until standard input ends."""
    out = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)       # what a library prints must not look like an answer
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = handlers[command['op']](command) or {}
        except Exception as e:      # whatever a client throws is the answer
            answer = {'error': f'{type(e).__name__}: {e}'}
        out.write(json.dumps(answer) + '\n')
        out.flush()


def _decode(text):
    return None if text is None else base64.b64decode(text)


class Record:
    def __init__(self, row):
        self.partition = row['p']
        self.key = _decode(row['k'])
        self.value = _decode(row['v'])
        self.headers = [(k, _decode(v)) for k, v in row['h']]
        self.timestamp = row['t']


def read_records(path):
    with open(path) as f:
        return [Record(json.loads(line)) for line in f]


def show(data):
    """Bytes as the canonical lines show them."""
    if data is None:
        return '-'
    if len(data) <= 64:
        return 'x' + data.hex()
    return f'#{len(data)}:{hashlib.sha256(data).hexdigest()}'


def canonical(partition, offset, timestamp, key, value, headers):
    pairs = ';'.join(f'{k.encode().hex()}={show(v)}' for k, v in headers) or '.'
    return f'{partition} {offset} {timestamp} {show(key)} {show(value)} {pairs}\n'
