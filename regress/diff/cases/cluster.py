"""DescribeCluster, UnregisterBroker and DescribeLogDirs."""
import batch
from case import case, questions
from fixture import COMMON

questions("DescribeCluster", [
    ("plain", {}),
    ("with authorized operations", {"IncludeClusterAuthorizedOperations": True}),
    ("brokers", {"EndpointType": 1}, "1+"),
    ("controllers", {"EndpointType": 2}, "1+"),
    ("endpoints that are none", {"EndpointType": 9}, "1+"),
    ("with fenced brokers", {"IncludeFencedBrokers": True}, "2+"),
])

# One that is there is not asked for: Kafka would forget it.
questions("UnregisterBroker", [
    ("one that is not registered", {"BrokerId": 99}),
    ("one below zero", {"BrokerId": -1}),
])

questions("DescribeLogDirs", [
    ("one partition", {"Topics": [{"Topic": COMMON, "Partitions": [0]}]}),
    ("three partitions", {"Topics": [{"Topic": COMMON, "Partitions": [2, 0, 1]}]}),
    ("unknown partition", {"Topics": [{"Topic": COMMON, "Partitions": [0, 9]}]}),
    ("unknown topic", {"Topics": [{"Topic": "nobody", "Partitions": [0]}]}),
    ("topic without partitions", {"Topics": [{"Topic": COMMON, "Partitions": []}]}),
    ("no topics", {"Topics": []}),
])


@case("DescribeLogDirs")
def all_topics(side, version):
    """There are many by now; this case only looks for the one that it knows."""
    answer = side.request("DescribeLogDirs", version, {"Topics": None})
    side.note("directories", len(answer["Results"]))
    answer["Results"][0]["Topics"] = [topic for topic in answer["Results"][0]["Topics"] if topic["Name"] == COMMON]
    side.note("answer", answer, "DescribeLogDirs")


@case("DescribeLogDirs")
def sizes_are_those_of_the_batches(side, version):
    topic = side.make_topic()
    side.produce(topic)
    side.produce(topic, batch.batch([batch.record(b"x" * 100)]))
    side.ask("DescribeLogDirs", version, {"Topics": [{"Topic": topic.name, "Partitions": [0]}]})
