//! Notices that the directory of an open database was moved.
//!
//! The database stays in the directory that it has locked, so nothing is lost and nothing of another database is touched. But whoever
//! moved the directory may believe that no process works in it any more.

use seawall_io::Disk;
use seawall_sync::Mutex;

/// Where the directory was when it was last looked for.
#[derive(Debug)]
pub(crate) struct KnownPlace(Mutex<String>);

impl KnownPlace {
    pub(crate) fn new(disk: &dyn Disk) -> KnownPlace {
        KnownPlace(Mutex::new(disk.location("")))
    }

    /// Looks where the directory is, and warns once of each move.
    pub(crate) fn look(&self, disk: &dyn Disk) {
        let now = disk.location("");
        let mut known = self.0.lock();
        if *known != now {
            tracing::warn!(
                from = *known,
                to = now,
                "the directory of an open database was moved: the database works on in it"
            );
            *known = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use crate::{Database, Options};

    const IN_CHILD: &str = "SEAWALL_TEST_CHANGES_DIRECTORY";

    /// What the process does that the test below starts: nobody else may share its working directory.
    #[test]
    fn child_that_changes_its_working_directory() {
        if std::env::var_os(IN_CHILD).is_none() {
            return;
        }
        let database = Database::open("db", Options::default()).unwrap();
        std::env::set_current_dir("/").unwrap();
        database.checkpoint().unwrap();
        println!("the directory is {}", database.directory());
        database.close().unwrap();
    }

    #[test]
    fn a_daemon_that_changes_its_working_directory_has_moved_no_database() {
        let scratch = tempfile::tempdir().unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "moved::tests::child_that_changes_its_working_directory", "--nocapture"])
            .env(IN_CHILD, "1")
            .current_dir(scratch.path())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said}");
        assert!(said.contains("the directory is db\n"), "{said}");
    }
}
