#!/usr/bin/env python3
"""What our compaction leaves of a log is what Apache Kafka's leaves of the same log, and Kafka reads it without complaint.

Kafka writes keyed records, tombstones and records that are replaced later, in every codec, with its cleaner off.  One copy
of its data is compacted by Kafka, the other by us.
"""
import os
import re
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, 'regress', 'lib'), os.path.dirname(os.path.abspath(__file__))]
import kafka  # noqa: E402
from pgbroker_cluster import wait_for  # noqa: E402
from test_files import consume, dump_all, read, run, tool  # noqa: E402

CODECS = ('none', 'gzip', 'snappy', 'lz4', 'zstd')
CLEANER = {'log.cleaner.backoff.ms': '100', 'log.retention.check.interval.ms': '600000'}
LOG = 'table-0'


def lines(seed):
    """key:value for Kafka's console producer; NULL is a tombstone."""
    for i in range(120):
        n = (seed * 7919 + i * 104729) % 1000
        key = f'k{n % 25}' if n % 10 else f'once-{seed}-{i}'
        yield f'{key}:' + ('NULL' if n % 13 == 0 else f'value {seed} {i} ' + 'x' * (n % 80))


def write(tools, path):
    with kafka.Server(path, config={'log.cleaner.enable': 'false'}) as server:
        status, _, err = tools.run('kafka-topics', '--bootstrap-server', server.bootstrap, '--create', '--topic', 'table',
                                   '--partitions', '1', '--replication-factor', '1', '--config', 'cleanup.policy=compact',
                                   '--config', 'segment.ms=1', '--config', 'min.cleanable.dirty.ratio=0.01',
                                   '--config', 'index.interval.bytes=300')
        assert status == 0, err
        for seed, codec in enumerate(CODECS):
            status, _, err = tools.run('kafka-console-producer', '--bootstrap-server', server.bootstrap, '--topic', 'table',
                                       '--compression-codec', codec, '--batch-size', '1500', '--property', 'parse.key=true',
                                       '--property', 'key.separator=:', '--property', 'null.marker=NULL',
                                       stdin=''.join(f'{line}\n' for line in lines(seed)))
            assert status == 0, err
        return server.data_dir


def cleaned(data):
    """{log: offset} of cleaner-offset-checkpoint."""
    try:
        with open(os.path.join(data, 'cleaner-offset-checkpoint')) as f:
            rows = [line.split() for line in f.read().splitlines()[2:]]
    except FileNotFoundError:
        return {}
    return {f'{topic}-{partition}': int(offset) for topic, partition, offset in rows}


def compact_by_kafka(path):
    with kafka.Server(path, config=CLEANER) as server:
        wait_for(lambda: LOG in cleaned(server.data_dir), 60, 'Kafka compacts')
        server.stop()


def records(tools, data):
    """{offset: (key, value, time)} by Kafka's dump tool."""
    folder = os.path.join(data, LOG)
    files = sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith('.log'))
    status, out, err = tools.run('kafka-dump-log', '--deep-iteration', '--print-data-log', '--files', ','.join(files))
    assert status == 0, err
    found = {}
    for line in out.splitlines():
        m = re.match(r'\| offset: (\d+) .*?CreateTime: (-?\d+).* key: (.*?)(?: payload: (.*))?$', line)
        if m:
            found[int(m.group(1))] = (m.group(3), m.group(4), m.group(2))
    return found


def same_records(t, tools, work):
    theirs, ours = os.path.join(work, 'theirs'), os.path.join(work, 'ours')
    data = write(tools, theirs)
    relative = os.path.relpath(data, theirs)
    shutil.copytree(theirs, ours)
    before = records(tools, data)
    compact_by_kafka(theirs)
    done = tool('compact', os.path.join(ours, relative))
    t.equal(done.returncode, 0, 'we compact a directory of Kafka\'s')
    t.note(done.stdout)
    dump_all(t, tools, os.path.join(ours, relative), 'compacted by us', gaps=True)
    mine, other = records(tools, os.path.join(ours, relative)), records(tools, data)
    t.equal(sorted(set(mine.items()) ^ set(other.items()))[:5], [], f'of {len(before)} records the same {len(mine)} stay')
    t.ok(0 < len(mine) < len(before) and any(r[1] in (None, 'null') for r in mine.values()), 'some went, tombstones stay')
    t.equal(cleaned(os.path.join(ours, relative)).get(LOG), cleaned(data).get(LOG), 'up to the same offset')
    with kafka.Server(ours, config=CLEANER) as server:
        got = consume(tools, server.bootstrap, 'table', len(mine))
        t.equal(len(got), len(mine), 'Kafka opens what we compacted and serves it')
        server.stop()
    t.ok(all(log[0] == 'ok' for log in read(os.path.join(ours, relative)).values()), 'and we what Kafka did with it')


if __name__ == '__main__':
    run(same_records)
