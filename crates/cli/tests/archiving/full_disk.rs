//! A spool on a disk that is full, of bytes or of files.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::Command;

use crate::cluster::{Cluster, code, is_done, message};
use crate::own_mounts::in_own_mounts;
use crate::postgresql_log::PostgreSqlLog;

/// A file system in memory, in the place of the spool.
struct SmallDisk<'a> {
    cluster: &'a Cluster,
    path: String,
}

impl SmallDisk<'_> {
    fn mount<'a>(cluster: &'a Cluster, options: &str) -> SmallDisk<'a> {
        let path = cluster.place("spool");
        std::fs::create_dir(&path).unwrap();
        let disk = SmallDisk { cluster, path };
        disk.run("mount", &["-t", "tmpfs", "-o", &format!("mode=0700,{options}"), "tmpfs"]);
        disk
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let output = Command::new(program).args(arguments).arg(&self.path).output().unwrap();
        assert!(output.status.success(), "{}", message(&output));
    }

    fn filler(&self) -> PathBuf {
        PathBuf::from(&self.path).join("filler")
    }

    /// Until there is no space for a single byte.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.filler()).unwrap();
        let mut piece = vec![1; 1 << 12];
        loop {
            match file.write_all(&piece) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull && piece.len() == 1 => return,
                Err(error) if error.kind() == ErrorKind::StorageFull => piece.truncate(piece.len() / 2),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        self.cluster.run("archive-stop", &[]);
        self.run("umount", &["--lazy"]);
    }
}

#[test]
fn where_the_spool_is_full_what_is_archived_is_and_nothing_else_is_acknowledged() {
    in_own_mounts(
        "full_disk::where_the_spool_is_full_what_is_archived_is_and_nothing_else_is_acknowledged",
        || {
            let cluster = Cluster::new(4);
            let names: Vec<String> = (0..4).map(|index| cluster.log.name(index)).collect();
            let disk = SmallDisk::mount(&cluster, "size=256k");
            is_done(&cluster.push(&names[0]));
            disk.fill();
            let acknowledged = |name: &str| cluster.spool().join(format!("out/{name}.ok")).exists();
            cluster.add("00000002.history", b"1\t0/3000158\tx\n");
            is_done(&cluster.push("00000002.history"));
            assert!(!acknowledged("00000002.history"));
            // Nor can the agent write to its log; another one works all the same.
            cluster.kill_agent();
            for name in &names {
                is_done(&cluster.push(name));
                assert!(cluster.path_in_repository(name).is_file());
                is_done(&cluster.get(name, "pg_wal/RECOVERYXLOG"));
            }
            cluster.rename("repository", "unmounted");
            cluster.add("00000003.history", b"1\t0/3000158\tx\n");
            for _ in 0..2 {
                let output = cluster.push("00000003.history");
                assert!(code(&output) == 1 && message(&output).contains("mounted"), "{}", message(&output));
            }
            cluster.rename("unmounted", "repository");
            disk.free();
            while code(&cluster.push("00000003.history")) != 0 {}
            is_done(&cluster.push(&names[3]));
            assert!(acknowledged("00000003.history") && acknowledged(&names[3]));
        },
    );
}

#[test]
fn a_spool_that_takes_no_file_is_told_with_advice() {
    in_own_mounts("full_disk::a_spool_that_takes_no_file_is_told_with_advice", || {
        let cluster = Cluster::new(1);
        let disk = SmallDisk::mount(&cluster, "nr_inodes=3");
        let output = cluster.push(&cluster.log.name(0));
        let said = message(&output);
        assert_eq!(code(&output), 1, "{said}");
        assert!(said.contains(&disk.path) && said.contains("No space left"), "{said}");
        assert!(said.contains("make space") && said.contains("SEAWALL_SPOOL"), "{said}");
        disk.run("mount", &["-o", "remount,nr_inodes=100"]);
        is_done(&cluster.push(&cluster.log.name(0)));
    });
}

#[test]
fn no_segment_is_let_go_that_the_spool_cannot_remember() {
    in_own_mounts("full_disk::no_segment_is_let_go_that_the_spool_cannot_remember", || {
        let mut cluster = Cluster::new(0);
        cluster.options = crate::cluster::limited_to(2);
        let disk = SmallDisk::mount(&cluster, "size=256k");
        is_done(&cluster.push_other("00000002.history"));
        cluster.rename("repository", "unmounted");
        let mut log = PostgreSqlLog::new(crate::cluster::SYSTEM);
        log.fill(4, 300);
        for index in 0..4 {
            cluster.add(&log.name(index), &log.segment(index));
        }
        disk.fill();
        let name = log.name(0);
        let mut said = String::new();
        while !said.contains("cannot be noted") {
            let output = cluster.push(&name);
            said = message(&output);
            assert_eq!(code(&output), 1, "{said}");
        }
        assert!(said.contains(&disk.path) && said.contains("make space"), "{said}");
        assert!(!cluster.spool().join("gaps").exists());
        disk.free();
        let mut output = cluster.push(&name);
        while code(&output) != 0 {
            output = cluster.push(&name);
        }
        assert!(message(&output).contains("GAP"), "{}", message(&output));
        assert!(std::fs::read_to_string(cluster.spool().join("gaps")).unwrap().contains(&name));
    });
}
