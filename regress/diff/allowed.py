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
(titles) and `path` are patterns (cases: several with |), ... stands for any value.  An entry that no case needed any more
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
    ("Fetch.*.AbortedTransactions", "map", lambda found: found or [], "to clients none and an empty list are the same"),
    ("Fetch.*.Records", "drop", lambda found: "cut_off" in found,
     "Kafka sends a last batch cut off, which clients throw away; we send whole ones"),
    ("Fetch.Responses", "sort", by("Topic", "TopicId"), "clients look topics up by name; Kafka puts errors first"),
    ("Fetch.Responses[[]].Partitions", "sort", by("PartitionIndex"), "clients look partitions up by number"),
    ("ListOffsets.Topics", "sort", by("Name"), "Kafka's order is that of a hash table"),
    ("ListOffsets.*Partitions", "sort", by("PartitionIndex"), "Kafka's order is that of a hash table"),
    ("OffsetForLeaderEpoch.Topics", "sort", by("Topic"), "Kafka's order is that of a hash table"),
    ("ElectLeaders.ReplicaElectionResults", "sort", by("Topic"), "Kafka's order is that of a hash table"),
    ("DeleteRecords.*Partitions", "sort", by("PartitionIndex"), "Kafka's order is that of a hash table"),
    ("DescribeLogDirs.*Partitions", "sort", by("PartitionIndex"), "Kafka's order is that of a hash table"),
    ("DescribeLogDirs.*Topics", "sort", by("Name"), "Kafka's order is that of a hash table"),
    ("DescribeConfigs.*Configs", "sort", by("Name"), "Kafka's order is that of a hash table"),
    ("*.Documentation", "presence", None, "sentences are our own; whether there is one counts"),
    ("CreateTopics.Topics", "sort", by("Name"), "Kafka's order is that of a hash table"),
    ("DescribeGroups.Groups", "sort", by("GroupId"), "Kafka's order is that of a hash table"),
    ("OffsetDelete.*Partitions", "sort", by("PartitionIndex"), "Kafka's order is that of a hash table"),
    ("Metadata.Topics", "sort", by("Name", "TopicId"), "Kafka's order is that of a hash table"),
    ("Metadata.Topics", "drop", lambda topic: (topic.get("Name") or "").startswith("__"),
     "Kafka keeps groups and transactions in internal topics; ours are in PostgreSQL"),
    ("Metadata.Topics[].Partitions", "sort", by("PartitionIndex"), "Kafka's order is that of a hash table"),
    ("ApiVersions.ApiKeys", "sort", by("ApiKey"), "the order means nothing"),
]

ABSENT, NOTHING, SOMETHING, CLOSED, SILENT = "<not there>", "<nothing>", "<something>", "<closed>", "<silent>"

