//! PostgreSQL's `pg_receivewal`: receives the log into files, resumes, and follows a new timeline; recovery takes its files.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use seawall_engine::{Database, DatabaseDirectory};
use seawall_server::Shutdown;
use seawall_testing::wait_until;

use crate::primary::{Primary, SEGMENT_BYTES, copy_directory, options};
use crate::program::{both, ok};

/// The files of a directory by their names.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let file = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
    };
    entries.map(file).collect()
}

/// Every whole file that was received is that of the server, and the one that is not whole begins as it.
fn assert_same(received: &Path, log: &Path, end: u64) -> usize {
    let (received, log) = (files(received), files(log));
    let mut whole = 0;
    for (name, content) in &received {
        match name.strip_suffix(".partial") {
            None => {
                assert!(content == &log[name], "{name} differs");
                whole += 1;
            }
            Some(segment) => {
                let bytes = usize::try_from(end % SEGMENT_BYTES).unwrap();
                assert!(content[..bytes] == log[segment][..bytes], "{name} differs before {end:#X}");
            }
        }
    }
    whole
}

#[test]
fn the_log_is_received_resumed_after_a_kill_and_recovered_from() {
    let directory = tempfile::tempdir().unwrap();
    let (data, copy) = (directory.path().join("data"), directory.path().join("copy"));
    let received = directory.path().join("received");
    std::fs::create_dir(&received).unwrap();
    Primary::over(Database::open(&data, options()).unwrap()).close();
    copy_directory(&data, &copy);

    let primary = Primary::over(Database::open(&data, options()).unwrap());
    let Some(mut create) = primary.program("pg_receivewal") else { return };
    ok(create.args(["--create-slot", "-S", "tool"]));
    let mut running = primary.program("pg_receivewal").unwrap();
    running.args(["-D", received.to_str().unwrap(), "-S", "tool", "--synchronous", "-n"]);
    let mut running = running.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    primary.write(3);
    // In the middle of a segment. The slot follows what the tool has made durable.
    let kept = || primary.sql.replication.slot("tool").unwrap().position.get();
    wait_until("the slot has followed", || kept() >= primary.end_of_log());
    assert!(files(&received).keys().any(|name| !name.ends_with(".partial")));
    running.kill().unwrap();
    running.wait().unwrap();
    let is_active = || primary.sql.replication.slot("tool").unwrap().active.is_some();
    wait_until("the slot is free", || !is_active());
    primary.write(3);
    primary.receive(&received, "tool");
    let whole = assert_same(&received, &data.join("log"), primary.end_of_log());
    assert!(whole >= 5, "{whole} whole segments");
    let sum = primary.sql("select count(*), sum(a) from t");

    // An older copy of the directory and the received files are the database.
    for (name, content) in files(&received) {
        let name = name.trim_end_matches(".partial");
        std::fs::write(copy.join("log").join(name), content).unwrap();
    }
    let recovered = Primary::over(Database::open(&copy, options()).unwrap());
    assert_eq!(recovered.sql("select count(*), sum(a) from t"), sum);
    recovered.close();
    primary.close();
}

#[test]
fn a_new_timeline_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let received = directory.path().join("received");
    std::fs::create_dir(&received).unwrap();
    let primary = Primary::over(Database::open(&data, options()).unwrap());
    let Some(mut create) = primary.program("pg_receivewal") else { return };
    ok(create.args(["--create-slot", "-S", "tool"]));
    primary.write(2);
    primary.receive(&received, "tool");
    // After the tool has gone.
    primary.write(2);
    primary.close();
    let promoted = DatabaseDirectory::at(&data).open_on_new_timeline(options(), "a test").unwrap();
    let primary = Primary::over(promoted);
    primary.write(2);
    primary.receive(&received, "tool");
    let names: Vec<String> = files(&received).into_keys().collect();
    assert!(names.contains(&"00000002.history".to_owned()), "{names:?}");
    let of_timeline = |number: &str| names.iter().filter(|name| name.starts_with(number)).count();
    assert!(of_timeline("0000000100000000") >= 4 && of_timeline("0000000200000000") >= 2, "{names:?}");
    let log = data.join("log");
    for (name, content) in files(&received) {
        // The end of the old timeline stays partial, and the server may have recycled it.
        if name.starts_with("00000002") && !name.ends_with(".partial") && !name.ends_with(".history") {
            assert!(content == std::fs::read(log.join(&name)).unwrap(), "{name} differs");
        }
    }
    let history = std::fs::read(log.join("00000002.history")).unwrap();
    assert_eq!(files(&received)["00000002.history"], history);
    primary.close();
}

