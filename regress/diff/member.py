"""
member.py: a consumer in a group, on a connection of its own, so that it can wait while others ask.

    a = Member(side, "a", JoinGroup=4)          the version of each API; default: the latest
    a.join()                                    the whole of it: also the second request when an id was given first
    a.start_join(); …; a.end_join()             sent, and received later
    a.sync({a: b"…", b: b"…"})                  as the leader; a.sync() as another
    a.heartbeat(); a.commit(topic, 5); a.leave()

Every answer is noted; member ids are compared by whose they are.
"""
import struct

UNKNOWN_MEMBER, MEMBER_ID_REQUIRED = 25, 79


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


def subscription(*topics):
    """The metadata of the protocol "consumer", version 0."""
    return struct.pack(">hi", 0, len(topics)) + b"".join(text(topic) for topic in topics) + struct.pack(">i", -1)


def assignment(topic, *partitions):
    """The assignment of the protocol "consumer", version 0."""
    return (struct.pack(">hi", 0, 1) + text(topic) + struct.pack(">i", len(partitions))
            + b"".join(struct.pack(">i", number) for number in partitions) + struct.pack(">i", -1))


class Member:
    def __init__(self, side, name, group=None, instance=None, protocols=None, kind="consumer", topics=("common",),
                 session=10000, rebalance=10000, **versions):
        self.side, self.name, self.instance, self.kind = side, name, instance, kind
        self.group = group if group is not None else side.case_id
        self.protocols = protocols or [("range", subscription(*topics))]
        self.session, self.rebalance = session, rebalance
        self.versions = versions
        self.connection = side.connect()
        self.id, self.generation, self.leader = "", -1, False

    def version(self, api):
        return self.versions.get(api, self.side.latest(api))

    def note(self, label, api, answer):
        return self.side.note(f"{self.name} {label}", answer, api, self.version(api))

    def ask(self, label, api, body, patience=15.0):
        return self.note(label, api, self.connection.ask(api, self.version(api), body, patience))

    # -- joining --

    def join_body(self, **more):
        return {"GroupId": self.group, "SessionTimeoutMs": self.session, "RebalanceTimeoutMs": self.rebalance,
                "MemberId": self.id, "GroupInstanceId": self.instance, "ProtocolType": self.kind,
                "Protocols": [{"Name": name, "Metadata": data} for name, data in self.protocols], **more}

    def start_join(self, **more):
        self.connection.send("JoinGroup", self.version("JoinGroup"), self.join_body(**more))

    def end_join(self, label="joins", patience=15.0):
        _, answer = self.connection.receive("JoinGroup", self.version("JoinGroup"), patience)
        return self.take_join(label, answer)

    def take_join(self, label, answer):
        if isinstance(answer, dict):
            if answer["MemberId"]:
                self.id = answer["MemberId"]
                self.side.known[self.id] = f"{self.group} {self.name}"
            if answer["ErrorCode"] == 0:
                self.generation = answer["GenerationId"]
                self.leader = answer["Leader"] == self.id
        return self.note(label, "JoinGroup", answer)

    def get_id(self):
        """From v4 the first join gives an id and nothing else; not for static members."""
        if self.version("JoinGroup") >= 4 and not self.id and self.instance is None:
            self.start_join()
            self.end_join("gets an id")
        return self

    def join(self, label="joins", **more):
        self.get_id()
        self.start_join(**more)
        return self.end_join(label)

    # -- the rest of its life --

    def sync_body(self, assignments=None, **more):
        return {"GroupId": self.group, "GenerationId": self.generation, "MemberId": self.id,
                "GroupInstanceId": self.instance, "ProtocolType": self.kind, "ProtocolName": self.protocols[0][0],
                "Assignments": [{"MemberId": getattr(member, "id", member), "Assignment": data}
                                for member, data in (assignments or {}).items()], **more}

    def start_sync(self, assignments=None, **more):
        self.connection.send("SyncGroup", self.version("SyncGroup"), self.sync_body(assignments, **more))

    def end_sync(self, label="syncs", patience=15.0):
        answer = self.connection.receive("SyncGroup", self.version("SyncGroup"), patience)[1]
        return self.note(label, "SyncGroup", answer)

    def sync(self, assignments=None, label="syncs", **more):
        self.start_sync(assignments, **more)
        return self.end_sync(label)

    def heartbeat(self, label="is alive", **more):
        return self.ask(label, "Heartbeat", {"GroupId": self.group, "GenerationId": self.generation,
                                             "MemberId": self.id, "GroupInstanceId": self.instance, **more})

    def code_of_heartbeat(self):
        """The error code of a heartbeat that is not noted."""
        answer = self.connection.ask("Heartbeat", 3, {"GroupId": self.group, "GenerationId": self.generation,
                                                      "MemberId": self.id, "GroupInstanceId": self.instance})
        return answer if isinstance(answer, str) else answer["ErrorCode"]

    def until_heartbeat_says(self, code):
        self.side.eventually(f"{self.name}'s heartbeat {code}", lambda: self.code_of_heartbeat() == code)

    def leave(self, label="leaves"):
        return self.ask(label, "LeaveGroup", {"GroupId": self.group, "MemberId": self.id, "Members": [
            {"MemberId": self.id, "GroupInstanceId": self.instance, "Reason": "done"}]})

    def commit(self, topic, offset, label="commits", partition=0, metadata="m", **more):
        return self.ask(label, "OffsetCommit", {
            "GroupId": self.group, "GenerationIdOrMemberEpoch": self.generation, "MemberId": self.id,
            "GroupInstanceId": self.instance, "Topics": [{"Name": topic.name, "Partitions": [
                {"PartitionIndex": partition, "CommittedOffset": offset, "CommittedMetadata": metadata}]}], **more})


def together(*members):
    """A stable group of these: the first is the leader.  Only its last answers are noted."""
    first, side = members[0], members[0].side
    for member in members:
        member.get_id()
    first.start_join()
    first.end_join("joins alone")
    for member in members[1:]:
        member.start_join()
    if len(members) > 1:
        # all others have to be parked before the first joins again, or there would be a generation between
        first.until_heartbeat_says(27)
        side.eventually("all to be parked", lambda: count_members(side, first.group) == len(members))
        first.start_join()
        first.end_join("joins with all")
        for member in members[1:]:
            member.end_join("joins with all")
    first.start_sync({member: f"part {member.name}".encode() for member in members})
    first.end_sync()
    for member in members[1:]:
        member.sync()
    return members


def count_members(side, group):
    answer = side.request("DescribeGroups", 0, {"Groups": [group]})
    return len(answer["Groups"][0]["Members"])


def state(side, group, label="group"):
    """The group as an administrator sees it."""
    return side.ask("DescribeGroups", side.latest("DescribeGroups"), {"Groups": [group]}, label)
