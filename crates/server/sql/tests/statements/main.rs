//! Statements of SQL through a session, with answers that PostgreSQL 15 has given: see record.py.

mod automatic_analyze;
mod client;
mod function_limits;
mod memory;
mod observed;
mod user_types;

use client::{Received, TestDatabase};

/// Runs the statements of a recorded file in order, and compares what each returns.
fn check(file: &str, text: &str) {
    let database = TestDatabase::new();
    let mut client = database.connect();
    for set_up in ["create schema recorded", "set search_path = recorded", "set timezone = 'UTC'"] {
        client.run(set_up);
    }
    let mut different = Vec::new();
    let mut count = 0;
    for block in text.split("\n\n").map(|block| block.trim_matches('\n')).filter(|block| !block.is_empty()) {
        let (statement, expected) = block.split_once("\n----").expect("a statement and its answer");
        let expected = expected.trim_start_matches('\n');
        let answer = client.run(statement).join("\n");
        count += 1;
        if answer.trim_end() != expected.trim_end() {
            different.push(format!("{statement}\n  PostgreSQL: {expected}\n  here:       {answer}"));
        }
    }
    assert!(count > 0, "{file} is empty");
    assert!(
        different.is_empty(),
        "{file}: {} of {count} answers differ:\n{}",
        different.len(),
        different.join("\n\n")
    );
}

macro_rules! recorded {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name), include_str!(concat!("recorded/", stringify!($name), ".txt")));
            }
        )*
    };
}

recorded! {
    applications,
    changes,
    check_option,
    composites,
    constants,
    cursors,
    definitions,
    domain_columns,
    domains,
    drivers,
    elements,
    enums,
    equivalents,
    expressions,
    functions,
    grouping,
    grammar,
    inference,
    json,
    materialized_views,
    merge,
    parts,
    pg_statistic,
    privileges,
    queries,
    renamed,
    restricted,
    routines,
    rows,
    samples,
    search_cycle,
    statistics,
    transaction_ends,
    transactions,
    types,
    view_privileges,
    views,
}

/// A row that another transaction has changed is looked at again in its newest version, whichever way the statement finds it.
#[test]
fn a_change_of_a_row_that_was_waited_for_is_not_lost() {
    const ROUNDS: i32 = 50;
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create table t (id int primary key, k int unique, x int); insert into t values (1, 1, 0)");
    let ways = ["id = 1", "k = 1", "x >= 0", "id in (select 1)"];
    std::thread::scope(|scope| {
        for way in ways {
            let mut client = database.connect();
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let answer = client.run(&format!("update t set x = x + 1 where {way}"));
                    assert_eq!(answer, ["-> UPDATE 1"], "{way}");
                }
            });
        }
    });
    let expected = format!("{}", ROUNDS * 4);
    assert_eq!(client.run("select x from t"), ["[x]", &expected, "-> SELECT 1"]);
}

/// Sessions that are idle hold nothing, however their transaction has ended.
#[test]
fn a_table_can_be_changed_once_the_transactions_of_its_writers_have_ended() {
    let database = TestDatabase::new();
    let mut owner = database.connect();
    owner.run("create table t (a int primary key); set lock_timeout = '5s'");
    let mut writer = database.connect();
    let endings = [
        "insert into t values (1)",
        "begin; insert into t values (2); commit",
        "begin; insert into t values (3); rollback",
        "begin; insert into t values (4); select 1 / 0",
        "rollback; begin; lock table t in exclusive mode; rollback",
        "begin; insert into t values (5); prepare transaction 'writer'",
    ];
    for (number, ending) in endings.iter().enumerate() {
        let ended = writer.run(ending);
        if ending.contains("prepare") {
            assert_eq!(ended.last().unwrap(), "-> PREPARE TRANSACTION");
            assert_eq!(writer.run("rollback prepared 'writer'"), ["-> ROLLBACK PREPARED"]);
        }
        let changed = owner.run(&format!("alter table t add column c{number} int"));
        assert_eq!(changed, ["-> ALTER TABLE"], "after {ending}: {ended:?}");
    }
}

/// As in PostgreSQL 15: each statement of a text has the whole of `statement_timeout`, as it is when that statement begins.
#[test]
fn each_statement_of_a_text_has_a_limit_of_time_of_its_own() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    let mut received = Received::default();
    let text = "select 1; set statement_timeout = '5s'; select 2; set local statement_timeout = 0; select 3";
    client.session.simple_query(text, &mut received).unwrap();
    let five = Some(std::time::Duration::from_secs(5));
    assert_eq!(received.limits, [None, None, five, five, None]);
}

