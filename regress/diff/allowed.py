"""
allowed.py: all that may differ between Apache Kafka's answers and ours, each with its reason.

FIELDS: (path, how, argument, reason).  The path is API.Field.Array[].Field, * matches anything.
    ignore              the value is not compared
    presence            both have something, or both have nothing (null, empty, zero, negative)
    id       FAMILY     a value that each broker makes up: compared by whose it is, or by order of appearance,
                        so that the same id twice on one side must be the same id twice on the other
    sort     KEY        an array whose order means nothing
    drop     FILTER     elements that only one side has for a good reason
    map      FUNCTION   the value, seen through a function

DIFFERENCES: (cases, path, Kafka's value, ours, reason).  Single answers in which we differ on purpose.  `cases`
and `path` are patterns (cases: several with |), ... stands for any value.  An entry that no case needed any more
fails the run.
"""


def by(*keys):
    return lambda item: tuple(str(item[key]) for key in keys if key in item) if isinstance(item, dict) else str(item)


FIELDS = [
    ("*.ErrorMessage", "presence", None, "sentences are our own; whether there is one counts"),
    ("*.BatchIndexErrorMessage", "presence", None, "sentences are our own; whether there is one counts"),
    ("*.ThrottleTimeMs", "presence", None, "how long a quota holds one back depends on the clock; whether counts"),
    ("*.ClusterId", "presence", None, "each cluster has an id of its own"),
    ("*.TopicId", "id", "topic id", "each cluster makes its own topic ids"),
    ("*.Port", "id", "port", "the two brokers listen on different ports"),
    ("*.SessionId", "id", "session", "fetch session ids are random"),
    ("*.ProducerId", "id", "producer", "producer ids come from the broker"),
    ("*.Records[].producer_id", "id", "producer", "producer ids come from the broker"),
    ("*.FinalizedFeaturesEpoch", "presence", None, "how often a cluster's metadata changed before the question"),
    ("Produce.Responses", "sort", by("Name", "TopicId"), "Kafka's order is that of a hash table"),
    ("Produce.Responses[].PartitionResponses", "sort", by("Index"), "Kafka's order is that of a hash table"),
    ("DeleteTopics.Responses", "sort", by("Name", "TopicId", "ErrorCode"), "Kafka shuffles the answers on purpose"),
    ("*.LogDir", "presence", None, "each has a directory of its own"),
    ("*.TotalBytes", "presence", None, "of the disk; it may change between two questions"),
    ("*.UsableBytes", "presence", None, "of the disk; it may change between two questions"),
    ("*.MemberId", "id", "member", "member ids are made by the coordinator"),
    ("JoinGroup.Leader", "id", "member", "member ids are made by the coordinator"),
    ("JoinGroup.Members", "sort", by("MemberId"), "Kafka's order is that of a hash table"),
    ("DescribeGroups.Groups[].Members", "sort", by("MemberId"), "Kafka's order is that of a hash table"),
    ("ListGroups.Groups", "sort", by("GroupId"), "Kafka's order is that of a hash table"),
    ("OffsetFetch.*Topics", "sort", by("Name"), "Kafka's order is that of a hash table"),
    ("OffsetFetch.*Partitions", "sort", by("PartitionIndex"), "Kafka's order is that of a hash table"),
    ("OffsetCommit.Topics", "sort", by("Name"), "Kafka's order is that of a hash table"),
    ("OffsetDelete.Topics", "sort", by("Name"), "Kafka's order is that of a hash table"),
    ("DeleteGroups.Results", "sort", by("GroupId"), "Kafka's order is that of a hash table"),
    ("Metadata.Topics", "sort", by("Name", "TopicId"), "Kafka's order is that of a hash table"),
    ("Metadata.Topics", "drop", lambda topic: (topic.get("Name") or "").startswith("__"),
     "Kafka keeps groups and transactions in internal topics; ours are in PostgreSQL"),
    ("Metadata.Topics[].Partitions", "sort", by("PartitionIndex"), "Kafka's order is that of a hash table"),
    ("ApiVersions.ApiKeys", "sort", by("ApiKey"), "the order means nothing"),
]

DIFFERENCES = []
