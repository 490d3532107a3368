"""Reads wire/schema/*.api, the fields of Kafka's messages (../README.md describes the form).

    apis = schema.load()                    every file, by name
    apis['Produce'].request.fields          Field objects in wire order

A range is a pair (first, last), both inclusive; an empty one is (1, 0).
"""
import os
import re

SCALARS = ('bool', 'int8', 'int16', 'uint16', 'int32', 'int64', 'float64',
           'string', 'bytes', 'uuid', 'records')
HERE = os.path.dirname(os.path.abspath(__file__))
NEVER = (1, 0)
LAST = 99       # the end of an open flexible range


class SchemaError(Exception):
    pass


class Field:
    """One field; `type` is a scalar or 'struct', `array` says that there are several."""

    def __init__(self, name):
        self.name = name
        self.type = None
        self.array = False
        self.versions = NEVER
        self.nullable = NEVER
        self.default = None         # the text behind '=', or None
        self.tag = None
        self.rigid = False
        self.fields = []

    @property
    def null_default(self):
        return self.default == 'null'


class Message:
    def __init__(self, name, fields, versions, flexible):
        self.name, self.fields = name, fields
        self.versions, self.flexible = versions, flexible


class Api:
    """A file.  `key` is None for data that is no request; then `data` is the only message."""

    def __init__(self):
        self.key = self.name = None
        self.versions = self.serve = self.advertise = NEVER
        self.flexible = NEVER
        self.request = self.response = self.data = None


def in_range(version, r):
    return r[0] <= version <= r[1]


def camel(name):
    return ''.join(part[:1].upper() + part[1:] for part in name.split('_'))


def parse_range(text, last):
    if text == 'none':
        return NEVER
    m = re.fullmatch(r'(\d+)(?:(\+)|-(\d+))?', text)
    if not m:
        raise SchemaError('bad range "%s"' % text)
    first = int(m.group(1))
    return (first, last if m.group(2) else int(m.group(3) or first))


def parse_field(words, parent):
    """`words` of one line; `parent` is the range of what the field is part of."""
    f = Field(words[0])
    f.array = words[1].startswith('[]')
    base = words[1][2:] if f.array else words[1]
    f.type = 'struct' if base in ('', '{}') else base
    if f.type != 'struct' and f.type not in SCALARS:
        raise SchemaError('unknown type "%s"' % words[1])
    f.versions = parent
    rest = words[2:]
    if rest and rest[0][0].isdigit():
        f.versions = parse_range(rest.pop(0), parent[1])
    if f.versions[0] < parent[0] or f.versions[1] > parent[1] or f.versions[0] > f.versions[1]:
        raise SchemaError('%s: versions outside of those it is part of' % f.name)
    while rest:
        word = rest.pop(0)
        if word == 'null':
            f.nullable = f.versions
            if rest and rest[0][0].isdigit():
                f.nullable = parse_range(rest.pop(0), f.versions[1])
        elif word == 'tag':
            f.tag = int(rest.pop(0))
        elif word == 'rigid':
            f.rigid = True
        elif word == '=':
            f.default = rest.pop(0)
        else:
            raise SchemaError('%s: unexpected "%s"' % (f.name, word))
    if f.type == 'struct' and not f.array and f.nullable != NEVER and f.default != 'null':
        f.default = 'null'
    return f


def parse_fields(lines, versions):
    """`lines` are (indent, words); returns the fields of the outermost level."""
    top = []
    stack = [(0, top, versions)]        # (indent, list to add to, range)
    for indent, words in lines:
        while stack and stack[-1][0] >= indent:
            stack.pop()
        if not stack:
            stack = [(0, top, versions)]
        f = parse_field(words, stack[-1][2])
        stack[-1][1].append(f)
        if f.type == 'struct':
            stack.append((indent, f.fields, f.versions))
    return top


def parse(path):
    api = Api()
    blocks = {}
    block = None
    with open(path, encoding='ascii') as file:
        for n, line in enumerate(file, 1):
            line = line.split('#')[0].rstrip()
            if not line:
                continue
            words = line.split()
            try:
                if line[0] == ' ':
                    blocks[block].append((len(line) - len(line.lstrip()), words))
                elif words[0] == 'api':
                    api.key, api.name = int(words[1]), words[2]
                elif words[0] == 'data':
                    api.name = words[1]
                elif words[0] in ('versions', 'serve', 'advertise'):
                    setattr(api, words[0], parse_range(words[1], LAST))
                    if words[0] == 'versions':
                        api.serve = api.advertise = api.versions
                    elif words[0] == 'serve':
                        api.advertise = api.serve
                elif words[0] == 'flexible':
                    api.flexible = parse_range(words[1], LAST)
                elif words[0] in ('request', 'response', 'fields'):
                    block = words[0]
                    blocks[block] = []
                else:
                    raise SchemaError('unknown word "%s"' % words[0])
            except (SchemaError, KeyError, IndexError, ValueError) as e:
                raise SchemaError('%s:%d: %s' % (path, n, e)) from e
    if api.name != os.path.basename(path)[:-len('.api')]:
        raise SchemaError('%s: the file is not named after what it describes' % path)
    for block, lines in blocks.items():
        name = api.name + ('' if block == 'fields' else block.capitalize())
        try:
            fields = parse_fields(lines, api.versions)
        except (SchemaError, IndexError, ValueError) as e:
            raise SchemaError('%s: %s: %s' % (path, block, e)) from e
        message = Message(name, fields, api.versions, api.flexible)
        setattr(api, 'data' if block == 'fields' else block, message)
    return api


def load(folder=HERE):
    apis = [parse(os.path.join(folder, f)) for f in sorted(os.listdir(folder)) if f.endswith('.api')]
    return {a.name: a for a in apis}