/// Others wait for `LOCK TABLE`, as its mode says.
#[test]
fn a_locked_table_is_not_written_by_others() {
    let database = TestDatabase::new();
    let (mut holder, mut other) = (database.connect(), database.connect());
    holder.run("create table t (a int primary key); create view v as select 1");
    let mut locked = |mode: &str| {
        assert_eq!(holder.run(&format!("begin; lock table t in {mode} mode")), ["-> BEGIN", "-> LOCK TABLE"]);
        let written = other.run("set lock_timeout = '100ms'; insert into t values (1); delete from t");
        let asked = other.run("begin; lock t in share mode nowait").pop().unwrap();
        other.run("rollback");
        holder.run("rollback");
        (written.last().unwrap() == "-> DELETE 1", asked)
    };
    let refused = "ERROR 55P03: could not obtain lock on relation \"t\"";
    assert_eq!(locked("share"), (false, "-> LOCK TABLE".to_owned()));
    assert_eq!(locked("row exclusive"), (true, refused.to_owned()));
    assert_eq!(locked("access exclusive"), (false, refused.to_owned()));
    assert_eq!(
        holder.run("begin; lock v").pop().unwrap(),
        "ERROR 0A000: LOCK TABLE of a view is not supported"
    );
}

/// What the engine has done is told under PostgreSQL's names.
#[test]
fn the_log_is_counted() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create table t (a int); insert into t values (1)");
    let counted = "select wal_records > 0, wal_bytes > 0, wal_sync > 0 from pg_stat_wal";
    assert_eq!(client.run(counted)[1..], ["t|t|t", "-> SELECT 1"]);
    let positions =
        "select pg_current_wal_flush_lsn() > '0/0', pg_current_wal_lsn() >= pg_current_wal_flush_lsn()";
    assert_eq!(client.run(positions)[1..], ["t|t", "-> SELECT 1"]);
    for relation in ["pg_stat_bgwriter", "pg_stat_archiver"] {
        assert_eq!(
            client.run(&format!("select count(stats_reset) from {relation}"))[1..],
            ["1", "-> SELECT 1"]
        );
    }
}

/// The same statement is planned in other ways for a value that most rows have and for one that few have, once that is known.
#[test]
fn plans_follow_what_analyze_has_found() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run(
        "create table orders (id int primary key, state text, customer int); \
         create index by_state on orders (state); \
         create table customers (id int primary key, name text); \
         insert into customers select n, 'c' || n from generate_series(1, 2000) n; \
         insert into orders select n, case when n % 100 = 0 then 'open' else 'done' end, n % 2000 + 1 \
         from generate_series(1, 10000) n",
    );
    let mut plan = |statement: &str| client.run(&format!("explain (costs off) {statement}")).join("\n");
    let by_state = |state: &str| format!("select * from orders where state = '{state}'");
    let joined = "select * from orders join customers on customers.id = customer";
    assert!(plan(&by_state("done")).contains("by_state"));
    assert!(plan(joined).contains("Nested Loop"));
    let mut analyst = database.connect();
    assert_eq!(analyst.run("analyze"), ["-> ANALYZE"]);
    assert!(plan(&by_state("done")).contains("Seq Scan"), "{}", plan(&by_state("done")));
    assert!(plan(&by_state("open")).contains("by_state"), "{}", plan(&by_state("open")));
    assert!(plan(joined).contains("Hash Join"), "{}", plan(joined));
    let few = format!("{joined} where orders.id < 20");
    assert!(plan(&few).contains("Nested Loop"), "{}", plan(&few));
}

