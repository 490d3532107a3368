"""Kafka messages between bytes and dicts, from the same schema as the C codec, for tests and tools.

    encode('Metadata', 'request', 12, {'topics': None})        -> bytes
    decode('Metadata', 'response', 12, data)                   -> dict
    encode_request('Metadata', 12, correlation_id, {...})      -> bytes with header, without the 4 bytes of size
    decode_response('Metadata', 12, frame)                     -> (correlation_id, dict)

Keys are the schema's names.  Fields left out of a dict get their defaults (a struct in a list, too); a field
that the version does not have is left out when encoding and absent from what is decoded.  Strings are str,
bytes and records are bytes, a uuid is uuid.UUID, null is None.  `side` is 'request', 'response' or 'data'.
Anything malformed raises CodecError.
"""
import struct
import uuid

from . import schema as _schema

ZERO_UUID = uuid.UUID(int=0)
_apis = {}
_PACK = {'int8': '>b', 'int16': '>h', 'uint16': '>H', 'int32': '>i', 'int64': '>q', 'float64': '>d'}


class CodecError(Exception):
    pass


def api(name):
    if not _apis:
        _apis.update(_schema.load())
    return _apis[name]


def message(name, side):
    return getattr(api(name), side)


def default(field):
    if field.default == 'null':
        return None
    if field.array:
        return []
    if field.type == 'struct':
        return {f.name: default(f) for f in field.fields}
    if field.type == 'bool':
        return field.default == 'true'
    if field.type == 'string':
        return ''
    if field.type in ('bytes', 'records'):
        return b''
    if field.type == 'uuid':
        return ZERO_UUID
    return float(field.default or 0) if field.type == 'float64' else int(field.default or 0)


# ---- writing ----

def _uvarint(n):
    out = bytearray()
    while n > 0x7f:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _length(n, compact, narrow):
    if compact:
        return _uvarint(n + 1)
    return struct.pack('>h' if narrow else '>i', n)


class _Writer:
    def __init__(self, version, flexible):
        self.version, self.flexible = version, flexible

    def slice(self, field, value):
        compact = self.flexible and not field.rigid
        narrow = field.type == 'string'
        if value is None:
            if _schema.in_range(self.version, field.nullable):
                return _length(-1, compact, narrow)
            value = b''
        data = value.encode() if isinstance(value, str) else bytes(value)
        return _length(len(data), compact, narrow) + data

    def single(self, field, value):
        if field.type == 'struct':
            if field.nullable == _schema.NEVER or field.array:
                return self.fields(field.fields, value)
            return b'\xff' if value is None else b'\x01' + self.fields(field.fields, value)
        if field.type in ('string', 'bytes', 'records'):
            return self.slice(field, value)
        if field.type == 'uuid':
            return value.bytes
        if field.type == 'bool':
            return b'\x01' if value else b'\x00'
        return struct.pack(_PACK[field.type], value)

    def field(self, field, value):
        if not field.array:
            return self.single(field, value)
        if value is None and _schema.in_range(self.version, field.nullable):
            return _length(-1, self.flexible, False)
        items = value or []
        return _length(len(items), self.flexible, False) + b''.join(self.single(field, v) for v in items)

    def complete(self, field, value):
        """With the defaults of what a nested struct leaves out, to be compared with the default."""
        if isinstance(value, dict):
            return {f.name: self.complete(f, value.get(f.name, default(f))) for f in field.fields}
        return value

    def fields(self, fields, values):
        unknown = set(values) - {f.name for f in fields}
        if unknown:
            raise CodecError('no such field: %s' % ', '.join(sorted(unknown)))
        here = [f for f in fields if _schema.in_range(self.version, f.versions)]
        out = b''.join(self.field(f, values.get(f.name, default(f))) for f in here if f.tag is None)
        if self.flexible:
            tagged = sorted((f for f in here if f.tag is not None), key=lambda f: f.tag)
            tagged = [(f, self.complete(f, values.get(f.name, default(f)))) for f in tagged]
            tagged = [(f, v) for f, v in tagged if v != default(f)]
            out += _uvarint(len(tagged))
            for f, value in tagged:
                data = self.field(f, value)
                out += _uvarint(f.tag) + _uvarint(len(data)) + data
        return out


# ---- reading ----

