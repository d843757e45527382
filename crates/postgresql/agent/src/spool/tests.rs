//! Tests of the spool.

use std::os::unix::fs::PermissionsExt;

use seawall_mounted_disk::files_after_power_loss;
use seawall_testing::Need;
use seawall_types::TimelineId;

use super::*;

const SYSTEM: System = System::PostgreSql(7);

#[test]
fn an_acknowledgement_is_of_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let spool = Spool::new(directory.path().join("spool"), 7);
    spool.prepare().unwrap();
    spool.prepare().unwrap();
    assert_eq!(spool.mark(), None, "no agent has opened a repository");
    spool.note_repositories(&BTreeMap::from([("1a2b3c4d".to_owned(), "an id".to_owned())])).unwrap();
    let file = directory.path().join("000000010000000000000001");
    let identity = || FileIdentity::of(&std::fs::metadata(&file).unwrap());
    std::fs::write(&file, b"content").unwrap();
    let first = identity();
    assert!(!spool.is_acknowledged("000000010000000000000001", first));
    spool.note_error("000000010000000000000001", "the store is down").unwrap();
    spool.acknowledge("000000010000000000000001", first, spool.mark().unwrap()).unwrap();
    assert!(spool.is_acknowledged("000000010000000000000001", first));
    assert_eq!(spool.acknowledged().unwrap(), ["000000010000000000000001"]);
    assert!(!spool.is_acknowledged("000000010000000000000002", first));
    // Another file in its place.
    let other = directory.path().join("other");
    std::fs::write(&other, b"CONTENT").unwrap();
    assert!(
        !spool.is_acknowledged(
            "000000010000000000000001",
            FileIdentity::of(&std::fs::metadata(&other).unwrap())
        )
    );
    // Nor do other repositories have it.
    let other = Spool::new(directory.path().join("spool"), 8);
    assert!(!other.is_acknowledged("000000010000000000000001", first));
    // A torn acknowledgement is none.
    let path = directory.path().join("spool/out/000000010000000000000001.ok");
    let line = std::fs::read(&path).unwrap();
    for length in 0..line.len() {
        std::fs::write(&path, &line[..length]).unwrap();
        assert!(!spool.is_acknowledged("000000010000000000000001", first), "length {length}");
    }
    spool.forget("000000010000000000000001").unwrap();
    spool.forget("000000010000000000000001").unwrap();
    assert!(spool.acknowledged().unwrap().is_empty());
}

/// It is in a repository that is not there any more.
#[test]
fn an_acknowledgement_counts_no_more_when_a_repository_was_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let spool = Spool::new(directory.path().join("spool"), 7);
    spool.prepare().unwrap();
    let ids = |id: &str| BTreeMap::from([("1a2b3c4d".to_owned(), id.to_owned())]);
    spool.note_repositories(&ids("first")).unwrap();
    let identity = FileIdentity::of(&std::fs::metadata(directory.path()).unwrap());
    let before = spool.mark().unwrap();
    spool.acknowledge("a", identity, before).unwrap();
    spool.note_repositories(&ids("first")).unwrap();
    assert!(spool.is_acknowledged("a", identity));
    spool.note_repositories(&ids("second")).unwrap();
    assert_eq!(spool.repositories().unwrap(), ids("second"));
    assert!(!spool.is_acknowledged("a", identity));
    // It was put before, and is acknowledged after.
    spool.acknowledge("a", identity, before).unwrap();
    assert!(!spool.is_acknowledged("a", identity));
}

#[test]
fn a_copy_is_pending_until_the_repository_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let spool = Spool::new(directory.path().join("spool"), 7);
    spool.prepare().unwrap();
    assert!(spool.pending_copies(SYSTEM, "1a2b3c4d").unwrap().is_empty());
    spool.note_pending_copy(SYSTEM, "1a2b3c4d", "000000010000000000000001").unwrap();
    spool.note_pending_copy(SYSTEM, "1a2b3c4d", "000000010000000000000001").unwrap();
    assert_eq!(spool.pending_copies(SYSTEM, "1a2b3c4d").unwrap(), ["000000010000000000000001"]);
    assert!(spool.pending_copies(SYSTEM, "4d3c2b1a").unwrap().is_empty());
    assert!(spool.pending_copies(System::PostgreSql(8), "1a2b3c4d").unwrap().is_empty());
    spool.note_copied(SYSTEM, "1a2b3c4d", "000000010000000000000001").unwrap();
    spool.note_copied(SYSTEM, "1a2b3c4d", "000000010000000000000001").unwrap();
    assert!(spool.pending_copies(SYSTEM, "1a2b3c4d").unwrap().is_empty());
}

