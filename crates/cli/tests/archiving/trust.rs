//! Who answers on the agent's socket, and who could have put the socket there: an answer of another user's would let PostgreSQL
//! remove what is archived nowhere, or end a recovery too early.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::process::Uid;
use rustix::thread::set_thread_uid;
use seawall_testing::Need;

use crate::cluster::{Cluster, code, is_done, message};

const ANOTHER_USER: u32 = 12_345;

/// Answers whatever is asked with `ok`, until the process ends.
fn answer_all(listener: UnixListener) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            // A command that does not believe it has gone away.
            stream.write_all(b"ok\n").unwrap_or(());
        }
    });
}

fn make(path: &Path, mode: u32) {
    std::fs::create_dir_all(path).unwrap();
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Neither command may take the `ok` on the socket for the agent's.
#[track_caller]
fn is_not_believed(cluster: &Cluster, words: &[&str]) {
    let name = cluster.log.name(0);
    for (output, expected) in [(cluster.push(&name), 1), (cluster.get(&name, "pg_wal/RECOVERYXLOG"), 126)] {
        let said = message(&output);
        assert_eq!(code(&output), expected, "{said}");
        for word in words {
            assert!(said.contains(word), "{word}: {said}");
        }
    }
}

#[test]
fn an_agent_where_others_can_make_sockets_is_not_believed() {
    let cluster = Cluster::new(1);
    let leaf = cluster.leaf_of_spool();
    make(&leaf, 0o777);
    answer_all(UnixListener::bind(leaf.join("agent.socket")).unwrap());
    is_not_believed(&cluster, &[leaf.to_str().unwrap(), "others can write to it", "SEAWALL_SPOOL"]);
}

/// Whoever can rename the directory can put another in its place, after any look at the directory itself.
#[test]
fn an_agent_below_a_directory_that_others_can_write_to_is_not_believed() {
    let cluster = Cluster::new(1);
    let (root, leaf) = (cluster.place("spool"), cluster.leaf_of_spool());
    make(&leaf, 0o700);
    make(Path::new(&root), 0o777);
    let socket = leaf.join("agent.socket");
    answer_all(UnixListener::bind(&socket).unwrap());
    is_not_believed(&cluster, &[&root, "others can write to it"]);
    // In a directory like /tmp, names are their owner's.
    std::fs::remove_file(&socket).unwrap();
    make(Path::new(&root), 0o1777);
    is_done(&cluster.push(&cluster.log.name(0)));
}

#[test]
fn an_agent_below_a_link_of_another_user_is_not_believed() {
    let mut cluster = Cluster::new(1);
    let (real, link) = (cluster.place("spool"), cluster.place("tmp/link"));
    make(Path::new(&cluster.place("tmp")), 0o1777);
    make(Path::new(&real), 0o700);
    std::os::unix::fs::symlink(&real, &link).unwrap();
    cluster.environment = vec![("SEAWALL_SPOOL", link.clone())];
    is_done(&cluster.push(&cluster.log.name(0)));
    is_done(&cluster.run("archive-stop", &[]));
    if let Err(error) = std::os::unix::fs::lchown(&link, Some(ANOTHER_USER), None) {
        Need::Root.skip(format_args!("a link of another user's: {error}"));
        return;
    }
    is_not_believed(&cluster, &[&link, "belongs to user 12345"]);
}

/// A socket on which another user listens.
fn bound_by_another(directory: &Path) -> Option<(UnixListener, PathBuf)> {
    make(directory, 0o777);
    let socket = directory.join("socket");
    let path = socket.clone();
    // The user of this thread alone.
    let bound = std::thread::spawn(move || {
        set_thread_uid(Uid::from_raw(ANOTHER_USER))?;
        UnixListener::bind(path)
    });
    match bound.join().unwrap() {
        Ok(listener) => Some((listener, socket)),
        Err(error) => {
            Need::Root.skip(format_args!("a socket of another user's: {error}"));
            None
        }
    }
}

#[test]
fn an_agent_of_another_user_is_not_believed() {
    let cluster = Cluster::new(1);
    // Tests run where another user may have no access.
    make(cluster.directory.path(), 0o755);
    let Some((listener, socket)) = bound_by_another(Path::new(&cluster.place("theirs"))) else { return };
    answer_all(listener);
    let leaf = cluster.leaf_of_spool();
    make(&leaf, 0o700);
    std::fs::rename(socket, leaf.join("agent.socket")).unwrap();
    is_not_believed(&cluster, &["user 12345"]);
    assert_eq!(code(&cluster.run("archive-status", &[])), 1);
}

/// Without a spool that is named, there is one in the user's own home, whatever the environment of a call says: else one data directory
/// could have two agents, which know nothing of each other's notes.
#[test]
fn the_default_spool_is_one_for_all_calls_of_a_user() {
    let cluster = Cluster::new(0);
    let (home, state) = (cluster.place("home"), cluster.place("state"));
    let place = |variables: &[(&str, &str)]| {
        let mut command = cluster.command("archive-status", &[]);
        command.env_remove("SEAWALL_SPOOL").env_remove("XDG_STATE_HOME").env_remove("HOME");
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let said = message(&output);
        assert!(code(&output) == 1 && said.contains("no agent runs"), "{said}");
        said
    };
    let expected = place(&[]);
    let leaf = cluster.leaf_of_spool().file_name().unwrap().to_str().unwrap().to_owned();
    assert!(expected.contains(&format!("seawall/{leaf}")), "the spool is named: {expected}");
    assert!(!expected.contains("with the spool /tmp"), "{expected}");
    for variables in [&[("HOME", home.as_str())][..], &[("XDG_STATE_HOME", state.as_str())]] {
        assert_eq!(place(variables), expected, "{variables:?}");
    }
}

/// /tmp is emptied when the machine starts, and cleaned between: not a place for what must not be forgotten.
#[test]
fn what_has_to_be_remembered_is_not_left_to_a_spool_in_tmp() {
    let mut cluster = Cluster::new(1);
    cluster.make("second");
    let spool = tempfile::tempdir_in("/tmp").unwrap();
    let link = cluster.place("link");
    std::os::unix::fs::symlink(spool.path(), &link).unwrap();
    for spool in [spool.path().to_str().unwrap(), &link] {
        cluster.environment = vec![("SEAWALL_SPOOL", spool.to_owned())];
        for (option, word) in [
            ("--queue-max=1GiB".to_owned(), "queue_max"),
            (format!("--optional-repository={}", cluster.place("second")), "optional_repository"),
        ] {
            cluster.options = vec![option];
            for output in [cluster.push(&cluster.log.name(0)), cluster.run("archive-socket", &[])] {
                let said = message(&output);
                assert_eq!(code(&output), 1, "{said}");
                assert!(
                    said.contains(word) && said.contains("/tmp") && said.contains("SEAWALL_SPOOL"),
                    "{said}"
                );
            }
            // A drill has its spool there, and leaves nothing to remember.
            let output = cluster.get("00000009.history", "pg_wal/RECOVERYHISTORY");
            assert_eq!((code(&output), message(&output)), (1, String::new()));
        }
        cluster.options.clear();
        cluster.run("archive-stop", &[]);
        is_done(&cluster.push(&cluster.log.name(0)));
        // There is none where the segment was acknowledged before.
        cluster.run("archive-stop", &[]);
    }
}
