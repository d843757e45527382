mod recorded;

use proptest::prelude::*;
use sqlparser::ast::Expr;

use super::statement::definition::{Definition, TableElement};
use super::statement::{Direction, Fetch, Setting, SettingValue, Statement, Transaction, Utility};
use super::*;
use recorded::ERRORS;

/// As `recorded` has errors.
fn outcome(text: &str) -> String {
    match parse(text) {
        Ok(_) => "ok".to_owned(),
        Err(error) => {
            let position = error.position.map(|position| format!(" @{position}")).unwrap_or_default();
            let hint = error.hint.as_ref().map(|hint| format!(" HINT {hint}")).unwrap_or_default();
            format!("{} {}{position}{hint}", error.code.as_str(), error.message)
        }
    }
}

#[test]
fn errors_are_those_of_postgresql() {
    let wrong: Vec<String> = ERRORS
        .iter()
        .filter(|(text, expected)| outcome(text) != *expected)
        .map(|(text, expected)| format!("{text}\n  {}\n  instead of\n  {expected}", outcome(text)))
        .collect();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn texts(source: &str) -> Vec<String> {
    parse(source).unwrap().iter().map(|parsed| parsed.text.statement().to_owned()).collect()
}

#[test]
fn a_text_is_split_where_statements_end() {
    assert_eq!(texts("  SELECT 1 ;; SELECT ';' ; "), ["SELECT 1", "SELECT ';'"]);
    assert_eq!(
        texts("SELECT $a$;$b$;$a$; SELECT \";\" FROM t"),
        ["SELECT $a$;$b$;$a$", "SELECT \";\" FROM t"]
    );
    assert_eq!(
        texts("SELECT 1 -- ; \n + 2; /* ; /* ; */ ; */ SELECT E'\\';'"),
        ["SELECT 1 -- ; \n + 2", "SELECT E'\\';'"]
    );
    assert_eq!(texts("-- nothing"), Vec::<String>::new());
    assert_eq!(texts(""), Vec::<String>::new());
}

fn utility(text: &str) -> Utility {
    let mut parsed = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    match parsed.pop().map(|parsed| parsed.statement) {
        Some(Statement::Utility(utility)) => (*utility).clone(),
        other => panic!("{text} is {other:?}"),
    }
}

fn setting(name: &str, values: &[&str]) -> Setting {
    let values = values.iter().map(|value| SettingValue::Text((*value).to_owned())).collect();
    Setting::Set { name: name.to_owned(), values, is_local: false }
}

#[test]
fn settings_are_read_in_all_their_forms() {
    let forms = [
        ("SET search_path TO a, \"B\", 'c'", setting("search_path", &["a", "B", "c"])),
        ("SET SESSION DateStyle = iso", setting("datestyle", &["iso"])),
        ("SET x.y = on", setting("x.y", &["on"])),
        ("SET TIME ZONE 'UTC'", setting("timezone", &["UTC"])),
        ("SET TIME ZONE LOCAL", setting("timezone", &[])),
        ("SET NAMES 'utf8'", setting("client_encoding", &["utf8"])),
        ("SET SCHEMA 'a'", setting("search_path", &["a"])),
        ("SET ROLE none", setting("role", &["none"])),
        ("SET SESSION AUTHORIZATION DEFAULT", setting("session_authorization", &[])),
        ("SET work_mem TO DEFAULT", setting("work_mem", &[])),
        ("RESET ALL", Setting::Reset(None)),
        ("SHOW TRANSACTION ISOLATION LEVEL", Setting::Show(Some("transaction_isolation".to_owned()))),
    ];
    for (text, expected) in forms {
        let Utility::Setting(read) = utility(text) else { panic!("{text}") };
        assert_eq!(read, expected, "{text}");
    }
    let Utility::Setting(local) = utility("SET LOCAL extra_float_digits = -3") else { panic!() };
    let values = vec![SettingValue::Number("-3".to_owned())];
    assert_eq!(local, Setting::Set { name: "extra_float_digits".to_owned(), values, is_local: true });
    let Utility::Setting(zone) = utility("SET TIME ZONE INTERVAL '+01:00' HOUR TO MINUTE") else { panic!() };
    let values = vec![SettingValue::Interval("+01:00".to_owned(), "hour to minute".to_owned())];
    assert_eq!(zone, Setting::Set { name: "timezone".to_owned(), values, is_local: false });
}

#[test]
fn fetches_are_read_in_all_their_forms() {
    let forms = [
        ("FETCH c", Direction::Forward(1)),
        ("FETCH next", Direction::Forward(1)),
        ("FETCH NEXT FROM c", Direction::Forward(1)),
        ("FETCH PRIOR c", Direction::Backward(1)),
        ("FETCH FIRST IN c", Direction::Absolute(1)),
        ("FETCH LAST c", Direction::Absolute(-1)),
        ("FETCH ABSOLUTE -2 c", Direction::Absolute(-2)),
        ("FETCH RELATIVE 0 c", Direction::Relative(0)),
        ("FETCH 100 FROM c", Direction::Forward(100)),
        ("FETCH -3 c", Direction::Forward(-3)),
        ("FETCH ALL c", Direction::Forward(i64::MAX)),
        ("FETCH FORWARD c", Direction::Forward(1)),
        ("FETCH BACKWARD ALL IN c", Direction::Backward(i64::MAX)),
    ];
    for (text, expected) in forms {
        let Utility::Fetch(Fetch { direction, .. }) = utility(text) else { panic!("{text}") };
        assert_eq!(direction, expected, "{text}");
    }
}

#[test]
fn tags_are_those_of_postgresql() {
    let tags = [
        ("BEGIN", "BEGIN"),
        ("START TRANSACTION READ ONLY", "START TRANSACTION"),
        ("END", "COMMIT"),
        ("ABORT", "ROLLBACK"),
        ("ROLLBACK TO a", "ROLLBACK"),
        ("SET a.b = 1", "SET"),
        ("DEALLOCATE ALL", "DEALLOCATE ALL"),
        ("CLOSE ALL", "CLOSE CURSOR ALL"),
        ("DECLARE c CURSOR FOR SELECT 1", "DECLARE CURSOR"),
        ("DISCARD TEMPORARY", "DISCARD TEMP"),
        ("LOCK t", "LOCK TABLE"),
        ("TRUNCATE t", "TRUNCATE TABLE"),
        ("CREATE UNIQUE INDEX CONCURRENTLY ON t (lower(a) text_pattern_ops DESC)", "CREATE INDEX"),
        ("CREATE USER u", "CREATE ROLE"),
        ("ALTER USER u RENAME TO v", "ALTER ROLE"),
        ("ALTER DATABASE d SET a.b = 1", "ALTER DATABASE"),
        ("GRANT a TO b", "GRANT ROLE"),
        ("GRANT SELECT, UPDATE (a) ON t TO b, PUBLIC WITH GRANT OPTION", "GRANT"),
        ("REVOKE GRANT OPTION FOR ALL ON ALL TABLES IN SCHEMA s FROM b CASCADE", "REVOKE"),
        (
            "ALTER DEFAULT PRIVILEGES FOR ROLE a IN SCHEMA s GRANT SELECT ON TABLES TO b",
            "ALTER DEFAULT PRIVILEGES",
        ),
        ("DROP OWNED BY a, b CASCADE", "DROP OWNED"),
        ("REASSIGN OWNED BY a TO CURRENT_USER", "REASSIGN OWNED"),
        ("DROP USER a", "DROP ROLE"),
    ];
    for (text, tag) in tags {
        assert_eq!(utility(text).tag(), tag, "{text}");
    }
}

#[test]
fn an_identity_column_takes_no_nulls() {
    let said = "42601 conflicting NULL/NOT NULL declarations for column \"a\"";
    let before = outcome("CREATE TABLE t (a int NULL GENERATED ALWAYS AS IDENTITY)");
    assert_eq!(before, format!("{said} @28"));
    let after = outcome("CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY NULL)");
    assert_eq!(after, format!("{said} @52"));
}

#[test]
fn what_seawall_lacks_is_refused_by_name() {
    let refused = [
        ("CREATE PROCEDURE f() LANGUAGE sql AS 'SELECT 1'", "CREATE PROCEDURE"),
        ("CREATE FUNCTION f() RETURNS int RETURN 1", "a function whose body is not a text"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'", "SECURITY DEFINER"),
        ("CREATE TRIGGER x AFTER INSERT ON t EXECUTE FUNCTION f()", "CREATE TRIGGER"),
        ("CREATE TYPE span AS RANGE (subtype = int)", "CREATE TYPE AS RANGE"),
        ("CREATE DATABASE d", "CREATE DATABASE"),
        ("CREATE EXTENSION IF NOT EXISTS x", "CREATE EXTENSION"),
        ("CREATE TABLE t (a int) PARTITION BY RANGE (a)", "PARTITION BY"),
        ("CREATE TABLE t (a int, EXCLUDE USING gist (a WITH =))", "EXCLUDE"),
        ("DO $$BEGIN END$$", "DO"),
        ("DROP CAST (a AS b)", "DROP CAST"),
        ("GRANT EXECUTE ON PROCEDURE f TO a", "GRANT and REVOKE of privileges ON PROCEDURE"),
        ("REVOKE USAGE ON TYPE t FROM a", "GRANT and REVOKE of privileges ON TYPE"),
        ("SET TRANSACTION SNAPSHOT 'a'", "SET TRANSACTION SNAPSHOT"),
    ];
    for (text, name) in refused {
        assert_eq!(outcome(text), format!("0A000 {name} is not supported"), "{text}");
    }
}

#[test]
fn savepoints_and_prepared_transactions() {
    let forms = [
        ("SAVEPOINT \"A b\"", Transaction::Savepoint("A b".to_owned())),
        ("RELEASE SAVEPOINT A", Transaction::Release("a".to_owned())),
        ("ROLLBACK WORK TO SAVEPOINT a", Transaction::RollbackTo("a".to_owned())),
        ("PREPARE TRANSACTION '7_=A'", Transaction::Prepare("7_=A".to_owned())),
        ("COMMIT PREPARED 'a'", Transaction::CommitPrepared("a".to_owned())),
        ("COMMIT AND NO CHAIN", Transaction::Commit(false)),
        ("ABORT AND CHAIN", Transaction::Rollback(true)),
    ];
    for (text, expected) in forms {
        let Utility::Transaction(read) = utility(text) else { panic!("{text}") };
        assert_eq!(read, expected, "{text}");
    }
}

#[test]
fn a_default_ends_where_the_next_clause_begins() {
    let text = "CREATE TABLE t (a int DEFAULT (1 + 2) * 3 NOT NULL, b bool DEFAULT 1 IS NOT DISTINCT FROM 2 UNIQUE, c text DEFAULT                 CASE WHEN true THEN 'x' END COLLATE \"C\")";
    let Utility::Define(definition) = utility(text) else { panic!() };
    let Definition::CreateTable(table) = *definition else { panic!() };
    let defaults: Vec<String> = table
        .elements
        .iter()
        .map(|element| match element {
            TableElement::Column(column) => column.default.as_ref().unwrap().text.statement().to_owned(),
            _ => panic!(),
        })
        .collect();
    assert_eq!(defaults, ["(1 + 2) * 3", "1 IS NOT DISTINCT FROM 2", "CASE WHEN true THEN 'x' END"]);
}

fn read_expression(text: &str) -> SqlResult<Expr> {
    expression(&Text::new(text))
}

#[test]
fn operators_bind_as_in_postgresql() {
    // All operators without a level of their own bind alike, from the left.
    for (text, grouped) in [
        ("a ~ b || c", "(a ~ b) || c"),
        ("a || b ~ c", "(a || b) ~ c"),
        ("a ->> b = c", "(a ->> b) = c"),
        ("a @> b || c", "(a @> b) || c"),
        ("- a ^ b", "(- a) ^ b"),
        ("NOT a ~ b", "NOT (a ~ b)"),
        ("a << b + c", "a << (b + c)"),
        ("a = b IS NULL", "(a = b) IS NULL"),
        ("a < b ISNULL", "(a < b) IS NULL"),
        ("~ a + b", "~ (a + b)"),
        ("- a::int", "- (a::int)"),
        ("- a * b", "(- a) * b"),
    ] {
        let (Ok(read), Ok(expected)) = (read_expression(text), read_expression(grouped)) else {
            panic!("{text}")
        };
        let plain = |expr: &Expr| format!("{expr:?}").replace("Nested(", "(");
        let positions = regex_free(&plain(&read));
        assert_eq!(positions, regex_free(&plain(&expected)), "{text}");
    }
}

/// Without places and parentheses.
fn regex_free(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("Span(") {
        result.push_str(&rest[..at]);
        rest = rest[at..].split_once("))").map_or("", |(_, after)| after);
    }
    result.push_str(rest);
    result.chars().filter(|character| !matches!(character, '(' | ')' | ' ')).collect()
}

#[test]
fn names_are_folded_and_cut() {
    let long = "A".repeat(80);
    let Utility::Transaction(Transaction::Savepoint(name)) = utility(&format!("SAVEPOINT {long}")) else {
        panic!()
    };
    assert_eq!(name, "a".repeat(63));
    let umlauts = "\u{e4}".repeat(40);
    let Utility::Transaction(Transaction::Savepoint(name)) = utility(&format!("SAVEPOINT {umlauts}")) else {
        panic!()
    };
    assert_eq!(name, "\u{e4}".repeat(31), "cut between characters");
}

#[test]
fn locks_and_frames_carry_what_sqlparser_lacks() {
    let body = |text: &str| query(&Text::new(text)).unwrap();
    let locked = body("SELECT * FROM a, b FOR NO KEY UPDATE OF a, b NOWAIT FOR KEY SHARE FOR UPDATE OF a");
    let modes: Vec<_> = locked.locks.iter().map(marked_lock).collect();
    use crate::algebra::RowLock;
    assert_eq!(modes, [Some(RowLock::NoKeyUpdate), Some(RowLock::KeyShare), None]);
    assert_eq!(locked_tables(&locked.locks[0]), ["a", "b"]);
    assert_eq!(locked_tables(&locked.locks[1]), Vec::<String>::new());
    assert_eq!(locked_tables(&locked.locks[2]), ["a"]);
}

/// On a thread of the size that others have, so that a stack that overflows is seen.
fn on_small_stack(run: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn nesting_is_refused_before_the_stack_ends() {
    on_small_stack(|| {
        for text in [
            format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000)),
            format!("SELECT {}1", "NOT ".repeat(10_000)),
            format!("SELECT {}1", "- ".repeat(100_000)),
            format!("SELECT 1{}", " + 1".repeat(100_000)),
            format!("SELECT 1{}", "::int".repeat(100_000)),
            format!("SELECT 1 WHERE a{}", " OR a".repeat(100_000)),
            format!("SELECT 1{}", " UNION SELECT 1".repeat(100_000)),
            format!("SELECT * FROM {}t{}", "(".repeat(10_000), ")".repeat(10_000)),
            format!("SELECT {}", "CASE WHEN ".repeat(10_000)),
            format!("SELECT a{}", "[1".repeat(10_000)),
            format!("{}SELECT 1", "WITH a AS (".repeat(10_000)),
            format!("{}SELECT 1", "EXPLAIN ".repeat(100_000)),
        ] {
            let answer = outcome(&text);
            assert!(answer.starts_with("54001") || answer.starts_with("42601"), "{answer}: {}", &text[..40]);
        }
    });
}

#[test]
fn long_lists_are_no_nesting() {
    on_small_stack(|| {
        let numbers = vec!["1"; 50_000].join(", ");
        assert_eq!(outcome(&format!("SELECT a FROM t WHERE a IN ({numbers})")), "ok");
        assert_eq!(outcome(&format!("INSERT INTO t VALUES ({numbers})")), "ok");
        let rows = vec!["(1, 'a' || 'b')"; 20_000].join(", ");
        assert_eq!(outcome(&format!("INSERT INTO t VALUES {rows}")), "ok");
        assert_eq!(outcome(&format!("SELECT 1 WHERE {}", vec!["a = 1"; 1_500].join(" OR "))), "ok");
        assert_eq!(outcome(&vec!["SELECT 1"; 10_000].join(";")), "ok");
    });
}

pub(super) const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "t",
    "a",
    "1",
    "'x'",
    "(",
    ")",
    ",",
    "*",
    "WHERE",
    "=",
    "AND",
    "NOT",
    "NULL",
    "INSERT",
    "INTO",
    "VALUES",
    "UPDATE",
    "SET",
    "DELETE",
    "CREATE",
    "TABLE",
    "INDEX",
    "ON",
    "int",
    "PRIMARY",
    "KEY",
    "REFERENCES",
    "DEFAULT",
    "ALTER",
    "ADD",
    "COLUMN",
    "DROP",
    "IF",
    "EXISTS",
    "AS",
    "WITH",
    "COPY",
    "STDIN",
    "CSV",
    "BEGIN",
    "COMMIT",
    "FOR",
    "SHARE",
    "OF",
    "OVER",
    "PARTITION",
    "BY",
    "ROWS",
    "BETWEEN",
    "UNBOUNDED",
    "PRECEDING",
    "EXCLUDE",
    "TIES",
    "CURRENT",
    "ROW",
    "OVERRIDING",
    "SYSTEM",
    "VALUE",
    "::",
    "[",
    "]",
    ".",
    ";",
    "$1",
    "$$",
    "E'\\n'",
    "\"q\"",
    "--",
    "/*",
    "*/",
    "U&'\\0041'",
    "CASE",
    "WHEN",
    "END",
    "INTERVAL",
    "EXPLAIN",
    "FETCH",
    "DECLARE",
    "CURSOR",
    "GRANT",
    "TO",
    "ROLE",
    "CONSTRAINT",
    "CHECK",
    "UNIQUE",
    "GENERATED",
    "IDENTITY",
    "\u{e4}",
    "-",
];