#[test]
fn what_was_left_out_is_read_back_and_nothing_else_is() {
    let directory = tempfile::tempdir().unwrap();
    let spool = Spool::new(directory.path().to_owned(), 7);
    assert!(spool.gap_notes().unwrap().is_empty());
    let Some(LogFileName::Segment(place)) = LogFileName::parse("000000010000000000000007") else { panic!() };
    let note = |noticed_micros| GapNote {
        system: SYSTEM,
        place,
        segment_bytes: 1 << 24,
        noticed_micros,
        recorded: (1..noticed_micros).map(|number| format!("{number:08x}")).collect(),
        reason: "the store is down: 503 Slow Down".to_owned(),
    };
    spool.write_gap_notes(&[note(1), note(2), note(3)]).unwrap();
    assert_eq!(spool.gap_notes().unwrap(), [note(1), note(2), note(3)]);
    spool.write_gap_notes(&[]).unwrap();
    assert!(spool.gap_notes().unwrap().is_empty());
    for (text, advice) in [
        ("version 2\n000000010000000000000007 16\n", "not a segment"),
        // The format before.
        ("postgresql-7 000000010000000000000007 16777216 1 1a2b3c4d down\n", "new base backup"),
    ] {
        std::fs::write(directory.path().join("gaps"), text).unwrap();
        let error = spool.gap_notes().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains(advice), "{error}");
    }
}

/// Notes of the format before, which had no clusters, must not be forgotten silently.
#[test]
fn pending_copies_in_another_format_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let spool = Spool::new(directory.path().join("spool"), 7);
    spool.check_pending_copies().unwrap();
    spool.prepare().unwrap();
    spool.note_pending_copy(SYSTEM, "1a2b3c4d", "000000010000000000000001").unwrap();
    spool.check_pending_copies().unwrap();
    std::fs::create_dir(directory.path().join("spool/owed/1a2b3c4d")).unwrap();
    let error = spool.check_pending_copies().unwrap_err().to_string();
    assert!(error.contains("owed/1a2b3c4d") && error.contains("new base backup"), "{error}");
}

/// As /home often is, or a home that is mounted when it is asked for.
#[test]
fn a_directory_above_that_this_user_cannot_read_is_no_hindrance() {
    const USER: u32 = 12_345;
    let directory = tempfile::tempdir().unwrap();
    let homes = directory.path().join("homes");
    let home = homes.join("user");
    std::fs::create_dir_all(&home).unwrap();
    for (path, mode) in [(directory.path(), 0o711), (&homes, 0o711), (&home, 0o700)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    if let Err(error) = std::os::unix::fs::chown(&home, Some(USER), None) {
        return Need::Root.skip(format_args!("a home of another user's: {error}"));
    }
    let spool = Spool::new(home.join(".local/state/seawall/leaf"), 7);
    // The user of this thread alone.
    let prepared = std::thread::spawn(move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(USER)).unwrap();
        spool.prepare()
    });
    prepared.join().unwrap().unwrap();
}

#[test]
fn a_spool_that_others_can_write_to_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let spool = Spool::new(directory.path().join("spool"), 7);
    spool.prepare().unwrap();
    std::fs::set_permissions(directory.path().join("spool/out"), PermissionsExt::from_mode(0o777)).unwrap();
    assert_eq!(spool.prepare().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn a_lock_is_held_by_one() {
    let directory = tempfile::tempdir().unwrap();
    let spool = Spool::new(directory.path().to_owned(), 7);
    spool.prepare().unwrap();
    let held = spool.try_lock(Lock::Agent).unwrap();
    assert!(held.is_some() && spool.try_lock(Lock::Agent).unwrap().is_none());
    assert!(spool.try_lock(Lock::Start).unwrap().is_some());
    drop(held);
    assert!(spool.try_lock(Lock::Agent).unwrap().is_some());
}

/// PostgreSQL removes what it was told is archived: what the spool says of it must not be lost with the power.
#[test]
fn pending_copies_and_what_was_left_out_survive_a_power_loss() {
    let note = |digits: u64| GapNote {
        system: SYSTEM,
        place: SegmentPlace { timeline: TimelineId::FIRST, digits },
        segment_bytes: 16 << 20,
        noticed_micros: 7,
        recorded: BTreeSet::new(),
        reason: "a limit".to_owned(),
    };
    let name = "000000010000000000000001";
    let left = files_after_power_loss(|directory| {
        let spool = Spool::new(directory.join("new/spool"), 1);
        spool.prepare().unwrap();
        spool.note_pending_copy(SYSTEM, "first", name).unwrap();
        spool.write_gap_notes(&[note(1)]).unwrap();
        spool.write_gap_notes(&[note(1), note(2)]).unwrap();
        spool.note_pending_copy(SYSTEM, "second", name).unwrap();
        for id in ["before", "after"] {
            spool.note_repositories(&BTreeMap::from([("1a2b3c4d".to_owned(), id.to_owned())])).unwrap();
        }
    });
    let left = match left {
        Ok(left) => left,
        Err(error) => return Need::Fuse.skip(error),
    };
    for repository in ["first", "second"] {
        let pending = format!("new/spool/owed/{SYSTEM}/{repository}/{name}");
        assert!(left.read_file(&pending).is_some(), "{pending} was lost");
    }
    // Else a repository that was replaced would count again.
    assert_eq!(left.read_file("new/spool/repositories").as_deref(), Some(&b"1a2b3c4d after\n"[..]));
    let directory = tempfile::tempdir().unwrap();
    let gaps = left.read_file("new/spool/gaps").expect("the notes were lost");
    std::fs::write(directory.path().join("gaps"), gaps).unwrap();
    assert_eq!(Spool::new(directory.path().to_owned(), 1).gap_notes().unwrap(), [note(1), note(2)]);
}
