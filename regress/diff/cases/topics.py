"""
CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions.  Creation answers with the topic's id (v7) and
its configs (v5); deletion takes ids from v6.
"""
from case import case, questions
from fixture import COMMON
from side import NOBODY


def make(*topics, **more):
    return {"Topics": list(topics), "timeoutMs": 10000, **more}


def topic(name, partitions=1, replicas=1, assignments=(), configs=()):
    return {"Name": name, "NumPartitions": partitions, "ReplicationFactor": replicas,
            "Assignments": [{"PartitionIndex": index, "BrokerIds": ids} for index, ids in assignments],
            "Configs": [{"Name": key, "Value": value} for key, value in configs]}


def own(suffix="t", **how):
    """A question about a topic whose name belongs to the case."""
    return lambda side, _: make(topic(side.name_topic(suffix), **how))


questions("CreateTopics", [
    ("one", own()),
    ("three partitions", own(partitions=3)),
    ("with the broker's defaults", own(partitions=-1, replicas=-1), "4+"),
    ("with a config", own(configs=[("retention.ms", "1000"), ("cleanup.policy", "compact")])),
    ("with every kind of config", own(configs=[
        ("retention.ms", "-1"), ("segment.bytes", "1048576"), ("min.cleanable.dirty.ratio", "0.25"),
        ("unclean.leader.election.enable", "true"), ("compression.type", "zstd"),
        ("cleanup.policy", "compact,delete"), ("message.timestamp.type", "LogAppendTime")])),
    ("unknown config", own(configs=[("retention.mss", "1")])),
    ("config that is no number", own(configs=[("retention.ms", "soon")])),
    ("config out of bounds", own(configs=[("segment.bytes", "1")])),
    ("config of another word", own(configs=[("cleanup.policy", "burn")])),
    ("config null", own(configs=[("retention.ms", None)])),
    ("config empty", own(configs=[("retention.ms", "")])),
    ("config twice", own(configs=[("retention.ms", "1000"), ("retention.ms", "2000")])),
    ("config with spaces", own(configs=[("retention.ms", " 1000 ")])),
    ("no partitions", own(partitions=0)),
    ("negative partitions", own(partitions=-2)),
    ("too many replicas", own(replicas=3)),
    ("no replicas", own(replicas=0)),
    ("negative replicas", own(replicas=-2)),
    ("assigned by the client", own(partitions=-1, replicas=-1, assignments=[(0, [1]), (1, [1])])),
    ("assigned and counted", own(partitions=2, replicas=1, assignments=[(0, [1]), (1, [1])])),
    ("assigned to nobody", own(partitions=-1, replicas=-1, assignments=[(0, [])])),
    ("assigned to an unknown broker", own(partitions=-1, replicas=-1, assignments=[(0, [9])])),
    ("assigned to one broker twice", own(partitions=-1, replicas=-1, assignments=[(0, [1, 1])])),
    ("assigned with a gap", own(partitions=-1, replicas=-1, assignments=[(0, [1]), (2, [1])])),
    ("assigned from one", own(partitions=-1, replicas=-1, assignments=[(1, [1])])),
    ("assigned twice", own(partitions=-1, replicas=-1, assignments=[(0, [1]), (0, [1])])),
    ("assigned with unequal factors", own(partitions=-1, replicas=-1, assignments=[(0, [1]), (1, [1, 1])])),
    ("assigned below zero", own(partitions=-1, replicas=-1, assignments=[(-1, [1])])),
    ("exists", make(topic(COMMON))),
    ("exists, and would be wrong anyway", make(topic(COMMON, replicas=9))),
    ("empty name", make(topic(""))),
    ("one dot", make(topic("."))),
    ("two dots", make(topic(".."))),
    ("250 letters", make(topic("x" * 250))),
    ("249 letters", lambda side, _: make(topic(side.name_topic("x" * 249)[:249]))),
    ("space in the name", make(topic("a b"))),
    ("quotes in the name", make(topic("a'b\"c"))),
    ("statement in the name", make(topic("x'; drop schema broker cascade; --"))),
    ("umlauts in the name", make(topic("grün"))),
    ("internal name", make(topic("__cluster_metadata"))),
    ("no topics", make()),
    ("validate only", lambda side, _: make(topic(side.name_topic("v")), validateOnly=True)),
    ("validate only what is wrong", lambda side, _: make(
        topic(side.name_topic("v"), replicas=5), topic(""), topic(COMMON), validateOnly=True)),
    ("one twice in a request", lambda side, _: make(topic(side.name_topic("d")), topic(side.name_topic("d")))),
    ("one twice and one once", lambda side, _: make(
        topic(side.name_topic("d")), topic(side.name_topic("e")), topic(side.name_topic("d"), partitions=2))),
    ("good and bad together", lambda side, _: make(
        topic(side.name_topic("a")), topic("", 1), topic(side.name_topic("b"), partitions=-7),
        topic(side.name_topic("c"), configs=[("x", "y")]), topic(side.name_topic("d"), partitions=2))),
])


