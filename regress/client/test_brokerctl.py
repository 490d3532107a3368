#!/usr/bin/env python3
"""brokerctl as people and programs use it: what it prints, how it ends, and what it says to what makes no sense."""
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

from both import until
import pgbroker
from pgbroker_cluster import Cluster, free_port, wait_for
from tap import Tap


class Liar(threading.Thread):
    """A port where nobody speaks Kafka's protocol: it answers everything with the same bytes."""

    def __init__(self, answer):
        super().__init__(daemon=True)
        self.answer = answer
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            peer.recv(1000)
            peer.sendall(self.answer)
            peer.close()


def damage(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 0x10]))


def main():
    with Tap() as t, Cluster(brokers=2) as c, tempfile.TemporaryDirectory() as folder:
        def ctl(*args, text=""):
            return pgbroker.brokerctl(*args, bootstrap=c.bootstrap, text=text)

        def code(*args, text="", at=None):
            return pgbroker.brokerctl(*args, bootstrap=at or c.bootstrap, text=text, check_code=False)

        with t.case("topics: create, list, describe, grow, delete"):
            ctl("topics", "create", "a", "b", "-P", "3", "-c", "retention.ms=3600000")
            rows = [json.loads(line) for line in ctl("topics", "--json").splitlines()]
            assert [(r["topic"], r["partitions"]) for r in rows] == [("a", 3), ("b", 3)], rows
            ctl("topics", "grow", "b", "5")
            assert len(ctl("topics", "describe", "b").splitlines()) == 6
            assert code("topics", "create", "a")[0] == 1 and code("topics", "describe", "zzz")[0] == 4
            ctl("topics", "delete", "b")
            assert code("topics", "describe", "b")[0] == 4
        with t.case("configs: show and set"):
            assert "retention.ms  3600000  topic" in ctl("configs", "show", "topic", "a")
            ctl("configs", "set", "topic", "a", "-c", "retention.ms=7200000", "-c", "max.message.bytes=2000")
            # A broker answers from its own copy of the metadata, which hears of it a moment later, as in Kafka.
            wait_for(lambda: "7200000" in ctl("configs", "show", "topic", "a"), 10, "the new retention.ms is shown")
            assert code("configs", "set", "topic", "a", "-c", "retention.ms=x")[0] == 1
        with t.case("produce and consume: lines, keys, headers, JSON lines, whole files, formats"):
            ctl("produce", "a", "-p", "0", "-K", ":", "-H", "h=1", text="k:v\nk2:\n")
            assert ctl("consume", "a", "-o", "earliest", "-e", "-f", "%k|%s|%h|%o\\n") == "k|v|h=1|0\nk2||h=1|1\n"
            ctl("produce", "a", "-p", "1", "-J", "-z", "lz4", text='{"key":null,"value":"\\u00e9\\n","headers":{"x":null}}\n{"value":{"n":1}}\n')
            got = [json.loads(line) for line in ctl("consume", "a", "-p", "1", "-o", "earliest", "-e", "-J").splitlines()]
            assert [(r["key"], r["value"], r["headers"]) for r in got] == [(None, "é\n", {"x": None}), (None, '{"n":1}', {})], got
            with open(f"{folder}/f", "w", encoding="utf-8") as f:
                f.write("two\nlines")
            ctl("produce", "a", f"{folder}/f", "-w", "-p", "2")
            assert ctl("consume", "a", "-p", "2", "-o", "earliest", "-n", "1", "-f", "%s") == "two\nlines"
            assert ctl("consume", "a", "-o", "-1", "-e", "-k", "k2", "-f", "%o") == "1"
            # What consume prints, produce takes.
            text = ctl("consume", "a", "-p", "0", "-o", "earliest", "-e", "-J")
            ctl("topics", "create", "copy")
            ctl("produce", "copy", "-J", text=text)
            assert ctl("consume", "copy", "-o", "earliest", "-e", "-f", "%k %s\\n") == "k v\nk2 \n"
        with t.case("input that is no message is counted, the rest is sent"):
            rc, _, err = code("produce", "copy", "-J", text='{"value":"good"}\n{bad\n[1]\n{"valu":1}\n')
            assert rc == 1 and "line 2" in err and "3 messages were not delivered" in err, err
            rc, _, err = code("produce", "a", "-p", "0", text="x" * 5000 + "\nshort\n")
            assert rc == 1 and "not delivered" in err and "max.message.bytes" in err, err
            rc, _, err = code("produce", "a", "-p", "9", text="x\n")
            assert rc == 1 and "1 messages were not delivered" in err, err
        with t.case("groups: list, describe, reset, delete"):
            ctl("groups", "reset", "g", "a", "-o", "earliest")
            rows = [json.loads(line) for line in ctl("groups", "describe", "g", "--json").splitlines()]
            assert {(r["partition"], r["committed"]) for r in rows} == {(0, 0), (1, 0), (2, 0)}, rows
            assert sum(r["lag"] for r in rows) == 6 and "█" in ctl("groups", "describe", "g"), rows
            assert "g " in ctl("groups")
            ctl("groups", "reset", "g", "a", "-o", "latest", "-p", "1")
            ctl("groups", "delete", "g")
            assert code("groups", "describe", "g")[0] == 4
        with t.case("a member of a group that is ended by Ctrl-C commits what it printed"):
            member = subprocess.Popen([pgbroker.BROKERCTL, "consume", "a", "-g", "g2", "-o", "earliest", "-b", c.bootstrap],
                                      stdout=subprocess.PIPE, text=True)
            member.stdout.readline()
            rc, out, _ = code("groups", "reset", "g2", "a", "-o", "latest")
            assert rc == 1, out
            member.send_signal(signal.SIGINT)
            member.communicate(timeout=30)
            assert member.returncode == 0
            rows = [json.loads(line) for line in ctl("groups", "describe", "g2", "--json").splitlines()]
            assert sum(r["committed"] for r in rows) == 6, rows
        with t.case("offsets, cluster, bench"):
            assert ctl("offsets", "a", "-p", "0", "-o", "1h").splitlines()[1].split() == ["a", "0", "0", "3", "3", "0"]
            assert len(ctl("cluster", "--json").splitlines()) == 2
            ctl("topics", "create", "bench", "-P", "2")
            assert json.loads(ctl("bench", "produce", "bench", "-n", "5000", "-s", "10"))["messages"] == 5000
            assert json.loads(ctl("bench", "consume", "bench"))["messages"] == 5000
        with t.case("a mistyped command or option suggests the nearest"):
            for args, word in ((["topcs"], "topics"), (["topics", "lst"], "topics list"), (["consume", "a", "--ofset", "1"], "offset")):
                rc, _, err = code(*args)
                assert rc == 2 and f'did you mean "{word}' in err, err
            assert code("consume")[0] == 2 and code("consume", "a", "-n", "x")[0] == 2 and code("topics", "--help")[0] == 0
        with t.case("nobody there, and nobody who speaks Kafka: a sentence and exit code 3"):
            rc, _, err = code("cluster", "-t", "1", at=f"127.0.0.1:{free_port()}")
            assert rc == 3 and "Connection refused" in err, err
            for answer, words in ((b"HTTP/1.1 400 Bad Request\r\n\r\n", "no broker"), (b"", "is it a Kafka listener"),
                                  (b"\0\0\0\x08\0\0\0\x63junk", "answer to")):
                rc, _, err = code("cluster", "-t", "1", at=Liar(answer).address)
                assert rc == 3 and words in err, (answer, err)
            rc, _, err = code("produce", "a", "-X", "delivery.timeout.ms=500", text="x\ny\n", at=f"127.0.0.1:{free_port()}")
            assert rc == 1 and "2 messages were not delivered" in err, err
        with t.case("log dump: reads what brokers wrote, and says where it is damaged"):
            for b in c.brokers.values():
                b.stop()
            data = f"{folder}/data"
            shutil.copytree(c.broker(1).data, data)
            shutil.copytree(c.broker(2).data, f"{data}/2")
            out = ctl("log", "dump", data)
            assert "position" in out and ".log (" in out
            log = max(glob.glob(f"{data}/**/bench-*/*.log", recursive=True), key=os.path.getsize)
            rows = [json.loads(line) for line in ctl("log", "dump", log, "--json").splitlines()]
            assert rows and sum(r["records"] for r in rows) == 2500 and rows[0]["first"] == 0, rows[:1]
            damage(log, rows[-1]["position"] + 70)
            rc, _, err = code("log", "dump", log)
            assert rc == 5 and f"byte {rows[-1]['position']}" in err and "checksum" in err, err
            with open(log, "r+b") as f:
                f.truncate(rows[-1]["position"] + 100)
            rc, _, err = code("log", "dump", log)
            assert rc == 5 and f"byte {rows[-1]['position']}" in err, err
            snapshot = next(iter(glob.glob(f"{data}/**/*.snapshot", recursive=True)), None)
            if snapshot:
                assert code("log", "dump", snapshot)[0] == 0
                damage(snapshot, 8)
                assert code("log", "dump", snapshot)[0] == 5
            assert code("log", "dump", f"{folder}/nothing")[0] == 4
        if t.failed:
            t.note(c.logs())


if __name__ == "__main__":
    main()
