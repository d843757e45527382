#!/usr/bin/env python3
"""Records PostgreSQL's answers to the statements of recorded/*.sql as recorded/*.txt.

    pip install 'psycopg[binary]'
    ./record.py "host=127.0.0.1 port=5432 user=postgres dbname=postgres"

It runs each file in a schema of its own, which it drops. Statements are separated by empty lines.
"""
import pathlib
import sys

import psycopg
from psycopg import pq


def answer(connection, statement):
    lines = []
    connection.send_query(statement.encode())
    while result := connection.get_result():
        if result.status == pq.ExecStatus.FATAL_ERROR:
            code = result.error_field(pq.DiagnosticField.SQLSTATE).decode()
            message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY).decode()
            position = result.error_field(pq.DiagnosticField.STATEMENT_POSITION)
            lines.append(f"ERROR {code}: {message}" + (f" at {position.decode()}" if position else ""))
            continue
        if result.nfields:
            lines.append("[" + "|".join(result.fname(column).decode() for column in range(result.nfields)) + "]")
        for row in range(result.ntuples):
            values = (result.get_value(row, column) for column in range(result.nfields))
            lines.append("|".join("null" if value is None else value.decode() for value in values))
        lines.append("-> " + (result.command_status or b"").decode())
    return lines


def main():
    for path in sorted((pathlib.Path(__file__).parent / "recorded").glob("*.sql")):
        connection = psycopg.connect(sys.argv[1], autocommit=True)
        connection.execute("drop schema if exists recorded cascade")
        connection.execute("create schema recorded")
        connection.execute("set search_path = recorded")
        connection.execute("set timezone = 'UTC'")
        blocks = []
        for statement in path.read_text().split("\n\n"):
            statement = statement.strip("\n")
            if statement:
                blocks.append("\n".join([statement, "----", *answer(connection.pgconn, statement)]))
        connection.close()
        path.with_suffix(".txt").write_text("\n\n".join(blocks) + "\n")


main()