/// What psql asks about one table has its answers, however the catalogs are joined.
#[test]
fn catalogs_are_joined_by_what_they_are_found_by() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create table t (a int primary key, b text unique); create table other (a int)");
    let indexes = "select c2.relname, conname from pg_class c, pg_class c2, pg_index i \
                   left join pg_constraint on conrelid = i.indrelid and conindid = i.indexrelid \
                   where c.oid = 't'::regclass and c.oid = i.indrelid and i.indexrelid = c2.oid order by 1";
    let rows = ["[relname|conname]", "t_b_key|t_b_key", "t_pkey|t_pkey", "-> SELECT 2"];
    assert_eq!(client.run(indexes), rows);
    let toast = "select c.relname, t.relname from pg_class c left join pg_class t on c.reltoastrelid = t.oid \
                 where c.oid = 'other'::regclass";
    assert_eq!(client.run(toast), ["[relname|relname]", "other|null", "-> SELECT 1"]);
    let columns = "select c.relname, a.attname, a.tableoid::regclass from pg_class c join pg_attribute a on a.attrelid = c.oid \
                   where c.oid = 'other'::regclass and a.attnum > 0";
    assert_eq!(client.run(columns)[1], "other|a|pg_attribute");
    for text in [indexes, toast] {
        let plan = client.run(&format!("explain (costs off) {text}")).join("\n");
        // No catalog is read to its end.
        assert_eq!(plan.matches("Filter:").count(), plan.matches("System Scan").count(), "{plan}");
    }
    let name = "select relname from pg_class where relname ~ '^(other)$' and pg_table_is_visible(oid)";
    assert_eq!(client.run(name), ["[relname]", "other", "-> SELECT 1"]);
    assert_eq!(client.run("select count(*) from pg_class where relname ~ '^(othe.)$'")[1], "1");
    // With a row of its own for each, all of them are read once.
    let all =
        client.run("explain (costs off) select 1 from pg_class c join pg_index i on i.indrelid = c.oid");
    assert!(all.join("\n").contains("Hash Join"), "{all:?}");
}

/// A plan that is kept is not run with rights that the user has no more.
#[test]
fn a_prepared_statement_is_checked_again_when_rights_change() {
    let database = TestDatabase::new();
    let (mut owner, mut client) = (database.connect(), database.connect());
    owner.run("create role clerk");
    owner.run("create table t (a int); create view v as select a from t; grant select on v to clerk");
    assert_eq!(client.run("prepare p as select * from v; prepare q as select * from t").len(), 2);
    assert_eq!(client.run("execute q"), ["[a]", "-> SELECT 0"]);
    client.run("set role clerk");
    let refused = |relation: &str| [format!("ERROR 42501: permission denied for {relation}")];
    assert_eq!(client.run("execute q"), refused("table t"));
    assert_eq!(client.run("execute p"), ["[a]", "-> SELECT 0"]);
    owner.run("revoke select on v from clerk");
    assert_eq!(client.run("execute p"), refused("view v"));
    owner.run("grant select on v to public");
    assert_eq!(client.run("execute p"), ["[a]", "-> SELECT 0"]);
    // What a view names is read with the rights of the view's owner.
    owner.run("alter view v owner to clerk");
    assert_eq!(owner.run("select * from v"), refused("table t"));
    client.run("reset role");
    assert_eq!(client.run("execute q"), ["[a]", "-> SELECT 0"]);
}

/// What a role may not do by another statement, it may not do by these.
#[test]
fn there_is_no_way_around_privileges() {
    let database = TestDatabase::new();
    let (mut owner, mut client) = (database.connect(), database.connect());
    owner.run("create role anna; create role keeper createrole; create role chief superuser; create table t (a int)");
    client.run("set role anna");
    assert_eq!(
        client.run_with("copy t from stdin", &["1\n"]),
        ["ERROR 42501: permission denied for table t"]
    );
    owner.run("grant insert on t to anna");
    assert_eq!(client.run_with("copy t from stdin", &["1\n"]), ["-> COPY 1"]);
    client.run("set role keeper");
    for (statement, refused) in [
        ("alter role chief rename to other", "must be superuser to rename superusers"),
        ("drop role chief", "must be superuser to drop superusers"),
        ("alter role chief set search_path = evil", "must be superuser to alter superusers"),
        ("alter role all set search_path = evil", "must be superuser to alter settings globally"),
    ] {
        assert_eq!(client.run(statement), [format!("ERROR 42501: {refused}")], "{statement}");
    }
    assert_eq!(client.run("alter role anna rename to bertha"), ["-> ALTER ROLE"]);
}

