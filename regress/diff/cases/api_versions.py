"""
ApiVersions.  From v3 the client names itself, and a name that is no name is INVALID_REQUEST.  The response header
is v0 in every version.  A version that the broker does not know is answered in the form of v0.
"""
import struct

from case import case, questions

GOOD = {"ClientSoftwareName": "diff", "ClientSoftwareVersion": "1.0"}

questions("ApiVersions", [
    ("good", GOOD),
    ("no name", {"ClientSoftwareName": "", "ClientSoftwareVersion": "1"}, "3+"),
    ("no version", {"ClientSoftwareName": "x", "ClientSoftwareVersion": ""}, "3+"),
    ("name with a space", {"ClientSoftwareName": "a b", "ClientSoftwareVersion": "1"}, "3+"),
    ("name with every allowed sign", {"ClientSoftwareName": "a.b-C9", "ClientSoftwareVersion": "1.0-x.Y"}, "3+"),
    ("name that ends in a dot", {"ClientSoftwareName": "a.", "ClientSoftwareVersion": "1"}, "3+"),
    ("name of 2000 letters", {"ClientSoftwareName": "a" * 2000, "ClientSoftwareVersion": "1"}, "3+"),
    ("name with quotes", {"ClientSoftwareName": "a'; --", "ClientSoftwareVersion": "\"1\""}, "3+"),
])


def downgrade(version, body):
    def ask(side, _):
        connection = side.connect()
        connection.send("ApiVersions", version, body)
        _, answer = connection.receive("ApiVersions", 0)
        side.note(f"v{version}", answer, "ApiVersions")
        side.ask("ApiVersions", 4, GOOD, connection=connection)
    return ask


for unknown in (5, 6, 100, 32767):
    case("ApiVersions", "latest", f"asked in version {unknown}, then again")(downgrade(unknown, GOOD))
case("ApiVersions", "latest", "asked in version 5 with a body that is none")(downgrade(5, b"\xff" * 20))
case("ApiVersions", "latest", "asked in version 5 without a body")(downgrade(5, b""))


@case("ApiVersions", "latest")
def version_below_zero(side, _):
    connection = side.connect()
    connection.send("ApiVersions", -1, b"", flexible=False)
    side.note("v-1", connection.receive("ApiVersions", 0)[1], "ApiVersions")


@case("ApiVersions")
def client_id_null(side, version):
    side.ask("ApiVersions", version, GOOD, client_id=None)


@case("ApiVersions", "3+")
def unknown_tagged_fields(side, version):
    body = b"\x02x\x02y" + b"\x01\x63\x03abc"      # tag 99, three bytes
    side.ask("ApiVersions", version, body)


@case("ApiVersions", "3+")
def unknown_tag_in_the_header(side, version):
    connection = side.connect()
    payload = struct.pack(">hhih", 18, version, 7, 1) + b"x" + b"\x01\x63\x01z" + b"\x02x\x02y\x00"
    connection.send_raw(struct.pack(">i", len(payload)) + payload)
    side.note("answer", connection.receive("ApiVersions", version)[1], "ApiVersions")


@case("ApiVersions")
def body_cut_short(side, version):
    side.ask("ApiVersions", version, b"\x05ab" if version >= 3 else b"")


@case("ApiVersions")
def body_with_bytes_left_over(side, version):
    good = side.definitions.request("ApiVersions").encode(version, GOOD)
    side.ask("ApiVersions", version, good + b"extra")
