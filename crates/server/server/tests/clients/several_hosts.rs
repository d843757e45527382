//! Clients that are given several hosts find the server that they ask for: the primary, or a standby, before a promotion and after it.

use std::path::Path;
use std::process::Command;

use seawall_engine::{Database, DatabaseDirectory};
use seawall_server::Shutdown;

use crate::drivers::{jdbc, python, script};
use crate::primary::{Primary, copy_directory, options};
use crate::program::{both, ok, prepared};

/// A primary, and a copy of it that is opened as a standby.
fn pair(directory: &Path) -> (Primary, Primary) {
    let (data, copy) = (directory.join("data"), directory.join("copy"));
    Primary::over(Database::open(&data, options()).unwrap()).close();
    copy_directory(&data, &copy);
    let primary = Primary::over(Database::open(&data, options()).unwrap());
    let standby = Primary::over(DatabaseDirectory::at(&copy).follow(options()).unwrap());
    (primary, standby)
}

/// A port of this machine where nobody listens.
fn nobody() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Of the servers at `ports`, the first that libpq takes: its port.
fn chosen(ports: &[u16], wanted: &str) -> Option<String> {
    let hosts = vec!["127.0.0.1"; ports.len()].join(",");
    let listed = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    let connection = format!("host={hosts} port={listed} target_session_attrs={wanted}");
    let mut psql = crate::program::program("psql", "127.0.0.1", ports[0])?;
    let output =
        psql.args(["-X", "-q", "-A", "-t", "-d", &connection, "-c", "\\echo :PORT"]).output().unwrap();
    Some(both(&output).trim().to_owned())
}

#[test]
fn libpq_finds_the_server_that_it_asks_for_before_a_promotion_and_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let (primary, standby) = pair(directory.path());
    let (first, second) = (primary.served.port(), standby.served.port());
    if chosen(&[first], "any").is_none() {
        return;
    }
    let ports = [nobody(), second, first];
    for (wanted, expected) in [
        ("any", second),
        ("read-write", first),
        ("read-only", second),
        ("primary", first),
        ("standby", second),
        ("prefer-standby", second),
    ] {
        assert_eq!(chosen(&ports, wanted).unwrap(), expected.to_string(), "{wanted}");
    }
    let alone = [first, nobody()];
    assert_eq!(chosen(&alone, "prefer-standby").unwrap(), first.to_string());
    for (wanted, expected) in
        [("standby", "server is not in hot standby mode"), ("read-only", "session is not read-only")]
    {
        let refused = chosen(&alone, wanted).unwrap();
        assert!(refused.contains(expected), "{refused}");
    }
    // One whose sessions are read-only is no primary to write on.
    let read_only = primary
        .program("psql")
        .unwrap()
        .env("PGOPTIONS", "-c default_transaction_read_only=on")
        .args(["-X", "-A", "-t", "-d"])
        .arg(format!("host=127.0.0.1 port={first} target_session_attrs=read-write"))
        .args(["-c", "select 1"])
        .output();
    assert!(both(&read_only.unwrap()).contains("session is read-only"));

    let Primary { mut served, sql } = primary;
    served.end(Shutdown::Immediate);
    standby.sql("select pg_promote()");
    for wanted in ["any", "read-write", "primary", "prefer-standby"] {
        assert_eq!(chosen(&ports, wanted).unwrap(), second.to_string(), "{wanted}");
    }
    assert!(chosen(&ports, "standby").unwrap().contains("server is not in hot standby mode"));
    drop(sql);
    standby.close();
}

/// Runs a program that is given the ports of a primary and a standby: its last line must be `done`.
fn is_served(program: &Path, arguments: &[&Path]) {
    let directory = tempfile::tempdir().unwrap();
    let (primary, standby) = pair(directory.path());
    let mut command: Command = prepared(program, "127.0.0.1", primary.served.port());
    command.args(arguments);
    for (name, server) in [("PRIMARY_PORT", &primary), ("STANDBY_PORT", &standby)] {
        command.env(name, server.served.port().to_string());
    }
    let said = ok(command.env("NOBODY_PORT", nobody().to_string()));
    assert!(said.ends_with("done\n"), "{said}");
    assert_eq!(standby.sql("select pg_is_in_recovery()"), "f", "the program promotes it");
    primary.close();
    standby.close();
}

#[test]
fn psycopg_finds_the_server_that_it_asks_for_and_follows_a_promotion() {
    let Some(python) = python() else { return };
    is_served(&python, &[&script("several_hosts.py")]);
}

#[test]
fn jdbc_finds_the_server_that_it_asks_for_and_follows_a_promotion() {
    let Some(archive) = jdbc() else { return };
    is_served(Path::new("java"), &[Path::new("-classpath"), &archive, &script("SeveralHosts.java")]);
}
