//! Answers are those of PostgreSQL 15.

use seawall_engine::{Durability, ReplicationLevel};
use seawall_values::settings::{DateOrder, DateStyle, IntervalStyle, TimeZone};

use super::*;

fn session() -> SessionSettings {
    SessionSettings::new("alice", true, &[]).unwrap()
}

fn set(settings: &mut SessionSettings, name: &str, values: &[&str]) -> SqlResult<()> {
    let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
    settings.set(name, &values, false)
}

/// What `SHOW` prints after `SET`, or the error with its detail and hint.
fn shown(name: &str, values: &[&str]) -> String {
    let mut settings = session();
    match set(&mut settings, name, values).and_then(|()| settings.show(name)) {
        Ok(value) => value,
        Err(error) => {
            let more = [&error.detail, &error.hint].into_iter().flatten();
            more.fold(error.to_string(), |text, more| format!("{text}\n{more}"))
        }
    }
}

#[test]
fn values_are_read_and_shown_by_their_kinds() {
    for (name, value, expected) in [
        ("work_mem", "64MB", "64MB"),
        ("work_mem", "1.5MB", "1536kB"),
        ("statement_timeout", "1.5s", "1500ms"),
        ("statement_timeout", "90000", "90s"),
        ("statement_timeout", "0", "0"),
        ("enable_seqscan", "of", "off"),
        ("enable_seqscan", "TR", "on"),
        ("client_min_messages", "DEBUG", "debug2"),
        ("client_min_messages", "Info", "info"),
        ("client_encoding", "utf-8", "UTF8"),
        ("client_encoding", "unicode", "UTF8"),
        ("seq_page_cost", "1.50", "1.5"),
        ("seq_page_cost", "1e10", "1e+10"),
        ("synchronous_commit", "1", "on"),
        ("synchronous_commit", "remote_write", "remote_write"),
        ("constraint_exclusion", "yes", "on"),
        ("vacuum_cost_delay", "1.5", "1500us"),
        ("default_statistics_target", "2.5", "2"),
        ("default_transaction_isolation", "Repeatable Read", "repeatable read"),
        ("application_name", "häh x", "h??h x"),
        ("default_text_search_config", "english", "pg_catalog.english"),
        ("effective_cache_size", "100", "800kB"),
        ("role", "none", "none"),
        ("session_authorization", "alice", "alice"),
    ] {
        assert_eq!(shown(name, &[value]), expected, "{name} = {value}");
    }
}

