"""What every client does.  A scenario is a method of Alone named after what it shows; it fails by an exception."""
import json
import os
import time
import uuid

import corpus

PARTITIONS = 5          # one for each codec
SMALL = 10000
ALL = -1

# (reader, writer): codecs of the writer that the reader cannot decompress, whatever is between them.
CANNOT_READ = {
    ('kafka-go', 'aiokafka'): {'lz4'},      # cramjam's frames; the same against Apache Kafka
}


class Failed(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failed(text)


class Matrix:
    """Runs scenarios and says each one's outcome in TAP; several clients at once, so the lines are one at a time."""

    def __init__(self, tap, lock, folder, alive):
        self.tap = tap
        self.lock = lock
        self.folder = folder
        self.alive = alive
        self.run_id = uuid.uuid4().hex[:8]
        self.base = (int(time.time()) - 3600) * 1000
        self.written = {}       # client -> {partition: rows} of its shared topic

    def say(self, passed, name, why='', seconds=None):
        with self.lock:
            self.tap.line(passed, name)
            if not passed:
                self.tap.note(why)
            if seconds is not None and os.environ.get('TIMES'):
                self.tap.note(f'{seconds:.2f} s')

    def case(self, name, do):
        started = time.monotonic()
        try:
            expect(self.alive(), 'the broker has ended')
            do()
        except Exception as e:      # a driver's error, a lost process, a difference: all the same to the others
            self.say(False, name, f'{type(e).__name__}: {e}')
            return False
        self.say(True, name, seconds=time.monotonic() - started)
        return True

    def topic(self, what, client):
        return f'{what}.{client}.{self.run_id}'

    def path(self, *parts):
        return os.path.join(self.folder, '.'.join(parts))

    def run_alone(self, driver):
        Alone(self, driver).run()

    def run_across(self, reader, writers):
        for writer in writers:
            if writer is not reader and self.written.get(writer.name):
                self.case(f'{reader.name}: reads what {writer.name} wrote', lambda w=writer: self.read_shared(reader, w))

    def read_shared(self, reader, writer):
        """READER reads a shared topic from the start and finds what WRITER wrote, record by record."""
        unreadable = {writer.hello['codecs'].index(c) for c in CANNOT_READ.get((reader.name, writer.name), ())}
        rows = {p: r for p, r in self.written[writer.name].items() if p not in unreadable}
        check_read(self, reader, self.topic('shared', writer.name), rows,
                   cannot=reader.cannot | writer.cannot & {'header-order'})

    def clean_up(self, driver):
        if 'delete' not in driver.cannot:
            self.case(f'{driver.name}: deletes its shared topic', lambda: delete(driver, self.topic('shared', driver.name)))


def check_read(matrix, reader, topic, rows, first=None, cannot=None):
    """READER finds ROWS, a dict of lists by partition, from the offsets FIRST on; order counts within a partition."""
    first = first or dict.fromkeys(rows, 0)
    out = matrix.path('read', reader.name, topic)
    started = matrix.base
    reader.ask('consume', topic=topic, out=out, **{'from': {str(p): first[p] for p in rows}},
               to={str(p): first[p] + len(r) for p, r in rows.items()})
    got = {p: [] for p in rows}
    with open(out) as f:
        for line in f:
            got[int(line.split(' ', 1)[0])].append(line.rstrip('\n'))
    os.unlink(out)
    for p, wanted in rows.items():
        lines = [corpus.expected_line(row, p, first[p] + i) for i, row in enumerate(wanted)]
        text = corpus.difference(lines, got[p], cannot or reader.cannot, started)
        expect(text is None, f'partition {p}: {text}')


def delete(driver, topic):
    driver.ask('delete', topic=topic)
    deadline = time.monotonic() + 10
    while not driver.ask('metadata', topic=topic).get('missing'):
        expect(time.monotonic() < deadline, 'the topic is still in the metadata after 10 s')
        time.sleep(0.1)


class Alone:
    """One client by itself."""

    def __init__(self, matrix, driver):
        self.matrix = matrix
        self.driver = driver
        self.shared = matrix.topic('shared', driver.name)
        self.small = matrix.topic('small', driver.name)
        self.partitions = {}    # topic -> how many it has

    def case(self, name, do):
        return self.matrix.case(f'{self.driver.name}: {name}', do)

    def run(self):
        if not self.case('creates a topic', lambda: self.create(self.shared, PARTITIONS)):
            return
        self.case('sees it in the metadata', self.metadata)
        self.matrix.written[self.driver.name] = {}
        for number, codec in enumerate(self.driver.hello['codecs']):
            self.case(f'writes and reads {codec}', lambda n=number, c=codec: self.round_trip(n, c))
        self.case('lists the first and the next offset', self.offsets)
        if 'write-timestamp' not in self.driver.cannot:
            self.case('finds offsets by timestamp', self.offsets_by_time)
        if not self.case('creates a second topic', lambda: self.create(self.small, 3)):
            return
        self.ends = dict.fromkeys(range(self.partitions[self.small]), 0)
        # acks=0 comes last: a topic's leader may not be ready when the metadata already has it, and nobody would retry.
        for acks, name in ((ALL, 'all'), (1, '1'), (0, '0')):
            self.case(f'writes with acks={name}', lambda a=acks: self.write_small(30, a, False))
        if 'idempotent' not in self.driver.cannot:
            self.case('writes idempotently', lambda: self.write_small(500, ALL, True))
        self.case(f'writes {SMALL} small records', lambda: self.write_small(SMALL, ALL, False))
        if 'delete' not in self.driver.cannot:
            self.case('deletes a topic', lambda: delete(self.driver, self.small))

    def create(self, topic, partitions):
        self.driver.ask('create', topic=topic, partitions=partitions,
                        config={'cleanup.policy': 'delete', 'max.message.bytes': '2000000'})
        self.partitions[topic] = 1 if 'config' in self.driver.cannot else partitions
        deadline = time.monotonic() + 10
        while self.driver.ask('metadata', topic=topic).get('missing'):
            expect(time.monotonic() < deadline, 'the topic is not in the metadata after 10 s')
            time.sleep(0.1)

    def metadata(self):
        found = self.driver.ask('metadata', topic=self.shared)
        ids = sorted(p['id'] for p in found['partitions'])
        expect(ids == list(range(self.partitions[self.shared])), f'partitions {ids}')
        for p in found['partitions']:
            expect(p['leader'] in found['brokers'], f"partition {p['id']}: leader {p['leader']} is none of {found['brokers']}")

    def produce(self, topic, rows, codec, acks=ALL, idempotent=False):
        path = self.matrix.path('write', self.driver.name)
        with open(path, 'w') as f:
            for row in rows:
                f.write(json.dumps(corpus.for_driver(row, 0)) + '\n')
        self.driver.ask('produce', topic=topic, records=path, codec=codec, acks=acks, idempotent=idempotent)

    def round_trip(self, number, codec):
        """The corpus with one codec, each codec to a partition of its own (where the client got more than one)."""
        partition = number % self.partitions[self.shared]
        rows = [{**row, 'partition': partition} for row in corpus.fitting(corpus.all_rows(self.matrix.base), self.driver.cannot)]
        before = self.matrix.written[self.driver.name].get(partition, [])
        self.produce(self.shared, rows, codec)
        self.matrix.written[self.driver.name][partition] = before + rows
        check_read(self.matrix, self.driver, self.shared, {partition: rows}, {partition: len(before)})

    def offset(self, at, partition=0, topic=None):
        return self.driver.ask('offsets', topic=topic or self.shared, partition=partition, at=at)['offset']

    def offsets(self):
        count = len(self.matrix.written[self.driver.name].get(0, []))
        expect(self.offset('earliest') == 0, f"earliest {self.offset('earliest')}")
        expect(self.offset('latest') == count, f"latest {self.offset('latest')} instead of {count}")

    def offsets_by_time(self):
        rows = self.matrix.written[self.driver.name]
        for partition in rows:
            at = [row['at'] for row in rows[partition]]
            middle, end = len(at) // 2, len(at)
            for when, offset, what in ((at[0] - 5000, 0, 'before the first'), (at[middle], middle, 'at one'),
                                       (at[middle] + 1, middle + 1, 'between two'), (at[-1], end - 1, 'at the last')):
                found = self.offset(when, partition)
                expect(found == offset, f'partition {partition}, {what}: {found} instead of {offset}')
            found = self.offset(at[-1] + 1, partition)      # none: some clients then give the end
            expect(found in (-1, end), f'partition {partition}, after the last: {found} instead of -1 or {end}')

    def write_small(self, count, acks, idempotent):
        rows = corpus.small_rows(count, len(self.ends))
        new = {p: [r for r in rows if r['partition'] == p] for p in self.ends}
        before = dict(self.ends)
        try:
            self.produce(self.small, rows, 'none', acks, idempotent)
            check_read(self.matrix, self.driver, self.small, new, before)
        finally:
            # What a client sent twice after a timeout of its own, or not at all, is not the next scenario's failure.
            for p in self.ends:
                self.ends[p] = self.offset('latest', p, self.small)