/// What a superuser has set for a role, and only superusers may set, the role does not take away from itself.
#[test]
fn a_role_resets_the_settings_that_it_may_set() {
    let database = TestDatabase::new();
    let mut owner = database.connect();
    owner.run("create role anna login");
    owner.run("alter role anna set log_min_duration_statement = 5; alter role anna set work_mem = '8MB'");
    let mut client = database.connect_by("anna", 7);
    assert_eq!(client.run("alter role anna reset all"), ["-> ALTER ROLE"]);
    let stored = "select setconfig from pg_db_role_setting";
    assert_eq!(owner.run(stored)[1..], ["{log_min_duration_statement=5}", "-> SELECT 1"]);
    assert_eq!(
        owner.run("select rolconfig from pg_roles where rolname = 'anna'")[1],
        "{log_min_duration_statement=5}"
    );
    owner.run("alter role anna reset all");
    assert_eq!(owner.run(stored)[1..], ["-> SELECT 0"]);
}

/// The text of a view has the names that its objects have now.
#[test]
fn a_view_shows_names_as_they_are_now() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create type mood as enum ('sad', 'ok'); create table t (m mood, \"B c\" int)");
    client.run("create view v as select *, 'sad'::mood as s from public.t where array[m] <> '{sad,ok}'");
    client.run("create view w as select x.m from t as x, t");
    let shown = |client: &mut client::Client, view: &str| {
        client.run(&format!("select definition from pg_views where viewname = '{view}'"))[1].clone()
    };
    let expected = " select t.m, t.\"B c\", 'sad'::mood as s from t where array[m] <> '{sad,ok}'::mood[];";
    assert_eq!(shown(&mut client, "v"), expected);
    assert_eq!(shown(&mut client, "w"), " select x.m from t as x, t;");
    client.run("alter table t rename to \"T\"; alter type mood rename value 'sad' to 'blue'");
    client.run("create schema s; alter type mood set schema s");
    let expected =
        " select t.m, t.\"B c\", 'blue'::s.mood as s from \"T\" t where array[m] <> '{blue,ok}'::s.mood[];";
    assert_eq!(shown(&mut client, "v"), expected);
    assert_eq!(shown(&mut client, "w"), " select x.m from \"T\" as x, \"T\" t;");
    assert_eq!(client.run("select count(*) from v, w")[1], "0");
    // What it cannot follow is refused.
    client.run("create table u (a int); create view named as table u");
    let refused = "ERROR 0A000: RENAME of a table that a view uses is not supported";
    assert_eq!(client.run("alter table u rename to x"), [refused]);
}

/// A view that reads itself is refused where it is written to, as where it is read.
#[test]
fn a_view_over_itself_is_not_followed_for_ever() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create view v as select 1 as a; create or replace view v as select a from v");
    let refused = ["ERROR 42P17: infinite recursion detected in rules for relation \"v\""];
    assert_eq!(client.run("update v set a = 2"), refused);
}

/// A transaction that cannot be prepared is over; a decision makes privileges that it brings count at once.
#[test]
fn prepared_transactions_leave_sessions_as_they_should_be() {
    let database = TestDatabase::new();
    let (mut owner, mut client) = (database.connect(), database.connect());
    owner.run("create role anna; create table t (a int); grant select on t to anna");
    owner.run("create table p (a int primary key); create table c (a int references p deferrable initially deferred)");
    client.run("begin; insert into c values (1)");
    assert!(client.run("prepare transaction 'x'")[0].starts_with("ERROR 23503"));
    assert_eq!(client.run("select 1"), ["[?column?]", "1", "-> SELECT 1"]);
    owner.run("begin; revoke select on t from anna; prepare transaction 'y'");
    client.run("set role anna");
    client.run("prepare s as select * from t");
    assert_eq!(client.run("execute s"), ["[a]", "-> SELECT 0"]);
    owner.run("commit prepared 'y'");
    assert_eq!(client.run("execute s"), ["ERROR 42501: permission denied for table t"]);
}

#[test]
fn messages_have_limits() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    for (statement, refused) in [
        ("select pg_notify('', 'x')", "channel name cannot be empty"),
        ("select pg_notify(repeat('c', 64), 'x')", "channel name too long"),
        ("select pg_notify('c', repeat('x', 8000))", "payload string too long"),
    ] {
        assert_eq!(client.run(statement), [format!("ERROR 22023: {refused}")], "{statement}");
    }
}

#[test]
fn a_prepared_statement_is_explained_with_its_parameters() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("prepare q (int) as select $1 + $1");
    let plan = client.run("explain (costs off) execute q (1)");
    assert!(plan.iter().any(|line| line.contains("Result")), "{plan:?}");
}

