"""
DescribeConfigs, AlterConfigs, IncrementalAlterConfigs.  Resource types: 2 topic, 4 broker, 8 logger, 16 client
metrics, 32 group.  Incremental operations: 0 set, 1 delete, 2 append, 3 subtract.
"""
from case import case, questions
from fixture import COMMON

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def look(*resources, keys=None, **more):
    return {"Resources": [{"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": keys}
                          for kind, name in resources], **more}


SOME = ["retention.ms", "cleanup.policy", "segment.bytes"]

questions("DescribeConfigs", [
    ("some of a topic", look((TOPIC, COMMON), keys=SOME)),
    ("all of a topic", look((TOPIC, COMMON))),
    ("with synonyms", look((TOPIC, COMMON), keys=SOME, IncludeSynonyms=True)),
    ("all with synonyms", look((TOPIC, COMMON), IncludeSynonyms=True), "latest"),
    ("with documentation", look((TOPIC, COMMON), keys=SOME, IncludeDocumentation=True)),
    ("no keys", look((TOPIC, COMMON), keys=[])),
    ("unknown key", look((TOPIC, COMMON), keys=["nothing"])),
    ("key twice", look((TOPIC, COMMON), keys=["retention.ms", "retention.ms"])),
    ("unknown topic", look((TOPIC, "nobody"))),
    ("empty topic name", look((TOPIC, ""))),
    ("topic name that is none", look((TOPIC, "a b"))),
    ("topic named twice", look((TOPIC, COMMON), (TOPIC, COMMON), keys=SOME)),
    ("broker", look((BROKER, "1"), keys=["log.retention.ms", "num.partitions", "message.max.bytes"])),
    ("broker's keys that clients ask for", look((BROKER, "1"), keys=[
        "auto.create.topics.enable", "default.replication.factor", "offsets.topic.replication.factor",
        "broker.id", "node.id", "min.insync.replicas", "unclean.leader.election.enable", "log.cleanup.policy"])),
    ("broker with synonyms", look((BROKER, "1"), keys=["log.retention.ms", "num.partitions"], IncludeSynonyms=True)),
    ("another broker", look((BROKER, "2"))),
    ("broker that is no number", look((BROKER, "x"))),
    ("all brokers' default", look((BROKER, ""))),
    ("logger", look((LOGGER, "1"), keys=["root"]), "latest"),
    ("unknown resource type", look((99, "x"))),
    ("no resource type", look((0, "x"))),
    ("group", look((GROUP, "g")), "latest"),
    ("no resources", look()),
    ("good and bad", look((TOPIC, "nobody"), (TOPIC, COMMON), (99, "y"), keys=SOME)),
])


@case("DescribeConfigs")
def set_values_and_their_source(side, version):
    topic = side.make_topic(configs={"retention.ms": "777", "cleanup.policy": "compact,delete"})
    side.ask("DescribeConfigs", version, look((TOPIC, topic.name), keys=SOME, IncludeSynonyms=True))


def alter(*resources, **more):
    """resources: (type, name, [(key, value), …])"""
    return {"ValidateOnly": False, **more, "Resources": [
        {"ResourceType": kind, "ResourceName": name, "Configs": [
            {"Name": key, "Value": value} for key, value in pairs]} for kind, name, pairs in resources]}


def change(*resources, **more):
    """resources: (type, name, [(key, operation, value), …])"""
    return {"ValidateOnly": False, **more, "Resources": [
        {"ResourceType": kind, "ResourceName": name, "Configs": [
            {"Name": key, "ConfigOperation": operation, "Value": value} for key, operation, value in steps]}
        for kind, name, steps in resources]}


def shown(side, name, *keys):
    """The values once they are as they stay: both brokers apply changes a moment after they answered."""
    seen = []

    def attempt():
        answer = side.request("DescribeConfigs", 4, look((TOPIC, name), keys=list(keys)))
        seen.append(answer)
        return len(seen) > 3 and seen[-1] == seen[-2] == seen[-3]
    side.eventually("steady configs", attempt)
    side.note("configs", seen[-1], "DescribeConfigs")