class _Reader:
    def __init__(self, data, version, flexible):
        self.data, self.at = bytes(data), 0
        self.version, self.flexible = version, flexible

    def take(self, n):
        if n < 0 or n > len(self.data) - self.at:
            raise CodecError('ends in the middle of a field, at byte %d' % self.at)
        self.at += n
        return self.data[self.at - n:self.at]

    def uvarint(self):
        n = shift = 0
        while True:
            b = self.take(1)[0]
            n |= (b & 0x7f) << shift
            if b < 0x80:
                return n
            shift += 7
            if shift > 31:
                raise CodecError('a varint does not end')

    def length(self, compact, narrow):
        if compact:
            return self.uvarint() - 1
        return struct.unpack('>h', self.take(2))[0] if narrow else struct.unpack('>i', self.take(4))[0]

    def null(self, field):
        if not _schema.in_range(self.version, field.nullable):
            raise CodecError('%s is null' % field.name)

    def slice(self, field):
        n = self.length(self.flexible and not field.rigid, field.type == 'string')
        if n == -1:
            self.null(field)
            return None
        data = self.take(n)
        try:
            return data.decode() if field.type == 'string' else data
        except UnicodeDecodeError as e:
            raise CodecError('%s is not UTF-8' % field.name) from e

    def single(self, field):
        if field.type == 'struct':
            if field.nullable != _schema.NEVER and not field.array:
                if struct.unpack('>b', self.take(1))[0] < 0:
                    return None
            return self.fields(field.fields)
        if field.type in ('string', 'bytes', 'records'):
            return self.slice(field)
        if field.type == 'uuid':
            return uuid.UUID(bytes=self.take(16))
        if field.type == 'bool':
            return self.take(1) != b'\x00'
        form = _PACK[field.type]
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def field(self, field):
        if not field.array:
            return self.single(field)
        n = self.length(self.flexible, False)
        if n == -1:
            self.null(field)
            return None
        if n < 0 or n > len(self.data) - self.at:
            raise CodecError('%s has a count that is out of range' % field.name)
        return [self.single(field) for _ in range(n)]

    def fields(self, fields):
        here = [f for f in fields if _schema.in_range(self.version, f.versions)]
        out = {f.name: self.field(f) if f.tag is None else default(f) for f in here}
        if self.flexible:
            tags = {f.tag: f for f in here if f.tag is not None}
            for _ in range(self.uvarint()):
                tag, size = self.uvarint(), self.uvarint()
                data = self.take(size)
                if tag in tags:
                    inner = _Reader(data, self.version, True)
                    out[tags[tag].name] = inner.field(tags[tag])
                    if inner.at != size:
                        raise CodecError('%s is not as long as it says' % tags[tag].name)
        return out


# ---- messages and headers ----

def encode(name, side, version, values):
    m = message(name, side)
    if not _schema.in_range(version, m.versions):
        raise CodecError('%s has no version %d' % (m.name, version))
    return _Writer(version, _schema.in_range(version, m.flexible)).fields(m.fields, values)


def _decode(name, side, version, data):
    m = message(name, side)
    if not _schema.in_range(version, m.versions):
        raise CodecError('%s has no version %d' % (m.name, version))
    r = _Reader(data, version, _schema.in_range(version, m.flexible))
    return r.fields(m.fields), r.data[r.at:]


def decode(name, side, version, data):
    values, rest = _decode(name, side, version, data)
    if rest:
        raise CodecError('%d bytes behind the end' % len(rest))
    return values


def request_header_version(name, version):
    return 2 if _schema.in_range(version, api(name).flexible) else 1


def response_header_version(name, version):
    """A client whose version is not spoken must be able to read ApiVersions: its header stays old."""
    return 1 if name != 'ApiVersions' and _schema.in_range(version, api(name).flexible) else 0


def encode_request(name, version, correlation_id, values, client_id='test'):
    header = {'request_api_key': api(name).key, 'request_api_version': version,
              'correlation_id': correlation_id, 'client_id': client_id}
    return (encode('RequestHeader', 'data', request_header_version(name, version), header)
            + encode(name, 'request', version, values))


def decode_request(frame):
    """(name, version, correlation_id, client_id, values) of a request of any API."""
    key, version = struct.unpack('>hh', bytes(frame[:4]))
    api('Metadata')
    name = next((a.name for a in _apis.values() if a.key == key), None)
    if name is None:
        raise CodecError('no API has the key %d' % key)
    header, rest = _decode('RequestHeader', 'data', request_header_version(name, version), frame)
    return name, version, header['correlation_id'], header['client_id'], decode(name, 'request', version, rest)


def encode_response(name, version, correlation_id, values):
    header = encode('ResponseHeader', 'data', response_header_version(name, version),
                    {'correlation_id': correlation_id})
    return header + encode(name, 'response', version, values)


def decode_response(name, version, frame):
    header, rest = _decode('ResponseHeader', 'data', response_header_version(name, version), frame)
    return header['correlation_id'], decode(name, 'response', version, rest)