proptest! {
    /// Whatever is sent is a statement or an error.
    #[test]
    fn any_words_are_read(words in prop::collection::vec(prop::sample::select(WORDS), 0..40)) {
        let _outcome = outcome(&words.join(" "));
    }

    #[test]
    fn any_text_is_read(text in ".{0,60}") {
        let _outcome = outcome(&text);
    }

    /// A position is one of the text, or the one after it.
    #[test]
    fn positions_are_in_the_text(words in prop::collection::vec(prop::sample::select(WORDS), 0..12)) {
        let text = words.join(" ");
        if let Err(error) = parse(&text)
            && let Some(position) = error.position
        {
            let characters = u32::try_from(text.chars().count()).unwrap();
            prop_assert!((1..=characters + 1).contains(&position), "{text}: {position}");
        }
    }

    /// A part of a statement that is right is read without a panic.
    #[test]
    fn cut_statements_are_read(index in 0..STATEMENTS.len(), cut in 0_usize..200, put in prop::sample::select(WORDS)) {
        let text = STATEMENTS[index];
        let end = text.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(text.len());
        let _outcome = outcome(&text[..end]);
        let _outcome = outcome(&format!("{} {put} {}", &text[..end], &text[end..]));
    }
}

pub(super) const STATEMENTS: &[&str] = &[
    "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 10) SELECT n, sum(n) OVER (ORDER BY n ROWS BETWEEN 1 \
     PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM r FOR NO KEY UPDATE OF r SKIP LOCKED",
    "INSERT INTO s.t AS x (a, b) OVERRIDING SYSTEM VALUE VALUES (1, DEFAULT) ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING *",
    "CREATE TABLE IF NOT EXISTS t (a bigint GENERATED ALWAYS AS IDENTITY (START 5), b varchar(10) COLLATE \"C\" NOT NULL DEFAULT 'x', c int \
     REFERENCES o (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, CONSTRAINT k PRIMARY KEY (a) INCLUDE (b), CHECK (c > 0))",
    "ALTER TABLE ONLY t ALTER COLUMN a SET DATA TYPE int USING a::int, ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES o NOT VALID",
    "COPY t (a, b) FROM STDIN WITH (FORMAT csv, HEADER match, FORCE_NULL (a), ENCODING 'UTF8') WHERE a > 1",
    "DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT date '2020-01-01' + interval '1' day AT TIME ZONE 'UTC'",
];

#[test]
fn statements_that_are_cut_are_whole_at_first() {
    for text in STATEMENTS {
        assert_eq!(outcome(text), "ok", "{text}");
    }
}
