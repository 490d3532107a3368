"""What a coordinator says that the group has committed, asked for twice a second by somebody who is no member; and where the
partitions end, when nothing is written any more."""
import threading
import time

from kafka_client import Connection
from watcher import Watcher

GROUP = "chaos-group"
NONE = -1


def find_coordinator(connection):
    """Its address, or None."""
    answer = connection.call("FindCoordinator", 3, {"key": GROUP, "key_type": 0})
    return None if answer["error_code"] else f"{answer['host']}:{answer['port']}"


def ask_committed(connection, topic, partitions):
    """{partition: offset, or NONE}; None when that is not known now."""
    answer = connection.call("OffsetFetch", 5, {"group_id": GROUP, "topics": [{"name": topic, "partition_indexes": list(range(partitions))}]})
    rows = [row for topic in answer["topics"] for row in topic["partitions"]]
    if answer["error_code"] or len(rows) != partitions or any(row["error_code"] for row in rows):
        return None
    return {row["partition_index"]: row["committed_offset"] for row in rows}


class GroupWatcher(threading.Thread):
    def __init__(self, options, ending):
        super().__init__(daemon=True)
        self.options, self.ending = options, ending
        self.looks = []
        self.connection = None

    def connect(self):
        for address in self.options.bootstrap.split(","):
            try:
                with Connection(address, timeout=1) as k:
                    coordinator = find_coordinator(k)
                if coordinator:
                    self.connection = Connection(coordinator, timeout=2)
                    return
            except (OSError, AssertionError):
                continue

    def look(self):
        asked = time.monotonic()
        try:
            committed = ask_committed(self.connection, self.options.topic, self.options.partitions)
        except (OSError, AssertionError):
            committed = None
        if committed is None:
            self.connection.socket.close()
            self.connection = None
            return
        answered = time.monotonic()
        self.looks += [["OffsetFetch", p, offset, asked, answered] for p, offset in committed.items()]

    def run(self):
        while not self.ending.is_set():
            if self.connection is None:
                self.connect()
            if self.connection is not None:
                self.look()
            self.ending.wait(0.5)


def wait_for_all(options, notes, seconds):
    """Waits until the group has committed all that can be read when this is called, and says which partitions it has not."""
    until = time.monotonic() + seconds
    watcher = Watcher(options)
    behind = list(range(options.partitions))
    while time.monotonic() < until:
        watcher.learn()
        for p in [p for p in watcher.leaders if p not in watcher.latest]:
            watcher.watch(p)
        behind = [p for p in range(options.partitions) if notes.place[p] < watcher.latest.get(p, notes.place[p] + 1)]
        if not behind:
            break
        time.sleep(0.2)
    return [f"partition {p}: {notes.place[p]} is committed, {watcher.latest.get(p, 'an unknown offset')} is the end" for p in behind]
