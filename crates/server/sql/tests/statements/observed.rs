//! What operators see: statements, relations, the engine's state; and that a text which comes again is not parsed again.

use crate::client::TestDatabase;

/// The value of a metric.
fn metric(database: &TestDatabase, name: &str) -> u64 {
    let text = database.database.open_metrics();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name} is missing: {text}")).parse().expect("a number")
}

fn parses(database: &TestDatabase) -> u64 {
    metric(database, "seawall_sql_parses_total")
}

#[test]
fn a_text_that_comes_again_is_neither_parsed_nor_planned_again() {
    let database = TestDatabase::new();
    let mut first = database.connect_as(1);
    first.run("create table t (a int primary key, b text)");
    first.run("insert into t values (1, 'x')");
    let text = "select b from t where a = 1";
    assert_eq!(first.run(text), ["[b]", "x", "-> SELECT 1"]);
    let (parsed, planned) = (parses(&database), metric(&database, "seawall_sql_plans_total"));
    // This session and another one.
    let mut second = database.connect_as(2);
    for _ in 0..10 {
        assert_eq!(first.run(text), ["[b]", "x", "-> SELECT 1"]);
        assert_eq!(second.run(text), ["[b]", "x", "-> SELECT 1"]);
    }
    assert_eq!(parses(&database), parsed);
    assert_eq!(metric(&database, "seawall_sql_plans_total"), planned);
    assert_eq!(metric(&database, "seawall_sql_cached_plans_total"), 20);
}

/// What a text that differs from an earlier one in constants only costs: how many were parsed, and planned.
fn costs(database: &TestDatabase, of: impl FnOnce()) -> (u64, u64) {
    let now = || (parses(database), metric(database, "seawall_sql_plans_total"));
    let before = now();
    of();
    (now().0 - before.0, now().1 - before.1)
}

#[test]
fn texts_that_differ_in_constants_share_a_plan_that_finds_one_row() {
    let database = TestDatabase::new();
    let mut client = database.connect_as(1);
    client.run("create table t (a int primary key, b int, c text); create index on t (b)");
    client.run("insert into t values (0, 0, 'x')");
    client.run("update t set b = b + 1, c = 'y' where a = 0");
    client.run("select b, c from t where a = 0");
    let mut other = database.connect_as(2);
    let cost = costs(&database, || {
        for number in 1..=20 {
            let client = if number % 2 == 0 { &mut client } else { &mut other };
            let added = client.run(&format!("insert into t values ({number}, -{number}, 'x{number}')"));
            assert_eq!(added, ["-> INSERT 0 1"]);
            let text = format!("update t set b = b + {number}, c = 'it''s {number}' where a = {number}");
            assert_eq!(client.run(&text), ["-> UPDATE 1"]);
            let found = client.run(&format!("select b, c from t where a = {number}"));
            assert_eq!(found, ["[b|c]", &format!("0|it's {number}"), "-> SELECT 1"]);
        }
    });
    assert_eq!(cost, (0, 0));
    // A plan that statistics choose is made for each constant.
    client.run("select a from t where b = 1");
    let cost = costs(&database, || {
        client.run("select a from t where b = 2");
        client.run("select a from t where b = 3");
    });
    assert_eq!(cost, (2, 2));
    // Who has no rights has no plan of somebody who has.
    client.run("create role nobody; set role nobody");
    assert_eq!(client.run("select b, c from t where a = 3"), ["ERROR 42501: permission denied for table t"]);
    client.run("reset role");
    // What others see is what the client has written, and constants are not in it.
    let text = "select b, c from t where a = 7";
    client.run(&format!("  {text} ; "));
    let seen = other.run("select query from pg_stat_activity where pid = 1");
    assert_eq!(seen[1], text);
    let counted =
        other.run("select calls from pg_stat_statements where query = 'select b, c from t where a = $1'");
    assert_eq!(counted[1], "22");
}

#[test]
fn a_shared_plan_does_not_outlive_what_it_depends_on() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create table t (a int primary key, b int); insert into t values (1, 10), (2, 20)");
    let read = |number: u32| format!("select * from t where a = {number}");
    assert_eq!(client.run(&read(1)), ["[a|b]", "1|10", "-> SELECT 1"]);
    client.run("alter table t add column c text default 'new'");
    assert_eq!(client.run(&read(2)), ["[a|b|c]", "2|20|new", "-> SELECT 1"]);
    client.run("create temporary table t (a int primary key, d int)");
    assert_eq!(client.run(&read(1)), ["[a|d]", "-> SELECT 0"]);
    client.run("drop table pg_temp.t");
    assert_eq!(client.run(&read(1)), ["[a|b|c]", "1|10|new", "-> SELECT 1"]);
    client.run("begin; alter table t drop column b");
    assert_eq!(client.run(&read(2)), ["[a|c]", "2|new", "-> SELECT 1"]);
    client.run("rollback");
    assert_eq!(client.run(&read(2)), ["[a|b|c]", "2|20|new", "-> SELECT 1"]);
    client.run("create schema other; create table other.t (a int primary key); set search_path = other");
    assert_eq!(client.run(&read(2)), ["[a]", "-> SELECT 0"]);
}

