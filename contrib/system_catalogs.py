#!/usr/bin/env python3
"""Writes crates/server/values/src/system/catalogs.copy.zst: the rows that initdb of PostgreSQL 15 puts into the system catalogs.

    python3 contrib/system_catalogs.py --binaries /usr/lib/postgresql/15/bin

Makes a cluster in a temporary directory (initdb refuses to run as root), reads the catalogs and removes the cluster. Needs `zstd`.
The file is text, a block for each relation in the form of pg_dump:

    COPY pg_catalog.pg_cast (oid, castsource, casttarget, castfunc, castcontext, castmethod) FROM stdin;
    10014<TAB>20<TAB>21<TAB>714<TAB>a<TAB>f
    \\.

Differences from the catalogs: `reg*` columns are numbers; a `pg_node_tree` is its text as SQL, or missing; there are no TOAST tables;
the superuser is called `postgres`; what Seawall has not (PL/pgSQL, ICU collations) is left out. Columns whose names begin with an
underscore are not columns of the relation: they are results of functions over its rows.
"""

import argparse
import os
import pathlib
import subprocess
import tempfile

TARGET = pathlib.Path(__file__).parent.parent / "crates/server/values/src/system/catalogs.copy.zst"

# Relations whose rows are the same in every database, in the order of the file.
RELATIONS = [
    f"pg_catalog.pg_{name}"
    for name in (
        "namespace type proc operator cast aggregate am opclass opfamily amop amproc collation language conversion range class attribute"
        " index constraint description shdescription authid auth_members tablespace init_privs ts_config ts_config_map ts_dict ts_parser"
        " ts_template"
    ).split()
] + [f"information_schema.sql_{name}" for name in ("features", "implementation_info", "parts", "sizing")]

ORDERED_BY = {"pg_attribute": "attrelid, attnum"}

# What a column is read as, where it is not read as it is.
READ_AS = {
    "pg_class": {
        "reltoastrelid": "0",
        "relpages": "0",
        "reltuples": "CASE WHEN relkind IN ('r', 'i') THEN -1 ELSE 0 END",
        "relallvisible": "0",
        "relfrozenxid": "0",
        "relminmxid": "0",
    },
    "pg_proc": {"proargdefaults": "pg_get_expr(proargdefaults, 0)", "prosqlbody": "NULL"},
    "pg_type": {"typdefaultbin": "NULL"},
    "pg_constraint": {"conbin": "pg_get_expr(conbin, conrelid)"},
    "pg_authid": {"rolpassword": "NULL"},
}

# Results of functions, beside the columns of a relation.
BESIDE = {
    "pg_proc": {
        "_defaults": "(SELECT array_agg(pg_get_function_arg_default(oid, n::int) ORDER BY n)"
        " FROM generate_series(1, pronargs + cardinality(coalesce(proargmodes, '{}'))) n"
        " WHERE pg_get_function_arg_default(oid, n::int) IS NOT NULL)",
    },
    "pg_class": {"_view": "CASE relkind WHEN 'v' THEN pg_get_viewdef(oid) END"},
    "pg_index": {"_definition": "pg_get_indexdef(indexrelid)"},
    "pg_constraint": {"_definition": "pg_get_constraintdef(oid)"},
}

TOAST = "(SELECT oid FROM pg_class WHERE relnamespace = 99)"
LEFT_OUT = {
    "pg_class": "relnamespace = 99",
    "pg_attribute": f"attrelid IN {TOAST}",
    "pg_index": f"indexrelid IN {TOAST}",
    "pg_init_privs": "classoid = 'pg_language'::regclass",
    "pg_language": "lanname = 'plpgsql'",
    "pg_proc": "proname LIKE 'plpgsql%'",
    "pg_description": "objoid IN (SELECT oid FROM pg_proc WHERE proname LIKE 'plpgsql%'"
    " UNION SELECT oid FROM pg_language WHERE lanname = 'plpgsql' UNION SELECT oid FROM pg_extension"
    " UNION SELECT oid FROM pg_collation WHERE collprovider = 'i')",
    "pg_collation": "collprovider = 'i'",
}

# Results of functions that are the same in every database: as relations of their own.
RESULTS = {
    "pg_get_keywords": "SELECT * FROM pg_get_keywords() ORDER BY word",
    "pg_timezone_abbrevs": "SELECT * FROM pg_timezone_abbrevs ORDER BY abbrev",
    # What depends on the machine is left out: `setting`, and where it came from.
    "pg_settings": "SELECT name, unit, category, short_desc, extra_desc, context, vartype, min_val, max_val, enumvals, boot_val"
    " FROM pg_settings WHERE name NOT LIKE 'plpgsql.%' ORDER BY name",
}


class Cluster:
    def __init__(self, binaries, directory):
        self.binaries, self.data, self.directory = binaries, f"{directory}/data", directory
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        subprocess.run([f"{binaries}/initdb", "-D", self.data, "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "-A", "trust", "-N"],
                       check=True, stdout=subprocess.DEVNULL, env=environment)
        options = f"-c listen_addresses='' -c unix_socket_directories='{directory}' -c fsync=off -c autovacuum=off"
        self.control("start", "-o", options, "-l", f"{directory}/log")

    def control(self, *arguments):
        subprocess.run([f"{self.binaries}/pg_ctl", "-D", self.data, "-w", "-s", *arguments], check=True)

    def query(self, statement):
        command = [f"{self.binaries}/psql", "-X", "-q", "-A", "-t", "-F", "\t", "-h", self.directory, "-U", "postgres",
                   "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-c", statement]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def block(cluster, name, statement):
    """The rows of a statement, under the names of its columns."""
    names, _, rows = cluster.query(f"COPY ({statement}) TO STDOUT WITH (HEADER)").partition("\n")
    return f"COPY {name} ({', '.join(names.split())}) FROM stdin;\n{rows}\\.\n"


def relation(cluster, name):
    """The block of a relation: its columns as they are read, and those beside it."""
    schema, short = name.split(".")
    listed = cluster.query(
        "SELECT attname, typname FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid"
        f" WHERE attrelid = '{name}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    )
    columns = dict(line.split("\t") for line in listed.splitlines())
    values = {column: f"{column}::oid" if kind.startswith("reg") else column for column, kind in columns.items()}
    values.update(READ_AS.get(short, {}))
    values.update(BESIDE.get(short, {}))
    order = ORDERED_BY.get(short) or ", ".join(list(columns)[:3])
    listed = ", ".join(f"{value} AS {column}" for column, value in values.items())
    left_out = LEFT_OUT.get(short, "false")
    return block(cluster, name, f"SELECT {listed} FROM {name} {short} WHERE NOT coalesce({left_out}, false) ORDER BY {order}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", required=True, help="the directory of PostgreSQL 15's initdb")
    parser.add_argument("--target", default=TARGET, type=pathlib.Path, help="the file to write")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        cluster = Cluster(arguments.binaries, directory)
        try:
            text = "".join(relation(cluster, name) for name in RELATIONS)
            text += "".join(block(cluster, f"results.{name}", statement) for name, statement in RESULTS.items())
        finally:
            cluster.control("stop", "-m", "immediate")
    subprocess.run(["zstd", "-q", "-f", "-19", "-o", arguments.target], input=text.encode(), check=True)


if __name__ == "__main__":
    main()
