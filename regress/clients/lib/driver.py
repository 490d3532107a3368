"""The Python side of the driver protocol (see ../README.md): commands in, one JSON object a line; answers out, the same."""
import base64
import hashlib
import json
import os
import sys
import threading
import time

BOOTSTRAP = os.environ['BOOTSTRAP']
MAX_MESSAGE = 4 * 1024 * 1024


def serve(handlers):
    """Answers commands with HANDLERS[op](command), a dict or None, until standard input ends.  The group command has no answer:
    HANDLERS['group'](command, emit, ended) prints what happens to a group's member by emit, until the event `ended`.
    """
    out = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)       # what a library prints must not look like an answer

    def emit(answer):
        out.write(json.dumps(answer) + '\n')
        out.flush()

    for line in sys.stdin:
        command = json.loads(line)
        if command['op'] == 'group':
            ended = threading.Event()
            threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
            handlers['group'](command, emit, ended)
            emit({'e': 'left'})
            return
        try:
            answer = handlers[command['op']](command) or {}
        except Exception as e:      # whatever a client throws is the answer
            answer = {'error': f'{type(e).__name__}: {e}'}
        emit(answer)


def event(kind, partitions, generation=None, offsets=None):
    """What a group's member prints: assigned, revoked, assignment (all that it has) or records."""
    return {'e': kind, 'p': partitions, 'g': generation, 'o': offsets, 't': time.time()}


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
