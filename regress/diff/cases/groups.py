"""
FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup: members that come, wait, go and misbehave.
A member id has to be asked for from JoinGroup v4; static members (group.instance.id) come with v5.
"""
import time

import batch
from case import case, questions
from member import Member, count_members, state, subscription, together
from side import SILENT

questions("FindCoordinator", [
    ("group", lambda side, version: {"Key": "g", "KeyType": 0, "CoordinatorKeys": ["g"]}),
    ("several groups", {"KeyType": 0, "CoordinatorKeys": ["a", "b", "c"]}, "4+"),
    ("a group twice", {"KeyType": 0, "CoordinatorKeys": ["a", "a"]}, "4+"),
    ("no groups", {"KeyType": 0, "CoordinatorKeys": []}, "4+"),
    ("empty group id", {"Key": "", "KeyType": 0, "CoordinatorKeys": [""]}),
    ("group id with quotes", {"Key": "g'; --", "KeyType": 0, "CoordinatorKeys": ["g'; --"]}),
    ("long group id", {"Key": "g" * 30000, "KeyType": 0, "CoordinatorKeys": ["g" * 30000]}),
    ("unknown type", {"Key": "g", "KeyType": 9, "CoordinatorKeys": ["g"]}, "1+"),
    ("negative type", {"Key": "g", "KeyType": -1, "CoordinatorKeys": ["g"]}, "1+"),
])


@case("JoinGroup")
def life_of_one_member(side, version):
    a = Member(side, "a", JoinGroup=version)
    a.join()
    a.sync({a: b"all"})
    a.heartbeat()
    a.leave()
    a.heartbeat("after it left")
    state(side, a.group)


@case("SyncGroup")
def first_sync_and_again(side, version):
    a = Member(side, "a", SyncGroup=version)
    a.join()
    a.sync({a: b"all"})
    a.sync({a: b"else"}, "syncs again")
    state(side, a.group)
    a.leave()


@case("Heartbeat")
def heartbeats(side, version):
    a = Member(side, "a", Heartbeat=version)
    a.join()
    a.heartbeat("before the sync")
    a.sync({a: b"all"})
    a.heartbeat()
    a.heartbeat("of a generation to come", GenerationId=7)
    a.heartbeat("of an older generation", GenerationId=0)
    a.heartbeat("of no generation", GenerationId=-1)
    a.heartbeat("of somebody else", MemberId="nobody")
    a.heartbeat("of nobody", MemberId="")
    a.heartbeat("of another group", GroupId=side.case_id + "-unknown")
    a.heartbeat("of a group without a name", GroupId="")
    a.leave()


@case("LeaveGroup")
def leaving(side, version):
    a, b = together(Member(side, "a", LeaveGroup=version), Member(side, "b", LeaveGroup=version))
    b.leave()
    a.heartbeat("when it must join again")
    b.leave("leaves again")
    a.join("joins again")
    a.sync({a: b"all"})
    a.leave()
    a.leave("leaves twice")
    state(side, a.group)
    for label, group in (("unknown group", side.case_id + "-unknown"), ("group without a name", "")):
        side.ask("LeaveGroup", version, {"GroupId": group, "MemberId": "x", "Members": [{"MemberId": "x"}]}, label)


@case("LeaveGroup", "3+")
def several_leave_at_once(side, version):
    a, b = together(Member(side, "a"), Member(side, "b"))
    side.ask("LeaveGroup", version, {"GroupId": a.group, "Members": [
        {"MemberId": a.id}, {"MemberId": "nobody"}, {"MemberId": b.id}]})
    state(side, a.group)
    side.ask("LeaveGroup", version, {"GroupId": a.group, "Members": []}, "nobody")


@case("LeaveGroup", "3+")
def static_members_leave_by_instance(side, version):
    a = Member(side, "a", instance="i-a")
    a.join()
    a.sync({a: b"all"})
    for label, member_id, instance in (
            ("another instance", "", "i-x"), ("another member", "other", "i-a"), ("the instance", "", "i-a"),
            ("the instance again", "", "i-a")):
        side.ask("LeaveGroup", version, {"GroupId": a.group, "Members": [
            {"MemberId": member_id, "GroupInstanceId": instance}]}, label)
    state(side, a.group)