#[test]
fn commands_answer_and_refuse_as_postgresql() {
    let directory = tempfile::tempdir().unwrap();
    let primary = Primary::over(Database::open(directory.path().join("data"), options()).unwrap());
    if primary.program("psql").is_none() {
        return;
    }
    primary.sql("create role reader login");
    primary.sql("create role streamer login replication");
    let as_role = |role: &str| {
        let connection = format!("replication=true user={role}");
        let output = primary
            .program("psql")
            .unwrap()
            .args(["-X", "-A", "-t", "-d", &connection, "-c", "IDENTIFY_SYSTEM"])
            .output();
        both(&output.unwrap())
    };
    assert!(as_role("reader").contains("FATAL:  must be superuser or replication role to start walsender"));
    assert!(as_role("streamer").contains("|1|0/"));

    assert_eq!(primary.command("SHOW wal_segment_size"), "1MB");
    assert_eq!(primary.command("SHOW data_directory_mode"), "0700");
    let created = primary.command("CREATE_REPLICATION_SLOT a PHYSICAL (RESERVE_WAL)");
    assert!(created.starts_with("a|0/") && created.ends_with("||"), "{created}");
    for (command, expected) in [
        ("CREATE_REPLICATION_SLOT a PHYSICAL", "ERROR:  replication slot \"a\" already exists"),
        ("CREATE_REPLICATION_SLOT \"A b\" PHYSICAL", "ERROR:  replication slot name \"A b\" is not valid"),
        ("CREATE_REPLICATION_SLOT b LOGICAL pgoutput", "ERROR:  logical replication is not supported"),
        ("DROP_REPLICATION_SLOT b", "ERROR:  replication slot \"b\" does not exist"),
        ("READ_REPLICATION_SLOT b", "||"),
        ("TIMELINE_HISTORY 7", "ERROR:  could not open the history of timeline 7"),
        ("START_REPLICATION SLOT b 0/0", "ERROR:  replication slot \"b\" does not exist"),
        (
            "START_REPLICATION 7F/0",
            "ERROR:  requested starting point 7F/0 is ahead of the WAL flush position",
        ),
        (
            "START_REPLICATION 0/0 TIMELINE 3",
            "ERROR:  requested starting point 0/0 on timeline 3 is not in this server's history",
        ),
        ("select 1", "ERROR:  syntax error at or near \"select\""),
    ] {
        let said = primary.command(command);
        assert!(said.contains(expected), "{command}: {said}");
    }
    // A temporary slot ends with its connection.
    primary.command("CREATE_REPLICATION_SLOT passing TEMPORARY PHYSICAL");
    wait_until("the temporary slot is gone", || primary.sql.replication.slots().unwrap().len() == 1);
    assert_eq!(primary.command("DROP_REPLICATION_SLOT a"), "DROP_REPLICATION_SLOT");
    assert_eq!(primary.sql.replication.slots().unwrap(), []);
    primary.close();
}

#[test]
fn a_smart_shutdown_does_not_wait_for_receivers() {
    let directory = tempfile::tempdir().unwrap();
    let (data, received) = (directory.path().join("data"), directory.path().join("received"));
    std::fs::create_dir(&received).unwrap();
    let mut primary = Primary::over(Database::open(&data, options()).unwrap());
    let Some(mut running) = primary.program("pg_receivewal") else { return };
    running.args(["-D", received.to_str().unwrap(), "-n"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = running.spawn().unwrap();
    wait_until("a stream begins", || primary.sql.replication.senders().len() == 1);
    primary.write(3);
    let end = primary.end_of_log();
    let sent = || primary.sql.replication.senders()[0].sent.get();
    wait_until("everything is sent", || sent() >= end);
    primary.served.end(Shutdown::Smart);
    assert!(!running.wait().unwrap().success(), "the stream was not ended");
    let whole = assert_same(&received, &data.join("log"), end);
    assert!(whole >= 1, "{whole} whole segments of {:?}", files(&received).keys());
    primary.close();
}