questions("AlterConfigs", [
    ("unknown topic", alter((TOPIC, "nobody", [("retention.ms", "1")]))),
    ("empty topic name", alter((TOPIC, "", [("retention.ms", "1")]))),
    ("topic name that is none", alter((TOPIC, "a b", [("retention.ms", "1")]))),
    ("unknown key", alter((TOPIC, COMMON, [("nothing", "1")]))),
    ("bad value", alter((TOPIC, COMMON, [("retention.ms", "x")]))),
    ("out of bounds", alter((TOPIC, COMMON, [("segment.bytes", "3")]))),
    ("null value", alter((TOPIC, COMMON, [("retention.ms", None)]))),
    ("key twice", alter((TOPIC, COMMON, [("retention.ms", "1"), ("retention.ms", "2")]), ValidateOnly=True)),
    ("validate only", alter((TOPIC, COMMON, [("retention.ms", "1")]), ValidateOnly=True)),
    ("unknown resource type", alter((99, "x", []))),
    ("another broker", alter((BROKER, "7", []), ValidateOnly=True)),
    ("broker that is no number", alter((BROKER, "x", []), ValidateOnly=True)),
    ("broker's key that cannot change", alter((BROKER, "1", [("log.dirs", "/x")]), ValidateOnly=True)),
    ("no resources", alter()),
    ("good and bad", alter((TOPIC, COMMON, []), (TOPIC, "nobody", []), ValidateOnly=True)),
])


@case("AlterConfigs", "latest")
def topic_named_twice(side, version):
    side.ask("AlterConfigs", version, alter((TOPIC, COMMON, []), (TOPIC, COMMON, []), ValidateOnly=True), patience=0.5)


@case("AlterConfigs")
def replaces_all_that_was_set(side, version):
    topic = side.make_topic(configs={"retention.ms": "777", "segment.bytes": "2000000"})
    side.ask("AlterConfigs", version, alter((TOPIC, topic.name, [("retention.ms", "888")])))
    shown(side, topic.name, "retention.ms", "segment.bytes")
    side.ask("AlterConfigs", version, alter((TOPIC, topic.name, [])), "nothing")
    shown(side, topic.name, "retention.ms", "segment.bytes")


@case("AlterConfigs")
def validating_changes_nothing(side, version):
    topic = side.make_topic(configs={"retention.ms": "777"})
    side.ask("AlterConfigs", version, alter((TOPIC, topic.name, [("retention.ms", "9")]), ValidateOnly=True))
    shown(side, topic.name, "retention.ms")


questions("IncrementalAlterConfigs", [
    ("unknown topic", change((TOPIC, "nobody", [("retention.ms", SET, "1")]))),
    ("empty topic name", change((TOPIC, "", [("retention.ms", SET, "1")]))),
    ("topic name that is none", change((TOPIC, "a b", [("retention.ms", SET, "1")]))),
    ("unknown key", change((TOPIC, COMMON, [("nothing", SET, "1")]))),
    ("delete an unknown key", change((TOPIC, COMMON, [("nothing", DELETE, None)]))),
    ("bad value", change((TOPIC, COMMON, [("retention.ms", SET, "x")]))),
    ("empty value", change((TOPIC, COMMON, [("retention.ms", SET, "")]))),
    ("out of bounds", change((TOPIC, COMMON, [("segment.bytes", SET, "3")]))),
    ("null value", change((TOPIC, COMMON, [("retention.ms", SET, None)]))),
    ("append to what is no list", change((TOPIC, COMMON, [("retention.ms", APPEND, "1")]))),
    ("subtract from what is no list", change((TOPIC, COMMON, [("retention.ms", SUBTRACT, "1")]))),
    ("unknown operation", change((TOPIC, COMMON, [("retention.ms", 9, "1")]))),
    ("key twice", change((TOPIC, COMMON, [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]))),
    ("validate only", change((TOPIC, COMMON, [("retention.ms", SET, "1")]), ValidateOnly=True)),
    ("validate only what is wrong", change((TOPIC, COMMON, [("retention.ms", SET, "x")]), ValidateOnly=True)),
    ("topic named twice", change((TOPIC, COMMON, []), (TOPIC, COMMON, []))),
    ("nothing to change", change((TOPIC, COMMON, []))),
    ("unknown resource type", change((99, "x", [("a", SET, "b")]))),
    ("another broker", change((BROKER, "7", [("log.retention.ms", SET, "1")]))),
    ("broker that is no number", change((BROKER, "x", [("log.retention.ms", SET, "1")]))),
    ("broker's key that cannot change", change((BROKER, "1", [("log.dirs", SET, "/x")]))),
    ("broker's unknown key", change((BROKER, "1", [("nothing", SET, "1")]), ValidateOnly=True)),
    ("no resources", change()),
    ("good and bad", change((TOPIC, COMMON, []), (TOPIC, "nobody", []), (TOPIC, COMMON + "x", [("a", SET, "b")]))),
])


