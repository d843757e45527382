//! Spools that cannot be used, agents that are killed or do not go, messages that nobody takes, clocks that were set back.

use std::fs::File;

use crate::cluster::{Cluster, code, is_done};

/// PostgreSQL takes every exit code up to 125 for the end of the archive, also that of a program that could not say what is wrong
/// because the disk of the log is full.
#[test]
fn exit_codes_are_the_same_where_the_message_cannot_be_written() {
    let cluster = Cluster::new(1);
    let name = cluster.log.name(0);
    is_done(&cluster.push(&name));
    let path = cluster.path_in_repository(&name);
    let mut object = std::fs::read(&path).unwrap();
    let middle = object.len() / 2;
    object[middle] ^= 1;
    std::fs::write(&path, object).unwrap();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for (command, arguments, expected) in [
        ("archive-get", &[name.as_str(), "pg_wal/RECOVERYXLOG"][..], 126),
        ("archive-get", &["only one"], 126),
        ("archive-push", &["pg_wal/000000010000000000000077"], 1),
        ("archive-status", &["--no-such-option"], 1),
    ] {
        let mut command = cluster.command(command, arguments);
        let status = command.stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(expected), "{command:?}");
    }
}
