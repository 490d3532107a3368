"""
mutate.py: proves that the comparison sees what it should: answers are changed in one place, and every change that
allowed.py does not cover must be found.  Done with answers of many cases of each run, so that no rule and no case can
silently compare nothing.
"""
import uuid
import zlib

import compare

PLACES = 2      # changed places a case; which ones depends on its title
EVERY = 4       # one case in so many, by its title: each time the same ones


def places(rules, path, value, owner, key):
    """Every value of an answer that is compared, as (path, owner, key): owner[key] is where it stands."""
    yield path, owner, key
    if isinstance(value, dict):
        for name, item in value.items():
            yield from places(rules, f"{path}.{name}", item, value, name)
    elif isinstance(value, list):
        dropped = [argument for how, argument in rules.of_path(path) if how == "drop"]
        for place, item in enumerate(value):
            if not any(is_dropped(item) for is_dropped in dropped):
                yield from places(rules, f"{path}[]", item, value, place)


def changed(value):
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "~"
    if isinstance(value, bytes):
        return value + b"\0"
    if isinstance(value, uuid.UUID):
        return uuid.UUID(int=value.int ^ 1)
    if isinstance(value, list):
        return value[:-1] if value else ["~"]
    if isinstance(value, dict):
        return {**value, "Surplus": 1}
    return "~"


def is_covered(rules, path):
    """May this value differ anyway, or one that it is part of?"""
    while path:
        if any(how != "sort" for how, _ in rules.of_path(path)):
            return True
        path = path.rpartition(".")[0]
    return False


class Mutations:
    """Counts of a run, by API."""

    def __init__(self):
        self.tried, self.missed = {}, {}

    def try_case(self, rules, item, sides):
        """The case must have passed; our answers are as they were afterwards."""
        start = zlib.crc32(item.title.encode())
        if start % EVERY:
            return
        transcript = sides[1].transcript
        rules = compare.Rules(rules.fields, [])     # what else differs, and may, is the same before and after
        before = compare.compare(rules, item.title, *sides)
        found = []
        for place, (label, api, version, answer) in enumerate(transcript):
            holder = {"answer": answer}
            found += [(place, holder, *spot) for spot in places(rules, api or label, answer, holder, "answer")
                      if not is_covered(rules, spot[0])]
        for number in range(min(PLACES, len(found))):
            self.try_place(rules, item, sides, found[(start + number * 7919) % len(found)], before)

    def try_place(self, rules, item, sides, spot, unchanged):
        place, holder, path, owner, key = spot
        transcript = sides[1].transcript
        step, before = transcript[place], owner[key]
        owner[key] = changed(before)
        transcript[place] = (*step[:3], holder["answer"])
        found = compare.compare(rules, item.title, *sides)
        owner[key] = before
        transcript[place] = step
        self.tried[item.api] = self.tried.get(item.api, 0) + 1
        if found == unchanged:
            self.missed.setdefault(item.api, []).append(f"{item.title}: {path} = {before!r}")

    def report(self, output):
        for api, count in self.tried.items():
            missed = self.missed.get(api, [])
            output.line(not missed, f"{api}: {count} changed answers are all seen", [f"not seen: {one}" for one in missed])