@case("JoinGroup")
def two_members(side, version):
    a, b = together(Member(side, "a", JoinGroup=version), Member(side, "b", JoinGroup=version))
    state(side, a.group)
    for member in (a, b):
        member.heartbeat()
    b.leave()
    a.heartbeat("when b left")
    a.join("joins alone again")
    a.sync({a: b"all"})
    a.leave()


@case("JoinGroup")
def three_members_and_one_dies(side, version):
    a, b = Member(side, "a", JoinGroup=version), Member(side, "b", JoinGroup=version)
    c = Member(side, "c", JoinGroup=version, session=500)
    together(a, b, c)
    a.until_heartbeat_says(27)
    a.start_join()
    b.start_join()
    a.end_join("joins without c")
    b.end_join("joins without c")
    c.heartbeat("after its end")
    for member in (a, b):
        member.leave()
    state(side, a.group)


@case("JoinGroup")
def bad_joins(side, version):
    for label, more in (
            ("empty group id", {"GroupId": ""}),
            ("unknown member id", {"MemberId": "nobody"}),
            ("session timeout too short", {"SessionTimeoutMs": 1}),
            ("session timeout zero", {"SessionTimeoutMs": 0}),
            ("session timeout too long", {"SessionTimeoutMs": 3_600_000}),
            ("no protocols", {"Protocols": []}),
            ("no protocol type", {"ProtocolType": ""}),
            ("nothing of either", {"ProtocolType": "", "Protocols": []})):
        a = Member(side, label, JoinGroup=version, group=f"{side.case_id}-{label}")
        a.start_join(**more)
        a.end_join()
    side.note("checked", True)


@case("JoinGroup")
def protocols_that_do_not_fit(side, version):
    together(a := Member(side, "a", JoinGroup=version, protocols=[("x", b"1"), ("y", b"2")]))
    for name, how in (("b", {"protocols": [("z", b"3")]}), ("c", {"kind": "connect", "protocols": [("x", b"1")]})):
        other = Member(side, name, JoinGroup=version, **how)
        other.start_join()
        other.end_join()
    a.heartbeat("undisturbed")
    a.leave()


@case("JoinGroup")
def protocol_by_votes(side, version):
    a = Member(side, "a", JoinGroup=version, protocols=[("x", b"a-x"), ("y", b"a-y"), ("z", b"a-z")])
    b = Member(side, "b", JoinGroup=version, protocols=[("y", b"b-y"), ("x", b"b-x")])
    c = Member(side, "c", JoinGroup=version, protocols=[("y", b"c-y"), ("x", b"c-x"), ("w", b"c-w")])
    for member in (a, b, c):
        member.get_id()
    a.start_join()
    a.end_join()
    b.start_join()
    c.start_join()
    side.eventually("b and c parked", lambda: len(side.request(
        "DescribeGroups", 0, {"Groups": [a.group]})["Groups"][0]["Members"]) == 3)
    a.start_join()
    for member in (a, b, c):
        member.end_join("the one with most votes")
    for member in (a, b, c):
        member.leave()


@case("JoinGroup", "latest")
def votes_that_tie(side, version):
    a = Member(side, "a", protocols=[("x", b"1"), ("y", b"2")])
    b = Member(side, "b", protocols=[("y", b"3"), ("x", b"4")])
    a.join()
    b.get_id()
    b.start_join()
    a.until_heartbeat_says(27)
    a.start_join()
    a.end_join("the tie")
    b.end_join("the tie")


@case("JoinGroup")
def joining_again_unchanged(side, version):
    a, b = together(Member(side, "a", JoinGroup=version), Member(side, "b", JoinGroup=version))
    b.start_join()
    b.end_join("the follower, unchanged", 1)
    a.heartbeat("undisturbed")
    a.start_join()
    b.until_heartbeat_says(27)
    b.start_join()
    a.end_join("the leader, which asks for a new generation")
    b.end_join("and its follower")
    a.leave()
    b.leave()


