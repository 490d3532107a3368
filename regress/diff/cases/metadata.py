"""
Metadata.  v0: no topics = all; from v1 null = all, none = none; from v4 the client says whether to create; topic
ids from v10, asked for by id from v12.
"""
from case import case, questions
from fixture import COMMON
from side import NOBODY



def named(*names, **more):
    return {"Topics": [{"Name": name} for name in names], "AllowAutoTopicCreation": False, **more}


questions("Metadata", [
    ("all topics", {"Topics": None}, "1+"),
    ("no topics", {"Topics": []}),
    ("one topic", named(COMMON)),
    ("a topic named twice", named(COMMON, COMMON)),
    ("unknown topic", named("nobody"), "4+"),
    ("known and unknown", named("nobody", COMMON, "nobody2"), "4+"),
    ("empty name", named(""), "4+"),
    ("name of one dot", named("."), "4+"),
    ("name of two dots", named(".."), "4+"),
    ("name of 249 letters", named("n" * 249), "4+"),
    ("name of 250 letters", named("n" * 250), "4+"),
    ("name with quotes", named("a'; drop table x; --"), "4+"),
    ("name with a slash", named("a/b"), "4+"),
    ("name with umlauts", named("grün"), "4+"),
    ("name with a null byte", named("a\0b"), "4+"),
    ("with topic authorized operations", named(COMMON, IncludeTopicAuthorizedOperations=True), "8+"),
    ("with cluster authorized operations", named(COMMON, IncludeClusterAuthorizedOperations=True), "8-10"),
    ("by id", lambda side, _: {"Topics": [{"Name": None, "TopicId": side.common["topic"].id}]}, "12+"),
    ("by unknown id", {"Topics": [{"Name": None, "TopicId": NOBODY}]}, "12+"),
    ("by id and name", lambda side, _: {"Topics": [{"Name": COMMON, "TopicId": side.common["topic"].id}]}, "10+"),
    ("by unknown id and name", {"Topics": [{"Name": COMMON, "TopicId": NOBODY}]}, "10+"),
    ("null name without an id", {"Topics": [{"Name": None}]}, "10+"),
    ("some by id, some by name", lambda side, _: {"Topics": [
        {"Name": None, "TopicId": side.common["topic"].id}, {"Name": "nobody"}], "AllowAutoTopicCreation": False},
     "12+"),
])


@case("Metadata", "4+")
def create_what_is_missing(side, version):
    name = side.name_topic("new")
    body = {"Topics": [{"Name": name}], "AllowAutoTopicCreation": True}
    side.ask("Metadata", version, body, "first")
    side.eventually("its creation", lambda: side.find_topic(name))
    side.ask("Metadata", version, body, "once it is there")


@case("Metadata", "0-3")
def create_always_in_old_versions(side, version):
    name = side.name_topic("new")
    body = {"Topics": [{"Name": name}]}
    side.ask("Metadata", version, body, "first")
    side.eventually("its creation", lambda: side.find_topic(name))
    side.ask("Metadata", version, body, "once it is there")


@case("Metadata")
def create_with_bad_names(side, version):
    for name in ("", ".", "..", "x" * 250, "a b", "a'b"):
        side.ask("Metadata", version, {"Topics": [{"Name": name}], "AllowAutoTopicCreation": True}, repr(name[:5]))


@case("Metadata", "4+")
def create_what_collides_in_metrics(side, version):
    side.make_topic("a.b")
    side.ask("Metadata", version, {"Topics": [{"Name": side.name_topic("a_b")}], "AllowAutoTopicCreation": True})


@case("Metadata", "latest")
def not_created_when_nobody_wants_it(side, version):
    name = side.name_topic("no")
    side.ask("Metadata", version, named(name))
    side.ask("Metadata", version, named(name))


@case("Metadata", "12+")
def deleted_topic(side, version):
    topic = side.make_topic()
    side.request("DeleteTopics", 6, {"Topics": [{"Name": topic.name}], "TimeoutMs": 5000})
    side.eventually("the deletion", lambda: side.find_topic(topic.name) is None)
    side.ask("Metadata", version, named(topic.name), "by name")
    side.ask("Metadata", version, {"Topics": [{"Name": None, "TopicId": topic.id}]}, "by id")
