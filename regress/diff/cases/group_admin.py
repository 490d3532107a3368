"""ListGroups, DescribeGroups, DeleteGroups: groups as an administrator sees them."""
from case import case, questions
from fixture import COMMON
from member import Member, together


def listed(side, version, label, **more):
    """The groups of this case among all that there are."""
    answer = side.request("ListGroups", version, more)
    if isinstance(answer, dict):
        answer["Groups"] = [group for group in answer["Groups"] if group["GroupId"].startswith(side.case_id)]
    side.note(label, answer, "ListGroups")


@case("ListGroups")
def of_every_state(side, version):
    a = Member(side, "a", group=side.case_id + "-stable")
    together(a)
    b = Member(side, "b", group=side.case_id + "-connect", kind="connect", protocols=[("x", b"1")])
    b.join()
    side.request("OffsetCommit", 7, {"GroupId": side.case_id + "-offsets", "Topics": [{"Name": COMMON, "Partitions": [
        {"PartitionIndex": 0, "CommittedOffset": 1, "CommittedMetadata": ""}]}]})
    gone = Member(side, "c", group=side.case_id + "-left")
    gone.join()
    gone.leave()
    listed(side, version, "all")
    if version >= 4:
        for states in (["Stable"], ["Empty"], ["stable"], ["CompletingRebalance", "Empty"], ["Nothing"], ["Dead"], [""]):
            listed(side, version, f"states {states}", StatesFilter=states)
    if version >= 5:
        for types in (["classic"], ["Classic"], ["consumer"], ["share"], ["nothing"]):
            listed(side, version, f"types {types}", TypesFilter=types)
        listed(side, version, "both", TypesFilter=["classic"], StatesFilter=["Stable"])
    a.leave()
    b.leave()


def about(*groups, **more):
    return {"Groups": list(groups), **more}


questions("DescribeGroups", [
    ("unknown", about("nobody")),
    ("empty group id", about("")),
    ("no groups", about()),
    ("unknown, twice", about("nobody", "nobody")),
    ("unknown, with operations", about("nobody", IncludeAuthorizedOperations=True), "3+"),
])


@case("DescribeGroups")
def through_its_life(side, version):
    a, b = Member(side, "a"), Member(side, "b", instance="i-b")
    a.join()
    side.ask("DescribeGroups", version, about(a.group), "while it completes")
    a.sync({a: b"all"})
    side.ask("DescribeGroups", version, about(a.group), "stable")
    b.start_join()
    a.until_heartbeat_says(27)
    side.ask("DescribeGroups", version, about(a.group), "while it prepares")
    a.start_join()
    a.end_join()
    b.end_join()
    a.sync({a: b"one", b: b"two"})
    b.sync()
    side.ask("DescribeGroups", version, about(a.group, "nobody", IncludeAuthorizedOperations=True), "of two")
    a.leave()
    b.leave()
    side.ask("DescribeGroups", version, about(a.group), "empty")


questions("DeleteGroups", [
    ("unknown", {"GroupsNames": ["nobody"]}),
    ("empty group id", {"GroupsNames": [""]}),
    ("no groups", {"GroupsNames": []}),
    ("unknown, twice", {"GroupsNames": ["nobody", "nobody"]}),
])


@case("DeleteGroups")
def live_and_empty(side, version):
    topic = side.make_topic()
    a, b = Member(side, "a", group=side.case_id + "-a"), Member(side, "b", group=side.case_id + "-b")
    together(a)
    together(b)
    a.commit(topic, 4)
    side.ask("DeleteGroups", version, {"GroupsNames": [a.group]}, "with a member")
    a.leave()
    side.ask("DeleteGroups", version, {"GroupsNames": [b.group, a.group, "nobody"]}, "one of each")
    side.ask("OffsetFetch", 7, {"GroupId": a.group, "Topics": None}, "nothing is left")
    side.ask("DescribeGroups", 5, about(a.group), "of what is gone")
    side.ask("DeleteGroups", version, {"GroupsNames": [a.group]}, "again")
    b.heartbeat("undisturbed")
    b.leave()
    a.id, a.generation = "", -1
    a.join("makes it anew")
    a.leave()
