"""
case.py: how a case is written down.

    @case("Produce")                        # once for every version served
    def one_record(side, version):
        topic = side.make_topic()
        side.ask("Produce", version, side.produce_body(topic, batch.batch()))

    @case("Fetch", "7+")                    # for these versions only
    @case("Metadata", "latest")             # only the highest: what does not depend on the version

The function is run once against each broker, at the same time; what it asks must not depend on the broker but
through the broker's own answers.  All that side.ask() and side.note() recorded is compared.

questions() makes such cases from a table of (name, body) where one question is all there is to it.
"""
import re

SERVED = {      # API: (lowest, highest) version that is compared: served by brokerd and known to Kafka 4.2
    "ApiVersions": (0, 4), "Metadata": (0, 13), "Produce": (3, 13), "Fetch": (4, 17), "ListOffsets": (1, 10),
    "OffsetForLeaderEpoch": (2, 4), "CreateTopics": (2, 7), "DeleteTopics": (1, 6), "CreatePartitions": (0, 3),
    "DeleteRecords": (0, 2), "DescribeConfigs": (1, 4), "AlterConfigs": (0, 2), "IncrementalAlterConfigs": (0, 1),
    "DescribeCluster": (0, 2), "DescribeTopicPartitions": (0, 0), "DescribeLogDirs": (1, 4), "InitProducerId": (0, 5),
    "FindCoordinator": (0, 6), "JoinGroup": (0, 9), "SyncGroup": (0, 5), "Heartbeat": (0, 4), "LeaveGroup": (0, 5),
    "OffsetCommit": (2, 9), "OffsetFetch": (1, 9), "ListGroups": (0, 5), "DescribeGroups": (0, 6),
    "DeleteGroups": (0, 2), "OffsetDelete": (0, 0),
    "ElectLeaders": (0, 2), "AlterPartitionReassignments": (0, 1), "ListPartitionReassignments": (0, 0),
    "UnregisterBroker": (0, 0),
}

GROUP_APIS = {"FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch",
              "ListGroups", "DescribeGroups", "DeleteGroups", "OffsetDelete"}

CASES = []


class Case:
    def __init__(self, api, version, name, function):
        self.api, self.version, self.name, self.function = api, version, name, function
        self.title = f"{api} v{version}: {name}"
        self.id = re.sub(r"[^A-Za-z0-9-]+", "-", f"{api} {version} {name}")


def versions_of(api, wanted):
    low, high = SERVED[api]
    if wanted is None:
        return range(low, high + 1)
    if wanted == "latest":
        return range(high, high + 1)
    first, dash, last = str(wanted).rstrip("+").partition("-")
    if str(wanted).endswith("+"):
        last = high
    elif not dash:
        last = first
    return range(max(low, int(first)), min(high, int(last)) + 1)


def add(api, wanted, name, function):
    for version in versions_of(api, wanted):
        CASES.append(Case(api, version, name, function))


def case(api, wanted=None, name=None):
    def keep(function):
        add(api, wanted, name or function.__name__.replace("_", " "), function)
        return function
    return keep


def questions(api, rows, wanted=None):
    """rows: (name, body) or (name, body, versions); body is a dict, or a function of (side, version)."""
    for name, body, *limits in rows:
        def ask(side, version, body=body):
            side.ask(api, version, body(side, version) if callable(body) else body)
        add(api, limits[0] if limits else wanted, name, ask)
