#!/usr/bin/env python3
"""Our log files and Kafka's are the same: Kafka's DumpLogSegments reads every file that our log writes, with
--deep-iteration, and our log opens a data directory that Apache Kafka wrote (and Kafka one of ours).

BUILD is the build folder with unit/storage/test_kafka_dir.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'regress', 'lib'))
import kafka  # noqa: E402
from tap import Tap  # noqa: E402

TOOL = os.path.join(os.environ.get('BUILD', os.path.join(ROOT, 'build')), 'unit', 'storage', 'test_kafka_dir')
# What DumpLogSegments says when it does not like a file; it ends with 0 all the same.
COMPLAINT = re.compile(r'Mismatches in|mismatch|out of order|Non-consecutive|not found|is corrupt|Exception|'
                       r'isvalid: false|Found \d+ invalid bytes|extra bytes', re.I)


def tool(*args):
    return subprocess.run([TOOL, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)


def dump_all(t, tools, path, what, gaps=False):
    """Dumps every file of every log.  `gaps`: of offsets are no fault."""
    seen = {}
    for suffix in ('.log', '.index', '.timeindex', '.txnindex', '.snapshot'):
        files = sorted(glob.glob(f'{path}/*/*{suffix}'))
        seen[suffix] = len(files)
        bad, output = [], ''
        for start in range(0, len(files), 40):
            group = files[start:start + 40]
            options = ['--deep-iteration'] if suffix == '.log' else []
            status, out, err = tools.run('kafka-dump-log', *options, '--files', ','.join(group))
            output += out
            bad += [line for line in (out + err).splitlines() if COMPLAINT.search(line)
                    and not (gaps and line.startswith('Non-consecutive offsets in '))]
            if status != 0:
                bad.append(f'exit {status}: {err[-500:]}')
            bad += [f'{f} was not dumped' for f in group if f'Dumping {f}' not in out]
        if not t.ok(not bad, f'{what}: DumpLogSegments reads {len(files)} {suffix} files'):
            t.note('\n'.join(bad[:20]))
        seen[suffix + ' text'] = output
    return seen


def read(path):
    """What our log finds in a directory: {name: (status, start, end, batches, records, epoch, error)}."""
    logs = {}
    for line in tool('read', path).stdout.splitlines():
        fields = line.split(None, 7)
        if len(fields) >= 7 and fields[1] in ('ok', 'ERROR'):
            logs[fields[0]] = (fields[1], *map(int, fields[2:7]), fields[7] if len(fields) > 7 else '')
    return logs


def count_records(text):
    return len(re.findall(r'^\| offset: ', text, re.M))


def ours(t, tools, work):
    path = os.path.join(work, 'ours')
    made = tool('write', path)
    t.equal(made.returncode, 0, 'our log writes a directory')
    t.note(made.stdout)
    seen = dump_all(t, tools, path, 'clean stop')
    for suffix in ('.log', '.index', '.timeindex', '.txnindex', '.snapshot'):
        t.ok(seen[suffix] > 0, f'there are {suffix} files')
    logs = read(path)
    # The dump also has what lies below the log start in a kept segment.
    t.ok(count_records(seen['.log text']) >= sum(log[4] for log in logs.values()) > 1000, 'every record is in the dump')
    t.ok('producerId: 1000' in seen['.snapshot text'], 'the snapshots name the producers')
    path = os.path.join(work, 'crashed')
    t.equal(tool('crash', path).returncode, 0, 'our log is killed')
    t.ok(read(path) == logs, 'it recovers to the same')
    dump_all(t, tools, path, 'recovered')
    t.equal(tool('append', path).returncode, 0, 'and goes on')
    dump_all(t, tools, path, 'gone on')


def produce(tools, bootstrap, topic, lines, *options):
    status, _, err = tools.run('kafka-console-producer', '--bootstrap-server', bootstrap, '--topic', topic, *options,
                               stdin=''.join(f'{line}\n' for line in lines))
    assert status == 0, err


def consume(tools, bootstrap, topic, count):
    status, out, err = tools.run('kafka-console-consumer', '--bootstrap-server', bootstrap, '--topic', topic,
                                 '--from-beginning', '--max-messages', str(count), '--timeout-ms', '30000')
    return out.splitlines()


def theirs(t, tools, work):
    """Kafka writes; our log opens, adds; Kafka opens that again."""
    path = os.path.join(work, 'kafka')
    codecs = ('none', 'gzip', 'snappy', 'lz4', 'zstd')
    lines = [f'message {i} ' + 'x' * (i % 90) for i in range(300)]
    with kafka.Server(path) as server:
        for codec in codecs:
            status, _, err = tools.run('kafka-topics', '--bootstrap-server', server.bootstrap, '--create', '--topic', f'k-{codec}',
                                       '--partitions', '1', '--replication-factor', '1', '--config', 'segment.bytes=1048576',
                                       '--config', 'index.interval.bytes=200')
            assert status == 0, err
            produce(tools, server.bootstrap, f'k-{codec}', lines, '--compression-codec', codec, '--batch-size', '2000')
        data = server.data_dir
    copy = os.path.join(work, 'kafka-clean')
    shutil.copytree(data, copy)
    logs = read(copy)
    for codec in codecs:
        t.equal(logs.get(f'k-{codec}-0', (None,) * 6)[:5], ('ok', 0, 300) + logs.get(f'k-{codec}-0', (None,) * 6)[3:4] + (300,),
                f'our log opens what Kafka wrote: {codec}')
    t.ok(all(log[0] == 'ok' for log in logs.values()), f'all of its {len(logs)} logs')
    t.note('\n'.join(log[6] for log in logs.values() if log[0] != 'ok'))
    crashed = os.path.join(work, 'kafka-crashed')
    shutil.copytree(data, crashed)
    for name in ('.kafka_cleanshutdown', 'recovery-point-offset-checkpoint'):
        if os.path.exists(os.path.join(crashed, name)):
            os.unlink(os.path.join(crashed, name))
    t.ok(read(crashed) == logs, 'and recovers it without a clean stop')
    t.equal(tool('append', data).returncode, 0, 'our log adds a batch to each of Kafka\'s logs')
    dump_all(t, tools, data, 'Kafka\'s, and ours behind')
    with kafka.Server(path) as server:
        got = consume(tools, server.bootstrap, 'k-zstd', 303)
        t.equal(got[:300], lines, 'Kafka opens the directory again and serves its own records')
        t.equal(len(got), 303, 'and ours')
        produce(tools, server.bootstrap, 'k-zstd', ['after'])
        t.equal(consume(tools, server.bootstrap, 'k-zstd', 304)[-1:], ['after'], 'and goes on')
        server.stop()
    t.equal(read(data).get('k-zstd-0', (None,) * 3)[:3], ('ok', 0, 304), 'which our log reads in turn')


def run(*cases):
    """Each case(t, tools, work) with Kafka's tools and a folder; skipped where there is no Kafka."""
    try:
        kafka.classpath()
    except kafka.Unavailable as why:
        print(f'1..0 # SKIP {why}')
        return
    work = tempfile.mkdtemp(prefix='storage-kafka-')
    try:
        with Tap() as t, kafka.ToolBox() as tools:
            for case in cases:
                case(t, tools, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == '__main__':
    run(ours, theirs)
