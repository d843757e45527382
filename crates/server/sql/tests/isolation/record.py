#!/usr/bin/env python3
"""Records what sessions of PostgreSQL answer to the steps of recorded/*.steps, as recorded/*.txt.

    pip install 'psycopg[binary]'
    ./record.py "host=127.0.0.1 port=5432 user=postgres dbname=postgres"

The server needs max_prepared_transactions above 0. A step is a line `SESSION: STATEMENT`; a session that is waited for has none meanwhile.
{pid2} stands for the number of session 2. The answers of a session that has waited come after the step that let it go on.
"""
import pathlib
import sys
import time

import psycopg
from psycopg import pq

PATIENCE = 30


def lines_of(result):
    if result.status == pq.ExecStatus.FATAL_ERROR:
        code = result.error_field(pq.DiagnosticField.SQLSTATE).decode()
        return [f"ERROR {code}: " + result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY).decode()]
    lines = []
    if result.nfields:
        lines.append("[" + "|".join(result.fname(column).decode() for column in range(result.nfields)) + "]")
    for row in range(result.ntuples):
        values = (result.get_value(row, column) for column in range(result.nfields))
        lines.append("|".join("null" if value is None else value.decode() for value in values))
    return [*lines, "-> " + (result.command_status or b"").decode()]


class Session:
    def __init__(self, address):
        connection = psycopg.connect(address, autocommit=True)
        connection.execute("set search_path = recorded")
        connection.execute("set deadlock_timeout = '10ms'")
        self.connection, self.pgconn = connection, connection.pgconn
        self.pid, self.is_waiting = self.pgconn.backend_pid, False

    def send(self, statement):
        self.pgconn.send_query(statement.encode())

    def answer(self, monitor):
        """Its answer, or None: it waits."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.pgconn.consume_input()
            if not self.pgconn.is_busy():
                lines = []
                while result := self.pgconn.get_result():
                    lines += lines_of(result)
                return lines
            blocked = monitor.execute("select cardinality(pg_blocking_pids(%s)) > 0", [self.pid]).fetchone()[0]
            if blocked:
                # Longer than the search for a deadlock takes: who waits last is the victim.
                time.sleep(0.1)
                self.pgconn.consume_input()
                if self.pgconn.is_busy():
                    return None
        raise SystemExit("a session neither answers nor waits")


def record(address, path):
    monitor = psycopg.connect(address, autocommit=True)
    monitor.execute("drop schema if exists recorded cascade")
    monitor.execute("create schema recorded")
    sessions, out = {}, []
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            out.append(line)
            continue
        name, statement = line.split(": ", 1)
        for other in range(1, 10):
            if f"{{pid{other}}}" in statement:
                statement = statement.replace(f"{{pid{other}}}", str(sessions[str(other)].pid))
        session = sessions.setdefault(name, None) or Session(address)
        sessions[name] = session
        assert not session.is_waiting, f"{path}: {line}"
        session.send(statement)
        answer = session.answer(monitor)
        session.is_waiting = answer is None
        out += [line, *("    " + part for part in (["waits"] if answer is None else answer))]
        for other in sorted(sessions):
            if other != name and sessions[other].is_waiting:
                answer = sessions[other].answer(monitor)
                if answer is not None:
                    sessions[other].is_waiting = False
                    out += [f"  {other} goes on", *("    " + part for part in answer)]
    for session in sessions.values():
        session.connection.close()
    monitor.execute("drop schema recorded cascade")
    path.with_suffix(".txt").write_text("\n".join(out) + "\n")


for steps in sorted((pathlib.Path(__file__).parent / "recorded").glob("*.steps")):
    record(sys.argv[1], steps)
