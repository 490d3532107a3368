"""
ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments.  One broker cannot move anything, so these are the
answers to what needs no election, cannot be, or is done at once.
"""
from case import case, questions
from fixture import COMMON

NOBODY = "there-is-no-such-topic"


def elect(*topics, kind=0):
    return {"ElectionType": kind, "TopicPartitions": [{"Topic": name, "Partitions": ids} for name, ids in topics], "TimeoutMs": 10000}


questions("ElectLeaders", [
    ("preferred, which leads already", elect((COMMON, [0]))),
    ("an unknown topic", elect((NOBODY, [0]))),
    ("an unknown partition", elect((COMMON, [99]))),
    ("a partition below zero", elect((COMMON, [-1]))),
    ("known and unknown ones", elect((COMMON, [0, 99]), (NOBODY, [0, 1]))),
    ("no topics", elect()),
    ("a topic without partitions", elect((COMMON, []))),
    ("unclean, where there is a leader", elect((COMMON, [0]), kind=1), "1+"),
    ("unclean, an unknown topic", elect((NOBODY, [0]), kind=1), "1+"),
])


@case("ElectLeaders")
def all_of_them(side, version):
    side.ask("ElectLeaders", version, {"ElectionType": 0, "TopicPartitions": None, "TimeoutMs": 10000})


def move(*topics, **more):
    return {"TimeoutMs": 10000, **more, "Topics": [
        {"Name": name, "Partitions": [{"PartitionIndex": index, "Replicas": replicas} for index, replicas in partitions]}
        for name, partitions in topics]}


questions("AlterPartitionReassignments", [
    ("to where it is", move((COMMON, [(0, [1])]))),
    ("an unknown topic", move((NOBODY, [(0, [1])]))),
    ("an unknown partition", move((COMMON, [(99, [1])]))),
    ("an unknown broker", move((COMMON, [(0, [9])]))),
    ("a broker twice", move((COMMON, [(0, [1, 1])]))),
    ("no replicas", move((COMMON, [(0, [])]))),
    ("a broker below zero", move((COMMON, [(0, [-1])]))),
    ("more replicas than brokers", move((COMMON, [(0, [1, 2])]))),
    ("cancel what is not there", move((COMMON, [(0, None)]))),
    ("cancel of an unknown topic", move((NOBODY, [(0, None)]))),
    ("several", move((COMMON, [(0, [1]), (99, [1])]), (NOBODY, [(0, None), (1, [1])]))),
    ("no topics", move()),
    ("another number of replicas is forbidden", move((COMMON, [(0, [1])]), AllowReplicationFactorChange=False), "1+"),
])


questions("ListPartitionReassignments", [
    ("all", {"TimeoutMs": 10000, "Topics": None}),
    ("none of a topic", {"TimeoutMs": 10000, "Topics": [{"Name": COMMON, "PartitionIndexes": [0]}]}),
    ("an unknown topic", {"TimeoutMs": 10000, "Topics": [{"Name": NOBODY, "PartitionIndexes": [0]}]}),
    ("an unknown partition", {"TimeoutMs": 10000, "Topics": [{"Name": COMMON, "PartitionIndexes": [99]}]}),
    ("no topics", {"TimeoutMs": 10000, "Topics": []}),
])