@case("JoinGroup")
def joining_again_with_new_metadata(side, version):
    a, b = together(Member(side, "a", JoinGroup=version), Member(side, "b", JoinGroup=version))
    b.protocols = [("range", subscription("common", "more"))]
    b.start_join()
    a.until_heartbeat_says(27)
    a.start_join()
    a.end_join("sees the new metadata")
    b.end_join("is in the new generation")
    a.leave()
    b.leave()


@case("JoinGroup", "4+")
def the_id_that_was_given(side, version):
    a = Member(side, "a", JoinGroup=version)
    a.get_id()
    # Kafka shows a group once its log has it, which may be a moment after the id was given.
    side.eventually("the group to be there", lambda: side.request(
        "DescribeGroups", 0, {"Groups": [a.group]})["Groups"][0]["GroupState"] != "Dead")
    state(side, a.group, "while it is pending")
    a.heartbeat("while it is pending", GenerationId=0)
    a.join()
    a.sync({a: b"all"})
    a.leave()


@case("JoinGroup", "latest")
def the_id_that_is_never_used(side, version):
    a, b = Member(side, "a", session=200), Member(side, "b")
    a.get_id()
    b.get_id()
    b.start_join()
    b.end_join("need not wait for the other's id")
    time.sleep(0.5)
    a.start_join()
    a.end_join("comes after its session timeout")
    b.heartbeat("undisturbed")
    b.leave()


@case("JoinGroup", "latest")
def pending_member_leaves(side, version):
    a, b = Member(side, "a"), Member(side, "b")
    a.get_id()
    b.get_id()
    b.start_join()
    a.leave("leaves before it joined")
    b.end_join("need not wait any more")
    b.leave()


@case("JoinGroup", "latest")
def more_members_than_a_group_may_have(side, version):
    """group.max.size is 5 here.  Who has an id and has not joined is waited for."""
    members = [Member(side, str(number), rebalance=500).get_id() for number in range(6)]
    members[0].start_join()
    members[0].end_join("is alone at first")
    for count, member in enumerate(members[1:5], 2):
        member.start_join()
        side.eventually("it to be parked", lambda count=count: count_members(side, member.group) == count)
    members[0].start_join()
    for member in members[:5]:
        member.end_join("five")
    members[5].start_join()
    members[5].end_join("is one too many")
    Member(side, "seventh").get_id()
    for member in members[:5]:
        member.leave()


@case("JoinGroup", "latest")
def client_vanishes_while_parked(side, version):
    a, b = Member(side, "a"), Member(side, "b", session=1500, rebalance=1500)
    together(a)
    b.get_id()
    b.start_join()
    a.until_heartbeat_says(27)
    b.connection.close()
    a.start_join()
    a.end_join("joins with the one that is gone")
    a.sync({a: b"a", b: b"b"})
    a.heartbeat()
    a.until_heartbeat_says(27)
    a.join("joins without it")
    a.sync({a: b"all"})
    state(side, a.group)
    a.leave()


@case("JoinGroup", "5+")
def static_member_comes_back(side, version):
    a, b = together(Member(side, "a", JoinGroup=version, instance="i-a"), Member(side, "b", JoinGroup=version, instance="i-b"))
    state(side, a.group)
    back = Member(side, "b again", JoinGroup=version, instance="i-b")
    back.start_join()
    back.end_join("comes back")
    back.sync(label="syncs after it came back")
    b.heartbeat("the one that was replaced")
    b.sync(label="the one that was replaced syncs")
    a.heartbeat("undisturbed")
    state(side, a.group)
    back.leave()
    a.leave()


@case("JoinGroup", "5+")
def static_leader_comes_back(side, version):
    a, b = together(Member(side, "a", JoinGroup=version, instance="i-a"), Member(side, "b", JoinGroup=version, instance="i-b"))
    back = Member(side, "a again", JoinGroup=version, instance="i-a")
    back.start_join()
    back.end_join("comes back")
    back.sync(label="syncs after it came back")
    b.heartbeat("undisturbed")
    a.heartbeat("the one that was replaced")
    back.leave()
    b.leave()