/// `WHERE` of `COPY` sees defaults, and is refused where PostgreSQL refuses it.
#[test]
fn copy_takes_the_rows_that_meet_its_condition() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create table c (a int, b int default 7, g int generated always as (a * 2) stored, s text)");
    let copied = client.run_with(
        "copy c (a, s) from stdin where a > 1 and b = 7 and c.s <> 'w'",
        &["1\tx\n2\ty\n", "\\N\tz\n3\tw\n"],
    );
    assert_eq!(copied, ["-> COPY 1"]);
    let copied = client.run_with("copy c from stdin where b is null", &["5\t\\N\tq\n6\t1\tr\n"]);
    assert_eq!(copied, ["-> COPY 1"]);
    let rows = client.run("select * from c order by a");
    assert_eq!(rows, ["[a|b|g|s]", "2|7|4|y", "5|null|10|q", "-> SELECT 2"]);
    for (condition, refused) in [
        ("g is null", "42P10: generated columns are not supported in COPY FROM WHERE conditions"),
        ("sum(a) > 1", "42803: aggregate functions are not allowed in COPY FROM WHERE conditions at 32"),
        ("a", "42804: argument of WHERE must be type boolean, not type integer at 32"),
        ("d > 1", "42703: column \"d\" does not exist at 32"),
        (
            "row_number() over () > 1",
            "42P20: window functions are not allowed in COPY FROM WHERE conditions at 32",
        ),
        (
            "generate_series(1,2) > 1",
            "0A000: set-returning functions are not allowed in COPY FROM WHERE conditions at 32",
        ),
        ("exists (select 1)", "0A000: cannot use subquery in COPY FROM WHERE condition"),
    ] {
        let answer = client.run_with(&format!("copy c (a, s) from stdin where {condition}"), &[]);
        assert_eq!(answer, [format!("ERROR {refused}")], "{condition}");
    }
}

/// A load that is larger than the memory of its transaction.
mod large {
    use seawall_engine::Options;

    use super::client::{Client, TestDatabase};

    const ROWS: u32 = 30_000;

    /// A database whose transactions take little memory.
    fn small() -> TestDatabase {
        TestDatabase::with(Options::default().with(|options| {
            options.memory.transaction_bytes = 2 << 20;
            options.memory.memtable_bytes = 8 << 20;
        }))
    }

    /// The data of `COPY`, in pieces that end anywhere.
    fn load(client: &mut Client, copy: &str, first: u32) -> Vec<String> {
        let rows: String = (first..first + ROWS)
            .map(|row| format!("{row}\t{}\tsome text of row {row}\n", row % 97))
            .collect();
        let (half, rest) = rows.split_at(rows.len() / 2);
        client.run_with(copy, &[half, rest])
    }

    fn counts(client: &mut Client) -> Vec<String> {
        client.run("select count(*), count(distinct a), sum(b) from t; select count(*) from t where b = 3; select s from t where a = 17")
    }

    #[test]
    fn it_goes_into_new_tables_old_ones_and_those_with_rows_and_keys() {
        let database = small();
        let (mut client, mut other) = (database.connect(), database.connect());
        // Created, truncated or there before; with a key and an index.
        for create in [
            "create table t (a int, b int, s text)",
            "create table t (a int primary key, b int, s text); create index on t (b)",
            "create table t (a int unique, b int, s text); insert into t values (0, 3, 'before'); delete from t",
            "create table t (a int, b int, s text primary key)",
        ] {
            for (begin, end) in [("", ""), ("begin; truncate t", "commit"), ("begin; savepoint s", "commit")]
            {
                client.run(&format!("drop table if exists t; {create}"));
                client.run(begin);
                assert_eq!(load(&mut client, "copy t from stdin", 1), ["-> COPY 30000"], "{create} {begin}");
                if begin.is_empty() {
                    assert_eq!(
                        load(&mut client, "copy t from stdin", ROWS + 1),
                        ["-> COPY 30000"],
                        "{create}"
                    );
                } else {
                    let seen = other.run("select count(*) from t");
                    assert!(begin.contains("truncate") || seen[1] == "0", "{seen:?}");
                    assert_eq!(
                        load(&mut client, "copy t from stdin", ROWS + 1),
                        ["-> COPY 30000"],
                        "{create} {begin}"
                    );
                }
                let inside = counts(&mut client);
                client.run(end);
                assert_eq!(inside, counts(&mut other), "{create} {begin}");
                assert_eq!(
                    inside[1],
                    format!("60000|60000|{}", (1..=60_000).map(|row| row % 97).sum::<u32>())
                );
            }
        }
    }