#[test]
fn wrong_values_are_refused_with_reasons() {
    for (name, value, expected) in [
        ("work_mem", "abc", "22023: invalid value for parameter \"work_mem\": \"abc\""),
        (
            "work_mem",
            "10 XB",
            "22023: invalid value for parameter \"work_mem\": \"10 XB\"\n\
             Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".",
        ),
        (
            "work_mem",
            "1",
            "22023: 1 kB is outside the valid range for parameter \"work_mem\" (64 .. 2147483647)",
        ),
        (
            "work_mem",
            "99999999999",
            "22023: invalid value for parameter \"work_mem\": \"99999999999\"\nValue exceeds integer range.",
        ),
        ("enable_seqscan", "o", "22023: parameter \"enable_seqscan\" requires a Boolean value"),
        (
            "seq_page_cost",
            "-2",
            "22023: -2 is outside the valid range for parameter \"seq_page_cost\" (0 .. 1.79769e+308)",
        ),
        (
            "bytea_output",
            "foo",
            "22023: invalid value for parameter \"bytea_output\": \"foo\"\nAvailable values: escape, hex.",
        ),
        ("server_version", "12", "55P02: parameter \"server_version\" cannot be changed"),
        (
            "max_connections",
            "4",
            "55P02: parameter \"max_connections\" cannot be changed without restarting the server",
        ),
        ("fsync", "on", "55P02: parameter \"fsync\" cannot be changed now"),
        (
            "log_connections",
            "on",
            "55P02: parameter \"log_connections\" cannot be set after connection start",
        ),
        ("foo", "1", "42704: unrecognized configuration parameter \"foo\""),
        (
            "a b.c",
            "5",
            "42602: invalid configuration parameter name \"a b.c\"\n\
             Custom parameter names must be two or more simple identifiers separated by dots.",
        ),
        (
            "datestyle",
            "foo",
            "22023: invalid value for parameter \"DateStyle\": \"foo\"\nUnrecognized key word: \"foo\".",
        ),
        (
            "datestyle",
            "iso,,dmy",
            "22023: invalid value for parameter \"DateStyle\": \"iso,,dmy\"\nList syntax is invalid.",
        ),
        (
            "client_encoding",
            "latin1",
            "0A000: invalid value for parameter \"client_encoding\": \"latin1\"\n\
             Conversion between LATIN1 and UTF8 is not supported.",
        ),
        ("role", "bob", "0A000: SET ROLE to another role is not supported"),
        ("session_authorization", "bob", "0A000: SET SESSION AUTHORIZATION to another role is not supported"),
        ("default_with_oids", "on", "0A000: tables declared WITH OIDS are not supported"),
        ("standard_conforming_strings", "off", "0A000: standard_conforming_strings = off is not supported"),
        (
            "default_tablespace",
            "foo",
            "22023: invalid value for parameter \"default_tablespace\": \"foo\"\nTablespace \"foo\" does not exist.",
        ),
        ("temp_tablespaces", "foo", "42704: tablespace \"foo\" does not exist"),
        ("lc_messages", "xx_YY", "22023: invalid value for parameter \"lc_messages\": \"xx_YY\""),
    ] {
        assert_eq!(shown(name, &[value]), expected, "{name} = {value}");
    }
    assert_eq!(shown("work_mem", &["1", "2"]), "22023: SET work_mem takes only one argument");
}

#[test]
fn styles_of_dates_combine() {
    for (value, expected) in [
        ("iso, dmy", "ISO, DMY"),
        ("german", "German, DMY"),
        ("european", "ISO, DMY"),
        ("SQL, noneuropean", "SQL, MDY"),
        ("postgres, default", "Postgres, MDY"),
        ("", "ISO, MDY"),
    ] {
        assert_eq!(shown("datestyle", &[value]), expected);
    }
    let conflict = "22023: invalid value for parameter \"DateStyle\": \"sql, postgres\"\n\
                    Conflicting \"datestyle\" specifications.";
    assert_eq!(shown("datestyle", &["sql", "postgres"]), conflict);
    let mut settings = session();
    set(&mut settings, "datestyle", &["german"]).unwrap();
    set(&mut settings, "intervalstyle", &["iso_8601"]).unwrap();
    let values = settings.values();
    assert_eq!((values.date_style, values.date_order), (DateStyle::German, DateOrder::DayMonthYear));
    assert_eq!(values.interval_style, IntervalStyle::Iso8601);
}

#[test]
fn time_zones_have_names_offsets_and_intervals() {
    for (value, expected) in [
        ("europe/berlin", "Europe/Berlin"),
        ("utc", "UTC"),
        ("+3", "<+03>-03"),
        ("-3.5", "<-03:30>+03:30"),
        ("xyz3", "XYZ3"),
        ("INTERVAL '+02:30' HOUR TO MINUTE", "<+02:30>-02:30"),
        ("foo", "22023: invalid value for parameter \"TimeZone\": \"foo\""),
        ("", "22023: invalid value for parameter \"TimeZone\": \"\""),
        (
            "200",
            "22023: invalid value for parameter \"TimeZone\": \"200\"\nUTC timezone offset is out of range.",
        ),
    ] {
        assert_eq!(shown("timezone", &[value]), expected, "{value}");
    }
    let mut settings = session();
    set(&mut settings, "timezone", &["-7"]).unwrap();
    assert_eq!(settings.values().time_zone, TimeZone::Fixed(-7 * 3600));
}

