//! `kill -9` of the server under pgbench: what was acknowledged is there, and the sums agree.

use std::process::Stdio;

use seawall_testing::wait_until;

use crate::process::{Place, Serving, rows, value};
use crate::program::{both, program};

const CLIENTS: usize = 8;
const KILLS: u64 = 4;
/// Memory and segments are small, so that checkpoints and recycled segments are under way when the kill comes.
const SMALL: [&str; 2] = ["--memtable-mib", "8"];

fn history(serving: &Serving) -> u64 {
    value(&mut serving.client(), "select count(*) from pgbench_history").parse().unwrap()
}

/// How many transactions pgbench says were answered.
fn processed(said: &str) -> u64 {
    let line = said.lines().find_map(|line| line.strip_prefix("number of transactions actually processed: "));
    line.and_then(|line| line.split('/').next()?.trim().parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

#[test]
fn sums_agree_and_nothing_acknowledged_is_lost() {
    let place = Place::new();
    let mut serving = place.serve(&SMALL);
    let Some(mut pgbench) = program("pgbench", "127.0.0.1", serving.port) else { return };
    crate::program::ok(pgbench.args(["-i", "-I", "dtgp", "-s", "1", "-q"]));
    let mut acknowledged = 0;
    for round in 1..=KILLS {
        let mut pgbench = program("pgbench", "127.0.0.1", serving.port).unwrap();
        let mode = ["prepared", "extended", "simple"][usize::try_from(round % 3).unwrap()];
        pgbench.args(["-n", "-c", &CLIENTS.to_string(), "-j", "2", "-T", "60", "-M", mode]);
        let running = pgbench.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let before = history(&serving);
        wait_until("some transactions are committed", || history(&serving) >= before + 100 * round);
        serving.kill();
        let said = both(&running.wait_with_output().unwrap());
        acknowledged += processed(&said);
        if round % 2 == 0 {
            // A recovery is killed, too, wherever it is.
            let mut started = place.start(&SMALL);
            started.child.kill().unwrap();
            started.child.wait().unwrap();
        }
        serving = place.serve(&SMALL);
        let found = history(&serving);
        // Each client may have had one commit on its way.
        let possible = acknowledged + u64::try_from(CLIENTS).unwrap() * round;
        assert!((acknowledged..=possible).contains(&found), "{acknowledged} acknowledged, {found} found");
        let sums = rows(
            &mut serving.client(),
            "select (select sum(delta) from pgbench_history) = all (array[(select sum(abalance) from pgbench_accounts), \
             (select sum(bbalance) from pgbench_branches), (select sum(tbalance) from pgbench_tellers)]::bigint[]), \
             (select count(*) from pgbench_accounts)",
        );
        assert_eq!(sums, [[Some("t".to_owned()), Some("100000".to_owned())]], "round {round}");
    }
    serving.end();
    place.check();
}
