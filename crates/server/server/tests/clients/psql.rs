//! Scripts of psql, with what PostgreSQL 15 makes it say.
//!
//! `SEAWALL_RECORD=5432 cargo test -p seawall-server --test clients` runs them against the PostgreSQL of that port, as role `postgres`, in the
//! database `postgres`, which has to be empty, and writes what is said in place of what is there.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use seawall_server::{Configuration, TlsFiles};

use crate::program::{ok, program};
use crate::served::Served;

/// Plays a script against a server of its own, and compares what psql says.
fn plays(name: &str) {
    let recorded: Option<u16> = std::env::var("SEAWALL_RECORD").ok().map(|port| port.parse().unwrap());
    let served = Served::new();
    let Some(mut psql) = program("psql", "127.0.0.1", recorded.unwrap_or(served.port())) else { return };
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/psql");
    let (script, log) = (format!("{name}.sql"), served.path().join("log"));
    // Both kinds of output in one file, in their order.
    let output = std::fs::OpenOptions::new().write(true).create_new(true).open(&log).unwrap();
    psql.current_dir(&scripts).args(["-X", "-a", "-f", &script]).stdin(Stdio::null());
    let status = psql.stdout(output.try_clone().unwrap()).stderr(output).status().unwrap();
    assert!(status.success(), "{name}: {status}");
    let said = std::fs::read_to_string(log).unwrap();
    let expected = scripts.join(format!("{name}.out"));
    match recorded {
        Some(_) => std::fs::write(expected, said).unwrap(),
        None => compare(name, &said, &std::fs::read_to_string(expected).unwrap()),
    }
}

/// Names the first line that differs: the texts are long.
fn compare(name: &str, said: &str, expected: &str) {
    let mut lines = said.lines().zip(expected.lines()).enumerate();
    if let Some((index, (is, should))) = lines.find(|(_, (is, should))| is != should) {
        panic!("{name}.out, line {}:\n{is:?}, but PostgreSQL\n{should:?}\n\nall of it:\n{said}", index + 1);
    }
    assert_eq!(said.lines().count(), expected.lines().count(), "{name}: {said}");
}

#[test]
fn statements_have_the_answers_of_postgresql() {
    plays("statements");
}

#[test]
fn transactions_are_those_of_postgresql() {
    plays("transactions");
}

#[test]
fn errors_are_those_of_postgresql() {
    plays("errors");
}

#[test]
fn rows_are_copied_both_ways() {
    plays("copy");
}

#[test]
fn what_there_is_is_described() {
    plays("describe");
}

#[test]
fn a_large_result_is_fetched_in_parts() {
    let served = Served::new();
    let Some(mut psql) = program("psql", served.path().to_str().unwrap(), served.port()) else { return };
    let sql = "select number, repeat('x', 1000) from generate_series(1, 20000) as number";
    let said = ok(psql.args(["-X", "-q", "-A", "-t", "-v", "FETCH_COUNT=500", "-c", sql]));
    assert_eq!(said.lines().count(), 20_000);
    assert!(said.lines().last().unwrap().starts_with("20000|xxx"));
}

