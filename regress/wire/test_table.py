#!/usr/bin/env python3
"""The table of APIs in wire/README.md says what the schema says."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, os.pardir, os.pardir)
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(TOP, 'wire', 'schema'), os.path.join(HERE, os.pardir, 'lib')]
import schema                       # noqa: E402
from table import table             # noqa: E402
from tap import Tap                 # noqa: E402

with Tap() as t, open(os.path.join(TOP, 'wire', 'README.md'), encoding='utf-8') as f:
    written = [line.rstrip('\n') for line in f]
    start = written.index('## The APIs') + 2
    t.equal(written[start:], list(table(schema.load())), 'wire/README.md has the table of wire/schema/table.py')
