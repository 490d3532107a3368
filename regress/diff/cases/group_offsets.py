"""
OffsetCommit, OffsetFetch, OffsetDelete.  A commit without membership is for groups without members; what was never
committed is offset -1 without an error.  Several groups in a fetch from v8, a topic list of null is all of them.
"""
from case import case, questions
from fixture import COMMON
from member import Member, together


def commit(group, *topics, generation=-1, member="", **more):
    """topics: (name, [(partition, offset, metadata, …), …])"""
    return {"GroupId": group, "GenerationIdOrMemberEpoch": generation, "MemberId": member, "Topics": [
        {"Name": name, "Partitions": [
            {"PartitionIndex": partition, "CommittedOffset": offset, "CommittedMetadata": metadata,
             **({"CommittedLeaderEpoch": rest[0]} if rest else {})}
            for partition, offset, metadata, *rest in parts]} for name, parts in topics], **more}


def fetch(group, *topics, everything=False, **more):
    """The question of every version: what it does not know is dropped.  topics: (name, [partition, …])"""
    named = [{"Name": name, "PartitionIndexes": parts} for name, parts in topics]
    return {"GroupId": group, "Topics": None if everything else named,
            "Groups": [{"GroupId": group, "Topics": None if everything else named}], **more}


def own(make):
    return lambda side, _: make(side.case_id)


@case("OffsetCommit")
def without_membership(side, version):
    group = side.case_id
    side.ask("OffsetCommit", version, commit(group, (COMMON, [(0, 5, "here"), (1, 0, ""), (2, 7, None)])))
    side.ask("OffsetFetch", 7, fetch(group, (COMMON, [0, 1, 2])))
    side.ask("OffsetCommit", version, commit(group, (COMMON, [(0, 3, "back")])), "back")
    side.ask("OffsetFetch", 7, fetch(group, everything=True), "all")


questions("OffsetCommit", [
    ("unknown topic", own(lambda group: commit(group, ("nobody", [(0, 1, "")])))),
    ("unknown partition", own(lambda group: commit(group, (COMMON, [(9, 1, ""), (0, 1, "")])))),
    ("negative partition", own(lambda group: commit(group, (COMMON, [(-1, 1, "")])))),
    ("empty topic name", own(lambda group: commit(group, ("", [(0, 1, "")])))),
    ("empty group id", commit("", (COMMON, [(0, 1, "")]))),
    ("no topics", own(commit)),
    ("topic without partitions", own(lambda group: commit(group, (COMMON, [])))),
    ("negative offset", own(lambda group: commit(group, (COMMON, [(0, -1, "")])))),
    ("offset far beyond the end", own(lambda group: commit(group, (COMMON, [(0, 1 << 50, "")])))),
    ("metadata at its limit", own(lambda group: commit(group, (COMMON, [(0, 1, "m" * 4096)])))),
    ("metadata over its limit", own(lambda group: commit(group, (COMMON, [(0, 1, "m" * 4097), (1, 2, "")])))),
    ("metadata with quotes", own(lambda group: commit(group, (COMMON, [(0, 1, "a'; --")])))),
    ("unknown member", own(lambda group: commit(group, (COMMON, [(0, 1, "")]), member="nobody"))),
    ("generation without member", own(lambda group: commit(group, (COMMON, [(0, 1, "")]), generation=3))),
    ("member with generation -2", own(lambda group: commit(group, (COMMON, [(0, 1, "")]), generation=-2))),
    ("retention of its own", own(lambda group: commit(group, (COMMON, [(0, 1, "")]), RetentionTimeMs=5000)), "2-4"),
    ("instance unknown", own(lambda group: commit(group, (COMMON, [(0, 1, "")]), GroupInstanceId="i")), "7+"),
    ("partition twice", own(lambda group: commit(group, (COMMON, [(0, 1, "a"), (0, 2, "b")])))),
    ("topic twice", own(lambda group: commit(group, (COMMON, [(0, 1, "a")]), (COMMON, [(1, 2, "b")])))),
])


@case("OffsetCommit", "6+")
def leader_epoch_comes_back(side, version):
    side.ask("OffsetCommit", version, commit(side.case_id, (COMMON, [(0, 5, "", 0), (1, 1, "", -1), (2, 1, "", 3)])))
    for asked in (5, 6, 8, 9):
        side.ask("OffsetFetch", asked, fetch(side.case_id, (COMMON, [0, 1, 2])), f"v{asked}")


@case("OffsetCommit")
def by_members(side, version):
    topic = side.make_topic()
    a, b = together(Member(side, "a", OffsetCommit=version), Member(side, "b", OffsetCommit=version))
    a.commit(topic, 5)
    b.commit(topic, 6, "commits the same partition")
    a.commit(topic, 7, "of another generation", GenerationIdOrMemberEpoch=9)
    a.commit(topic, 7, "of the generation before", GenerationIdOrMemberEpoch=a.generation - 1)
    a.commit(topic, 7, "of somebody else", MemberId="nobody")
    a.commit(topic, 7, "without membership", GenerationIdOrMemberEpoch=-1, MemberId="")
    a.commit(topic, 7, "without generation", GenerationIdOrMemberEpoch=-1)
    side.ask("OffsetFetch", 7, fetch(a.group, everything=True), "what was committed")
    b.leave()
    a.commit(topic, 8, "while it should join again")
    a.leave()
    a.commit(topic, 9, "after it left")
    side.ask("OffsetCommit", version, commit(a.group, (topic.name, [(0, 10, "empty now")])), "without membership")
    side.ask("OffsetFetch", 7, fetch(a.group, everything=True), "in the end")