@case("CreateTopics")
def colliding_in_metrics(side, version):
    side.make_topic("a.b")
    side.ask("CreateTopics", version, make(topic(side.name_topic("a_b"))), "against one that is there")
    side.ask("CreateTopics", version, make(topic(side.name_topic("c.d")), topic(side.name_topic("c_d"))),
             "both in a request")


@case("CreateTopics", "latest")
def timeout_of_zero(side, version):
    side.ask("CreateTopics", version, make(topic(side.name_topic("t")), timeoutMs=0))


@case("CreateTopics")
def made_and_seen(side, version):
    side.ask("CreateTopics", version, make(topic(side.name_topic("t"), 2, configs=[("retention.ms", "5000")])))
    side.eventually("the topic", lambda: side.find_topic(side.name_topic("t")))
    side.ask("CreateTopics", version, make(topic(side.name_topic("t"))), "again")
    side.ask("Metadata", 9, {"Topics": [{"Name": side.name_topic("t")}]})


def drop(*names, ids=(), **more):
    """A DeleteTopics that says names, and in v6 ids, in the form of every version."""
    return {"TopicNames": list(names), "TimeoutMs": 10000, **more,
            "Topics": [{"Name": name} for name in names] + [{"Name": None, "TopicId": one} for one in ids]}


questions("DeleteTopics", [
    ("unknown", drop("nobody")),
    ("empty name", drop("")),
    ("250 letters", drop("x" * 250)),
    ("quotes", drop("x'; --")),
    ("no topics", drop()),
    ("unknown id", drop(ids=[NOBODY]), "6+"),
    ("unknown id twice", drop(ids=[NOBODY, NOBODY]), "6+"),
    ("name and id", lambda side, _: {"Topics": [{"Name": "nobody", "TopicId": NOBODY}], "TimeoutMs": 1000}, "6+"),
    ("neither name nor id", {"Topics": [{"Name": None}], "TimeoutMs": 1000}, "6+"),
])


@case("DeleteTopics")
def what_is_there(side, version):
    made = [side.make_topic(suffix) for suffix in "abc"]
    side.ask("DeleteTopics", version, drop(made[0].name), "one")
    side.eventually("its end", lambda: side.find_topic(made[0].name) is None)
    side.ask("DeleteTopics", version, drop(made[0].name), "again")
    side.ask("DeleteTopics", version, drop(made[1].name, "nobody", made[2].name), "two and one unknown")
    side.eventually("their end", lambda: not any(side.find_topic(topic.name) for topic in made))


@case("DeleteTopics")
def named_twice(side, version):
    made = side.make_topic()
    side.ask("DeleteTopics", version, drop(made.name, made.name))
    side.note("still there", side.find_topic(made.name) is not None)


@case("DeleteTopics", "6+")
def by_id(side, version):
    made = side.make_topic()
    side.ask("DeleteTopics", version, drop(ids=[made.id]))
    side.eventually("its end", lambda: side.find_topic(made.name) is None)
    side.ask("DeleteTopics", version, drop(ids=[made.id]), "again")


@case("DeleteTopics", "6+")
def by_id_and_name_at_once(side, version):
    made = side.make_topic()
    side.ask("DeleteTopics", version, drop(made.name, ids=[made.id]), "both")
    side.ask("DeleteTopics", version, {"TimeoutMs": 1000, "Topics": [{"Name": made.name, "TopicId": made.id}]}, "in one")


@case("DeleteTopics", "latest")
def made_anew_it_is_another(side, version):
    old = side.make_topic()
    side.produce(old)
    side.ask("DeleteTopics", version, drop(old.name))
    side.eventually("its end", lambda: side.find_topic(old.name) is None)
    new = side.make_topic()
    side.note("another id", old.id != new.id)
    side.note("nothing in it", side.end_offset(new))


