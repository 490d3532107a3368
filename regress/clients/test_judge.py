#!/usr/bin/env python3
"""What judges the clients judges right: a changed, lost or added record is found, what a client cannot tell is not; a partition
held twice is found."""
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, 'lib'), os.path.join(os.path.dirname(HERE), 'lib')]
os.environ.setdefault('BOOTSTRAP', 'nowhere')
import corpus
import driver
from member import Member
from tap import Tap

BASE = int(time.time() - 3600) * 1000
EVERYTHING = {'write-timestamp', 'write-null-both', 'write-empty', 'write-header-null', 'write-binary-key'}


def changed(lines, number, field, value):
    fields = lines[number].split(' ')
    fields[field] = value
    return lines[:number] + [' '.join(fields)] + lines[number + 1:]


def test_difference(t):
    rows = corpus.all_rows(BASE)
    want = [corpus.expected_line(row, 3, i) for i, row in enumerate(rows)]

    def finds(got, cannot=frozenset()):
        return corpus.difference(want, got, cannot, BASE) is not None

    t.ok(not finds(list(want)), 'the same lines do not differ')
    for field, name in enumerate(('partition', 'offset', 'timestamp', 'key', 'value', 'headers')):
        t.ok(finds(changed(want, 2, field, 'other')), f'another {name} is found')
    t.ok(finds(want[:-1]), 'a record that is missing at the end is found')
    t.ok(finds(want[1:]), 'a record that is missing at the start is found')
    t.ok(finds(want + want[-1:]), 'a record too many is found')
    swapped = [want[1], want[0], *want[2:]]
    t.ok(finds(swapped), 'two records in the other order are found')
    null_key = next(i for i, row in enumerate(rows) if row['key'] is None)
    t.ok(finds(changed(want, null_key, 3, 'x')), 'an empty key for a null one is found')
    t.ok(not finds(changed(want, null_key, 3, 'x'), {'read-empty'}), 'but not of a reader that cannot tell them apart')
    twice = next(i for i, row in enumerate(rows) if row['key'] == b'headers')
    other = ';'.join(reversed(want[twice].split(' ')[5].split(';')))
    t.ok(finds(changed(want, twice, 5, other)), 'headers in another order are found')
    t.ok(not finds(changed(want, twice, 5, other), {'header-order'}), 'but not of a reader that does not keep it')


def test_clock(t):
    row = corpus.small_rows(1, 1)[0]
    want = [corpus.expected_line(row, 0, 0)]
    now = int(time.time() * 1000)
    t.ok(corpus.difference(want, changed(want, 0, 2, str(now)), set(), now) is None, "the client's clock is a right time")
    for at in ('-1', '0', str(now + 3600000)):
        t.ok(corpus.difference(want, changed(want, 0, 2, at), set(), now) is not None, f'{at if len(at) < 3 else "an hour ahead"} is none')


def test_drivers_agree(t):
    """The two ways from a record to a line: what is expected, and what a driver makes of what it read."""
    for i, row in enumerate(corpus.all_rows(BASE)):
        line = driver.canonical(0, i, row['at'], row['key'], row['value'], row['headers'])
        if line != corpus.expected_line(row, 0, i) + '\n':
            t.equal(line, corpus.expected_line(row, 0, i) + '\n', f'row {i} is shown in one way')
            return
    t.ok(True, 'a record is shown in one way')
    kept = corpus.fitting(corpus.all_rows(BASE), EVERYTHING)
    t.ok(kept and all(row['at'] is None and not row['uses'] for row in kept), 'a client gets no row that it cannot write')


def member(*events):
    m = Member.__new__(Member)
    m.holds, m.seen, m.generations, m.failure = {}, {}, {}, None
    for at, kind, *rest in events:
        m._take({'e': kind, 't': at, 'p': rest[0] if rest else None, 'o': rest[1] if len(rest) > 1 else None,
                 'g': rest[2] if len(rest) > 2 else None})
    return m


def test_ownership(t):
    case = groups.Case('nobody', 'none', 'nowhere', '/tmp')

    def holds(*members):
        case.members = list(members)
        try:
            case.check_ownership()
        except AssertionError:
            return False
        return True

    a = member((1, 'assigned', [0, 1]), (5, 'revoked', [0, 1]), (6, 'assigned', [0]), (9, 'left'))
    t.ok(holds(a, member((6, 'assigned', [1]), (8, 'revoked', [1]))), 'a partition that was handed over was held once at a time')
    t.ok(not holds(a, member((4, 'assigned', [1]), (8, 'revoked', [1]))), 'one that was taken before it was given is found')
    t.ok(not holds(member((1, 'records', 0, [1], 7)), member((2, 'records', 0, [2], 7))), 'two readers in one generation are found')
    t.ok(holds(member((1, 'records', 0, [1], 7)), member((2, 'records', 0, [1], 8))), 'in two generations they are right')
    full = member((1, 'assignment', [0, 1]), (2, 'assignment', [1, 2]))
    t.equal((full.holding(), full.holds[0]), ([1, 2], [[1, 2]]), 'a whole assignment takes what it does not name')


if __name__ == '__main__':
    from importlib.machinery import SourceFileLoader
    from importlib.util import module_from_spec, spec_from_loader
    spec = spec_from_loader('groups', SourceFileLoader('groups', os.path.join(HERE, 'groups')))
    groups = module_from_spec(spec)
    spec.loader.exec_module(groups)
    with Tap() as tap:
        test_difference(tap)
        test_clock(tap)
        test_drivers_agree(tap)
        test_ownership(tap)
