"""
messages.py: encodes and decodes Kafka's messages from the definitions inside Apache Kafka's own jar.

The definitions (common/message/*.json of kafka-clients) are those that the reference broker was built
from, so both sides are read with the reference's eyes, not with this project's wire/schema.

A message is a dict of Kafka's field names; nested structs are dicts, arrays are lists:

    d = Definitions("kafka-clients-4.2.0.jar")
    d.request("Metadata").encode(9, {"Topics": [{"Name": "t"}]})     -> bytes
    d.response("Metadata").decode(9, payload)                         -> dict

Encode: fields that are left out take their default; fields that the version does not know are dropped.
Decode: gives just the fields of that version; unknown tagged fields appear as "_tag N": bytes; bytes left
behind the message, or a length beyond it, raise DecodeError.
"""
import json
import re
import struct
import uuid
import zipfile


class DecodeError(Exception):
    """The bytes are not this message in this version."""


NO_VERSION = (1, 0)
FIXED = {
    "int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "int64": ">q",
    "float64": ">d",
}


def parse_versions(text):
    """"3-5" -> (3, 5), "3+" -> (3, 32767), "none" -> an empty range."""
    if text is None or text == "none":
        return NO_VERSION
    low, sep, high = text.partition("-")
    if sep:
        return int(low), int(high)
    if text.endswith("+"):
        return int(text[:-1]), 32767
    return int(text), int(text)


def within(version, bounds):
    return bounds[0] <= version <= bounds[1]


def put_uvarint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Reader:
    """A position in a message; every read is checked against what is left."""

    def __init__(self, data):
        self.data = data
        self.pos = 0

    def take(self, count):
        if count < 0 or count > len(self.data) - self.pos:
            raise DecodeError(f"{count} bytes wanted at {self.pos}, {len(self.data) - self.pos} left")
        piece = self.data[self.pos:self.pos + count]
        self.pos += count
        return piece

    def fixed(self, fmt):
        return struct.unpack(fmt, self.take(struct.calcsize(fmt)))[0]

    def uvarint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise DecodeError("varint too long")


class Field:
    def __init__(self, spec, structs, flexible):
        self.name = spec["name"]
        self.versions = parse_versions(spec.get("versions"))
        self.nullable = parse_versions(spec.get("nullableVersions"))
        self.tag = spec.get("tag")
        self.tagged = parse_versions(spec.get("taggedVersions"))
        self.flexible = parse_versions(spec["flexibleVersions"]) if "flexibleVersions" in spec else flexible
        self.is_key = spec.get("mapKey", False)
        kind = spec["type"]
        self.is_array = kind.startswith("[]")
        self.type = kind[2:] if self.is_array else kind
        self.struct = None
        if "fields" in spec:
            self.struct = Struct(spec["fields"], structs, flexible)
            structs[self.type] = self.struct
        elif self.type in structs:
            self.struct = structs[self.type]
        self.default_text = spec.get("default")

    def default(self):
        text = self.default_text
        if text == "null":
            return None
        if self.is_array:
            return []
        if self.struct is not None:
            return self.struct.default()
        if self.type == "bool":
            return text in ("true", True)
        if self.type == "string":
            return text or ""
        if self.type in ("bytes", "records"):
            return None if self.type == "records" else b""
        if self.type == "uuid":
            return uuid.UUID(int=0)
        if self.type == "float64":
            return float(text or 0)
        return int(str(text), 0) if text not in (None, "") else 0

    def is_tagged(self, version):
        return self.tag is not None and within(version, self.tagged)

    # Lengths: null is -1 in the classic form, 0 in the compact one.
    def put_length(self, version, value):
        compact = within(version, self.flexible)
        if value is None:
            return b"\0" if compact else (b"\xff\xff" if self.type == "string" and not self.is_array
                                          else b"\xff\xff\xff\xff")
        if compact:
            return put_uvarint(len(value) + 1)
        return struct.pack(">h" if self.type == "string" and not self.is_array else ">i", len(value))

    def get_length(self, version, reader):
        if within(version, self.flexible):
            length = reader.uvarint() - 1
        else:
            length = reader.fixed(">h" if self.type == "string" and not self.is_array else ">i")
        if length < -1 or length > len(reader.data) - reader.pos:
            raise DecodeError(f"{self.name}: length {length}, {len(reader.data) - reader.pos} bytes left")
        if length == -1 and not within(version, self.nullable) and self.type != "records":
            raise DecodeError(f"{self.name}: null where version {version} allows none")
        return length

    def encode(self, version, value):
        if not self.is_array:
            return self.encode_one(version, value, True)
        out = [self.put_length(version, value)]
        out.extend(self.encode_element(version, item) for item in value or ())
        return b"".join(out)

    def encode_element(self, version, value):
        if self.type == "string" or self.type == "bytes":
            element = Field.__new__(Field)
            element.__dict__.update(self.__dict__, is_array=False)
            return element.encode_one(version, value, False)
        return self.encode_one(version, value, False)

    def encode_one(self, version, value, may_be_null):
        if self.type in FIXED:
            return struct.pack(FIXED[self.type], value)
        if self.type == "bool":
            return b"\1" if value else b"\0"
        if self.type == "uuid":
            return value.bytes
        if self.struct is not None:
            if may_be_null and within(version, self.nullable):
                if value is None:
                    return b"\xff"
                return b"\1" + self.struct.encode(version, value)
            return self.struct.encode(version, value)
        if isinstance(value, str):
            value = value.encode("utf-8", "surrogateescape")
        return self.put_length(version, value) + (value or b"")

    def decode(self, version, reader):
        if not self.is_array:
            return self.decode_one(version, reader, True)
        length = self.get_length(version, reader)
        if length < 0:
            return None
        element = Field.__new__(Field)
        element.__dict__.update(self.__dict__, is_array=False, nullable=NO_VERSION)
        return [element.decode_one(version, reader, False) for _ in range(length)]

    def decode_one(self, version, reader, may_be_null):
        if self.type in FIXED:
            return reader.fixed(FIXED[self.type])
        if self.type == "bool":
            return reader.take(1) != b"\0"
        if self.type == "uuid":
            return uuid.UUID(bytes=bytes(reader.take(16)))
        if self.struct is not None:
            if may_be_null and within(version, self.nullable) and reader.fixed(">b") < 0:
                return None
            return self.struct.decode(version, reader)
        length = self.get_length(version, reader)
        if length < 0:
            return None
        data = bytes(reader.take(length))
        if self.type != "string":
            return data
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"{self.name}: {error}")