def grow(name, count, assignments=None, **more):
    return {"Topics": [{"Name": name, "Count": count, "Assignments": assignments and [
        {"BrokerIds": ids} for ids in assignments]}], "TimeoutMs": 10000, "ValidateOnly": False, **more}


questions("CreatePartitions", [
    ("unknown topic", grow("nobody", 3)),
    ("empty name", grow("", 3)),
    ("as many as there are", grow(COMMON, 3)),
    ("fewer", grow(COMMON, 1)),
    ("none", grow(COMMON, 0)),
    ("negative", grow(COMMON, -5)),
    ("validate only", grow(COMMON, 5, ValidateOnly=True)),
    ("validate only an assignment", grow(COMMON, 5, [[1], [1]], ValidateOnly=True)),
    ("too few assigned", grow(COMMON, 5, [[1]])),
    ("too many assigned", grow(COMMON, 4, [[1], [1]])),
    ("assigned to an unknown broker", grow(COMMON, 4, [[8]])),
    ("assigned to two", grow(COMMON, 4, [[1, 2]])),
    ("assigned to one broker twice", grow(COMMON, 4, [[1, 1]])),
    ("assigned to nobody", grow(COMMON, 4, [[]])),
    ("assignment empty", grow(COMMON, 4, [])),
    ("no topics", {"Topics": [], "TimeoutMs": 1000}),
    ("named twice", lambda side, _: {"TimeoutMs": 1000, "Topics": [
        {"Name": COMMON, "Count": 4, "Assignments": None}, {"Name": COMMON, "Count": 5, "Assignments": None}]}),
])


@case("CreatePartitions")
def growing(side, version):
    made = side.make_topic()
    side.produce(made)
    side.ask("CreatePartitions", version, grow(made.name, 3), "to three")
    side.eventually("three", lambda: (side.find_topic(made.name) or made).partitions == 3)
    side.ask("CreatePartitions", version, grow(made.name, 5, [[1], [1]]), "to five, assigned")
    side.eventually("five", lambda: (side.find_topic(made.name) or made).partitions == 5)
    side.ask("Metadata", 9, {"Topics": [{"Name": made.name}]})
    side.note("nothing lost", side.end_offset(made))


def describe(*names, limit=2000, cursor=None):
    return {"Topics": [{"Name": name} for name in names], "ResponsePartitionLimit": limit,
            "Cursor": cursor and {"TopicName": cursor[0], "PartitionIndex": cursor[1]}}


questions("DescribeTopicPartitions", [
    ("one", describe(COMMON)),
    ("unknown", describe("nobody")),
    ("known and unknown", describe("zz-nobody", COMMON, "aa-nobody")),
    ("empty name", describe("")),
    ("name that is none", describe("a b")),
    ("name twice", describe(COMMON, COMMON)),
    ("two partitions at most", describe(COMMON, limit=2)),
    ("one partition at most", describe(COMMON, "nobody", limit=1)),
    ("limit zero", describe(COMMON, limit=0)),
    ("limit negative", describe(COMMON, limit=-1)),
    ("from a cursor", describe(COMMON, cursor=(COMMON, 1))),
    ("from a cursor at the end", describe(COMMON, cursor=(COMMON, 3))),
    ("cursor beyond the end", describe(COMMON, cursor=(COMMON, 30))),
    ("cursor negative", describe(COMMON, cursor=(COMMON, -1))),
    ("cursor of another topic before it", describe(COMMON, cursor=("aaa", 0))),
    ("cursor of another topic after it", describe(COMMON, cursor=("zzz", 0))),
    ("cursor at an unknown topic", describe("nobody", COMMON, cursor=("nobody", 0))),
])


@case("DescribeTopicPartitions")
def page_by_page(side, version):
    a, b = side.make_topic("a", partitions=3), side.make_topic("b", partitions=2)
    cursor = None
    for page in range(6):
        answer = side.ask("DescribeTopicPartitions", version, describe(b.name, a.name, limit=2, cursor=cursor), f"page {page}")
        if isinstance(answer, str) or not answer["NextCursor"]:
            break
        cursor = answer["NextCursor"]["TopicName"], answer["NextCursor"]["PartitionIndex"]
