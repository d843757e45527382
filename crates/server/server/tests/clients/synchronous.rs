//! Commits that wait for a standby, and a former primary that comes back.

use seawall_engine::{Database, DatabaseDirectory, Options, QuorumOptions, Rejoined};
use seawall_replication::{Follower, StandbyNames, UpstreamHistory, UpstreamSettings};
use seawall_server::{Shutdown, UpstreamDial};
use seawall_testing::wait_until;

use crate::primary::{Primary, copy_directory, options};
use crate::program::both;

fn settings(upstream: &Primary) -> UpstreamSettings {
    let port = upstream.served.port();
    format!("host=127.0.0.1 port={port} user=postgres application_name=second slot=second").parse().unwrap()
}

fn follow(standby: &Primary, upstream: &Primary) -> Follower {
    let settings = settings(upstream);
    let dial = Box::new(UpstreamDial::new(settings.clone()).unwrap());
    let now_micros = || seawall_io::Clock::wall_micros(&seawall_io::SystemClock);
    Follower::start(standby.sql.replication.clone(), settings, dial, None, now_micros, Box::new(|| {}))
        .unwrap()
}

fn with_quorum() -> Options {
    Options { quorum: Some(QuorumOptions::default()), ..options() }
}

/// What a statement answers that fails.
fn refused(primary: &Primary, statement: &str) -> String {
    let mut psql = primary.program("psql").unwrap();
    let verbose = "\\set VERBOSITY verbose";
    let limit = "set statement_timeout = '200ms'";
    let output =
        psql.args(["-X", "-A", "-t", "-q", "-c", verbose, "-c", limit, "-c", statement]).output().unwrap();
    both(&output)
}

#[test]
fn a_commit_waits_for_its_standby_and_a_former_primary_follows_again() {
    let directory = tempfile::tempdir().unwrap();
    let (data, copy) = (directory.path().join("data"), directory.path().join("copy"));
    let primary = Primary::over(Database::open(&data, options()).unwrap());
    if primary.program("psql").is_none() {
        return;
    }
    primary.sql("create table t (a int primary key)");
    assert!(primary.command("CREATE_REPLICATION_SLOT second PHYSICAL").starts_with("second|"));
    primary.close();
    copy_directory(&data, &copy);

    let primary = Primary::over(Database::open(&data, with_quorum()).unwrap());
    primary.sql.replication.commits_wait_for("ANY 1 (second)".parse::<StandbyNames>().unwrap());
    assert_eq!(primary.sql("show synchronous_standby_names"), "ANY 1 (second)");
    // Without its standby: the wait ends, and the outcome is open.
    let answer = refused(&primary, "insert into t values (1)");
    assert!(answer.contains("40003") && answer.contains("outcome of the transaction is unknown"), "{answer}");
    assert_eq!(primary.sql("select count(*) from t"), "0");
    let standby = Primary::over(DatabaseDirectory::at(&copy).follow(options()).unwrap());
    let follower = follow(&standby, &primary);
    wait_until("the standby has it", || primary.sql("select count(*) from t") == "1");
    primary.sql("insert into t values (2)");
    primary.sql("set synchronous_commit = remote_apply; insert into t values (3)");
    assert_eq!(standby.sql("select count(*) from t"), "3", "what is acknowledged is seen there");
    let shown = "select sync_state, sync_priority from pg_stat_replication";
    assert_eq!(primary.sql(shown), "quorum|1");

    // The standby takes its place; the primary had a commit that nobody got.
    drop(follower);
    standby.sql("select pg_promote()");
    let answer = refused(&primary, "insert into t values (4)");
    assert!(answer.contains("40003"), "{answer}");
    let Primary { mut served, sql } = primary;
    served.end(Shutdown::Immediate);
    drop(served);
    sql.engine.clone().close().unwrap();
    standby.sql("insert into t values (5)");
    let former = DatabaseDirectory::at(&data);
    let dial = UpstreamDial::new(settings(&standby)).unwrap();
    let history = UpstreamHistory::ask(&former, &settings(&standby), &dial).unwrap();
    assert!(!history.is_known_here());
    let rejoined = history.rejoin(&former, &options()).unwrap();
    assert!(matches!(rejoined, Rejoined::Cut(_)), "{rejoined:?}");
    let former = Primary::over(former.follow(options()).unwrap());
    let follower = follow(&former, &standby);
    let rows = "select string_agg(a::text, ' ' order by a) from t";
    wait_until("it has the rows of the new timeline", || former.sql(rows) == "1 2 3 5");
    drop(follower);
    former.close();
    standby.close();
}
