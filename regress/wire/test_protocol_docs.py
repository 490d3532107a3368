#!/usr/bin/env python3
"""docs/protocol.md lists exactly the APIs that brokerd serves, with their versions.

    regress/wire/test_protocol_docs.py --print     the table as it should stand there
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, os.pardir, os.pardir)
sys.dont_write_bytecode = True
sys.path[:0] = [ROOT, os.path.join(HERE, os.pardir, 'lib')]
from tap import Tap                 # noqa: E402
from wire.schema import schema      # noqa: E402


def read(*path):
    with open(os.path.join(ROOT, *path), encoding='utf-8') as file:
        return file.read()


def served():
    """API name (as in handlers.def) to handler."""
    return dict(re.findall(r'^API_HANDLER\(API_(\w+), (\w+)\)', read('brokerd', 'api', 'handlers.def'), re.M))


def upper_snake(name):
    return re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', name).upper()


def span(versions):
    return str(versions[0]) if versions[0] == versions[1] else '%d-%d' % versions


def table():
    handlers = served()
    apis = [a for a in schema.load().values() if a.key is not None and upper_snake(a.name) in handlers]
    yield '| key | API | versions | advertised | file in `brokerd/api/` |'
    yield '|-|-|-|-|-|'
    for a in sorted(apis, key=lambda api: api.key):
        handler = handlers[upper_snake(a.name)]
        name = handler.removesuffix('_handle')
        if name.startswith('incremental_'):
            name = name.removeprefix('incremental_')  # one file for both ways to alter configs
        assert os.path.exists(os.path.join(ROOT, 'brokerd', 'api', name + '.c')), name
        yield '| %d | %s | %s | %s | %s.c |' % (a.key, a.name, span(a.serve), span(a.advertise), name)


def main():
    if sys.argv[1:] == ['--print']:
        print('\n'.join(table()))
        return 0
    rows = list(table())
    stands = re.findall(r'^\|.*\|$', read('docs', 'protocol.md').split('## APIs')[1].split('\n## ')[0], re.M)
    with Tap() as t:
        t.ok(len(rows) - 2 == len(served()), 'every handler has an API of the schema')
        for row in rows:
            t.ok(row in stands, 'docs/protocol.md has: %s' % row)
        t.ok(stands == rows, 'and no other API')
    return 0


if __name__ == '__main__':
    sys.exit(main())
