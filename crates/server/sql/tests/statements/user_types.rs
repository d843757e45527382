//! Types that users make: they are there as their transaction has left them, for all sessions, and after a restart.

use crate::client::TestDatabase;

#[test]
fn types_and_their_values_survive_a_restart() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create type mood as enum ('sad', 'happy'); create domain low as int check (value < 10)");
    client.run(
        "create table t (m mood primary key, l low default 3, ms mood[], check (m <> 'happy' or l > 1))",
    );
    client.run("insert into t values ('sad', 1, '{happy,sad}'), ('happy', default, null)");
    client
        .run("alter type mood add value 'ok' before 'happy'; alter type mood rename value 'sad' to 'gloomy'");
    client.run("insert into t values ('ok', 2, '{ok}')");
    drop(client);
    let database = database.reopened();
    let mut client = database.connect();
    let expected = ["[m|l|ms]", "gloomy|1|{happy,gloomy}", "ok|2|{ok}", "happy|3|null", "-> SELECT 3"];
    assert_eq!(client.run("select * from t order by m"), expected);
    let refused = "ERROR 23514: value for domain low violates check constraint \"low_check\"";
    assert_eq!(client.run("update t set l = 10 where m = 'ok'"), [refused]);
    let refused = "ERROR 23514: new row for relation \"t\" violates check constraint \"t_check\"";
    assert_eq!(client.run("update t set l = 1 where m = 'happy'"), [refused]);
}

#[test]
fn a_type_of_a_prepared_transaction_is_there_once_that_is_committed() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    let made = "begin; create type mood as enum ('a', 'b'); prepare transaction 'types'";
    assert_eq!(client.run(made).last().unwrap(), "-> PREPARE TRANSACTION");
    let unknown = ["ERROR 42704: type \"mood\" does not exist at 13"];
    assert_eq!(client.run("select 'a'::mood"), unknown);
    drop(client);
    let database = database.reopened();
    let mut client = database.connect();
    assert_eq!(client.run("select 'a'::mood"), unknown);
    assert_eq!(client.run("commit prepared 'types'"), ["-> COMMIT PREPARED"]);
    assert_eq!(client.run("select 'a'::mood"), ["[mood]", "a", "-> SELECT 1"]);
    assert_eq!(client.run("begin; drop type mood; prepare transaction 'gone'").len(), 3);
    assert_eq!(client.run("rollback prepared 'gone'"), ["-> ROLLBACK PREPARED"]);
    assert_eq!(client.run("select 'a'::mood"), ["[mood]", "a", "-> SELECT 1"]);
}

#[test]
fn another_session_sees_labels_as_they_are_when_its_statement_begins() {
    let database = TestDatabase::new();
    let (mut owner, mut other) = (database.connect(), database.connect());
    owner.run("create type mood as enum ('a', 'b'); create table t (m mood); insert into t values ('a')");
    assert_eq!(other.run("select m from t"), ["[m]", "a", "-> SELECT 1"]);
    other.run("prepare add (mood) as insert into t values ($1)");
    owner.run("begin; alter type mood rename value 'a' to 'z'; alter type mood add value 'c'");
    assert_eq!(other.run("select m from t"), ["[m]", "a", "-> SELECT 1"]);
    assert_eq!(owner.run("select m from t"), ["[m]", "z", "-> SELECT 1"]);
    owner.run("commit");
    assert_eq!(other.run("select m from t"), ["[m]", "z", "-> SELECT 1"]);
    assert_eq!(other.run("execute add ('c')"), ["-> INSERT 0 1"]);
    owner.run("begin; alter type mood add value 'd'; rollback");
    let unknown = ["ERROR 22P02: invalid input value for enum mood: \"d\" at 8"];
    assert_eq!(owner.run("select 'd'::mood"), unknown);
    assert_eq!(other.run("select 'd'::mood"), unknown);
}

