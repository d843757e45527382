//! `pgbench`: its own transactions, by many clients, and the sums that they must leave.

use crate::program::{ok, program};
use crate::served::Served;

/// With a tenth of pgbench's smallest scale this would be faster, but there is none.
fn initialized() -> Option<Served> {
    let served = Served::new();
    let mut pgbench = program("pgbench", "127.0.0.1", served.port())?;
    // v, vacuum, is left out: there is nothing to clean up.
    ok(pgbench.args(["-i", "-I", "dtgp", "-s", "1", "-q"]));
    Some(served)
}

fn sums(served: &Served) -> Vec<String> {
    let mut psql = program("psql", "127.0.0.1", served.port()).unwrap();
    let sums = "select (select sum(abalance) from pgbench_accounts), (select sum(bbalance) from pgbench_branches), \
                (select sum(tbalance) from pgbench_tellers), (select coalesce(sum(delta), 0) from pgbench_history), \
                (select count(*) from pgbench_history)";
    let said = ok(psql.args(["-X", "-A", "-t", "-c", sums]));
    said.trim().split('|').map(str::to_owned).collect()
}

/// Runs a number of transactions by each of some clients, in each way of sending them.
fn runs(options: &[&str], clients: usize, transactions: usize) -> Option<(Served, String)> {
    let served = initialized()?;
    let mut said = String::new();
    for mode in ["simple", "extended", "prepared"] {
        let mut pgbench = program("pgbench", "127.0.0.1", served.port())?;
        let (of_clients, each) = (clients.to_string(), transactions.to_string());
        pgbench.args(["-n", "-M", mode, "-c", &of_clients, "-j", "2", "-t", &each]).args(options);
        said = ok(&mut pgbench);
        let done = format!("number of transactions actually processed: {0}/{0}", clients * transactions);
        assert!(said.contains(&done), "{mode}: {said}");
        assert!(!said.contains("aborted"), "{mode}: {said}");
    }
    Some((served, said))
}

#[test]
fn no_transaction_of_many_clients_is_lost() {
    // Transactions that others were in the way of are tried again.
    let Some((served, said)) = runs(&["--max-tries", "1000"], 8, 25) else { return };
    assert!(said.contains("number of failed transactions: 0 "), "{said}");
    let [accounts, branches, tellers, history, count] = sums(&served).try_into().unwrap();
    assert_eq!(count, (3 * 8 * 25).to_string());
    assert_eq!([&accounts, &branches, &tellers], [&history; 3]);
}

#[test]
fn accounts_are_read_by_many_clients() {
    drop(runs(&["-S"], 16, 100));
}

#[test]
fn a_script_of_ones_own_runs() {
    let Some(served) = initialized() else { return };
    let script = served.path().join("own.sql");
    std::fs::write(
        &script,
        "\\set number random(1, 100000)\n\
         select abalance as before from pgbench_accounts where aid = :number \\gset\n\
         update pgbench_accounts set abalance = :before + 1 where aid = :number and abalance = :before;\n",
    )
    .unwrap();
    let mut pgbench = program("pgbench", served.path().to_str().unwrap(), served.port()).unwrap();
    let said = ok(pgbench.args(["-n", "-c", "4", "-t", "50", "-f"]).arg(script));
    assert!(said.contains("number of transactions actually processed: 200/200"), "{said}");
}