DIFFERENCES = [
    # -- what is true of every answer --
    ("*", "*.ErrorMessage", NOTHING, SOMETHING, "we say why, where Kafka only gives the code"),

    # -- ApiVersions: what we are is not what Kafka is --
    ("ApiVersions *", "* *.ApiKeys[[]ApiKey=*]", ..., ABSENT, "what is not served is not advertised; run.py checks what is"),
    ("ApiVersions *", "*.SupportedFeatures[[]*", ..., ABSENT, "features are versions of Kafka's own metadata; we have none"),
    ("ApiVersions *", "*.FinalizedFeatures[[]*", ..., ABSENT, "features are versions of Kafka's own metadata; we have none"),
    ("ApiVersions *", "*.FinalizedFeaturesEpoch", SOMETHING, NOTHING, "nothing is finalised"),
    ("ApiVersions *", "* *.ApiKeys[[]ApiKey=1].MaxVersion", 18, 17, "Fetch 18 is between brokers"),
    ("ApiVersions *", "* *.ApiKeys[[]ApiKey=2].MinVersion", 1, 0, "ListOffsets 0 is served for old clients"),
    ("ApiVersions *", "* *.ApiKeys[[]ApiKey=2].MaxVersion", 11, 10, "ListOffsets 11 is of tiered storage"),
    ("ApiVersions *", "* *.ApiKeys[[]ApiKey=8].MinVersion", 2, 0, "OffsetCommit 0 and 1 are served for old clients"),
    ("ApiVersions *", "* *.ApiKeys[[]ApiKey=8].MaxVersion", 10, 9, "OffsetCommit 10 has topic ids, which no client asks for yet"),
    ("ApiVersions *", "* *.ApiKeys[[]ApiKey=9].MaxVersion", 10, 9, "OffsetFetch 10 has topic ids, which no client asks for yet"),
    ("ListOffsets *: versions outside those served|OffsetCommit *: versions outside those served",
     "* version below the lowest", CLOSED, ..., "older versions are served for old clients"),

    # -- framing --
    ("ApiVersions *: connection: client id of length -2", "*", "<an answer>", CLOSED, "no length is below -1"),
    ("Metadata *: string that is no UTF-8", "*", [17], CLOSED, "a string that is no UTF-8 is no string; Kafka replaces bytes"),

    # -- Metadata --
    ("Metadata *: a topic named twice", "* Metadata.Topics", ..., ..., "we answer as often as we are asked"),
    ("Metadata v10: by * id and name|Metadata v11: by * id and name|Metadata v10: by id and name|Metadata v11: by id and name",
     "*", ..., ..., "no client does so before v12; Kafka refuses the whole request, we look at the topic"),
    ("Metadata *: null name without an id", "*", ..., ..., "Kafka refuses the whole request, we the one topic"),
    ("Metadata *: some by id, some by name", "*[[]Name=nobody]", ABSENT, ..., "Kafka forgets the names once there is an id"),
    ("Metadata *: create what is missing|Metadata *: create always in old versions", "1 first.*", ..., ...,
     "we create before we answer; Kafka answers UNKNOWN_TOPIC_OR_PARTITION until it has"),

    # -- Produce --
    ("Produce *", "*.RecordErrors[[]0]", ..., ABSENT, "records are not looked at one by one; the batch's error says it"),
    ("Produce *: timestamps out of bounds", "*.RecordErrors[[]1]", ..., ABSENT, "records are not looked at one by one"),
    ("Produce *: duplicate*|Produce *: *twice*|Produce *: sequence wraps*|Produce *: two producers|Produce *: compressed idem*|"
     "Fetch *: random walk *", "*.LogAppendTimeMs", ..., -1, "Kafka gives a duplicate's own timestamp as if the broker had set it"),
    ("Produce *: unknown codec*", "*.ErrorCode", -1, 76, "UNKNOWN_SERVER_ERROR lets clients lose or repeat a batch"),
    ("Produce v[3-6]: unknown codec*|Produce *: transactional batch of nobody|Produce *: transactional control batch",
     "*.LogStartOffset", -1, 0, "Kafka refuses these before it looks at the log"),
    ("Produce *: length of two billion", "*.ErrorCode", -1, 2, "UNKNOWN_SERVER_ERROR lets clients lose or repeat a batch"),
    ("Produce *: length below a header", "*.ErrorCode", 2, 87, "either says that the batch is none"),
    ("Produce *: a byte too many|Produce *: two batches of which*", "*", ..., ..., "we take whole batches only; Kafka cuts off the rest"),
    ("Produce *: count too low with its last offset|Produce *: gzip *|Produce *: records that are none|"
     "Produce *: record length too long", "*", ..., ...,
     "records are stored as they came and never looked into; headers, counts and CRC are checked"),
    ("Produce *: max timestamp wrong", "*.max_timestamp", ..., ..., "records are never looked into, so the header counts"),
    ("Produce *: null records", "* Produce", SILENT, ..., "Kafka never answers"),
    ("Produce *: partition twice|Produce *: topic twice", "*", ..., ..., "we append and answer as often as we are asked"),
    ("Produce *: transactional batch of nobody|Produce *: transactional control batch", "*.ErrorCode", 53, ...,
     "Kafka looks for rights on a transactional id of null; we look at the batch"),

    # -- Fetch --
    ("Fetch *: negative limits|Fetch *: isolation level unknown", "*", ..., ..., "Kafka fails with UNKNOWN_SERVER_ERROR"),
    ("Fetch *: partition twice", "* Fetch.Responses*", ..., ..., "we answer as often as we are asked"),
    ("Fetch *: who waits in spite of an error", "* waited", True, False, "an error is told at once, so that the client can act"),
    ("Fetch *: session whose topic is made anew", "*.ErrorCode", 103, 100,
     "the session's id names no topic any more; clients take both alike"),
    ("Fetch *: as a follower that is none", "*", ..., ..., "who fetches as a broker has to know the cluster's secret"),

    # -- offsets --
    ("ListOffsets *: empty partition|ListOffsets *: partition twice|DeleteRecords *: start is told*", "* *.Partitions", ..., ...,
     "Kafka refuses a partition that is asked twice, we answer it twice"),
    ("ListOffsets *: isolation level unknown", "*", ..., ..., "Kafka fails with UNKNOWN_SERVER_ERROR"),
    ("ListOffsets *: records without timestamps", "* largest.*", ..., -1, "no record has a timestamp, so none has the largest"),
    ("Fetch *: random walk *", "* look up.*", ..., -1,
     "the record with the largest timestamp was deleted with the records before it; Kafka still names it"),
    ("OffsetForLeaderEpoch *: epoch -2", "*", ..., -1, "an epoch that cannot be is answered as unknown"),
    ("DeleteRecords *: topic without partitions", "*", ABSENT, ..., "we name the topic, with no partitions"),

    # -- topics --
    ("CreateTopics *", "*.Configs[[]Name=min.insync.replicas].ConfigSource", 3, 5,
     "Kafka writes it as a dynamic config when eligible leader replicas are on"),
    ("ElectLeaders *: all of them", "* ElectLeaders.ReplicaElectionResults*", ..., ...,
     "other cases leave topics that one of the two refuses; the whole answer's code is compared"),
    ("CreateTopics *: internal name", "*", ..., ..., "the name is Kafka's metadata log; here it is a topic like another"),
    ("CreateTopics *: validate only", "*.TopicId", ..., "00000000-0000-0000-0000-000000000000",
     "nothing was created, so there is no id"),
    ("CreateTopics *: colliding in metrics", "2 *_d].*", ..., ..., "Kafka does not compare the names within a request"),
    ("DescribeTopicPartitions *: empty name", "*.ErrorCode", -1, 17, "the name is none"),

    # -- configs --
    ("DescribeConfigs *", "*.Configs[[]Name=min.insync.replicas]*", ..., ...,
     "Kafka writes it as a dynamic config when eligible leader replicas are on"),
    ("DescribeConfigs *: broker*", "*.Configs[[]Name=log.retention.ms].*", ..., ..., "we say what applies, not null"),
    ("DescribeConfigs *: logger", "*", ..., ..., "log4j's loggers are Java's"),
    ("DescribeConfigs *: good and bad", "*", ..., ..., "an unknown kind of resource does not spoil the others"),
    ("DescribeConfigs *", "*.Synonyms[[]Name=log.*", ABSENT, ...,
     "we also name the option in another unit that a value comes from"),
    ("DescribeConfigs *: broker's keys that clients ask for", "*[[]Name=broker.id]", ..., ABSENT, "it is node.id's old name"),
    ("DescribeConfigs *: broker's keys that clients ask for", "*[[]Name=offsets.topic.replication.factor]", ..., ABSENT,
     "there is no such topic"),
    ("AlterConfigs *: broker's key that cannot change|IncrementalAlterConfigs *: broker's key that cannot change|"
     "AlterConfigs *: null value|IncrementalAlterConfigs *: null value", "*.ErrorCode", 42, 40,
     "the value is what is wrong; the same sentence as in SQL"),
    ("AlterConfigs *: empty topic name|IncrementalAlterConfigs *: empty topic name", "*.ErrorCode", 42, 3,
     "no topic has that name"),
    ("AlterConfigs *: topic name that is none|IncrementalAlterConfigs *: topic name that is none", "*.ErrorCode", 17, 3,
     "no topic has that name"),
    ("IncrementalAlterConfigs *: delete an unknown key", "*.ErrorCode", 0, 40, "unknown names are refused, with the nearest name"),
    ("IncrementalAlterConfigs *: unknown operation", "*.ErrorCode", -1, 42, "the request is wrong, not the server"),
    ("IncrementalAlterConfigs *: broker's unknown key", "*", 0, 40, "unknown names are refused, with the nearest name"),
    ("AlterConfigs *: topic named twice", "*", SILENT, ..., "Kafka never answers"),
    ("IncrementalAlterConfigs *: good and bad", "*.ErrorCode", 40, 3, "the topic is unknown and the name too; either is true"),

    # -- groups --
    ("FindCoordinator *", "*.ErrorMessage", SOMETHING, NOTHING, "Kafka says NONE where nothing is wrong"),
    ("JoinGroup *: group id of 64 kb", "*", CLOSED, ..., "an error is better than a connection that ends"),
    ("OffsetCommit *: topic without partitions", "*", ABSENT, ..., "we name the topic, with no partitions"),
    ("DeleteGroups *: unknown, twice", "*.Results", ..., ..., "we answer as often as we are asked"),
]