/// Whoever drops a type waits for those who are about to give it to a column, and then sees the column.
#[test]
fn a_type_that_a_column_is_being_given_is_not_dropped() {
    let database = TestDatabase::new();
    let (mut maker, mut dropper) = (database.connect(), database.connect());
    maker.run("create type mood as enum ('a'); create domain few as int; create table u (a int)");
    dropper.run("set lock_timeout = '10s'");
    maker.run("begin; create table t (m mood); alter table u add column f few");
    std::thread::scope(|scope| {
        let types = scope.spawn(move || {
            let answers = (dropper.run("drop type mood"), dropper.run("drop domain few"));
            (answers, dropper)
        });
        maker.run("commit");
        let ((type_answer, domain_answer), mut dropper) = types.join().expect("no panic");
        let refused =
            |what: &str| format!("ERROR 2BP01: cannot drop type {what} because other objects depend on it");
        assert_eq!(type_answer, [refused("mood")]);
        assert_eq!(domain_answer, [refused("few")]);
        assert_eq!(dropper.run("drop table t; drop type mood"), ["-> DROP TABLE", "-> DROP TYPE"]);
    });
}

/// A row that was written by the old rules of a domain is not committed after the domain has got new ones.
#[test]
fn a_domain_gets_no_rule_that_a_row_under_way_breaks() {
    let database = TestDatabase::new();
    let (mut writer, mut owner) = (database.connect(), database.connect());
    owner.run("create domain few as int; create table t (f few); set lock_timeout = '100ms'");
    writer.run("begin; insert into t values (5)");
    let change = "alter domain few add check (value < 3)";
    assert_eq!(owner.run(change)[0].split(':').next().unwrap(), "ERROR 55P03");
    writer.run("commit");
    let refused = "ERROR 23514: column \"f\" of table \"t\" contains values that violate the new constraint";
    assert_eq!(owner.run(change), [refused]);
    owner.run("delete from t");
    assert_eq!(owner.run(change), ["-> ALTER DOMAIN"]);
    let refused = "ERROR 23514: value for domain few violates check constraint \"few_check\"";
    assert_eq!(writer.run("insert into t values (5)"), [refused]);
}

/// Whoever drops a type waits for those who are about to name it in a definition, and then sees that.
#[test]
fn a_type_that_a_definition_is_being_given_is_not_dropped() {
    for definition in [
        "create table t (a text default 'a'::mood::text)",
        "create table t (a text check (a <> 'a'::mood::text))",
        "alter table u alter column a set default 'a'::mood::text",
        "create view v as select 'a'::mood",
        "create materialized view v as select a from u where a <> 'a'::mood::text",
        "create domain d as text default 'a'::mood::text",
        "create domain d as text check (value <> 'a'::mood::text)",
    ] {
        let database = TestDatabase::new();
        let (mut maker, mut dropper, mut observer) =
            (database.connect(), database.connect(), database.connect());
        maker.run("create type mood as enum ('a'); create table u (a text)");
        dropper.run("set lock_timeout = '10s'");
        assert!(!maker.run(&format!("begin; {definition}"))[1].starts_with("ERROR"), "{definition}");
        std::thread::scope(|scope| {
            let dropped = scope.spawn(|| dropper.run("drop type mood"));
            while !has_waiting(&mut observer) && !dropped.is_finished() {
                std::thread::yield_now();
            }
            assert_eq!(maker.run("commit"), ["-> COMMIT"]);
            let refused = "ERROR 2BP01: cannot drop type mood because other objects depend on it";
            assert_eq!(dropped.join().expect("no panic"), [refused], "{definition}");
        });
    }
}

/// Whether a session waits for a lock.
fn has_waiting(observer: &mut crate::client::Client) -> bool {
    observer.run("select count(*) from pg_locks where not granted")[1] != "0"
}

/// A column of a domain that was made of another one keeps both as they are until it is committed, and is seen by whoever waited.
#[test]
fn a_domain_gets_no_rule_that_a_column_under_way_breaks() {
    let database = TestDatabase::new();
    let (mut maker, mut owner, mut observer) = (database.connect(), database.connect(), database.connect());
    owner.run("create domain few as int; create domain fewer as few; set lock_timeout = '10s'");
    maker.run("begin; create table t (f fewer); insert into t values (5)");
    let change = "alter domain few add check (value < 3)";
    std::thread::scope(|scope| {
        let changed = scope.spawn(|| owner.run(change));
        while !has_waiting(&mut observer) && !changed.is_finished() {
            std::thread::yield_now();
        }
        assert_eq!(maker.run("commit"), ["-> COMMIT"]);
        let refused =
            "ERROR 23514: column \"f\" of table \"t\" contains values that violate the new constraint";
        assert_eq!(changed.join().expect("no panic"), [refused]);
    });
    // A transaction that does not see the column cannot look at its values.
    owner.run("begin isolation level repeatable read; select 1");
    maker.run("create domain most as few; create table u (f most); insert into u values (7)");
    assert!(owner.run("delete from t")[0].starts_with("-> DELETE"));
    assert!(owner.run(change)[0].starts_with("ERROR 40001"));
}

