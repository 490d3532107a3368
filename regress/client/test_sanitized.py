#!/usr/bin/env python3
"""test_client.py with the library built by the address and undefined-behaviour sanitizers (make client-asan)."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from pgbroker_cluster import Cluster

BUILD = os.path.abspath(os.environ.get("BUILD") or os.path.join(ROOT, "build"))


def main():
    asan = subprocess.run(["gcc", "-print-file-name=libasan.so"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    with Cluster(brokers=1) as c:
        # What Python itself leaves is none of our leaks; those are looked for by the unit tests and the fuzzer.
        env = {**os.environ, "BUILD": os.path.join(BUILD, "client-asan"), "BOOTSTRAP": c.bootstrap, "LD_PRELOAD": asan,
               "ASAN_OPTIONS": "detect_leaks=0"}
        return subprocess.run([sys.executable, os.path.join(HERE, "test_client.py")], env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
