//! A server whose disk fills up: changes are refused, reads go on, and nothing that was acknowledged is lost.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::Command;

use seawall_testing::wait_until;

use crate::client::Client;
use crate::own_mounts::in_own_mounts;
use crate::process::{Failure, Place, answered, rows, value};
use crate::standbys::{WRITTEN, followed, wait_for};

/// A file system in memory, which is unmounted when this is dropped.
struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    fn mount(path: PathBuf, size: &str) -> SmallDisk {
        std::fs::create_dir(&path).unwrap();
        let options = format!("mode=0700,size={size}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path).status();
        assert!(mounted.unwrap().success());
        SmallDisk { path }
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }

    /// Takes so many bytes, or all that are left.
    #[expect(clippy::disallowed_methods, reason = "a file of the test, not of a database")]
    fn fill(&self, bytes: usize) {
        let mut file = std::fs::File::create(self.filler()).unwrap();
        let piece = [1; 1 << 12];
        for _ in 0..bytes / piece.len() {
            match file.write_all(&piece) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a file of the test, not of a database")]
    fn free(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It ends with the mounts of this test in any case.
        Command::new("umount").arg("--lazy").arg(&self.path).status().map(drop).unwrap_or_default();
    }
}

/// Rows of 10,000 bytes each, by number.
fn insert(client: &mut Client, number: u64) -> Result<(), Failure> {
    answered(client, &format!("insert into t values ({number}, repeat(md5('{number}'), 320))")).map(drop)
}

fn is_disk_full(failure: &Failure) -> bool {
    matches!(failure, Failure::Told { code, .. } if code == "53100")
}

/// Inserts rows from `next` on until one is refused; returns the number of that one.
fn until_full(client: &mut Client, next: u64) -> u64 {
    for number in next.. {
        if let Err(failure) = insert(client, number) {
            assert!(is_disk_full(&failure), "row {number}: {failure:?}");
            return number;
        }
    }
    unreachable!("the disk is small")
}

fn has_rows(client: &mut Client, count: u64) {
    let sound = "select count(*) from t where b = repeat(md5(a::text), 320)";
    assert_eq!(value(client, sound), count.to_string());
    assert_eq!(value(client, "select count(*) from t"), count.to_string());
}

#[test]
fn a_full_disk_refuses_changes_and_loses_nothing() {
    in_own_mounts("full_disk::a_full_disk_refuses_changes_and_loses_nothing", || {
        let place = Place::with_database("disk/db");
        let disk = SmallDisk::mount(place.path().join("disk"), "300m");
        disk.fill(100 << 20);
        let more = ["--memtable-mib", "8"];
        let mut serving = place.serve(&more);
        let mut client = serving.client();
        rows(
            &mut client,
            "create table t (a bigint primary key, b text); create table other as select 1 as n",
        );
        let mut next = until_full(&mut client, 0);
        // The transaction that meets the end of the disk fails, and the session goes on.
        let mut other = serving.client();
        for sql in
            ["update t set b = repeat(b, 20)", "begin; insert into other select generate_series(1, 200000)"]
        {
            let refused = answered(&mut other, sql);
            assert!(refused.as_ref().is_err_and(is_disk_full), "{sql}: {refused:?}");
            rows(&mut other, "rollback");
        }
        has_rows(&mut client, next);
        assert_eq!(value(&mut other, "select count(*) from other"), "1");

        // Where there is room again, the same sessions go on.
        disk.free();
        wait_until("changes are taken again", || insert(&mut client, next).is_ok());
        rows(&mut other, "update other set n = n + 1");
        has_rows(&mut client, next + 1);
        next += 1;

        // A kill on a full disk, and a start there: it may be refused, and loses nothing.
        disk.fill(usize::MAX);
        next = until_full(&mut client, next);
        serving.kill();
        let mut started = place.start(&more);
        started.child.kill().unwrap();
        started.child.wait().unwrap();
        disk.free();
        serving = place.serve(&more);
        client = serving.client();
        has_rows(&mut client, next);
        insert(&mut client, next).unwrap();
        assert_eq!(value(&mut client, "select n from other"), "2");
        drop((client, other));
        serving.end();
        place.check();
    });
}

#[test]
fn temporary_files_leave_a_part_of_the_disk_to_the_database() {
    in_own_mounts("full_disk::temporary_files_leave_a_part_of_the_disk_to_the_database", || {
        let mut place = Place::with_database("disk/db");
        let disk = SmallDisk::mount(place.path().join("disk"), "200m");
        place.temporary_directory = Some(disk.path.clone());
        let serving = place.serve(&["--memtable-mib", "8"]);
        let (mut greedy, mut other) = (serving.client(), serving.client());
        rows(&mut other, "create table t (a bigint primary key, b text)");
        rows(&mut greedy, "set work_mem = '64kB'");
        let mut kept = 0;
        let refused = loop {
            let rows = "select repeat('x', 1000) || i from generate_series(1, 10000) i";
            match answered(&mut greedy, &format!("declare c{kept} cursor with hold for {rows}")) {
                Ok(_) => kept += 1,
                Err(refused) => break refused,
            }
        };
        let Failure::Told { code, line } = &refused else { panic!("{refused:?}") };
        assert!(code == "53100" && line.contains("its volume is nearly full"), "{line}");
        // What was kept before is there, and takes its part of the disk meanwhile.
        let volume = rustix::fs::statvfs(&disk.path).unwrap();
        let (free, all) = (volume.f_bavail, volume.f_blocks);
        assert!(free > all / 20 - (1 << 20) / volume.f_frsize, "{free} of {all} blocks");
        for number in 0..100 {
            insert(&mut other, number).unwrap();
        }
        has_rows(&mut other, 100);
        assert!(kept > 3, "{kept}");
        for number in 0..kept {
            let row = value(&mut greedy, &format!("fetch absolute 10000 from c{number}"));
            assert_eq!(row, format!("{}10000", "x".repeat(1000)));
        }
        drop((greedy, other));
        serving.end();
        place.check();
    });
}

/// The primary goes on, readers of the standby do, and the standby itself does when there is room.
#[test]
fn a_standby_on_a_full_disk_is_read_and_goes_on_when_there_is_room() {
    in_own_mounts("full_disk::a_standby_on_a_full_disk_is_read_and_goes_on_when_there_is_room", || {
        let place = Place::with_database("disk/db");
        let primary = place.serve_database("primary", &[]);
        let settings = followed("second", primary.port);
        let follows = ["--follow", &settings[..]];
        let mut client = primary.client();
        rows(&mut client, "create table t (a bigint primary key, b text)");
        let disk = SmallDisk::mount(place.path().join("disk"), "200m");
        let mut standby = place.serve(&follows);
        insert(&mut client, 0).unwrap();
        wait_for(&standby, &primary, WRITTEN);

        disk.fill(usize::MAX);
        let mut next = 1;
        let last_error = || standby.said().contains("No space left") || standby.said().contains("full");
        while !last_error() {
            insert(&mut client, next).unwrap();
            next += 1;
            assert!(next < 40_000, "it needs no room");
        }
        let seen: u64 = value(&mut standby.client(), "select count(*) from t").parse().unwrap();
        has_rows(&mut standby.client(), seen);
        assert!((1..next).contains(&seen));
        // It may be killed, and started, while there is none: what it has is there, or it says why it does not start.
        standby.kill();
        let mut started = place.start(&follows);
        started.child.kill().unwrap();
        started.child.wait().unwrap();
        disk.free();
        standby = place.serve(&follows);
        wait_for(&standby, &primary, WRITTEN);
        has_rows(&mut standby.client(), next);

        // Once more, and the same process goes on.
        disk.fill(usize::MAX);
        let said = standby.said().len();
        let has_said = || standby.said()[said..].contains("No space left");
        while !has_said() {
            insert(&mut client, next).unwrap();
            next += 1;
            assert!(next < 80_000, "it needs no room");
        }
        disk.free();
        wait_for(&standby, &primary, WRITTEN);
        has_rows(&mut standby.client(), next);
        standby.end();
        primary.end();
    });
}