class Struct:
    def __init__(self, specs, structs, flexible):
        self.flexible = flexible
        self.fields = [Field(spec, structs, flexible) for spec in specs]
        self.names = {field.name for field in self.fields}

    def default(self):
        return {field.name: field.default() for field in self.fields}

    def encode(self, version, message):
        unknown = set(message) - self.names
        if unknown:
            raise KeyError(f"no such field: {sorted(unknown)}; there are {sorted(self.names)}")
        out, tags = [], []
        for field in self.fields:
            if not within(version, field.versions):
                continue
            if field.is_tagged(version):
                if field.name in message:
                    tags.append((field.tag, field.encode(version, message[field.name])))
                continue
            value = message[field.name] if field.name in message else field.default()
            out.append(field.encode(version, value))
        if within(version, self.flexible):
            out.append(put_uvarint(len(tags)))
            for tag, data in sorted(tags):
                out.append(put_uvarint(tag) + put_uvarint(len(data)) + data)
        return b"".join(out)

    def decode(self, version, reader):
        message = {}
        for field in self.fields:
            if within(version, field.versions) and not field.is_tagged(version):
                message[field.name] = field.decode(version, reader)
        if within(version, self.flexible):
            self.decode_tags(version, reader, message)
        return message

    def decode_tags(self, version, reader, message):
        for field in self.fields:
            if field.is_tagged(version):
                message[field.name] = field.default()
        by_tag = {field.tag: field for field in self.fields if field.is_tagged(version)}
        last = -1
        for _ in range(reader.uvarint()):
            tag = reader.uvarint()
            if tag <= last:
                raise DecodeError(f"tag {tag} after {last}")
            last = tag
            data = bytes(reader.take(reader.uvarint()))
            if tag not in by_tag:
                message[f"_tag {tag}"] = data
                continue
            inner = Reader(data)
            message[by_tag[tag].name] = by_tag[tag].decode(version, inner)
            if inner.pos != len(data):
                raise DecodeError(f"tag {tag}: {len(data) - inner.pos} bytes too many")


class Message:
    """One definition file: a request, a response or a header."""

    def __init__(self, spec):
        self.name = spec["name"]
        self.key = spec.get("apiKey")
        self.versions = parse_versions(spec["validVersions"])
        self.flexible = parse_versions(spec.get("flexibleVersions"))
        structs = {}
        for common in spec.get("commonStructs") or ():
            structs[common["name"]] = Struct(common["fields"], structs, self.flexible)
        self.body = Struct(spec.get("fields", ()), structs, self.flexible)

    def is_flexible(self, version):
        return within(version, self.flexible)

    def encode(self, version, message):
        return self.body.encode(version, message)

    def decode(self, version, data):
        reader = Reader(data)
        message = self.body.decode(version, reader)
        if reader.pos != len(data):
            raise DecodeError(f"{self.name} v{version}: {len(data) - reader.pos} bytes left over")
        return message


class Definitions:
    """All messages of one kafka-clients jar, by API name without "Request" and "Response"."""

    def __init__(self, jar):
        self.requests, self.responses = {}, {}
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if not re.fullmatch(r"common/message/\w+\.json", name):
                    continue
                text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.M)
                spec = json.loads(text)
                if not spec.get("validVersions") or spec["validVersions"] == "none":
                    continue
                if spec["type"] == "request":
                    self.requests[spec["name"][:-len("Request")]] = Message(spec)
                elif spec["type"] == "response":
                    self.responses[spec["name"][:-len("Response")]] = Message(spec)

    def request(self, api):
        return self.requests[api]

    def response(self, api):
        return self.responses[api]

    def name_of(self, key):
        return next((name for name, message in self.requests.items() if message.key == key), f"key {key}")