#[test]
fn a_kept_plan_does_not_outlive_what_it_depends_on() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create table t (a int); insert into t values (1)");
    let text = "select * from t";
    assert_eq!(client.run(text), ["[a]", "1", "-> SELECT 1"]);
    // Definitions.
    client.run("alter table t add column b int");
    assert_eq!(client.run(text), ["[a|b]", "1|null", "-> SELECT 1"]);
    // The search path.
    client.run("create schema other; create table other.t (c int)");
    client.run("set search_path = other");
    assert_eq!(client.run(text), ["[c]", "-> SELECT 0"]);
    client.run("reset search_path");
    assert_eq!(client.run(text), ["[a|b]", "1|null", "-> SELECT 1"]);
    // Temporary tables, and tables of a transaction that is rolled back.
    client.run("create temporary table t (d int)");
    assert_eq!(client.run(text), ["[d]", "-> SELECT 0"]);
    let mut writer = database.connect_as(2);
    writer.run("begin; alter table t drop column b");
    assert_eq!(writer.run(text), ["[a]", "1", "-> SELECT 1"]);
    writer.run("rollback");
    assert_eq!(writer.run(text), ["[a|b]", "1|null", "-> SELECT 1"]);
    // The role.
    writer.run("create role reader");
    writer.run("set role reader");
    assert_eq!(writer.run(text), ["ERROR 42501: permission denied for table t"]);
    writer.run("reset role");
    writer.run("grant select on t to reader");
    writer.run("set role reader");
    assert_eq!(writer.run(text), ["[a|b]", "1|null", "-> SELECT 1"]);
    writer.run("reset role; revoke select on t from reader");
    writer.run("set role reader");
    assert_eq!(writer.run(text), ["ERROR 42501: permission denied for table t"]);
}

/// Constants are read when a statement is planned.
#[test]
fn settings_and_words_of_time_are_read_anew() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("set timezone = 'UTC'; set datestyle = 'ISO, MDY'");
    let day = "select '01/02/2003'::date";
    assert_eq!(client.run(day)[1], "2003-01-02");
    client.run("set datestyle = 'ISO, DMY'");
    assert_eq!(client.run(day)[1], "2003-02-01");
    let now = "select 'now'::timestamptz <> (select max(at) from times)";
    client.run("create table times (at timestamptz)");
    client.run("insert into times values ('now')");
    let parsed = parses(&database);
    client.run(now);
    client.run(now);
    assert_eq!(parses(&database), parsed + 2, "a plan with the time of its planning is not kept");
}

#[test]
fn kept_plans_are_bounded() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    for number in 0..5_000 {
        client.run(&format!("select {number}"));
    }
    let found = metric(&database, "seawall_sql_cached_plans_total");
    for number in 0..5_000 {
        client.run(&format!("select {number}"));
    }
    let found = metric(&database, "seawall_sql_cached_plans_total") - found;
    assert!(found < 5_000, "all of {found} plans were kept");
}

#[test]
fn statements_are_counted_without_their_constants() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create table t (a int primary key)");
    client.run("select pg_stat_statements_reset()");
    for number in 1..=3 {
        client.run(&format!("insert into t values ({number}), ({number} + 100)"));
    }
    client.run("SELECT a FROM t  WHERE a < 50");
    client.run("select a from t where a < 2");
    client.run("select a from no_such_table");
    let seen = client.run(
        "select query, calls, rows, wal_bytes > 0, total_exec_time > 0, min_exec_time <= max_exec_time \
         from pg_stat_statements where query ilike '%from t where%' or query ilike '%into t%' order by query",
    );
    assert_eq!(
        seen[1..],
        [
            "SELECT a FROM t WHERE a < $1|2|4|f|t|t",
            "insert into t values ($1), ($2 + $3)|3|6|t|t|t",
            "-> SELECT 2"
        ]
    );
    assert_eq!(
        client.run("select count(*) from pg_stat_statements where query like '%no_such_table%'")[1],
        "0"
    );
    client.run("create role somebody");
    client.run("set role somebody");
    let others = "select count(*) > 2, count(queryid), max(query) from pg_stat_statements where userid = 10";
    assert_eq!(client.run(others)[1], "t|0|<insufficient privilege>");
    assert_eq!(
        client.run("select pg_stat_statements_reset()"),
        ["ERROR 42501: permission denied for function pg_stat_statements_reset"]
    );
    client.run("reset role");
    client.run("select pg_stat_statements_reset()");
    // The reset itself ended after it had cleared the others.
    assert_eq!(
        client.run("select query, calls from pg_stat_statements")[1],
        "select pg_stat_statements_reset()|1"
    );
}