    /// The rows of an empty table go where nobody looks, unless others write to it, too.
    #[test]
    fn an_empty_table_is_loaded_beside_others_and_its_keys_stay_unique() {
        let database = TestDatabase::new();
        let (mut client, mut other) = (database.connect(), database.connect());
        client.run("create table t (a int primary key, b int, s text); create unique index on t (s)");
        let refused = |key| format!("ERROR 23505: duplicate key value violates unique constraint \"{key}\"");
        let rows: String = (1..=ROWS).map(|row| format!("{row}\t1\ttext {row}\n")).collect();
        for (last, key) in [("7\t1\tanother\n", "t_pkey"), ("0\t1\ttext 29999\n", "t_s_idx")] {
            assert_eq!(client.run_with("copy t from stdin", &[&rows, last]), [refused(key)]);
            assert_eq!(client.run("select count(*) from t")[1], "0");
        }
        // Not in the order of keys.
        let reversed: String = rows.lines().rev().map(|line| format!("{line}\n")).collect();
        assert_eq!(client.run_with("copy t from stdin", &[&reversed]), ["-> COPY 30000"]);
        assert_eq!(
            other.run("select count(*), count(distinct s), min(a), max(a) from t")[1],
            "30000|30000|1|30000"
        );
        assert_eq!(other.run("insert into t values (30000, 1, 'x')"), [refused("t_pkey")]);
        client.run("truncate t");
        // One that is not committed yet, and one that is prepared.
        other.run("begin; insert into t values (0, 0, 'x')");
        assert_eq!(load(&mut client, "copy t from stdin", 1), ["-> COPY 30000"]);
        other.run("commit");
        assert_eq!(client.run("select count(*) from t")[1], "30001");
        client.run("create table u (a int primary key, b int, s text)");
        other.run("begin; insert into u values (0, 0, 'x'); prepare transaction 'p'");
        assert_eq!(load(&mut client, "copy u from stdin", 1), ["-> COPY 30000"]);
        assert_eq!(other.run("commit prepared 'p'"), ["-> COMMIT PREPARED"]);
        assert_eq!(client.run("select count(*) from u")[1], "30001");
    }

    #[test]
    fn what_is_there_once_stays_so_and_a_rollback_leaves_nothing() {
        let database = small();
        let mut client = database.connect();
        client.run("create table t (a int primary key, b int, s text); insert into t values (29000, 0, 'x')");
        let refused = "ERROR 23505: duplicate key value violates unique constraint \"t_pkey\"";
        assert_eq!(load(&mut client, "copy t from stdin", 1), [refused]);
        assert_eq!(client.run("select count(*) from t"), ["[count]", "1", "-> SELECT 1"]);
        client.run("begin; create table u (a int unique, b int, s text)");
        assert_eq!(load(&mut client, "copy u from stdin", 1), ["-> COPY 30000"]);
        assert_eq!(client.run("select s from u where a = 5"), ["[s]", "some text of row 5", "-> SELECT 1"]);
        let again = client.run("insert into u values (29000)");
        assert_eq!(again, ["ERROR 23505: duplicate key value violates unique constraint \"u_a_key\""]);
        client.run("rollback");
        assert_eq!(client.run("select count(*) from u").len(), 1);
        // Changes of many rows, and rows made from others.
        client.run("create table u (a int primary key, b int)");
        let made = client.run("insert into u select g, 0 from generate_series(1, 40000) g");
        assert_eq!(made, ["-> INSERT 0 40000"]);
        assert_eq!(client.run("update u set b = b + 1"), ["-> UPDATE 40000"]);
        assert_eq!(client.run("insert into u select a + 40000, b from u"), ["-> INSERT 0 40000"]);
        assert_eq!(client.run("delete from u where a % 2 = 0"), ["-> DELETE 40000"]);
        let left = client.run("select count(*), sum(b), min(a), max(a) from u");
        assert_eq!(left[1], "40000|40000|1|79999");
        assert_eq!(client.run("create table v as select * from u"), ["-> SELECT 40000"]);
        assert_eq!(client.run("alter table v add primary key (a)"), ["-> ALTER TABLE"]);
        assert_eq!(client.run("select b from v where a = 777"), ["[b]", "1", "-> SELECT 1"]);
    }
}
