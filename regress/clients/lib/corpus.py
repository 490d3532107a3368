"""The records that every client writes and reads, and what a reader must find.

A row is what a driver gets: p partition, k key, v value (base64, None is null), h headers (pairs), t timestamp (None: the
client's clock).  `uses` names what a row needs of a client: a client that cannot express it (hello's "cannot") is given the
row without it, or not at all.
"""
import base64
import hashlib
import random
import time

BIG = 1000000


def _row(key, value, headers=(), at=None, uses=()):
    return {'key': key, 'value': value, 'headers': list(headers), 'at': at, 'uses': set(uses)}


def noise(size, seed):
    return random.Random(seed).randbytes(size)


def all_rows(base):
    """The corpus; timestamps rise from BASE by a second a row, with one gap that offsets are looked up in."""
    half = noise(BIG // 2, 1)
    rows = [
        _row(b'k', b'plain'),
        _row(None, b'null key'),
        _row(b'null value', None),
        _row(None, None, uses={'write-null-both'}),
        _row(b'', b'empty key', uses={'write-empty'}),
        _row(b'empty value', b'', uses={'write-empty'}),
        _row(b'', b'', uses={'write-empty'}),
        _row(b'one header', b'1', [('name', b'value')]),
        _row(b'headers', b'2', [('b', b'2'), ('a', b'1'), ('c', b'3')]),
        _row(b'header twice', b'3', [('same', b'first'), ('other', b'x'), ('same', b'second')]),
        _row(b'header null', b'4', [('nothing', None), ('something', b's')], uses={'write-header-null'}),
        _row(b'header empty', b'5', [('empty', b'')], uses={'write-empty'}),
        _row(b'header binary', b'6', [('bytes', bytes(range(255, 0, -1)))]),
        _row('schlüssel'.encode(), 'grüße 🐘'.encode(), [('größe', 'ß'.encode())]),
        _row(b'binary', bytes(range(256)) * 8),
        _row(b'big random', half + half[::-1]),
        _row(b'big zeros', bytes(BIG)),
        _row(noise(3000, 2), noise(10000, 3), uses={'write-binary-key'}),
    ]
    rows += [_row(b'run %d' % i, b'line %d of a run of small records' % i) for i in range(40)]
    rows += [_row(b'last', b'the end')]
    for i, row in enumerate(rows):
        row['at'] = base + i * 1000
    return rows


def small_rows(count, partitions):
    """COUNT records of 100 bytes over PARTITIONS, without keys, headers or times of their own."""
    rows = []
    for i in range(count):
        row = _row(None, (b'%08d ' % i).ljust(100, b'.'))
        row['partition'] = i % partitions
        rows.append(row)
    return rows


def fitting(rows, cannot):
    """The rows that a client can express."""
    kept = []
    for row in rows:
        if row['uses'] & cannot:
            continue
        kept.append({**row, 'at': None} if 'write-timestamp' in cannot else row)
    return kept


def _base64(data):
    return None if data is None else base64.b64encode(data).decode()


def for_driver(row, partition):
    return {'p': row.get('partition', partition), 'k': _base64(row['key']), 'v': _base64(row['value']),
            'h': [[k, _base64(v)] for k, v in row['headers']], 't': row['at']}


def show(data):
    if data is None:
        return '-'
    if len(data) <= 64:
        return 'x' + data.hex()
    return f'#{len(data)}:{hashlib.sha256(data).hexdigest()}'


def expected_line(row, partition, offset):
    """The canonical line of a row; a '*' stands for a timestamp that the client's clock gave."""
    headers = ';'.join(f'{k.encode().hex()}={show(v)}' for k, v in row['headers']) or '.'
    at = '*' if row['at'] is None else row['at']
    return f"{partition} {offset} {at} {show(row['key'])} {show(row['value'])} {headers}"


def _without_order(headers):
    pairs = [] if headers == '.' else headers.split(';')
    return ';'.join(sorted(pairs, key=lambda pair: pair.split('=')[0])) or '.'


def _as_read(fields, cannot):
    """What is left of a line for a reader that does not tell everything."""
    if 'read-empty' in cannot:       # an empty one is read as null
        fields[3:5] = ['x' if f == '-' else f for f in fields[3:5]]
        fields[5] = ';'.join(h[:-1] + 'x' if h.endswith('=-') else h for h in fields[5].split(';'))
    if 'header-order' in cannot:
        fields[5] = _without_order(fields[5])
    return fields


def difference(expected, got, cannot, started):
    """None, or a text that names the first lines where what a reader wrote is not what was expected."""
    wrong = []
    for number, (want, have) in enumerate(zip(expected, got)):
        w = _as_read(want.split(' '), cannot)
        h = _as_read(have.split(' '), cannot)
        if w[2] == '*' and h[2].isdigit() and started - 60000 <= int(h[2]) <= time.time() * 1000 + 60000:
            h[2] = '*'
        if w != h:
            wrong.append(f'record {number}\nexpected {" ".join(w)[:300]}\n     got {" ".join(h)[:300]}')
    if len(expected) != len(got):
        wrong.insert(0, f'{len(got)} records instead of {len(expected)}')
    return '\n'.join(wrong[:4]) if wrong else None