@case("JoinGroup", "5+")
def static_member_comes_back_with_new_metadata(side, version):
    """The protocol that the group uses is still the same, so there is no new generation."""
    a, b = together(Member(side, "a", JoinGroup=version, instance="i-a"), Member(side, "b", JoinGroup=version, instance="i-b"))
    back = Member(side, "b again", JoinGroup=version, instance="i-b", topics=("common", "more"))
    back.start_join()
    back.end_join("comes back")
    a.heartbeat("undisturbed")
    state(side, a.group)
    back.leave()
    a.leave()


@case("JoinGroup", "5+")
def static_member_comes_back_with_another_protocol(side, version):
    how = {"JoinGroup": version, "protocols": [("x", b"1"), ("y", b"2")]}
    a, b = together(Member(side, "a", instance="i-a", **how), Member(side, "b", instance="i-b", **how))
    back = Member(side, "b again", JoinGroup=version, instance="i-b", protocols=[("y", b"3")])
    back.start_join()
    a.until_heartbeat_says(27)
    a.start_join()
    a.end_join("sees the change")
    back.end_join("is in the new generation")
    back.leave()
    a.leave()


@case("JoinGroup", "5+")
def static_member_with_a_wrong_id(side, version):
    a = Member(side, "a", JoinGroup=version, instance="i-a")
    together(a)
    for label, more in (("another id for the instance", {"MemberId": "nobody"}),
                        ("another instance for the id", {"MemberId": a.id, "GroupInstanceId": "i-x"}),
                        ("the id without instance", {"MemberId": a.id, "GroupInstanceId": None})):
        other = Member(side, label, JoinGroup=version)
        other.start_join(**more)
        other.end_join()
    for label, name in (("no name", ""), ("a bad name", "a b"), ("quotes", "a'; --"), ("250 letters", "x" * 250)):
        other = Member(side, f"instance of {label}", JoinGroup=version, group=f"{side.case_id}-{label}", instance=name)
        other.start_join()
        other.end_join()
        other.leave()
    a.heartbeat("of another instance", GroupInstanceId="i-x")
    a.heartbeat("of nobody with the instance", MemberId="nobody")
    a.heartbeat("still alive")
    a.leave()


@case("SyncGroup")
def bad_syncs(side, version):
    a = Member(side, "a", SyncGroup=version)
    a.join()
    for label, more in (("wrong generation", {"GenerationId": 9}), ("unknown member", {"MemberId": "nobody"}),
                        ("no member", {"MemberId": ""}), ("unknown group", {"GroupId": side.case_id + "-unknown"}),
                        ("empty group id", {"GroupId": ""})):
        a.sync({a: b"x"}, label, **more)
    a.sync({a: b"x"}, "good")
    a.leave()


@case("SyncGroup", "5+")
def sync_with_another_protocol(side, version):
    a = Member(side, "a", SyncGroup=version)
    a.join()
    for label, more in (("name", {"ProtocolName": "other"}), ("type", {"ProtocolType": "other"}),
                        ("null name", {"ProtocolName": None}), ("null type", {"ProtocolType": None}),
                        ("both null", {"ProtocolName": None, "ProtocolType": None})):
        a.sync({a: b"x"}, label, **more)
    a.leave()


@case("SyncGroup")
def assignments_of_every_kind(side, version):
    a, b = Member(side, "a", SyncGroup=version), Member(side, "b", SyncGroup=version)
    a.join()
    b.get_id()
    b.start_join()
    a.until_heartbeat_says(27)
    a.start_join()
    a.end_join()
    b.end_join()
    b.start_sync()
    a.sync({a: b"", "nobody": b"xx"}, "for nobody, and none for b")
    b.end_sync("gets nothing")
    b.sync({b: b"mine"}, "a follower with an assignment")
    a.leave()
    b.leave()


@case("SyncGroup")
def follower_waits_for_the_leader(side, version):
    a, b = Member(side, "a", SyncGroup=version), Member(side, "b", SyncGroup=version)
    a.join()
    b.get_id()
    b.start_join()
    a.until_heartbeat_says(27)
    a.start_join()
    a.end_join()
    b.end_join()
    b.start_sync()
    side.note("waits", b.connection.receive("SyncGroup", version, 0.1)[1] == SILENT)
    a.heartbeat("in the meantime")
    a.sync({a: b"one", b: b"two"})
    b.end_sync()
    a.leave()
    b.leave()