#[test]
fn lists_of_names_are_quoted() {
    assert_eq!(shown("search_path", &["a", "B c", "$user"]), "a, \"B c\", \"$user\"");
    assert_eq!(shown("search_path", &["a, b"]), "\"a, b\"");
    assert_eq!(shown("search_path", &[""]), "\"\"");
    let mut settings = session();
    assert_eq!(settings.search_path(), ["$user", "public"]);
    settings.set_text("search_path", "X, \"Y\"", false).unwrap();
    assert_eq!(settings.search_path(), ["x", "Y"]);
    let error = settings.set_text("search_path", "a,,b", false).unwrap_err();
    assert_eq!(error.detail.as_deref(), Some("List syntax is invalid."));
}

#[test]
fn a_commit_keeps_what_was_set_and_not_what_was_set_locally() {
    let mut settings = session();
    set(&mut settings, "work_mem", &["1MB"]).unwrap();
    settings.set("work_mem", &["2MB".to_owned()], true).unwrap();
    assert_eq!(settings.show("work_mem").unwrap(), "2MB");
    settings.commit();
    assert_eq!(settings.show("work_mem").unwrap(), "1MB");
    settings.set("work_mem", &["2MB".to_owned()], true).unwrap();
    set(&mut settings, "work_mem", &["3MB"]).unwrap();
    settings.commit();
    assert_eq!(settings.show("work_mem").unwrap(), "3MB");
    assert_eq!(settings.work_memory(), 3 << 20);
}

#[test]
fn a_rollback_takes_changes_back() {
    let mut settings = session();
    set(&mut settings, "search_path", &["a"]).unwrap();
    let (mark, version) = (settings.mark(), settings.version());
    set(&mut settings, "search_path", &["b"]).unwrap();
    settings.set("a.b", &["x".to_owned()], true).unwrap();
    assert_eq!(settings.show("A.B").unwrap(), "x");
    settings.return_to(mark);
    assert_eq!(settings.search_path(), ["a"]);
    assert!(settings.version() > version);
    assert_eq!(
        settings.show("a.b").unwrap_err().to_string(),
        "42704: unrecognized configuration parameter \"a.b\""
    );
    settings.rollback();
    assert_eq!(settings.search_path(), ["$user", "public"]);
}

#[test]
fn a_reset_returns_to_what_the_session_began_with() {
    let given = [("DateStyle".to_owned(), "SQL, DMY".to_owned()), ("a.b".to_owned(), "1".to_owned())];
    let mut settings = SessionSettings::new("alice", false, &given).unwrap();
    set(&mut settings, "datestyle", &["iso"]).unwrap();
    set(&mut settings, "a.b", &["2"]).unwrap();
    set(&mut settings, "a.c", &["2"]).unwrap();
    settings.reset("datestyle", false).unwrap();
    assert_eq!(settings.show("datestyle").unwrap(), "SQL, DMY");
    settings.reset_all();
    assert_eq!(settings.show("a.b").unwrap(), "1");
    assert_eq!(settings.show("a.c").unwrap(), "");
    let error = settings.reset("fsync", false).unwrap_err();
    assert_eq!(error.to_string(), "55P02: parameter \"fsync\" cannot be changed now");
    assert!(settings.reset("zz", false).is_err());
    settings.reset("a.zz", false).unwrap();
    let all = settings.all();
    let style = all.iter().find(|setting| setting.name == "DateStyle").unwrap();
    assert_eq!((&style.reset_value[..], style.source), ("SQL, DMY", "client"));
    assert!(all.iter().all(|setting| setting.name != "is_superuser"));
}

#[test]
fn superusers_set_more_than_others() {
    let mut settings = SessionSettings::new("bob", false, &[]).unwrap();
    let error = set(&mut settings, "log_statement", &["all"]).unwrap_err();
    assert_eq!(error.to_string(), "42501: permission denied to set parameter \"log_statement\"");
    set(&mut session(), "log_statement", &["all"]).unwrap();
}

