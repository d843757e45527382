"""What an application does with psycopg: parameters of many types, prepared statements, pipelines, cursors, COPY, errors, cancels."""

import datetime
import decimal
import threading
import uuid

import psycopg
from psycopg.rows import dict_row

with psycopg.connect(autocommit=True) as connection:
    assert connection.info.server_version // 10000 == 15, connection.info.server_version
    connection.execute("create table t (id bigint primary key, name text, price numeric, at timestamptz, day date, "
                       "tag uuid, raw bytea, ok boolean, ratio float8, document jsonb, numbers int[])")

    # Values of many types, there and back, as text and in binary.
    row = (1, "Böb's", decimal.Decimal("12.345"), datetime.datetime(2026, 11, 23, 12, 0, 0, 250000, datetime.timezone.utc),
           datetime.date(2026, 11, 23), uuid.UUID("67e55044-10b1-426f-9247-bb680e5fe0c8"), b"\x00\xff", True, 0.1,
           psycopg.types.json.Jsonb({"a": [1, None, "x"]}), [1, 2, 3])
    marks = ", ".join(["%s"] * len(row))
    connection.execute(f"insert into t values ({marks})", row)
    for binary in (False, True):
        found = connection.execute("select * from t", binary=binary).fetchone()
        expected = row[:9] + ({"a": [1, None, "x"]}, [1, 2, 3])
        assert found == expected, (binary, found)
    connection.execute(f"insert into t values ({marks})", (2,) + (None,) * 10)

    # A statement that is prepared after some uses.
    for number in range(20):
        found = connection.execute("select name from t where id = %s", (number,)).fetchone()
        assert (found is not None) == (number in (1, 2)), number

    # Rows by name; a server-side cursor in a transaction.
    with connection.cursor(row_factory=dict_row) as cursor:
        assert cursor.execute("select id, ok from t order by id").fetchall() == [{"id": 1, "ok": True}, {"id": 2, "ok": None}]
    with connection.transaction():
        with connection.cursor(name="numbers") as cursor:
            cursor.itersize = 100
            assert sum(number for number, in cursor.execute("select generate_series(1, 1000)")) == 500500

    # Transactions, savepoints, errors.
    try:
        with connection.transaction():
            connection.execute("insert into t (id) values (3)")
            try:
                with connection.transaction():
                    connection.execute("insert into t (id) values (1)")
            except psycopg.errors.UniqueViolation as error:
                assert error.diag.constraint_name == "t_pkey" and error.diag.table_name == "t", error.diag
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert connection.execute("select count(*) from t").fetchone() == (2,)

    # A statement with parameters that fails takes its transaction along.
    with connection.transaction(force_rollback=True):
        try:
            connection.execute("insert into t (id) values (%s)", (1,))
        except psycopg.errors.UniqueViolation:
            pass
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
        try:
            connection.execute("select %s::int", (1,))
            raise AssertionError("a statement in a failed transaction")
        except psycopg.errors.InFailedSqlTransaction:
            pass

    # A pipeline: one round trip for many statements.
    with connection.pipeline():
        cursors = [connection.execute("insert into t (id) values (%s) returning id", (number,)) for number in range(10, 30)]
        assert [cursor.fetchone()[0] for cursor in cursors] == list(range(10, 30))
    try:
        with connection.pipeline():
            connection.execute("insert into t (id) values (100)")
            connection.execute("select 1 / 0")
            connection.execute("insert into t (id) values (101)")
        raise AssertionError("a pipeline with an error succeeds")
    except psycopg.errors.DivisionByZero:
        pass
    assert connection.execute("select count(*) from t where id >= 100").fetchone() == (0,)

    with connection.cursor() as cursor:
        cursor.executemany("update t set name = %s where id = %s", [(f"n{number}", number) for number in range(10, 30)])
        assert cursor.rowcount == 20

    # COPY both ways, as text and in binary.
    with connection.cursor() as cursor:
        with cursor.copy("copy t (id, name) from stdin") as copy:
            for number in range(1000, 6000):
                copy.write_row((number, "tab\t" * 10))
        with cursor.copy("copy (select id, name from t where id >= 1000 order by id) to stdout") as copy:
            rows = list(copy.rows())
        assert len(rows) == 5000 and rows[-1] == ("5999", "tab\t" * 10), rows[-1]
        try:
            with cursor.copy("copy t (id) from stdin") as copy:
                copy.write_row((7000,))
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
    assert connection.execute("select count(*) from t where id = 7000").fetchone() == (0,)

    # A statement is cancelled from another thread.
    timer = threading.Timer(0.2, connection.cancel)
    timer.start()
    try:
        connection.execute("select pg_sleep(3600)")
        raise AssertionError("a cancelled statement succeeds")
    except psycopg.errors.QueryCanceled:
        pass
    timer.join()

    # Messages reach a session that is idle.
    connection.execute("listen doors")
    with psycopg.connect(autocommit=True) as other:
        other.execute("select pg_notify('doors', 'open')")
        messages = list(connection.notifies(timeout=30, stop_after=1))
        assert [(message.channel, message.payload) for message in messages] == [("doors", "open")], messages
        assert messages[0].pid == other.info.backend_pid

        # A session ends another one.
        other.execute("select pg_terminate_backend(%s)", (connection.info.backend_pid,))
        try:
            connection.execute("select 1")
            raise AssertionError("a session that was ended goes on")
        except psycopg.OperationalError:
            pass

with psycopg.connect(autocommit=True) as connection:
    # Settings and notices.
    notices = []
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    connection.execute("drop table if exists missing")
    assert notices == ['table "missing" does not exist, skipping'], notices
    connection.execute("set application_name = 'test of drivers'")
    assert connection.info.parameter_status("application_name") == "test of drivers"

print("done")
