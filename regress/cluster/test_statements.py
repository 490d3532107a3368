#!/usr/bin/env python3
"""Every SQL call of brokerd (brokerd/meta/statements.def) against the real extension: names, argument types and
columns fit, and the role that brokerd logs in with may execute it."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))

from pgbroker_cluster import Cluster, SqlError
from tap import Tap

ROW = re.compile(r'META_STATEMENT\((\w+),\s*(\w+),\s*([\w |]+),\s*"((?:[^"\\]|\\.)*)"\)', re.S)
AS_BROKER = "$1::int, $2::bigint"


def statements():
    with open(os.path.join(ROOT, "brokerd/meta/statements.def"), encoding="utf-8") as file:
        text = file.read()
    return ROW.findall(text[text.index("*/"):]), len(re.findall(r"^META_STATEMENT\(", text, re.M))


def main():
    with Tap() as t, Cluster(brokers=0) as c:
        rows, lines = statements()
        t.ok(len(rows) > 10 and len(rows) == lines, "every row of statements.def is read")
        c.sql("CREATE ROLE some_brokerd LOGIN; GRANT broker_daemon TO some_brokerd")
        for name, _, flags, sql in rows:
            try:
                c.sql(f'SET ROLE some_brokerd; PREPARE "{name}" AS {sql}')
                t.ok(True, f"{name} fits the extension")
            except SqlError as error:
                t.ok(False, f"{name} fits the extension: {error}")
            t.equal("META_AS_BROKER" in flags, AS_BROKER in sql or AS_BROKER.replace("::", " ") in sql,
                    f"{name}: broker id and epoch are its first arguments where the flag says so")
        called = set(re.findall(r"broker_internal\.(\w+_\d+)\(", " ".join(row[3] for row in rows)))
        allowed = {row[0] for row in c.sql(
            "SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'broker_internal'::regnamespace "
            "AND p.proname ~ '_[0-9]+$' AND has_function_privilege('some_brokerd', p.oid, 'EXECUTE')")}
        t.equal(sorted(called - allowed), [], "the role may execute each of them")


main()
