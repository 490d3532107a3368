"""What is committed of the group at the end, by OffsetFetch and by SQL, and the history to be judged."""
import time

import group_checker
from group_watcher import GROUP, NONE, ask_committed, find_coordinator
from kafka_client import Connection
from pgbroker_cluster import wait_for


def fetched(stage, topic, partitions):
    """By OffsetFetch, None when nobody can say."""
    for broker in stage.brokers.values():
        try:
            with Connection(broker.address, timeout=5) as k:
                coordinator = find_coordinator(k)
            if coordinator:
                with Connection(coordinator, timeout=5) as k:
                    return ask_committed(k, topic, partitions)
        except OSError:
            continue
    return None


def stored(stage, topic, partitions):
    """By SQL."""
    rows = stage.sql(f"SELECT partition, committed_offset FROM broker.group_offsets WHERE group_id = '{GROUP}' AND topic = '{topic}'"
                     " AND committed_offset IS NOT NULL")
    return {**dict.fromkeys(range(partitions), NONE), **{int(p): int(offset) for p, offset in rows}}


def final_looks(stage, topic, partitions, found):
    asked, looks = time.monotonic(), []
    by_fetch = []
    try:
        wait_for(lambda: by_fetch.append(fetched(stage, topic, partitions)) or by_fetch[-1], 30, "what the group has committed")
        answers = [("OffsetFetch at the end", by_fetch[-1])]
    except AssertionError as error:
        found.add("stuck", str(error))
        answers = []
    answers.append(("PostgreSQL at the end", stored(stage, topic, partitions)))
    for who, committed in answers:
        looks += [[who, p, offset, asked, time.monotonic()] for p, offset in committed.items()]
    return looks


def history(stage, topic, partitions, account, found):
    """Of what the workload wrote, and of how it ended."""
    looks = account["looks"] + final_looks(stage, topic, partitions, found)
    return group_checker.History(account["commits"], account["holds"], looks, stage.lapses)
