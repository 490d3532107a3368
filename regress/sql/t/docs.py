"""docs/sql.md says what the catalog says.  Between its markers stand tables made from it:

    <!-- made from the catalog: NAME -->
    ...
    <!-- end of NAME -->

`make docs-sql` writes them anew; this test compares.  sql/README.md has a row for every function of the daemon.
"""
import os
import re

from session import Session
from tap import Tap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PAGE = os.path.join(ROOT, "docs", "sql.md")

BLOCKS = {
    "functions": """
        SELECT format(E'### %s\\n\\n    %s\\n\\n%s\\n\\nNeeds: %s.%s%s\\n\\n    %s\\n', h.name,
            CASE WHEN p.prokind = 'p' THEN 'CALL ' ELSE '' END || 'broker.' || h.name || '(' || replace(replace(regexp_replace(pg_get_function_arguments(p.oid), '::[a-z]+(\[\])?', '', 'g'), 'IN ', ''), ' DEFAULT ', ' = ') || ')'
                || coalesce(' → ' || pg_get_function_result(p.oid), ''),
            h.description, h.needs, coalesce(' Errors: ' || h.errors || '.', ''), coalesce(' Kafka: ' || h.kafka_cli || '.', ''), h.example)
        FROM broker_internal.help h JOIN pg_proc p ON p.pronamespace = 'broker'::regnamespace AND p.proname = h.name WHERE h.kind = 'function'
        ORDER BY array_position(ARRAY['create_topic', 'alter_topic', 'set_partition_count', 'set_replication_factor', 'delete_topic', 'delete_records', 'purge_topic', 'reassign_partitions', 'cancel_reassignment', 'elect_leaders', 'drain_broker', 'undrain_broker', 'decommission_broker', 'fence_broker', 'unfence_broker', 'unregister_broker', 'alter_cluster', 'alter_broker', 'wait', 'cancel_operation', 'help'], h.name), h.name""",
    "views": """
        SELECT format(E'### %s\\n\\n%s Needs: %s.%s\\n\\n    %s\\n\\n| column | type | |\\n|-|-|-|\\n%s\\n', h.name, h.description, h.needs, coalesce(' Kafka: ' || h.kafka_cli || '.', ''), h.example,
            (SELECT string_agg(format('| %s | %s | %s |', a.attname, format_type(a.atttypid, a.atttypmod), col_description(a.attrelid, a.attnum)), E'\\n' ORDER BY a.attnum)
                FROM pg_attribute a WHERE a.attrelid = ('broker.' || h.name)::regclass AND a.attnum > 0))
        FROM broker_internal.help h WHERE h.kind = 'view'
        ORDER BY array_position(ARRAY['cluster', 'problems', 'brokers', 'topics', 'partitions', 'replicas', 'reassignments', 'topic_configs', 'settings', 'config_keys', 'events', 'operations'], h.name), h.name""",
    "configs": """
        SELECT format(E'### Keys of a %s\\n\\n| key | type | default | allowed | used | |\\n|-|-|-|-|-|-|\\n%s\\n', s.scope,
            (SELECT string_agg(format('| `%s` | %s%s | %s | %s | %s | %s |', k.config_key, k.type, coalesce(', ' || k.unit, ''),
                CASE WHEN k.default_value = '' THEN 'empty' WHEN broker_internal.config_pretty(s.scope, k.config_key, k.default_value) = k.default_value THEN k.default_value
                    ELSE format('%s (%s)', k.default_value, broker_internal.config_pretty(s.scope, k.config_key, k.default_value)) END,
                k.allowed, CASE WHEN k.is_used THEN 'yes' ELSE 'no' END, k.description), E'\\n' ORDER BY k.config_key)
                FROM broker_internal.config_table() k WHERE k.scope = s.scope))
        FROM unnest(ARRAY['topic', 'cluster', 'broker', 'group']) WITH ORDINALITY s(scope, n) ORDER BY s.n""",
    "settings": """
        SELECT E'| setting | default | |\\n|-|-|-|\\n' || string_agg(format('| `%s` | %s%s | %s |', name, CASE WHEN boot_val = '' THEN 'empty' ELSE boot_val END, coalesce(' ' || unit, ''), short_desc), E'\\n' ORDER BY name) || E'\\n'
        FROM pg_settings WHERE name LIKE 'broker.%'""",
}


def block(name, text):
    return f"<!-- made from the catalog: {name} -->\n\n{text.strip()}\n\n<!-- end of {name} -->"


def pattern(name):
    return re.compile(rf"<!-- made from the catalog: {name} -->.*?<!-- end of {name} -->", re.S)


with Tap() as t:
    session = Session()
    session("SELECT * FROM broker.help()")  # loads the library, so that its settings are known
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    made = page
    for name, query in BLOCKS.items():
        if name == "settings":
            session("LOAD '$libdir/pg_broker'")
        made = pattern(name).sub(lambda _: block(name, session(query)), made)
        with t.case(f"docs/sql.md has the {name}"):
            assert pattern(name).search(page), "its markers are missing"
    if os.environ.get("UPDATE_DOCS"):
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(made)
    else:
        for name in BLOCKS:
            t.equal(pattern(name).search(page).group(0), pattern(name).search(made).group(0), f"docs/sql.md: {name} are as the catalog has them (make docs-sql)")

    with open(os.path.join(ROOT, "sql", "README.md"), encoding="utf-8") as file:
        readme = file.read()
    described = set(re.findall(r"^\| `(\w+)\(", readme, re.M))
    there = set(session("SELECT proname FROM pg_proc WHERE pronamespace = 'broker_internal'::regnamespace AND proname ~ '(_[0-9]+|^contract)$'").split())
    t.equal(sorted(there - described), [], "sql/README.md describes every function of the daemon")
    t.equal(sorted(described - there), [], "and none that is not there")