#[test]
fn clients_are_told_of_changes_once() {
    let mut settings = session();
    let reported = settings.reported();
    let value = |name: &str| reported.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    assert_eq!(value("server_version").as_deref(), Some("15.18"));
    assert_eq!(value("is_superuser").as_deref(), Some("on"));
    assert_eq!(value("session_authorization").as_deref(), Some("alice"));
    assert_eq!(settings.take_changed(), []);
    set(&mut settings, "application_name", &["x"]).unwrap();
    set(&mut settings, "application_name", &["psql"]).unwrap();
    set(&mut settings, "timezone", &["UTC"]).unwrap();
    assert_eq!(settings.take_changed(), [("application_name".to_owned(), "psql".to_owned())]);
    assert_eq!(settings.take_changed(), []);
    settings.rollback();
    assert_eq!(settings.take_changed(), [("application_name".to_owned(), String::new())]);
}

#[test]
fn statements_read_values_in_types_of_their_own() {
    let mut settings = session();
    assert_eq!(settings.timeouts(), Timeouts::default());
    assert_eq!((settings.work_memory(), settings.statement_memory()), (4 << 20, 256 << 20));
    set(&mut settings, "statement_timeout", &["2s"]).unwrap();
    set(&mut settings, "lock_timeout", &["5"]).unwrap();
    set(&mut settings, "synchronous_commit", &["off"]).unwrap();
    set(&mut settings, "client_min_messages", &["warning"]).unwrap();
    assert_eq!(settings.timeouts().statement, Some(Duration::from_secs(2)));
    assert_eq!(settings.lock_timeout(), Some(Duration::from_millis(5)));
    assert_eq!(settings.synchronous_commit(), SynchronousCommit::Off);
    let replicated = Durability::Replicated;
    for (word, durability) in [
        ("off", Durability::Async),
        ("local", Durability::Sync),
        ("remote_write", replicated(ReplicationLevel::Written)),
        ("on", replicated(ReplicationLevel::Flushed)),
        ("true", replicated(ReplicationLevel::Flushed)),
        ("remote_apply", replicated(ReplicationLevel::Applied)),
    ] {
        set(&mut settings, "synchronous_commit", &[word]).unwrap();
        assert_eq!(settings.synchronous_commit().durability(), durability, "{word}");
    }
    assert!(!settings.is_sent("NOTICE") && settings.is_sent("WARNING") && settings.is_sent("INFO"));
    settings.begin_transaction(5);
    settings.begin_statement(7);
    let values = settings.values();
    assert_eq!((values.transaction_time, values.statement_time), (5, 7));
}

#[test]
fn modes_of_the_transaction_are_shown() {
    let mut settings = session();
    set(&mut settings, "default_transaction_isolation", &["serializable"]).unwrap();
    assert_eq!(settings.show("transaction_isolation").unwrap(), "serializable");
    let modes =
        ShownModes { isolation: IsolationLevel::RepeatableRead, is_read_only: true, is_deferrable: false };
    settings.show_modes(Some(modes));
    assert_eq!(settings.show("transaction_isolation").unwrap(), "repeatable read");
    assert_eq!(settings.show("transaction_read_only").unwrap(), "on");
    settings.commit();
    assert_eq!(settings.show("transaction_read_only").unwrap(), "off");
    let asked = SessionSettings::transaction_setting("transaction_read_only", &["yes".to_owned()]).unwrap();
    assert_eq!(asked, Some(TransactionSetting::ReadOnly(true)));
    assert_eq!(SessionSettings::transaction_setting("work_mem", &[]).unwrap(), None);
}

#[test]
fn sessions_draw_random_numbers_of_their_own() {
    let (one, other) = (session(), session());
    let next = |of: &SessionSettings| of.values().random.next().unwrap();
    one.values().random.set_seed(0.5);
    other.values().random.set_seed(0.5);
    assert_eq!(next(&one), next(&other));
}
