"""
compare.py: two transcripts of a case, made comparable, then compared field by field.

Everything counts as different unless allowed.py says otherwise; see there for what a rule may do.
"""
import fnmatch
import uuid

import batch

MISSING = "<not there>"


class Rules:
    """The lists of allowed.py, and which entries were needed in this run."""

    def __init__(self, fields, differences):
        self.fields = fields
        self.differences = differences
        self.used = set()
        self.memo = {}

    def of_path(self, path):
        if path not in self.memo:
            self.memo[path] = [(how, argument) for pattern, how, argument, _ in self.fields
                               if fnmatch.fnmatchcase(path, pattern)]
        return self.memo[path]

    def allows(self, title, difference):
        """Is this one of the listed differences?"""
        where, kafka, ours = difference
        for place, (cases, paths, their_value, our_value, _) in enumerate(self.differences):
            if not any(fnmatch.fnmatchcase(title, pattern) for pattern in cases.split("|")):
                continue
            if not fnmatch.fnmatchcase(where, paths):
                continue
            if their_value in (..., kafka) and our_value in (..., ours):
                self.used.add(place)
                return True
        return False

    def unused(self):
        return [entry for place, entry in enumerate(self.differences) if place not in self.used]


class Names:
    """Gives values that each broker makes up (ids) a name that both sides share: who they belong to, or
    the order in which they were first seen."""

    def __init__(self, known):
        self.known = known
        self.seen = {}

    def of(self, family, value):
        if value in self.known:
            return f"<{family} of {self.known[value]}>"
        kept = self.seen.setdefault(family, {})
        if value not in kept:
            kept[value] = f"<{family} {len(kept) + 1}>"
        return kept[value]


def is_nothing(value):
    return value is None or value == "" or value == [] or value == b"" or value == uuid.UUID(int=0) \
        or (isinstance(value, int) and value <= 0)


def normalise(rules, names, path, value):
    """The value with what may differ taken out, by the rules that fit its path."""
    if path.endswith("Records") and isinstance(value, bytes):
        value = batch.describe(value)
    order = None
    for how, argument in rules.of_path(path):
        if how == "ignore":
            return "<any>"
        if how == "presence":
            return "<nothing>" if is_nothing(value) else "<something>"
        if how == "id" and not is_nothing(value):
            return names.of(argument, value)
        if how == "drop" and isinstance(value, list):
            value = [item for item in value if not argument(item)]
        if how == "sort" and isinstance(value, list):
            order = argument
        if how == "map":
            value = argument(value)
    if isinstance(value, dict):
        return {key: normalise(rules, names, f"{path}.{key}", item) for key, item in value.items()}
    if isinstance(value, list):
        items = [normalise(rules, names, f"{path}[]", item) for item in value]
        return sorted(items, key=order) if order else items     # by what ids became, not by the ids
    if isinstance(value, (uuid.UUID, bytes)):
        return str(value) if isinstance(value, uuid.UUID) else value.hex()
    return value


def element_name(item, place):
    """What stands for an array's element in a path that people read."""
    if isinstance(item, dict):
        for key in ("Name", "TopicName", "ResourceName", "PartitionIndex", "Index", "Partition", "ApiKey", "GroupId",
                    "MemberId", "NodeId", "BrokerId"):
            if key in item:
                return f"{key}={item[key]}"
    return str(place)


def differences(path, kafka, ours):
    """[(path, Kafka's value, ours)] of two normalised values."""
    if isinstance(kafka, dict) and isinstance(ours, dict):
        found = []
        for key in list(kafka) + [key for key in ours if key not in kafka]:
            found += differences(f"{path}.{key}", kafka.get(key, MISSING), ours.get(key, MISSING))
        return found
    if isinstance(kafka, list) and isinstance(ours, list):
        if len(kafka) != len(ours):
            return list_differences(path, kafka, ours)
        found = []
        for place, (one, other) in enumerate(zip(kafka, ours)):
            found += differences(f"{path}[{element_name(one, place)}]", one, other)
        return found
    if type(kafka) is type(ours) and kafka == ours:
        return []
    return [(path, kafka, ours)]


def list_differences(path, kafka, ours):
    """Two lists of another length: match what has the same name, so that one extra does not blame them all."""
    def named(items):
        return {element_name(item, place): item for place, item in enumerate(items)}
    one, other = named(kafka), named(ours)
    if len(one) != len(kafka) or len(other) != len(ours):
        return [(path, kafka, ours)]
    found = []
    for name in list(one) + [name for name in other if name not in one]:
        found += differences(f"{path}[{name}]", one.get(name, MISSING), other.get(name, MISSING))
    return found


def compare(rules, title, kafka, ours):
    """What differs between two Sides' transcripts and is not allowed."""
    found = []
    steps = max(len(kafka.transcript), len(ours.transcript))
    names = Names(kafka.known), Names(ours.known)
    for place in range(steps):
        if place >= len(kafka.transcript) or place >= len(ours.transcript):
            longer = kafka if place < len(kafka.transcript) else ours
            label = longer.transcript[place][0]
            pair = ("<step>", MISSING) if longer is kafka else (MISSING, "<step>")
            found.append((f"{place + 1} {label}", *pair))
            continue
        label, api, _, answer = kafka.transcript[place]
        one = normalise(rules, names[0], api or label, answer)
        other = normalise(rules, names[1], ours.transcript[place][1] or label, ours.transcript[place][3])
        found += differences(f"{place + 1} {label}", one, other)
    return [item for item in found if not rules.allows(title, item)]