#[test]
fn an_interrupted_psql_cancels_its_statement() {
    let served = Served::new();
    let Some(mut psql) = program("psql", "127.0.0.1", served.port()) else { return };
    let mut child = psql
        .args(["-X", "-c", "select pg_sleep(3600)"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    // A signal that comes before psql waits for its answer ends psql: either way nothing runs on.
    seawall_testing::wait_until("psql has ended", || {
        std::process::Command::new("kill").args(["-s", "INT", &pid]).status().unwrap();
        child.try_wait().unwrap().is_some()
    });
    let Some(mut other) = program("psql", "127.0.0.1", served.port()) else { return };
    let count = "select count(*) from pg_stat_activity where query like '%pg_sleep(3600)%' and pid <> pg_backend_pid() and state = 'active'";
    other.args(["-X", "-A", "-t", "-c", count]);
    seawall_testing::wait_until("nothing runs any more", || ok(&mut other) == "0\n");
}

/// By its limit of time, with its client, and with the server.
#[test]
fn a_wait_for_a_row_ends_before_the_row_is_free() {
    let served = Served::with(|configuration, _| Configuration {
        client_check_interval: Some(std::time::Duration::from_millis(10)),
        ..configuration
    });
    let psql = |sql: &str| {
        let mut psql = program("psql", "127.0.0.1", served.port())?;
        psql.args(["-X", "-A", "-t", "-c", sql]).stdout(Stdio::piped()).stderr(Stdio::piped());
        Some(psql)
    };
    let Some(mut set_up) = psql("create table t (k int primary key); insert into t values (1)") else {
        return;
    };
    ok(&mut set_up);
    let waiting = |count: u32| {
        let sql = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and wait_event = 'transactionid'";
        seawall_testing::wait_until("the sessions wait", || {
            ok(&mut psql(sql).unwrap()) == format!("{count}\n")
        });
    };
    let mut holder = psql("begin; delete from t; select pg_sleep(3600)").unwrap().spawn().unwrap();
    let holds = "select count(*) from pg_locks where mode = 'RowExclusiveLock' and granted";
    seawall_testing::wait_until("the row is held", || ok(&mut psql(holds).unwrap()) == "1\n");
    let limited = psql("select 1; set statement_timeout = 50; delete from t").unwrap().output().unwrap();
    let said = String::from_utf8(limited.stderr).unwrap();
    assert!(said.contains("ERROR:  canceling statement due to statement timeout"), "{said}");
    let mut vanishing = psql("delete from t").unwrap().spawn().unwrap();
    waiting(1);
    vanishing.kill().unwrap();
    vanishing.wait().unwrap();
    waiting(0);
    let last = psql("delete from t").unwrap().spawn().unwrap();
    waiting(1);
    drop(served);
    let said = String::from_utf8(last.wait_with_output().unwrap().stderr).unwrap();
    assert!(said.contains("terminating connection due to administrator command"), "{said}");
    holder.wait().unwrap();
}

/// With a certificate, and rules that let in by the Unix socket, and with a password by TLS.
fn guarded() -> Served {
    Served::with(|configuration, directory| {
        let files = TlsFiles { certificate: directory.join("certificate"), key: directory.join("key") };
        std::fs::write(&files.certificate, include_bytes!("../protocol/certificate.pem")).unwrap();
        std::fs::write(&files.key, include_bytes!("../protocol/key.pem")).unwrap();
        std::fs::set_permissions(&files.key, PermissionsExt::from_mode(0o600)).unwrap();
        let access = ["local all all trust", "hostssl all all all scram-sha-256"];
        let access = access.iter().map(|rule| rule.parse().unwrap()).collect();
        Configuration { access, tls: Some(files), ..configuration }
    })
}

#[test]
fn a_password_lets_in_and_a_wrong_one_does_not() {
    let served = guarded();
    let Some(mut psql) = program("psql", served.path().to_str().unwrap(), served.port()) else { return };
    ok(psql.args(["-X", "-c", "create role ada login password 'corréct horse'"]));
    let by_password = |user: &str, password: &str, encryption: &str| {
        let mut psql = program("psql", "127.0.0.1", served.port()).unwrap();
        psql.envs([("PGUSER", user), ("PGPASSWORD", password), ("PGSSLMODE", encryption)]);
        psql.args(["-X", "-A", "-t", "-c", "select current_user", "-c", "\\conninfo"]).output().unwrap()
    };
    let entered = String::from_utf8(by_password("ada", "corréct horse", "require").stdout).unwrap();
    assert!(
        entered.starts_with("ada\n") && entered.contains("SSL connection (protocol: TLSv1.3"),
        "{entered}"
    );
    let wrong = "password authentication failed for user";
    for (user, password, encryption, expected) in [
        ("ada", "wrong", "require", wrong),
        ("nobody", "corréct horse", "require", wrong),
        ("ada", "corréct horse", "disable", "no access rule for host \"127.0.0.1\", user \"ada\""),
    ] {
        let refused = by_password(user, password, encryption);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains(expected), "{said}");
    }
}
