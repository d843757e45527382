//! Tables are analyzed when enough of them has changed.

use std::time::Duration;

use seawall_sql::session::{ANALYZE_PROCESS_ID, AnalyzeThread, AutomaticAnalyze, DatabaseSettings};
use seawall_testing::wait_until;

use crate::client::{Client, TestDatabase};

const KNOWN: &str = "select c.reltuples, s.n_mod_since_analyze, s.autoanalyze_count, s.analyze_count, s.last_autoanalyze is not null, \
     s.last_analyze is not null from pg_class c join pg_stat_user_tables s on s.relid = c.oid where c.relname = 't'";

fn known(client: &mut Client) -> String {
    client.run(KNOWN).swap_remove(1)
}

#[test]
fn a_table_is_analyzed_once_enough_rows_have_changed() {
    let database = TestDatabase::new();
    let look = || database.database.analyze_changed(&|| false).expect("a look");
    let mut client = database.connect();
    client.run("create table t (a int primary key, b int); insert into t select n, n % 7 from generate_series(1, 50) as n");
    assert_eq!(look(), 0);
    assert_eq!(known(&mut client), "-1|50|0|0|f|f");
    client.run("insert into t values (51, 0)");
    assert_eq!(look(), 1);
    assert_eq!(known(&mut client), "51|0|1|0|t|f");
    assert_eq!(
        client.run("select n_distinct from pg_stats where tablename = 't' and attname = 'b'")[1],
        "-0.13725491"
    );
    // 50, and a tenth of 51.
    client.run("update t set b = 1; delete from t where a < 5");
    assert_eq!(look(), 0);
    client.run("delete from t where a < 6");
    assert_eq!(look(), 1);
    client.run("analyze t");
    assert_eq!(known(&mut client), "46|0|2|1|t|t");
}

#[test]
fn it_waits_for_nobody_and_can_be_turned_off() {
    let database = TestDatabase::new();
    let look = || database.database.analyze_changed(&|| false).expect("a look");
    let (mut client, mut other) = (database.connect_as(1), database.connect_as(2));
    client.run("create table t (a int); insert into t select generate_series(1, 100)");
    other.run("begin; lock table t in share update exclusive mode");
    assert_eq!(look(), 0);
    other.run("rollback");
    let configure = |is_on| {
        let automatic_analyze = AutomaticAnalyze { is_on, threshold: 70, ..AutomaticAnalyze::default() };
        database.database.configure(&DatabaseSettings { automatic_analyze, ..DatabaseSettings::default() });
    };
    configure(false);
    assert_eq!(look(), 0);
    assert_eq!(database.connect_as(3).run("show autovacuum")[1], "off");
    assert_eq!(database.database.analyze_changed(&|| true).expect("a look"), 0);
    configure(true);
    assert_eq!(database.connect_as(3).run("show autovacuum_analyze_threshold")[1], "70");
    assert_eq!(look(), 1);
    assert_eq!(known(&mut client), "100|0|1|0|t|f");
}

/// Temporary tables are their session's own.
#[test]
fn temporary_tables_are_left_to_their_session() {
    let database = TestDatabase::new();
    let mut client = database.connect();
    client.run("create temporary table t (a int); insert into t select generate_series(1, 100)");
    assert_eq!(database.database.analyze_changed(&|| false).expect("a look"), 0);
}

#[test]
fn the_thread_looks_and_ends_at_once() {
    let database = TestDatabase::new();
    let configure = |pause| {
        let automatic_analyze = AutomaticAnalyze { pause, ..AutomaticAnalyze::default() };
        database.database.configure(&DatabaseSettings { automatic_analyze, ..DatabaseSettings::default() });
    };
    configure(Duration::from_millis(1));
    let mut client = database.connect();
    client.run("create table t (a int); insert into t select generate_series(1, 100)");
    let thread = AnalyzeThread::start(&database.database).expect("a thread");
    wait_until("the table is analyzed", || known(&mut client).starts_with("100|"));
    let own = format!("select count(*) from pg_stat_activity where pid = {ANALYZE_PROCESS_ID}");
    wait_until("its session has ended", || client.run(&own)[1] == "0");
    configure(Duration::from_secs(3600));
    thread.end();
}