@case("IncrementalAlterConfigs")
def set_and_delete(side, version):
    topic = side.make_topic(configs={"retention.ms": "777"})
    side.ask("IncrementalAlterConfigs", version, change(
        (TOPIC, topic.name, [("segment.bytes", SET, "2000000"), ("retention.ms", DELETE, None)])))
    shown(side, topic.name, "retention.ms", "segment.bytes")
    side.ask("IncrementalAlterConfigs", version, change(
        (TOPIC, topic.name, [("retention.ms", DELETE, None)])), "delete what is not set")
    side.ask("IncrementalAlterConfigs", version, change(
        (TOPIC, topic.name, [("retention.ms", SET, "5"), ("nothing", SET, "5")])), "one good, one bad")
    shown(side, topic.name, "retention.ms", "segment.bytes")


@case("IncrementalAlterConfigs")
def lists(side, version):
    topic = side.make_topic()
    for label, *step in (("append", APPEND, "compact"), ("append what is there", APPEND, "compact"),
                         ("subtract", SUBTRACT, "delete"), ("subtract what is not there", SUBTRACT, "delete"),
                         ("append a wrong word", APPEND, "burn"), ("append two", APPEND, "delete,compact")):
        side.ask("IncrementalAlterConfigs", version, change((TOPIC, topic.name, [("cleanup.policy", *step)])), label)
        shown(side, topic.name, "cleanup.policy")


@case("IncrementalAlterConfigs")
def validating_changes_nothing_here(side, version):
    topic = side.make_topic(configs={"retention.ms": "777"})
    side.ask("IncrementalAlterConfigs", version, change(
        (TOPIC, topic.name, [("retention.ms", SET, "9")]), ValidateOnly=True))
    shown(side, topic.name, "retention.ms")


@case("IncrementalAlterConfigs")
def of_the_cluster_and_a_broker(side, version):
    keys = ["message.max.bytes"]
    for label, name, operation in (("cluster", "", SET), ("broker", "1", SET), ("broker's gone", "1", DELETE),
                                   ("cluster's gone", "", DELETE)):
        side.ask("IncrementalAlterConfigs", version, change(
            (BROKER, name, [(keys[0], operation, "2000000" if operation == SET else None)])), label)

        def steady():
            answer = side.request("DescribeConfigs", 4, look((BROKER, "1"), keys=keys, IncludeSynonyms=True))
            default = side.request("DescribeConfigs", 4, look((BROKER, ""), keys=keys))
            sources = {one["Source"] for one in answer["Results"][0]["Configs"][0]["Synonyms"]}
            wanted = {"cluster": {3}, "broker": {2, 3}, "broker's gone": {3}, "cluster's gone": set()}[label]
            is_set = [one["Value"] for one in default["Results"][0]["Configs"]] == ["2000000"]
            value = answer["Results"][0]["Configs"][0]["Value"]
            return (answer, default) if (sources & {2, 3} == wanted and is_set == (3 in wanted)
                                         and value == ("2000000" if wanted else "1048588")) else None
        answer, default = side.eventually("the change", steady)
        side.note("of the broker", answer, "DescribeConfigs")
        side.note("of the cluster", default, "DescribeConfigs")
