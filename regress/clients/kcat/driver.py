"""kcat under the driver protocol.  kcat has no admin API: topics come by auto-creation, with one partition."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from driver import BOOTSTRAP, MAX_MESSAGE, canonical, read_records, serve

# What kcat cannot write: a time of its own, headers without value, an empty key or value beside a null one (-Z makes each
# empty one null), and a zero byte in what is an argument.
CANNOT = ['write-timestamp', 'write-header-null', 'write-empty', 'write-binary-key', 'delete', 'config']

# kcat prints headers as name=value,name=value, so a comma counts only before something like a name, and the end is told by
# bytes that no header of the corpus has.
FORMAT = r'%p %o %T %K %S\n%k%s%h\n\x1e\x1e\n'
HEADERS_END = b'\n\x1e\x1e\n'
BETWEEN_HEADERS = re.compile(rb',(?=[^,=\x00-\x1f]+=)')


def kcat(*args, data=b''):
    command = ['kcat', '-b', BOOTSTRAP, '-X', 'broker.address.family=v4', *(a if isinstance(a, bytes) else str(a) for a in args)]
    done = subprocess.run(command, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode(errors='replace').strip())
    return done.stdout


def hello(_):
    line = next(x for x in subprocess.run(['kcat', '-V'], stdout=subprocess.PIPE, text=True).stdout.splitlines() if x.startswith('Version'))
    return {'version': line.split(' builtin')[0][8:], 'codecs': ['none', 'gzip', 'snappy', 'lz4', 'zstd'], 'cannot': CANNOT}


def metadata(c):
    found = json.loads(kcat('-L', '-J'))
    for topic in found['topics']:
        if topic['topic'] == c['topic']:
            return {'brokers': sorted(b['id'] for b in found['brokers']),
                    'partitions': [{'id': p['partition'], 'leader': p['leader']} for p in topic['partitions']]}
    return {'missing': True}


def create(c):
    while metadata(c).get('missing'):
        kcat('-L', '-t', c['topic'], '-X', 'allow.auto.create.topics=true')
        time.sleep(0.05)


def produce(c):
    options = ['-t', c['topic'], '-P', '-X', f"compression.codec={c['codec']}", '-X', f"acks={c['acks']}",
               '-X', f"enable.idempotence={str(c['idempotent']).lower()}", '-X', f'message.max.bytes={MAX_MESSAGE}']
    records = read_records(c['records'])
    if all(r.key is None and not r.headers for r in records):
        kcat(*options, '-p', records[0].partition, data=b''.join(r.value + b'\n' for r in records))
        return
    for r in records:       # one process a record: a file is one message, and headers are options
        headers = [x for k, v in r.headers for x in ('-H', f'{k}='.encode() + v)]
        if r.value is None:     # an empty file sends nothing, an empty line does
            kcat(*options, *headers, '-p', r.partition, '-Z', '-K', '\\x1f', data=(r.key or b'') + b'\x1f\n')
            continue
        key = ['-k', r.key] if r.key is not None else []
        with tempfile.NamedTemporaryFile() as f:
            f.write(r.value)
            f.flush()
            kcat(*options, *headers, *key, '-p', r.partition, f.name)


def parse(data):
    """The records of the output format of consume()."""
    at = 0
    while at < len(data):
        end = data.index(b'\n', at)
        partition, offset, timestamp, key_size, value_size = map(int, data[at:end].split())
        at = end + 1
        key = None if key_size < 0 else data[at:at + key_size]
        at += max(key_size, 0)
        value = None if value_size < 0 else data[at:at + value_size]
        at += max(value_size, 0)
        end = data.index(HEADERS_END, at)
        headers = []
        for pair in BETWEEN_HEADERS.split(data[at:end]) if end > at else []:
            name, text = pair.split(b'=', 1)
            headers.append((name.decode(), None if text == b'NULL' else text))
        at = end + len(HEADERS_END)
        yield partition, offset, timestamp, key, value, headers


def consume(c):
    with open(c['out'], 'w') as out:
        for p, end in c['to'].items():
            count = end - c['from'][p]
            if count:
                data = kcat('-C', '-t', c['topic'], '-p', p, '-o', c['from'][p], '-c', count, '-q', '-f', FORMAT)
                for record in parse(data):
                    out.write(canonical(*record))


def offsets(c):
    at = {'earliest': -2, 'latest': -1}.get(c['at'], c['at'])
    text = kcat('-Q', '-t', f"{c['topic']}:{c['partition']}:{at}").decode()
    return {'offset': int(text.split()[-1])}


if __name__ == '__main__':
    serve({'hello': hello, 'create': create, 'metadata': metadata, 'produce': produce, 'consume': consume, 'offsets': offsets})