/// A default that met the old conditions of a domain is not put into rows once there are others.
#[test]
fn a_column_is_not_added_by_old_rules_of_its_domain() {
    let database = TestDatabase::new();
    let (mut maker, mut owner, mut observer) = (database.connect(), database.connect(), database.connect());
    owner.run("create domain few as int; create table t (a int); insert into t values (1)");
    maker.run("set lock_timeout = '10s'");
    owner.run("begin; alter domain few add check (value < 3)");
    std::thread::scope(|scope| {
        let added = scope.spawn(|| maker.run("alter table t add column f few default 5"));
        while !has_waiting(&mut observer) && !added.is_finished() {
            std::thread::yield_now();
        }
        assert_eq!(owner.run("commit"), ["-> COMMIT"]);
        let answer = added.join().expect("no panic");
        assert!(answer[0].starts_with("ERROR 40001") || answer[0].starts_with("ERROR 23514"), "{answer:?}");
    });
    let refused = "ERROR 23514: value for domain few violates check constraint \"few_check\"";
    assert_eq!(maker.run("alter table t add column f few default 5"), [refused]);
}

#[test]
fn a_parameter_of_a_domain_meets_its_conditions() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create domain few as int check (value < 3)");
    let number = client.run("select 'few'::regtype::oid")[1].parse().expect("a number");
    client.session.parse("p", "select $1 + 1", &[number]).expect("a statement");
    assert_eq!(client.session.describe_statement("p").expect("it is there").parameters, [number]);
    client.session.bind("", "p", &[], &[Some(b"2")], &[]).expect("it is small");
    let refused = client.session.bind("", "p", &[], &[Some(b"3")], &[]).expect_err("it is not small");
    assert_eq!(refused.message, "value for domain few violates check constraint \"few_check\"");
}

#[test]
fn copy_takes_and_gives_values_of_types_of_users() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create type mood as enum ('a', 'b'); create domain few as int check (value < 3)");
    client.run("create table t (m mood, f few, ms mood[])");
    let copied = client.run_with("copy t from stdin", &["b\t1\t{a,b}\na\t\\N\t\\N\n"]);
    assert_eq!(copied, ["-> COPY 2"]);
    let refused = client.run_with("copy t from stdin", &["c\t1\t{}\n"]);
    assert_eq!(refused, ["ERROR 22P02: invalid input value for enum mood: \"c\""]);
    let refused = client.run_with("copy t from stdin", &["a\t3\t{}\n"]);
    assert_eq!(refused, ["ERROR 23514: value for domain few violates check constraint \"few_check\""]);
    let expected = ["a\t\\N\t\\N", "b\t1\t{a,b}", "-> COPY 2"];
    assert_eq!(client.run("copy (select * from t order by m) to stdout"), expected);
}

#[test]
fn types_belong_to_their_owners() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create role ann; create role bob; create type mood as enum ('a'); create domain few as int");
    client.run("alter type mood owner to ann; alter domain few owner to ann; set role bob");
    for (statement, what) in [
        ("alter type mood add value 'b'", "mood"),
        ("alter type mood rename to x", "mood"),
        ("drop type mood", "mood"),
        ("alter domain few set not null", "few"),
        ("drop domain few", "few"),
        ("comment on type mood is 'x'", "mood"),
    ] {
        assert_eq!(
            client.run(statement),
            [format!("ERROR 42501: must be owner of type {what}")],
            "{statement}"
        );
    }
    client.run("reset role");
    let owned = "ERROR 2BP01: role \"ann\" cannot be dropped because some objects depend on it";
    assert_eq!(client.run("drop role ann"), [owned]);
    assert_eq!(client.run("reassign owned by ann to bob; drop role ann").last().unwrap(), "-> DROP ROLE");
    assert_eq!(client.run("drop owned by bob; select 'a'::mood").len(), 2);
}