#[test]
fn relations_count_their_scans_and_changes() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create table t (a int primary key, b int, c text); create index on t (b)");
    client.run("insert into t select n, n, n from generate_series(1, 10) n");
    client.run("update t set b = 0 where a <= 4");
    client.run("delete from t where a = 10");
    client.run("select count(c) from t");
    client.run("select * from t where a = 3");
    let counted = |client: &mut crate::client::Client| {
        client.run(
            "select n_tup_ins, n_tup_upd, n_tup_del, n_mod_since_analyze, seq_scan > 0, seq_tup_read > 8, idx_scan > 0 \
             from pg_stat_user_tables where relname = 't'",
        )[1]
        .clone()
    };
    assert_eq!(counted(&mut client), "10|4|1|15|t|t|t");
    client.run("analyze t");
    assert_eq!(counted(&mut client), "10|4|1|0|t|t|t");
    let analyzed = "select n_live_tup > 0, last_analyze is not null, analyze_count, autoanalyze_count from pg_stat_user_tables";
    assert_eq!(client.run(analyzed)[1], "t|t|1|0");
    let sums =
        "select xact_commit > 5, xact_rollback, tup_inserted, tup_updated, tup_deleted from pg_stat_database";
    assert_eq!(client.run(sums)[1], "t|0|10|4|1");
    client.run("select 1 / 0");
    assert_eq!(client.run("select xact_rollback from pg_stat_database")[1], "1");
    assert_eq!(client.run("select count(*) from pg_statio_user_tables where relname = 't'")[1], "1");
}

#[test]
fn the_engine_is_seen_by_sql() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create table t (a int primary key, b text); create index t_b on t (b)");
    client.run("insert into t values (1, repeat('x', 1000))");
    client.run("begin; insert into t values (2, 'y'); prepare transaction 'first'");
    assert_eq!(
        client.run("select gid, owner, rows > 1, bytes > 5, age_seconds >= 0 from seawall.in_doubt")[1],
        "first|postgres|t|t|t"
    );
    client.run("rollback prepared 'first'");
    assert_eq!(client.run("select count(*) from seawall.in_doubt")[1], "0");
    client.run("checkpoint");
    assert_eq!(
        client.run("select trigger, duration_seconds > 0, rows > 0 from seawall.checkpoints where trigger = 'request'")[1],
        "request|t|t"
    );
    assert_eq!(client.run("select count(*) > 0 from seawall.segments where state = 'live'")[1], "t");
    assert_eq!(client.run("select count(*) from seawall.throttle")[1], "1");
    assert_eq!(client.run("select count(*) >= 0 from seawall.holds")[1], "t");
    assert_eq!(client.run("select count(*) from seawall.archives")[1], "0");
    let logged = client.run(
        "select table_name, index_name, rows, bytes > 1000 from seawall.log_by_table where table_name = 't' order by 2 nulls first",
    );
    assert_eq!(logged[1..], ["t|null|2|t", "t|t_b|2|t", "-> SELECT 2"]);
    // As a schema of the system.
    assert!(client.run("create table seawall.t (a int)")[0].starts_with("ERROR 42501"));
    assert_eq!(client.run("create schema seawall"), ["ERROR 42P06: schema \"seawall\" already exists"]);
    client.run("create schema mine");
    assert_eq!(
        client.run("alter schema mine rename to seawall"),
        ["ERROR 42P06: schema \"seawall\" already exists"]
    );
    client.run("create role somebody");
    client.run("set role somebody");
    assert_eq!(client.run("select count(*) from seawall.throttle")[1], "1");
}

/// What a superuser stores for a role counts for its sessions, whatever the role itself may set.
#[test]
fn settings_of_superusers_are_stored_by_superusers() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create role app login; alter role app set log_min_duration_statement = 250");
    client.run("alter role all set work_mem = '5MB'; alter role app set work_mem = '6MB'");
    let shown = "select current_setting('log_min_duration_statement'), current_setting('work_mem')";
    let mut app = database.connect_by("app", 0);
    assert_eq!(app.run(shown)[1], "250ms|6MB");
    let denied = "ERROR 42501: permission denied to set parameter \"log_min_duration_statement\"";
    assert_eq!(app.run("set log_min_duration_statement = 0"), [denied]);
    assert_eq!(app.run("alter role app set log_min_duration_statement = 0"), [denied]);
    assert_eq!(app.run("alter role app reset log_min_duration_statement"), [denied]);
    assert_eq!(database.connect().run(shown)[1], "-1|5MB");
}
