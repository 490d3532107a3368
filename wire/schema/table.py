#!/usr/bin/env python3
"""Prints the table of APIs that stands in wire/README.md:   table.py"""
import schema


def text(r):
    if r == schema.NEVER:
        return '–'
    return str(r[0]) if r[0] == r[1] else '%d-%d' % r


def table(apis):
    yield '| key | API | served | advertised | flexible from |'
    yield '|-|-|-|-|-|'
    for a in sorted((a for a in apis.values() if a.key is not None), key=lambda a: a.key):
        yield '| %d | %s | %s | %s | %s |' % (
            a.key, a.name, text(a.serve), 'the same' if a.advertise == a.serve else text(a.advertise),
            '–' if a.flexible == schema.NEVER else a.flexible[0])


if __name__ == '__main__':
    print('\n'.join(table(schema.load())))
