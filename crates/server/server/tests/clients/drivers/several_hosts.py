"""What an application does with psycopg that knows several servers: it finds the primary or a standby, and goes on after a promotion."""

import os

import psycopg

primary, standby, nobody = (os.environ[name] for name in ("PRIMARY_PORT", "STANDBY_PORT", "NOBODY_PORT"))


def connect(wanted, *ports):
    hosts = ",".join(["127.0.0.1"] * len(ports))
    return psycopg.connect(host=hosts, port=",".join(ports), target_session_attrs=wanted, autocommit=True)


def port(wanted, *ports):
    with connect(wanted, *ports) as connection:
        return str(connection.info.port)


everybody = (nobody, standby, primary)
for wanted, expected in [("any", standby), ("read-write", primary), ("primary", primary), ("standby", standby),
                         ("read-only", standby), ("prefer-standby", standby)]:
    assert port(wanted, *everybody) == expected, wanted
assert port("prefer-standby", nobody, primary) == primary
try:
    connect("standby", nobody, primary)
    raise AssertionError("a primary is taken for a standby")
except psycopg.OperationalError:
    pass

with connect("read-write", *everybody) as connection:
    connection.execute("create table t (a int)")
    assert connection.info.parameter_status("in_hot_standby") == "off"

# A session of the standby reads, is refused when it writes, and may write after the promotion.
with connect("standby", *everybody) as connection:
    assert connection.info.parameter_status("in_hot_standby") == "on"
    try:
        connection.execute("create table u (a int)")
        raise AssertionError("a standby is written to")
    except psycopg.errors.ReadOnlySqlTransaction as error:
        assert error.sqlstate == "25006", error.sqlstate
    assert connection.execute("select pg_promote()").fetchone() == (True,)
    connection.execute("create table u (a int)")
    assert connection.info.parameter_status("in_hot_standby") == "off"

# The old primary is out of the list.
assert port("read-write", nobody, standby) == standby
print("done")
