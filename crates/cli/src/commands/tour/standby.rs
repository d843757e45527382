//! A standby that is made from a running primary, `kill -9` of the primary, and the promotion of the standby.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::report::Report;
use super::server::{Server, is_psql_here};
use crate::failure::Failure;
use crate::files::Stopwatch;
use crate::output::{duration, grouped};

/// How long the standby may take to acknowledge everything.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two questions.
const REST: Duration = Duration::from_millis(20);

const ROWS: &str = "INSERT INTO entries (account) SELECT n % 998 + 3 FROM generate_series(1, 500) AS n;\n";

/// Serves the database in `directory` and a standby of it in `copy`; kills the one, and has the other take its place.
pub(super) fn kill_and_promote(
    directory: &Path,
    copy: &Path,
    report: &mut Report<'_>,
) -> Result<(), Failure> {
    if !is_psql_here() {
        return report.say("psql is not installed here: no client is shown");
    }
    let primary = Server::start(directory, None)?;
    let stopwatch = Stopwatch::start();
    let upstream = format!("host=127.0.0.1 port={} user=postgres sslmode=disable", primary.port);
    let standby = Server::start(copy, Some(&upstream))?;
    report.say(&format!(
        "another process makes a standby from the running primary, and serves reads after {}",
        duration(stopwatch.elapsed())
    ))?;
    primary.psql(ROWS)?;
    let expected = primary.psql("SELECT count(*), max(id) FROM entries")?;
    await_acknowledgement(&primary)?;
    primary.kill()?;
    report.say(&format!(
        "kill -9 of the primary, when the standby has acknowledged {} rows more",
        grouped(500)
    ))?;

    let stopwatch = Stopwatch::start();
    let promoted = Server::program()?
        .arg("promote")
        .arg(copy)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(Failure::io("cannot start the promotion"))?;
    if !promoted.status.success() {
        let said = String::from_utf8_lossy(&promoted.stderr).into_owned();
        return Err(Failure::Broken(format!("the standby was not promoted: {}", said.trim())));
    }
    let elapsed = stopwatch.elapsed();
    let found = standby.psql("SELECT count(*), max(id) FROM entries")?;
    if found != expected {
        let (found, expected) = (found.trim(), expected.trim());
        return Err(Failure::Broken(format!("the standby has {found}, and the primary had {expected}")));
    }
    standby.psql(ROWS)?;
    report.fact(
        "promotion_seconds",
        elapsed.as_secs_f64(),
        &format!(
            "`seawall promote` took {}, its process included; verified: all rows are there, and new ones go in",
            duration(elapsed)
        ),
    )?;
    standby.kill()
}

fn await_acknowledgement(primary: &Server) -> Result<(), Failure> {
    let acknowledged = "SELECT count(*) FROM pg_stat_replication WHERE flush_lsn >= pg_current_wal_lsn()";
    let stopwatch = Stopwatch::start();
    while primary.psql(acknowledged)?.trim() == "0" {
        if stopwatch.elapsed() > PATIENCE {
            return Err(Failure::Broken("the standby does not acknowledge what the primary has".to_owned()));
        }
        std::thread::park_timeout(REST);
    }
    Ok(())
}