@case("SyncGroup", "latest")
def sync_while_others_join(side, version):
    a, b = together(Member(side, "a"), Member(side, "b"))
    c = Member(side, "c").get_id()
    c.start_join()
    a.until_heartbeat_says(27)
    a.sync({a: b"x"}, "in the middle of a rebalance")
    b.sync(label="in the middle of a rebalance")
    state(side, a.group)
    a.start_join()
    b.start_join()
    for member in (a, b, c):
        member.end_join("three")
    for member in (a, b, c):
        member.leave()


@case("SyncGroup", "latest")
def leader_that_never_syncs(side, version):
    a, b = Member(side, "a", rebalance=1000), Member(side, "b", rebalance=1000)
    a.join()
    b.get_id()
    b.start_join()
    a.until_heartbeat_says(27)
    a.start_join()
    a.end_join()
    b.end_join()
    start = time.monotonic()
    b.start_sync()
    b.end_sync("is told that it has to join again")
    side.note("waited", time.monotonic() - start > 0.4)
    a.heartbeat("the one that never came")
    b.join("joins alone")
    state(side, b.group)
    b.leave()


@case("JoinGroup", "latest")
def member_that_does_not_rejoin_in_time(side, version):
    a, b = together(Member(side, "a", rebalance=600), Member(side, "b", rebalance=600))
    c = Member(side, "c", rebalance=600).get_id()
    start = time.monotonic()
    c.start_join()
    a.until_heartbeat_says(27)
    a.start_join()
    a.end_join("joins in time")
    c.end_join("joins in time")
    side.note("waited", time.monotonic() - start > 0.4)
    b.heartbeat("the one that was too late")
    a.leave()
    c.leave()


@case("JoinGroup", "latest")
def a_parked_join_holds_what_comes_after_it(side, version):
    a = Member(side, "a")
    together(a)
    b = Member(side, "b").get_id()
    b.start_join()
    b.connection.send("ApiVersions", 0)
    side.note("both wait", b.connection.receive_frame(0.2) == SILENT)
    a.start_join()
    a.end_join()
    b.end_join()
    side.note("then the other", isinstance(b.connection.receive("ApiVersions", 0)[1], dict))
    a.leave()
    b.leave()


@case("JoinGroup")
def group_ids_of_every_kind(side, version):
    for label, group in (("quotes", side.case_id + "'; --"), ("umlauts", side.case_id + "grün"), ("space", side.case_id + " "),
                         ("32767 letters", (side.case_id + "x" * 32767)[:32767])):
        a = Member(side, label, JoinGroup=version, group=group)
        a.join()
        a.leave()


@case("JoinGroup", "6+")
def group_id_of_64_kb(side, version):
    a = Member(side, "a", JoinGroup=version, group="g" * 65536)
    a.start_join()
    a.end_join()


@case("JoinGroup", "latest")
def two_groups_do_not_touch(side, version):
    a = Member(side, "a", group=side.case_id + "-1")
    b = Member(side, "b", group=side.case_id + "-2")
    together(a)
    together(b)
    a.leave()
    b.heartbeat("undisturbed")
    b.leave()


@case("JoinGroup", "latest")
def member_of_another_group(side, version):
    a = Member(side, "a", group=side.case_id + "-1")
    together(a)
    a.heartbeat("in a group that is not its own", GroupId=side.case_id + "-2")
    other = Member(side, "b", group=side.case_id + "-2")
    other.start_join(MemberId=a.id)
    other.end_join("with the id of a member of another group")
    a.heartbeat("undisturbed")
    a.leave()


@case("JoinGroup", "latest")
def group_that_has_only_offsets(side, version):
    topic = side.make_topic()
    side.produce(topic, batch.batch())
    a = Member(side, "a")
    a.commit(topic, 1, "commits without joining")
    state(side, a.group, "with offsets only")
    a.join()
    a.sync({a: b"all"})
    a.commit(topic, 0)
    a.leave()
    state(side, a.group, "when it is empty")
