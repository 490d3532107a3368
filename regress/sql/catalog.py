"""What an install of pg_broker is, as text: every object with its definition, rights and comment, without oids.

    describe(session) -> list of lines, sorted; two installs are the same when these are
"""

QUERIES = [
    # functions
    """SELECT 'function ' || p.oid::regprocedure || E'\\n  ' || concat_ws(' ', l.lanname, p.prokind, p.provolatile, p.prosecdef, p.proisstrict, p.proparallel, p.procost, p.prorows,
            pg_get_function_arguments(p.oid), '→', pg_get_function_result(p.oid), p.proconfig, md5(p.prosrc), p.probin, (SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(p.proacl) a))
        FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE p.pronamespace::regnamespace::text IN ('broker', 'broker_internal')""",
    # tables, views, sequences, indexes
    """SELECT c.relkind::text || ' ' || c.oid::regclass || E'\\n  ' || concat_ws(' ', c.relpersistence, c.reloptions, c.relrowsecurity, (SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(c.relacl) a),
            CASE c.relkind WHEN 'v' THEN md5(pg_get_viewdef(c.oid)) WHEN 'i' THEN pg_get_indexdef(c.oid) END)
        FROM pg_class c WHERE c.relnamespace::regnamespace::text IN ('broker', 'broker_internal')""",
    # columns, in order
    """SELECT 'column ' || c.oid::regclass || ' ' || row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum) || ' ' || concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
            pg_get_expr(d.adbin, d.adrelid))
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace::regnamespace::text IN ('broker', 'broker_internal') AND c.relkind IN ('r', 'v')""",
    "SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace::regnamespace::text IN ('broker', 'broker_internal')",
    "SELECT 'event trigger ' || evtname || ' ' || evtevent || ' ' || evttags::text || ' ' || evtfoid::regproc FROM pg_event_trigger",
    "SELECT 'schema ' || nspname || ' ' || coalesce((SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(nspacl) a), '') FROM pg_namespace WHERE nspname IN ('broker', 'broker_internal')",
    # comments of all of it
    """SELECT 'comment ' || i.type || ' ' || i.identity || ': ' || d.description FROM pg_description d, LATERAL pg_identify_object(d.classoid, d.objoid, d.objsubid) i
        WHERE i.schema IN ('broker', 'broker_internal') OR (i.type = 'schema' AND i.name IN ('broker', 'broker_internal'))""",
    # what belongs to the extension, and what of it is dumped
    """SELECT 'member ' || i.type || ' ' || i.identity FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e',
        LATERAL pg_identify_object(d.classid, d.objid, d.objsubid) i WHERE e.extname = 'pg_broker'""",
    "SELECT 'dumped ' || c::regclass || ' ' || extcondition[n] FROM pg_extension, unnest(extconfig) WITH ORDINALITY x(c, n) WHERE extname = 'pg_broker'",
    "SELECT 'help ' || h::text FROM broker_internal.help h",
    "SELECT 'help ' || h::text FROM broker_internal.help_columns h",
]


def describe(session):
    lines = []
    for query in QUERIES:
        lines += [row for row in session(query).splitlines() if row]
    return sorted(lines)