@case("OffsetCommit", "latest")
def between_join_and_sync(side, version):
    topic = side.make_topic()
    a = Member(side, "a")
    a.join()
    a.commit(topic, 1, "before the sync")
    a.sync({a: b"x"})
    a.commit(topic, 2, "after the sync")
    a.leave()


@case("OffsetCommit", "7+")
def by_static_members(side, version):
    topic = side.make_topic()
    a = Member(side, "a", instance="i-a", OffsetCommit=version)
    together(a)
    a.commit(topic, 1)
    a.commit(topic, 2, "with another instance", GroupInstanceId="i-x")
    a.commit(topic, 3, "without its instance", GroupInstanceId=None)
    back = Member(side, "a again", instance="i-a", OffsetCommit=version)
    back.start_join()
    back.end_join()
    a.commit(topic, 4, "the one that was replaced")
    back.commit(topic, 5)
    back.leave()


questions("OffsetFetch", [
    ("unknown group", fetch("nobody", (COMMON, [0, 1]))),
    ("unknown group, all", fetch("nobody", everything=True), "2+"),
    ("empty group id", fetch("", (COMMON, [0]))),
    ("unknown topic", fetch("nobody", ("nobody", [0]))),
    ("unknown partition", fetch("nobody", (COMMON, [9, -1]))),
    ("no topics", fetch("nobody")),
    ("topic without partitions", fetch("nobody", (COMMON, []))),
    ("stable offsets only", fetch("nobody", (COMMON, [0]), RequireStable=True), "7+"),
    ("no groups", {"Groups": []}, "8+"),
    ("member that is none", {"Groups": [{"GroupId": "nobody", "MemberId": "x", "MemberEpoch": 4, "Topics": None}]}, "9+"),
])


@case("OffsetFetch")
def what_was_committed(side, version):
    group, other = side.case_id, side.make_topic("other")
    side.request("OffsetCommit", 7, commit(group, (COMMON, [(0, 5, "m"), (2, 7, None)]), (other.name, [(0, 1, "")])))
    side.ask("OffsetFetch", version, fetch(group, (COMMON, [0, 1, 2])), "of a topic")
    side.ask("OffsetFetch", version, fetch(group, (other.name, [0]), (COMMON, [2])), "of two")
    if version >= 2:
        side.ask("OffsetFetch", version, fetch(group, everything=True), "all")


@case("OffsetFetch", "8+")
def several_groups(side, version):
    one, two = side.case_id + "-1", side.case_id + "-2"
    side.request("OffsetCommit", 7, commit(one, (COMMON, [(0, 5, "m")])))
    side.request("OffsetCommit", 7, commit(two, (COMMON, [(1, 6, "n")])))
    side.ask("OffsetFetch", version, {"Groups": [
        {"GroupId": one, "Topics": None}, {"GroupId": two, "Topics": [{"Name": COMMON, "PartitionIndexes": [0, 1]}]},
        {"GroupId": "nobody", "Topics": None}, {"GroupId": "", "Topics": None}]})
    side.ask("OffsetFetch", version, {"Groups": [{"GroupId": one, "Topics": None}] * 2}, "a group twice")


@case("OffsetFetch", "latest")
def offsets_go_with_their_topic(side, version):
    topic = side.make_topic()
    side.request("OffsetCommit", 7, commit(side.case_id, (topic.name, [(0, 5, "m")])))
    side.request("DeleteTopics", 6, {"Topics": [{"Name": topic.name}], "TimeoutMs": 5000})
    side.eventually("the deletion", lambda: side.find_topic(topic.name) is None)
    question = fetch(side.case_id, everything=True)
    side.eventually("the offsets' end", lambda: side.request("OffsetFetch", 8, question)["Groups"][0]["Topics"] == [])
    side.ask("OffsetFetch", version, fetch(side.case_id, (topic.name, [0])), "of the topic that is gone")
    side.make_topic()
    side.ask("OffsetFetch", version, fetch(side.case_id, (topic.name, [0])), "of the topic made anew")


def delete(group, *topics):
    return {"GroupId": group, "Topics": [{"Name": name, "Partitions": [
        {"PartitionIndex": partition} for partition in parts]} for name, parts in topics]}


questions("OffsetDelete", [
    ("unknown group", delete("nobody", (COMMON, [0]))),
    ("empty group id", delete("", (COMMON, [0]))),
    ("unknown group, no topics", delete("nobody")),
])


@case("OffsetDelete")
def of_an_empty_group(side, version):
    group = side.case_id
    side.request("OffsetCommit", 7, commit(group, (COMMON, [(0, 5, "m"), (1, 6, "n")])))
    side.ask("OffsetDelete", version, delete(group, (COMMON, [0, 9]), ("nobody", [0])))
    side.ask("OffsetFetch", 7, fetch(group, everything=True), "what is left")
    side.ask("OffsetDelete", version, delete(group, (COMMON, [2])), "never committed")
    side.ask("OffsetDelete", version, delete(group), "no topics")


@case("OffsetDelete")
def of_a_live_group(side, version):
    topic = side.make_topic()
    a = Member(side, "a", topics=(COMMON,))
    together(a)
    a.commit(topic, 3)
    side.ask("OffsetCommit", 7, commit(a.group, (COMMON, [(0, 1, "")]), generation=a.generation, member=a.id), "more")
    side.ask("OffsetDelete", version, delete(a.group, (COMMON, [0]), (topic.name, [0])))
    side.ask("OffsetFetch", 7, fetch(a.group, everything=True), "what is left")
    a.leave()


@case("OffsetDelete")
def of_a_live_group_of_another_kind(side, version):
    a = Member(side, "a", kind="connect", protocols=[("x", b"1")])
    together(a)
    side.ask("OffsetDelete", version, delete(a.group, (COMMON, [0])))
    a.leave()
